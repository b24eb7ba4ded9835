"""Settings: one definition each, checked by the group that they belong to, frozen."""

import dataclasses
import inspect
import itertools
import json
import sys
import types

import numpy as np
import pytest
from helpers import command
from helpers.networks import sizes

import xlnet
from xlnet.commands import cli
from xlnet.settings.data import CorpusSettings
from xlnet.settings.fields import REQUIRED, setting_type
from xlnet.settings.finetuning import (
    ClassifierSettings,
    SpanSettings,
    TaggerSettings,
    names_in,
)
from xlnet.settings.network import ArchitectureSettings, NetworkSettings
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import DeviceSettings, OptimizationSettings
from xlnet.support.errors import UserError

ARCHITECTURE = dict(**sizes(layers=1, width=4, heads=1, inner=4), n_token=9)
GROUPS = (
    CorpusSettings,
    ArchitectureSettings,
    NetworkSettings,
    OptimizationSettings,
    DeviceSettings,
    PretrainingSettings,
    ClassifierSettings,
    TaggerSettings,
    SpanSettings,
)


def make(group, **values):
    fields = dataclasses.fields(group)
    needed = [field.name for field in fields if field.default is REQUIRED]
    return group(**dict.fromkeys(needed, "x"), **values)


def test_shared_settings_have_one_type_and_one_range():
    for one, other in itertools.combinations(GROUPS, 2):
        others = {field.name: field for field in dataclasses.fields(other)}
        for field in dataclasses.fields(one):
            if field.name in others:
                assert setting_type(field) is setting_type(others[field.name])
                names = ["minimum", "maximum", "above", "below", "choices"]
                if field.name == "input_format":
                    names.pop()  # each program has its own choices
                for name in names:
                    other_value = others[field.name].metadata[name]
                    assert field.metadata[name] == other_value, field.name


def test_a_network_config_is_frozen_and_equal_by_value(tmp_path):
    one = xlnet.XLNetConfig(**ARCHITECTURE)
    one.to_json(str(tmp_path / "a.json"))
    other = xlnet.XLNetConfig(json_path=str(tmp_path / "a.json"))
    assert one == other and hash(one) == hash(other) and xlnet.XLNetConfig(one) == one
    assert repr(one).startswith("XLNetConfig(n_layer=1, d_model=4, ")
    assert dataclasses.replace(one, n_layer=2).n_layer == 2
    assert json.loads((tmp_path / "a.json").read_text()) == ARCHITECTURE
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.n_layer = 2
    with pytest.raises(UserError, match="XLNetConfig: n_layer: found 0"):
        dataclasses.replace(one, n_layer=0)


def test_a_run_config_is_frozen_and_has_the_documented_order():
    names = (
        "is_training use_tpu use_bfloat16 dropout dropatt init init_range init_std mem_len "
        "reuse_len bi_data clamp_len same_length precision recompute device traced_once "
        "fused_attention"
    )
    assert list(inspect.signature(xlnet.RunConfig).parameters) == names.split()
    run = xlnet.RunConfig(True, False, False, 0.1, 0.2)
    kept = run.init, run.init_range, run.init_std, run.clamp_len
    assert kept == ("normal", 0.1, 0.02, -1)
    assert run == xlnet.RunConfig(True, False, False, 0.1, 0.2, precision="fp32")
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.dropout = 0.3
    for values, message in (
        (dict(dropout=1.0), "dropout: found 1.0, expected at least 0 and less than 1"),
        (dict(init="zero"), "init: found 'zero', expected one of normal, uniform"),
        (dict(clamp_len=0), "clamp_len: found 0"),
        (dict(clamp_len=-2), "clamp_len: found -2"),
    ):
        with pytest.raises(UserError, match=message):
            dataclasses.replace(run, **values)


def test_a_run_config_has_all_settings_of_flags():
    recurrence = dict(mem_len=7, reuse_len=5, bi_data=True, same_length=True)
    others = dict(dropout=0.3, dropatt=0.2, init="uniform", init_range=0.4)
    others.update(init_std=0.5, clamp_len=9, precision="fp16", recompute=True)
    flags = types.SimpleNamespace(**recurrence, **others)
    required = dict(use_tpu=False, use_bfloat16=False)
    wanted = xlnet.RunConfig(True, **required, **recurrence, **others)
    assert xlnet.create_run_config(True, False, flags) == wanted
    wanted = xlnet.RunConfig(False, **required, **others)
    assert xlnet.create_run_config(False, True, flags) == wanted


@pytest.mark.parametrize(
    "group, values, message",
    [
        (CorpusSettings, dict(heldout_share=0.0), "heldout_share: found 0.0"),
        (CorpusSettings, dict(num_streams=3), "found 3, expected an even number: with"),
        (
            NetworkSettings,
            dict(use_bfloat16=True, precision="fp16"),
            "found fp16, expected bf16; --use_bfloat16",
        ),
        (
            OptimizationSettings,
            dict(warmup_steps=11, train_steps=10),
            "warmup_steps: found 11, expected at most train_steps, 10",
        ),
        (OptimizationSettings, dict(learning_rate=np.nan), "expected a finite number"),
        (
            ClassifierSettings,
            dict(do_train=True, patience=1, eval_steps=0),
            "patience: found no --eval_steps",
        ),
        (DeviceSettings, dict(num_hosts=0), "num_hosts: found 0"),
    ],
)
def test_a_group_checks_itself(group, values, message):
    with pytest.raises(UserError, match=message):
        make(group, **values).check()


@pytest.fixture
def preset(tmp_path):
    """Function that writes a preset; returns the flag that names it."""

    def write(**values):
        (tmp_path / "preset.json").write_text(json.dumps(values))
        return f"--config={tmp_path / 'preset.json'}"

    return write


def test_a_flag_goes_before_what_says_the_same_in_a_preset(preset):
    names = (
        "task_name model_dir data_dir output_dir spiece_model_file model_config_path"
    )
    others = dict(dict.fromkeys(names.split(), "missing"), do_train=True)
    program, flag = "run_classifier.py", preset(epochs=2.0, **others)
    line = command.refused(program, flag, "--train_steps=5")
    assert "data_dir: found no such" in line
    line = command.refused(program, preset(epochs=2, train_steps=7, **others))
    assert "found train_steps, too, expected one of them" in line
    # Also where the program has no such flag.
    line = command.refused("train_gpu.py", preset(train_steps=7, epochs=2))
    assert "found epochs, too, expected one" in line


def test_an_integer_in_a_preset_is_a_float_where_the_setting_is_one(
    preset, monkeypatch
):
    flag = preset(learning_rate=1, train_steps=2)
    monkeypatch.setattr(sys, "argv", ["program", flag])
    with cli.command(OptimizationSettings, about="") as line:
        (found,) = line.settings
        assert type(found.learning_rate) is float and type(found.train_steps) is int


def test_names_of_columns_are_read_as_a_row_of_csv():
    assert names_in('a, "b, c"') == ("a", "b, c")
    assert names_in('"first\nline"') == ("first\nline",)
    with pytest.raises(UserError, match="expected quotation marks around a name"):
        names_in("first\nline")
