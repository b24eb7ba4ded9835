"""Fine-tuning examples: the original's layout, and record files found again by content."""

import collections
import json
import pathlib
import re

import numpy as np
import pytest
from helpers.paths import GOLDEN, SPIECE
from helpers.vocabulary import train_tiny_model

from xlnet.corpus import record_files
from xlnet.corpus.record_files import Feature
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.support.errors import UserError
from xlnet.tasks import encoding
from xlnet.tasks.encoding import Example, Layout

CLS, SEP = 3, 4
LABELS = ("no", "yes")


def arrays_of(examples, tokenizer, length, **layout):
    """The arrays that records have."""
    arrays, _ = encoding.arrays_of(examples, tokenizer, Layout(length, **layout))
    return {
        name: array
        for name, array in arrays.items()
        if name not in (encoding.TOKENS_READ, encoding.TOKENS)
    }


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return Tokenizer(train_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny.model"))


def test_golden():
    if not SPIECE.exists():
        pytest.skip("the released SentencePiece model is not there")
    tokenizer = Tokenizer(str(SPIECE))
    cases = json.loads((GOLDEN / "classifier_features.json").read_text("utf-8"))
    assert len(cases) == 74
    for case in cases:
        example = Example(((case["text_a"], case["text_b"]),), case["label_id"])
        actual = arrays_of([example], tokenizer, case["max_seq_length"])
        for name in ("input_ids", "input_mask", "segment_ids"):
            assert actual[name][0].tolist() == case[name], (name, case)
        assert actual["label_ids"][0] == np.float32(case["label_id"])


@pytest.mark.parametrize(
    "a, b, ids, segments",
    [
        ([10, 11], None, [0, 0, 10, 11, SEP, CLS], [4, 4, 0, 0, 0, 2]),
        ([10, 11], [20], [0, 0, 10, 11, SEP, 20, SEP, CLS], [4, 4, 0, 0, 0, 1, 1, 2]),
        ([10, 11, 12, 13], None, [10, 11, 12, SEP, CLS], [0, 0, 0, 0, 2]),
        ([10, 11], [20, 21], [10, SEP, SEP, CLS], [0, 0, 1, 2]),
    ],
)
def test_a_text_and_a_pair(a, b, ids, segments):
    windows = encoding.fit_to_length(a, b, Layout(len(ids)))
    found = encoding.lay_out(windows, len(ids), CLS, SEP)
    assert found["input_ids"].tolist() == [ids]
    assert found["segment_ids"].tolist() == [segments]
    assert found["input_mask"].tolist() == [[int(each == 4) for each in segments]]
    # On the right, the padding of questions is another segment.
    right = encoding.lay_out(windows, len(ids), CLS, SEP, pads="right")
    padding = segments.count(4)
    assert right["segment_ids"].tolist() == [segments[padding:] + [3] * padding]
    assert right["input_ids"].tolist() == [ids[padding:] + [0] * padding]


@pytest.mark.parametrize(
    "lengths, budget, expected",
    [
        ((3, 4), 7, (3, 4)),
        ((3, 4), 6, (3, 3)),
        ((4, 3), 6, (3, 3)),
        ((3, 3), 5, (3, 2)),  # equally long: the second one gives way
        ((9, 2), 6, (4, 2)),
        ((2, 9), 6, (2, 4)),
        ((9, 9), 7, (4, 3)),
        ((5, 0), 3, (3, 0)),
        ((0, 5), 3, (0, 3)),
        ((5, 5), 1, (1, 0)),
    ],
)
def test_the_longer_text_is_cut_first(lengths, budget, expected):
    a, b = (list(range(length)) for length in lengths)
    assert encoding.fit_to_length(a, b, Layout(budget + 3)) == [
        (a[: expected[0]], b[: expected[1]])
    ]


def test_choices_are_joined(tiny):
    pairs = (("the cat", "a mat"), ("the cat", "old rivers"))
    joined = arrays_of([Example(pairs, 1)], tiny, 16)
    for c, pair in enumerate(pairs):
        for name in ("input_ids", "input_mask", "segment_ids"):
            alone = arrays_of([Example((pair,), 1)], tiny, 16)
            assert (
                joined[name][0, 16 * c : 16 * c + 16].tolist()
                == alone[name][0].tolist()
            )
    assert joined["label_ids"].tolist() == [1]


# ---- what does not fit

TEXT = list(range(100, 120))


@pytest.mark.parametrize(
    "layout, a, b, expected",
    [
        (Layout(13, True), TEXT, TEXT[:5], [(TEXT[:5], TEXT[:5])]),
        (
            Layout(13, True),
            TEXT[:2],
            TEXT,
            [(TEXT[:1], TEXT[:9])],
        ),  # down to one, then the second
        (Layout(12, True), TEXT, None, [(TEXT[:10], None)]),
        (
            Layout(12, True, "sliding"),
            TEXT,
            None,
            [(TEXT[:10], None), (TEXT[5:15], None), (TEXT[10:], None)],
        ),
        (
            Layout(12, True, "sliding"),
            TEXT,
            [7],
            [(TEXT[start : start + 8], [7]) for start in (0, 4, 8, 12)],
        ),
        # A quarter of a window is the least for the first text.
        (
            Layout(15, True, "sliding"),
            TEXT[:7],
            list(range(11)),
            [
                (TEXT[i : i + 3], list(range(11))[at : at + 9])
                for i, at in enumerate((0, 2, 2, 2, 2))
            ],
        ),
        (Layout(12, True, "sliding"), TEXT[:9], None, [(TEXT[:9], None)]),
    ],
)
def test_what_is_left_of_a_text(layout, a, b, expected):
    assert encoding.fit_to_length(a, b, layout) == expected


def test_windows_have_all_of_the_text():
    for length in range(4, 24):
        windows = encoding.fit_to_length(TEXT, None, Layout(length, True, "sliding"))
        assert {id for window, _ in windows for id in window} == set(TEXT)
        assert all(len(window) == min(length - 2, len(TEXT)) for window, _ in windows)


def test_windows_are_records_of_their_own(tiny, tmp_path):
    examples = [
        Example((("the cat sat on a mat " * count, None),), count)
        for count in (1, 4, 2)
    ]
    layout = Layout(16, long_document="sliding")
    made = encoding.write_records(
        str(tmp_path), "x", examples, tiny, layout, options=LABELS
    )
    read = _read(made.path, 16)
    labels = read["label_ids"].tolist()
    assert made.count == len(labels) > 3 and list(dict.fromkeys(labels)) == [1, 4, 2]
    assert labels.count(1) < labels.count(4)
    again = encoding.write_records(
        str(tmp_path), "x", examples, tiny, layout, options=LABELS
    )
    assert again == made


def _examples(count):
    return [
        Example(((f"the cat sat {i}", "a mat" if i % 2 else None),), i % 2)
        for i in range(count)
    ]


def _read(path, max_seq_length, **settings):
    """Returns the record file as one dict of arrays [n, ...]."""
    import tensorflow as tf

    layout = record_files.finetuning_features(max_seq_length, **settings)
    columns = collections.defaultdict(list)
    for serialized in tf.compat.v1.io.tf_record_iterator(path):
        example = tf.train.Example.FromString(serialized)
        for name, shape, dtype in layout:
            kind = example.features.feature[name]
            value = (kind.int64_list if dtype == "int" else kind.float_list).value
            columns[name].append(np.reshape(value, shape))
    return {name: np.array(values) for name, values in columns.items()}


def write(directory, examples, tokenizer, length=16, **settings):
    return encoding.write_records(
        str(directory), "mine.train", examples, tokenizer, Layout(length), **settings
    ).path


def test_records_hold_the_features(tiny, tmp_path):
    examples = _examples(5)
    path = write(tmp_path, examples, tiny, options=LABELS)
    read = _read(path, 16)
    for name, expected in arrays_of(examples, tiny, 16).items():
        assert read[name].tolist() == expected.tolist()
    assert list(tmp_path.iterdir()) == [pathlib.Path(path)]


def test_scores_labels_and_choices_in_records(tiny, tmp_path):
    for label, shape in ((2.5, ()), ([0.0, 1.0], (2,))):
        how = dict(label_features=(Feature("label_ids", shape, "float"),))
        example = Example((("the cat", "a mat"),), label)
        path = write(tmp_path, [example], tiny, **how)
        assert _read(path, 16, **how)["label_ids"].tolist() == [label]
    choices = [Example((("the cat", "a mat"), ("the cat", "old rivers")), 1)]
    path = write(tmp_path, choices, tiny, num_choices=2)
    assert _read(path, 16, num_choices=2)["input_ids"].shape == (1, 32)


def test_records_are_found_again_by_content(tiny, tmp_path):
    encoded = []

    def encode(examples, *how):
        encoded.append(len(examples))
        return encoding.arrays_of(examples, *how)

    def made(examples=_examples(3), tokenizer=tiny, length=16, label_names=LABELS):
        how = dict(encode=encode, options=label_names)
        return pathlib.Path(write(tmp_path, examples, tokenizer, length, **how))

    path = made()
    content = path.read_bytes()
    assert made() == path and path.read_bytes() == content and encoded == [3]
    others = [
        made(_examples(4)),
        made([example._replace(label=0) for example in _examples(3)]),
        made(length=17),
        made(label_names=("yes", "no")),
        made(tokenizer=Tokenizer(tiny.path, uncased=True)),
    ]
    assert len({path, *others}) == 6


def test_damaged_records_are_refused(tiny, tmp_path):
    path = pathlib.Path(write(tmp_path, _examples(3), tiny, options=LABELS))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=re.escape(f"{path}: found")):
        write(tmp_path, _examples(3), tiny, options=LABELS)


