"""A wrong argument of a loaded model is a line that names it, never an error from inside."""

import numpy as np
import pytest

import xlnet


class Table:
    """As of pandas: iteration gives the names of the columns."""

    columns = ["text"]

    def __iter__(self):
        return iter(self.columns)


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda model: model.generate("the", temperature="1"), "temperature"),
        (lambda model: model.generate("the", max_token=3), "max_token"),
        (lambda model: model.generate("the", stop=3), "stop"),
        (lambda model: model.fill("a ___", most_pieces=0), "most_pieces"),
        (lambda model: model.generate("the", beams=None), "beams"),
        (lambda model: model.vectors(["the", "\u200b"]), "text 1: text: found"),
        (lambda model: model.attention("the cat", layers=1), "layers"),
        (lambda model: model.fill("a ___", order=None), "order"),
        (lambda model: model.fill(None), "None"),
        (lambda model: model.attention("the cat", layers=[4]), "layers"),
        (lambda model: model.vectors("the", layer="x"), "layer"),
        (lambda model: model.vectors("the", pooling=3), "pooling"),
        (lambda model: model.pipe(["the"], "predikt"), "predikt"),
        (lambda model: model.pipe(["the"], "vectors", threshold=1), "threshold"),
        (lambda model: model.pipe(["a ___"], "fill", model=1), "model"),
        (lambda model: model.pipe("the", "vectors"), "texts"),
        (lambda model: model.pipe({"text": ["the"]}, "vectors"), "texts"),
        (lambda model: model.pipe(Table(), "vectors"), "texts"),
        (lambda model: model.pipe(np.array("the"), "vectors"), "texts"),
        (lambda model: model.pipe(["the"], "vectors", errors=1), "errors"),
        (lambda model: model.fill(["a ___", "a"]), "text 1"),
    ],
)
def test_it_is_named(permuted, call, name):
    with pytest.raises(xlnet.UserError, match=rf"\b{name}(\b|$)") as raised:
        call(permuted.loaded)
    assert "\n" not in str(raised.value)


def test_a_question_that_is_no_text_is_named(loaded):
    for question in (0, False, []):
        with pytest.raises(xlnet.UserError, match="text"):
            loaded("multiple_choice").choose("kamat", ["sol", "mi", "ka"], question)


def test_arrays_are_taken_as_lists(permuted):
    """And numbers of NumPy as those of Python."""
    model = permuted.loaded
    asked = dict(max_tokens=np.int64(2), temperature=np.float32(0))
    given = model.generate("the cat", **asked)
    assert given == model.generate("the cat", max_tokens=2, temperature=0)
    texts = np.array(["the cat", "on"])
    expected = model.vectors(["the cat", "on"])
    assert np.array_equal(list(model.pipe(texts, verb="vectors")), expected)


@pytest.mark.parametrize(
    "given, name",
    [
        (dict(batch_size="8"), "batch_size"),
        (dict(precision=16), "precision"),
    ],
)
def test_it_is_named_where_a_model_is_loaded(permuted, given, name):
    with pytest.raises(xlnet.UserError, match=name):
        xlnet.load(permuted.folder, **given)
    with pytest.raises(xlnet.UserError, match="model_dir: found 3, expected a text"):
        xlnet.load(3)
