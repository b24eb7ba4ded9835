"""Tiny SentencePiece models: of generated English, and of texts of many scripts."""

import io
import pathlib
import random

import numpy as np
import sentencepiece

CONTROL = ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"]
WORDS = "the cat sat on a mat while two dogs ran past old houses near 13 rivers in 2010".split()


def train(
    path, sentences, vocab_size, *, control=CONTROL, user_defined=("<eop>",), **options
):
    """Trains a model, writes it to `path` and returns the path as text."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        vocab_size=vocab_size,
        pad_id=-1,
        control_symbols=list(control),
        user_defined_symbols=list(user_defined),
        num_threads=1,
        minloglevel=2,
        **options,
    )
    pathlib.Path(path).write_bytes(model.getvalue())
    return str(path)


def train_tiny_model(path, control=CONTROL, user_defined=("<eop>", "3,"), **options):
    """Trains a model of 80 pieces on generated sentences."""
    rng = np.random.RandomState(0)
    sentences = [" ".join(rng.choice(WORDS, 8)) for _ in range(300)]
    options.update(control=control, user_defined=user_defined, hard_vocab_limit=False)
    return train(path, sentences, 80, **options)


# ---- of many scripts

ODD_TEXTS = (
    "In 2010, he won $3,000 - more than 1,234,567 others.",
    "  Café naïve Ångström cafe\u0301  re\u0301sume\u0301 \t A\u0308\n",
    "``Quoted'' ''' '''' ` ´ “curly”",
    "한국어 서울특별시 조선",
    "東京 が ガ ｶﾞ パ ｱｲｳ ㍿ ①②③ Ａｂｃ１２，３",
    "广茂铁路全长364.6公里，由三茂铁路股份有限公司管理运营。",
    "ภาษาไทย น้ำ กำลัง",
    "اللُّغَة العَرَبِيَّة ﷺ ﻻ",
    "हिन्दी क्षत्रिय ज़रूरत",
    "½ ﬁnance … ™ x² ℃ № Ǆ ß İstanbul ΟΔΟΣ Ÿ",
    "emoji 👩‍👩‍👧 ☃☃ \u00a8 \u3000 \u00a0 x\u2003y \ufeff z",
    "\u0301start",
    "a",
    "",
    "   ",
    "\u0301",
    "''",
    "▁ a ▁",
    "<eop> <unk> <cls> 3,",
)

# Vocabularies that know all characters, few of them, few and bytes; that normalize otherwise; whose
# pieces are single characters, or words.
ODD_MODELS = {
    "all": dict(vocab_size=400, character_coverage=1.0),
    "few": dict(vocab_size=90, character_coverage=0.98),
    "bytes": dict(vocab_size=360, character_coverage=0.98, byte_fallback=True),
    "identity": dict(
        vocab_size=400, character_coverage=1.0, normalization_rule_name="identity"
    ),
    "bare": dict(
        vocab_size=300,
        add_dummy_prefix=False,
        normalization_rule_name="nmt_nfkc_cf",
        remove_extra_whitespaces=False,
    ),
    "characters": dict(vocab_size=150, character_coverage=1.0, model_type="char"),
    "words": dict(vocab_size=60, model_type="word"),
}


def train_odd_model(path, name):
    """Trains the model of `ODD_MODELS` on `ODD_TEXTS`."""
    sentences = [" ".join(ODD_TEXTS).replace("▁", "")] + [" ".join(WORDS)] * 300
    options = dict(user_defined=("<eop>", "3,"), hard_vocab_limit=False)
    return train(path, sentences, **options, **ODD_MODELS[name])


def odd_mixtures(count):
    """Yields texts of characters and of words sampled from `ODD_TEXTS`."""
    rng = random.Random(0)
    letters = "".join(ODD_TEXTS)
    for _ in range(count):
        yield "".join(rng.choice(letters) for _ in range(rng.randrange(40)))
        texts = rng.choices(ODD_TEXTS, k=6)
        yield " ".join(rng.choice(text.split() or [""]) for text in texts)
