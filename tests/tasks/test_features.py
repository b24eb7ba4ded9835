"""Rows as records: the original's layout, and record files found again by content."""

import collections
import dataclasses
import json
import pathlib
import re
import types

import numpy as np
import pytest
from helpers.paths import GOLDEN, SPIECE
from helpers.tasks import write_records
from helpers.vocabulary import train_tiny_model

from xlnet.corpus import record_files
from xlnet.corpus.input_pipeline import finetuning_batches
from xlnet.corpus.record_files import EqualRecords, Feature
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.finetuning.data import CUT_WORDS
from xlnet.support.errors import UserError
from xlnet.tasks import encoding
from xlnet.tasks.encoding import Layout
from xlnet.tasks.fields import Columns, Row
from xlnet.tasks.known import TASK_TYPES, TASKS

SPECIAL = types.SimpleNamespace(cls_id=3, sep_id=4)
CLS, SEP = SPECIAL.cls_id, SPECIAL.sep_id
CLASS = (Feature("label_ids", (), "int"),)


def arrays_of(pair, tokenizer, length, label=0):
    """The arrays of the record of a row."""
    labels, layout = np.array([label]), Layout(length)
    return encoding.encode_pairs([(pair,)], labels, tokenizer, layout)[0]


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
        pair, label = (case["text_a"], case["text_b"]), np.float32(case["label_id"])
        actual = arrays_of(pair, tokenizer, case["max_seq_length"], label)
        for name in ("input_ids", "input_mask", "segment_ids"):
            assert actual[name][0].tolist() == case[name], (name, case)
        assert actual["label_ids"].tolist() == [label]


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
    pair = encoding.fit_to_length(a, b, Layout(len(ids)))
    found = encoding.lay_out([pair], len(ids), SPECIAL, "left")
    assert found["input_ids"].tolist() == [ids]
    assert found["segment_ids"].tolist() == [segments]
    assert found["input_mask"].tolist() == [[int(each == 4) for each in segments]]
    # On the right, the padding of questions is another segment.
    right = encoding.lay_out([pair], len(ids), SPECIAL, "right")
    padding = segments.count(4)
    assert right["segment_ids"].tolist() == [segments[padding:] + [3] * padding]
    assert right["input_ids"].tolist() == [ids[padding:] + [0] * padding]
    dtypes = [array.dtype.name for array in right.values()]
    assert dtypes == ["int32", "float32", "int32"]


@pytest.mark.parametrize(
    "lengths, budget, expected",
    [
        ((3, 4), 7, (3, 4)),
        ((3, 4), 6, (3, 3)),
        ((3, 3), 5, (3, 2)),  # equally long: the second one gives way
        ((9, 2), 6, (4, 2)),
        ((5, 0), 3, (3, 0)),
        ((0, 5), 3, (0, 3)),
        ((5, 5), 1, (1, 0)),
    ],
)
def test_the_longer_text_is_cut_first(lengths, budget, expected):
    a, b = (list(range(length)) for length in lengths)
    first, second = encoding.fit_to_length(a, b, Layout(budget + 3))
    assert (first, second) == (a[: expected[0]], b[: expected[1]])


# ---- what does not fit

TEXT = list(range(100, 120))


@pytest.mark.parametrize(
    "layout, a, b, expected",
    [
        (Layout(13, True), TEXT, TEXT[:5], (TEXT[:5], TEXT[:5])),
        # Down to one, then the second.
        (Layout(13, True), TEXT[:2], TEXT, (TEXT[:1], TEXT[:9])),
        (Layout(12, True), TEXT, None, (TEXT[:10], None)),
        (Layout(12), TEXT, [7], (TEXT[:8], [7])),
    ],
)
def test_what_is_left_of_a_text(layout, a, b, expected):
    assert encoding.fit_to_length(a, b, layout) == expected


# ---- record files


def _rows(count):
    pairs = [(f"the cat sat {i}", "a mat" if i % 2 else None) for i in range(count)]
    return [Row(str(i), (pair,), str(i % 2)) for i, pair in enumerate(pairs)]


def _read(path, max_seq_length, label_features=CLASS, num_choices=1):
    """Returns the record file as one dict of arrays [n, ...]."""
    import tensorflow as tf

    how = max_seq_length, label_features, num_choices
    layout = record_files.finetuning_features(*how)
    columns = collections.defaultdict(list)
    for serialized in tf.compat.v1.io.tf_record_iterator(path):
        example = tf.train.Example.FromString(serialized)
        for name, shape, dtype in layout:
            kind = example.features.feature[name]
            value = (kind.int64_list if dtype == "int" else kind.float_list).value
            columns[name].append(np.reshape(value, shape))
    return {name: np.array(values) for name, values in columns.items()}


