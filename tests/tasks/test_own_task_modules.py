"""An own task type from a file: trained, evaluated, predicted and loaded without a fork."""

import json
import random
import re
import sys

import pytest
from helpers import command
from helpers.finetuning import make_vocabulary
from helpers.paths import RELEASED, ROOT

import xlnet
from xlnet import tasks
from xlnet.support.errors import UserError
from xlnet.tasks import known
from xlnet.tasks.types.simple import CLASSIFICATION

pytestmark = pytest.mark.usefixtures("quick_start")
LEVELS = ROOT / "examples" / "own_task_type" / "levels.py"
WORDS = ("kamat", "telok", "solkit")


@pytest.fixture
def registry(monkeypatch):
    """The types and tasks as they were; no module is loaded yet."""
    monkeypatch.setattr(known, "TASK_TYPES", dict(known.TASK_TYPES))
    monkeypatch.setattr(known, "TASKS", dict(known.TASKS))
    for name in ("levels", "ordinal", "two_towers", "mine"):
        known.TASK_TYPES.pop(name, None)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))


def make_files(folder):
    rng = random.Random(0)
    for split, count in (("train", 24), ("dev", 8), ("new", 4)):
        levels = [rng.randrange(3) for _ in range(count)]
        (folder / (split + ".csv")).write_text(
            "text_a,label\n"
            + "".join(f"{WORDS[level]} ka,{level + 1}\n" for level in levels)
        )
    make_vocabulary(folder / "sp.model", 37)


def flags(folder, **changes):
    return dict(
        dict(
            task_name="custom",
            train_file=folder / "train.csv",
            dev_file=folder / "dev.csv",
            output_dir=folder / "records",
            model_dir=folder / "model",
            max_seq_length=16,
            train_batch_size=8,
            spiece_model_file=folder / "sp.model",
            train_steps=4,
            eval_steps=2,
            save_steps=100,
            warmup_steps=0,
            model_config_path=RELEASED / "xlnet_config.json",
            device="cpu",
        ),
        **changes,
    )


def test_a_file_with_a_type_is_enough(registry, tmp_path, monkeypatch):
    make_files(tmp_path)
    done = command.succeed(
        "run_classifier.py",
        "--do_train",
        "--do_eval",
        **flags(tmp_path, own_module=LEVELS),
    )
    assert "closeness" in done.stdout
    kept = json.loads((tmp_path / "model" / "evaluations.json").read_text())
    assert kept["metric"] == "closeness"
    described = json.loads((tmp_path / "model" / "run.json").read_text())["task"]
    assert described["kind"] == "levels"
    results = json.loads(
        (tmp_path / "model" / "results" / "eval_results_dev.json").read_text()
    )
    best = max(kept["evaluations"], key=lambda one: (one["closeness"], -one["loss"]))
    assert results["best_step"] == best["step"]

    # Where nothing registers the type: one line that names it.
    known.TASK_TYPES.pop("levels")
    model = str(tmp_path / "model")
    said = "task type levels, which no module has registered, .*--own_module"
    with pytest.raises(UserError, match=said):
        xlnet.load(model, device="cpu")
    ask = dict(
        model_dir=model,
        input=tmp_path / "new.csv",
        output=tmp_path / "new.tsv",
        device="cpu",
    )
    done = command.run("xlnet predict", **ask)
    assert (
        done.returncode == 1
        and "task type levels, which no module has registered" in done.stderr
    )
    assert "Traceback" not in done.stderr

    # With the module it is predicted and loaded, without naming what the model keeps.
    sys.modules.pop("levels")
    command.succeed("xlnet predict", own_module=LEVELS, **ask)
    lines = (tmp_path / "new.tsv").read_text().splitlines()
    assert lines[0] == "id\tlabel\tp_1\tp_2\tp_3\tgold" and len(lines) == 5
    with xlnet.load(model, device="cpu", own_module=LEVELS) as loaded:
        texts = [
            line.split(",")[0]
            for line in (tmp_path / "new.csv").read_text().splitlines()[1:]
        ]
        assert [one.label for one in loaded.classify(texts)] == [
            line.split("\t")[1] for line in lines[1:]
        ]


