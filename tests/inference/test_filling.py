"""Fillings and their probabilities are those of the product of conditionals, by brute force."""

import functools
import itertools

import numpy as np
import pytest
from helpers.language_model import Pretrained, hidden_in_order
from helpers.vocabulary import train_odd_model, train_tiny_model

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.inference import filling
from xlnet.support.errors import UserError

TEXT = "the cat ___ on ___ mat"


def blanks_of(tokenizer, text):
    return filling.Blanks(filling.BlankPieces(tokenizer), text, most_pieces=1)


def conditionals(made, order):
    """Log p of each pair of pieces at the two blanks of TEXT, in an order of blanks: [V,V], by a
    forward pass with an explicit mask for each piece of the first blank of the order."""
    parts = made.tokenizer.encode_words(["the cat", "on", "mat"], [True] * 3)
    places = [len(parts[0]), len(parts[0]) + 1 + len(parts[1])]
    ids = np.array([*parts[0], 0, *parts[1], 0, *parts[2]])
    hidden = hidden_in_order(len(ids), [places[blank] for blank in order])
    first, second = (places[blank] for blank in order)
    table = []
    for piece in range(made.tokenizer.vocab_size):
        ids[first] = piece
        said = made.at_once(ids, hidden, [first, second])
        table.append(said[0, piece] + said[1])
    return np.array(table) if order[0] == 0 else np.array(table).T


def best_words(made, table, count):
    """The best pairs of pieces that are words, with their log probabilities."""
    pieces = [made.tokenizer.id_to_piece(id) for id in range(made.tokenizer.vocab_size)]
    is_other = made.tokenizer.is_special | made.tokenizer.stands_alone
    words = []
    for id, piece in enumerate(pieces):
        if piece.startswith("▁") and len(piece) > 1 and not is_other[id]:
            words.append(id)
    assert len(words) > 15
    pairs = sorted(itertools.product(words, words), key=lambda pair: -table[pair])
    best = pairs[:count]
    found = [((pieces[first],), (pieces[second],)) for first, second in best]
    return found, [table[pair] for pair in best]


@pytest.mark.parametrize("has_prefix", (True, False))
def test_a_text_around_blanks_has_the_pieces_of_the_text(tmp_path, has_prefix):
    """Whether or not the vocabulary marks the first word of a text."""
    path = train_tiny_model(tmp_path / "tiny.model", add_dummy_prefix=has_prefix)
    tokenizer = Tokenizer(path)
    for text in ("the ___ sat on a mat", "___ sat on a mat", "on a ___"):
        blanks = blanks_of(tokenizer, text)
        begins_word = has_prefix or not text.startswith("___")
        (word,) = tokenizer.encode_words(["cat"], [begins_word])
        ids = blanks.layout([len(word)])
        ids[ids < 0] = word
        assert ids.tolist() == tokenizer.ids(text.replace("___", "cat"))
        assert blanks.is_allowed([len(word)])[0, word[0]]


def test_the_joint_probability_is_the_product_of_conditionals(permuted):
    tables = {
        "left_to_right": conditionals(permuted, [0, 1]),
        "right_to_left": conditionals(permuted, [1, 0]),
    }
    # Orders do not agree, or the test would show nothing.
    assert np.abs(np.subtract(*tables.values())).max() > 0.1
    for order, table in tables.items():
        settings = dict(most_pieces=1, order=order, top=7, beams=80)
        found = permuted.loaded.fill(TEXT, **settings)
        pieces, expected = best_words(permuted, table, 7)
        assert [one.pieces for one in found] == pieces
        logs = [one.log_probability for one in found]
        np.testing.assert_allclose(logs, expected, atol=1e-4)
        probabilities = [one.probability for one in found]
        np.testing.assert_allclose(probabilities, np.exp(logs))


