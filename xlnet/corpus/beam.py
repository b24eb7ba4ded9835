"""The work of `preparation` on the workers of a cluster, by Apache Beam, for text that one machine
cannot hold.

Text, tokens and records are files that all workers reach; the runner itself moves no text, only
numbers. Each step of the work is a pipeline of its own, which uses only what all runners support. A
worker needs no more memory than a process of data_utils.py. If a pipeline fails, the files that are
complete are kept.
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

_MOST_BUNDLES = 1024  # into which the chunks or streams of a step are divided
_RESUME = "finished work is kept: run the same command again to resume"


def make_records(settings: CorpusSettings, options: Any = None) -> preparation.Summary:
    """Makes records as `preparation.make_records` does, with Beam's workers; returns its summary
    when the work is done.

    Args:
      settings: of the records.
      options: Beam's `PipelineOptions`, which choose the runner; None: Beam's own, on this machine.
    """
    if settings.num_task > 1:
        expected = "1: Beam divides the text among its workers"
        raise wrong("num_task", settings.num_task, expected)
    folder = preparation.unfinished_folder(settings.save_dir)
    map_parts = functools.partial(_in_pipeline, folder, options)
    return preparation.make_records(settings, map_parts)


def _in_pipeline(
    folder: str,
    options: Any,
    work: Callable[[Any], Any],
    parts: Sequence[Any],
    sizes: Sequence[int],
    description: str,
    *_: object,
) -> list[Any]:
    """Returns work(part) of all parts, in order, as `processes.in_processes` does, by a pipeline.

    Args:
      folder: where the files lie that carry work and results: all workers reach it.
      options: Beam's `PipelineOptions`.
      work: a function that can be pickled.
      parts: its arguments, which can be pickled.
      description: of the work; the name of the pipeline's step and of the files in `folder`.
      sizes, *_: what else `in_processes` takes: Beam shows its own progress.
    """
    path = os.path.join(folder, description)
    files.remove_matching(folder, description + "-*")  # results of an earlier try
    _write(path, (work, parts))
    num_bundles = min(len(parts), _MOST_BUNDLES)
    try:
        with beam.Pipeline(options=options) as pipeline:  # runs as the block ends
            bundles = pipeline | beam.Create(range(num_bundles))
            _ = bundles | description >> beam.Map(_do_bundle, path, num_bundles)
    except Exception as e:
        raise _as_user_error(e) from e
    results = []
    for bundle in range(num_bundles):
        # A runner that loses its cluster may end without an error, as Dask's does.
        if not files.exists(f"{path}-{bundle}"):
            raise UserError(f"the pipeline ended before its work did; {_RESUME}")
        results += _read(f"{path}-{bundle}")
    return results


def _do_bundle(bundle: int, path: str, num_bundles: int) -> None:
    """Does the work of bundle number `bundle`, from 0, on a worker.

    The file `path` has the work, a function, and all of its parts. The results of the bundle's
    parts go to a file of their own, as a list.
    """
    work, parts = _read(path)
    begin = len(parts) * bundle // num_bundles
    end = len(parts) * (bundle + 1) // num_bundles
    _write(f"{path}-{bundle}", [work(part) for part in parts[begin:end]])


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


def _as_user_error(error: Exception) -> UserError:
    """The `UserError` of a failed pipeline: that of a worker, or the first line of any other."""
    text = re.sub(r" \[while running .*", "", str(error)).strip()  # Beam adds the step
    if isinstance(error, UserError):
        return UserError(text)
    # A runner on a cluster raises an error of its own, whose text has that of the worker.
    of_worker = re.search(r"UserError: (.+)", text)
    if of_worker:
        return UserError(of_worker[1])
    reason = (text or "no reason").splitlines()[0]
    return UserError(
        f"the pipeline failed: {type(error).__name__}: {reason}; {_RESUME}"
    )
