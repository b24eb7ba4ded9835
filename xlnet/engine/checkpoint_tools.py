"""Tools for checkpoints: inspect, compare, strip, average.

They take the weights for inference: the EMA where a run kept it. They write weights and their step
to a new directory, with the architecture, the vocabulary and the task, as in `best/`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np

from xlnet import files
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.errors import UserError

_STEP = "global_step"


# ---- inspect ----

class Variable(NamedTuple):
    """A variable of a checkpoint; `norm` is Euclidean, `bad` counts NaN and infinite numbers."""
    name: str
    shape: tuple[int, ...]
    dtype: str
    size: int
    norm: float
    largest: float
    bad: int


class Contents(NamedTuple):
    """A checkpoint: its step, its weights, and other variables, such as optimizer slots."""
    step: Optional[int]
    weights: list[Variable]
    others: list[Variable]


def inspect(prefix: str) -> Contents:
    """The variables of a checkpoint, sorted by name."""
    names = sorted(checkpoint.names(prefix))
    weights = set(checkpoint.places_of(names).values())
    found = [_measure(name, array) for name, array in zip(names, checkpoint.arrays(prefix, names))
             if name != _STEP]
    return Contents(next(map(int, _steps(prefix).values()), None),
                    [variable for variable in found if variable.name in weights],
                    [variable for variable in found if variable.name not in weights])


def _steps(prefix):
    """{"global_step": array}; empty for released checkpoints, which have none."""
    names = [name for name in checkpoint.names(prefix) if name == _STEP]
    return dict(zip(names, checkpoint.arrays(prefix, names)))


def _measure(name, array):
    wide = array.astype(np.float64).ravel()
    is_good = np.isfinite(wide)
    good = wide[is_good]
    return Variable(name, array.shape, str(array.dtype), array.size, float(np.sqrt(good @ good)),
                    float(np.abs(good).max(initial=0)), int(array.size - is_good.sum()))


# ---- compare ----

class Difference(NamedTuple):
    """The largest difference of a weight, and its ratio to the largest number of the first
    checkpoint. Both are NaN if only one of two numbers is NaN."""
    name: str
    largest: float
    relative: float


class Comparison(NamedTuple):
    """Two checkpoints: differences of the common weights, the largest first; names only in the
    first; names only in the second; (name, shape, shape) of weights whose shapes differ."""
    differences: list[Difference]
    only_first: list[str]
    only_second: list[str]
    shapes: list[tuple[str, tuple[int, ...], tuple[int, ...]]]


def compare(first: str, second: str) -> Comparison:
    """Compares the weights of two checkpoints, given by prefix."""
    a, b = checkpoint.read_weights(first), checkpoint.read_weights(second)
    both = sorted(set(a) & set(b))
    differences = [_difference(name, a[name], b[name]) for name in both
                   if a[name].shape == b[name].shape]
    differences.sort(key=lambda one: (not np.isnan(one.largest), -one.largest, one.name))
    return Comparison(
        differences, sorted(set(a) - set(b)), sorted(set(b) - set(a)),
        [(name, a[name].shape, b[name].shape) for name in both if a[name].shape != b[name].shape])


def _difference(name, a, b):
    with np.errstate(invalid="ignore"):
        apart = np.abs(a.astype(np.float64) - b)
    apart[a == b] = 0               # infinite in both
    apart[np.isnan(a) & np.isnan(b)] = 0
    largest, scale = float(apart.max(initial=0)), float(np.abs(a).max(initial=0))
    return Difference(name, largest, largest / scale if scale else float(largest > 0))


# ---- write another one ----

def average(prefixes: Sequence[str], target: str) -> None:
    """Writes the mean of the weights of several checkpoints, without the optimizer's slots; step
    and files are the last one's. Of one checkpoint it writes the weights.

    Raises:
      UserError: they have different variables or shapes, or `target` is not a new or an empty
        directory.
    """
    sums = {name: array.astype(np.float64)
            for name, array in checkpoint.read_weights(prefixes[0]).items()}
    for prefix in prefixes[1:]:
        arrays = checkpoint.read_weights(prefix)
        _check_same(sums, arrays, prefixes[0], prefix)
        for name, array in arrays.items():
            sums[name] += array
    _write(target, prefixes[-1], {name: (total / len(prefixes)).astype(np.float32)
                                  for name, total in sums.items()})


def _check_same(a, b, first, second):
    for name in sorted(set(a) ^ set(b)):
        raise UserError("%s is in %s, but not in %s" % (
            name, *((first, second) if name in a else (second, first))))
    for name in sorted(a):
        if a[name].shape != b[name].shape:
            raise UserError("%s has shape %s in %s, but %s in %s" % (
                name, list(a[name].shape), first, list(b[name].shape), second))


def last(directory: str, count: int) -> list[str]:
    """The prefixes of the last `count` checkpoints of a run.

    Raises:
      UserError: it has fewer.
    """
    prefixes = [prefix for _, prefix in checkpoint.all_prefixes(directory)]
    if len(prefixes) < count:
        raise UserError("last is %d, but %s has %d checkpoints" % (
            count, directory, len(prefixes)))
    return prefixes[-count:]


def _write(target: str, prefix: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a directory with these weights, and the step, the sidecar files and, if it would be
    found again, the name of the checkpoint `prefix`."""
    name = os.path.basename(prefix)
    if not re.fullmatch(r"model\.ckpt-\d+", name):
        name = checkpoint.RELEASED_NAME
    with files.new_directory(target) as directory:
        best_checkpoint.copy_sidecar_files(prefix, directory)
        checkpoint.write_arrays(os.path.join(directory, name), {**arrays, **_steps(prefix)})
        if checkpoint.all_prefixes(directory):
            checkpoint.note_newest(directory)
