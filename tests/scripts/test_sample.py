"""scripts/make_sample.py and scripts/train_sentencepiece.py, from the command line."""

import collections
import hashlib
import subprocess
import sys

import pytest
from helpers.paths import ROOT

SPECIAL = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]


def run(script, *arguments, cwd):
    return subprocess.run([sys.executable, str(ROOT / "scripts" / script), *arguments],
                          capture_output=True, text=True, cwd=str(cwd))


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """The directory of the sample, made from somewhere else than the repository root."""
    directory = tmp_path_factory.mktemp("sample")
    done = run("make_sample.py", "--save_dir=made", cwd=directory)
    assert done.returncode == 0, done.stderr
    assert "train.txt:" in done.stdout and "test.tsv:" in done.stdout
    return directory / "made"


def read_documents(path):
    return [document.split("\n") for document in
            path.read_text(encoding="utf-8").rstrip("\n").split("\n\n")]


def read_rows(path):
    return [line.split("\t") for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n")]


def test_pretraining_text_is_prose_in_documents(sample):
    train = read_documents(sample / "pretrain" / "train.txt")
    heldout = read_documents(sample / "pretrain" / "heldout.txt")
    assert 0.01 < len(heldout) / (len(train) + len(heldout)) < 0.12
    sentences = [sentence for document in train + heldout for sentence in document]
    assert len(sentences) == len(set(sentences))            # so nothing held out is trained on
    assert all(s == " ".join(s.split()) and len(s.split()) >= 4 for s in sentences)
    assert not any(">>>" in s or "::=" in s for s in sentences)


def test_classification_rows_are_labelled_and_split(sample):
    parts = {name: read_rows(sample / "classify" / (name + ".tsv"))
             for name in ("train", "dev", "test", "test_labels")}
    assert parts["train"][0] == parts["dev"][0] == ["id", "text", "label"]
    assert parts["test"][0] == ["id", "text"] and parts["test_labels"][0] == ["id", "label"]
    labels = [row[1] for row in parts["test_labels"][1:]]
    tested = [[i, text, label] for (i, text), label in zip(parts["test"][1:], labels)]
    assert [row[0] for row in tested] == [row[0] for row in parts["test_labels"][1:]]
    rows = parts["train"][1:] + parts["dev"][1:] + tested
    counts = collections.Counter(row[2] for row in rows)
    assert 3 <= len(counts) <= 8 and min(counts.values()) >= 90
    assert len({row[1] for row in rows}) == len(rows)
    assert not any(label in text.lower() for _, text, label in rows)
    for name, count in (("train", 20), ("dev", 40)):
        found = collections.Counter(row[2] for row in parts[name][1:])
        assert found == dict.fromkeys(counts, count)


@pytest.fixture(scope="module")
def short_text(sample):
    """Part of the sample with paragraph ends, small enough to train on in a second."""
    documents = read_documents(sample / "pretrain" / "heldout.txt")
    path = sample / "short.txt"
    path.write_text("\n\n".join("\n".join(d) + " <eop>" for d in documents), encoding="utf-8")
    return path


def test_vocabulary_has_the_special_ids_and_repeats(sample, short_text):
    import sentencepiece
    digests = set()
    for name in ("a.model", "b.model"):
        done = run("train_sentencepiece.py", "--input_glob=short.txt", "--sp_path=" + name,
                   "--vocab_size=400", "--uncased", cwd=sample)
        assert done.returncode == 0 and not done.stderr, done.stderr
        digests.add(hashlib.sha256((sample / name).read_bytes()).hexdigest())
    assert len(digests) == 1
    model = sentencepiece.SentencePieceProcessor(model_file=str(sample / "a.model"))
    pieces = [model.id_to_piece(i) for i in range(model.vocab_size())]
    assert len(pieces) == 400 and pieces[:9] == SPECIAL
    assert model.is_control(3) and not model.is_control(8)
    assert 8 in model.encode("an end <eop>") and 3 not in model.encode("a <cls>")
    assert not any(piece != piece.lower() for piece in pieces)


@pytest.mark.parametrize("arguments, message", [
    (["--vocab_size=30000"], "too large for this text; give more text or --vocab_size="),
    (["--vocab_size=20"], "too small for the characters of this text"),
    (["--vocab_size=5"], "more than the 9 special symbols"),
    (["--character_coverage=2"], "expected 0.9 <= coverage <= 1"),
    (["--input_glob=none.txt"], "input_glob: no file matches"),
])
def test_bad_vocabulary_requests_are_refused_in_one_line(sample, short_text, arguments, message):
    done = run("train_sentencepiece.py", "--input_glob=short.txt", "--sp_path=c.model",
               "--vocab_size=400", *arguments, cwd=sample)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert message in done.stderr
    assert not (sample / "c.model").exists()
