"""Pieces know their characters: laws over texts of many scripts."""

import numpy as np
import pytest
import sentencepiece
from helpers.vocabulary import ODD_MODELS, ODD_TEXTS, odd_mixtures, train_odd_model

from xlnet.corpus.offsets import align, piece_span
from xlnet.corpus.tokenizer import WORD_START, Tokenizer, _split_digit_comma


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        name: train_odd_model(folder / (name + ".model"), name) for name in ODD_MODELS
    }


def normalized(tokenizer, text):
    return tokenizer._model.normalize(tokenizer.clean(text))


@pytest.mark.parametrize("uncased", (False, True))
@pytest.mark.parametrize("keep_accents", (False, True))
@pytest.mark.parametrize("name", ODD_MODELS)
def test_laws_of_offsets(models, name, uncased, keep_accents):
    tokenizer = Tokenizer(models[name], uncased, keep_accents)
    texts = [*ODD_TEXTS, *odd_mixtures(30)]
    for text, ids in zip(texts, tokenizer.encode_lines(texts)):
        aligned = align(tokenizer, text)
        assert aligned.ids.tolist() == ids
        starts, ends = aligned.starts, aligned.ends
        assert (np.diff(starts) >= 0).all() and (np.diff(ends) >= 0).all(), text
        assert (starts <= ends).all()
        assert min(starts, default=0) >= 0 and max(ends, default=0) <= len(text)
        covered = set()
        for start, end in zip(starts, ends):
            covered.update(range(start, end))
        for place, character in enumerate(text):
            # Or cleaning and normalization leave nothing of it by itself.
            alone = normalized(tokenizer, character).replace(WORD_START, "")
            assert place in covered or not alone, (text, place)
        check_pieces(tokenizer, text, aligned)
        check_spans(aligned, sorted(covered))


def pieces_of(tokenizer, text):
    """The pieces of a text, in which unknown characters are as they are."""
    model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_bytes)
    pieces = []
    for piece in model.encode(tokenizer.clean(text), out_type=str):
        if model.piece_to_id(piece) in tokenizer.split_ids:
            pieces += _split_digit_comma(tokenizer._processor_with(True), piece)
        else:
            pieces.append(piece)
    return pieces


def check_pieces(tokenizer, text, aligned):
    """What a piece stands for becomes this piece again, where its borders are characters'."""
    pieces = pieces_of(tokenizer, text)
    before = np.append(0, aligned.ends[:-1])
    after = np.append(aligned.starts[1:], len(text))
    for piece, id, start, end, low, high in zip(
        pieces, aligned.ids.tolist(), aligned.starts, aligned.ends, before, after
    ):
        if start < low or end > high or id in tokenizer.byte_ids:
            continue  # shares a character with a neighbour
        again = normalized(tokenizer, text[start:end])
        # Alone, a sigma is no last letter of a word, and a quotation mark no half of two.
        if "Σ" not in text and "'" not in text and "`" not in text:
            expected = piece.strip(WORD_START)
            assert again.strip(WORD_START) == expected, (text, start, end)


def check_spans(aligned, covered):
    """The pieces of characters, such as an answer's, are the fewest that have all of them."""
    for first_character, last_character in zip(covered, covered[3:]):
        first, last = piece_span(aligned, first_character, last_character + 1)
        assert aligned.starts[first] <= first_character < aligned.ends[first]
        assert aligned.starts[last] <= last_character < aligned.ends[last]


def test_worked_cases(models):
    text = "It  cost\u00a03,000 at the Cafe\u0301."
    tokenizer = Tokenizer(models["all"])
    aligned = align(tokenizer, text)
    for wanted in ("cost", "3,000", "Cafe\u0301"):
        start = text.index(wanted)
        first, last = piece_span(aligned, start, start + len(wanted))
        assert text[aligned.starts[first] : aligned.ends[last]].startswith(wanted)
    first, last = piece_span(aligned, 2, 4)  # two spaces
    assert first == last + 1
    # A piece with a comma after digits is cut where the comma stands.
    aligned = align(tokenizer, "a 3, b")
    pieces = [tokenizer.id_to_piece(id) for id in aligned.ids.tolist()]
    comma = pieces.index(",")
    assert (aligned.starts[comma], aligned.ends[comma]) == (3, 4)
