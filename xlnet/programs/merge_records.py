"""Joins the records that several machines made with data_utils.py --task=K --num_task=N."""

import dataclasses

from xlnet import cli
from xlnet.settings.fields import required


@dataclasses.dataclass(frozen=True)
class MergeSettings:
    """merge_records.py: where the tasks' records are."""
    save_dir: str = required("directory that was --save_dir of all tasks")


def main(settings: MergeSettings) -> None:
    from xlnet.text import merging
    merged = merging.merge(settings.save_dir)
    kept = merged.num_streams * merged.windows_per_stream
    left_out = sum(stream["windows"] for stream in merged.streams) - kept
    print("%s: %d streams x %d windows, %d tokens; %d windows left out to make streams equal, "
          "%.1f %% of all" % (settings.save_dir, merged.num_streams, merged.windows_per_stream,
                              merged.tokens, left_out, 100 * left_out / (kept + left_out)))


EXAMPLES = (
    "--save_dir=shared/records",
)


def run() -> None:
    cli.run(main, MergeSettings, about="checks and joins the records of all tasks in a directory",
            examples=EXAMPLES)
