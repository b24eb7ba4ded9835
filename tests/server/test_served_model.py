"""A model directory behind the server: the answers of the Python object, and what is refused."""

import json
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.models import make_model
from helpers.serving import ask, running

import xlnet
from xlnet.inference.settings import LoadSettings
from xlnet.model import modeling
from xlnet.server import limits
from xlnet.server.served_model import Answer, ServedModel
from xlnet.support.errors import UserError
from xlnet.tasks.task import Entity, Span

pytestmark = pytest.mark.slow

LONG = "kamat telok rokmi mitel dakar nokla laskit solkat " * 12
ROWS = {
    "classification": [{"text_a": "kamat telok", "text_b": "mitel"}],
    "multi_label": ["kamat telok", "mitel dakar"],
    "regression": ["kamat", LONG],
    "multiple_choice": [
        {"text_a": "kamat", "text_b": "which _", "choices": ["a", "b", "c"]},
        {"text_a": "mitel", "text_b": "which", "choices": ["a", "b", "d"]},
    ],
    "ranking": [{"text_a": "kamat", "text_b": "mitel dakar"}],
    "tagging": ["kamat  telok,rokmi 2010", "sol"],
    "spans": [
        {"question": "kamat telok?", "context": LONG},
        {"question": "sol", "context": "ka"},
    ],
}


def opened(path):
    return ServedModel(LoadSettings(model_dir=str(path), device="cpu"))


def answers(model, instances, signature=None, **parameters):
    call = model.call(signature or model.default, parameters)
    found = model.run(call, model.rows(call, instances))
    return [each.prediction if isinstance(each, Answer) else each for each in found]


def same(found, expected):
    """Whether two values for JSON are equal, numbers up to rounding."""
    if isinstance(expected, (Entity, Span)):
        expected = expected._asdict()
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            same(found[name], value)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected):
            same(ours, theirs)
    else:
        assert found == expected


@pytest.mark.parametrize("kind", ROWS)
def test_it_answers_as_the_model_of_xlnet_load(quick_start, model_of, kind):
    path, rows = model_of(kind), ROWS[kind]
    model = opened(path)
    assert model.default == "text"
    found = answers(model, rows)
    rows = [row if isinstance(row, dict) else {"text_a": row} for row in rows]
    with xlnet.load(path, device="cpu") as other:
        assert model.labels == (list(other.labels) if other.labels else None)
        if kind == "ranking":
            expected = [
                other.rank(row["text_a"], [row["text_b"]])[0].score for row in rows
            ]
        else:
            items = []
            for row in rows:
                names = ("question", "context", "text_a", "choices", "text_b")
                item = tuple(row[name] for name in names if name in row)
                items.append(item if len(item) > 1 else item[0])
            expected = other.predict(items)
        if kind in ("tagging", "spans"):
            expected = [one._asdict() for one in expected]
        elif kind not in ("ranking", "regression"):
            expected = [one.named() for one in expected]
    for one, its in zip(found, expected):
        same(one, its)
    for number in re.findall(r"\d+\.\d+", json.dumps(found, allow_nan=False)):
        assert len(number.replace(".", "").lstrip("0")) <= 9  # the digits of float32
    model._model.close()


@pytest.mark.parametrize("kind", ("classification", "ranking"))
def test_it_explains_as_the_model_of_xlnet_load(quick_start, model_of, kind):
    path, row = model_of(kind), {"text_a": "kamat  telok", "text_b": "mitel"}
    model, bad = opened(path), dict(row, text_a="")
    found, error = answers(model, [row, bad], "explain")
    with xlnet.load(path, device="cpu") as other:
        expected = other.explain((row["text_a"], row["text_b"]))
    assert (found["words"], found["first_words"]) == (["kamat", "telok", "mitel"], 2)
    assert found["output"] == expected.output
    assert str(error) == "the text is empty"
    same([found["value"], *found["weights"]], [expected.value, *expected.weights])
    if kind == "classification":  # which reads all of a text, in windows
        many = [{"text_a": "ka " * 2100, "text_b": "ka"}]
        (error,) = answers(model, many, "explain")
        assert "2101 words that are read, expected at most 2048" in str(error)
    said = "parameters: .* unexpected keyword argument 'step'"
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
        assert cut.unknown_tokens == 0 and cut.characters_unknown is None
    # Unknown tokens are of what is read, their positions those of the request, or left out where
    # the task replaces a part.
    plain, changed = ({"text_a": f"sol {end}\u6f22"} for end in ("", "<br />"))
    for signature in ("text", "explain", "vectors"):
        found = model.run(model.call(signature, {}), [plain, changed])
        assert [one.unknown_tokens for one in found] == [1, 1]
        assert found[0].characters_unknown == {"text_a": [(4, 5)]}
        assert found[1].characters_unknown is None
    model._model.close()


