"""The page in a browser, wide and narrow: what people see of each kind of prediction."""

import contextlib
import json
import os
import pathlib
import shutil
import time
import urllib.parse

import pytest
from helpers.serving import Call, Echo, running

from xlnet.errors import UserError

sync_api = pytest.importorskip("playwright.sync_api", reason="the page needs playwright")
CHROMIUM = next(
    filter(
        None,
        map(
            shutil.which,
            ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"),
        ),
    ),
    None,
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="the page needs apt install chromium"),
]

EVIL = "<img src=x onerror=alert(1)>"
ANNA = "\U0001f469 Anna <b>met</b> Bo."
MET = ANNA.index("Bo")  # in characters, of which a browser counts the first one twice
SEES = {"content": [[True, False], [True, True]], "query": [[False, False], [True, False]]}

# Of a signature: its inputs by name, a list with its length, and what is answered.
SIGNATURES = {
    "text": ({"text_a": None}, {"label": EVIL, "probabilities": [0.25, 0.75]}),
    "explain": (
        {"text_a": None},
        {
            "words": ["a", "<b>", "a"],
            "weights": [0.1, -0.2, 0.05],
            "first_words": 3,
            "output": EVIL,
            "value": 0.75,
        },
    ),
    "score": ({"text_a": None, "text_b": None}, 2.34567),
    "tag": (
        {"text_a": None},
        {
            "words": [],
            "tags": [],
            "entity_labels": ["PER", "PER", "LOC"],
            "entity_starts": [2, MET - 5, MET],
            "entity_ends": [6, MET - 4, MET + 2],
        },
    ),
    "answer": (
        {"question": None, "context": None},
        {
            "answer": "Bo",
            "start": MET,
            "end": MET + 2,
            "probability": 0.8,
            "null_probability": 0.1,
            "texts": ["Bo", "Anna", ""],
            "probabilities": [0.8, 0.2, 0.0],
        },
    ),
    "no answer": (
        {"question": None, "context": None},
        {
            "answer": "",
            "start": -1,
            "end": -1,
            "probability": 0.6,
            "null_probability": 0.9,
            "texts": ["Bo", "Anna"],
            "probabilities": [0.6, 0.4],
        },
    ),
    "choose": ({"text_a": None, "choices": 2}, {"label": "no", "probabilities": [0.6, 0.4]}),
    "fill": (
        {"text": None},
        {
            "texts": ["long " * 20 + "<u> b", "x"],
            "words": [["<u>"], ["x"]],
            "probabilities": [0.5, 0.1],
        },
    ),
    "generate": ({"prompt": None}, {}),
    "vectors": ({"text_a": None}, None),
    "attention": (
        {"text": None},
        {
            "pieces": ["\u2581a", EVIL],
            "layers": [1],
            "places": [2, 1],
            "sees": SEES,
            "streams": {
                name: [[[[0.25 * one for one in row] for row in rows]] * 2]
                for name, rows in SEES.items()
            },
        },
    ),
}