@pytest.mark.slow
def test_another_output_layer_gets_the_labels_of_own_files(registry, tmp_path):
    make_files(tmp_path)
    done = command.succeed(
        "run_classifier.py",
        "--do_train",
        "--do_eval",
        **flags(tmp_path, own_module=LEVELS.with_name("ordinal.py")),
    )
    assert "custom: 24 examples" in done.stdout and "closeness" in done.stdout
    with xlnet.load(str(tmp_path / "model"), device="cpu") as loaded:
        assert loaded.predict("kamat ka") in ("1", "2", "3")


TWO_SCORES = """
import numpy as np
from xlnet import tasks
from xlnet.tasks.types import contract, simple


def parse(task, cells):
    try:
        return tuple(map(float, cells))
    except ValueError:
        raise ValueError(f"{cells} are not numbers") from None


def targets(task, rows):
    scores = [row.label or (0, 0) for row in rows]
    return np.array(scores, np.float32).reshape(-1, 2)  # [n,2]


def loss(nn, logits, labels, options):
    import tensorflow.compat.v1 as tf

    return tf.reduce_mean(tf.square(logits - labels), axis=1)


def label_of(task, scores):
    return tuple(scores.tolist())


def error(labels, decisions, values):
    return -np.abs(decisions - labels).mean()


TWO_SCORES = tasks.register(
    contract.TaskType(
        "two_scores",
        parse=parse,
        targets=targets,
        loss=loss,
        decide=simple.as_it_is,
        label_of=label_of,
        metrics=(error,),
        default_metrics=("error",),
        column="scores",
    )
)
"""


@pytest.mark.slow
def test_a_type_with_two_label_columns_and_two_numbers(registry, tmp_path):
    """Trained, evaluated, predicted, loaded and explained by the methods of the contract alone."""
    rng = random.Random(0)
    for split, count in (("train", 24), ("dev", 8), ("new", 4)):
        rows = [
            f"{rng.choice(WORDS)} ka,{rng.random():.2f},{rng.random():.2f}\n"
            for _ in range(count)
        ]
        (tmp_path / (split + ".csv")).write_text(
            "text_a,valence,arousal\n" + "".join(rows)
        )
    make_vocabulary(tmp_path / "sp.model", 37)
    (tmp_path / "mine.py").write_text(TWO_SCORES)
    values = dict(own_module=tmp_path / "mine.py", label_column="valence,arousal")
    done = command.succeed(
        "run_classifier.py", "--do_train", "--do_eval", **flags(tmp_path, **values)
    )
    assert re.search(r"eval custom dev  step 4  error -\d", done.stdout), done.stdout
    command.succeed(
        "xlnet predict",
        own_module=tmp_path / "mine.py",
        model_dir=tmp_path / "model",
        input=tmp_path / "new.csv",
        output=tmp_path / "new.tsv",
        device="cpu",
    )
    lines = (tmp_path / "new.tsv").read_text().splitlines()
    assert lines[0].startswith("id\tscores") and len(lines) == 5
    done = command.run(
        "xlnet explain",
        own_module=tmp_path / "mine.py",
        model_dir=tmp_path / "model",
        text="kamat ka telok",
        device="cpu",
    )
    assert done.returncode == 0, done.stderr
    bad = (tmp_path / "train.csv").read_text().replace(",0.", ",x.", 1)
    (tmp_path / "train.csv").write_text(bad)
    done = command.run(
        "run_classifier.py",
        "--do_train",
        **flags(
            tmp_path, **values, model_dir=tmp_path / "other", output_dir=tmp_path / "r"
        ),
    )
    assert done.returncode == 1 and re.search(
        r"train.csv:\d+: .* are not numbers", done.stderr
    )


