"""Texts that continue prompts: choices of tokens, beams, seeds, stop texts, streams, batches."""

import contextlib
import itertools
import math

import numpy as np
import pytest
from helpers.language_model import hidden_in_order

from xlnet.inference import generation
from xlnet.inference.settings import GenerationSettings

PROMPT = "the cat sat on"
LOGS = np.log([0.5, 0.1, 0.3, 0.1])


@pytest.fixture(params=["permuted", "causal"])
def either(request):
    return request.getfixturevalue(request.param)


def streamed(made, prompt=PROMPT, **settings):
    return generation.Generation(made.loaded, **settings).stream(prompt)


def written(made, prompt=PROMPT, **settings):
    return list(streamed(made, prompt, **settings))[-1].whole


def together(made, prompts, **settings):
    method = generation.Generation(made.loaded, **settings)
    return [found.result for found in method.results(prompts)]


# ---- choices ----


def test_temperature_goes_before_the_k_likeliest_and_they_before_the_nucleus():
    """Of 0.5, 0.1, 0.3, 0.1: 0.5 alone are less than 0.7, with 0.3 they are enough."""
    for top_k, top_p, kept in (
        (0, 0.7, [0, 2]),
        (0, 0.49, [0]),
        (0, 0.81, [0, 2, 1]),
        (2, 1.0, [0, 2]),
        (2, 0.6, [0]),
    ):
        assert generation.likeliest(LOGS, top_k, top_p).tolist() == kept
    # Of 25, 1, 9 and 1, squared, the first two of the nucleus have 34 of 36.
    colder = GenerationSettings(temperature=0.5, top_p=0.9)
    assert {generation.sample(LOGS, colder, seed, 0) for seed in range(300)} == {0, 2}
    for temperature in (0.0, 1e-310):
        cold = GenerationSettings(temperature=temperature)
        assert {generation.sample(LOGS, cold, seed, 0) for seed in range(30)} == {0}


def test_samples_have_the_probabilities_of_the_model():
    count = 4000
    for top_k, expected in ((0, [0.5, 0.1, 0.3, 0.1]), (2, [0.625, 0, 0.375, 0])):
        settings = GenerationSettings(top_k=top_k)
        found = [generation.sample(LOGS, settings, 1, token) for token in range(count)]
        np.testing.assert_allclose(
            np.bincount(found, minlength=4) / count, expected, atol=0.03
        )


def test_rounding_does_not_change_a_sample():
    """A seed gave another text in 3 of 420 cases beside other clients."""
    random = np.random.default_rng(0)
    logs = random.normal(size=1000)
    settings = GenerationSettings(top_p=0.95)
    for token in range(200):
        rounded = logs + random.normal(scale=1e-9, size=1000)
        found = {
            generation.sample(each, settings, 5, token) for each in (logs, rounded)
        }
        assert len(found) == 1


# ---- texts ----


def one_by_one(made, count):
    """The likeliest token again and again, each in a pass of its own over all of the text."""
    tokenizer = made.tokenizer
    prompt = tokenizer.ids(PROMPT)
    start, length = len(prompt), len(prompt) + count
    ids = prompt + [0] * count
    hidden = hidden_in_order(length, range(0 if made.is_causal else start, length))
    hidden[np.diag_indices(length)] &= not made.is_causal
    banned = set(np.flatnonzero(tokenizer.is_special))
    banned -= {tokenizer.eod_id, tokenizer.eop_id}
    total = 0.0
    for place in range(start, length):
        found = made.at_once(ids, hidden, [place])
        said = found[place - 1 if made.is_causal else 0]
        said[list(banned)] = -np.inf
        ids[place] = int(said.argmax())
        total += said[ids[place]]
    text = "".join(tokenizer.id_to_piece(id) for id in ids[start:])
    return text.replace("▁", " ").replace("<eop>", "\n"), total


def test_greedy_takes_the_likeliest_token_each_time(either):
    text, total = one_by_one(either, 8)
    one = written(either, temperature=0, max_tokens=8)
    assert (one.text, one.tokens, one.ended) == (text, 8, "length")
    assert one.log_probability == pytest.approx(total, abs=1e-4)
    for settings in (dict(top_k=1), dict(temperature=1e-4), dict(top_p=1e-6)):
        assert written(either, max_tokens=8, **settings) == one


