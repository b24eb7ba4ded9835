"""Cleaning and pieces: equal to the reference's with the released model, lawful with any."""

import functools
import itertools
import json
import pathlib
import unicodedata

import numpy as np
import pytest
import sentencepiece
from helpers.paths import GOLDEN, SPIECE
from helpers.vocabulary import CONTROL, WORDS, train, train_tiny_model

import xlnet
from xlnet.corpus import tokenizer
from xlnet.corpus.tokenizer import Tokenizer, preprocess_text
from xlnet.support.errors import UserError

CASES = json.loads((GOLDEN / "tokenization.json").read_text("utf-8"))


@functools.cache
def plain(tokenizer):
    """The SentencePiece model of a `Tokenizer`."""
    return sentencepiece.SentencePieceProcessor(model_file=tokenizer.path)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return Tokenizer(train_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny.model"))


@pytest.fixture(scope="module")
def released():
    if not SPIECE.exists():
        pytest.skip("the released SentencePiece model is not there")
    return {lower: Tokenizer(str(SPIECE), uncased=lower) for lower in (False, True)}


def test_golden_cleaning():
    assert len(CASES) == 84
    for case in CASES:
        cleaned = xlnet.preprocess_text(case["text"], lower=case["lower"])
        assert cleaned == case["preprocessed"], case


def test_golden_pieces_and_ids(released):
    for case in CASES:
        model = released[case["lower"]]
        assert model.ids(case["text"]) == case["ids"], case
        found = xlnet.encode_ids(plain(model), case["preprocessed"])
        assert found == case["ids"], case


def test_the_originals_other_arguments(tiny):
    assert preprocess_text(" é  a", remove_space=False, keep_accents=True) == " é  a"
    sampled = set()
    for _ in range(30):
        sampled.add(tuple(xlnet.encode_ids(plain(tiny), "the old houses", sample=True)))
    assert len(sampled) > 1


# What may go wrong where lines are joined: blanks, quotes, marks, letters that depend on others.
ODD = list(
    "aZé13,.`'\"<> \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2003\u2028\u3000\u0301\u0308\u0327"
    "\u3099ÅßŒﬁ…¨ΑΣσİıが가각ｶﾞ１，漢字กี\u2581\ufeff\U0001d400\U0001f600\U0001d165"
)
ODD += ["``", "''", "  "]


def odd_lines(count, seed):
    rng = np.random.RandomState(seed)
    return ["".join(rng.choice(ODD, rng.randint(0, 12))) for _ in range(count)]


def plainly_cleaned(text, lower, keep_accents):
    """The rules once more, character by character."""
    text = " ".join(text.split()).replace("``", '"').replace("''", '"')
    if not keep_accents:
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in decomposed if not unicodedata.combining(c))
    return text.lower() if lower else text


@pytest.mark.parametrize("lower, keep_accents", [(False, True), (True, False)])
def test_every_character_is_cleaned_by_the_rule(lower, keep_accents):
    settings = dict(lower=lower, keep_accents=keep_accents)
    every = [chr(c) for c in itertools.chain(range(0x20000), range(0xE0000, 0xE0200))]
    for line in every + odd_lines(700, 0):
        assert preprocess_text(line, **settings) == plainly_cleaned(line, **settings)


def test_ids_as_array_are_those_of_each_line(tiny):
    assert tiny.split_ids
    for seed in range(30):
        lines = odd_lines(40, seed) + ["13, 3, a3,"] * (seed % 3) + ["3,", "", "3,3,"]
        cleaned = map(preprocess_text, lines)
        expected = [xlnet.encode_ids(plain(tiny), line) for line in cleaned]
        ids, lengths = tiny.encode_to_array(lines)
        assert ids.dtype == np.int32 and lengths.dtype == np.int64
        assert lengths.tolist() == list(map(len, expected))
        assert ids.tolist() == sum(expected, [])
        assert tiny.encode_lines(lines) == expected
    many = odd_lines(2001, 1)
    assert tiny.encode_lines(many) == [tiny.ids(line) for line in many]
    assert [array.shape for array in tiny.encode_to_array([])] == [(0,)] * 2
    assert tiny.encode_lines([]) == []


def test_half_a_character_is_refused(tiny):
    with pytest.raises(UserError, match="the text: found 'a.ud83d', expected no half"):
        tiny.encode_lines(["whole", "a\ud83d"])


