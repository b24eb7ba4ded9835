"""docs/how_to/python.md and the README's example, run as they stand."""

import pathlib
import re
import shutil

import pytest
from helpers.models import make_model
from helpers.paths import ROOT

import xlnet
from xlnet.inference.load import load as really_load

pytestmark = pytest.mark.slow

PAGE, README = (
    ROOT.joinpath(*names).read_text(encoding="utf-8")
    for names in (("docs", "how_to", "python.md"), ("README.md",))
)
MODELS = {
    "topics": "multi_label",
    "scores": "regression",
    "choices": "multiple_choice",
    "ranking": "ranking",
    "tags": "tagging",
    "answers": "spans",
    "pairs": "classification",
}


def blocks(text):
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def place(tmp_path, monkeypatch, model_of, permuted):
    """A working directory with the models that the page speaks of."""
    for name, kind in MODELS.items():
        shutil.copytree(model_of(kind), tmp_path / "model" / name)
    make_model(
        tmp_path / "model" / "news",
        "classification",
        text_b_column=None,
        labels=["asyncio", "email", "logging"],
    )
    shutil.copytree(
        tmp_path / "model" / "news", tmp_path / "sample_run" / "classifier_pretrained"
    )
    shutil.copytree(permuted.folder, tmp_path / "sample_run" / "pretrained")
    shutil.copytree(permuted.folder, tmp_path / "pretrained")
    released = tmp_path / "released"
    shutil.copytree(tmp_path / "model" / "news", released)
    for path in released.glob("model.ckpt-1.*"):
        path.rename(released / path.name.replace("model.ckpt-1", "xlnet_model.ckpt"))
    (released / "run.json").unlink()
    (tmp_path / "texts.txt").write_text("kamat telok\nsol\n")
    monkeypatch.chdir(tmp_path)


def test_the_examples_run(place, quick_start, capsys, monkeypatch):
    loaded = []

    def load(*args, **options):
        loaded.append(really_load(*args, **options))
        return loaded[-1]

    monkeypatch.setattr(xlnet, "load", load, raising=False)
    names = {}
    for block in re.findall(
        r"run by tests/inference/test_documentation.py\" -->\n\n```python\n(.*?)```",
        PAGE,
        re.DOTALL,
    ):
        exec(compile(block, "docs/how_to/python.md", "exec"), names)
    said = capsys.readouterr().out
    for shown in re.findall(r"print.*# (\(.*?\)|score: .*)", PAGE):
        assert shown in said
    assert len(loaded) == 11 and said.count("\n") > 15
    (short,) = [block for block in blocks(README) if "model.classify" in block]
    exec(compile(short, "README.md", "exec"), {})
    filled, label = capsys.readouterr().out.splitlines()
    assert "An exception is" in filled and "___" not in filled
    assert label in ("asyncio", "email", "logging")
    for model in loaded:
        model.close()
    assert len(pathlib.Path("vectors.jsonl").read_text().splitlines()) == 2
    assert {path.name for path in pathlib.Path().iterdir()} == {
        "model",
        "pretrained",
        "released",
        "sample_run",
        "texts.txt",
        "vectors.jsonl",
    }


def test_which_way_gives_the_greedy_text_of_transformers(permuted, capsys):
    """Text that is generated at once has the probability of one pass; the loop of come_from.md,
    a token at a time, gives another text."""
    page = (ROOT / "docs/how_to/come_from.md").read_text(encoding="utf-8")
    (block,) = [block for block in blocks(page) if "import xlnet" in block]
    prompt = "the cat sat on a mat"
    block = block.replace("The default value is", prompt)
    block = block.replace("sample_run/pretrained", str(permuted.folder))
    exec(compile(block, "come_from.md", "exec"), {})
    assert capsys.readouterr().out.startswith("the cat sat on a mat in in\n")
    with xlnet.load(str(permuted.folder)) as model:
        written = model.generate(prompt, temperature=0, max_tokens=8)
        known = len(model.tokenizer.ids(prompt))
        order = model.factorize(
            prompt + written.text, order="left_to_right", known=known
        )
    assert written.text == " in" * 8
    in_one_pass = order.log_probabilities[known:].sum()
    assert written.log_probability == pytest.approx(in_one_pass, abs=1e-4)
