"""What is compared when a run resumes: every setting and file, changed one at a time, against the
expected refusal, note or silence."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import pytest
from helpers.finetuning import make_workspace
from helpers.models import CONFIG, make_model
from helpers.paths import ROOT

import xlnet
from xlnet.pretraining import resolve
from xlnet.runs import run_document, task_settings
from xlnet.runs.run_document import RunDocument
from xlnet.settings.fields import check_limits, setting_type
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import DeviceSettings, OptimizationSettings
from xlnet.support.errors import UserError

pytestmark = pytest.mark.usefixtures("quick_start")

TASK = dict(model_dir="m", task_name="custom", do_train=True)
RUNS = {
    "pretraining": PretrainingSettings(
        record_info_dir="r", model_dir="m", eval_record_info_dir="e"
    ),
    "classifier": ClassifierSettings(**TASK),
    "tagger": TaggerSettings(**TASK),
    "questions": SpanSettings(**TASK),
}

# The settings that a run must resume with: those that affect what it learns. One that is not given
# is that of the run.
SAME = set(
    """
    init_checkpoint train_batch_size seed dropout dropatt init init_std init_range
    clamp_len precision learning_rate warmup_steps decay_method min_lr_ratio
    weight_decay adam_epsilon clip lr_layer_decay_rate ema_decay legacy_optimizer""".split()
)
# Those that a run that resumes may change, and has from before if they are not given.
FREE = {"train_steps", "save_steps", "eval_steps", "max_save"}
FREE_OF = {
    "pretraining": FREE | {"eval_record_info_dir"},
    **dict.fromkeys(
        ("classifier", "tagger", "questions"),
        FREE
        | {"epochs", "patience", "task_name", "data_dir", "train_file", "dev_file"},
    ),
}
OF_ONE_COMMAND = set(
    """
    model_dir model_config_path grad_accum_steps log_steps allow_changes
    use_bfloat16 recompute num_hosts num_core_per_host device xla""".split()
)


def document(directory, groups, **digests):
    return RunDocument(
        str(directory / "run.json"),
        "xlnet x",
        run_document.values_of(groups),
        digests=digests,
    )


def another(field, value):
    """Another allowed value of a setting."""
    kind = setting_type(field)
    if kind is bool:
        return not value
    if field.metadata["choices"]:
        return next(
            each for each in reversed(field.metadata["choices"]) if each != value
        )
    for new in (
        [value + 1, value + 0.125, value - 0.125]
        if isinstance(value, (int, float))
        else [kind(7), kind(0.5)]
    ):
        try:
            check_limits(field, new)
            return kind(new)
        except UserError:
            pass
    raise AssertionError(field.name)


@pytest.mark.parametrize("program", RUNS)
def test_every_setting(program, tmp_path):
    groups = (
        RUNS[program],
        NetworkSettings(),
        OptimizationSettings(),
        DeviceSettings(),
    )
    refused, kept, ignored = set(), set(), set()
    for number, group in enumerate(groups):
        for field in dataclasses.fields(group):
            changed = dataclasses.replace(
                group, **{field.name: another(field, getattr(group, field.name))}
            )
            run = document(tmp_path, [*groups[:number], changed, *groups[number + 1 :]])
            _, different = run_document.inherit(groups, {field.name}, run, of_run=True)
            if different:
                name = "precision" if field.name == "use_bfloat16" else field.name
                assert len(different) == 1 and different[0].startswith(name + " was ")
                refused.add(name)
            # What is not given is that of the run.
            inherited, different = run_document.inherit(groups, (), run, of_run=True)
            assert not different
            found = run_document.values_of(inherited).get(field.name)
            is_kept = found == run.resolved.get(field.name) is not None
            (kept if is_kept else ignored).add(field.name)
    free = FREE_OF[program]
    assert SAME <= refused and not refused & free and free <= kept
    assert OF_ONE_COMMAND <= ignored and not OF_ONE_COMMAND & refused


# ---- a run that starts from the weights of another one


def start_document(directory, **resolved):
    """A pretraining run with weights in a directory, as far as a start from them reads it."""
    made = RunDocument(str(directory / "run.json"), "xlnet pretrain", resolved)
    run_document.write(str(directory), made)


def test_a_pretraining_that_starts_from_weights_has_the_settings_of_their_model(
    tmp_path,
):
    """`clamp_len` of the first run was not that of the second one, without a word."""
    trained = {
        field.name: another(field, getattr(group, field.name))
        for group in (RUNS["pretraining"], NetworkSettings())
        for field in dataclasses.fields(group)
        if field.metadata["belongs_to"] == "model"
    }
    trained["objective"] = "causal"  # which `same_length` belongs to
    start_document(tmp_path, **trained, seed=5)
    asked = dataclasses.replace(
        RUNS["pretraining"],
        model_dir=str(tmp_path / "new"),
        init_checkpoint=str(tmp_path),
    )

    def start(settings=asked, given=()):
        groups = settings, NetworkSettings(), OptimizationSettings()
        found = resolve.inherit(*groups, given)
        return {name: value for group in found for name, value in vars(group).items()}

    found = start()
    assert {name: found[name] for name in trained} == trained and found["seed"] == 0
    # Training may continue with other targets.
    found = start(dataclasses.replace(asked, mem_len=9), given=["mem_len"])
    assert (found["mem_len"], found["perm_size"]) == (9, trained["perm_size"])
    with pytest.raises(
        UserError, match="objective: found permutation, expected causal"
    ):
        start(dataclasses.replace(asked, objective="permutation"), given=["objective"])


def test_a_fine_tuning_that_starts_from_weights_has_their_clamp_len(tmp_path):
    start_document(tmp_path, clamp_len=3, mem_len=8)
    for name in ("spiece.model", "xlnet_config.json", "model.ckpt-1.index"):
        (tmp_path / name).write_text("")
    new = dict(TASK, model_dir=str(tmp_path / "new"), data_dir="d", output_dir="o")
    settings = ClassifierSettings(**new, init_checkpoint=str(tmp_path))
    for given, expected in (([], 3), (["clamp_len"], -1)):
        groups = settings, NetworkSettings(), OptimizationSettings()
        found = task_settings.inherited_settings(*groups, [*new, *given], None)
        assert found[1].clamp_len == expected


def test_an_evaluation_has_settings_that_agree_with_each_other(tmp_path):
    """Each position saw only itself."""
    start_document(tmp_path, objective="causal", same_length=True, mem_len=8)
    evaluation = PretrainingSettings(
        record_info_dir="r", model_dir=str(tmp_path), do_eval=True, mem_len=0
    )
    groups = evaluation, NetworkSettings(), OptimizationSettings()
    with pytest.raises(UserError, match="mem_len: found 0, expected at least 1"):
        resolve.inherit(*groups, ["mem_len"])


def test_fine_tuning_does_not_take_the_directory_of_a_pretrained_model(tmp_path):
    """It asked for a vocabulary, which a pretraining run keeps elsewhere."""
    start_document(tmp_path)
    (tmp_path / "model.ckpt-1.index").write_text("")
    for what in (dict(do_train=True), dict(do_train=False, do_predict=True)):
        settings = ClassifierSettings(
            **{**TASK, **what, "model_dir": str(tmp_path), "data_dir": "d"}
        )
        with pytest.raises(
            UserError, match="found a pretrained model.*give it as init_checkpoint"
        ):
            task_settings.inherited_settings(
                settings, NetworkSettings(), OptimizationSettings(), [*TASK], None
            )


def test_no_training_begins_with_random_weights_next_to_released_ones(tmp_path):
    """Whoever gave the directory of released weights as model_dir trained a random network."""
    (tmp_path / "xlnet_model.ckpt.index").write_text("")
    new = {**TASK, "do_train": True, "model_dir": str(tmp_path), "data_dir": "d"}
    tuned = ClassifierSettings(**new, spiece_model_file="s", model_config_path="c")
    pretraining = dataclasses.replace(RUNS["pretraining"], model_dir=str(tmp_path))

    def start(run, settings, *more):
        return run(settings, NetworkSettings(), OptimizationSettings(), [*new], *more)

    for call in (
        (task_settings.inherited_settings, tuned, None),
        (resolve.inherit, pretraining),
    ):
        with pytest.raises(
            UserError,
            match="model_dir: .*: found weights to start from.* as init_checkpoint",
        ):
            start(*call)
        run, settings, *more = call
        start(run, dataclasses.replace(settings, init_checkpoint=str(tmp_path)), *more)
    # A run that began there resumes.
    (tmp_path / "model.ckpt-1.index").write_text("")
    start(resolve.inherit, pretraining)


# ---- the files of a run, from the command line


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A workspace with a finished run in `model`, evaluated by a metric of a file."""
    place = make_workspace(tmp_path_factory.mktemp("resumed"))
    (place.directory / "mine.py").write_text(
        "def right(labels, predictions):\n    return (labels == predictions).mean()\n"
    )
    train(place)
    return place