def test_records_hold_the_features(tiny, tmp_path):
    task = TASKS["cola"]
    made = write_records(tmp_path, _rows(5), tiny, Layout(16))
    read = _read(made, 16)
    arrays, _, _ = task.encode(_rows(5), tiny, Layout(16))
    for name, expected in arrays.items():
        assert read[name].tolist() == expected.tolist()
    assert read["is_real_example"].tolist() == [1] * 5
    assert len(EqualRecords(made)) == 5
    assert list(tmp_path.iterdir()) == [pathlib.Path(made)]


def test_scores_and_several_labels_in_records(tiny, tmp_path):
    mine = TASK_TYPES["multi_label"]("mine", Columns(), ("a", "b"), ())
    for task, label, shape, expected in (
        (TASKS["sts-b"], 2.5, (), 2.5),
        (mine, ("b",), (2,), [0, 1]),
    ):
        row = Row("", (("the cat", "a mat"),), label)
        path = write_records(tmp_path, [row], tiny, Layout(16), task)
        features = (Feature("label_ids", shape, "float"),)
        read = _read(path, 16, label_features=features)
        assert read["label_ids"].tolist() == [expected]


def test_choices_are_joined_in_a_record(tiny, tmp_path):
    row = Row("", (("the cat", "a mat"), ("the cat", "old rivers")), "1")
    task = TASK_TYPES["multiple_choice"]("mine", Columns(), ("0", "1"), ())
    path = write_records(tmp_path, [row], tiny, Layout(16), task)
    joined = _read(path, 16, num_choices=2)
    for c, pair in enumerate(row.pairs):
        alone = arrays_of(pair, tiny, 16)
        for name in ("input_ids", "input_mask", "segment_ids"):
            part = joined[name][0, 16 * c : 16 * c + 16]
            assert part.tolist() == alone[name][0].tolist()
    assert joined["label_ids"].tolist() == [1]


def test_a_type_that_pads_on_the_right_encodes_itself(tiny):
    """Its batches were cut on that side, of records that were padded on the left."""
    task = TASK_TYPES["classification"]("mine", Columns(), ("0", "1"), ())
    object.__setattr__(task, "padding", encoding.Padding("right"))
    with pytest.raises(TypeError, match="pads on the right has its own `encode`"):
        task.encode([Row("", (("the cat", None),), "1")], tiny, Layout(32))


def test_records_are_found_again_by_content(tiny, tmp_path):
    def made(rows=_rows(3), tokenizer=tiny, length=16, labels=("0", "1")):
        task = dataclasses.replace(TASKS["cola"], labels=labels)
        path = write_records(tmp_path, rows, tokenizer, Layout(length), task)
        return pathlib.Path(path)

    path = made()
    written = path.stat().st_mtime_ns
    named = [row._replace(id="x" + row.id) for row in _rows(3)]
    assert made() == made(named) == path and path.stat().st_mtime_ns == written
    others = [
        made(_rows(4)),
        made([row._replace(label="0") for row in _rows(3)]),
        made(length=17),
        made(labels=("1", "0")),
        made(tokenizer=Tokenizer(tiny.path, uncased=True)),
    ]
    assert len({path, *others}) == 6


def test_damaged_records_are_refused(tiny, tmp_path):
    path = pathlib.Path(write_records(tmp_path, _rows(3), tiny, Layout(16)))
    path.write_bytes(path.read_bytes()[:-1])
    found = write_records(tmp_path, _rows(3), tiny, Layout(16))
    assert found == str(path)
    with pytest.raises(UserError, match=re.escape(f"{path}: found")):
        finetuning_batches(found, (), batch_size=1, row_length=16, shuffle_seed=0)


def test_what_is_lost_of_the_texts_is_noted_where_they_are_written(
    tiny, tmp_path, caplog
):
    """Unknown pieces of those in the records, and rows that lost some of their text."""
    rows = [
        Row("", (("the cat", None),), "0"),
        Row("", (("机 the cat", "the 器"),), "1"),
        Row("", (("the cat " * 20, "the"),), "0"),
    ]
    known = sum(len(tiny.ids(text)) for text in ("the cat", "机 the cat", "the 器"))
    unknown = 0
    for text in ("机 the cat", "the 器"):
        unknown += tiny.ids(text).count(tiny.unk_id)
    assert unknown >= 2
    room = 24 - 3  # the long pair fills its record
    layout = Layout(24)
    write_records(tmp_path, rows, tiny, layout)
    of_pieces, of_rows = caplog.messages
    share = 100 * unknown / (known + room)
    assert f"{share:.1f} % of the pieces are unknown" in of_pieces
    assert of_rows.endswith("33.3 % of " + CUT_WORDS)
    caplog.clear()
    write_records(tmp_path, rows, tiny, layout)  # found again
    write_records(tmp_path, [rows[0]], tiny, layout)
    assert not caplog.messages
