"""Shows what an issue about this library should say: versions, devices, precisions, the checkout.

The lines name no user, host or directory.
"""

import dataclasses
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator

import xlnet
from xlnet.commands import cli
from xlnet.settings.fields import Settings
from xlnet.support import quiet

PACKAGES = ("numpy", "scipy", "scikit-learn", "sentencepiece", "protobuf", "keras")
EXTRAS = (
    "tensorflow-text",
    "starlette",
    "uvicorn",
    "pyarrow",
    "apache-beam",
    "tensorboard",
)
_READ_BY_TENSORFLOW = re.compile(
    r"(TF_(?!CLI_|VAR_)|XLA_|CUDA_|NVIDIA_|OMP_|KMP_|XLNET_)"
)
# Instructions of a processor that decide how fast it is: names in /proc/cpuinfo.
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve", "bf16")


@dataclasses.dataclass(frozen=True)
class EnvironmentSettings(Settings):
    """xlnet env: nothing to set."""


def main(settings: EnvironmentSettings) -> None:
    for name, value in lines():
        print(f"{name:<12} {value}")


def lines() -> Iterator[tuple[str, str]]:
    """The lines that are shown: (name, text) of each."""
    yield "xlnet", f"{xlnet.__version__}, {_origin()}"
    yield "system", f"{platform.system()} {platform.release()} {platform.machine()}"
    yield (
        "Python",
        f"{platform.python_version()}{' in Jupyter' if 'ipykernel' in sys.modules else ''}",
    )
    variables = " ".join(_variables())  # before TensorFlow's import sets some
    quiet.import_tensorflow()
    import tensorflow as tf2

    from xlnet.engine import devices

    has_cuda = "with" if tf2.test.is_built_with_cuda() else "without"
    yield "TensorFlow", f"{tf2.__version__}, built {has_cuda} CUDA"
    yield "packages", ", ".join(map(_version, PACKAGES))
    yield "extras", ", ".join(map(_version, EXTRAS))
    cores = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count()
    )
    yield "processor", f"{_processor()}, {cores} cores, {_memory()}"
    gpus = tf2.config.list_physical_devices("GPU")
    yield "GPU", devices.gpu_names(gpus) if gpus else f"none: {devices.why_no_gpu()}"
    yield "variables", variables or "none"


def _origin() -> str:
    """Where the library comes from: a commit of a checkout, or an installed package."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(xlnet.__file__)))
    if not os.path.exists(os.path.join(root, ".git")):
        return "an installed package"
    return (
        f"a checkout of {_git(root, 'describe', '--always', '--dirty', '--exclude=*')}"
    )


def _variables() -> Iterator[str]:
    """The environment variables that change what TensorFlow does; paths are not shown."""
    for name, value in sorted(os.environ.items()):
        if _READ_BY_TENSORFLOW.match(name):
            yield f"{name}={'(a path)' if os.sep in value else value}"


def _git(root: str, *arguments: str) -> str:
    """The output of git; what is unknown if git cannot be run."""
    try:
        done = subprocess.run(
            ["git", "-C", root, *arguments], capture_output=True, text=True
        )
    except OSError:
        return "an unknown commit"
    return done.stdout.strip() or "an unknown commit"


def _version(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{name} none"


def _processor() -> str:
    """The processor's name, and the instructions of it that matter."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            text = f.read()
    except OSError:
        return platform.processor() or "unknown"
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    found = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    known = set(found[1].split()) if found else set()
    instructions = " ".join(each for each in _INSTRUCTIONS if each in known)
    return f"{name[1] if name else platform.machine()} ({instructions or 'none of interest'})"


def _memory() -> str:
    """The memory of the machine."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{size / 2**30:.0f} GiB"


def run() -> None:
    cli.run(main, EnvironmentSettings, about=__doc__ or "")
