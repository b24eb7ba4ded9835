"""Texts written on: choices of tokens, beams, seeds, stop texts, streams, the end of a document."""

import concurrent.futures
import contextlib
import json
import math
import threading

import numpy as np
import pytest

import xlnet
from xlnet.errors import UserError
from xlnet.serving import generation, joint_generation, sampling
from xlnet.serving.batched_calls import NotFinite
from xlnet.serving.joint_generation import JointGeneration
from xlnet.serving.settings import GenerationSettings, from_keywords, stop_texts

PROMPT = "the cat sat on"


@pytest.fixture(params=["permuted", "causal"])
def either(request):
    return request.getfixturevalue(request.param)


def parts_of(made, prompt=PROMPT, **settings):
    settings = GenerationSettings(**settings)
    settings.check()
    return list(generation.write(made.model, made.tokenizer, prompt, settings))


def written(made, prompt=PROMPT, **settings):
    """The whole texts, by number."""
    whole = {part.number: part.whole for part in parts_of(made, prompt, **settings) if part.whole}
    return [whole[number] for number in sorted(whole)]


# ---- choices ----


def test_the_nucleus_by_hand():
    """Of 0.5, 0.1, 0.3, 0.1: 0.5 alone are less than 0.7, with 0.3 they are enough."""
    logs = np.log([0.5, 0.1, 0.3, 0.1])
    np.testing.assert_allclose(sampling.distribution(logs, top_p=0.7), [0.625, 0, 0.375, 0])
    assert sampling.distribution(logs, temperature=1e-310).tolist() == [1, 0, 0, 0]
    assert stop_texts("[END]") == ("[END]",) and stop_texts('["a"]') == ("a",)
    np.testing.assert_allclose(sampling.distribution(logs, top_p=0.49), [1, 0, 0, 0])
    np.testing.assert_allclose(sampling.distribution(logs, top_p=0.81), [5 / 9, 1 / 9, 3 / 9, 0])
    np.testing.assert_allclose(sampling.distribution(logs), [0.5, 0.1, 0.3, 0.1])


def test_temperature_goes_before_the_k_likeliest_and_they_before_the_nucleus():
    logs = np.log([0.5, 0.1, 0.3, 0.1])
    np.testing.assert_allclose(
        sampling.distribution(logs, temperature=0.5), np.array([25, 1, 9, 1]) / 36
    )
    np.testing.assert_allclose(sampling.distribution(logs, top_k=2), [0.625, 0, 0.375, 0])
    np.testing.assert_allclose(sampling.distribution(logs, top_k=2, top_p=0.6), [1, 0, 0, 0])
    np.testing.assert_allclose(sampling.distribution(logs, 0.5, 2, 0.74), [25 / 34, 0, 9 / 34, 0])
    np.testing.assert_allclose(sampling.distribution(np.array([0.0, -np.inf]), 2.0), [1, 0])


def test_the_best_of_an_array():
    rows, columns = sampling.best(np.array([[1.0, 5.0], [5.0, -np.inf], [7.0, 0.0]]), 10)
    assert list(zip(rows, columns)) == [(2, 0), (0, 1), (1, 0), (0, 0), (2, 1)]


# ---- texts ----


def never_written(tokenizer):
    return [
        id
        for id in np.flatnonzero(tokenizer.is_special)
        if id not in (tokenizer.eod_id, tokenizer.eop_id)
    ]


def step_by_step(made, count):
    """The likeliest token again and again, everything read anew for each."""
    ids, prompt = made.tokenizer.ids(PROMPT), len(made.tokenizer.ids(PROMPT))
    banned, total = never_written(made.tokenizer), 0.0
    for _ in range(count):
        length = len(ids)
        hidden = np.triu(np.ones((length + 1, length), bool), 1)
        if not made.is_causal:
            hidden[:prompt, :prompt] = False
        with made.model.reading(length) as reading:
            said = reading.read(
                np.array([ids]),
                range(length),
                () if made.is_causal else [length],
                hidden=hidden[:length] if made.is_causal else hidden,
            )[0, 0]
        said[banned] = -np.inf
        ids.append(int(said.argmax()))
        total += said[ids[-1]]
        if ids[-1] == made.tokenizer.eod_id:
            break
    return "".join(made.tokenizer.id_to_piece(id) for id in ids[prompt:]).replace("▁", " ").replace(
        "<eop>", "\n"
    ), total


