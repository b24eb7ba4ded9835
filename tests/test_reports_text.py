"""Inputs of public reports about text: read as what they are, or refused in one line.

The files in tests/reports/ are small ones that have the property that a report is about.
"""

import collections

import pytest
from helpers.paths import ROOT

from xlnet import config
from xlnet.programs import train_sentencepiece
from xlnet.text import reading

REPORTS = ROOT / "tests" / "reports"


def documents_of(path, **values):
    """The documents of a file of text for pretraining, each a list of sentences."""
    settings = config.CorpusSettings(input_glob=str(path), save_dir="", sp_path="", **values)
    lines = [line for chunk in reading.cut([str(path)], 2000, settings.json_field)
             for line in reading.read_chunk(chunk, settings, collections.Counter())]
    found = [[]]
    for line in lines:
        found[-1].append(line.text)
        if line.ends_document:
            found.append([])
    return found[:-1]


@pytest.mark.parametrize("name, kind, documents, sentences", [
    ("46/a.jsonl.gz", reading.RECORDS, 60, 300),
    ("46/c4-train.00000-of-00002.json.gz", reading.RECORDS, 60, 300),
    ("46/list.json", reading.JSON, 60, 300),
    ("16/old_mac.txt", reading.TEXT, 200, 400)])
def test_text_is_read_by_its_content(name, kind, documents, sentences):
    path = REPORTS / name
    found = documents_of(path)
    assert reading.look(str(path)).kind == kind
    assert (len(found), sum(map(len, found))) == (documents, sentences)
    assert not any(mark in sentence for document in found for sentence in document
                   for mark in ("http", '"text"', "\r"))


def test_a_vocabulary_is_trained_on_the_text_alone(tmp_path, capsys):
    settings = train_sentencepiece.VocabularySettings(
        input_glob=str(REPORTS / "46"), sp_path=str(tmp_path / "m.model"), vocab_size=50)
    train_sentencepiece.main(settings)
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor(model_file=settings.sp_path)
    assert model.unk_id() in model.encode("{")
    assert "2 files (a.jsonl.gz, ...) as JSON lines (field text)" in capsys.readouterr().out