class Model(Echo):
    """Answers at once; notes what was asked. No model: the subject is the page."""

    about, labels, verb = "Assigns labels to a text: no, " + EVIL, ["no", EVIL], "classify"
    names, n_layer, n_head = list(SIGNATURES), 3, 2
    examples = {"text": [{"text_a": "first <b>example</b>"}, {"text_a": "second"}], "fill": []}

    def inputs(self, signature):
        return SIGNATURES[signature][0]

    def call(self, signature, parameters):
        return Call(
            signature, tuple(sorted((name, str(value)) for name, value in parameters.items()))
        )

    def rows(self, signature, rows):
        return rows

    def run(self, call, rows):
        self.asked.append((call.signature, dict(call.settings), rows))
        if rows[0].get("text_a") == "slow":
            time.sleep(1.5)
        if rows[0].get("text_a") == "bad":
            return [UserError("no answer to " + EVIL)]
        if call.signature == "vectors":
            return [[3.0, 4.0], [4.0, 3.0]][: len(rows)]
        return [SIGNATURES[call.signature][1]]

    def stream(self, call, row):
        self.asked.append((call.signature, dict(call.settings), [row]))
        for text in (" once", " <i>", " more"):
            yield {"number": 0, "text": text, "probability": 0.42}
        yield {"number": 0, "text": "", "ended": "length"}


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=["wide", "narrow"])
def page(request, browser):
    """The page of a `Model` that is served; it must not log an error, nor scroll sideways."""
    (width, scheme), model, said = request.param, Model(), []
    with running(model, "it's my model") as server:
        opened = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        opened.on(
            "console",
            lambda message: said.append(message.text) if message.type == "error" else None,
        )
        opened.on("pageerror", lambda error: said.append(str(error)))
        opened.model = model
        opened.goto(f"http://127.0.0.1:{server.port}/")
        opened.wait_for_selector("#fields textarea")
        yield opened
        assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert [text for text in said if "400" not in text] == []
        opened.close()


def choose(page, signature):
    page.click(f"nav button[data-signature='{signature}']")


def predict(page, signature, **texts):
    """Fills the form and sends it; returns what is shown."""
    choose(page, signature)
    for name, text in texts.items():
        page.fill("#in-" + name, text)
    page.click("#ask")
    done(page)
    with contextlib.suppress(KeyError):  # a folder that pictures are wanted in
        page.screenshot(
            path=os.path.join(
                os.environ["XLNET_SCREENSHOTS"],
                "{}-{}.png".format(signature, page.viewport_size["width"]),
            ),
            full_page=True,
        )
    return page.inner_text("#answer")


def done(page):
    page.wait_for_selector("#stop", state="hidden")


def test_predictions_as_people_want_them(page):
    assert page.inner_text("h1") == "it's my model" and EVIL in page.inner_text("#about")
    shown = predict(page, "text", text_a="a 'quoted' text")
    assert shown.split("\n")[0] == EVIL + " 75\u00a0%" and "25\u00a0%" in shown
    assert page.locator(".bar div").first.evaluate("e => e.style.width") == "75%"
    assert page.locator("img").count() == 0  # texts are set as text
    assert predict(page, "score", text_a="a", text_b="b") == "2.346"
    assert predict(page, "tag", text_a=ANNA).startswith("3 entities")
    assert page.locator(".text mark").all_inner_texts() == ["AnnaPER", "<PER", "BoLOC"]
    assert page.locator(".legend mark").all_inner_texts() == ["LOC", "PER"]
    colours = page.evaluate("""[...document.querySelectorAll(".legend mark, .text mark")].map(
        e => getComputedStyle(e).backgroundColor)""")
    assert colours[0] != colours[1] == colours[2] == colours[3] and colours[4] == colours[0]
    assert predict(page, "answer", question="Who?", context=ANNA).startswith("Bo 80\u00a0%")
    assert page.locator(".text mark").all_inner_texts() == ["Bo"]
    assert page.inner_text(".text") == ANNA
    assert predict(page, "no answer", question="Who?", context=ANNA).startswith(
        "No answer in this text 90\u00a0%"
    )
    assert page.locator(".text mark").count() == 0 and page.locator(".chosen").count() == 0
    assert "Rejected spans" in page.inner_text("#answer")
    predict(page, "choose", text_a="a", choices="\n two")
    assert page.model.asked[-1][2][0]["choices"] == [" two", ""]


