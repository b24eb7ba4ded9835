"""Presets: known settings, the memory and devices that they state; flags override them."""

import dataclasses
import json
import re

import costs
import pytest
from helpers import command
from helpers.paths import ROOT
from work import Work

from xlnet.settings import presets
from xlnet.settings.fields import check_value
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import OptimizationSettings
from xlnet.tasks.types import known

PRESETS = {
    name: presets.read(name, "config", "finetune")
    for name in presets.names("finetune")
    if name != "tiny"  # for any task
}
FIELDS = {
    field.name: field
    for group in (
        ClassifierSettings,
        TaggerSettings,
        SpanSettings,
        NetworkSettings,
        OptimizationSettings,
    )
    for field in dataclasses.fields(group)
}


def test_presets():
    for key, preset in PRESETS.items():
        for name, value in preset.items():
            if name != "about":
                check_value(FIELDS[name], value, key)
        task = preset["task_name"]
        assert key in (task, task + "-base") and preset["about"]
        if task == known.CUSTOM:  # how long it is depends on the file
            assert preset["epochs"] and "train_steps" not in preset
            continue
        assert 0 < preset.get("warmup_steps", 1) < preset["train_steps"]
        assert (
            preset["train_steps"] % preset["save_steps"] == 0 or "eval_steps" in preset
        )


def test_the_programs_take_the_presets(tmp_path, monkeypatch):
    """Their settings fit each other: what is missing is the data."""
    monkeypatch.chdir(tmp_path)
    for name, preset in PRESETS.items():
        task = preset["task_name"]
        program = (
            "xlnet classify"
            if task == known.CUSTOM
            else known.find_task(task).type.program
        )
        done = run(name, "--do_train=True", program=program)
        assert (
            done.returncode == 1
            and "data_dir: no such file or directory" in done.stderr
        ), name


@pytest.mark.parametrize(
    "name, settings",
    [
        (
            "sts-b",
            dict(
                learning_rate=5e-5,
                train_steps=1200,
                warmup_steps=120,
                max_seq_length=128,
            ),
        ),
        (
            "imdb",
            dict(
                learning_rate=2e-5,
                train_steps=4000,
                warmup_steps=500,
                train_batch_size=32,
                max_seq_length=512,
            ),
        ),
        (
            "race",
            dict(
                learning_rate=2e-5,
                train_steps=12000,
                warmup_steps=1000,
                train_batch_size=32,
            ),
        ),
        (
            "squad2",
            dict(
                learning_rate=3e-5,
                train_steps=8000,
                warmup_steps=1000,
                train_batch_size=48,
                lr_layer_decay_rate=0.75,
                max_seq_length=512,
            ),
        ),
        (
            "squad2-base",
            dict(learning_rate=2e-5, train_steps=12000, train_batch_size=24),
        ),
        (
            "rte",
            dict(
                learning_rate=3e-5,
                train_steps=800,
                warmup_steps=200,
                train_batch_size=32,
            ),
        ),
    ],
)
def test_published_settings(name, settings):
    preset = PRESETS[name]
    assert {
        key: preset[key] for key in settings
    } == settings and "published it" in preset["about"]


def test_where_every_question_has_an_answer_one_is_always_given():
    for name in ("squad1", "squad1-base", "cmrc2018", "cmrc2018-base"):
        assert PRESETS[name]["predict_threshold"] == 1


def run(path, *flags, program="run_classifier.py"):
    return command.run(
        program,
        f"--config={path}",
        "--model_dir=m",
        "--data_dir=d",
        "--output_dir=o",
        "--spiece_model_file=s",
        "--model_config_path=c",
        *flags,
    )