def ONE(place, **changes):
    return dict(
        dict(
            data_dir=place.path("one.tsv"),
            model_dir=place.path("one"),
            metric=None,
            dev_share=0.3,
        ),
        **changes,
    )


def train(place, *arguments, **changes):
    changes = dict(
        dict(
            metric=place.path("mine.py") + ":right",
            eval_steps=1,
            spiece_model_file=place.path("sp.model"),
        ),
        **changes,
    )
    return place.run("--do_train=True", *arguments, **changes)


def without_labels(text):
    return text.replace("test-0", "test-1")


@pytest.mark.parametrize(
    "name, change, said",
    [
        (
            "own/train.tsv",
            lambda text: text + "x\tkamat\ttelok\tanimal\n",
            "to train on",
        ),
        ("own/test.tsv", without_labels, None),
        (
            "model/xlnet_config.json",
            lambda text: text.replace('"n_head": 2', '"n_head": 1'),
            "n_head",
        ),
        ("model/run.json", lambda text: text.replace('"plant"', '"plants"'), "labels"),
    ],
)
def test_every_file(place, name, change, said):
    path = place.directory / name
    before = path.read_bytes()
    try:
        path.write_text(change(before.decode()))
        done = train(place)
    finally:
        path.write_bytes(before)
    if said:
        assert done.returncode == 1 and said in done.errors[0], done
    else:
        assert done.returncode == 0 and "has all of its 2 steps" in done.stdout, done


