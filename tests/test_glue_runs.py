"""Every task of GLUE trained two steps, evaluated and predicted, where its files are there."""

import json

import command
import pytest
from conftest import ROOT

from xlnet import task_files, tasks

DATA = ROOT.parent / "shared" / "data"
SPIECE = DATA / "xlnet_spiece" / "spiece.model"
ROWS = 40

pytestmark = pytest.mark.skipif(not (SPIECE.exists() and (DATA / "glue").is_dir()),
                                reason="the GLUE files or the released vocabulary are not there")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The first rows of every file, under the name of its task, and a small network."""
    directory = tmp_path_factory.mktemp("glue")
    for task in tasks.GLUE.values():
        folder, = [f for f in (DATA / "glue").iterdir() if f.name.lower() == task.name]
        (directory / task.name).mkdir()
        for name in task.files.values():
            lines = (folder / name).read_bytes().split(b"\n")[:ROWS + 1]
            (directory / task.name / name).write_bytes(b"\n".join(lines))
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
        "--is_regression=%s" % task.is_regression, *what)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_predictions(place, task, model_dir):
    """One line for each row of the test files, in both kinds of prediction file."""
    for split in tasks.expand_split(task, "test"):
        ids = [row.id for row in task_files.read_rows(task, place / task.name, split)]
        for name in ("predictions_%s_%s.tsv" % (task.name, split), task.submissions[split]):
            lines = (model_dir / name).read_text().splitlines()
            assert [line.split("\t")[0] for line in lines[1:]] == ids


TRAINED = [name for name, task in tasks.GLUE.items() if "train" in task.files]


@pytest.mark.parametrize("name", TRAINED)
def test_task(place, name):
    task, model_dir = tasks.GLUE[name], place / "models" / name
    out = run(place, task, model_dir, "--do_train=True", "--do_eval=True", "--do_predict=True")
    assert "step 2/2  loss" in out
    for split in tasks.expand_split(task, "dev"):
        line, = [line for line in out.splitlines()
                 if line.startswith("eval %s %s  step 2  " % (name, split))]
        assert all("  %s " % metric in line for metric in (*task.metrics, "loss"))
        results = json.loads((model_dir / ("eval_results_%s.json" % split)).read_text())
        assert set(results["checkpoints"][0]) == {"step", "loss", *task.metrics}
        assert results["rows"] == len(task_files.read_rows(task, place / name, split))
    check_predictions(place, task, model_dir)
    if name == "mnli":
        run(place, tasks.GLUE["ax"], model_dir, "--do_predict=True")
        check_predictions(place, tasks.GLUE["ax"], model_dir)
