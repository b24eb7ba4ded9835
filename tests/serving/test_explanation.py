"""How much each word counts: by loops of predictions, and by the sum of integrated gradients."""

import json
import re

import numpy as np
import pytest
from helpers import command
from helpers.models import make_model

import xlnet
from xlnet.errors import UserError
from xlnet.serving import explanation

TEXTS = ("kamat telok rokmi  sol", "mitel dakar laskit")

pytestmark = pytest.mark.usefixtures("quick_start")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Function from a kind of task to its model, loaded once."""
    made = {}

    def load(kind):
        if kind not in made:
            changes = (
                dict(long_document="truncate", max_seq_length=32)
                if kind in ("classification", "regression")
                else {}
            )
            made[kind] = xlnet.load(
                make_model(tmp_path_factory.mktemp("model") / kind, kind, **changes), device="cpu"
            )
        return made[kind]

    yield load
    for model in made.values():
        model.close()


def item_of(kind):
    return TEXTS if kind in ("classification", "ranking") else TEXTS[0]


def outputs(model, kind, items, label):
    """The explained output of items, by the method of the task."""
    if kind == "ranking":
        return np.array([model.rank(query, [document])[0].score for query, document in items])
    if kind == "regression":
        return model.score(items)
    return np.array([one.probabilities[label] for one in model.classify(items)])


KINDS = ("classification", "multi_label", "regression", "ranking")


@pytest.mark.parametrize("kind", KINDS)
def test_leaving_out_a_word_is_a_loop_of_predictions(loaded, kind):
    model, item = loaded(kind), item_of(kind)
    found = model.explain(item)
    texts = item if isinstance(item, tuple) else (item,)
    words = [text.split() for text in texts]
    assert found.words == tuple(word for each in words for word in each)
    assert (found.first_words, found.base) == (4, None)
    without = []
    for number, each in enumerate(words):
        for place in range(len(each)):
            left = [" ".join(other) for other in words]
            left[number] = " ".join(each[:place] + each[place + 1 :])
            without.append(tuple(left) if len(left) > 1 else left[0])
    full, *others = outputs(model, kind, [item, *without], found.output)
    np.testing.assert_allclose(found.value, full, atol=1e-6)
    np.testing.assert_allclose(found.weights, full - np.array(others), atol=2e-6)
    assert np.abs(found.weights).max() > 1e-4
    if kind in ("classification", "multi_label"):
        label = min(model.labels, key=lambda name: name == found.output)
        other = model.explain(item, label=label)
        assert other.output == label and other.value != found.value


@pytest.mark.parametrize("kind", KINDS)
def test_integrated_gradients_are_complete(loaded, kind):
    """Their sum is the difference of the outputs; more steps come closer."""
    model, item = loaded(kind), item_of(kind)
    found = model.explain(item, method="integrated_gradients", steps=200)
    assert found.words == model.explain(item).words and np.abs(found.weights).max() > 1e-4
    np.testing.assert_allclose(
        found.value, outputs(model, kind, [item], found.output)[0], atol=1e-5
    )
    difference = found.value - found.base
    assert abs(difference) > 1e-3
    np.testing.assert_allclose(found.weights.sum(), difference, atol=0.01 * abs(difference))


def test_integrated_gradients_of_a_linear_output_are_its_terms(loaded):
    """The gradient by a token's scale is that by its embedding times the embedding: by finite
    differences."""
    model = loaded("regression")
    tuned = model.inference.loaded.tuned
    inference = model.inference
    part = inference.open().subgraph(
        "explanation", lambda: explanation.build(inference.loaded, tuned)
    )
    record = {
        "input_ids": np.array([[9, 12, 20, model.tokenizer.sep_id, model.tokenizer.cls_id]]),
        "input_mask": np.zeros((1, 5)),
        "segment_ids": np.array([[0, 0, 0, 0, 2]]),
        "output": 0,
    }
    at = np.array([[0.7, 0.4, 0.9, 1, 1]], np.float32)
    gradient = part("gradient", dict(record, token_scale=at))[0]
    for token in range(5):
        step = 1e-2 * np.eye(5, dtype=np.float32)[token]
        high, low = (
            part("value", dict(record, token_scale=at + sign * step))[0] for sign in (1, -1)
        )
        np.testing.assert_allclose(gradient[token], (high - low) / 2e-2, rtol=0.02, atol=1e-3)


@pytest.mark.parametrize(
    "text, words",
    [
        ("The cat's  mat.", ["The", "cat's", "mat."]),
        ("北京 is 大", ["北", "京", "is", "大"]),
        ("   ", []),
    ],
)
def test_words_are_between_spaces_or_single_letters(text, words):
    assert [text[start:end] for start, end in explanation.words_of(text)] == words


def test_one_word_several_texts_and_bad_ones(loaded):
    model = loaded("multi_label")
    one, several = (
        model.explain("kamat"),
        model.explain(["kamat", "sol mitel", ""], errors="return"),
    )
    assert one.words == ("kamat",) and np.isfinite(one.weights).all()
    assert several[0].words == one.words and several[1].words == ("sol", "mitel")
    assert isinstance(several[2], UserError)


@pytest.mark.parametrize(
    "kind, settings, said",
    [
        ("tagging", {}, "several outputs for a text"),
        ("spans", {}, "several outputs for a text"),
        ("multiple_choice", {}, "several outputs"),
        ("multi_label", dict(label="anmal"), r"expected one of .*; did you mean 'animal'\?$"),
        ("regression", dict(label="animal"), "the model has one score"),
        ("regression", dict(method="gradients"), "expected one of leave_one_out"),
        ("classification", dict(texts=("kamat", "")), "text 0: "),
    ],
)
def test_what_cannot_be_explained_is_said(loaded, kind, settings, said):
    with pytest.raises(UserError, match=said):
        loaded(kind).explain(**dict(dict(texts="kamat"), **settings))


def test_words_behind_the_end_of_a_cut_text_count_nothing(loaded):
    for method in ("leave_one_out", "integrated_gradients"):
        model = loaded("regression")
        before = model.cut
        found = model.explain("kamat sol " * 20, method=method)
        assert model.cut == before + 1  # one text, whatever it was predicted without
        assert len(found.words) == 40 and abs(found.weights[0]) > 1e-6
        assert not found.weights[-1] and not np.isnan(found.weights).any()


def test_a_pretrained_model_and_one_with_memory(loaded, permuted, tmp_path):
    with (
        xlnet.load(str(permuted.folder), device="cpu") as model,
        pytest.raises(UserError, match="pretrained alone"),
    ):
        model.explain("the cat")
    for path, said in (
        (str(permuted.folder), "xlnet explain: the model is pretrained alone"),
        (make_model(tmp_path / "s", "spans"), "xlnet explain: a model of task type spans"),
    ):
        assert command.refused("xlnet explain", model_dir=path, text="a").startswith(said)
    with xlnet.load(make_model(tmp_path / "m", "regression"), device="cpu") as model:
        assert len(model.explain(TEXTS[0]).weights) == 4
        with pytest.raises(UserError, match="give method=leave_one_out"):
            model.explain(TEXTS[0], method="integrated_gradients")
        with pytest.raises(UserError, match="long_document=memory"):
            model.attention(TEXTS[0], layers=[1])


def test_the_program_shows_draws_and_writes_a_page(loaded, tmp_path):
    path = loaded("classification").inference.loaded.prefix.rpartition("/")[0]
    png, page = tmp_path / "a.png", tmp_path / "a.html"
    done = command.succeed(
        "xlnet explain",
        model_dir=path,
        text="<b> kamat &",
        text_b="sol",
        output=f"{png},{page}",
        device="cpu",
    )
    found = loaded("classification").explain(("<b> kamat &", "sol"))
    assert f"{found.output} {found.value:.4f}" in done.stdout
    for word, weight in zip(found.words, found.weights):
        assert re.search(
            r"^ *{} .*{}$".format(re.escape(f"{weight:+.4f}"), re.escape(word)),
            done.stdout,
            re.MULTILINE,
        ), done.stdout
    assert png.read_bytes().startswith(b"\x89PNG")
    text = page.read_text(encoding="utf-8")
    assert "&lt;b&gt;" in text and "<b>" not in text and "&amp;" in text
    assert not re.search(r"(src|href)=|https?:|<script", text)
    assert text.count("title=") == 4
    assert command.refused("xlnet explain", model_dir=path, text="a", output="a.gif")


# ---- attention of a fine-tuned model


def test_attention_of_a_fine_tuned_model_is_that_of_its_network(loaded, tmp_path):
    """Of rows that are probabilities; the page and the image are written."""
    model = loaded("classification")
    texts = (TEXTS[0], "mitel dakar")
    found = model.attention(texts, layers=[1])
    ids = model.encode(texts).tolist()
    with pytest.raises(UserError, match="order is random, but the model has none alone"):
        model.attention(texts, layers=[1], order="random")
    assert list(found.ids) == ids and set(found.streams) == {"content"} and found.places is None
    shown = found.streams["content"]
    assert shown.shape == (1, 2, len(ids), len(ids))
    np.testing.assert_allclose(shown.sum(axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose(shown[0], by_formula(model, ids, len(TEXTS[0].split())), atol=1e-5)
    path = model.inference.loaded.prefix.rpartition("/")[0]
    page = tmp_path / "a.html"
    command.succeed(
        "xlnet plot attention",
        model_dir=path,
        text=texts[0],
        text_b=texts[1],
        device="cpu",
        output="{},{}".format(tmp_path / "a.png", page),
    )
    data = json.loads(re.search(r"^const data = (.*);$", page.read_text(), re.MULTILINE).group(1))
    assert list(data["streams"]) == ["content"] and data["places"] is None
    assert data["title"] == " | ".join(texts)


@pytest.mark.parametrize("long_document", ("truncate", "head_tail"))
def test_attention_of_a_text_that_the_model_cuts_is_refused(tmp_path, long_document):
    directory = make_model(
        tmp_path, "classification", max_seq_length=16, long_document=long_document
    )
    with xlnet.load(directory, device="cpu") as model:
        assert len(model.attention(("ka", "sol"), layers=[1]).ids) < 16
        with pytest.raises(UserError, match="^13 of .* tokens are read, expected all"):
            model.attention(("kamat rokmi " * 20, "mat"), layers=[1])


def test_attention_takes_a_question_and_its_context_as_the_answer_does(tmp_path):
    question, context = "mat rok", "kamat telok mira"
    with xlnet.load(make_model(tmp_path, "spans"), device="cpu") as model:
        ids = model.tokenizer.ids
        end = [model.tokenizer.sep_id, model.tokenizer.cls_id]
        expected = [*ids(context), model.tokenizer.sep_id, *ids(question), *end]
        asked = {"context": context, "question": question}
        for item in ((question, context), asked):
            assert list(model.attention(item, layers=[1]).ids) == expected
            assert model.encode(item).tolist() == expected
        with pytest.raises(UserError, match="are read, expected all.*max_query_length"):
            model.attention(("mat rok " * 10, "ka"), layers=[1])


def by_formula(model, ids, first_words):
    """The probabilities [N,T,T] of the first layer, in NumPy."""
    from xlnet.engine import checkpoint

    weights = checkpoint.read_weights(model.inference.loaded.prefix)
    of = lambda name: np.asarray(weights["model/transformer/" + name], np.float64)
    layer = "layer_0/rel_attn/%s/kernel"
    x = of("word_embedding/lookup_table")[ids]
    q, k = (np.einsum("td,dnh->nth", x, of(layer % name)) for name in "qk")
    i, j = np.indices((len(ids), len(ids)))
    angles = (i - j)[..., None] / 10000 ** (np.arange(0, 16, 2) / 16)
    r = np.einsum(
        "ijd,dnh->nijh", np.concatenate([np.sin(angles), np.cos(angles)], -1), of(layer % "r")
    )
    sep = ids.index(model.tokenizer.sep_id)
    segment = np.array([0 if place <= sep else 1 for place in range(len(ids) - 1)] + [2])
    differs = (segment[:, None] != segment).astype(int)
    vectors = of("seg_embed")[0][differs]  # [T,T,N,H]
    score = (
        np.einsum("nih,njh->nij", q + of("r_w_bias")[0][:, None], k)
        + np.einsum("nih,nijh->nij", q + of("r_r_bias")[0][:, None], r)
        + np.einsum("nih,ijnh->nij", q + of("r_s_bias")[0][:, None], vectors)
    ) / np.sqrt(8)
    e = np.exp(score - score.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_a_text_that_gradients_cannot_explain_is_an_error_of_its_own(tmp_path):
    directory = make_model(tmp_path / "model", "multi_label", long_document="head_tail")
    texts, asked = (
        ["kamat", "kamat " * 20 + "sol " * 20, "tel"],
        dict(method="integrated_gradients", steps=4),
    )
    with xlnet.load(directory, device="cpu") as model:
        found = model.explain(texts, errors="return", **asked)
        assert [each.words for each in found[::2]] == [("kamat",), ("tel",)]
        assert "does not fit into max_seq_length" in str(found[1])
        with pytest.raises(UserError, match="^text 1: the text does not fit"):
            model.explain(texts, **asked)
