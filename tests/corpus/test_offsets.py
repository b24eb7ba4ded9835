"""Pieces know their characters: laws over texts of many scripts, and every shared question."""

import json

import numpy as np
import pytest
import sentencepiece
from helpers.paths import DATA, SPIECE
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


@pytest.mark.parametrize(
    "uncased, keep_accents",
    ((False, False), (True, False), (False, True), (True, True)),
)
@pytest.mark.parametrize("name", ODD_MODELS)
def test_laws_of_offsets(models, name, uncased, keep_accents):
    tokenizer = Tokenizer(models[name], uncased, keep_accents)
    texts = [*ODD_TEXTS, *odd_mixtures(30)]
    for text, ids in zip(texts, tokenizer.encode_lines(texts)):
        aligned = align(tokenizer, text)
        assert aligned.ids.tolist() == ids
        starts, ends = aligned.starts, aligned.ends
        assert (np.diff(starts) >= 0).all() and (np.diff(ends) >= 0).all(), text
        assert (
            (starts <= ends).all() and (starts >= 0).all() and (ends <= len(text)).all()
        )
        covered = {
            place for start, end in zip(starts, ends) for place in range(start, end)
        }
        for place, character in enumerate(text):
            # Or cleaning and normalization leave nothing of it by itself.
            alone = normalized(tokenizer, character).replace(WORD_START, "")
            assert place in covered or not alone, (text, place)
        check_pieces(tokenizer, text, aligned)


def pieces_of(tokenizer, text):
    """The pieces of a text, in which unknown characters are as they are."""
    model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_bytes)
    pieces = []
    for piece in model.encode(tokenizer.clean(text), out_type=str):
        if model.piece_to_id(piece) in tokenizer.split_ids:
            pieces += _split_digit_comma(tokenizer._model_with(True), piece)
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
            assert again.strip(WORD_START) == piece.strip(WORD_START), (
                text,
                piece,
                start,
                end,
            )


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


FILES = (
    [
        *sorted((DATA / "squad").glob("*.json")),
        *sorted((DATA / "cmrc2018").glob("*.json")),
    ]
    if SPIECE.exists()
    else []
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_answer_comes_back_from_its_pieces(path, models):
    """Exactly where piece borders allow, else as the smallest span around it."""
    is_shared = "cmrc" not in path.stem
    vocabulary = str(SPIECE) if is_shared else models["all"]
    stored = json.loads(path.read_text())
    paragraphs = [
        paragraph for article in stored["data"] for paragraph in article["paragraphs"]
    ]
    tokenizer = Tokenizer(vocabulary)
    exact = wrong = count = 0
    for paragraph in paragraphs:
        context = paragraph["context"]
        aligned = align(tokenizer, context)
        for answer in (answer for qa in paragraph["qas"] for answer in qa["answers"]):
            count += 1
            text, start = answer["text"], answer["answer_start"]
            if context[start : start + len(text)] != text:
                wrong += 1
                continue
            start, end = (
                start + len(text) - len(text.lstrip()),
                start + len(text.rstrip()),
            )
            first, last = piece_span(aligned, start, end)
            low, high = aligned.starts[first], aligned.ends[last]
            exact += (low, high) == (start, end)
            assert low <= start and end <= high
            # The first and the last piece both hold some of the answer.
            assert aligned.ends[first] > start and aligned.starts[last] < end
            if low == start and high == end:
                assert context[low:high] == text.strip()
    assert wrong == {"cmrc2018_dev": 68, "cmrc2018_trial": 5}.get(path.stem, 0)
    if is_shared:
        assert exact > 0.995 * count
