"""TensorFlow's log lines at its import."""

import os
import subprocess
import sys

import pytest
from helpers.paths import ROOT

pytestmark = pytest.mark.slow

TENSORFLOW = """
import os, sys
os.write(2, b"a log line\\n")
print("a warning", file=sys.stderr)
%s
"""
PROGRAM = """
import os, sys
from xlnet.support import system
try:
    system.import_tensorflow()
    import tensorflow
except ImportError as e:
    print(e)
os.write(2, b"after\\n")
print("and", file=sys.stderr)
"""


@pytest.mark.parametrize(
    "level, ending, shown",
    (
        (None, "", "a warning\nafter\nand\n"),
        ("3", "", "a warning\nafter\nand\n"),
        ("0", "", "a log line\na warning\nafter\nand\n"),
        (None, "raise ImportError('damaged')", "a warning\nafter\nand\n"),
    ),
)
def test_only_what_tensorflows_libraries_write_is_dropped(
    tmp_path, level, ending, shown
):
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW % ending)
    environment = dict(os.environ, PYTHONPATH=f"{tmp_path}:{ROOT}")
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    if level:
        environment["TF_CPP_MIN_LOG_LEVEL"] = level
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, text=True, capture_output=True
    )
    assert done.stderr == shown and done.stdout == ("damaged\n" if ending else "")


WITHOUT_KERAS = """
import importlib.util, sys
from xlnet.support import system
system.import_tensorflow()
import tensorflow as tf
if tf.__version__ >= "2.16":
    assert not {"keras", "sklearn"} & set(sys.modules)
if importlib.util.find_spec("tensorflow_text"):
    import tensorflow_text
    tensorflow_text.SentencepieceTokenizer
from tensorflow.keras.layers import Dense
tf.keras.layers.Dense(1)(tf.zeros([1, 1]))
"""


def test_keras_is_imported_only_when_it_is_used():
    subprocess.run(
        [sys.executable, "-c", WITHOUT_KERAS],
        check=True,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
    )
