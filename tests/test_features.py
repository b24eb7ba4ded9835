"""Fine-tuning examples: the reference's layout, and record files found again by content."""

import collections
import json
import pathlib

import numpy as np
import pytest

from test_tokenization import RELEASED, train_tiny_model
from xlnet import features, records
from xlnet.errors import UserError
from xlnet.features import Example, choice_features, example_features, truncated
from xlnet.tokenization import Tokenizer

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden" / "classifier_features.json"
CLS, SEP = 3, 4
LABELS = ("no", "yes")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return Tokenizer(train_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny.model"))


def test_golden():
    if not RELEASED.exists():
        pytest.skip("the released SentencePiece model is not there")
    tokenizer = Tokenizer(str(RELEASED))
    cases = json.loads(GOLDEN.read_text("utf-8"))
    assert len(cases) == 74
    for case in cases:
        example = Example(((case["text_a"], case["text_b"]),), case["label_id"])
        actual, = features.features_of([example], tokenizer, case["max_seq_length"],
                                       is_regression=case["task"] == "STS-B")
        for name in ("input_ids", "input_mask", "segment_ids"):
            assert actual[name].tolist() == case[name], (name, case)
        assert actual["label_ids"] == np.float32(case["label_id"])


def test_single_text():
    f = choice_features([10, 11], None, 6, CLS, SEP)
    assert f["input_ids"].tolist() == [0, 0, 10, 11, SEP, CLS]
    assert f["input_mask"].tolist() == [1, 1, 0, 0, 0, 0]
    assert f["segment_ids"].tolist() == [4, 4, 0, 0, 0, 2]


def test_pair_of_texts():
    f = choice_features([10, 11], [20], 8, CLS, SEP)
    assert f["input_ids"].tolist() == [0, 0, 10, 11, SEP, 20, SEP, CLS]
    assert f["segment_ids"].tolist() == [4, 4, 0, 0, 0, 1, 1, 2]


def test_single_text_is_cut_at_its_end():
    assert choice_features([10, 11, 12, 13], None, 5, CLS, SEP)["input_ids"].tolist() == [
        10, 11, 12, SEP, CLS]


@pytest.mark.parametrize("lengths, budget, expected", [
    ((3, 4), 7, (3, 4)),
    ((3, 4), 6, (3, 3)),
    ((4, 3), 6, (3, 3)),
    ((3, 3), 5, (3, 2)),     # equally long: the second one gives way
    ((9, 2), 6, (4, 2)),
    ((2, 9), 6, (2, 4)),
    ((9, 9), 7, (4, 3)),
    ((5, 0), 3, (3, 0)),
    ((0, 5), 3, (0, 3)),
    ((5, 5), 1, (1, 0)),
])
def test_truncated(lengths, budget, expected):
    a, b = truncated(list(range(lengths[0])), list(range(lengths[1])), budget)
    assert (a, b) == (list(range(expected[0])), list(range(expected[1])))


def test_every_layout_obeys_the_law():
    rng = np.random.RandomState(0)
    for _ in range(300):
        a, b = (rng.randint(10, 99, rng.randint(0, 12)).tolist() for _ in range(2))
        f = choice_features(a, None if rng.rand() < 0.3 else b, rng.randint(4, 20), CLS, SEP)
        padding = int(f["input_mask"].sum())
        assert f["input_ids"][-1] == CLS and f["input_ids"][-2] == SEP
        assert (np.diff(f["input_mask"]) <= 0).all()
        assert (f["segment_ids"][:padding] == 4).all() and (f["segment_ids"][padding:] < 4).all()
        assert (f["input_ids"][:padding] == 0).all()
        assert (np.diff(f["segment_ids"][padding:]) >= 0).all()


def test_dtypes_and_names_are_those_of_the_record():
    example = example_features([([10], [11])], 1, 8, CLS, SEP)
    layout = records.finetuning_features(8)
    assert set(example) == {feature.name for feature in layout}
    for feature in layout:
        assert example[feature.name].shape == feature.shape
        assert example[feature.name].dtype == {"int": np.int32, "float": np.float32}[feature.dtype]
    score = example_features([([10], [11])], 2.5, 8, CLS, SEP, is_regression=True)["label_ids"]
    assert score == 2.5 and score.dtype == np.float32


def test_choices_are_joined():
    pairs = [([10], [20]), ([10], [21, 22])]
    joined = example_features(pairs, 1, 8, CLS, SEP)
    for c, (a, b) in enumerate(pairs):
        for name, value in choice_features(a, b, 8, CLS, SEP).items():
            assert joined[name][8 * c:8 * c + 8].tolist() == value.tolist()
    assert joined["label_ids"] == 1


@pytest.mark.parametrize("length", [-1, 0, 3])
def test_too_short(length, tiny, tmp_path):
    with pytest.raises(UserError, match="max_seq_length is %d, expected at least 4" % length):
        choice_features([10], None, length, CLS, SEP)
    with pytest.raises(UserError, match="at least 4"):
        features.write_records(tmp_path, "x", _examples(2), tiny, length, labels=LABELS)
    assert not list(tmp_path.iterdir())


def test_the_shortest_holds_a_token():
    assert choice_features([10, 11], [20, 21], 4, CLS, SEP)["input_ids"].tolist() == [
        10, SEP, SEP, CLS]


def _examples(count):
    return [Example((("the cat sat %d" % i, "a mat" if i % 2 else None),), i % 2)
            for i in range(count)]


def _read(path, max_seq_length, **settings):
    """Returns the record file as one dict of arrays [n, ...]."""
    import tensorflow as tf
    layout = records.finetuning_features(max_seq_length, **settings)
    columns = collections.defaultdict(list)
    for serialized in tf.compat.v1.io.tf_record_iterator(path):
        example = tf.train.Example.FromString(serialized)
        for name, shape, dtype in layout:
            kind = example.features.feature[name]
            value = (kind.int64_list if dtype == "int" else kind.float_list).value
            columns[name].append(np.reshape(value, shape))
    return {name: np.array(values) for name, values in columns.items()}


def test_records_hold_the_features(tiny, tmp_path):
    examples = _examples(5)
    path = features.write_records(str(tmp_path), "mine.train", examples, tiny, 16, labels=LABELS)
    read = _read(path, 16)
    for i, expected in enumerate(features.features_of(examples, tiny, 16)):
        for name, value in expected.items():
            assert read[name][i].tolist() == value.tolist()
    assert len(read["input_ids"]) == 5
    assert [file.name for file in tmp_path.iterdir()] == [pathlib.Path(path).name]


def test_more_examples_than_are_tokenized_at_once(tiny, monkeypatch):
    examples = _examples(7)
    whole = list(features.features_of(examples, tiny, 16))
    monkeypatch.setattr(features, "_EXAMPLES_AT_ONCE", 3)
    for a, b in zip(whole, features.features_of(examples, tiny, 16)):
        assert all(np.array_equal(a[name], b[name]) for name in a)


def test_last_batch_is_filled_when_asked(tiny, tmp_path):
    path = features.write_records(str(tmp_path), "x", _examples(5), tiny, 16, labels=LABELS,
                                  batch_size=4)
    read = _read(path, 16)
    assert read["is_real_example"].tolist() == [1] * 5 + [0] * 3
    assert (read["input_mask"] == 0).any(axis=1).all()
    exact = features.write_records(str(tmp_path), "x", _examples(8), tiny, 16, labels=LABELS,
                                   batch_size=4)
    assert _read(exact, 16)["is_real_example"].tolist() == [1] * 8


def test_scores_and_choices_in_records(tiny, tmp_path):
    scores = [Example((("the cat", "a mat"),), 2.5)]
    path = features.write_records(str(tmp_path), "x", scores, tiny, 16)
    assert _read(path, 16, is_regression=True)["label_ids"].tolist() == [2.5]
    choices = [Example((("the cat", "a mat"), ("the cat", "old rivers")), 1)]
    path = features.write_records(str(tmp_path), "x", choices, tiny, 16, labels=("0", "1"))
    assert _read(path, 16, num_choices=2)["input_ids"].shape == (1, 32)


def test_records_are_found_again_by_content(tiny, tmp_path):
    def write(examples=_examples(3), tokenizer=tiny, length=16, **settings):
        return pathlib.Path(features.write_records(
            str(tmp_path), "x", examples, tokenizer, length, **{"labels": LABELS, **settings}))

    path = write()
    path.write_bytes(b"kept")
    assert write() == path and path.read_bytes() == b"kept"
    assert write(overwrite=True) == path and path.read_bytes() != b"kept"
    relabelled = [example._replace(label=0) for example in _examples(3)]
    others = [write(_examples(4)), write(relabelled), write(length=17), write(batch_size=2),
              write(labels=("yes", "no")), write(tokenizer=Tokenizer(tiny.path, uncased=True))]
    assert len({path, *others}) == 7


def test_no_half_file_is_left(tiny, tmp_path):
    broken = _examples(2) + [Example((("the cat", None),), "no number")]
    with pytest.raises(ValueError):
        features.write_records(str(tmp_path), "x", broken, tiny, 16, labels=LABELS)
    assert not list(tmp_path.iterdir())