@pytest.mark.slow
def test_a_change_of_the_metric_is_said_once(place):
    shutil.copytree(place.path("model"), place.path("other_metric"))
    changed = dict(model_dir=place.path("other_metric"), metric="accuracy")
    done = train(place, **changed)
    assert done.returncode == 1 and done.stderr.count("metric was ") == 1, done
    done = train(place, "--allow_changes=True", **changed)
    assert (
        done.returncode == 0 and done.stdout.count("settings changed: metric was ") == 1
    ), done


def evaluated(done):
    """The number of examples that an evaluation counted."""
    assert done.returncode == 0, done
    line = [
        line
        for line in done.stdout.splitlines()
        if line.startswith("eval custom dev  step")
    ]
    return int(line[-1].rpartition("(")[2].split()[0])


@pytest.mark.slow
def test_the_one_file_is_evaluated_on_what_training_held_out(place, monkeypatch):
    """Also if it has been copied, or has got more rows; another file completely."""
    shutil.copy(place.path("own", "train.tsv"), place.path("one.tsv"))
    train(place, **ONE(place))
    monkeypatch.chdir(place.directory)
    held_out = evaluated(
        train(place, "--do_eval=True", **ONE(place, data_dir="one.tsv"))
    )
    monkeypatch.chdir("/")
    kept = json.loads((place.directory / "one" / "run.json").read_text())
    assert kept["resolved"]["data_dir"] == place.path("one.tsv")
    assert 1 <= held_out < 21
    evaluate = {name: None for name in ("metric", "do_train", "dev_share")}
    shutil.copy(place.path("one.tsv"), place.path("copy.tsv"))
    (place.directory / "new.tsv").write_text(
        "\n".join((place.directory / "one.tsv").read_text().splitlines()[:10]) + "\n"
    )

    def count(**changes):
        return evaluated(
            place.run("--do_eval=True", **ONE(place, **dict(evaluate, **changes)))
        )

    assert (
        count()
        == count(dev_share=0.3)
        == count(data_dir=place.path("copy.tsv"))
        == held_out
    )
    assert count(data_dir=place.path("new.tsv")) == 9
    with open(place.path("one.tsv"), "a", encoding="utf-8") as f:
        for i in range(40):
            f.write(f"m{i}\tkamat {i}\ttelok\tanimal\n")
    assert held_out < count() < 40


