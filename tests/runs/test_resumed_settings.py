"""What is compared when a run resumes: every setting and file, changed one at a time, against the
expected refusal, note or silence."""

import dataclasses
import os
import re
import shutil
import subprocess
import sys

import pytest
from helpers.finetuning import make_workspace
from helpers.models import make_model
from helpers.paths import ROOT

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
OF_TASKS = {"epochs", "patience", "task_name", "data_dir", "train_file", "dev_file"}
OF_ONE_COMMAND = set(
    """
    model_dir model_config_path grad_accum_steps log_steps allow_changes
    use_bfloat16 recompute num_hosts num_core_per_host device xla""".split()
)


def another(field, value):
    """Another allowed value of a setting."""
    kind = setting_type(field)
    if kind is bool:
        return not value
    if field.metadata["choices"]:
        return [each for each in field.metadata["choices"] if each != value][-1]
    candidates = [kind(7), kind(0.5)]
    if isinstance(value, (int, float)):
        candidates = [value + 1, value + 0.125, value - 0.125]
    for new in candidates:
        try:
            check_limits(field, new, field.name)
            return kind(new)
        except UserError:
            pass
    raise AssertionError(field.name)


@pytest.mark.parametrize("program", RUNS)
def test_every_setting(program):
    groups = RUNS[program], NetworkSettings(), OptimizationSettings(), DeviceSettings()
    refused, kept, ignored = set(), set(), set()
    for number, group in enumerate(groups):
        for field in dataclasses.fields(group):
            value = another(field, getattr(group, field.name))
            changed = dataclasses.replace(group, **{field.name: value})
            of_run = [*groups[:number], changed, *groups[number + 1 :]]
            run = RunDocument("run.json", "xlnet x", run_document.values_of(of_run))
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
    of_program = {"eval_record_info_dir"} if program == "pretraining" else OF_TASKS
    free = FREE | of_program
    assert SAME <= refused and not refused & free and free <= kept
    assert OF_ONE_COMMAND <= ignored and not OF_ONE_COMMAND & refused


# ---- a run that starts from the weights of another one


def start_document(directory, **resolved):
    """A pretraining run with weights in a directory, as far as a start from them reads it."""
    made = RunDocument(str(directory / "run.json"), "xlnet pretrain", resolved)
    run_document.write(str(directory), made)
    (directory / "model.ckpt-1.index").write_text("")


def inherited(settings, given=()):
    """The three groups of settings of a pretraining."""
    groups = settings, NetworkSettings(), OptimizationSettings()
    start = resolve.start_of(settings)
    return resolve.inherited_settings(*groups, given, start)


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
        found = inherited(settings, given)
        return {name: value for group in found for name, value in vars(group).items()}

    found = start()
    assert {name: found[name] for name in trained} == trained and found["seed"] == 0
    # Training may continue with other targets.
    found = start(dataclasses.replace(asked, mem_len=9), given=["mem_len"])
    assert (found["mem_len"], found["perm_size"]) == (9, trained["perm_size"])
    said = "objective: found permutation, expected causal"
    with pytest.raises(UserError, match=said):
        start(dataclasses.replace(asked, objective="permutation"), given=["objective"])


def test_a_fine_tuning_that_starts_from_weights_has_their_clamp_len(tmp_path):
    start_document(tmp_path, clamp_len=3, mem_len=8)
    for name in ("spiece.model", "xlnet_config.json"):
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
    with pytest.raises(UserError, match="mem_len: found 0, expected at least 1"):
        inherited(evaluation, ["mem_len"])


def test_fine_tuning_does_not_take_the_directory_of_a_pretrained_model(tmp_path):
    """It asked for a vocabulary, which a pretraining run keeps elsewhere."""
    start_document(tmp_path)
    for what in (dict(do_train=True), dict(do_train=False, do_predict=True)):
        settings = ClassifierSettings(
            **{**TASK, **what, "model_dir": str(tmp_path), "data_dir": "d"}
        )
        groups = settings, NetworkSettings(), OptimizationSettings()
        said = "found a pretrained model.*give it as init_checkpoint"
        with pytest.raises(UserError, match=said):
            task_settings.inherited_settings(*groups, [*TASK], None)


def test_no_training_begins_with_random_weights_next_to_released_ones(tmp_path):
    """Whoever gave the directory of released weights as model_dir trained a random network."""
    (tmp_path / "xlnet_model.ckpt.index").write_text("")
    new = {**TASK, "do_train": True, "model_dir": str(tmp_path), "data_dir": "d"}
    others = NetworkSettings(), OptimizationSettings()

    def tune(**more):
        files = dict(spiece_model_file="s", model_config_path="c")
        settings = ClassifierSettings(**new, **files, **more)
        task_settings.inherited_settings(settings, *others, [*new], None)

    def pretrain(**more):
        settings = PretrainingSettings(
            record_info_dir="r", model_dir=str(tmp_path), **more
        )
        inherited(settings)

    said = "model_dir: .*: found weights to start from.* as init_checkpoint"
    for start in (tune, pretrain):
        with pytest.raises(UserError, match=said):
            start()
        start(init_checkpoint=str(tmp_path))
    # A run that began there resumes.
    (tmp_path / "model.ckpt-1.index").write_text("")
    pretrain()


