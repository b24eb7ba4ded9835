"""Where pieces stand, and windows of questions, computed in the graph as in Python."""

import random

import pytest
import tensorflow.compat.v1 as tf
from helpers.paths import SPIECE
from helpers.vocabulary import ODD_MODELS, ODD_TEXTS, odd_mixtures, train_odd_model

from xlnet.serving.export import graph_encoding
from xlnet.serving.export.graph_offsets import align
from xlnet.serving.export.graph_tokenizer import GraphTokenizer
from xlnet.tasks.features.question_windows import windows_of
from xlnet.tokenization.offsets import Aligner
from xlnet.tokenization.tokenizer import Tokenizer

pytestmark = pytest.mark.slow

pytest.importorskip("tensorflow_text", reason="raw text in the graph needs tensorflow-text")

# How the vocabularies clean: uncased, keep_accents.
CLEANINGS = dict(zip(ODD_MODELS, ((True, False), (False, False), (False, True), (True, True),
                                  (False, False), (False, True))))
MORE = ("a \ufdd0 \uffff\U0001fffe b", "\u2026.. 3, <eop>3,\u2026", "\u00a8 \u00a8x  \u00a8",
        "\ufdfa a", "\u1100\u1161\u11a8 \uac01", "`` `x``` '''' y'",
        "\u03a3\u0391\u03a3 \u0130 a\u0345 b")


def in_graph(tokenizer, texts):
    """`GraphAligned` of bytes, as its graph was built: see the fixture `quick_start`."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        given = tf.placeholder(tf.string, [None])
        return session.run(align(GraphTokenizer(tokenizer), given), {given: texts})


def check(tokenizer, texts, least):
    """Of texts whose ids are equal; see `test_graph_tokenizer.check_ids` for those that are not."""
    found = in_graph(tokenizer, [text.encode() for text in texts])
    rows = list(zip(texts, Aligner(tokenizer).encode(texts), *(each.to_list() for each in found)))
    same = [row for row in rows if row[1].ids.tolist() == row[2]]
    assert len(same) >= least * len(rows)
    for text, expected, _, starts, ends in same:
        assert (starts, ends) == (expected.starts.tolist(), expected.ends.tolist()), text


@pytest.mark.parametrize("name", ODD_MODELS)
def test_odd_texts(tmp_path, name):
    tokenizer = Tokenizer(train_odd_model(tmp_path / "odd.model", name), *CLEANINGS[name])
    bytes_differ = MORE[1:] if name == "bytes" else MORE        # of what is no character
    check(tokenizer, [*ODD_TEXTS, *bytes_differ, *odd_mixtures(60)], least=0.95)


@pytest.mark.skipif(not SPIECE.exists(), reason="needs the released vocabulary")
def test_the_released_vocabulary():
    check(Tokenizer(str(SPIECE)), [*ODD_TEXTS, *MORE, *odd_mixtures(60)], least=0.99)


def test_bytes_that_are_no_text(tmp_path):
    """One character each, wherever they stand; no request as JSON has them."""
    tokenizer = Tokenizer(train_odd_model(tmp_path / "odd.model", "all"))
    found = in_graph(tokenizer, [b"on \xff mat", b"\xe4\xb8"])
    starts, ends = found.starts.to_list(), found.ends.to_list()
    assert (starts[0][0], ends[0][-1]) == (0, 8) and len(starts) == 2


def test_windows():
    """Windows and what of them has most context, ties too; of a book in time that is linear."""
    draw = random.Random(0)
    with tf.Graph().as_default(), tf.Session() as session:
        count, room = (tf.placeholder(tf.int64, [None]) for _ in range(2))
        for stride in (1, 7, 128):
            counts = [0, 1, 40, 250_000 if stride > 1 else 50, *draw.choices(range(900), k=30)]
            rooms = [20, 20, 20, 300, *draw.choices((15, 100, 384), k=30)]
            found = session.run(graph_encoding._question_windows(count, room, stride),
                                {count: counts, room: rooms})
            expected = [(row, *window) for row, one in enumerate(zip(counts, rooms))
                        for window in windows_of(*one, stride)]
            assert list(zip(*(each.tolist() for each in found))) == expected
