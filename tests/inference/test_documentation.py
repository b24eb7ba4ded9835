"""docs/how_to/python.md and the README's example, run as they stand."""

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
    own = dict(text_b_column=None, labels=["asyncio", "email", "logging"])
    news = make_model(tmp_path / "model" / "news", "classification", **own)
    shutil.copytree(news, tmp_path / "sample_run" / "classifier_pretrained")
    for name in ("sample_run/pretrained", "pretrained"):
        shutil.copytree(permuted.folder, tmp_path / name)
    released = shutil.copytree(news, tmp_path / "released")
    for path in released.glob("model.ckpt-1.*"):
        path.rename(released / path.name.replace("model.ckpt-1", "xlnet_model.ckpt"))
    (released / "run.json").unlink()
    (tmp_path / "texts.txt").write_text("kamat telok\nsol\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_examples_run(place, quick_start, capsys, monkeypatch):
    loaded, before = [], set(place.iterdir())

    def load(*args, **options):
        loaded.append(really_load(*args, **options))
        return loaded[-1]

    monkeypatch.setattr(xlnet, "load", load, raising=False)
    names = {}
    mark = 'run by tests/inference/test_documentation.py" -->\n\n'
    for part in PAGE.split(mark)[1:]:
        block = blocks(part)[0]
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
    assert len((place / "vectors.jsonl").read_text().splitlines()) == 2
    assert set(place.iterdir()) == {*before, place / "vectors.jsonl"}


def test_which_way_gives_the_greedy_text_of_transformers(permuted, capsys):
    """The loop of come_from.md, a token at a time, gives another text than the default, whose
    probability is that of one pass (test_generation.py)."""
    page = (ROOT / "docs/how_to/come_from.md").read_text(encoding="utf-8")
    (block,) = [block for block in blocks(page) if "import xlnet" in block]
    prompt = "the cat sat on a mat"
    block = block.replace("The default value is", prompt)
    block = block.replace("sample_run/pretrained", str(permuted.folder))
    exec(compile(block, "come_from.md", "exec"), {})
    assert capsys.readouterr().out.startswith("the cat sat on a mat in in\n")
    written = permuted.loaded.generate(prompt, temperature=0, max_tokens=8)
    assert written.text == " in" * 8