# ---- the files of a run, from the command line


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A workspace with a finished run in `model`."""
    place = make_workspace(tmp_path_factory.mktemp("resumed"))
    place.succeed("--do_train=True", eval_steps=1)
    return place


@pytest.mark.parametrize(
    "name, change, said",
    [
        (
            "own/train.tsv",
            lambda text: text + "x\tkamat\ttelok\tanimal\n",
            "to train on",
        ),
        ("own/test.tsv", lambda text: text.replace("test-0", "test-1"), None),
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
        done = place.run("--do_train=True", eval_steps=1)
    finally:
        path.write_bytes(before)
    if said:
        assert done.returncode == 1 and said in done.errors[0], done
    else:
        assert done.returncode == 0 and "has all of its 2 steps" in done.stdout, done


def test_another_dev_file_is_refused_where_steps_are_left(place):
    """Evaluations of two files would be compared."""
    path = place.directory / "own" / "dev.tsv"
    before = path.read_bytes()
    try:
        path.write_bytes(before + b"x\tkamat\ttelok\tanimal\n")
        done = place.run("--do_train=True", eval_steps=1, train_steps=3)
    finally:
        path.write_bytes(before)
    assert "the files to evaluate on (--dev_file, of questions also" in done.errors[0]


def test_predictions_of_two_files_do_not_go_to_one(place):
    names = ",".join(str(place.directory / "own" / f"{n}.tsv") for n in ("dev", "test"))
    output = place.path("both.tsv")
    done = place.run("--do_predict=True", predict_file=names, output=output)
    assert "output: found one file, expected predict_dir for " in done.errors[0]
    assert not os.path.exists(output)


@pytest.mark.slow
def test_the_one_file_is_evaluated_on_what_training_held_out(place, monkeypatch):
    """Also if it has been copied, or has got more rows; another file completely."""
    path, copy, new = (
        place.directory / f"{name}.tsv" for name in ("one", "copy", "new")
    )
    content = (place.directory / "own" / "train.tsv").read_text()
    path.write_text(content)
    copy.write_text(content)
    new.write_text("\n".join(content.splitlines()[:10]) + "\n")
    model = place.path("one")

    def count(*arguments, **changes):
        """The number of examples that an evaluation counts."""
        flags = dict(dict(data_dir=path, model_dir=model, eval_steps=1), **changes)
        out = place.succeed("--do_eval=True", *arguments, **flags)
        line = re.findall(r"^eval custom dev  step .*\((\d+) rows\)", out, re.MULTILINE)
        return int(line[-1])

    monkeypatch.chdir(place.directory)
    trained = "--do_train=True", "--dev_share=0.3"
    held_out = count(*trained, data_dir="one.tsv")
    monkeypatch.chdir("/")
    document = place.json("one", "run.json")
    assert document["resolved"]["data_dir"] == str(path)
    assert set(document["read"]) == {"train", "held_out"}  # the one file once
    assert 1 <= held_out < 21
    assert count(*trained) == count() == count(dev_share=0.3) == held_out
    assert count(data_dir=copy) == held_out
    assert count(data_dir=new) == 9
    with open(path, "a", encoding="utf-8") as f:
        for i in range(40):
            f.write(f"m{i}\tkamat {i}\ttelok\tanimal\n")
    assert held_out < count() < 40


# ---- other


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
    without_rights = "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"
    program = sys.executable, "-m", "xlnet", "classify"
    flags = "--model_dir=model", "--data_dir=dev.csv", "--device=cpu"

    def run(*arguments):
        return subprocess.run(
            ["setpriv", *without_rights, *program, *flags, *arguments],
            cwd=tmp_path,
            env=dict(os.environ, PYTHONPATH=str(ROOT)),
            capture_output=True,
            text=True,
        )

    done = run("--do_eval")
    assert done.returncode == 0, done
    assert "eval custom dev  step 1  accuracy" in done.stdout
    done = run("--do_eval", "--predict_dir=out")
    assert done.returncode == 0, done
    assert (tmp_path / "out" / "eval_results_dev.json").exists()
    done = run("--do_predict", "--predict_file=dev.csv")
    assert done.returncode == 1, done
    assert "model_dir: found model, which cannot" in done.stderr