class Bigrams:
    """A language model that looks at the last token alone, by a table of probabilities [V,V], and
    its vocabulary: `<eod>`, a special piece, and words. Letters are tokens; a prompt is ids."""

    is_causal, batch_size = True, 32
    eod_id, eop_id, byte_ids, unk_id = 0, None, (), -1
    ids_without_mark = np.zeros(5, int)
    is_special = np.array([True, True, False, False, False])
    pieces = ["<eod>", "<sep>", "▁a", "▁b", "▁c"]

    def __init__(self, *rows):
        self._table = np.log(np.maximum(rows, 1e-30))
        self.loaded = self.tokenizer = self

    def language_model(self):
        return self

    def note_cut(self, is_cut, length):
        assert not is_cut.any()

    def ids(self, text):
        return [self.pieces.index("▁" + word) for word in text.split()]

    def encode_to_array(self, texts):
        return np.array(self.ids(texts[0])), None

    def id_to_piece(self, id):
        return self.pieces[id]

    @contextlib.contextmanager
    def reading(self, size, texts):
        yield self

    def read(self, ids, positions, asked, padding):
        return self._table[ids[:, -1]][:, None]

    def select(self, rows):
        pass


_NOWHERE = [1, 0, 0, 0, 0]
# After a: b 0.6, c 0.4. After b: a, b and c much alike. After c: b 0.9.
HILLS = Bigrams(
    _NOWHERE,
    _NOWHERE,
    [0, 0, 0, 0.6, 0.4],
    [0, 0, 0.34, 0.33, 0.33],
    [0, 0, 0.05, 0.9, 0.05],
)
CIRCLE = Bigrams(_NOWHERE, _NOWHERE, [0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 1, 0, 0])


def test_beams_find_what_greed_passes_by():
    """a b is likelier than a c, but of two tokens c b (0.36) is the likeliest."""
    for settings, text, probability in (
        (dict(temperature=0), " b a", 0.6 * 0.34),
        (dict(beams=2), " c b", 0.4 * 0.9),
    ):
        found = written(HILLS, "a", max_tokens=2, **settings)
        assert found.text == text
        assert math.exp(found.log_probability) == pytest.approx(probability)


def test_beams_go_on_until_as_many_have_ended():
    """After a: the end 0.5, b 0.3, c 0.2; b and c are followed by the end. Log probabilities are
    divided by the number of tokens: log 0.3 / 2 is above log 0.5."""
    ends = Bigrams(_NOWHERE, _NOWHERE, [0.5, 0, 0, 0.3, 0.2], _NOWHERE, _NOWHERE)
    found = written(ends, "a", beams=3, max_tokens=9)
    assert (found.text, found.ended) == (" b", "document")
    assert math.exp(found.log_probability) == pytest.approx(0.3)


@pytest.mark.parametrize("settings", [{}, dict(temperature=0), dict(beams=2)], ids=str)
def test_the_end_of_a_document_ends_the_text_and_special_pieces_are_never_written(
    settings,
):
    made = Bigrams(_NOWHERE, _NOWHERE, [0, 0.9, 0, 0.1, 0], [1, 0, 0, 0, 0], _NOWHERE)
    one = written(made, "a", max_tokens=5, **settings)
    assert (one.text, one.tokens, one.ended) == (" b", 2, "document")
    assert one.log_probability == pytest.approx(math.log(0.1))


def test_parts_make_the_whole(either):
    parts = list(streamed(either, max_tokens=20, seed=1))
    assert "".join(part.text for part in parts) == parts[-1].whole.text
    assert all(part.whole is None for part in parts[:-1]) and len(parts) > 5
    product = math.prod(part.probability for part in parts)
    assert math.log(product) == pytest.approx(parts[-1].whole.log_probability)


