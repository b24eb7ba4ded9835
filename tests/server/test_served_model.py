"""A model directory behind the server: the answers of the Python object, and what is refused."""

import concurrent.futures
import json
import random
import re

import pytest
from helpers.models import assert_alike, make_model
from helpers.serving import ask, running

from xlnet.inference.settings import LoadSettings
from xlnet.server import limits
from xlnet.server.served_model import Answer, ServedModel
from xlnet.support.errors import UserError

pytestmark = pytest.mark.slow

WORDS = "kamat telok rokmi mitel dakar nokla laskit solkat".split()
# Several windows; in any order but a repeated one, as equal windows have equal answers.
LONG = " ".join(random.Random(0).choices(WORDS, k=96))
ROWS = {
    "classification": [{"text_a": "kamat telok", "text_b": "mitel"}],
    "multi_label": [{"text_a": "kamat telok"}, {"text_a": "mitel dakar"}],
    "regression": [{"text_a": "kamat"}, {"text_a": LONG}],
    "multiple_choice": [
        {"text_a": "kamat", "text_b": "which _", "choices": ["a", "b", "c"]},
        {"text_a": "mitel", "text_b": "which", "choices": ["a", "b", "d"]},
    ],
    "ranking": [{"text_a": "kamat", "text_b": "mitel dakar"}],
    "tagging": [{"text_a": "kamat  telok,rokmi 2010"}, {"text_a": "sol"}],
    "spans": [
        {"question": "kamat telok?", "context": LONG},
        {"question": "sol", "context": "ka"},
    ],
}


def opened(path):
    return ServedModel(LoadSettings(model_dir=str(path), device="cpu"))


@pytest.fixture(scope="module")
def language_model(permuted):
    model = opened(permuted.folder)
    yield model
    model._model.close()


def answers(model, instances, signature=None, **parameters):
    call = model.call(signature or model.default, parameters)
    found = model.run(call, model.check_instances(call, instances))
    return [each.prediction if isinstance(each, Answer) else each for each in found]


@pytest.mark.parametrize("kind", ROWS)
def test_it_answers_as_the_model_of_xlnet_load(quick_start, model_of, loaded, kind):
    model, other, rows = opened(model_of(kind)), loaded(kind), ROWS[kind]
    assert model.default == "text"
    assert model.labels == (list(other.labels) if other.labels else None)
    has_several_outputs = kind in ("multiple_choice", "tagging", "spans")
    assert ("explain" in model.inputs) == (not has_several_outputs)
    items = []
    for row in rows:
        names = ("question", "context", "text_a", "choices", "text_b")
        item = tuple(row[name] for name in names if name in row)
        items.append(item if len(item) > 1 else item[0])
    if kind == "ranking":
        expected = [other.rank(text, [second])[0].score for text, second in items]
    else:
        expected = other.predict(items)
    found = answers(model, rows)
    assert_alike(found, expected)
    for number in re.findall(r"\d+\.\d+", json.dumps(found, allow_nan=False)):
        assert len(number.replace(".", "").lstrip("0")) <= 9  # the digits of float32
    model._model.close()


def test_it_explains_as_the_model_of_xlnet_load(quick_start, model_of, loaded):
    row = {"text_a": "kamat  telok", "text_b": "mitel"}
    model, bad = opened(model_of("classification")), dict(row, text_a="")
    found, error = answers(model, [row, bad], "explain")
    expected = loaded("classification").explain((row["text_a"], row["text_b"]))
    assert_alike(found, expected)
    assert str(error) == "the text is empty"
    said = "parameters: settings: found 'step', expected none"
    with pytest.raises(UserError, match=said):
        model.call("explain", dict(step=3))
    model._model.close()


def test_it_says_how_much_was_read_of_a_text_that_is_cut(tmp_path):
    path = make_model(tmp_path / "m", "imdb", max_seq_length=8)
    model = opened(path)
    text = "kamat telok sol mitel dakar laskit nokla rokmi"
    ids = model._model.tokenizer.ids
    for signature in ("text", "explain", "vectors"):
        call = model.call(signature, {})
        cut, whole = model.run(call, [{"text_a": text}, {"text_a": "sol"}])
        assert (cut.tokens_read, cut.tokens) == (6, len(ids(text)))
        assert whole.tokens_read == whole.tokens == len(ids("sol"))
        assert cut.unknown_tokens == 0
    # Unknown tokens are those of the texts as they are read: a task may replace a part.
    rows = [{"text_a": "sol \u6f22"}, {"text_a": "sol <br />\u6f22"}]
    for signature in ("text", "explain", "vectors"):
        found = model.run(model.call(signature, {}), rows)
        assert [one.unknown_tokens for one in found] == [1, 1]
    model._model.close()


