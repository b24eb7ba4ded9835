"""Any language: vocabularies by language, words without blanks, and a whole run on Chinese text."""

import itertools
import json

import numpy as np
import pytest
from helpers import command
from helpers.networks import sizes
from helpers.paths import DATA, SPIECE

from xlnet.corpus.manifest import Manifest
from xlnet.corpus.tokenizer import WORD_START, Tokenizer, begins_word
from xlnet.support import files

TRAINER = "xlnet data vocabulary"


def train(directory, name, text, **flags):
    """Trains a vocabulary on `text`; returns the `Tokenizer` and what the program said."""
    (directory / (name + ".txt")).write_text(text, encoding="utf-8")
    path = str(directory / (name + ".model"))
    flags.update(input_glob=directory / (name + ".txt"), sp_path=path)
    done = command.succeed(TRAINER, **flags)
    return Tokenizer(path), done.stdout


def sentences_of(words, between):
    rng = np.random.RandomState(0)
    return "".join(between.join(rng.choice(words, 8)) + "\n" for _ in range(200))


@pytest.mark.parametrize(
    "pieces, expected",
    [
        (["贾", "宝玉", "道:“", "〇", "㐀", "\U00020000", "豈"], True),
        # stand alone
        (["。", "，", "!”", "「", "▁(", "-", "...", "¿", "،", "।", "€", "”"], True),
        (["か", "が", "カタ", "ヴァ", "ｶ", "食べ"], True),
        (["กา", "เธ", "ไ", "ຂ", "ເ", "က", "ဪ", "ក", "ឥ"], True),
        (["▁a", "▁", "▁贾", "▁한"], True),
        (["ー", "ゃん", "っ", "ッ", "々", "ｯ", "ゝ"], False),  # begin no syllable
        (["ี", "่อ", "า", "ะ", "ຶ", "າ", "ာ", "်", "ា", "្ក"], False),  # nor do these
        (["한국", "국", "ing", "2010", "ß", "ы", "م", "'", "’", "'t", ".com"], False),
    ],
)
def test_pieces_that_begin_words(pieces, expected):
    for piece in pieces:
        assert begins_word(piece) is expected, piece


def test_the_released_vocabulary_has_the_words_of_its_marks():
    if not SPIECE.exists():
        pytest.skip("the released SentencePiece model is not there")
    tokenizer = Tokenizer(str(SPIECE))
    special = np.arange(tokenizer.vocab_size) < 9
    pieces = [tokenizer.id_to_piece(id) for id in range(tokenizer.vocab_size)]
    marked = [piece.startswith(WORD_START) for piece in pieces]
    alone = tokenizer.stands_alone
    punctuation = set(itertools.compress(pieces, alone))
    assert {".", ",", "-", ")", "▁$", "%", "”", "–", "!!"} <= punctuation
    assert not {"'", "’", "▁", "s", "▁the", "1", "▁e.g"} & punctuation
    assert np.array_equal(tokenizer.is_word_start, marked | special | alone)


@pytest.mark.parametrize(
    "language, words, between, sentence, cleaned, said",
    [
        (
            "english",
            "Äpfel Zürich naïve Café Apfel",
            " ",
            "Café Zürich",
            "Cafe Zurich",
            ("accents stripped", "coverage 0.99995"),
        ),
        (
            "japanese",
            "がっこう かぎ ぷりん パン です か が",
            "",
            "がっこうがパン",
            "がっこうがパン",
            ("accents kept", "coverage 0.9995"),
        ),
    ],
)
def test_a_vocabulary_by_language(
    tmp_path, language, words, between, sentence, cleaned, said
):
    text = sentences_of(words.split(), between)
    flags = dict(language=language, vocab_size=28)
    tokenizer, shown = train(tmp_path, language, text, **flags)
    assert all(part in shown for part in said)
    assert tokenizer.clean(sentence) == cleaned
    assert tokenizer.decode(tokenizer.ids(sentence)) == cleaned
    digest = files.sha256(str(tmp_path / (language + ".model")))
    kept = dict(sha256=digest, uncased=False, keep_accents=language != "english")
    assert json.loads((tmp_path / (language + ".model.json")).read_text()) == kept
    assert tokenizer.keep_accents == kept["keep_accents"] and not tokenizer.uncased


def test_a_vocabulary_of_characters(tmp_path):
    """It has the text's characters, or the most frequent ones, and no limit to reach."""
    text = sentences_of("宝玉 黛玉 贾母 说 道 来 去 不".split(), "")
    flags = dict(language="chinese", model_type="char")
    tokenizer, said = train(tmp_path, "all", text, vocab_size=500, **flags)
    assert tokenizer.vocab_size == 9 + 1 + 10 and ": 20 pieces, cased" in said
    pieces = map(tokenizer.id_to_piece, tokenizer.ids("宝玉来"))
    assert list(pieces) == [WORD_START, "宝", "玉", "来"]
    fewer, said = train(tmp_path, "fewer", text, vocab_size=15, **flags)
    assert fewer.vocab_size == 15 and ": 15 pieces, cased" in said
    assert fewer.id_to_piece(9) == tokenizer.id_to_piece(9) == "玉"


