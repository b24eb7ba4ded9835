"""How much each word counts: as a loop of predictions without each of them."""

import numpy as np
import pytest
from helpers.models import make_model

import xlnet
from xlnet.finetuning.model import Predictor
from xlnet.inference import prediction
from xlnet.support.errors import UserError

TEXTS = ("kamat telok rokmi  sol", "mitel dakar laskit")

pytestmark = pytest.mark.usefixtures("quick_start")


def outputs(model, kind, items, label):
    """The explained output of items, by the method of the task."""
    if kind == "ranking":
        scores = [model.rank(query, [other])[0].score for query, other in items]
        return np.array(scores)
    if kind == "regression":
        return model.score(items)
    return np.array([one.probabilities[label] for one in model.classify(items)])


@pytest.mark.parametrize(
    "kind", ("classification", "multi_label", "regression", "ranking")
)
def test_leaving_out_a_word_is_a_loop_of_predictions(loaded, kind):
    model = loaded(kind)
    texts = TEXTS if kind in ("classification", "ranking") else TEXTS[:1]
    item = texts if len(texts) > 1 else texts[0]
    found = model.explain(item)
    words = [text.split() for text in texts]
    assert found.words == tuple(word for each in words for word in each)
    assert found.first_words == 4
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


@pytest.mark.parametrize(
    "text, words",
    [
        ("The cat's  mat.", ["The", "cat's", "mat."]),
        ("北京 is 大", ["北", "京", "is", "大"]),
        ("   ", []),
    ],
)
def test_words_are_between_spaces_or_single_letters(text, words):
    assert [text[start:end] for start, end in prediction.words_of(text)] == words


def test_what_cannot_be_explained_is_said(loaded, permuted):
    for model, text, said in (
        (loaded("tagging"), "kamat", "expected one that can classify or score or rank"),
        (loaded("classification"), ("kamat", ""), "text 0: "),
        (permuted.loaded, "a", "^model: found a pretrained one"),
    ):
        with pytest.raises(UserError, match=said):
            model.explain(text)


def test_of_a_long_text_what_was_read_is_explained(tmp_path, monkeypatch):
    """Words that were not read count nothing, and no prediction is made without them."""
    directory = make_model(tmp_path, "classification", max_seq_length=16)
    with xlnet.load(directory, device="cpu") as model:
        rows, predict = [], Predictor.predict

        def counted(self, asked):
            rows.extend(asked)
            return predict(self, asked)

        monkeypatch.setattr(Predictor, "predict", counted)
        found = model.explain(("kamat sol " * 1500, "mitel"))
        assert len(found.words) == 3001
        is_read = np.flatnonzero(found.weights)
        assert 2 < len(is_read) < 14 and len(rows) < 16 and is_read[-1] == 3000
        # Of a word that cleaning removes nothing is read.
        found = model.explain(("sol \u200b ka", "sol"))
        assert found.is_read.tolist() == [True, False, True, True]
        assert found.weights[1] == 0


def test_a_text_of_more_words_than_are_predicted_without_is_refused(tmp_path):
    directory = make_model(tmp_path, "classification", max_seq_length=16384)
    with xlnet.load(directory, device="cpu") as model:
        said = "text: found 2049 words that are read, expected at most 2048"
        with pytest.raises(UserError, match=said):
            model.explain(("sol " * 2048, "ka"))


def test_outputs_that_are_not_finite_explain_nothing(loaded, monkeypatch):
    predict = Predictor.predict

    def overflowed(self, rows):
        found, counts = predict(self, rows)
        return found._replace(values=np.full_like(found.values, np.nan)), counts

    monkeypatch.setattr(Predictor, "predict", overflowed)
    with pytest.raises(UserError, match="outputs of the network: found NaN"):
        loaded("classification").explain(("kamat", "sol"))
