"""Every kind of official file trained on, evaluated and predicted, where the files are there."""

import json
import shutil

import pytest
from helpers import command
from helpers.paths import DATA, FOLDERS, SPIECE

from xlnet.tasks import known, parsing
from xlnet.tasks.task import expand_split

ROWS = 40

pytestmark = pytest.mark.skipif(not (SPIECE.exists() and (DATA / "glue").is_dir()),
                                reason="the GLUE files or the released vocabulary are not there")


OTHERS = {"imdb": "test", "ag_news": "dev", "race": "dev", "tnews": "dev"}


def copy_some(source, target):
    """The first lines of each file, the first files of each directory of texts."""
    target.mkdir()
    texts = [path for path in source.iterdir() if path.suffix == ".txt"]
    for path in sorted(texts)[:5] if len(texts) > 50 else source.iterdir():
        if path.is_dir():
            copy_some(path, target / path.name)
        elif path in texts:
            shutil.copy(path, target / path.name)
        else:
            lines = path.read_bytes().split(b"\n")[:ROWS + 1]
            (target / path.name).write_bytes(b"\n".join(lines))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The first rows of every file, under the name of its task, and a small network."""
    directory = tmp_path_factory.mktemp("glue")
    for name in (*known.GLUE, *OTHERS):
        copy_some(DATA / FOLDERS[name], directory / name)
    (directory / "config.json").write_text(json.dumps(dict(
        n_layer=1, d_model=8, n_head=2, d_head=4, d_inner=16, ff_activation="gelu", untie_r=True,
        n_token=32000)))
    return directory


def run(place, task, model_dir, *what):
    done = command.run(
        "run_classifier.py", "--task_name=" + task.name, "--data_dir=%s" % (place / task.name),
        "--output_dir=%s" % (place / "records"), "--model_dir=%s" % model_dir,
        "--spiece_model_file=%s" % SPIECE, "--model_config_path=%s" % (place / "config.json"),
        "--max_seq_length=32", "--train_batch_size=4", "--eval_batch_size=16", "--train_steps=2",
        "--eval_steps=0",
        "--is_regression=%s" % task.is_regression, *what)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_predictions(place, task, model_dir):
    """One line for each row of the test files, in both kinds of prediction file."""
    for split in expand_split(task, "test"):
        ids = [row.id for row in parsing.read_rows(task, place / task.name, split)]
        for name in ("predictions_%s_%s.tsv" % (task.name, split), task.submissions[split]):
            lines = (model_dir / name).read_text().splitlines()
            assert [line.split("\t")[0] for line in lines[1:]] == ids


TRAINED = [name for name, task in known.GLUE.items() if "train" in task.files]


@pytest.mark.parametrize("name", TRAINED)
def test_task(place, name):
    task, model_dir = known.GLUE[name], place / "models" / name
    out = run(place, task, model_dir, "--do_train=True", "--do_eval=True", "--do_predict=True")
    assert "step 2/2  loss" in out
    for split in expand_split(task, "dev"):
        line, = [line for line in out.splitlines()
                 if line.startswith("eval %s %s  step 2  " % (name, split))]
        assert all("  %s " % metric in line for metric in (*task.metrics, "loss"))
        results = json.loads((model_dir / ("eval_results_%s.json" % split)).read_text())
        found = set(results["checkpoints"][0]) - {"collapsed"}     # two steps may well collapse
        assert found == {"step", "loss", *task.metrics}
        assert results["rows"] == len(parsing.read_rows(task, place / name, split))
    check_predictions(place, task, model_dir)
    if name == "mnli":
        run(place, known.GLUE["ax"], model_dir, "--do_predict=True")
        check_predictions(place, known.GLUE["ax"], model_dir)


@pytest.mark.parametrize("name", OTHERS)
def test_other_task(place, name):
    task, model_dir, split = known.TASKS[name], place / "models" / name, OTHERS[name]
    out = run(place, task, model_dir, "--do_train=True", "--do_eval=True", "--do_predict=True",
              "--eval_split=" + split)
    assert "step 2/2  loss" in out
    rows = parsing.read_rows(task, place / name, split, need_labels=True)
    results = json.loads((model_dir / ("eval_results_%s.json" % split)).read_text())
    assert set(task.metrics) < set(results["checkpoints"][0]) and results["rows"] == len(rows)
    assert "majority class" in out and (model_dir / ("confusion_%s.png" % split)).exists()
    lines = (model_dir / ("predictions_%s_test.tsv" % name)).read_text("utf-8").splitlines()
    assert len(lines) == 1 + len(parsing.read_rows(task, place / name, "test"))
    assert lines[0].split("\t")[2:] == ["p_" + label for label in task.labels]
