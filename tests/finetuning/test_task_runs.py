"""Known tasks trained, evaluated and predicted with, by their presets where they have one, on
made-up rows in the form of their files; the files of every known task are read.
"""

import json
import re

import pytest
from helpers import command, official
from helpers.finetuning import make_vocabulary
from helpers.networks import sizes
from helpers.tasks import read_rows

from xlnet.settings.fields import presets_of
from xlnet.tasks import known
from xlnet.tasks.fields import expand_split

SIZES = dict(
    max_seq_length=32,
    train_batch_size=4,
    grad_accum_steps=1,
    eval_batch_size=16,
    train_steps=2,
    warmup_steps=1,
)
pytestmark = pytest.mark.usefixtures("quick_start")

# The other programs' tasks have tests of their own.
NAMES = [name for name, task in known.TASKS.items() if task.program == "xlnet classify"]
# One of each form of file, type and submission; the files of all are read by a quick test. AX is
# predicted with MNLI's model.
TRAINED = (
    *("cola", "sts-b", "mnli", "imdb", "yelp-5", "race"),
    *("tnews", "cluewsc", "csl", "xnli-zh", "ranking"),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A vocabulary and a network, both small."""
    directory = tmp_path_factory.mktemp("tasks")
    make_vocabulary(directory / "sp.model", 37)
    (directory / "config.json").write_text(
        json.dumps(dict(**sizes(layers=1, width=8, heads=2, inner=16), n_token=37))
    )
    return directory


def run(place, task, model_dir, *what):
    flags = dict(
        SIZES,
        task_name=task.name,
        data_dir=place / task.name,
        output_dir=place / "records",
        model_dir=model_dir,
        spiece_model_file=place / "sp.model",
        model_config_path=place / "config.json",
    )
    if task.name in presets_of("finetune"):
        flags["config"] = task.name
    return command.succeed("run_classifier.py", *what, **flags).stdout


def check_predictions(place, task, model_dir):
    """One line for each row of the test files, in both kinds of prediction file; of a ranking the
    id stands behind the query."""
    for split in expand_split(task, "test"):
        ids = [row.id for row in read_rows(task, place / task.name, split)]
        assert len(ids) > 3
        names = [f"predictions_{task.name}_{split}.tsv"]
        if split in task.published.submissions:
            names.append(task.published.submissions[split])
        for name in names:
            lines = (model_dir / "results" / name).read_text("utf-8").splitlines()
            if name.endswith(".json"):
                found = [str(json.loads(line)["id"]) for line in lines]
            else:
                column = 1 if task.columns.query else 0
                found = [line.split("\t")[column] for line in lines[1:]]
            assert sorted(found) == sorted(ids)


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.slow
def test_task(place, name):
    task, model_dir = known.TASKS[name], place / "models" / name
    official.make(name, place / name)
    what = "--do_train=True", "--do_eval=True", "--do_predict=True"
    out = run(place, task, model_dir, *what)
    assert "step 2/2  loss" in out
    if not any(name.startswith("dev") for name in task.files.by_split):
        task = task.with_files(dev_share=0.05)
    for split in expand_split(task, "dev"):
        line = re.findall(f"^eval {name} {split}  step 2  .*", out, re.MULTILINE)[-1]
        assert all(f"  {metric} " in line for metric in (*task.metrics, "loss"))
        path = model_dir / "results" / f"eval_results_{split}.json"
        results = json.loads(path.read_text())
        assert set(results["result"]) == {"step", "loss", *task.metrics}
        assert results["rows"] == len(read_rows(task, place / name, split))
    check_predictions(place, task, model_dir)
    if name == "mnli":
        official.make("ax", place / "ax")
        run(place, known.TASKS["ax"], model_dir, "--do_predict=True")
        check_predictions(place, known.TASKS["ax"], model_dir)


@pytest.mark.parametrize("language", ("de", "zh"))
def test_a_language_of_xnli_has_its_own_rows(tmp_path, language):
    task = known.TASKS["xnli-" + language]
    official.make(task.name, tmp_path / "xnli")
    for split, count in official.ROWS.items():
        rows = read_rows(task, tmp_path / "xnli", split)
        mine = sum(
            official.language_of(task.name, number) == language
            for number in range(count)
        )
        assert len(rows) == (count if split == "train" else mine)
        assert {row.label for row in rows} <= set(task.labels)


@pytest.mark.parametrize("name", official.NAMES)
def test_official_files_are_read(tmp_path, name):
    """On rows of their form; `tests/tasks/test_real_files.py` reads the files themselves."""
    task = known.TASKS[name]
    official.make(name, tmp_path / name)
    for split in task.files.by_split:
        rows = read_rows(task, tmp_path / name, split)
        assert len({row.id for row in rows}) == len(rows) > 3
        assert all(
            text.strip() for row in rows for pair in row.pairs for text in pair if text
        )
        assert {row.label for row in rows} <= {
            None,
            *(task.labels or {row.label for row in rows}),
        }


def test_every_known_task_has_official_files():
    halves = {"mnli_matched", "mnli_mismatched"}  # whose files are those of mnli
    assert set(official.NAMES) == {*NAMES} - halves
