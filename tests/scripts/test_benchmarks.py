"""The benchmark: its counts agree with the graph, it runs, it says what is wrong."""

import concurrent.futures.process
import http.server
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from unittest import mock

import costs
import numpy as np
import pytest
import run
import serving
import serving_load
import time_runtimes
import time_xlnet
from helpers.matmuls import operations_of
from helpers.paths import ROOT
from work import WORKS

from xlnet.model import kernels_tuned
from xlnet.settings.network import XLNetConfig
from xlnet.support.errors import UserError

ON_GPU = os.environ.get("XLNET_TEST_GPU") == "1"
RUN = [
    sys.executable,
    str(ROOT / "benchmarks" / "run.py"),
    "--works=infer",
    "--n_layer=1",
    "--model_config_path=%s" % (ROOT / "configs" / "model" / "tiny.json"),
]


def base(**changes):
    path = ROOT / "configs" / "model" / "base.json"
    return dict(json.loads(path.read_text(encoding="utf-8")), **changes)


@pytest.mark.parametrize(
    "name, recompute",
    (
        ("pretrain", False),
        ("pretrain", True),
        ("finetune", False),
        ("finetune", True),
        ("infer", False),
    ),
)
def test_operations_are_those_of_the_graph(graph, name, recompute):
    """Up to what the formulas leave out: segments beside the keys, the classifier's head."""
    config = base(n_layer=2)
    time_xlnet.build(
        WORKS[name], XLNetConfig(**config), dict(precision="fp32", recompute=recompute)
    )
    assert operations_of(graph) == pytest.approx(
        costs.step_operations(config, WORKS[name], recompute), rel=0.02
    )


@pytest.mark.parametrize("name", ("pretrain", "finetune512"))
def test_operations_on_a_gpu(graph, monkeypatch, name):
    """All rows of attention are one block there."""
    monkeypatch.setattr(kernels_tuned, "device_here", lambda: "gpu")
    config = base(n_layer=2)
    time_xlnet.build(
        WORKS[name], XLNetConfig(**config), dict(precision="bf16", recompute=False)
    )
    found = operations_of(graph)
    for_gpus, for_cpus = (
        run.operations(config, WORKS[name], device) for device in ("gpu", "cpu")
    )
    assert found == pytest.approx(for_gpus, rel=0.01)
    assert abs(found - for_gpus) < abs(found - for_cpus) / 2


def test_utilisation_is_the_share_of_the_peak():
    """10 TFLOP in half a second on a GPU of 40 TFLOP/s, which multiplies large matrices at 25."""
    settings = run.BenchmarkSettings(device="gpu", peak_tflops=40.0)
    said = run.in_products({"wall": 0.5}, {"matrix_rate": 25e12}, 10e12, settings)
    assert said == "1.25 (utilisation: 50.0 %)"


@pytest.mark.skipif(ON_GPU, reason="is about machines without one")
def test_without_a_gpu_nothing_is_timed(capsys):
    with pytest.raises(
        UserError, match="device is gpu, but no GPU was found: CUDA_VISIBLE_DEV"
    ):
        run.main(run.BenchmarkSettings(device="gpu", works="infer"))
    assert not capsys.readouterr().out


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU: XLNET_TEST_GPU=1")
def test_on_a_gpu(capsys):
    run.main(
        run.BenchmarkSettings(
            device="gpu",
            xla=True,
            works="pretrain,infer",
            precisions="bf16",
            n_layer=1,
            batch=2,
            length=64,
            peak_tflops=100.0,
            repeats=1,
            warm_up=1,
        )
    )
    rows = [
        line.split(" | ")
        for line in capsys.readouterr().out.splitlines()
        if "| this library" in line and "ratio" not in line
    ]
    assert len(rows) == 3 and all(
        0 < float(row[5]) and "utilisation" in row[6] for row in rows
    )


def test_parameters_are_those_of_the_released_models():
    assert costs.parameters(base()) == 116718336 + 32000
    large = json.loads(
        (ROOT / "configs" / "model" / "large.json").read_text(encoding="utf-8")
    )
    assert costs.parameters(large) == 360268800 + 32000


