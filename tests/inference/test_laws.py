"""Laws of predictions: not what is in the batch, nor padding, nor length that is not used changes
them; and reading token by token gives what reading everything at once gives."""

import dataclasses
import functools

import numpy as np
import pytest
from helpers.laws import law
from hypothesis import strategies as st

from xlnet.inference.model import Model
from xlnet.runs import model_files

WORDS = st.lists(
    st.sampled_from(["kamat", "tel", "okro", "mi", "solkit", "dar", "x"]),
    min_size=1,
    max_size=2,
).map(" ".join)  # within 24 tokens
PAIRS = st.lists(st.tuples(WORDS, WORDS), min_size=2, max_size=5)
ASK = {
    "classification": lambda model, pairs: model.classify(pairs),
    "multi_label": lambda model, pairs: model.classify(
        [" ".join(pair) for pair in pairs]
    ),
    "multiple_choice": lambda model, pairs: model.choose(
        [one for one, _ in pairs], [[other, "mi", one] for one, other in pairs], "dar"
    ),
    "ranking": lambda model, pairs: [
        [each.score for each in sorted(found)]
        for found in model.rank(
            [one for one, _ in pairs], [[other, one] for one, other in pairs]
        )
    ],
    "spans": lambda model, pairs: model.answer(*map(list, zip(*pairs))),
    "regression": lambda model, pairs: model.score([" ".join(pair) for pair in pairs]),
    "tagging": lambda model, pairs: model.tag([" ".join(pair) for pair in pairs]),
}


@pytest.fixture(scope="module")
def models(model_of):
    """Function from a kind to models that answer three rows at once; the same of twice the length,
    where that cuts no text in another way, two rows."""

    @functools.cache
    def make(kind):
        found = model_files.read(model_of(kind))
        settings = found.tuned.settings
        longer = (
            {}
            if kind in ("regression", "spans")
            else dict(max_seq_length=2 * settings.max_seq_length)
        )
        longer = dataclasses.replace(
            found,
            tuned=dataclasses.replace(
                found.tuned, settings=dataclasses.replace(settings, **longer)
            ),
        )
        return [Model(one, "cpu", rows) for one, rows in ((found, 3), (longer, 2))]

    return make


def parts(value):
    """What an answer is made of: its numbers, and what has to be equal."""
    if isinstance(value, (float, np.floating)):
        return [float(value)], []
    if isinstance(value, dict):
        value = list(value.items())
    if not isinstance(value, (list, tuple, np.ndarray)):
        return [], [value]
    found = [parts(one) for one in value]
    return sum((one for one, _ in found), []), sum((one for _, one in found), [])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ASK)
@law(2, 100, pairs=PAIRS)
def test_a_prediction_depends_on_its_text_alone(models, kind, pairs):
    (model, longer), ask = models(kind), ASK[kind]
    together = parts(ask(model, pairs))
    others = [
        parts([ask(model, [pair])[0] for pair in pairs]),
        parts(list(ask(model, pairs[::-1]))[::-1]),
        parts(ask(longer, pairs)),
    ]
    with pytest.MonkeyPatch.context() as patched:  # as with --xla
        task_type = type(model.loaded.tuned.task)
        longest = task_type.padding._replace(multiple=4096)
        patched.setattr(task_type, "padding", longest)
        others += [parts(ask(longer, pairs)), parts(ask(model, pairs))]
    for numbers, rest in others:
        assert rest == together[1]
        np.testing.assert_allclose(numbers, together[0], rtol=1e-4, atol=1e-5)


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
    with made.model.reading(size) as reading:
        edges = [0, *range(first, length)]
        said = [
            reading.read(
                ids[None, low:high], range(low, high), () if is_causal else [high]
            )[0, 0]
            for low, high in zip(edges, edges[1:])
        ]
    if is_causal:
        expected = made.at_once(ids, (j > i) | (i - j >= size))[np.array(edges[1:]) - 1]
    else:
        follows = (j > i) & (j >= first)
        expected = [
            made.at_once(
                ids,
                follows
                | (j == i) & (i >= first)
                | np.where(i == blank, i - 1 - j >= size, i - j >= size),
                [blank],
            )[0]
            for blank in edges[1:]
        ]
    np.testing.assert_allclose(said, expected, atol=1e-4)