def test_greedy_takes_the_likeliest_token_each_time(either):
    text, total = step_by_step(either, 8)
    (one,) = written(either, method="greedy", max_tokens=8)
    assert (one.text, one.tokens, one.ended) == (text, 8, "length")
    assert one.log_probability == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("prompt", [PROMPT, "two dogs", ""])
def test_one_beam_is_greedy(either, prompt):
    assert written(either, prompt, method="beam", beams=1, max_tokens=15) == written(
        either, prompt, method="greedy", max_tokens=15
    )


class Bigrams:
    """A language model that looks at the last token alone, by a table of probabilities [V,V], and
    its vocabulary: `<eod>`, a special piece, and words. Letters are tokens; a prompt is ids."""

    is_causal, eod_id, eop_id, byte_ids = True, 0, None, ()
    is_special = np.array([True, True, False, False, False])
    pieces = ["<eod>", "<sep>", "▁a", "▁b", "▁c"]

    def __init__(self, *rows):
        self._table = np.log(np.maximum(rows, 1e-30))
        self.tokenizer, self.model = self, self
        self.joint_generation = None

    def ids(self, text):
        return [self.pieces.index("▁" + word) for word in text.split()]

    def id_to_piece(self, id):
        return self.pieces[id]

    @contextlib.contextmanager
    def reading(self, size):
        self.size = size
        yield self

    def read(self, ids, positions, asked=(), **how):
        return self._table[ids[:, -1]][:, None]

    def keep(self, rows):
        pass

    def add_texts(self, kept, count, size, position):
        self.size = max(self.size, size)

    def back_to_slot(self, slot):
        pass


_NOWHERE = [1, 0, 0, 0, 0]
# After a: b 0.6, c 0.4. After b: a, b and c much alike. After c: b 0.9.
HILLS = Bigrams(
    _NOWHERE, _NOWHERE, [0, 0, 0, 0.6, 0.4], [0, 0, 0.34, 0.33, 0.33], [0, 0, 0.05, 0.9, 0.05]
)


def test_beams_find_what_greed_passes_by():
    """a b is likelier than a c, but of two tokens c b (0.36) is the likeliest."""
    (greedy,) = written(HILLS, "a", method="greedy", max_tokens=2)
    assert greedy.text == " b a" and math.exp(greedy.log_probability) == pytest.approx(0.6 * 0.34)
    best, second = written(HILLS, "a", method="beam", beams=2, samples=2, max_tokens=2)
    assert best.text == " c b" and math.exp(best.log_probability) == pytest.approx(0.4 * 0.9)
    assert second == greedy


def test_beams_go_on_until_as_many_have_ended():
    """After a: the end 0.5, b 0.3, c 0.2; b and c are followed by the end. Log probabilities are
    divided by the number of tokens, unless length is not to count."""
    ends = Bigrams(_NOWHERE, _NOWHERE, [0.5, 0, 0, 0.3, 0.2], _NOWHERE, _NOWHERE)
    found = written(ends, "a", method="beam", beams=3, samples=3, max_tokens=9, length_penalty=0.0)
    assert [(one.text, one.ended) for one in found] == [
        ("", "document"),
        (" b", "document"),
        (" c", "document"),
    ]
    np.testing.assert_allclose([math.exp(one.log_probability) for one in found], [0.5, 0.3, 0.2])
    found = written(ends, "a", method="beam", beams=3, samples=3, max_tokens=9, length_penalty=1.0)
    assert [one.text for one in found] == [" b", "", " c"]  # log 0.3 / 2 is above log 0.5


