"""The benchmark: its counts agree with the graph, it runs, it says what is wrong."""

import os
import subprocess
import sys

import costs
import pytest
import run
import time_xlnet
from helpers.matmuls import operations_of
from helpers.paths import ROOT
from work import WORKS

from xlnet.settings.fields import presets_of
from xlnet.settings.network import XLNetConfig
from xlnet.support.errors import UserError

ON_GPU = os.environ.get("XLNET_TEST_GPU") == "1"
SIZES = presets_of("model")


@pytest.mark.parametrize(
    "name, recompute",
    (("pretrain", False), ("pretrain", True), ("finetune", True), ("infer", False)),
)
def test_operations_are_those_of_the_graph(graph, name, recompute):
    """Up to what the formulas leave out: segments beside the keys, the classifier's head."""
    config = dict(SIZES["base"], n_layer=2)
    options = dict(precision="fp32", recompute=recompute)
    time_xlnet.build(WORKS[name], XLNetConfig(**config), options)
    expected = costs.step_operations(config, WORKS[name], recompute)
    assert operations_of(graph) == pytest.approx(expected, rel=0.02)


def test_parameters_are_those_of_the_released_models():
    assert costs.parameters(SIZES["base"]) == 116718336 + 32000
    assert costs.parameters(SIZES["large"]) == 360268800 + 32000


@pytest.mark.skipif(ON_GPU, reason="is about machines without one")
def test_without_a_gpu_nothing_is_timed(capsys):
    with pytest.raises(UserError, match="device: found TensorFlow finds no GPU"):
        run.main(run.BenchmarkSettings(device="gpu", works="infer"))
    assert not capsys.readouterr().out


def test_benchmark_prints_its_table():
    """A rival that cannot do the work, here a Python that has none, has a row that says why."""
    rivals = [f"--{name}={sys.executable}" for name in ("huggingface", "kerashub")]
    words = [sys.executable, ROOT / "benchmarks" / "run.py", *rivals, "--halves"]
    words += "--works=infer --n_layer=1 --model_config_path=tiny".split()
    words += "--batch=2 --length=16 --repeats=1 --warm_up=1".split()
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for system in ("KerasHub on tensorflow", "KerasHub on jax"):
        assert f"| infer 2 × 16, fp32 | {system} | time_kerashub.py with" in done.stdout
    rows = []
    for line in done.stdout.splitlines():
        if "| this library" in line:
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    assert [row[1] for row in rows] == ["this library", "this library, two halves"]
    for cells in rows:
        assert cells[0] == "infer 2 × 16, fp32" and float(cells[5]) > 0
        tokens, seconds = float(cells[4]), float(cells[2])
        assert abs(tokens * seconds - 32) <= tokens * 1e-4  # seconds have four decimals


@pytest.mark.parametrize(
    "given, message",
    (
        (dict(works="sleep"), "works: found sleep, expected pretrain, "),
        (dict(compiled=True), "compiled: found no huggingface"),
        (dict(peak_tflops=312.0), "peak_tflops: found device cpu"),
        (dict(device="gpu", halves=True), "device: found gpu, expected cpu"),
        (dict(kerashub="/no/such/python"), "kerashub: found /no/such/python"),
    ),
)
def test_wrong_flags_are_named(given, message):
    with pytest.raises(UserError, match=message):
        run.main(run.BenchmarkSettings(**given))