def test_words_of_several_pieces_stand_where_the_blanks_were(permuted):
    found = permuted.loaded.fill("the ___, or ___", most_pieces=3, top=400, beams=400)
    assert {len(pieces) for one in found for pieces in one.pieces} == {1, 2, 3}
    for one in found:
        assert one.text == "the {}, or {}".format(*one.words)
        for word, pieces in zip(one.words, one.pieces):
            assert pieces[0].startswith("▁") and word == "".join(pieces)[1:]
            assert not any(piece.startswith("▁") for piece in pieces[1:])
    logs = [one.log_probability for one in found]
    assert logs == sorted(logs, reverse=True)


def test_as_many_fillings_are_followed_as_are_wanted(permuted):
    wide = permuted.loaded.fill("the ___ sat", most_pieces=1, top=12)
    assert len(wide) == 12
    narrow = permuted.loaded.fill("the ___ sat", most_pieces=1, top=12, beams=3)
    assert narrow == wide


def test_a_blank_within_a_word_is_no_word_of_its_own(permuted):
    found = permuted.loaded.fill("the h___s", most_pieces=1)
    assert found
    for one in found:
        assert not one.pieces[0][0].startswith("▁") and " " not in one.text[4:]


def test_words_of_a_vocabulary_of_characters(tmp_path):
    """A word begins with the mark of a space alone, and has at least one more piece."""
    train = functools.partial(train_odd_model, name="characters")
    fill = Pretrained(tmp_path, is_causal=False, train=train).loaded.fill
    found = fill("the ___ sat", most_pieces=2, top=50)
    assert all(one.pieces[0][0] == "▁" and one.pieces[0][1].strip("▁") for one in found)
    assert len({one.text for one in found}) == 50
    found = fill("the___", most_pieces=2, top=50)
    assert {len(one.pieces[0]) for one in found} == {1, 2}


@pytest.mark.parametrize(
    "before, after, kept",
    [(40, 40, (6, 6)), (0, 40, (0, 12)), (40, 2, (10, 2)), (4, 5, (4, 5))],
)
def test_of_a_long_text_the_tokens_around_the_blank_are_read(
    permuted, before, after, kept, monkeypatch
):
    """The others stay in the text that is returned."""

    def text(left, right):
        return "the " * left + "___" + " the" * right

    short = permuted.loaded.fill(text(*kept), most_pieces=1, top=3)
    monkeypatch.setattr(filling, "CONTEXT", 12)
    blanks = blanks_of(permuted.tokenizer, text(before, after))
    assert (blanks.tokens_read, blanks.tokens) == (sum(kept), before + after)
    long = permuted.loaded.fill(text(before, after), most_pieces=1, top=3)
    assert [one.words for one in long] == [one.words for one in short]
    logs = [[one.log_probability for one in found] for found in (long, short)]
    np.testing.assert_allclose(*logs, rtol=1e-6)
    assert long[0].text == text(before, after).replace("___", long[0].words[0])
    with pytest.raises(UserError, match="blanks that are 20 tokens apart, expected at"):
        blanks_of(permuted.tokenizer, "a ___ %s ___" % ("the " * 20))


@pytest.mark.parametrize(
    "text, settings, message",
    [
        ("no\nblank", {}, "text: found 'no blank', expected one with a blank, ___"),
        ("___ ___", {}, "expected more than blanks"),
        ("the" + " ___" * 5, {}, "5 blanks of up to 3 pieces, expected at most 64"),
        (TEXT, dict(most_pieces=65), "most_pieces: found 65, expected at least 1 and"),
    ],
)
def test_wrong_input_is_named_in_a_line(permuted, text, settings, message):
    with pytest.raises(UserError, match=message) as raised:
        permuted.loaded.fill(text, **settings)
    assert "\n" not in str(raised.value)


def test_a_causal_model_cannot_fill_in(causal):
    with pytest.raises(UserError, match="objective=causal, which can only generate"):
        causal.loaded.fill(TEXT)