@pytest.mark.parametrize("method", ["sample", "greedy", "beam"])
def test_the_end_of_a_document_ends_the_text_and_special_pieces_are_never_written(method):
    made = Bigrams(_NOWHERE, _NOWHERE, [0, 0.9, 0, 0.1, 0], [1, 0, 0, 0, 0], _NOWHERE)
    (one,) = written(made, "a", method=method, max_tokens=5, beams=1)
    assert (one.text, one.tokens, one.ended) == (" b", 2, "document")
    assert one.log_probability == pytest.approx(math.log(0.1))


def test_a_seed_gives_a_text_again_whatever_stands_beside_it(either):
    (one,) = written(either, seed=3, max_tokens=12)
    first, second = written(either, seed=3, max_tokens=12, samples=2)
    (other,) = written(either, seed=4, max_tokens=12)
    assert one.text == first.text and one.log_probability == pytest.approx(first.log_probability)
    assert len({first.text, second.text, other.text}) == 3


def test_cold_samples_are_greedy(either):
    (greedy,) = written(either, method="greedy", max_tokens=10)
    for settings in (dict(top_k=1), dict(temperature=1e-4), dict(top_p=1e-6)):
        assert written(either, max_tokens=10, **settings) == [greedy]


def test_parts_make_the_whole(either):
    parts = parts_of(either, max_tokens=20, samples=3, seed=1)
    for number in range(3):
        mine = [part for part in parts if part.number == number]
        assert "".join(part.text for part in mine) == mine[-1].whole.text
        assert all(part.whole is None for part in mine[:-1]) and len(mine) > 5


@pytest.mark.parametrize("count, slots", [(5, 9), (9, 9), (10, 8), (3, 8)])
def test_no_token_is_generated_from_more_than_the_context(count, slots):
    settings = GenerationSettings(context=9, max_tokens=5)
    assert joint_generation.slots_of([2] * count, settings) == slots


@pytest.mark.parametrize("context", [10, 11])
def test_more_than_the_context_holds(either, context):
    """A long prompt is read in windows, and the oldest tokens give way."""
    prompt = " ".join([PROMPT] * 8)
    ids = either.tokenizer.ids(prompt)
    (one,) = written(either, prompt, method="greedy", max_tokens=30, context=context)
    assert one.tokens == 30 or one.ended == "document"
    asked = lambda end: () if either.is_causal else [end]
    with either.model.reading(10) as reading:
        for begin in range(0, len(ids), 5):
            end = min(begin + 5, len(ids))
            said = reading.read(np.array([ids[begin:end]]), range(begin, end), asked(end))[0, 0]
    said[never_written(either.tokenizer)] = -np.inf
    first = parts_of(either, prompt, method="greedy", max_tokens=1, context=context)[0].whole
    assert first.log_probability == pytest.approx(said.max(), abs=1e-4)


@pytest.mark.parametrize("method", ["sample", "greedy", "beam"])
def test_writing_ends_before_a_stop_text(method):
    """Wherever it stands, within a token or across some of them; nothing of it is streamed."""
    circle = Bigrams(_NOWHERE, _NOWHERE, [0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 1, 0, 0])
    for stop, text in (
        ("c", " b "),
        (" c a b", " b"),
        ("a", " b c "),
        ('["a b", "c a"]', " b "),
        (" b", ""),
    ):
        parts = parts_of(circle, "a", method=method, max_tokens=7, stop=stop, beams=1)
        whole = parts[-1].whole
        assert (whole.text, whole.ended) == (text, "stop")
        assert "".join(part.text for part in parts) == text
    (never,) = written(circle, "a", method=method, max_tokens=5, stop="c b", beams=1)
    assert (never.text, never.ended) == (" b c a b c", "length")


def streamed(made, prompt, **settings):
    settings = GenerationSettings(**settings)
    return generation.write(made.model, made.tokenizer, prompt, settings)


