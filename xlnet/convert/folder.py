"""The tensors of a folder of Hugging Face's library: one safetensors file or several."""

from __future__ import annotations

import collections
import math
import os
import re
from collections.abc import Mapping

import numpy as np

from xlnet import files
from xlnet.convert import safetensors
from xlnet.errors import UserError

WEIGHTS_NAME = "model.safetensors"
_INDEX_NAME = WEIGHTS_NAME + ".index.json"
_SHARD_NAME = "model-%05d-of-%05d.safetensors"
_UNITS = {"KB": 10 ** 3, "MB": 10 ** 6, "GB": 10 ** 9,
          "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
NAMES = (WEIGHTS_NAME, _INDEX_NAME, *_PICKLES)      # such a folder has one of them


def read_tensors(folder: str, class_name: str) -> dict[str, np.ndarray]:
    """All tensors by name, float32 arrays.

    Args:
      class_name: of that library, for the error that says how to get safetensors.

    Raises:
      UserError: there is no safetensors file, one is damaged, or the index names a file outside of
        the folder, or a missing file or tensor.
    """
    path, index = (os.path.join(folder, name) for name in (WEIGHTS_NAME, _INDEX_NAME))
    if os.path.exists(path):
        return safetensors.read(path)
    if os.path.exists(index):
        return _read_shards(folder, index)
    for name in _PICKLES:
        if os.path.exists(os.path.join(folder, name)):
            raise UserError(
                "%s has its weights as %s, a pickle, which can run any code when it is read; where "
                "you trust it, and have that library: python -c \"import transformers; "
                "transformers.%s.from_pretrained('%s').save_pretrained('%s', "
                "safe_serialization=True)\"" % (folder, name, class_name, folder, folder))
    raise UserError("%s: no %s and no %s" % (folder, WEIGHTS_NAME, _INDEX_NAME))


def _read_shards(folder, index):
    weight_map = files.read_json(index, "index").get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise UserError("index %s: expected weight_map, an object of names and files" % index)
    tensors: dict[str, np.ndarray] = {}
    shards = collections.Counter(_inside(index, name) for name in weight_map.values())
    for name, count in sorted(shards.items()):
        if not os.path.exists(os.path.join(folder, name)):
            raise UserError("index %s: no file %s next to it, expected %d of its tensors there"
                            % (index, name, count))
        tensors.update(safetensors.read(os.path.join(folder, name)))
    missing = sorted(set(weight_map) - set(tensors))
    if missing:
        raise UserError("index %s: no tensor %s in %s" % (index, missing[0],
                                                          weight_map[missing[0]]))
    return tensors


def _inside(index, name):
    """The name of a file, if it is a plain one, which cannot lead out of the folder."""
    if not isinstance(name, str) or os.path.basename(name) != name or "\\" in name \
            or not name.endswith(".safetensors"):
        raise UserError("index %s: %r is not a file of this folder; expected a plain name that "
                        "ends in .safetensors" % (index, name))
    return name


def parse_size(text: str, role: str) -> int:
    """Bytes of a size as that library writes it: "5GB", "500MB", "2GiB".

    Args:
      role: name of the flag, for the error.

    Raises:
      UserError: the text is not such a size.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMG]i?B)", text, re.IGNORECASE)
    size = float(found[1]) * _UNITS[found[2].upper()] if found else 0.
    if not 1 <= size < math.inf:
        raise UserError("%s: '%s' is not a size, expected one such as 5GB, 500MB or 2GiB"
                        % (role, text))
    return int(size)


def write_tensors(folder: str, tensors: Mapping[str, np.ndarray], dtype: str,
                  max_bytes: int) -> int:
    """Writes float32 arrays as one file, or as several of up to `max_bytes` and an index. A larger
    tensor has its own file.

    Returns:
      The number of files with tensors.

    Raises:
      UserError: as `safetensors.write`.
    """
    shards = _shards(tensors, dtype, max_bytes)
    if len(shards) == 1:
        safetensors.write(os.path.join(folder, WEIGHTS_NAME), tensors, dtype)
        return 1
    weight_map = {}
    for number, names in enumerate(shards, 1):
        file = _SHARD_NAME % (number, len(shards))
        safetensors.write(os.path.join(folder, file), {name: tensors[name] for name in names},
                          dtype)
        weight_map.update(dict.fromkeys(names, file))
    size = sum(safetensors.stored_bytes(array, dtype) for array in tensors.values())
    files.write_json(os.path.join(folder, _INDEX_NAME), {
        "metadata": {"total_size": size}, "weight_map": dict(sorted(weight_map.items()))})
    return len(shards)


def _shards(tensors, dtype, max_bytes):
    """Lists of the names in each file, sorted, as many as fit."""
    shards: list[list[str]] = [[]]
    filled = 0
    for name in sorted(tensors):
        size = safetensors.stored_bytes(tensors[name], dtype)
        if shards[-1] and filled + size > max_bytes:
            shards.append([])
            filled = 0
        shards[-1].append(name)
        filled += size
    return shards
