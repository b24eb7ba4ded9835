"""The notebook of the paper's figures: it runs, and draws and says what it has kept."""

import re

import notebooks
import numpy as np
from helpers.paths import ROOT

PAPER = ROOT / "docs" / "explanation" / "paper.ipynb"
_NUMBER = r"\d+\.\d+"


def kinds(outputs):
    return [output["output_type"] for output in outputs]


def printed(outputs):
    return "".join(text for output in outputs for text in output.get("text", ()))


def test_the_papers_figures(monkeypatch):
    monkeypatch.chdir(ROOT / "tests")                   # nothing depends on the place
    notebook = notebooks.read(PAPER)
    kept = [cell["outputs"] for cell in notebooks.code_cells(notebook)]
    said = ""
    for before, now in zip(kept, notebooks.run(notebook)):
        assert kinds(now) == kinds(before)
        assert re.sub(_NUMBER, "", printed(now)) == re.sub(_NUMBER, "", printed(before))
        np.testing.assert_allclose(*([float(number) for number in re.findall(
            _NUMBER, printed(outputs))] for outputs in (now, before)), atol=.2)
        said += printed(now)
    assert kinds([each for outputs in kept for each in outputs]).count("display_data") == 8
    assert "the same: True\n" in said
    first, second = map(float, re.search("nats at the end: (.*) and (.*)", said).groups())
    assert np.log(12) / 2 - .1 < first < 1.6 and second < .3


def test_a_notebook_as_a_page():
    text = notebooks.as_markdown(notebooks.read(PAPER))
    assert text.count("data:image/png;base64,") == 8 and text.count("```python\n") > 8
