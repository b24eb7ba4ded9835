"""xlnet env: what an issue should say."""

import platform
import re

import tensorflow as tf2
from helpers import command

import xlnet


def shown():
    """The lines by name."""
    done = command.succeed("xlnet env")
    lines = [line.split(None, 1) for line in done.stdout.splitlines()]
    assert all(len(line) == 2 for line in lines)
    return dict(lines)


def test_versions_and_devices_in_nine_lines():
    lines = shown()
    assert len(lines) == 9 and lines["xlnet"].startswith(xlnet.__version__ + ", a")
    assert lines["Python"] == platform.python_version()
    assert lines["TensorFlow"].startswith(tf2.__version__)
    assert re.search(r"numpy \d+\.\d+.*, sentencepiece 0\.2", lines["packages"])
    assert re.search(r"tensorflow-text (none|2\.)", lines["extras"])
    assert re.search(r"\d+ cores, \d+ GiB$", lines["processor"])
    assert lines["GPU"].startswith("none: ") or " GPU (" in lines["GPU"]


def test_variables_of_tensorflow_are_shown_but_no_paths_and_no_secrets(monkeypatch):
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_auto_jit=2")
    monkeypatch.setenv("CUDA_HOME", "/home/anna/cuda")
    monkeypatch.setenv("TF_VAR_password", "secret")
    monkeypatch.setenv("AWS_SECRET", "secret")
    line = shown()["variables"]
    assert "TF_XLA_FLAGS=--tf_xla_auto_jit=2" in line and "CUDA_HOME=(a path)" in line
    assert "secret" not in line and "anna" not in line
