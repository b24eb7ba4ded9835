"""The records of several machines, joined to one data set."""

from __future__ import annotations

import collections
import dataclasses
import glob
import os
import shutil

from xlnet import files
from xlnet.errors import UserError
from xlnet.records.manifest import MANIFEST_NAME, Manifest
from xlnet.text import corpus, preparation
from xlnet.tokenization.tokenizer import SPIECE_NAME, Tokenizer


def merge(save_dir: str) -> Manifest:
    """Joins the records of all tasks in `save_dir` to one data set; returns its manifest."""
    files.require_directory(save_dir, "input")
    folders = sorted(glob.glob(os.path.join(glob.escape(save_dir), "task-*-of-*")))
    if not folders:
        raise UserError(
            f"input: no task-...-of-... in {save_dir}; make them with xlnet data make --task=K "
            "--num_task=N"
        )
    path = os.path.join(save_dir, MANIFEST_NAME)
    if os.path.exists(path) and not preparation.lists(path, "task-"):
        raise UserError(
            f"input: {path} is of other records, expected none or that of merged tasks; "
            "move them to another directory"
        )
    manifests = [Manifest.read(folder, "input") for folder in folders]
    first = manifests[0]

    # No task may be missing, and all must have equal settings and input.
    count = first.made_from["num_task"]
    missing = set(range(count)) - {manifest.made_from["task"] for manifest in manifests}
    if missing:
        raise UserError(f"input: task {min(missing)} of {count} is missing")
    for folder, manifest in zip(folders, manifests):
        for name, value in first.made_from.items():
            other = manifest.made_from.get(name)
            if name not in preparation.OF_ONE_TASK and other != value:
                raise UserError(
                    f"input: {name} {value} in {folders[0]}, {other} in {folder}; regenerate the "
                    "tasks with equal settings"
                )
        # A copy under another name would be read twice.
        own = preparation.task_folder(manifest.made_from["task"], count)
        if os.path.basename(folder) != own:
            raise UserError(
                f"input: {folder} has the records of {own}; move it to another directory"
            )

    # All streams are shortened to the length of the shortest one, which costs little, as the tasks
    # have about equal amounts of text. What is cut off counts as dropped.
    streams = [
        dict(stream, file=os.path.basename(folder) + "/" + stream["file"])
        for folder, manifest in zip(folders, manifests)
        for stream in manifest.streams
    ]
    windows = min(manifest.windows_per_stream for manifest in manifests)
    cut = sum(
        (manifest.windows_per_stream - windows) * manifest.num_streams for manifest in manifests
    )
    counts = {
        name: sum(getattr(manifest, name) for manifest in manifests)
        for name in (*corpus.COUNTS, "dropped")
    }
    # A window adds `reuse_len` tokens; each pass, and each direction, reads all tokens.
    counts["dropped"] += cut * first.reuse_len // (first.num_passes * (1 + first.bi_data))
    merged = dataclasses.replace(
        first,
        num_streams=len(streams),
        streams=tuple(streams),
        windows_per_stream=windows,
        skipped=dict(
            sum((collections.Counter(m.skipped) for m in manifests), collections.Counter())
        ),
        made_from={
            name: value
            for name, value in first.made_from.items()
            if name not in preparation.OF_ONE_TASK
        },
        **counts,
    )
    tokenizer = Tokenizer(os.path.join(folders[0], SPIECE_NAME))
    found = preparation.another_vocabulary(save_dir, tokenizer)
    if found and not os.path.exists(path):
        raise UserError(
            f"input: {found} is another vocabulary than {tokenizer.path}, which the merged records "
            "would bring; move it to another directory"
        )
    for name in (SPIECE_NAME, MANIFEST_NAME):
        files.remove_unfinished(os.path.join(save_dir, name))  # of merges that were killed
    tokenizer.save(os.path.join(save_dir, SPIECE_NAME))
    merged.write(save_dir)
    # Tokens are kept only until here: another number of tasks would have used them, too.
    shutil.rmtree(preparation.unfinished_folder(save_dir), ignore_errors=True)
    return merged
