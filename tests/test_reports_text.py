"""Inputs of public reports about text: read as what they are, or refused in one line.

The files in tests/reports/ are small ones that have the property that a report is about.
"""

import dataclasses
import gzip
import io
import re

import pytest
from helpers import command
from helpers.paths import ROOT
from helpers.vocabulary import train_tiny_model

from xlnet.commands import query
from xlnet.corpus import preparation
from xlnet.settings.data import CorpusSettings
from xlnet.support import errors

REPORTS = ROOT / "tests" / "reports"


def settings_for(tmp_path, files):
    """Settings of records of these files."""
    return CorpusSettings(
        input_glob=str(REPORTS / files),
        sp_path=train_tiny_model(tmp_path / "sp.model"),
        save_dir=str(tmp_path / "records"),
        seq_len=64,
        num_workers=1,
    )


def test_records_are_read_as_their_names_say(tmp_path):
    settings = settings_for(tmp_path, "records_in_corpora/*.gz")
    manifest = preparation.make_records(settings).manifest
    found = manifest.documents, manifest.sentences, manifest.reuse_len
    assert found == (120, 600, 32)
    assert not preparation.make_records(settings).is_new  # nothing to do


@pytest.mark.parametrize(
    "name, message",
    [
        ("records_in_corpora/list.json", "line 1: found .*, expected an object of"),
        ("end_of_text_marks/text.txt", "line 3: found .*, expected a blank line"),
    ],
)
def test_text_in_another_form_is_refused(tmp_path, name, message):
    settings = settings_for(tmp_path, name)
    with pytest.raises(errors.UserError, match=message) as error:
        preparation.make_records(settings)
    assert "\n" not in str(error.value)
    if name.startswith("end_of_text"):
        # as docs/how_to/come_from.md does it
        text = (REPORTS / name).read_text().replace("<|endoftext|>", "")
        (tmp_path / "text.txt").write_text(text)
        settings = dataclasses.replace(settings, input_glob=str(tmp_path / "text.txt"))
        assert preparation.make_records(settings).manifest.documents == 60


def test_a_vocabulary_is_trained_on_sentences_with_the_trainers_own_mark(tmp_path):
    """SentencePiece's trainer drops a sentence that has it, and says nothing."""
    (tmp_path / "text.txt").write_text("qqqzzz ▅ hello world again\n" * 200)
    path = str(tmp_path / "m.model")
    command.succeed(
        "xlnet data vocabulary", input_glob=tmp_path / "text.txt", sp_path=path
    )
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=path)
    assert model.unk_id() not in model.encode("qqqzzz hello world again")


def test_a_vocabulary_is_trained_on_the_text_alone(tmp_path):
    program, path = "xlnet data vocabulary", str(tmp_path / "m.model")
    text = REPORTS / "records_in_corpora"
    # without a size: as many pieces as the text allows
    done = command.succeed(program, input_glob=text, sp_path=path)
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=path)
    assert model.unk_id() in model.encode("{")
    assert f"m.model: {model.vocab_size()} pieces" in done.stdout
    for name, message in (
        ("m.model", "m.model, which exists, expected a new file"),
        ("m.model/n.model", "sp_path: found .*m.model, which cannot"),
        ("n.model", "expected a size that the text allows"),
    ):
        flags = dict(sp_path=tmp_path / name, vocab_size=model.vocab_size() + 1)
        assert re.search(message, command.refused(program, input_glob=text, **flags))


@pytest.mark.parametrize("is_input", [False, True])
def test_texts_to_be_asked_are_lines_of_a_file_or_of_the_standard_input(
    tmp_path, monkeypatch, is_input
):
    """Also of a compressed one; a line that is not UTF-8 is refused by the model."""
    content = "\ufeffa\n\nf\xfcr\n".encode()
    path = tmp_path / "texts.txt.gz"
    path.write_bytes(gzip.compress(content))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    settings = query.TextInputs(input="-" if is_input else str(path))
    assert list(query.texts(settings)) == ["a", "f\xfcr"]
