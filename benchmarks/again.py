"""Makes the quick tables again, and says which figures changed by more than their spread.

    python benchmarks/again.py                  # beside those of again.json
    python benchmarks/again.py --keep           # and takes today's in their place

The data are those of the sample (`bash scripts/run_sample.sh`, once). Each command of `COMMANDS` is
run `--repeats` times, in turn; a figure is a number of the tables that they print. It has changed
where no run of today lies within the runs that were kept.
"""

import dataclasses
import datetime
import os
import re
import statistics
import subprocess
import sys

from repository import ROOT

from xlnet import cli, files
from xlnet.config import Settings, setting
from xlnet.errors import UserError

KEPT = os.path.join(ROOT, "benchmarks", "again.json")
COMMANDS = {
    "start-up": "start_up.py --repeats=1 --record_info_dir={sample}/records/train "
                "--model_dir={sample}/classifier_pretrained",
    "text to records": "data_preparation.py --input_glob={sample}/text/pretrain/train.txt "
                       "--sp_path={sample}/spiece.model --megabytes=5 --workers=1 --repeats=1",
    "records to batches": "input_pipeline.py --input_glob={sample}/text/pretrain/train.txt "
                          "--sp_path={sample}/spiece.model --num_epochs=2",
    "graph": "graph_size.py --model_config_path=configs/model/tiny.json --lengths=128,2048",
    "writing on": "generation.py --model_config_path=configs/model/tiny.json --tokens=5",
    "from Python": "from_python.py --model={sample}/classifier_pretrained --seconds=3",
}
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


@dataclasses.dataclass(frozen=True)
class AgainSettings(Settings):
    """again.py: which tables, how often, with whose data."""
    tables: str = setting(",".join(COMMANDS), "names of the tables, comma-separated")
    sample: str = setting("sample_run", "directory of the sample's run")
    repeats: int = setting(3, "runs of each command", minimum=2)
    keep: bool = setting(False, "put the figures into again.json")


def main(settings):
    names = settings.tables.split(",")
    for name in names:
        if name not in COMMANDS:
            raise UserError("tables: no table '%s' (there are %s)" % (name, ", ".join(COMMANDS)))
    if not os.path.isdir(settings.sample):
        raise UserError("sample: no directory '%s'; bash scripts/run_sample.sh makes it"
                        % settings.sample)
    runs = [figures(name, settings) for _ in range(settings.repeats) for name in names]
    found = {key: [run[key] for run in runs if key in run]
             for key in dict.fromkeys(key for run in runs for key in run)}
    kept = files.read_json(KEPT, "kept figures") if os.path.exists(KEPT) else {}
    print_table(found, kept.get("figures", {}), kept.get("measured", "nothing kept"))
    if settings.keep:
        figures_kept = dict(kept.get("figures", {}), **found)
        files.write_json(KEPT, {"measured": "%s, %d cores" % (
            datetime.date.today(), os.cpu_count()), "figures": figures_kept})


def figures(name, settings):
    """The numbers of a command's tables: {"table: row, column": number}."""
    words = COMMANDS[name].format(sample=os.path.abspath(settings.sample)).split()
    done = subprocess.run(
        [sys.executable, os.path.join("benchmarks", words[0]), *words[1:]], cwd=ROOT, check=False,
        capture_output=True, text=True)
    if done.returncode:
        raise UserError("%s ended with status %d: %s" % (
            words[0], done.returncode, (done.stderr.strip().splitlines() or ["no message"])[-1]))
    return {"%s: %s" % (name, key): value for key, value in of_tables(done.stdout).items()}


def of_tables(text):
    """The numbers of Markdown tables: {"first cell of the row, head of the column": number}."""
    found, head = {}, None
    for line in text.splitlines():
        if not line.startswith("|"):
            head = None
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if head is None:
            head = cells
        elif not set(cells[0]) <= set("-: "):
            for column, cell in zip(head[1:], cells[1:]):
                number = _NUMBER.match(cell)
                if number:
                    found["%s, %s" % (cells[0], column)] = float(number[0].replace(",", ""))
    return found


def has_changed(today, before):
    """Whether no run of today lies within those of before."""
    return min(today) > max(before) or max(today) < min(before)


def print_table(found, kept, measured):
    print("| figure | before (%s) | today | |\n|---|---|---|---|" % measured)
    changed = 0
    for key, today in found.items():
        before = kept.get(key)
        is_other = before is not None and has_changed(today, before)
        changed += is_other
        print("| %s | %s | %s | %s |" % (key, spread(before) if before else "", spread(today),
                                         "**changed**" if is_other else ""))
    print("\n%d of %d figures changed by more than their spread" % (changed, len(found)))


def spread(values):
    return "%g (%g to %g)" % (statistics.median(values), min(values), max(values))


if __name__ == "__main__":
    cli.run(main, AgainSettings, about="makes the quick tables again and compares them")
