"""Makes TensorFlow with GPU code for one kind of GPU, small enough to be copied in a few parts:
211 MB in place of 1.2 GB with its CUDA libraries.

    pip download --no-deps -d wheels tensorflow==2.21.0 nvidia-cuda-runtime-cu12 \\
        nvidia-cuda-nvcc-cu12
    python benchmarks/accelerators/bundle.py wheels bundle --compute_capability=90

What other GPUs need is zeroed in place, so that it packs to nothing; headers, symbols and the
profiler's plugin are left out. The target needs CUDA 13's libraries, as PyTorch brings them:
unpack.sh gives them the names that TensorFlow looks for. Needs readelf, strip and zstd.
"""

import argparse
import collections
import mmap
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import zipfile

# Pure packages that TensorFlow and this library import; the others are with PyTorch and JAX.
PACKAGES = (
    "absl-py astunparse flatbuffers gast google_pasta opt_einsum protobuf six termcolor "
    "wrapt keras namex optree sentencepiece==0.2.1 google-crc32c ijson"
).split()
# Begins the code of one source file for all GPUs.
CONTAINER = struct.pack("<I", 0xBA55ED50)
ELF = 2  # machine code; 1 is PTX
PLUGIN = "python/profiler/internal/_pywrap_profiler_plugin"
LEFT_OUT = "^tensorflow/include/|libcudadevrt|_static.a|/nvvm/lib64/|" + PLUGIN


def keep_only(path, capability):
    """Zeroes all GPU code of a library that is not machine code of one compute capability."""
    table = subprocess.run(
        ["readelf", "-SW", path], capture_output=True, text=True
    ).stdout
    found = re.search(r"\.nv_fatbin\s+PROGBITS\s+\w+\s+(\w+)\s+(\w+)", table)
    if not found:
        return
    position, size = (int(number, 16) for number in found.groups())
    end, kept = position + size, collections.Counter()
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        while (position := data.find(CONTAINER, position, end)) >= 0:
            _, _, header, length = struct.unpack_from("<IHHQ", data, position)
            position, stop = position + header, position + header + length
            while position < stop:  # the entries of a container
                kind, _, header, length, _, _, _, _, target = struct.unpack_from(
                    "<HHIQIIHHI", data, position
                )
                begin, position = position + header, position + header + length
                kept[kind == ELF and target == capability] += length
                if kind != ELF or target != capability:
                    data[begin:position] = bytes(length)
    print(
        f"{path.name}: {kept[True] >> 20} MB of GPU code kept, {kept[False] >> 20} MB zeroed"
    )


def pack(tree, parts, part_bytes):
    """Packs a directory into files of at most `part_bytes` in another one, which is made anew."""
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir()
    # The status of a pipe alone is that of its last program, which reads nothing if one before it
    # is missing.
    subprocess.run(
        [
            *("bash", "-o", "pipefail", "-c"),
            'tar --sort=name -cf - -C "$1" . | zstd -q -T0 -15 --long=28 | split -b "$2" -d - "$3"',
            *("bash", tree, str(part_bytes), parts / "p"),
        ],
        check=True,
    )


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    flags.add_argument("wheels", type=pathlib.Path)
    flags.add_argument("output", type=pathlib.Path)
    flags.add_argument(
        "--compute_capability", type=int, default=90, help="90: H100, H200"
    )
    flags.add_argument("--part_bytes", type=int, default=50_000_000)
    given = flags.parse_args()
    tree = given.output / "tree"
    site = tree / "site"
    for wheel in given.wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as file:
            for name in file.namelist():
                if not re.search(LEFT_OUT, name):
                    file.extract(name, site)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*command, "--target", site, *PACKAGES], check=True)
    (site / "tensorflow" / (PLUGIN + ".py")).write_text("")
    for name in ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2"):
        keep_only(site / "tensorflow" / name, given.compute_capability)
        subprocess.run(["strip", "--strip-all", site / "tensorflow" / name], check=True)
    pack(tree, given.output / "parts", given.part_bytes)


if __name__ == "__main__":
    main()