def test_a_half_read_text_is_in_nobody_s_way(either):
    """Not in that of the same thread, of another one, or of another text that is half read, too."""
    settings = dict(max_tokens=6, samples=2, seed=1)
    prompts = (PROMPT, "a dog sat on the mat")  # of other sizes
    alone = [parts_of(either, prompt, **settings) for prompt in prompts]
    first, second = (streamed(either, prompt, **settings) for prompt in prompts)
    found = [[next(first)], [next(second)]]
    dropped = streamed(either, PROMPT, **settings)
    next(dropped)
    del dropped
    texts = [part.whole.text for part in alone[0] if part.whole]
    assert [one.text for one in written(either, **settings)] == texts
    with concurrent.futures.ThreadPoolExecutor(1) as other:
        assert other.submit(written, either, **settings).result(timeout=60)
        found[0].append(other.submit(next, first).result(timeout=60))
    for part in second:
        found[1].append(part)
        found[0] += [part for part in [next(first, None)] if part]
    found[0] += first
    for ours, theirs in zip(found, alone):  # side by side with others: equal up to rounding
        assert [(part.number, part.text) for part in ours] == [
            (part.number, part.text) for part in theirs
        ]
        np.testing.assert_allclose(
            [part.probability for part in ours],
            [part.probability for part in theirs],
            rtol=1e-4,
        )
    assert either.model.joint_generation._reading is None


def test_texts_of_several_threads_are_one_batch(either, monkeypatch):
    """Twenty clients generated fewer tokens a second together than one after the other."""
    prompts = [PROMPT, "two", "a dog sat", "the mat"] * 2
    settings = GenerationSettings(method="greedy", max_tokens=12)
    alone = [written(either, prompt, method="greedy", max_tokens=12)[0].text for prompt in prompts]
    sizes, read = [], JointGeneration._read

    def counted(self, ids, **how):
        sizes.append(len(ids))
        return read(self, ids, **how)

    monkeypatch.setattr(JointGeneration, "_read", counted)
    barrier = threading.Barrier(len(prompts))

    def client(prompt):
        barrier.wait()
        return generation.write_all(either.model, either.tokenizer, [prompt], settings)

    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        together = list(pool.map(client, prompts))
    assert [texts[0][0].text for texts in together] == alone
    assert max(sizes) > len(prompts) // 2 and len(sizes) < 6 * 12


def test_a_text_that_joins_later_gets_what_it_gets_alone(either):
    """With a longer prompt than the texts that run, and more slots than they have."""
    prompts = ["two", " ".join([PROMPT] * 4), "the mat"]
    settings = dict(method="greedy", max_tokens=30)
    alone = [parts_of(either, prompt, **settings) for prompt in prompts]
    streams = [streamed(either, prompt, **settings) for prompt in prompts]
    found = [[], [], []]
    for step in range(40):
        for number, stream in enumerate(streams):
            if step >= 5 * number:  # each begins when the one before has some tokens
                found[number] += [part for part in [next(stream, None)] if part]
    for ours, theirs in zip(found, alone):
        assert "".join(part.text for part in ours) == "".join(part.text for part in theirs)


def test_texts_of_a_list_end_at_different_steps():
    circle = Bigrams(_NOWHERE, _NOWHERE, [0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 1, 0, 0])
    settings = GenerationSettings(method="greedy", max_tokens=9, stop="c")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        found = pool.submit(generation.write_all, circle, circle, ["a", "b", "c"], settings)
        texts = [one.text for (one,) in found.result(timeout=60)]
    assert texts == [" b ", " ", " a b "]


def test_a_step_that_fails_ends_the_texts_that_are_in_it_and_no_other(either, monkeypatch):
    def fails(self, ids, **how):
        raise RuntimeError("no memory")

    stream = streamed(either, PROMPT, max_tokens=5, seed=1)
    next(stream)
    with monkeypatch.context() as patch:
        patch.setattr(JointGeneration, "_read", fails)
        with pytest.raises(RuntimeError, match="no memory"):
            list(stream)
    assert written(either, max_tokens=5, seed=1)[0].tokens


def test_a_choice_that_fails_ends_its_own_text_alone(either, monkeypatch):
    settings = dict(method="greedy", max_tokens=9)
    alone = written(either, "two", **settings)
    bad, good = (streamed(either, prompt, **settings) for prompt in (PROMPT, "two"))
    next(bad)
    parts = [next(good)]
    adjusted = generation._adjusted

    def fails(log_probabilities, writing, *others):
        if writing.ids[0] == either.tokenizer.ids(PROMPT)[0]:
            raise FloatingPointError("no number")
        return adjusted(log_probabilities, writing, *others)

    monkeypatch.setattr(generation, "_adjusted", fails)
    with pytest.raises(FloatingPointError, match="no number"):
        list(bad)
    parts += good
    assert parts[-1].whole.text == alone[0].text