def test_tokens_that_the_vocabulary_does_not_know(quick_start, model_of, permuted):
    """They were answered with confidence, silently."""
    tuned, pretrained = opened(model_of("multi_label")), opened(permuted.folder)
    for model, signature, known, unknown in (
        (tuned, "text", "kamat \u6f22 telok", "\u6f22\u5b57"),
        (tuned, "vectors", "kamat \u6f22 telok", "\u6f22"),
        (tuned, "explain", "kamat \u6f22 telok", "\u6f22\u5b57"),
        (pretrained, "fill", "\u6f22 the cat ___", "\u6f22 ___"),
        (pretrained, "generate", "the \u6f22 cat", "\u6f22"),
        (pretrained, "factorize", "the \u6f22 cat", "\u6f22"),
    ):
        call = model.call(signature, {})
        rows = model.rows(call, [known, unknown])
        good, bad = model.run(call, rows)
        (name,) = rows[0]
        assert good.unknown_tokens == 1
        ((start, end),) = good.characters_unknown[name]
        assert known[start:end] == "\u6f22"
        assert "expected tokens that are in the vocabulary" in str(bad)
    with running(tuned, "m") as server:
        status, content = ask(server, body={"instances": ["kamat", "\u6f22"]})
        assert status == 400
        assert content["error"].startswith(
            "instance 1: text: found '\u6f22', expected tokens"
        )
    (nothing,) = tuned.run(tuned.call("text", {}), [{"text_a": "\u200b"}])
    assert isinstance(nothing, UserError)
    tuned._model.close()
    pretrained._model.close()


def test_wrong_parameters_are_named(permuted):
    model = opened(permuted.folder)
    for signature, parameters, said in (
        (
            "generate",
            {"max_tokens": None},
            "max_tokens: found None, expected an integer",
        ),
        ("generate", {"max_tokens": 5000}, "max_tokens: found 5000, expected at most"),
        ("generate", {"beams": 65}, "beams: found 65, expected at most 64"),
        ("generate", {"max_token": 3}, "settings: found 'max_token', expected max_"),
        ("fill", {"most_pieces": 0}, "most_pieces: found 0, expected at least 1"),
        ("attention", {"layers": [1] * 5}, "layers: found 5, expected at most 4"),
        ("vectors", {"pooling": "mean"}, "found pooling, expected none for vectors"),
    ):
        with pytest.raises(UserError) as raised:
            model.call(signature, parameters)
        assert str(raised.value).startswith("parameters: " + said), raised.value
    call = model.call("fill", {})
    with pytest.raises(UserError, match="^instance 0: text: found 3, expected a str"):
        model.rows(call, [{"text": 3}])
    (error,) = model.run(call, [{"text": "a" + " ___" * 22}])
    assert "22 blanks of up to 3 pieces, expected at most 64 pieces" in str(error)
    call = model.call("factorize", {"order": "up"})
    (error,) = model.run(call, [{"text": "the cat"}])
    assert str(error).startswith("order: found 'up', expected random")
    with pytest.raises(UserError, match="^instance 0: text: found .* expected at most"):
        model.rows(call, [{"text": "the cat " * 40}])
    model._model.close()


def test_a_row_that_does_not_fit(quick_start, model_of):
    model = opened(model_of("multiple_choice"))
    call = model.call("text", {})
    good = dict(text_a="a", text_b="b", choices=["b"] * 3)
    for row, said in (
        (1, "instance 0: found 1, expected an object with choices, text_a, text_b"),
        ({"text": "a"}, 'found {"text": "a"}, expected an object with choices, text_a'),
        (dict(good, choices=["b"]), "expected an array of 3 strings"),
        (dict(good, choices=[["b"]] * 3), 'choices: found ["b"], expected a string'),
        (dict(good, text_a=1), "text_a: found 1, expected a string"),
    ):
        with pytest.raises(UserError, match=re.escape(said)):
            model.rows(call, [row])
    model._model.close()


def test_all_graphs_are_built_before_the_first_request(permuted):
    """24 requests at once waited for copies of graphs, four for each signature."""
    model = opened(permuted.folder)
    restored = model._model.session
    before = set(restored._parts)
    cases = {
        "fill": "a ___",
        "attention": "a cat",
        "factorize": "a cat",
        "vectors": "a cat",
    }
    requests = [(name, text, {}) for name, text in cases.items()] * 4
    requests += [("generate", "a cat", {"max_tokens": 3, "seed": 1})] * 4
    requests += [("generate", "a cat", {"max_tokens": 3, "beams": 9})] * 4
    with running(model, "m") as server:
        import concurrent.futures

        def one(request):
            name, text, parameters = request
            body = {
                "signature_name": name,
                "instances": [text],
                "parameters": parameters,
            }
            return ask(server, body=body)[0]

        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            assert set(pool.map(one, requests)) == {200}
    assert set(restored._parts) == before
    model._model.close()