def test_what_is_lost_of_the_texts_is_noted_where_they_are_written(
    tiny, tmp_path, caplog
):
    """Unknown pieces of those in the records, and examples that lost some of their text."""
    examples = [
        Example((("the cat", None),), 0),
        Example((("机 the cat", "the 器"),), 1),
        Example((("the cat " * 20, "the"),), 0),
    ]
    known = sum(len(tiny.ids(text)) for text in ("the cat", "机 the cat", "the 器"))
    unknown = 0
    for text in ("机 the cat", "the 器"):
        unknown += tiny.ids(text).count(tiny.unk_id)
    assert unknown >= 2
    room = 24 - 3  # the long pair fills its record
    write(tmp_path, examples, tiny, 24, options=LABELS)
    of_pieces, of_rows = caplog.messages
    assert (
        f"{100 * unknown / (known + room):.1f} % of the pieces are unknown" in of_pieces
    )
    assert of_rows.endswith("33.3 % of " + encoding.CUT_WORDS)
    caplog.clear()
    write(tmp_path, examples, tiny, 24, options=LABELS)  # found again
    write(tmp_path, [Example((("the cat",) * 2,), 0)], tiny, 24, options=LABELS)
    assert not caplog.messages
    for mode, is_cut in (("sliding", False), ("truncate", True)):
        caplog.clear()
        layout = Layout(24, False, mode)
        encoding.write_records(
            str(tmp_path), mode, examples, tiny, layout, options=LABELS
        )
        assert ("33.3 %" in caplog.text) == is_cut
