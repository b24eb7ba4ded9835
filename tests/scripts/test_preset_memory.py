"""Presets: the memory that they say, their devices, the directory that they run in."""

import json
import re

import costs
from helpers import command
from helpers.paths import ROOT
from work import Work

PRETRAIN = [path for path in sorted((ROOT / "configs" / "pretrain").glob("*.json"))
            if path.stem != "tiny"]
LONG = [path for path in sorted((ROOT / "configs" / "finetune").glob("*.json"))
        if "-base" not in path.stem and json.loads(path.read_text())["max_seq_length"] == 512]
V100 = 16       # GiB
WITHOUT_BFLOAT16 = ("V100", "T4")


def gib(preset, model, work):
    """What the formulas say a device of the preset keeps in a step [GiB]."""
    config = dict(json.loads((ROOT / "configs" / "model" / (model + ".json")).read_text()),
                  n_token=32000)
    size = 4 if preset.get("precision", "fp32") == "fp32" else 2
    return (costs.state_bytes(config) + costs.activations(
        config, work, preset.get("recompute", False), size)) / 2 ** 30


def test_memory_is_that_of_the_formulas():
    for path in PRETRAIN:
        preset = json.loads(path.read_text())
        about = preset["about"]
        devices = int((re.search(r"(\d+) (?:GPUs|TPU)", about["for"]) or [1, 1])[1])
        assert preset.get("num_core_per_host", 1) == devices or preset.get("use_tpu")
        rows, rest = divmod(preset["train_batch_size"],
                            devices * preset.get("grad_accum_steps", 1))
        found = gib(preset, path.stem.split("_")[0], Work(
            "pretrain", rows, preset["seq_len"], preset["mem_len"], preset["num_predict"]))
        assert rest == 0 and about["memory"].startswith("%.1f GiB by benchmarks/costs.py" % found)
        for size in map(int, re.findall(r"(\d+) (?:or \d+ )?GB", about["for"])):
            assert found < 0.6 * size, "as much again is left for what the formulas leave out"
            assert found > size / 3, "a larger batch would fit"
        if any(gpu in about["for"] for gpu in WITHOUT_BFLOAT16):
            assert preset["precision"] != "bf16"
        assert about["streams"].endswith("--num_streams=%d" % preset["train_batch_size"])


def test_long_texts_fit_a_gpu_of_16_gb():
    """XLNet-Large on 512 tokens; a question of RACE is four rows."""
    for path in LONG:
        preset = json.loads(path.read_text())
        rows = preset["train_batch_size"] * (4 if path.stem == "race" else 1)
        each, rest = divmod(rows, preset["grad_accum_steps"])
        found = gib(preset, "large", Work("finetune", each, 512))
        assert rest == 0 and "%.1f GiB by benchmarks/costs.py" % found in preset["about"]
        assert found < 0.6 * V100 < gib({}, "large", Work("finetune", rows, 512))


def test_presets_run_from_any_directory(tmp_path, monkeypatch):
    for path in (ROOT / "configs" / "pretrain").glob("*.json"):
        assert (path.parent / json.loads(path.read_text())["model_config_path"]).exists()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "preset.json").write_text('{"model_config_path": "c.json"}')
    (tmp_path / "sub" / "c.json").write_text("{}")
    arguments = ["--config=sub/preset.json", "--task_name=rte", "--do_train=True", "--data_dir=.",
                 "--output_dir=o", "--model_dir=m", "--spiece_model_file=s"]
    for found in ("sub/c.json", "c.json"):
        done = command.run("run_classifier.py", *arguments)
        assert "model config %s: missing n_layer" % found in done.stderr
        (tmp_path / "c.json").write_text("{}")      # where the program runs comes first