def test_what_is_computed_together(permuted):
    model = opened(permuted.folder)
    for signature, row, parameters, is_together in (
        ("vectors", {"text_a": "a"}, {}, True),
        ("vectors", {"text_a": "a" * limits.MAX_SHORT}, {}, False),
        ("generate", {"prompt": "a"}, {"seed": 1}, True),
        ("generate", {"prompt": "a"}, {"beams": 32}, False),
        ("fill", {"text": "a ___"}, {}, False),
    ):
        call = model.call(signature, parameters)
        assert (call.batch([row]) is not None) == is_together
        assert call.keeps_tokens == (signature != "vectors")
        assert call.batch([row] * (limits.MAX_BATCH + 1)) is None
    ours, theirs = (model.call("generate", {"seed": seed}) for seed in (1, 2))
    assert ours.batch([row]) != theirs.batch([row])
    model._model.close()


def test_what_is_no_signature_of_a_model(model_of, causal):
    model = opened(model_of("spans"))
    assert list(model.inputs) == [
        "text",
        "vectors",
    ]  # with several outputs: not explained
    model._model.close()
    model = opened(causal.folder)
    assert list(model.inputs) == ["generate", "attention", "vectors"]
    assert model.describe()["model"]["objective"] == "causal"
    model._model.close()


# ---- a pretrained model


@pytest.fixture(scope="module")
def language_model(permuted):
    model = opened(permuted.folder)
    yield model
    model._model.close()


def test_a_pretrained_model_answers_as_that_of_xlnet_load(language_model, permuted):
    assert list(language_model.inputs) == [
        "fill",
        "factorize",
        "generate",
        "attention",
        "vectors",
    ]
    asked = dict(max_tokens=20, seed=3)
    (filled,) = answers(
        language_model, ["the cat ___ on"], "fill", most_pieces=1, top=2
    )
    (beams,) = answers(language_model, ["the"], "generate", beams=2, max_tokens=3)
    (written,) = answers(language_model, ["the cat"], "generate", **asked)
    stop = written["text"][6]
    (stopped,) = answers(language_model, ["the cat"], "generate", **asked, stop=stop)
    (factorized,) = answers(language_model, ["the cat sat"], "factorize", order="2,1,3")
    (vector,) = answers(language_model, ["the cat"], "vectors")
    with xlnet.load(permuted.folder, device="cpu") as other:
        found = other.fill("the cat ___ on", most_pieces=1, top=2)
        assert [each["text"] for each in filled] == [each.text for each in found]
        same([each["probability"] for each in filled], [each[2] for each in found])
        assert beams["text"] == other.generate("the", beams=2, max_tokens=3).text
        assert written["text"] == other.generate("the cat", **asked).text
        found = other.generate("the cat", **asked, stop=stop)
        assert stopped["text"] == found.text and stopped["ended"] == "stop"
        found = other.factorize("the cat sat", order="2,1,3")
        assert (factorized["order"], factorized["candidates"]) == (
            found.order,
            found.candidates,
        )
        same(factorized["log_probabilities"], found.log_probabilities.tolist())
        same(vector, other.vectors("the cat").tolist())


def test_attention_and_what_each_stream_sees(language_model):
    """The masks are those of the network for the same order."""
    (found,) = answers(
        language_model, ["the cat sat"], "attention", layers=[1], order="2,1,3"
    )
    count = len(found["pieces"])
    assert found["places"] == [2, 1, 3] and count == 3
    with tf.Graph().as_default(), tf.Session() as run:
        ranks, targets = tf.constant([found["places"]]), tf.ones([1, count], tf.bool)
        mask = run.run(modeling.permutation_mask(ranks, targets).dense())[0]
    np.testing.assert_array_equal(mask, found["hidden"]["query"])
    content_mask = mask & ~np.eye(count, dtype=bool)
    np.testing.assert_array_equal(content_mask, found["hidden"]["content"])
    content = np.array(found["streams"]["content"])  # [k,N,T,T]
    assert content.shape == (1, 2, count, count)
    np.testing.assert_allclose(content.sum(axis=-1), 1, atol=1e-3)
    assert (content[:, :, np.array(found["hidden"]["content"])] == 0).all()


def test_a_stream_has_the_text_of_the_answer(language_model):
    parameters = {"max_tokens": 6, "seed": 1}
    asked = {
        "signature_name": "generate",
        "instances": ["the cat"],
        "parameters": parameters,
    }
    with running(language_model, "m") as server:
        whole = ask(server, body=asked)[1]["predictions"][0]
        parts = ask(server, body=dict(asked, stream=True))[1]
    parts = list(map(json.loads, parts.splitlines()))
    assert "".join(part["text"] for part in parts) == whole["text"]
    assert len(parts) > 1 and parts[-1]["ended"] == "length"
    assert parts[-1]["unknown_tokens"] == 0