@pytest.mark.parametrize(
    "flags, message",
    [
        (dict(sp_path="new/"), "sp_path: found the directory new/, expected a file"),
        (dict(split="heldout", heldout_share=1e-9), "found no text in text.txt"),
    ],
)
def test_what_cannot_be_trained_is_refused(tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("one two three\n" * 9)
    names = dict(input_glob="text.txt", sp_path="a.model")
    assert message in command.refused(TRAINER, **{**names, **flags})
    assert list(tmp_path.iterdir()) == [tmp_path / "text.txt"]


# ---- the whole road in Chinese

PRETRAIN_ZH, CHN_SENTI = DATA / "pretrain_zh", DATA / "ChnSentiCorp"
ZH = dict(language="chinese", vocab_size=3000)


@pytest.fixture(scope="module")
def chinese(tmp_path_factory):
    """A directory with a vocabulary, records and a pretrained model, from seven chapters."""
    if not (PRETRAIN_ZH.is_dir() and CHN_SENTI.is_dir()):
        pytest.skip("the Chinese texts are not there")
    directory = tmp_path_factory.mktemp("chinese")
    text = (PRETRAIN_ZH / "hongloumeng.txt").read_text(encoding="utf-8")
    chapters = text.split("\n\n")
    train(directory, "zh", "\n\n".join(chapters[:6]), **ZH)
    (directory / "heldout.txt").write_text(chapters[6], encoding="utf-8")
    for part, streams in (("zh", 4), ("heldout", 2)):
        command.succeed(
            "data_utils.py",
            input_glob=directory / (part + ".txt"),
            save_dir=directory / part,
            sp_path=directory / "zh.model",
            seq_len=64,
            reuse_len=32,
            num_streams=streams,
        )
    return directory


def test_chinese_records_have_words(chinese):
    tokenizer = Tokenizer(str(chinese / "zh.model"))
    manifest = Manifest.read(str(chinese / "zh"))
    assert manifest.keep_accents and tokenizer.keep_accents
    lines = (chinese / "zh.txt").read_text(encoding="utf-8").split("\n")
    ids, _ = tokenizer.encode_to_array(lines)
    pieces = [tokenizer.id_to_piece(id) for id in ids]
    marked = np.mean([piece.startswith(WORD_START) for piece in pieces])
    # A mark begins a paragraph only; nearly every piece is a word, punctuation among them.
    assert marked < 0.03 and tokenizer.is_word_start[ids].mean() > 0.99
    assert 0.05 < tokenizer.stands_alone[ids].mean() < 0.3
    assert {"宝玉", "贾母", "黛玉"} <= set(pieces)
    assert np.mean(ids == tokenizer.unk_id) < 0.02


def test_chinese_from_text_to_classes(chinese):
    out, pretrained = chinese, chinese / "pretrained"
    command.succeed(
        "train_gpu.py",
        record_info_dir=out / "zh",
        eval_record_info_dir=out / "heldout",
        model_dir=pretrained,
        **sizes(layers=1, width=32, heads=2, inner=64),
        train_batch_size=4,
        mem_len=32,
        perm_size=32,
        num_predict=16,
        dropout=0,
        dropatt=0,
        learning_rate=5e-3,
        train_steps=60,
        save_steps=60,
        log_steps=20,
    )
    kept = json.loads((pretrained / "evaluations.json").read_text())["evaluations"]
    losses = [one["loss"] for one in kept]
    assert abs(losses[0] - np.log(3000)) < 0.2 and losses[-1] < losses[0] - 1
    fine_tune(out, pretrained)


def fine_tune(out, pretrained):
    """Two steps on hotel reviews; cleaning is that of the checkpoint and cannot be contradicted."""
    folder = out / "senti"
    folder.mkdir()
    for name in ("train.tsv", "dev.tsv"):
        rows = (CHN_SENTI / name).read_bytes().split(b"\n")[:41]
        (folder / name).write_bytes(b"\n".join(rows) + b"\n")
    alone = out / "alone" / "zh.model"  # the vocabulary without its description
    alone.parent.mkdir()
    alone.write_bytes((out / "zh.model").read_bytes())
    flags = dict(
        task_name="custom",
        data_dir=folder,
        text_a_column="text_a",
        label_column="label",
        output_dir=out / "features",
        spiece_model_file=alone,
        model_config_path=pretrained / "xlnet_config.json",
        init_checkpoint=pretrained / "latest",
        do_train=True,
        do_eval=False,
        max_seq_length=32,
        train_batch_size=4,
        train_steps=2,
        eval_steps=0,
        model_dir=out / "tuned",
    )
    said = command.refused("run_classifier.py", **flags)
    assert "keep_accents: found False, expected True, as the weights in" in said
    assert not (out / "tuned").exists()
    flags["spiece_model_file"] = pretrained / "spiece.model"
    said = command.refused("run_classifier.py", **dict(flags, keep_accents=False))
    assert "keep_accents: found False, expected True, as" in said
    assert "started from" in command.succeed("run_classifier.py", **flags).stdout
    kept = Tokenizer(str(out / "tuned" / "spiece.model"))
    assert kept.keep_accents and kept.sha256 == Tokenizer(str(out / "zh.model")).sha256