@pytest.mark.parametrize(
    "content, flags, status, message",
    [
        (
            '{"task_name": "rte", "do_train": true}',
            [],
            1,
            "data_dir: no such file or directory: d",
        ),
        (
            '{"task_name": "rte", "do_train": true}',
            ["--do_train=False"],
            2,
            "nothing to do",
        ),
        ("{}", ["--do_train"], 2, "flag --task_name is required"),
        ('{"task": "rte"}', [], 1, "unknown setting 'task'"),
        (
            '{"train_step": 5}',
            [],
            1,
            "unknown setting 'train_step'; did you mean 'train_steps'?",
        ),
        ('{"train_steps": "5"}', [], 1, "train_steps is '5'"),
        ('{"train_steps": 0}', [], 1, "train_steps is 0"),
        ('{"summary_type": "least"}', [], 1, "expected one of last, first, mean, attn"),
        ("{", [], 1, "not valid JSON"),
    ],
)
def test_a_preset_is_read_before_flags(
    tmp_path, monkeypatch, content, flags, status, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "preset.json").write_text(content)
    done = run("preset.json", *flags)
    assert done.returncode == status and message in done.stderr
    assert len(done.stderr.splitlines()) == 1


# ---- memory, devices, directories

PRETRAIN = [
    path
    for path in sorted((ROOT / "configs" / "pretrain").glob("*.json"))
    if path.stem != "tiny"
]
LONG = [
    name
    for name, preset in PRESETS.items()
    if not name.endswith("-base") and preset["max_seq_length"] == 512
]
V100 = 16  # GiB
WITHOUT_BFLOAT16 = ("V100", "T4")


def gib(preset, model, work):
    """What the formulas say a device of the preset keeps in a step [GiB]."""
    config = dict(
        json.loads((ROOT / "configs" / "model" / (model + ".json")).read_text()),
        n_token=32000,
    )
    size = 4 if preset.get("precision", "fp32") == "fp32" else 2
    return (
        costs.state_bytes(config)
        + costs.activations(config, work, preset.get("recompute", False), size)
    ) / 2**30


def test_memory_is_that_of_the_formulas():
    for path in PRETRAIN:
        preset = json.loads(path.read_text())
        about = preset["about"]
        devices = int((re.search(r"(\d+) (?:GPUs|TPU)", about["for"]) or [1, 1])[1])
        assert preset.get("num_core_per_host", 1) == devices or preset.get("use_tpu")
        rows, rest = divmod(
            preset["train_batch_size"], devices * preset.get("grad_accum_steps", 1)
        )
        found = gib(
            preset,
            path.stem.split("_")[0],
            Work(
                "pretrain",
                rows,
                preset["seq_len"],
                preset["mem_len"],
                preset["num_predict"],
            ),
        )
        assert rest == 0 and about["memory"].startswith(
            f"{found:.1f} GiB by benchmarks/costs.py"
        )
        for size in map(int, re.findall(r"(\d+) (?:or \d+ )?GB", about["for"])):
            assert found < 0.6 * size, (
                "as much again is left for what the formulas leave out"
            )
            assert found > size / 3, "a larger batch would fit"
        if any(gpu in about["for"] for gpu in WITHOUT_BFLOAT16):
            assert preset["precision"] != "bf16"
        assert about["streams"].endswith(
            "--num_streams={}".format(preset["train_batch_size"])
        )


def test_long_texts_fit_a_gpu_of_16_gb():
    """XLNet-Large on 512 tokens; a question of RACE is four rows."""
    for name in LONG:
        preset = PRESETS[name]
        rows = preset["train_batch_size"] * (4 if name == "race" else 1)
        each, rest = divmod(rows, preset["grad_accum_steps"])
        found = gib(preset, "large", Work("finetune", each, 512))
        assert (
            rest == 0 and f"{found:.1f} GiB by benchmarks/costs.py" in preset["about"]
        )
        assert found < 0.6 * V100 < gib({}, "large", Work("finetune", rows, 512))


def test_presets_name_an_architecture():
    for path in (ROOT / "configs" / "pretrain").glob("*.json"):
        assert json.loads(path.read_text())["model_config_path"] in presets.names(
            "model"
        )