def test_benchmark_prints_its_table():
    """A rival that cannot do the work, here a Python that has none, has a row that says why."""
    rivals = [f"--{name}={sys.executable}" for name in ("huggingface", "kerashub")]
    done = subprocess.run(
        RUN
        + rivals
        + ["--halves", "--batch=2", "--length=16", "--repeats=1", "--warm_up=1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for system in ("KerasHub on tensorflow", "KerasHub on jax"):
        assert f"| infer 2 × 16, fp32 | {system} | time_kerashub.py with" in done.stdout
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in done.stdout.splitlines()
        if "| this library" in line
    ]
    assert [row[1] for row in rows] == ["this library", "this library, two halves"]
    for cells in rows:
        assert cells[0] == "infer 2 × 16, fp32" and float(cells[5]) > 0
        tokens, seconds = float(cells[4]), float(cells[2])
        assert abs(tokens * seconds - 32) <= tokens * 1e-4  # seconds have four decimals


@pytest.mark.parametrize(
    "flag, message",
    (
        ("--works=sleep", "works: no work 'sleep' (there are pretrain,"),
        ("--precisions=fp8", "precisions: no precision 'fp8'"),
        ("--compiled", "compiled: also needs --huggingface"),
        ("--peak_tflops=312", "peak_tflops: is of a GPU"),
        (
            "--device=gpu --halves",
            "device is gpu: kerashub, halves and runtimes are timed on the CPU",
        ),
        ("--kerashub=/no/such/python", "kerashub: /no/such/python is not a program"),
    ),
)
def test_wrong_flags_are_named(flag, message):
    done = subprocess.run(
        [sys.executable, RUN[1], *flag.split()], capture_output=True, text=True
    )
    assert done.returncode == 1 and message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("batches", ("1,300", "0", "1,two", ""))
def test_batches_that_there_are_no_texts_for_are_refused(batches):
    settings = serving.ServingBenchmark(spiece_model_file="none", batches=batches)
    with pytest.raises(
        UserError, match="^batches: '.*', expected numbers from 1 to 256"
    ):
        serving.main(settings)


class Server:
    """In place of a server: runs until it is stopped."""

    should_exit = False

    def __init__(self, *_):
        pass

    def run(self, sockets):
        while not self.should_exit:
            time.sleep(0.01)


def test_a_measurement_that_fails_stops_the_server(monkeypatch):
    """Its thread kept the process, and the parent waited for that."""
    pytest.importorskip("starlette", reason="the server needs pip install '.[serve]'")

    def fails(*_):
        raise MemoryError("of the first batch")

    before = threading.active_count()
    monkeypatch.setattr("xlnet.server.application.server", Server)
    monkeypatch.setattr("xlnet.server.served_model.ServedModel", lambda *_, **__: None)
    monkeypatch.setattr(serving, "make_texts", lambda *_: ["a text"])
    monkeypatch.setattr(serving, "in_process", fails)
    with pytest.raises(MemoryError, match="of the first batch"):
        serving.measure(
            serving.ServingBenchmark(spiece_model_file="none", precisions="fp32")
        )
    assert threading.active_count() == before


@pytest.fixture
def refusing_port():
    """The port of a server that refuses requests with the word "refuse", and answers others."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            is_refused = b"refuse" in self.rfile.read(
                int(self.headers["Content-Length"])
            )
            self.send_response(400 if is_refused else 200)
            self.end_headers()
            self.wfile.write(
                b'{"error": "too large"}' if is_refused else b'{"predictions": []}'
            )

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_refused_requests_are_no_load(refusing_port, monkeypatch, capsys):
    monkeypatch.setattr(serving_load, "_PAUSE", 0.1)
    settings = serving_load.LoadBenchmark(
        spiece_model_file="none", seconds=1.0, rounds=1
    )
    light = {"text": serving_load.request("text", ["a text"])}
    heavy = serving_load.request("generate", ["refuse"])
    with pytest.raises(RuntimeError, match="too large"):
        serving_load.show(refusing_port, settings, light, "32 beams", heavy)
    assert not capsys.readouterr().out


def test_tokens_of_refused_clients_are_not_counted(refusing_port, monkeypatch):
    """Only those beside each other are refused: a list of the same texts is answered."""
    request = serving_load.request

    def of_one_text_refused(signature, instances, **parameters):
        is_second = instances == ["second"]
        return request(signature, ["refuse"] if is_second else instances, **parameters)

    monkeypatch.setattr(serving_load, "request", of_one_text_refused)
    settings = serving_load.LoadBenchmark(spiece_model_file="none", clients=2)
    with pytest.raises(RuntimeError, match="too large"):
        list(serving_load.generation(refusing_port, settings, ["first", "second"]))


def for_accelerators(name):
    """A program of benchmarks/accelerators as a module."""
    path = ROOT / "benchmarks" / "accelerators" / (name + ".py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_bundle_without_its_packer_is_an_error(tmp_path, monkeypatch, capfd):
    """It ended well, and had no parts."""
    for folder in ("bin", "tree"):
        (tmp_path / folder).mkdir()
    for name in ("bash", "tar", "split"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(subprocess.CalledProcessError, match="status 127"):
        for_accelerators("bundle").pack(tmp_path / "tree", tmp_path / "parts", 100)
    assert "zstd: command not found" in capfd.readouterr().err


@pytest.mark.skipif(not shutil.which("zstd"), reason="needs zstd")
def test_a_bundle_is_unpacked_from_its_parts(tmp_path):
    tree, unpacked = tmp_path / "it's a tree", tmp_path / "unpacked"
    for folder in (tree, unpacked):
        folder.mkdir()
    content = np.random.RandomState(0).bytes(1000)
    (tree / "library").write_bytes(content)
    for_accelerators("bundle").pack(tree, tmp_path / "parts", 500)
    assert [path.name for path in sorted((tmp_path / "parts").iterdir())] == [
        "p00",
        "p01",
        "p02",
    ]
    subprocess.run(
        ["bash", "-c", 'cat "$1"/p* | zstd -dc --long=28 | tar -xf - -C "$2"', "bash"]
        + [tmp_path / "parts", unpacked],
        check=True,
    )
    assert (unpacked / "library").read_bytes() == content


@pytest.fixture
def run_step(monkeypatch):
    """The module, without JAX: the program that it runs returns what the test sets."""
    for name in ("", "._src.interpreters", "._src.lib.mlir", ".extend"):
        monkeypatch.setitem(sys.modules, "jax" + name, mock.MagicMock())
    monkeypatch.setattr(sys, "path", [*sys.path])
    return for_accelerators("run_step")


LOSS, GRADIENT, OTHER = np.float32(2.0), np.array([1.0, -2.0]), np.array([[4.0]])


@pytest.mark.parametrize(
    "gradient, other, is_same",
    (
        (GRADIENT, OTHER, True),
        (GRADIENT + 2e-3, OTHER, True),  # as TF32 rounds
        (GRADIENT + [0.0, 0.1], OTHER, False),
        (GRADIENT, OTHER * np.nan, False),  # not the first number
    ),
)
def test_a_step_is_compared_with_tensorflow(
    run_step, tmp_path, monkeypatch, capsys, gradient, other, is_same
):
    np.savez(tmp_path / "values.npz", in0=LOSS, out0=LOSS, out1=GRADIENT, out2=OTHER)
    monkeypatch.setattr(run_step, "run", lambda *_: [LOSS, gradient, other])
    found = run_step.compare(
        str(tmp_path), None, [((), "f4")], run_step.TOLERANCES["fp32"]
    )
    assert found == is_same
    assert ("WRONG" in capsys.readouterr().out) != is_same


@pytest.mark.parametrize(
    "factors, is_same",
    (
        ((1.0, 1.02, 0.98), True),
        ((1.0, 1.02, 30.0), True),  # one that is zero but for rounding
        ((1.0, 1.2, 1.2), False),
        ((1.0, 1.0, np.nan), False),
    ),
)
def test_steps_of_a_network_are_compared(run_step, capsys, factors, is_same):
    first = [LOSS, GRADIENT, OTHER]
    outputs = [each * factor for each, factor in zip(first, factors)]
    found = run_step.compare_steps(
        "b", outputs, "a", first, run_step.TOLERANCES["bf16"]
    )
    assert found == is_same
    printed = capsys.readouterr().out
    assert ("WRONG" in printed) != is_same and ("at most nan" in printed) == np.isnan(
        factors[2]
    )


@pytest.mark.parametrize("dropout, status", ((0.0, 1), (0.1, 0)))
def test_the_status_says_whether_steps_are_the_same(
    run_step, tmp_path, monkeypatch, dropout, status
):
    """Two steps with dropout are not."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        about = {"work": vars(WORKS["pretrain"]), "config": base(), "precision": "bf16"}
        (tmp_path / name / "step.json").write_text(
            json.dumps(dict(about, dropout=dropout))
        )
    outputs = iter((LOSS, 2 * LOSS))
    monkeypatch.setattr(run_step, "stablehlo", lambda directory: b"")
    monkeypatch.setattr(run_step, "parameters", lambda text: [])
    monkeypatch.setattr(run_step, "random_inputs", lambda *_: [])
    monkeypatch.setattr(run_step, "timed", lambda *_: (1.0, 2.0))
    monkeypatch.setattr(run_step, "run", lambda *_: [next(outputs)])
    run_step.jax.__version__ = "0"
    run_step.jax.devices()[0].memory_stats.return_value = {}
    monkeypatch.setattr(
        sys, "argv", ["run_step.py", str(tmp_path / "a"), str(tmp_path / "b")]
    )
    assert run_step.main() == status


def killed(*arguments):
    """In place of `time_runtimes.write_model`: a process that runs out of memory."""
    os._exit(9)


def test_an_export_that_is_killed_is_an_error(monkeypatch):
    """It was waited for without end."""
    options = dict(
        work=vars(WORKS["infer"]),
        config={},
        runtime="openvino",
        quantize=False,
        exports="",
    )
    monkeypatch.setattr(time_runtimes.works, "arguments", lambda: options)
    monkeypatch.setattr(time_runtimes, "write_model", killed)
    with pytest.raises(concurrent.futures.process.BrokenProcessPool):
        time_runtimes.main()
