"""An own task type from a file: trained, evaluated, predicted and loaded without a fork."""

import json
import random
import re
import sys

import numpy as np
import pytest
from helpers import command
from helpers.finetuning import make_vocabulary
from helpers.paths import RELEASED, ROOT

import xlnet
from xlnet import tasks
from xlnet.inference import exporter
from xlnet.runs import model_files
from xlnet.support.errors import UserError
from xlnet.tasks import known
from xlnet.tasks.contract import Classification

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


def make_files(folder, labels="label"):
    """Files of a word and, for each column of labels, its level; and a vocabulary."""
    rng = random.Random(0)
    for split, count in (("train", 24), ("dev", 8), ("new", 4)):
        lines = [f"text_a,{labels}\n"]
        for _ in range(count):
            levels = [rng.randrange(3) for _ in labels.split(",")]
            numbers = ",".join(str(level + 1) for level in levels)
            lines.append(f"{WORDS[levels[0]]} ka,{numbers}\n")
        (folder / (split + ".csv")).write_text("".join(lines))
    make_vocabulary(folder / "sp.model", 37)


def train(folder, *arguments, **changes):
    flags = dict(
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
    )
    return command.succeed(
        "run_classifier.py", "--do_train", *arguments, **{**flags, **changes}
    )


def predict(folder, **changes):
    """The lines of the predictions for new.csv."""
    command.succeed(
        "xlnet predict",
        model_dir=folder / "model",
        input=folder / "new.csv",
        output=folder / "new.tsv",
        device="cpu",
        **changes,
    )
    return (folder / "new.tsv").read_text().splitlines()


def best_of(folder):
    """(what was evaluated while training, the step of the best checkpoint)."""
    kept = json.loads((folder / "model" / "evaluations.json").read_text())
    results = folder / "model" / "results" / "eval_results_dev.json"
    return kept, json.loads(results.read_text())["result"]["step"]


def test_a_file_with_a_type_is_enough(registry, tmp_path):
    make_files(tmp_path)
    done = train(tmp_path, "--do_eval", own_module=LEVELS)
    assert "closeness" in done.stdout
    kept, best_step = best_of(tmp_path)
    assert kept["metric"] == "closeness"
    best = max(kept["evaluations"], key=lambda one: (one["closeness"], -one["loss"]))
    assert best_step == best["step"]

    # Where nothing registers the type: one line that names it.
    known.TASK_TYPES.pop("levels")
    sys.modules.pop("levels")
    model = str(tmp_path / "model")
    said = "task type levels, which no module has registered, .*--own_module"
    with pytest.raises(UserError, match=said):
        xlnet.load(model, device="cpu")
    line = command.refused(
        "xlnet predict", model_dir=model, input=tmp_path / "new.csv", device="cpu"
    )
    assert re.search(said, line)

    # With the module it is predicted and loaded, without naming what the model keeps.
    lines = predict(tmp_path, own_module=LEVELS)
    assert lines[0] == "id\tlabel\tp_1\tp_2\tp_3\tgold" and len(lines) == 5
    rows = (tmp_path / "new.csv").read_text().splitlines()[1:]
    with xlnet.load(model, device="cpu", own_module=LEVELS) as loaded:
        found = loaded.classify([row.split(",")[0] for row in rows])
    assert [one.label for one in found] == [line.split("\t")[1] for line in lines[1:]]


@pytest.mark.slow
def test_another_output_layer_gets_the_labels_of_own_files(registry, tmp_path):
    make_files(tmp_path)
    train(tmp_path, own_module=LEVELS.with_name("ordinal.py"))
    with xlnet.load(str(tmp_path / "model"), device="cpu") as loaded:
        assert loaded.predict("kamat ka") in ("1", "2", "3")


@pytest.mark.slow
def test_two_texts_that_are_read_apart(registry, tmp_path, caplog):
    """Trained, predicted with, loaded and exported."""
    make_files(tmp_path, "b,label")
    module = LEVELS.with_name("two_towers.py")
    train(tmp_path, own_module=module, text_b_column="b")
    _, *lines = predict(tmp_path, own_module=module)
    cosines = [float(line.split("\t")[1]) for line in lines]
    rows = (tmp_path / "new.csv").read_text().splitlines()[1:]
    texts = [tuple(row.split(",")[:2]) for row in rows]
    with xlnet.load(str(tmp_path / "model"), device="cpu") as loaded:
        np.testing.assert_allclose(loaded.score(texts), cosines, atol=2e-6)
    # One line, and the other signature, as a graph has not its inputs.
    exporter.export(model_files.read(str(tmp_path / "model")), str(tmp_path / "served"))
    assert "texts of task type two_towers cannot be encoded" in caplog.text


TWO_SCORES = """
import numpy as np
from xlnet import tasks
from xlnet.tasks.contract import Task


def error(labels, decisions, values):
    return -np.abs(decisions - labels).mean()


@tasks.register
class TwoScores(Task):
    kind = "two_scores"
    measures = (error,)
    default_metrics = ("error",)
    column = "scores"

    def parse_label(self, cells):
        return tuple(map(float, cells))

    def targets(self, rows):
        scores = [row.label or (0, 0) for row in rows]
        return np.array(scores, np.float32).reshape(-1, 2)  # [n,2]

    def loss(self, nn, logits, features, options):
        import tensorflow.compat.v1 as tf

        return tf.reduce_mean(tf.square(logits - features["label_ids"]), axis=1)

    def label_of(self, scores):
        return tuple(scores.tolist())
"""


@pytest.mark.slow
def test_a_type_with_two_label_columns_and_two_numbers(registry, tmp_path):
    """Trained, evaluated, predicted and explained by the methods of the contract alone."""
    make_files(tmp_path, "valence,arousal")
    module = tmp_path / "mine.py"
    module.write_text(TWO_SCORES)
    done = train(
        tmp_path, "--do_eval", own_module=module, label_column="valence,arousal"
    )
    assert re.search(r"eval custom dev  step 4  error -\d", done.stdout), done.stdout
    lines = predict(tmp_path, own_module=module)
    assert lines[0].startswith("id\tscores") and len(lines) == 5
    with xlnet.load(tmp_path / "model", own_module=module, device="cpu") as model:
        assert model.explain("kamat ka telok").output == "score"


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
            "from xlnet import tasks\n@tasks.register\nclass Foo:\n    kind = 'foo'\n",
            "mine.py cannot be imported: ValueError: found the name 'foo', expected a task",
        ),
    ],
)
def test_a_bad_module_is_one_line(registry, tmp_path, content, said):
    if content is not None:
        (tmp_path / "mine.py").write_text(content)
    with pytest.raises(UserError, match=said):
        known.load_own_types(str(tmp_path / "mine.py"))


def test_a_module_that_was_changed_needs_a_new_process(registry, tmp_path):
    """Its old code would run, and the digest of the new one be kept."""
    path = tmp_path / "mine.py"
    path.write_text(LEVELS.read_text())
    assert known.load_own_types(str(path)) == known.load_own_types(str(path))
    path.write_text(LEVELS.read_text() + "\n")
    said = "own_module: .*mine.py, changed since this process"
    with pytest.raises(UserError, match=said):
        known.load_own_types(str(path))


def test_a_module_of_another_file_and_a_name_of_the_library_are_refused(
    registry, tmp_path
):
    for name in ("json", "time"):  # the second one is built into Python
        (tmp_path / f"{name}.py").write_text("")
        with pytest.raises(
            UserError, match=f"found another module {name}, .*{name}.py"
        ):
            known.load_own_types(str(tmp_path / f"{name}.py"))
    with pytest.raises(ValueError, match="found the name 'classification', expected"):
        tasks.register(Classification)


# ---- own metrics


@pytest.mark.slow
def test_an_own_metric_has_a_direction_and_a_short_name(tmp_path, registry):
    make_files(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(
        "def cost(labels, decisions, values, /):\n"
        "    return (labels != decisions).mean() + 1\n"
    )
    done = train(tmp_path, "--do_eval", metric=f"{path}:cost:min")
    assert re.search("^eval custom dev .*  cost 1[.]", done.stdout, re.MULTILINE)
    kept, best_step = best_of(tmp_path)
    assert kept["metric"] == "cost"
    order = "cost", "loss", "step"
    best = min(kept["evaluations"], key=lambda one: [one[name] for name in order])
    assert best_step == best["step"]
    # It is that of a later evaluation, too.
    again = dict(model_dir=tmp_path / "model", dev_file=tmp_path / "dev.csv")
    done = command.succeed("run_classifier.py", "--do_eval", device="cpu", **again)
    assert "  cost 1." in done.stdout