def test_why(page):
    """Words are shaded where they are in the text; the numbers are there for those who do not see
    colours."""
    predict(page, "text", text_a="a  <b> a")
    assert page.locator("nav button[data-signature='explain']").count() == 0
    page.click("#why")
    done(page)
    assert page.model.asked[-1] == ("explain", {}, [{"text_a": "a  <b> a"}])
    assert page.inner_text("#answer h2") == f"Words that count for {EVIL}, 75\u00a0%"
    assert page.inner_text("#answer .text") == "a  <b> a"
    found = page.evaluate("""[...document.querySelectorAll("#answer .text mark")].map(
        e => [e.textContent, e.title, e.className, e.style.getPropertyValue("--part")])""")
    assert found == [
        ["a", "+0.1000", "raises", "50%"],
        ["<b>", "\u22120.2000", "lowers", "100%"],
        ["a", "+0.0500", "raises", "25%"],
    ]
    page.click("#answer summary")
    assert page.locator("#answer td").all_inner_texts() == [
        "a",
        "+0.1000",
        "<b>",
        "\u22120.2000",
        "a",
        "+0.0500",
    ]
    assert "75\u00a0%" in page.inner_text(".headline")  # the prediction is still there
    with contextlib.suppress(KeyError):
        page.screenshot(
            path=os.path.join(
                os.environ["XLNET_SCREENSHOTS"], "why-{}.png".format(page.viewport_size["width"])
            ),
            full_page=True,
        )
    assert "Words that count" not in predict(page, "score", text_a="a", text_b="b")


def test_a_filling_goes_into_the_text(page):
    predict(page, "fill", text="long " * 20 + "____ b")
    first = page.locator(".bars button").first
    assert first.inner_text() == "\u2026" + ("long " * 20)[-30:] + "<u> b"
    assert page.model.asked[-1][1] == {"top": "5"}
    first.click()
    assert page.input_value("#in-text") == "long " * 20 + "<u> b"
    page.fill("#set-top", "")  # the server's default
    predict(page, "fill", text="a ___")
    assert page.model.asked[-1][1] == {}


def test_generated_text_its_probabilities_and_its_end(page):
    shown = predict(page, "generate", prompt="It was")
    assert shown.split("\n")[0] == "It was once <i> more" and "as long as was asked for" in shown
    assert page.locator(".token").first.get_attribute("title") == "probability 42\u00a0%"
    assert page.model.asked[-1][1] == {"max_tokens": "60", "temperature": "1", "top_p": "0.9"}


def test_the_similarity_of_two_texts(page):
    shown = predict(page, "vectors", text_a="one", other="two")
    assert shown.startswith("0.960 cosine similarity") and "2 numbers, length 5" in shown
    assert [row["text_a"] for row in page.model.asked[-1][2]] == ["one", "two"]
    assert "cosine" not in predict(page, "vectors", text_a="one", other="")


def test_attention_and_what_the_streams_see(page):
    shown = predict(page, "attention", text="a b")
    asked = {"layers": "[1]", "order": "random", "seed": "0"}
    assert page.model.asked[-1][1] == asked and EVIL in shown
    assert page.locator(".maps svg").count() == 2 and page.locator("img").count() == 0
    hidden = "document.querySelectorAll('#answer span.hidden').length"
    assert page.evaluate(hidden) == 1 + 2  # of the first token, in both streams
    page.locator(".pieces button").nth(1).click()
    assert page.evaluate(hidden) == 0 + 1
    page.select_option("#set-layer", "3")
    done(page)
    assert page.model.asked[-1][1] == dict(asked, layers="[3]")
    page.select_option("#set-order", "own")
    done(page)
    assert page.input_value("#set-own") == "2,1" and not page.is_visible("#set-seed")
    assert page.model.asked[-1][1]["order"] == "2,1"


def test_examples_and_what_is_entered_stay_with_their_tab(page):
    assert page.input_value("#in-text_a") == "first <b>example</b>"
    page.click("#examples button:text-is('second')")
    assert page.input_value("#in-text_a") == "second"
    predict(page, "text")
    choose(page, "fill")
    assert page.inner_text("#answer") == "" and not page.is_visible("#examples")
    page.fill("#in-text", "a ___")
    choose(page, "text")
    assert page.input_value("#in-text_a") == "second"
    choose(page, "fill")
    assert page.input_value("#in-text") == "a ___"