def test_cleaning_goes_with_the_model(tiny, tmp_path):
    path, copy = str(tmp_path / "sp.model"), str(tmp_path / "kept" / "spiece.model")
    assert not (Tokenizer(tiny.path).uncased or Tokenizer(tiny.path).keep_accents)
    Tokenizer(tiny.path, uncased=True, keep_accents=True).save(path)
    Tokenizer(path).save(copy)
    t = Tokenizer(copy)
    assert t.uncased and t.keep_accents and t.sha256 == tiny.sha256
    assert t.clean("ÄRA") == "ära" != tiny.clean("ÄRA") == "ARA"
    assert Tokenizer(copy, uncased=True).uncased


def test_cleaning_that_contradicts_is_refused(tiny, tmp_path):
    path, other = str(tmp_path / "a.model"), str(tmp_path / "b.model")
    Tokenizer(tiny.path, keep_accents=True).save(path)
    Tokenizer(tiny.path).save(other)
    with pytest.raises(UserError) as e:
        Tokenizer(path, keep_accents=False)
    for said in ("keep_accents: found False, expected True", path):
        assert said in str(e.value) and "\n" not in str(e.value)
    train_tiny_model(other, user_defined=())
    with pytest.raises(UserError, match="b.model.json: found the description of anoth"):
        Tokenizer(other)
    stored = json.loads(pathlib.Path(path + ".json").read_text())
    pathlib.Path(path + ".json").write_text(json.dumps(dict(stored, uncased="no")))
    with pytest.raises(UserError, match="expected true or false for uncased, keep_acc"):
        Tokenizer(path)


def test_special_pieces_are_not_found_in_text(tiny):
    ids = tiny.ids("the <sep> cat <cls> <pad> <mask> <eod>")
    assert not tiny.is_special[[id for id in ids if id != tiny.unk_id]].any()
    assert tiny.decode([tiny.sep_id]) == ""
    assert tiny.eop_id in tiny.ids("the cat <eop>")


def test_word_starts(tiny):
    assert tiny.is_word_start.dtype == bool
    pieces = [tiny.id_to_piece(id) for id in range(tiny.vocab_size)]
    expected = []
    for piece, stands_alone in zip(pieces, tiny.stands_alone):
        is_special = piece in CONTROL + ["<unk>", "<s>", "</s>", "<eop>"]
        is_marked = piece.startswith(tokenizer.WORD_START)
        expected.append(is_special or is_marked or stands_alone)
    assert tiny.is_word_start.tolist() == expected and "▁" in pieces


def test_a_file_that_is_not_a_vocabulary_is_named(tmp_path):
    (tmp_path / "text").write_bytes(b"hello\n")
    (tmp_path / "nothing").write_bytes(b"")
    (tmp_path / "zeros").write_bytes(bytes(100))
    train_tiny_model(tmp_path / "other", ["<sep>", "<pad>"], ())
    train_tiny_model(tmp_path / "suffix", treat_whitespace_as_suffix=True)
    for name, message in (
        ("text", "found no SentencePiece model"),
        ("zeros", "found no SentencePiece"),
        ("nothing", "found no SentencePiece model"),
        ("none", "no such file"),
        ("other", "found no <cls>, <eod>, expected"),
        ("suffix", "found marks .*treat_whitespace_as_suffix"),
    ):
        with pytest.raises(UserError, match=message) as e:
            Tokenizer(str(tmp_path / name))
        assert str(tmp_path / name) in str(e.value) and "\n" not in str(e.value)


# --- Words


def test_words_after_a_space_have_its_mark_in_any_vocabulary(tmp_path):
    """Also where the first word of a text has none (add_dummy_prefix=false)."""
    sentences = ["a " + " ".join(WORDS) + " 2010, 2010, 2010,"] * 300
    how = dict(hard_vocab_limit=False, add_dummy_prefix=False)
    made = Tokenizer(train(tmp_path / "v.model", sentences, 90, **how))
    assert not made.marks_first_word and made.ids("the")[0] != made.ids("a the")[1]
    words = ["the", "cat", "sat"]
    ids = made.encode_words(words, [False, True, True])
    assert sum(ids, []) == made.ids("the cat sat")
    assert made.encode_words(["the"], [True])[0] == made.ids("a the")[1:]
    # The rule for commas keeps the mark, too.
    assert made.split_ids
    for id, parts in made.split_ids.items():
        assert "".join(map(made.id_to_piece, parts)) == made.id_to_piece(id)


def test_of_a_word_that_cleaning_takes_away_there_is_unk(tiny):
    assert tiny.encode_words(["\u0301", " "], [True, False]) == [[tiny.unk_id]] * 2
