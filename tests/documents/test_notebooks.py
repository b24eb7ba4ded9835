"""The notebooks: that of the paper's figures runs, and draws and says what it has kept; those of
examples/ run, in fewer steps."""

import json
import re

import notebooks
import numpy as np
from helpers.paths import ROOT

PAPER = ROOT / "docs" / "explanation" / "paper_figures.ipynb"
_NUMBER = r"\d+\.\d+"


def kinds(outputs):
    return [output["output_type"] for output in outputs]


def printed(outputs):
    return "".join(text for output in outputs for text in output.get("text", ()))


def test_the_papers_figures(monkeypatch):
    monkeypatch.chdir(ROOT / "tests")  # nothing depends on the place
    notebook = notebooks.read(PAPER)
    kept = [cell["outputs"] for cell in notebooks.code_cells(notebook)]
    said = ""
    for before, now in zip(kept, notebooks.run(notebook)):
        assert kinds(now) == kinds(before)
        assert re.sub(_NUMBER, "", printed(now)) == re.sub(_NUMBER, "", printed(before))
        found, wanted = (re.findall(_NUMBER, printed(each)) for each in (now, before))
        np.testing.assert_allclose(
            np.array(found, float), np.array(wanted, float), atol=0.2
        )
        said += printed(now)
    assert kinds(sum(kept, [])).count("display_data") == 8
    assert "the same: True\n" in said
    first, second = re.search("nats at the end: (.*) and (.*)", said).groups()
    assert np.log(12) / 2 - 0.1 < float(first) < 1.6 and float(second) < 0.3


def test_pretraining_on_own_text(monkeypatch, tmp_path):
    outputs = run_in(
        tmp_path,
        monkeypatch,
        "pretrain_tiny",
        ("head -n 8000", "head -n 3000"),
        ("--train_steps=1000", "--train_steps=20 --warmup_steps=2"),
        ("--log_steps=100", "--log_steps=10"),
    )
    said = printed(outputs)
    assert kinds(outputs).count("display_data") == 1 and "held out: step 20" in said
    filled = r"^0\.\d{4}  Return the .* of the object\.$"
    assert len(re.findall(filled, said, re.MULTILINE)) == 3


def test_a_spreadsheet(monkeypatch, tmp_path):
    outputs = run_in(tmp_path, monkeypatch, "spreadsheet", ("--epochs=8", "--epochs=1"))
    said = printed(outputs)
    assert "constant answer" in said and "(46 rows)" in said
    assert re.search(r"^\w+ +\d\.\d\d  Give the logger a handler", said, re.MULTILINE)
    assert re.search(r"^\w+  \w+  \w", said, re.MULTILINE)  # an error


def run_in(folder, monkeypatch, name, *changes):
    """The outputs of a notebook of examples/, with changes of its commands."""
    monkeypatch.chdir(folder)
    text = (ROOT / "examples" / (name + ".ipynb")).read_text(encoding="utf-8")
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return sum(notebooks.run(json.loads(text)), [])
