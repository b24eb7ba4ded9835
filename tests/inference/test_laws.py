"""Laws of predictions: not what is in the batch, nor padding, nor length that is not used changes
them; and reading token by token gives what reading everything at once gives."""

import dataclasses
import functools

import numpy as np
import pytest
from helpers.laws import law
from helpers.models import assert_alike
from hypothesis import strategies as st

from xlnet.inference.model import Model
from xlnet.runs import model_files

WORDS = st.lists(
    st.sampled_from(["kamat", "tel", "okro", "mi", "solkit", "dar", "x"]),
    min_size=1,
    max_size=2,
).map(" ".join)  # within 24 tokens
PAIRS = st.lists(st.tuples(WORDS, WORDS), min_size=2, max_size=5)
ITEMS = {  # of a pair, for `predict`
    "classification": lambda one, other: (one, other),
    "multi_label": lambda one, other: f"{one} {other}",
    "multiple_choice": lambda one, other: (one, [other, "mi", one], "dar"),
    "ranking": lambda one, other: (one, [other, one]),
    "spans": lambda one, other: (one, other),
    "regression": lambda one, other: f"{one} {other}",
    "tagging": lambda one, other: f"{one} {other}",
}


@pytest.fixture(scope="module")
def models(model_of):
    """Function from a kind to models that answer three rows at once; the same of twice the length,
    where that cuts no text in another way, two rows."""

    @functools.cache
    def make(kind):
        found = model_files.read(model_of(kind))
        settings = found.tuned.settings
        if kind not in ("regression", "spans"):
            length = 2 * settings.max_seq_length
            settings = dataclasses.replace(settings, max_seq_length=length)
        tuned = dataclasses.replace(found.tuned, settings=settings)
        longer = dataclasses.replace(found, tuned=tuned)
        return Model(found, "cpu", 3), Model(longer, "cpu", 2)

    return make


@pytest.mark.slow
@pytest.mark.parametrize("kind", ITEMS)
@law(2, 100, pairs=PAIRS)
def test_a_prediction_depends_on_its_text_alone(models, kind, pairs):
    def ask(model, pairs):
        found = model.predict([ITEMS[kind](*pair) for pair in pairs])
        return list(map(sorted, found)) if kind == "ranking" else found

    model, longer = models(kind)
    together = ask(model, pairs)
    others = [
        [ask(model, [pair])[0] for pair in pairs],
        ask(model, pairs[::-1])[::-1],
        ask(longer, pairs),
    ]
    with pytest.MonkeyPatch.context() as patched:  # as with --xla
        task_type = type(model.loaded.tuned.task)
        longest = task_type.padding._replace(multiple=4096)
        patched.setattr(task_type, "padding", longest)
        others += [ask(longer, pairs), ask(model, pairs)]
    for found in others:
        assert_alike(found, together, rel=1e-4)


@law(
    4,
    200,
    ids=st.lists(st.integers(0, 49), min_size=2, max_size=9),
    size=st.integers(1, 10),
    first=st.integers(1, 9),
    is_causal=st.booleans(),
)
def test_reading_on_is_reading_at_once(permuted, causal, ids, size, first, is_causal):
    """The first tokens together, then one after the other, the oldest giving way where there is no
    more room."""
    made, ids = (causal, np.array(ids)) if is_causal else (permuted, np.array(ids))
    length, first = len(ids), min(first, size, len(ids) - 1)
    i, j = np.indices((length, length))
    edges, said = [0, *range(first, length)], []
    with made.model.reading(size) as reading:
        for low, high in zip(edges, edges[1:]):
            asked = () if is_causal else [high]
            said.append(
                reading.read(ids[None, low:high], range(low, high), asked)[0, 0]
            )
    is_too_far = i - j >= size
    if is_causal:
        expected = made.at_once(ids, (j > i) | is_too_far)[np.array(edges[1:]) - 1]
    else:
        hidden = (j > i) & (j >= first) | (j == i) & (i >= first)
        expected = []
        for blank in edges[1:]:
            hides = hidden | np.where(i == blank, i - 1 - j >= size, is_too_far)
            expected.append(made.at_once(ids, hides, [blank])[0])
    np.testing.assert_allclose(said, expected, atol=1e-4)
