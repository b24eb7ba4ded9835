"""The file format: what is written is read, and what is damaged is refused with its place."""

import json
import struct

import numpy as np
import pytest

from xlnet.convert import safetensors
from xlnet.errors import UserError


def file_of(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return str(path)


def entry(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


ARRAYS = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.float32([0.1, -3e38]),
          "scalar": np.array(7, np.float32), "none": np.zeros([0, 4], np.float32)}


def test_what_is_written_is_read(tmp_path):
    path = str(tmp_path / "x.safetensors")
    safetensors.write(path, ARRAYS)
    found = safetensors.read(path)
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("dtype, wide, narrow", (
    # One bit below, at and above the middle between two neighbours; ties go to the even one.
    ("bfloat16", [1.0, 1.00390625, 1.01171875, -1.0078125, np.inf, 1e-40],
     [1.0, 1.0, 1.015625, -1.0078125, np.inf, 2.0 ** -133]),
    ("float16", [1.0, 1.00048828125, 65504.0, -0.0], [1.0, 1.0, 65504.0, -0.0])))
def test_half_precision_is_rounded_to_the_nearest(tmp_path, dtype, wide, narrow):
    path = str(tmp_path / "x.safetensors")
    safetensors.write(path, {"x": np.float32(wide)}, dtype)
    found = safetensors.read(path)["x"]
    np.testing.assert_allclose(found, np.float32(narrow), rtol=1e-6, atol=1e-43)
    before = (tmp_path / "x.safetensors").read_bytes()
    safetensors.write(path, {"x": found}, dtype)         # widening loses nothing
    assert (tmp_path / "x.safetensors").read_bytes() == before


def test_a_number_too_large_for_the_type_is_refused(tmp_path):
    with pytest.raises(UserError, match="x has numbers up to 70000, too large for float16"):
        safetensors.write(str(tmp_path / "x"), {"x": np.float32([1, 70000])}, "float16")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("header, data, length", (
    (b"", b"", None), (b"{}", b"", 1 << 60), (b"not json", b"", None), (b"[" * 100000, b"", None),
    ([], b"", None), ({"x": 3}, b"", None), ({"x": entry([-1], 0, 4)}, b"", None),
    ({"x": entry([1], 0, 8, "F64")}, bytes(8), None),
    ({"x": entry([1], 0, 1, "F8_E5M2")}, bytes(1), None),
    ({"x": entry([2], 0, 4)}, bytes(4), None), ({"x": entry([1], 8, 12)}, bytes(12), None),
    ({"x": entry([1], 0, 4), "y": entry([1], 0, 4)}, bytes(4), None),
    ({"x": entry([2], 0, 8)}, bytes(4), None),
    ({"x": entry([1 << 62], 0, 1 << 64)}, bytes(4), None),
    ({"x": entry([1], 0, 4)}, bytes(6), None)))
def test_what_is_damaged_is_refused(tmp_path, header, data, length):
    path = file_of(tmp_path / "x.safetensors", header, data, length)
    with pytest.raises(UserError, match="damaged|is of type F.*, expected") as error:
        safetensors.read(path)
    assert str(error.value).startswith(path) and "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(UserError, match="^safetensors: no such file: %s$" % path):
        safetensors.read(str(path))