@pytest.mark.parametrize("settings", [{}, dict(temperature=0)], ids=str)
def test_writing_ends_before_a_stop_text(settings):
    """Wherever it stands, within a token or across some of them; nothing of it is streamed."""
    for stop, text in (("c", " b "), (" c a b", " b"), (" b", "")):
        parts = list(streamed(CIRCLE, "a", max_tokens=7, stop=stop, **settings))
        assert (parts[-1].whole.text, parts[-1].whole.ended) == (text, "stop")
        assert "".join(part.text for part in parts) == text
    never = written(CIRCLE, "a", max_tokens=5, stop="c b", **settings)
    assert (never.text, never.ended) == (" b c a b c", "length")
    found = together(CIRCLE, ["a", "b", "c"], max_tokens=9, stop="c", **settings)
    assert [one.text for one in found] == [" b ", " ", " a b "]  # at different steps


class Paragraphs:
    """A vocabulary with an end of a paragraph, as far as texts are made of it."""

    eod_id, eop_id = 0, 1

    def id_to_piece(self, id):
        return ["<eod>", "<eop>", "▁of", "e"][id]


def test_ends_of_paragraphs_and_what_may_begin_the_stop_text():
    def added(ids, stop):
        """What is released after each token, and the text at the end."""
        text, found = generation._Text(Paragraphs(), stop), []
        for id in ids:
            assert text.add(id, 0.0) is None
            found.append(text.released)
        return found, text.whole("length").text

    found = ["e", "e\n", "e\nof", "e\nof of"]
    assert added([3, 1, 2, 2], None) == (found, found[-1])
    found = ["", "", "", " ofe of", " ofe of"]
    assert added([2, 3, 2, 2, 3], " ofe of e") == (found, " ofe of ofe")


# ---- batches ----


def assert_equal_texts(ours, theirs):
    """Equal up to rounding."""
    for one, other in itertools.zip_longest(ours, theirs):
        assert one.text == other.text
        assert one.log_probability == pytest.approx(other.log_probability, rel=1e-4)


@pytest.mark.parametrize(
    "settings", [dict(max_tokens=9, seed=3), dict(max_tokens=7, beams=3)], ids=str
)
@pytest.mark.parametrize("context", [8, 512])
def test_prompts_of_a_batch_get_what_each_gets_alone(
    either, settings, context, monkeypatch
):
    """Of any length, and the oldest tokens give way."""
    monkeypatch.setattr(generation, "CONTEXT", context)
    prompts = [PROMPT, "", "two", " ".join([PROMPT] * 4), "a dog sat", "the mat"]
    alone = [written(either, prompt, **settings) for prompt in prompts]
    assert_equal_texts(together(either, prompts, **settings), alone)
    again = [PROMPT, PROMPT]  # the seed alone decides
    assert len({one.text for one in together(either, again, **settings)}) == 1


def test_a_half_read_text_is_in_nobody_s_way(either):
    """Two that are half read, and one that is left, get what each gets alone."""
    prompts = ["two", " ".join([PROMPT] * 4)]
    settings = dict(max_tokens=12, seed=1)
    alone = [written(either, prompt, **settings) for prompt in prompts]
    dropped = streamed(either, PROMPT, **settings)
    next(dropped)
    dropped.close()
    found = list(zip(*[streamed(either, prompt, **settings) for prompt in prompts]))
    assert_equal_texts([chunk.whole for chunk in found[-1]], alone)


def test_a_long_prompt_does_not_multiply_the_cost_of_short_ones(either, monkeypatch):
    """One of 2,800 tokens with 31 of two tokens was read as 32 of 2,800."""
    prompts = ["two", " ".join([PROMPT] * 6), *["a dog", "two"] * 5]
    settings = dict(temperature=0, max_tokens=5)
    alone = [written(either, prompt, **settings) for prompt in prompts]
    monkeypatch.setattr(generation, "_MOST_TOKENS", 60)
    sizes = []
    generate = generation.Generation._generate

    def counted(self, batch):
        sizes.append(len(batch) * max(map(len, batch)))
        return generate(self, batch)

    monkeypatch.setattr(generation.Generation, "_generate", counted)
    assert_equal_texts(together(either, prompts, **settings), alone)
    assert len(sizes) > 1 and max(sizes) <= 60