def test_tokens_that_the_vocabulary_does_not_know(
    quick_start, model_of, language_model
):
    """They were answered with confidence, silently."""
    tuned = opened(model_of("multi_label"))
    for model, signature, known, unknown in (
        (tuned, "text", "kamat \u6f22 telok", "\u6f22\u5b57"),
        (tuned, "vectors", "kamat \u6f22 telok", "\u6f22"),
        (tuned, "explain", "kamat \u6f22 telok", "\u6f22\u5b57"),
        (language_model, "fill", "\u6f22 the cat ___", "\u6f22 ___"),
        (language_model, "generate", "the \u6f22 cat", "\u6f22"),
        (language_model, "factorize", "the \u6f22 cat", "\u6f22"),
    ):
        call = model.call(signature, {})
        rows = model.check_instances(call, [known, unknown])
        good, bad = model.run(call, rows)
        assert good.unknown_tokens == 1
        assert "expected tokens that are in the vocabulary" in str(bad)
    with running(tuned, "m") as server:
        status, content = ask(server, body={"instances": ["kamat", "\u6f22"]})
    found = "instance 1: text: found '\u6f22', expected tokens"
    assert status == 400 and content["error"].startswith(found)
    (nothing,) = tuned.run(tuned.call("text", {}), [{"text_a": "\u200b"}])
    assert isinstance(nothing, UserError)
    tuned._model.close()


def test_wrong_parameters_are_named(language_model):
    model = language_model
    for signature, parameters, said in (
        ("generate", {"max_tokens": None}, "max_tokens: found None, expected an int"),
        ("generate", {"max_tokens": 5000}, "max_tokens: found 5000, expected at most"),
        ("generate", {"beams": 65}, "beams: found 65, expected at most 64"),
        ("attention", {"layers": [1] * 5}, "layers: found 5, expected at most 4"),
        ("vectors", {"pooling": "mean"}, "found pooling, expected none for vectors"),
    ):
        with pytest.raises(UserError) as raised:
            model.call(signature, parameters)
        assert str(raised.value).startswith("parameters: " + said), raised.value
    call = model.call("factorize", {})
    with pytest.raises(UserError, match="^instance 0: text: found .* expected at most"):
        model.check_instances(call, [{"text": "the cat " * 40}])


def test_all_graphs_are_built_before_the_first_request(permuted):
    """24 requests at once waited for copies of graphs, four for each signature."""
    model = opened(permuted.folder)
    restored = model._model.session
    before = set(restored._copies_by_name)
    requests = [("generate", ["a cat"], {"max_tokens": 3, "seed": 1})]
    requests.append(("generate", ["a cat"], {"max_tokens": 3, "beams": 9}))
    for name in ("fill", "attention", "factorize", "vectors"):
        requests.append((name, ["a ___" if name == "fill" else "a cat"], {}))
    with running(model, "m") as server:

        def one(request):
            body = dict(zip(("signature_name", "instances", "parameters"), request))
            return ask(server, body=body)[0]

        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            assert set(pool.map(one, requests * 4)) == {200}
    assert set(restored._copies_by_name) == before
    model._model.close()


def test_what_is_computed_together(language_model):
    model = language_model
    for signature, row, parameters, is_together in (
        ("vectors", {"text_a": "a"}, {}, True),
        ("vectors", {"text_a": "a" * limits.MAX_SHORT}, {}, False),
        ("generate", {"prompt": "a"}, {"seed": 1}, True),
        ("generate", {"prompt": "a"}, {"beams": 32}, False),
        ("fill", {"text": "a ___"}, {}, False),
    ):
        call = model.call(signature, parameters)
        assert (call.batch_name([row]) is not None) == is_together
        assert call.keeps_tokens == (signature != "vectors")
        assert call.batch_name([row] * (limits.MAX_BATCH + 1)) is None
    ours, theirs = (model.call("generate", {"seed": seed}) for seed in (1, 2))
    assert ours.batch_name([row]) != theirs.batch_name([row])


def test_a_causal_model_has_other_signatures(causal):
    model = opened(causal.folder)
    assert list(model.inputs) == ["generate", "attention", "vectors"]
    assert model.describe()["model"]["objective"] == "causal"
    model._model.close()


def test_a_pretrained_model_answers_as_that_of_xlnet_load(language_model, permuted):
    names = ["fill", "factorize", "generate", "attention", "vectors"]
    assert list(language_model.inputs) == names

    other, asked = permuted.loaded, dict(max_tokens=20, seed=3)
    stop = other.generate("the cat", **asked).text[6]
    for name, text, parameters in (
        ("fill", "the cat ___ on", dict(most_pieces=1, top=2)),
        ("generate", "the", dict(beams=2, max_tokens=3)),
        ("generate", "the cat", asked),
        ("generate", "the cat", dict(asked, stop=stop)),
        ("factorize", "the cat sat", dict(order="2,1,3")),
        ("attention", "the cat sat", dict(layers=[1], order="2,1,3")),
        ("vectors", "the cat", {}),
    ):
        (found,) = answers(language_model, [text], name, **parameters)
        assert_alike(found, getattr(other, name)(text, **parameters))


def test_a_stream_has_the_text_of_the_answer(language_model):
    asked = {
        "signature_name": "generate",
        "instances": ["the cat"],
        "parameters": {"max_tokens": 6, "seed": 1},
    }
    with running(language_model, "m") as server:
        whole = ask(server, body=asked)[1]["predictions"][0]
        parts = ask(server, body=dict(asked, stream=True))[1]
    parts = list(map(json.loads, parts.splitlines()))
    assert "".join(part["text"] for part in parts) == whole["text"]
    assert len(parts) > 1 and parts[-1]["ended"] == "length"
    assert parts[-1]["unknown_tokens"] == 0