@pytest.mark.parametrize(
    "content, said",
    [
        (None, "own_module"),
        (
            "x = 1\n",
            "mine.py: found no task type, expected NAME = xlnet.tasks.register",
        ),
        (
            "import nothing_of_this_name\n",
            "mine.py cannot be imported: ModuleNotFoundError",
        ),
        (
            "from xlnet import tasks\ntasks.register(3)\n",
            "found int, expected a TaskType",
        ),
    ],
)
def test_a_bad_module_is_one_line(registry, tmp_path, content, said):
    if content is not None:
        (tmp_path / "mine.py").write_text(content)
    with pytest.raises(UserError, match=said):
        known.load(str(tmp_path / "mine.py"))


def test_a_module_that_was_changed_needs_a_new_process(registry, tmp_path):
    """Its old code would run, and the digest of the new one be kept."""
    path = tmp_path / "mine.py"
    path.write_text(LEVELS.read_text())
    assert known.load(str(path)) == known.load(str(path))
    path.write_text(LEVELS.read_text() + "\n")
    with pytest.raises(
        UserError, match="own_module: .*mine.py, changed since this process"
    ):
        known.load(str(path))


@pytest.mark.slow
def test_a_resume_notices_that_the_module_was_edited(registry, tmp_path):
    """It went on with another loss, as if nothing had happened."""
    make_files(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(LEVELS.read_text())
    asked = flags(tmp_path, own_module=path, train_steps=2, eval_steps=0)
    command.succeed("run_classifier.py", "--do_train", **asked)
    path.write_text(LEVELS.read_text() + "\n# edited\n")
    sys.modules.pop("mine", None)
    known.TASK_TYPES.pop("levels", None)
    line = command.refused(
        "run_classifier.py", "--do_train", **dict(asked, train_steps=4)
    )
    assert "the files of an own task type (--own_module) have other content" in line


def test_a_module_of_another_file_and_a_name_of_the_library_are_refused(
    registry, tmp_path
):
    (tmp_path / "json.py").write_text("")
    with pytest.raises(UserError, match="found another module json, .*json.py"):
        known.load(str(tmp_path / "json.py"))
    with pytest.raises(ValueError, match="is the library's"):
        tasks.register(CLASSIFICATION)


# ---- own metrics


@pytest.mark.slow
def test_an_own_metric_has_a_direction_and_a_short_name(tmp_path, registry):
    make_files(tmp_path)
    (tmp_path / "mine.py").write_text(
        "def cost(labels, decisions):\n    return (labels != decisions).mean() + 1\n"
    )
    metric = str(tmp_path / "mine.py") + ":cost:min"
    done = command.succeed(
        "run_classifier.py", "--do_train", "--do_eval", **flags(tmp_path, metric=metric)
    )
    line = next(
        line for line in done.stdout.splitlines() if line.startswith("eval custom dev")
    )
    assert "  cost 1." in line and "mine.py" not in line
    kept = json.loads((tmp_path / "model" / "evaluations.json").read_text())
    assert kept["metric"] == "cost"
    best = min(
        kept["evaluations"], key=lambda one: (one["cost"], one["loss"], one["step"])
    )
    assert (
        json.loads(
            (tmp_path / "model" / "results" / "eval_results_dev.json").read_text()
        )["best_step"]
        == best["step"]
    )

    # Its file is moved: it is named, and given anew it is the same metric.
    (tmp_path / "moved").mkdir()
    (tmp_path / "mine.py").rename(tmp_path / "moved" / "mine.py")
    again = dict(
        model_dir=tmp_path / "model", dev_file=tmp_path / "dev.csv", device="cpu"
    )
    done = command.run("run_classifier.py", "--do_eval", **again)
    assert done.returncode == 1 and "cannot be loaded: FileNotFoundError" in done.stderr
    command.succeed(
        "run_classifier.py",
        "--do_eval",
        metric=str(tmp_path / "moved" / "mine.py") + ":cost:min",
        **again,
    )
    # Its content is another one, in the same process, too.
    other = "def cost(labels, decisions):\n    return 7.0\n"
    (tmp_path / "moved" / "mine.py").write_text(other)
    done = command.succeed(
        "run_classifier.py",
        "--do_eval",
        metric=str(tmp_path / "moved" / "mine.py") + ":cost:min",
        **again,
    )
    assert "  cost 7.0000" in done.stdout
