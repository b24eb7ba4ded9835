"""Merges the records of several machines, each of xlnet data make --task=K --num_task=N."""

import dataclasses
import sys

from xlnet.commands import cli
from xlnet.settings.fields import required


@dataclasses.dataclass(frozen=True)
class MergeSettings:
    """xlnet data merge: where the tasks' records are."""

    input: str = required(
        "directory that was --save_dir of all tasks; receives the merged records",
    )


def main(settings: MergeSettings) -> None:
    from xlnet.corpus import merging

    merged = merging.merge(settings.input)
    kept = merged.num_streams * merged.windows_per_stream
    left_out = sum(stream["windows"] for stream in merged.streams) - kept
    share = left_out / (kept + left_out)
    print(
        f"{settings.input}: {merged.num_streams} streams x {merged.windows_per_stream} sequences, "
        f"{merged.tokens} tokens; {left_out} sequences left out to make streams equal, "
        f"{100 * share:.1f} % of all"
    )
    if share > 0.1:
        print(
            "note: the tasks have unequal amounts of text. A .gz file, a document, and a row group "
            "of Parquet, belong to one task: cut large files into several, or give a smaller "
            "--num_task, and regenerate the tasks",
            file=sys.stderr,
        )


def run() -> None:
    cli.run(main, MergeSettings, about=__doc__, examples=("--input=shared/records",))
