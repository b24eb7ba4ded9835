"""The work of `preparation` on the workers of a cluster, by Apache Beam, for text that one machine
cannot hold.

Text, tokens and records are files that all workers reach; the runner itself moves no text, only
numbers. Each step of the work is a pipeline of its own, of the features that all runners have. A
worker needs no more memory than a process of data_utils.py, and what is finished is kept if a
pipeline fails.
"""

from __future__ import annotations

import functools
import os
import pickle
import re
from collections.abc import Sequence
from typing import Any, Callable

import apache_beam as beam

from xlnet.corpus import preparation
from xlnet.settings.data import CorpusSettings
from xlnet.support import files
from xlnet.support.errors import UserError, wrong

_MOST = 1024  # elements, each of some chunks or streams
_RESUME = "finished work is kept: run the same command again to resume"


def make_records(settings: CorpusSettings, options: Any = None) -> preparation.Summary:
    """As `preparation.make_records`, on a runner; waits for its end.

    Args:
      settings: of the records.
      options: Beam's `PipelineOptions`; None runs here.
    """
    if settings.num_task > 1:
        expected = "1: Beam divides the text among its workers"
        raise wrong("num_task", settings.num_task, expected)
    folder = preparation.unfinished_folder(settings.save_dir)
    in_parts = functools.partial(_in_pipeline, folder, options)
    return preparation.make_records(settings, in_parts)


def _in_pipeline(
    folder: str,
    options: Any,
    work: Callable[[Any], Any],
    parts: Sequence[Any],
    sizes: Sequence[int],
    description: str,
    *_: object,
) -> list[Any]:
    """As `processes.in_processes`, by a pipeline: returns work(part) of all parts, in order. Work,
    parts and results are files in `folder`, which all workers reach."""
    path = os.path.join(folder, description)
    files.remove_matching(folder, description + "-*")
    _write(path, (work, parts))
    count = min(len(parts), _MOST)
    try:
        with beam.Pipeline(options=options) as pipeline:
            elements = pipeline | beam.Create(range(count))
            _ = elements | description >> beam.Map(_do, path, count)
    except Exception as e:
        raise _in_one_line(e) from e
    results = []
    for element in range(count):
        # A runner that loses its cluster may end without an error, as Dask's does.
        if not files.exists(f"{path}-{element}"):
            raise UserError(f"the pipeline ended before its work did; {_RESUME}")
        results += _read(f"{path}-{element}")
    return results


def _do(element: int, path: str, count: int) -> None:
    """Does one of `count` shares of the work."""
    work, parts = _read(path)
    share = slice(len(parts) * element // count, len(parts) * (element + 1) // count)
    _write(f"{path}-{element}", [work(part) for part in parts[share]])


def _write(path: str, value: Any) -> None:
    """Writes a value to a file, for `_read` on any worker."""
    with files.writing(path) as f:
        pickle.dump(value, f)


def _read(path: str) -> Any:
    """The value that `_write` wrote; a UserError if this worker does not reach the file."""
    if not files.exists(path):
        expected = "a file; all workers must reach save_dir by this name"
        raise wrong(path, "nothing", expected)
    with files.open_binary(path) as f:
        return pickle.load(f)  # noqa: S301 written by this run


def _in_one_line(error: Exception) -> UserError:
    """The `UserError` of a failed pipeline: that of a worker, or what the runner says."""
    text = re.sub(r" \[while running .*", "", str(error)).strip()  # Beam adds the step
    said = re.search(r"UserError: (.+)", text)
    if said or isinstance(error, UserError):
        return UserError(said[1] if said else text)
    reason = (text or "no reason").splitlines()[0]
    return UserError(
        f"the pipeline failed: {type(error).__name__}: {reason}; {_RESUME}"
    )
