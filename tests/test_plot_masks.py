"""xlnet plot masks: the masks of both streams of a text, as a figure."""

import os

import numpy as np
import pytest
from helpers import command, vocabulary
from helpers.paths import ROOT

from xlnet.plots import masks

ORDER = dict(
    rank=np.array([3, -1, 0, 2, 1], np.int32), is_target=np.array([1, 0, 1, 0, 1], bool)
)  # token 3 is special: permuted only


@pytest.fixture(scope="module")
def plot(tmp_path_factory):
    """A function that plots the masks of a text of invented words."""
    model = tmp_path_factory.mktemp("masks") / "sp.model"
    lines = ["ka lo mi sun tor ve.", "kalomi suntor ve lo."]
    vocabulary.train(str(model), lines * 20, 28)

    def plot(*arguments, run=command.succeed):
        flags = [f"--spiece_model_file={model}", "--text=ka lo mi", *arguments]
        return run("xlnet plot masks", *flags)

    return plot


def test_masks_of_an_order_made_by_hand():
    content, query = masks.visibility(memory_length=2, **ORDER)
    expected = ["1101111", "1101000", "1101000", "1101111", "1101100"]
    assert ["".join("01"[int(seen)] for seen in row) for row in query] == expected
    itself = np.eye(5, 7, 2, dtype=bool)
    np.testing.assert_array_equal(content, query | itself)


def test_masks_are_written(plot, tmp_path):
    image = tmp_path / "masks.png"
    done = plot(f"--output={image}", "--num_predict=2")
    assert image.read_bytes().startswith(b"\x89PNG")
    assert done.stdout == f"written: {image}\n"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--num_predict=78"], "num_predict: found 78, expected at most 77 for sequ"),
        (["--mask_mode=legacy"], "mask_mode: found legacy, a rule"),
        (["--text= "], "text: found 0 pieces, expected 1 to 40"),
        (["--output=masks.jpg"], "masks.jpg', expected a name that ends in .png"),
    ],
)
def test_bad_requests_are_refused_in_one_line(
    plot, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    done = plot("--output=m.png", *arguments, run=command.run)
    (line,) = done.stderr.splitlines()
    assert done.returncode in (1, 2) and message in line
    assert not done.stdout and not os.listdir(tmp_path)


def test_masks_are_plotted_in_an_order_of_ones_own(plot, tmp_path):
    output = tmp_path / "masks.png"
    example = ROOT / "examples" / "own_pretraining" / "left_to_right.py"
    flags = ["--factorization_order=left_to_right", f"--own_module={example}"]
    plot(*flags, f"--output={output}", "--text=kalomi suntor ve")
    assert output.read_bytes().startswith(b"\x89PNG")