def test_an_old_answer_comes_under_no_other_tab(page):
    page.fill("#in-text_a", "slow")
    page.click("#ask")
    page.wait_for_selector("#wait:text-is('1 s')")
    choose(page, "fill")
    assert not page.is_visible("#stop") and page.inner_text("#wait") == ""
    time.sleep(1.5)
    assert page.inner_text("#answer") == ""
    predict(page, "fill", text="a ___")
    assert page.locator(".bars").count() == 1


def test_stop(page):
    page.fill("#in-text_a", "slow")
    page.click("#ask")
    page.click("#stop")
    done(page)
    assert page.inner_text("#answer") == "stopped"
    assert predict(page, "text", text_a="a").startswith(EVIL)


def test_the_keyboard_alone(page):
    page.focus("#in-text_a")
    page.keyboard.press("Control+a")
    page.keyboard.type("typed")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".headline")
    assert page.model.asked[-1][2] == [{"text_a": "typed"}]
    page.focus("nav button[data-signature='attention']")
    page.keyboard.press("Enter")
    for _ in range(40):
        if page.evaluate("document.activeElement.id") == "in-text":
            break
        page.keyboard.press("Tab")
    page.keyboard.type("a b")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".maps")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.parentElement.className") == "pieces":
            break
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator(".pieces button").nth(1).get_attribute("aria-pressed") == "true"


def test_errors_a_link_and_the_request_elsewhere(page):
    assert predict(page, "text", text_a="bad") == "no answer to " + EVIL
    predict(page, "text", text_a="it's")
    page.click("summary")
    curl, python = page.inner_text("#curl"), page.inner_text("#python")
    assert curl.startswith("curl 'http://127.0.0.1:") and "/it'\\''s%20my%20model:predict'" in curl
    assert r"""{"text_a":"it'\''s"}""" in curl
    names = {}
    exec(compile(python.replace("print(", "answered = ("), "page", "exec"), names)
    assert names["answered"]["predictions"][0]["label"] == EVIL
    address = page.evaluate("location.href")
    kept = json.loads(urllib.parse.unquote(urllib.parse.urlsplit(address).fragment))
    assert (kept["signature"], kept["row"]) == ("text", {"text_a": "it's"})
    choose(page, "fill")
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("#fields textarea")
    assert page.input_value("#in-text_a") == "it's" and page.inner_text("#answer") == ""
    page.fill("#in-text_a", "")
    page.click("#ask")  # an empty field is not sent
    assert page.evaluate("document.activeElement.id") == "in-text_a"


AXE = next(
    filter(
        pathlib.Path.exists,
        map(
            pathlib.Path,
            filter(
                None,
                (
                    os.environ.get("AXE_CORE"),
                    "/usr/lib/node_modules/axe-core/axe.min.js",
                    "/usr/local/lib/node_modules/axe-core/axe.min.js",
                    "node_modules/axe-core/axe.min.js",
                ),
            ),
        ),
    ),
    None,
)


@pytest.mark.skipif(not AXE, reason="npm install --global axe-core, or AXE_CORE=.../axe.min.js")
def test_accessibility(page):
    """In each theme, each kind of prediction: no finding of axe-core."""
    texts = {
        "text_a": ANNA,
        "text_b": "b",
        "question": "Who?",
        "context": ANNA,
        "choices": "a\nb",
        "text": "a ___",
        "prompt": "It was",
    }
    for signature, (inputs, _) in SIGNATURES.items():
        if signature == "explain":  # below the prediction of the last one, `text`
            page.click("#why")
            done(page)
            page.click("#answer summary")
        else:
            predict(page, signature, **{name: texts[name] for name in inputs})
        page.evaluate("document.querySelector('#same').open = true")
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate("axe.run()")["violations"]
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []
