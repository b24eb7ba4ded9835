"""The page in a browser, wide and narrow: what people see of each kind of prediction."""

import json
import math
import shutil
import time
import urllib.parse

import numpy as np
import pytest
from helpers.serving import Answer, Call, Echo, running

from xlnet.inference.settings import LoadSettings
from xlnet.server.served_model import ServedModel
from xlnet.support.errors import UserError

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the page needs playwright"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-headless-shell")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="the page needs apt install chromium"),
]

EVIL = "<img src=x onerror=alert(1)>"
ANNA = "\U0001f469 Anna <b>met</b> Bo."
MET = ANNA.index("Bo")  # in characters, of which a browser counts the first one twice
LONG = "a  <b> \U0001f469 a a"
EXAMPLES = {  # in place of those of the page
    "text": [{"text_a": "first <b>example</b>"}, {"text_a": "second"}],
    "vectors": [{"text_a": text} for text in ("east", "north", "west")],
}
SEES = {
    "content": [[True, False], [True, True]],
    "query": [[False, False], [True, False]],
}

SPAN = {
    "text": "Bo",
    "start": MET,
    "end": MET + 2,
    "best": [{"text": "Bo", "probability": 0.8}, {"text": "Anna", "probability": 0.2}],
    "null_probability": 0.1,
}

# Of a signature: its inputs by name, a list with its length, and what is answered.
SIGNATURES = {
    "text": (
        {"text_a": None},
        {"label": EVIL, "probabilities": [0.2496, 0.75, 0.0004]},
    ),
    "explain": (
        {"text_a": None},
        {
            "words": ["a", "<b>", "a"],
            "weights": [0.1, -0.2, 0.05],
            "first_words": 3,
            "is_read": [True] * 3,
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
            "entities": [
                {"label": "PER", "start": 2, "end": 6},
                {"label": "PER", "start": MET - 5, "end": MET - 4},
                {"label": "LOC", "start": MET, "end": MET + 2},
            ],
        },
    ),
    "answer": ({"question": None, "context": None}, SPAN),
    "no answer": (
        {"question": None, "context": None},
        dict(SPAN, text="", start=None, end=None, null_probability=0.9),
    ),
    "choose": ({"text_a": None, "choices": 3}, None),
    "fill": (
        {"text": None},
        [
            {"text": "long " * 20 + "<u> b", "words": ["<u>"], "probability": 0.5},
            {"text": "x", "words": ["x"], "probability": 0.0004},
        ],
    ),
    "factorize": (
        {"text": None},
        {
            "pieces": ["\u2581a", EVIL, "b"],
            "order": [2, 0, 1],
            "known": 0,
            "candidates": [["\u2581x", "y"], ["\u2581x", "y"], ["b", "y"]],
            "candidate_log_probabilities": np.log(
                [[0.6, 0.3], [0.5, 0.25], [0.125, 0.0625]]
            ).tolist(),
            "log_probabilities": [math.log(0.05), math.log(0.0002), math.log(0.125)],
            "likelier": [2, 40, 0],
            "content_hides": [[False, True, False], [False] * 3, [True, True, False]],
            "query_hides": [[True, True, False], [False, True, False], [True] * 3],
            "query_attention": [[0, 0, 1], [0.25, 0, 0.75], [0, 0, 0]],
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
            "hidden": {name: (~np.array(SEES[name])).tolist() for name in SEES},
            "streams": {
                name: [np.multiply.outer((0.25, 0.75), rows).tolist()]
                for name, rows in SEES.items()
            },
        },
    ),
}


class Model(Echo):
    """Answers at once; notes what was asked. No model: the subject is the page."""

    labels, verb = ["no", EVIL, "b"], "classify"
    inputs = {name: SIGNATURES[name][0] for name in SIGNATURES}

    def describe(self):
        model = dict(layers=3, heads=2, width=16, vocabulary=32000, objective=None)
        return {
            "model": dict(model, task="topics", checkpoint="model.ckpt-150"),
            "labels": self.labels,
            "verb": self.verb,
            "default_signature": "text",
            "signatures": {name: list(self.inputs[name]) for name in self.inputs},
        }

    def call(self, signature, parameters):
        given = {name: str(value) for name, value in parameters.items()}
        return Call(signature, given, self._model.method())

    def check_instances(self, call, rows):
        return rows

    def run(self, call, rows):
        self.asked.append((call.signature, call.parameters, rows))
        text = rows[0].get("text_a")
        if text == "slow":
            time.sleep(1.5)
        if text == "bad":
            return [UserError("text_a: no answer to " + EVIL)]
        answer = SIGNATURES[call.signature][1]
        reading = (3, 3, 0)
        if text == LONG:
            reading = (1234, 2, 0)
            if call.signature == "explain":
                answer = dict(answer, is_read=[True, True, False])
        return [Answer(answer, *reading)]

    def stream(self, call, row):
        self.asked.append((call.signature, call.parameters, [row]))
        for text in (" once", " <i>", " more"):
            yield {"text": text, "probability": 0.42}
        yield {"text": "", "ended": "length", "unknown_tokens": 0}


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        )
        yield opened
        opened.close()


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=["wide", "narrow"])
def page(request, browser):
    """The page of a `Model` that is served; it must not log an error, nor scroll sideways."""
    (width, scheme), model, said = request.param, Model(), []
    with running(model, "it's my model") as server:
        opened = browser.new_page(
            viewport={"width": width, "height": 800}, color_scheme=scheme
        )
        opened.on("console", lambda message: said.append((message.type, message.text)))
        opened.on("pageerror", lambda error: said.append(("error", str(error))))
        opened.set_default_timeout(10_000)  # [ms]
        opened.model = model
        opened.route("**/examples.json", lambda route: route.fulfill(json=EXAMPLES))
        opened.goto(f"http://127.0.0.1:{server.port}/")
        opened.wait_for_selector("#fields textarea")
        opened.evaluate("document.querySelector('#more').open = true")
        yield opened
        assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
        errors = [text for kind, text in said if kind == "error"]
        assert not [text for text in errors if "400" not in text]
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
    return page.inner_text("#answer")


def done(page):
    page.wait_for_selector("#stop", state="hidden")


def test_predictions_as_people_want_them(page):
    assert page.inner_text("h1") == "it's my model"
    assert EVIL in page.inner_text("#about")
    assert page.inner_text("#model") == (
        "XLNet, 3 layers of width 16, 32,000 tokens, fine-tuned for topics; model.ckpt-150"
    )
    shown = predict(page, "text", text_a="a 'quoted' text")
    assert shown.split("\n")[0] == EVIL + " 75\u00a0%" and "25\u00a0%" in shown
    assert shown.count("<\u00a00.1\u00a0%") == 1 and "0.0\u00a0%" not in shown
    assert page.locator(".bar div").first.evaluate("e => e.style.width") == "75%"
    assert page.locator("img").count() == 0  # texts are set as text
    assert predict(page, "score", text_a="a", text_b="b").split("\n")[0] == "2.346"
    assert predict(page, "tag", text_a=ANNA).startswith("3 entities")
    assert page.locator(".text mark").all_inner_texts() == ["AnnaPER", "<PER", "BoLOC"]
    assert page.locator(".legend mark").all_inner_texts() == ["LOC", "PER"]
    colours = page.evaluate("""[...document.querySelectorAll(".legend mark, .text mark")].map(
        e => getComputedStyle(e).backgroundColor)""")
    assert colours[0] != colours[1] == colours[2] == colours[3]
    assert colours[4] == colours[0]
    shown = predict(page, "answer", question="Who?", context=ANNA)
    assert shown.startswith("Bo 80\u00a0%")
    assert page.locator(".text mark").all_inner_texts() == ["Bo"]
    assert page.inner_text(".text") == ANNA
    shown = predict(page, "no answer", question="Who?", context=ANNA)
    assert shown.startswith("No answer in this text 90\u00a0%")
    assert page.locator(".text mark").count() == 0
    assert page.locator(".chosen").count() == 0
    assert "Rejected spans" in shown


def test_the_first_example_is_answered_at_once(page):
    page.wait_for_selector(".headline")
    assert page.model.asked == [("text", {}, [{"text_a": "first <b>example</b>"}])]
    page.click("#examples button:text-is('second')")
    done(page)
    assert page.model.asked[-1][2] == [{"text_a": "second"}]


def test_why(page):
    """Words are shaded where they are in the text; the numbers are there for those who do not see
    colours, by pointing, by tapping and by the keyboard."""
    predict(page, "text", text_a="a  <b> a")
    assert page.locator("nav button[data-signature='explain']").count() == 0
    page.click("#why")
    done(page)
    assert page.model.asked[-1] == ("explain", {}, [{"text_a": "a  <b> a"}])
    assert page.inner_text("#answer h2") == f"Words that count for {EVIL}, 75\u00a0%"
    assert page.inner_text("#answer .text") == "a  <b> a"
    found = page.evaluate("""[...document.querySelectorAll("#answer .text mark")].map(
        e => [e.textContent, e.className, e.style.getPropertyValue("--part")])""")
    assert found == [
        ["a", "raises", "50%"],
        ["<b>", "lowers", "100%"],
        ["a", "raises", "25%"],
    ]
    words = page.locator(".words mark")
    words.nth(1).hover()
    assert page.inner_text(".readout") == "<b>: \u22120.2000"
    words.nth(0).click()
    assert page.inner_text(".readout") == "a: +0.1000"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".readout") == "a: +0.0500"
    page.click("#answer summary")
    cells = page.locator("#answer td").all_inner_texts()
    assert cells == ["a", "+0.1000", "<b>", "\u22120.2000", "a", "+0.0500"]
    assert "75\u00a0%" in page.inner_text(".headline")  # the prediction is still there
    # Of a text whose words are others after the task's replacements they alone are shown.
    predict(page, "text", text_a="a <c> a")
    page.click("#why")
    done(page)
    assert page.inner_text("#answer .text") == "a <b> a"
    assert "Words that count" not in predict(page, "score", text_a="a", text_b="b")


def test_how_much_was_read_is_said(page):
    """Among the words that count those that were not read are grey."""
    shown = predict(page, "text", text_a="a b")
    assert "All 3 tokens were read." in shown and page.locator(".unread").count() == 0
    shown = predict(page, "text", text_a=LONG)
    assert "2 of 1,234 tokens were read" in shown
    page.click("#why")
    done(page)
    words = "[...document.querySelectorAll('.words mark')].map(e => [e.textContent, e.className])"
    assert page.evaluate(words) == [["a", "raises"], ["<b>", "lowers"], ["a", "unread"]]
    page.locator(".words mark").nth(2).click()
    assert page.inner_text(".readout") == "a: not read"


def test_a_filling_goes_into_the_text(page):
    predict(page, "fill", text="long " * 20 + "____ b")
    first = page.locator(".bars button").first
    assert first.inner_text() == "\u2026" + ("long " * 20)[-30:] + "<u> b"
    asked = {"top": "5", "most_pieces": "3", "order": "left_to_right"}
    assert page.model.asked[-1][1] == asked
    # A bar is as long as its probability, as everywhere.
    widths = page.locator(".bar div").evaluate_all("all => all.map(e => e.style.width)")
    assert widths == ["50%", "0.04%"]
    assert "<\u00a00.1\u00a0%" in page.inner_text(".bars")
    first.click()
    assert page.input_value("#in-text") == "long " * 20 + "<u> b"
    page.keyboard.press("Control+z")  # the blank comes back
    assert page.input_value("#in-text") == "long " * 20 + "____ b"
    page.fill("#set-top", "")  # the server's default
    page.fill("#set-most_pieces", "1")
    page.select_option("#set-order", "right_to_left")
    predict(page, "fill", text="a ___")
    assert page.model.asked[-1][1] == {"most_pieces": "1", "order": "right_to_left"}


def test_generated_text_its_probabilities_and_its_end(page):
    shown = predict(page, "generate", prompt="It was")
    assert shown.split("\n")[0] == "It was once <i> more"
    assert "as long as was asked for" in shown
    token = page.locator(".token").first
    assert token.get_attribute("title") == "probability 42\u00a0%"
    asked = {"max_tokens": "60", "temperature": "1", "top_p": "0.9"}
    assert page.model.asked[-1][1] == asked
    page.fill("#set-seed", "3")
    page.fill("#set-stop", ".")
    predict(page, "generate")
    assert page.model.asked[-1][1] == dict(asked, seed="3", stop=".")
    page.fill("#set-temperature", "0")
    predict(page, "generate")
    assert page.model.asked[-1][1] == dict(asked, temperature="0", seed="3", stop=".")


def cards(page, stream):
    return page.evaluate(f"""[...document.querySelectorAll(".lane.{stream} .card")].map(
        e => e.className.replace("card ", ""))""")


def chips(page):
    return [text.split("\n") for text in page.locator(".chip").all_inner_texts()]


def test_the_factorization_order_is_played(page):
    """At each step: what both streams see, and what the query stream predicts there."""
    predict(page, "factorize", text="a b")
    asked = {"order": "random", "seed": "34", "known": "0", "top": "6"}
    assert page.model.asked[-1][1] == asked
    assert page.locator("img").count() == 0
    expected = [["1", "\u2011b", "13\u00a0%"], ["2", "a", "5.0\u00a0%"]]
    assert chips(page) == [*expected, ["3", EVIL, "<\u00a00.1\u00a0%"]]
    # The second step is shown at first: of the token "a", which sees "b" alone.
    assert page.inner_text(".controls output") == "step 2 of 3"
    assert cards(page, "query") == ["asked", "unseen", "seen"]
    assert cards(page, "content") == ["itself", "unseen", "seen"]
    rows = page.locator(".predicted .bars > span").all_inner_texts()
    # Of the text's token, which is not among the likeliest, too.
    assert rows == ["x", "60\u00a0%", "\u2011y", "30\u00a0%", "a", "5.0\u00a0%"]
    assert page.inner_text(".predicted .chosen") == "a"
    assert "2 tokens are likelier" in page.inner_text(".predicted .hint")
    bits = -math.log2(0.125) - math.log2(0.05)
    total = f"\u2212{bits:.1f} bits, {bits / 2:.1f} bits a token"
    assert total in page.inner_text(".total")
    # The last step: it sees both, with an arc from each as strong as its attention.
    page.click("button[aria-label='next step']")
    assert cards(page, "query") == ["seen", "asked", "seen"]
    arcs = page.locator(".arcs path")
    titles = arcs.locator("title").all_text_contents()
    assert arcs.count() == 2 and titles == ["a: 25\u00a0%", "\u2011b: 75\u00a0%"]
    thin, thick = (float(each.get_attribute("stroke-width")) for each in arcs.all())
    assert thin < thick
    assert page.is_disabled("button[aria-label='next step']")
    # A click on a token goes to its step; in the first one nothing is seen.
    page.locator(".chip").first.click()
    assert cards(page, "query") == ["unseen", "unseen", "asked"]
    assert cards(page, "content") == ["unseen", "unseen", "itself"]
    assert arcs.count() == 0 and "the likeliest of all" in page.inner_text(".predicted")
    # The slider, too.
    page.focus("#step")
    page.keyboard.press("End")
    assert page.inner_text(".controls output") == "step 3 of 3"
    assert len(page.model.asked) == 2  # all of it from one answer


def test_attention_by_head(page):
    """One request for all heads of a layer; the chosen token stays."""
    shown = predict(page, "attention", text="a b")
    asked = {"layers": "[1]", "order": "random", "seed": "0"}
    assert page.model.asked[-1][1] == asked and EVIL in shown
    assert page.locator(".maps svg").count() == 2 and page.locator("img").count() == 0
    assert page.locator(".head").all_inner_texts() == ["mean", "head 1", "head 2"]
    assert page.locator(".maps text").all_text_contents() == ["a", EVIL[:10]] * 4
    assert page.locator(".key").count() == 1 and "75\u00a0%" in page.inner_text(".key")
    # Of the first token one is hidden in the content stream, both are in the query stream.
    hidden = "document.querySelectorAll('#answer span.hidden').length"
    assert page.evaluate(hidden) == 1 + 2
    page.locator(".pieces button").nth(1).click()
    assert page.evaluate(hidden) == 0 + 1
    weights = "#answer .pieces.content small"
    assert page.locator(weights).all_inner_texts() == ["50\u00a0%"] * 2
    before = len(page.model.asked)
    page.locator(".head").nth(2).click()
    assert page.locator(weights).all_inner_texts() == ["75\u00a0%"] * 2
    assert len(page.model.asked) == before
    # Another layer is another request, with the same token and head.
    page.select_option("#set-layer", "3")
    done(page)
    assert page.model.asked[-1][1] == dict(asked, layers="[3]")
    assert page.locator(".head").nth(2).get_attribute("aria-pressed") == "true"
    assert page.locator(".pieces button").nth(1).get_attribute("aria-pressed") == "true"
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
    assert "stale" not in page.locator("#answer").get_attribute("class")
    page.fill("#in-text", "a ___")
    before = len(page.model.asked)
    choose(page, "text")
    assert page.input_value("#in-text_a") == "second"
    assert EVIL in page.inner_text("#answer")  # its answer, without another request
    assert len(page.model.asked) == before
    choose(page, "fill")
    assert page.input_value("#in-text") == "a ___"


def stale(page):
    return "stale" in (page.locator("#answer").get_attribute("class") or "")


def test_an_answer_belongs_to_its_input(page):
    """After a change of the tab, B's input had A's answer."""
    predict(page, "text", text_a="A")
    assert not stale(page)
    page.fill("#in-text_a", "B")
    assert stale(page)
    page.fill("#in-text_a", "A")
    assert not stale(page)
    choose(page, "fill")
    choose(page, "text")
    assert "75\u00a0%" in page.inner_text(".headline") and not stale(page)
    page.fill("#in-text_a", "slow")
    page.click("#ask")
    page.wait_for_selector("#wait:text-is('1 s')")
    assert stale(page)  # A's answer, while the other one is computed
    choose(page, "fill")
    before = len(page.model.asked)
    choose(page, "text")
    assert page.inner_text("#answer") == ""  # and is asked for again
    done(page)
    assert page.model.asked[before:] == [("text", {}, [{"text_a": "slow"}])]
    assert page.inner_text(".headline") and not stale(page)
    # Generated text is stale when its prompt changes, too.
    predict(page, "generate", prompt="It was")
    assert not stale(page)
    page.fill("#set-seed", "4")
    assert stale(page)


def test_the_keyboard_alone(page):
    page.wait_for_selector(".headline")
    page.focus("#in-text_a")
    page.keyboard.press("Control+a")
    page.keyboard.type("typed")
    page.keyboard.press("Control+Enter")
    done(page)
    assert page.model.asked[-1][2] == [{"text_a": "typed"}]
    page.focus("nav button[data-signature='attention']")
    page.keyboard.press("Enter")
    tab_to(page, "document.activeElement.id === 'in-text'")
    page.keyboard.type("a b")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".maps")
    tab_to(page, "document.activeElement.parentElement.className === 'pieces'")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.locator(".pieces button").nth(1).get_attribute("aria-pressed") == "true"
    tab_to(page, "document.activeElement.className === 'head'")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.locator(".head").nth(1).get_attribute("aria-pressed") == "true"


def tab_to(page, condition):
    for _ in range(40):
        if page.evaluate(condition):
            return
        page.keyboard.press("Tab")
    raise AssertionError(condition)


def test_errors_a_link_and_the_request_elsewhere(page):
    assert predict(page, "text", text_a="bad") == "Text: no answer to " + EVIL
    predict(page, "text", text_a="it's")
    page.click("#same summary")
    curl, python = page.inner_text("#curl"), page.inner_text("#python")
    assert curl.startswith("curl 'http://127.0.0.1:")
    assert "/it'\\''s%20my%20model:predict'" in curl
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
    page.wait_for_selector(".headline")  # it is answered at once
    assert page.input_value("#in-text_a") == "it's"
    assert page.model.asked[-1][2] == [{"text_a": "it's"}]
    # In a page that is open already, too.
    other = json.dumps({"signature": "score", "row": {"text_a": "a", "text_b": "b"}})
    page.evaluate(
        "other => { location.hash = '#' + encodeURIComponent(other); }", other
    )
    page.wait_for_selector(".headline:has-text('2.346')")
    page.fill("#in-text_a", "")
    page.click("#ask")  # an empty field is not sent
    assert page.evaluate("document.activeElement.id") == "in-text_a"


def test_the_numbers_of_the_page_are_those_of_the_network(permuted, browser):
    """A model with weights, opened by a link: each step has the probability that the network gives
    to its token."""
    text, order = "the cat sat on the mat and the dog", [2, 7, 0, 5, 1, 8, 3, 6, 4]
    settings = LoadSettings(model_dir=str(permuted.folder), device="cpu")
    made = ServedModel(settings)
    count = len(permuted.tokenizer.ids(text))
    order += range(len(order), count)
    numbers = ",".join(str(at + 1) for at in order)
    expected = made._model.factorize(text, order=numbers)
    link = {
        "signature": "factorize",
        "row": {"text": text},
        "parameters": {"order": "own", "own": numbers},
    }
    with running(made, "m") as server:
        page = browser.new_page()
        page.goto(
            f"http://127.0.0.1:{server.port}/#{urllib.parse.quote(json.dumps(link))}"
        )
        page.wait_for_selector(".play")
        shown = [chip[2] for chip in chips(page)]
        for step, position in enumerate(order):
            page.locator(".chip").nth(step).click()
            probability = math.exp(expected.log_probabilities[position])
            if probability < 0.001:
                assert shown[step] == "<\u00a00.1\u00a0%"
            else:
                number = float(shown[step].split("\u00a0")[0])
                assert number == pytest.approx(100 * probability, abs=0.51)
            rows = page.locator(".predicted .bars > span").all_inner_texts()[1::2]
            best = [float(row.split("\u00a0")[0]) for row in rows[:5]]
            probabilities = np.exp(expected.candidate_log_probabilities[position])
            assert best == pytest.approx((100 * probabilities).tolist(), abs=0.51)
            seen = [name == "seen" for name in cards(page, "query")]
            assert seen == (~expected.query_hides[position]).tolist()
        page.close()
    made._model.close()