# ---- other

READ_ONLY = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-all",
    sys.executable,
    "-m",
    "xlnet",
    "classify",
)


@pytest.mark.skipif(not shutil.which("setpriv"), reason="no setpriv")
@pytest.mark.slow
def test_a_directory_that_may_only_be_read_is_evaluated_and_predicts(tmp_path):
    """Report 65."""
    make_model(tmp_path / "model", "classification")
    (tmp_path / "dev.csv").write_text(
        "first,second,label\nkamat,telok,animal\nmitel,dakar,plant\n"
    )
    for path in (tmp_path / "model", *(tmp_path / "model").iterdir()):
        path.chmod(0o555 if path.is_dir() else 0o444)

    def run(*arguments):
        return subprocess.run(
            [
                *READ_ONLY,
                "--model_dir=model",
                "--data_dir=dev.csv",
                "--device=cpu",
                *arguments,
            ],
            cwd=tmp_path,
            env=dict(os.environ, PYTHONPATH=str(ROOT)),
            capture_output=True,
            text=True,
        )

    done = run("--do_eval")
    assert (
        done.returncode == 0 and "eval custom dev  step 1  accuracy" in done.stdout
    ), done
    done = run("--do_eval", "--predict_dir=out")
    assert (
        done.returncode == 0 and (tmp_path / "out" / "eval_results_dev.json").exists()
    ), done
    done = run("--do_predict", "--predict_file=dev.csv")
    assert (
        done.returncode == 1 and "model_dir: found model, which cannot" in done.stderr
    )


def test_weights_with_another_vocabulary_are_refused(tmp_path):
    """Exchanged with its description for one of the same size."""
    make_model(tmp_path / "model", "classification")
    model = tmp_path / "model"
    path = model / "run.json"
    path.write_text(json.dumps(dict(json.loads(path.read_text()), task=None)))
    assert xlnet.load(str(model)).vectors(["kamat"]).shape == (1, CONFIG.d_model)
    make_model(tmp_path / "other", "classification")
    content = (tmp_path / "other" / "spiece.model").read_bytes()
    assert content == (model / "spiece.model").read_bytes()
    vocabulary_of_other_texts(tmp_path / "new.model")
    from xlnet.corpus.tokenizer import Tokenizer

    Tokenizer(str(tmp_path / "new.model")).save(str(model / "spiece.model"))
    with pytest.raises(UserError, match="found another vocabulary, expected that of"):
        xlnet.load(str(model))


def vocabulary_of_other_texts(path):
    from helpers import vocabulary

    vocabulary.train(
        path, (f"mitel dakar solkat {i}" for i in range(99)), CONFIG.n_token
    )
