"""The page in a browser, wide and narrow: what people see of each kind of prediction."""

import contextlib
import os
import shutil

import numpy as np
import pytest
from helpers.serving import running
from xlnet.serving.server.saved_model import Input

from xlnet.errors import UserError

sync_api = pytest.importorskip("playwright.sync_api", reason="the page needs playwright")
CHROMIUM = next(filter(None, map(shutil.which, (
    "chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(
    not CHROMIUM, reason="the page needs apt install chromium")]

TEXT, NUMBERS = np.dtype(object), np.dtype("int32")
EVIL = "<img src=x onerror=alert(1)>"
ANNA = "\U0001f469 Anna <b>met</b> Bo."
MET = ANNA.index("Bo")          # in characters, of which a browser counts the first one twice

# Of a signature: its inputs by name with their dtypes and shapes, and what is answered.
SIGNATURES = {
    "text": ({"text_a": (TEXT, ())}, {"label": EVIL, "probabilities": [0.25, 0.75]}),
    "score": ({"text_a": (TEXT, ()), "text_b": (TEXT, ())}, 2.34567),
    "tags": ({"text_a": (TEXT, ())}, {
        "words": [], "tags": [], "entity_labels": ["PER", "PER", ""],
        "entity_starts": [2, MET, -1], "entity_ends": [6, MET + 2, -1]}),
    "spans": ({"question": (TEXT, ()), "context": (TEXT, ())}, {
        "answer": "Bo", "start": MET, "end": MET + 2, "probability": 0.8, "null_probability": 0.1,
        "texts": ["Bo", "Anna", ""], "probabilities": [0.8, 0.2, 0.0]}),
    "choose": ({"text_a": (TEXT, ()), "choices": (TEXT, (2,))}, {
        "label": "no", "probabilities": [0.6, 0.4]}),
    "fill": ({"text": (TEXT, ())}, {"texts": ["a <u> b"], "words": [["<u>"]],
                                    "probabilities": [0.5]}),
    "generate": ({"prompt": (TEXT, ())}, {}),
    "ids": ({"ids": (NUMBERS, (-1,))}, {"tags": ["O"]}),
}


class Model:
    """Answers at once; notes what was asked. No model: the subject is the page."""
    version, default, path, alone = "1", "text", "m", ()
    about, labels = "task x: labels no, " + EVIL, ["no", EVIL]
    names = sorted(SIGNATURES)

    def __init__(self):
        self.asked = []

    def inputs(self, signature):
        return {name: Input(name, *each) for name, each in SIGNATURES[signature][0].items()}

    def signature_def(self):
        return {name: {"inputs": {key: {
            "dtype": "DT_STRING" if dtype == TEXT else "DT_INT32",
            "tensor_shape": {"dim": [{"size": str(size)} for size in (-1, *shape)]}}
            for key, (dtype, shape) in inputs.items()}} for name, (inputs, _) in SIGNATURES.items()}

    def call(self, signature, parameters):
        return signature, tuple(sorted(parameters.items()))

    def tokens(self, call, arrays):
        return np.ones(1, int)

    def example(self, signature):
        return self.call(signature, {}), {"text_a": np.array([b"a"], object)}

    def run(self, call, arrays):
        self.asked.append((call, {name: value.tolist() for name, value in arrays.items()}))
        if b"bad" in arrays.get("text_a", ()):
            raise UserError("no answer to " + EVIL)
        return [SIGNATURES[call[0]][1]]

    def stream(self, call, arrays):
        self.asked.append((call, {name: value.tolist() for name, value in arrays.items()}))
        for text in (" once", " <i>", " more"):
            yield {"number": 0, "text": text}
        yield {"number": 0, "text": "", "ended": "length"}


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(params=[1280, 360], ids=["wide", "narrow"])
def page(request, browser, monkeypatch):
    """The page of a `Model` that is served; it must not log an error."""
    width, model, said = request.param, Model(), []
    with running(model, "my model") as server:
        opened = browser.new_page(viewport={"width": width, "height": 800})
        opened.on("console", lambda message: said.append(message.text)
                  if message.type == "error" else None)
        opened.on("pageerror", lambda error: said.append(str(error)))
        opened.model = model
        opened.goto("http://127.0.0.1:%d/" % server.port)
        opened.wait_for_selector("#fields textarea")
        yield opened
        assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert [text for text in said if "400" not in text] == []
        opened.close()


def predict(page, signature, **texts):
    """Fills the form and sends it; returns what is shown."""
    page.click("nav button:text-is('%s')" % signature)
    for name, text in texts.items():
        page.fill("#in-" + name, text)
    page.click("#ask")
    page.wait_for_selector("#ask:not([disabled])")
    with contextlib.suppress(KeyError):         # a folder that pictures are wanted in
        page.screenshot(path=os.path.join(os.environ["XLNET_SCREENSHOTS"], "%s-%d.png" % (
            signature, page.viewport_size["width"])), full_page=True)
    return page.inner_text("#answer")


def test_predictions_as_people_want_them(page):
    assert page.inner_text("h1") == "my model" and EVIL in page.inner_text("#about")
    shown = predict(page, "text", text_a="a 'quoted' text")
    assert shown.split("\n")[0] == "label: " + EVIL and "75.0\u00a0%" in shown
    assert page.locator(".bar div").first.evaluate("e => e.style.width") == "75%"
    assert page.locator("img").count() == 0                     # texts are set as text
    assert predict(page, "score", text_a="a", text_b="b") == "2.346"
    predict(page, "tags", text_a=ANNA)
    assert page.locator("mark").all_inner_texts() == ["AnnaPER", "BoPER"]
    assert predict(page, "spans", question="Who?", context=ANNA).startswith("answer: Bo")
    assert page.locator(".text mark").all_inner_texts() == ["Bo"]
    assert page.inner_text(".text") == ANNA
    predict(page, "choose", text_a="a", choices="one\n\n two")
    assert page.model.asked[-1][1]["choices"] == [[b"one", b" two"]]
    predict(page, "fill", text="a ____ b")
    assert page.inner_text(".bars span") == "a <u> b" and page.inner_text("mark") == "<u>"
    assert page.model.asked[-1][0] == ("fill", (("top", 5),))
    assert "O" in predict(page, "ids", ids="[1, 2]")


def test_generated_text_and_its_end(page):
    shown = predict(page, "generate", prompt="It was")
    assert shown.split("\n")[0] == "It was once <i> more" and "ended by: length" in shown
    assert dict(page.model.asked[-1][0][1])["max_tokens"] == 60


def test_errors_and_the_command_line(page):
    assert predict(page, "text", text_a="bad") == "row 0: no answer to " + EVIL
    page.click("summary")
    assert page.inner_text("#curl").startswith("curl 'http://127.0.0.1:")
    predict(page, "text", text_a="it's")
    assert r"""{"text_a":"it'\''s"}""" in page.inner_text("#curl")
    page.click("nav button:text-is('text')")
    page.click("#ask")                                          # an empty field is not sent
    assert page.evaluate("document.activeElement.id") == "in-text_a"