def test_outputs_that_are_not_finite_are_an_error_of_their_own_prompt(permuted, monkeypatch):
    adjusted = generation._adjusted

    def fails(log_probabilities, writing, *others):
        if writing.ids[0] == permuted.tokenizer.ids(PROMPT)[0]:
            raise NotFinite("not finite")
        return adjusted(log_probabilities, writing, *others)

    settings = dict(method="greedy", max_tokens=5)
    with xlnet.load(permuted.folder, device="cpu") as model:
        alone = model.generate(["two", "dogs"], **settings)
        monkeypatch.setattr(generation, "_adjusted", fails)
        found = model.generate(["two", PROMPT, "dogs"], errors="return", **settings)
        assert [found[0].text, found[2].text] == [one.text for one in alone]
        assert isinstance(found[1], NotFinite)
        with pytest.raises(UserError, match="^text 1: not finite$"):
            model.generate(["two", PROMPT, "dogs"], **settings)


def test_an_interrupt_ends_all_texts_of_its_step(either, monkeypatch):
    """The others went on from the numbers of the step before: another text, without a word."""

    def interrupted(self, ids, **how):
        raise KeyboardInterrupt

    ours, theirs = (streamed(either, prompt, max_tokens=9, seed=1) for prompt in (PROMPT, "two"))
    next(ours)
    next(theirs)
    with monkeypatch.context() as patch:
        patch.setattr(JointGeneration, "_read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(ours)
    with pytest.raises(RuntimeError, match="interrupted"):
        list(theirs)
    assert written(either, max_tokens=5, seed=1)[0].tokens


def test_nothing_is_kept_for_texts_that_were_left(either):
    """Their keys and values stayed until somebody generated the next text."""
    stream = streamed(either, PROMPT, max_tokens=50, seed=1)
    next(stream)
    joint = either.model.joint_generation
    assert joint._reading is not None
    stream.close()
    assert joint._reading is None and not joint._running


def test_a_long_prompt_does_not_multiply_the_cost_of_short_ones(either, monkeypatch):
    """One of 2,800 tokens with 31 of two tokens was read as 32 of 2,800."""
    prompts = ["two", " ".join([PROMPT] * 6), *["a dog", "two"] * 5]
    settings = GenerationSettings(method="greedy", max_tokens=9)
    alone = [written(either, prompt, method="greedy", max_tokens=9)[0].text for prompt in prompts]
    read = JointGeneration._read
    found = []  # texts that run, their slots, texts that are read, their tokens

    def counted(self, ids, **how):
        texts = sum(each.copies for each in self._running)
        slots = texts * max(each.slots for each in self._running)
        found.append((texts, slots, len(ids), ids.size))
        return read(self, ids, **how)

    monkeypatch.setattr(JointGeneration, "_read", counted)
    monkeypatch.setattr(joint_generation, "_MOST_TOKENS", 60)
    monkeypatch.setattr(joint_generation, "_MOST_SLOTS", 300)
    together = generation.write_all(either.model, either.tokenizer, prompts, settings)
    assert [texts[0].text for texts in together] == alone
    for texts, slots, count, tokens in found:
        assert texts == 1 or slots <= 300
        assert count == 1 or tokens <= 60
    assert max(texts for texts, *_ in found) > 5


def test_a_long_text_that_ends_takes_its_slots_with_it(either):
    """All texts that joined while others ran had as many as the longest one ever had."""
    long_prompt = " ".join([PROMPT] * 50)
    settings = dict(method="greedy", max_tokens=40)
    alone = [parts_of(either, prompt, **settings) for prompt in ("two", "a dog")]
    first = streamed(either, "two", **settings)
    found = [[next(first)], []]
    list(streamed(either, long_prompt, method="greedy", max_tokens=3))
    joint = either.model.joint_generation
    slots = joint._reading.size
    second = streamed(either, "a dog", **settings)
    found[1].append(next(second))
    assert joint._reading.size < slots / 2
    found[0] += first
    found[1] += second
    for ours, theirs in zip(found, alone):
        assert [part.text for part in ours] == [part.text for part in theirs]
        np.testing.assert_allclose(
            [part.probability for part in ours], [part.probability for part in theirs], rtol=1e-4
        )


@pytest.mark.parametrize(
    "settings",
    [
        dict(max_tokens=9, samples=2, seed=3),
        dict(max_tokens=5, method="greedy", context=12),
        dict(max_tokens=7, method="beam", beams=3, samples=2),
        dict(max_tokens=8, seed=1, context=8),
    ],
)
def test_prompts_of_a_batch_get_what_each_gets_alone(either, settings):
    """Of any length, and the oldest tokens give way; long prompts are read in windows."""
    prompts = [PROMPT, "", "two", " ".join([PROMPT] * 4), "a dog sat", "the mat"]
    alone = [written(either, prompt, **settings) for prompt in prompts]
    together = generation.write_all(
        either.model, either.tokenizer, prompts, GenerationSettings(**settings)
    )
    assert len(together) == len(alone)
    for ours, theirs in zip(together, alone):
        assert [one.text for one in ours] == [one.text for one in theirs]
        np.testing.assert_allclose(
            [one.log_probability for one in ours],
            [one.log_probability for one in theirs],
            rtol=1e-4,
        )


def test_without_a_seed_every_text_is_another_one(causal):
    texts = {one.text for _ in range(3) for one in written(causal, max_tokens=12, samples=2)}
    assert len(texts) == 6


class Bytes:
    """A vocabulary with pieces that are bytes, as far as texts are made of it."""

    byte_ids, eod_id, eop_id = (1, 2, 3, 4), 5, 6
    is_special = np.array([True, False, False, False, False, True, True, False, False])
    pieces = ["<unk>", "<0xE2>", "<0x82>", "<0xAC>", "<0xC3>", "<eod>", "<eop>", "▁of", "e"]

    def id_to_piece(self, id):
        return self.pieces[id]


def test_characters_made_of_bytes_and_ends_of_paragraphs():
    def text_of(ids, stops=()):
        text = generation._Text(generation._Pieces(Bytes()), stops)
        return [text.add(id) for id in ids], text.rest()

    assert text_of([1, 2, 3, 7]) == (["", "", "€", " of"], "")
    assert text_of([1, 2, 8]) == (["", "", "�e"], "") and text_of([1, 2]) == (["", ""], "�")
    assert text_of([8, 6, 7, 7]) == (["e", "\n", "of", " of"], "")
    assert text_of([6, 1, 2, 3, 7]) == (["\n", "", "", "€", " of"], "")
    assert text_of([6, 1, 7]) == (["\n", "", "� of"], "")
    assert text_of([7, 8, 7, 7, 8], stops=(" ofe of e",)) == (["", "", "", " ofe of", ""], " ofe")


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(stop="[1]"), r"stop is '\[1\]', expected texts that are not empty"),
        (dict(stop='["a'), "expected a text or a JSON list of texts"),
        (dict(stop=""), "expected texts that are not empty"),
        (dict(method="greedy", samples=2), "samples is 2, but method=greedy writes one text"),
        (dict(method="beam", samples=5), "samples is 5, expected at most beams, 4"),
        (dict(temperature=0.0), "temperature is 0.0, expected 0 < temperature"),
        (dict(temperature=10**400), "temperature is 10+, expected"),
        (dict(length_penalty=500.0), "length_penalty is 500.0, expected"),
        (dict(context=10**30), "context is 10+, expected"),
        (dict(top_p=1.5), "top_p is 1.5, expected 0 < top_p <= 1"),
        (dict(repetition_penalty=1e-46), "repetition_penalty is 1e-46, expected 0.01 <= rep"),
        (dict(method="gready"), "did you mean 'greedy'"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(UserError, match=message):
        GenerationSettings(**settings).check()


# ---- names and settings of other libraries


def test_names_of_other_libraries():
    def made(**values):
        return from_keywords(GenerationSettings, values, "generate")

    assert made(max_new_tokens=7, min_new_tokens=2, num_return_sequences=3) == GenerationSettings(
        max_tokens=7, min_tokens=2, samples=3
    )
    for values, said in (
        (dict(do_sample=False), "no 'do_sample'"),
        (dict(max_tokens=3, max_new_tokens=3), "max_new_tokens and max_tokens are one setting"),
        (dict(min_tokens=5, max_tokens=4), "min_tokens is 5, expected at most max_tokens, 4"),
    ):
        with pytest.raises(UserError, match=said):
            made(**values)


@pytest.mark.parametrize("method", ["sample", "greedy", "beam"])
def test_no_document_ends_before_so_many_tokens(method):
    ends = Bigrams(_NOWHERE, _NOWHERE, [0.9, 0, 0.1, 0, 0], _NOWHERE, _NOWHERE)
    for least in range(4):
        (one,) = written(ends, "a", method=method, beams=1, top_k=1, max_tokens=9, min_tokens=least)
        assert (one.text, one.ended) == (" a" * least, "document")


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_repetition_is_penalized_as_a_factor_of_log_probabilities(method):
    """Of b 0.5, which is there already, and c 0.3: log 0.5 x 2 is below log 0.3, x 1.5 is not. The
    log probability of the text is that of the model."""
    table = Bigrams(_NOWHERE, _NOWHERE, [0, 0, 0.2, 0.5, 0.3], [0, 0, 0, 0.5, 0.5], _NOWHERE)
    for penalty, text, probability in ((1.0, " b", 0.5), (1.5, " b", 0.5), (2.0, " c", 0.3)):
        (one,) = written(
            table, "b a", method=method, beams=1, max_tokens=1, repetition_penalty=penalty
        )
        assert one.text == text and math.exp(one.log_probability) == pytest.approx(probability)


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_no_ngram_occurs_twice(method):
    """After a comes b at 0.6, c at 0.4; after b and c comes a."""
    table = Bigrams(
        _NOWHERE, _NOWHERE, [0.01, 0, 0, 0.59, 0.4], [0.01, 0, 0.99, 0, 0], [0.01, 0, 0.99, 0, 0]
    )
    for size, text in ((0, " b a b a b a"), (2, " b a c a"), (1, " b")):
        (one,) = written(
            table, "a", method=method, beams=1, max_tokens=6, no_repeat_ngram_size=size
        )
        assert one.text == text
    (one,) = written(table, "a b a", method=method, beams=1, max_tokens=1, no_repeat_ngram_size=2)
    assert one.text == " c"  # those of the prompt count


def test_a_part_has_the_probability_of_its_token():
    table = Bigrams(_NOWHERE, _NOWHERE, [0, 0, 0, 0.6, 0.4], [0, 0, 1, 0, 0], _NOWHERE)
    parts = parts_of(table, "a", method="greedy", max_tokens=2)
    assert [part.probability for part in parts] == pytest.approx([0.6, 1])
    assert parts_of(table, "a", method="beam", max_tokens=2)[0].probability is None


def test_a_long_stop_text_costs_no_more_than_a_short_one():
    """A request with one of a million characters kept a core busy for hours."""

    class Watched(str):
        sizes = 0

        def __getitem__(self, key):
            Watched.sizes += 1
            return super().__getitem__(key)

    made = Bigrams(*[_NOWHERE] * 2, *[[0, 0, 1, 0, 0]] * 3)
    text = generation._Text(generation._Pieces(made), (Watched(" a" * 500 + "b"),))
    assert "".join(text.add(2) for _ in range(5)) == "" and Watched.sizes <= 2 + 4 + 6 + 8 + 10
    for stop in ("x" * 1001, json.dumps(["x"] * 65)):
        with pytest.raises(UserError, match="at most 64 texts of at most 1000 characters"):
            GenerationSettings(stop=stop).check()
