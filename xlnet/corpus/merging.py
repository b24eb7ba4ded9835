"""The records of several machines, joined to one data set."""

from __future__ import annotations

import dataclasses
import glob
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from typing import Any

from xlnet.corpus import preparation, tokenized
from xlnet.corpus.manifest import MANIFEST_NAME, Manifest
from xlnet.corpus.tokenizer import SPIECE_NAME, Tokenizer
from xlnet.support import files
from xlnet.support.errors import wrong


def merge(save_dir: str) -> Manifest:
    """Joins the records of all tasks in `save_dir` to one data set; returns its manifest."""
    files.require_directory(save_dir, "input")
    folders = sorted(glob.glob(os.path.join(glob.escape(save_dir), "task-*-of-*")))
    if not folders:
        raise wrong(
            f"input: {save_dir}", "nothing", "task-00000-of-00002, ...; --num_task"
        )
    manifests = [Manifest.read(folder, "input") for folder in folders]
    first, found = manifests[0], [os.path.basename(folder) for folder in folders]
    # No task may be missing or occur twice, and all must have equal settings.
    count = first.made_from["num_task"]
    expected = [preparation.task_folder(task, count) for task in range(count)]
    if found != expected:
        raise wrong(f"input: {save_dir}", ", ".join(found), ", ".join(expected))
    made_from = _common(folders, manifests)

    # All streams are shortened to the length of the shortest one, which costs little, as the tasks
    # have about equal amounts of text. What is cut off counts as dropped.
    streams = []
    counts: Any = Counter()
    skipped: Counter[str] = Counter()
    shortest = min(manifest.windows_per_stream for manifest in manifests)
    for folder, manifest in zip(found, manifests):
        for stream in manifest.streams:
            streams.append(dict(stream, file=folder + "/" + stream["file"]))
        cut = (manifest.windows_per_stream - shortest) * manifest.num_streams
        # A sequence adds `reuse_len` tokens; each pass, and each direction, reads all tokens.
        counts["dropped"] += (
            cut * first.reuse_len // (first.num_passes * (1 + first.bi_data))
        )
        skipped.update(manifest.skipped)
        for name in (*tokenized.COUNTS, "dropped"):
            counts[name] += getattr(manifest, name)
    merged = dataclasses.replace(
        first,
        num_streams=len(streams),
        streams=tuple(streams),
        windows_per_stream=shortest,
        skipped=dict(skipped),
        made_from=made_from,
        **counts,
    )
    for name in (SPIECE_NAME, MANIFEST_NAME):
        # Of merges that were killed.
        files.remove_unfinished(os.path.join(save_dir, name))
    Tokenizer(os.path.join(folders[0], SPIECE_NAME)).save(
        os.path.join(save_dir, SPIECE_NAME)
    )
    merged.write(save_dir)
    # Tokens are kept only until here: another number of tasks would have used them, too.
    shutil.rmtree(preparation.unfinished_folder(save_dir), ignore_errors=True)
    return merged


def _common(folders: Sequence[str], manifests: Sequence[Manifest]) -> dict[str, Any]:
    """What the records of all tasks were made from; a UserError unless it is the same."""
    common = dict(manifests[0].made_from)
    for name in preparation.OF_ONE_TASK:
        del common[name]
    for folder, manifest in zip(folders, manifests):
        for name, value in common.items():
            other = manifest.made_from.get(name)
            if other != value:
                raise wrong(
                    f"input: {folder}",
                    f"{name} {other}",
                    f"{value}, as in {folders[0]}",
                )
    return common
