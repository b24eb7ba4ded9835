"""benchmarks/import_records.py: the original's records as ours, sequences and order alike.

The files here are made by this test to the original's layout, not by the original.
"""

import json

import import_records
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.pretraining import train

from xlnet.corpus import input_pipeline
from xlnet.corpus.manifest import Manifest
from xlnet.corpus.permutation import Permutation
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.support.errors import UserError

pytestmark = pytest.mark.usefixtures("quick_start")
B, Q, REUSE, MASKED = 4, 32, 16, 5
BATCHES = (3, 2)  # of the two files, which two passes make
NAME = f"bsz-{B}.seqlen-{Q}.reuse-{REUSE}.bi.alpha-6.beta-1.fnp-{MASKED}"


def make_windows(rng, tokenizer, batches):
    """Windows [batches,B,...] whose rows go on from batch to batch, the second half backward."""
    text = rng.integers(9, tokenizer.vocab_size, [B, (batches + 1) * REUSE + Q])
    text[B // 2 :] = text[: B // 2, ::-1]
    input_ids = np.stack([text[:, i * REUSE : i * REUSE + Q] for i in range(batches)])
    input_ids[:, :, [-1, -2, 22]] = [
        tokenizer.cls_id,
        tokenizer.sep_id,
        tokenizer.sep_id,
    ]
    seg_id = np.zeros_like(input_ids)
    seg_id[:, :, 23:], seg_id[:, :, -1] = 1, 2
    return {
        "input": input_ids,
        "seg_id": seg_id,
        "is_masked": seg_id,
        "target": input_ids,
        "label": rng.integers(0, 2, [batches, B, 1]),
    }


def write(folder, number, windows):
    """Writes one pass: a TFRecord file, and the record_info that names it by another folder."""
    folder.mkdir(parents=True, exist_ok=True)
    batches = len(windows["input"])
    name = f"train-0-{number}.{NAME}.tfrecords"
    with tf.io.TFRecordWriter(str(folder / name)) as writer:
        for i in range(batches * B):
            example = tf.train.Example()
            for feature, values in windows.items():
                example.features.feature[feature].int64_list.value.extend(
                    values[i // B, i % B].tolist()
                )
            writer.write(example.SerializeToString())
    (folder / (f"record_info-train-0-{number}.{NAME}.json")).write_text(
        json.dumps({"filenames": ["elsewhere/tfrecords/" + name], "num_batch": batches})
    )


@pytest.fixture
def theirs(place, tmp_path):
    """The windows [batches,B,...] of both files."""
    rng, tokenizer = np.random.default_rng(0), Tokenizer(str(place / "sp.model"))
    parts = [make_windows(rng, tokenizer, batches) for batches in BATCHES]
    for number, windows in enumerate(parts):
        write(tmp_path / "tfrecords", number, windows)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def settings(place, tmp_path, **changes):
    return import_records.ImportSettings(
        **dict(
            dict(
                input=str(tmp_path / "tfrecords"),
                spiece_model_file=str(place / "sp.model"),
                output=str(tmp_path / "ours"),
            ),
            **changes,
        )
    )


@pytest.mark.parametrize("cores, order", ((1, [0, 2, 1, 3]), (2, [0, 1, 2, 3])))
def test_batches_are_those_of_the_files(place, theirs, tmp_path, cores, order):
    """Rows, forward and backward in turn; `cores` say which of the original's are backward."""
    import_records.main(settings(place, tmp_path, num_core_per_host=cores))
    manifest = Manifest.read(str(tmp_path / "ours"))
    manifest.verify(str(tmp_path / "ours"))
    assert (manifest.windows_per_stream, manifest.reuse_len, manifest.bi_data) == (
        5,
        REUSE,
        True,
    )
    with tf.Graph().as_default(), tf.Session() as session:
        batch = tf.data.make_one_shot_iterator(
            input_pipeline.pretraining_batches(
                str(tmp_path / "ours"),
                manifest,
                batch_size=B,
                seed=0,
                tokenizer=Tokenizer(str(tmp_path / "ours" / manifest.sp_model)),
                permutation=Permutation(
                    reuse_len=REUSE,
                    num_predict=MASKED,
                    perm_size=16,
                    mask_alpha=6,
                    mask_beta=1,
                ),
            )
        ).get_next()
        batches = [session.run(batch) for _ in range(sum(BATCHES))]
    for name, feature in (("input_ids", "input"), ("seg_ids", "seg_id")):
        np.testing.assert_array_equal(
            [each[name] for each in batches], theirs[feature][:, order]
        )
    np.testing.assert_array_equal(
        [each["label"] for each in batches], theirs["label"][:, order, 0]
    )
    assert all(each["direction"].tolist() == [0, 1, 0, 1] for each in batches)
    assert [each["starts_stream"].tolist() for each in batches] == [
        [1] * B,
        [0] * B,
        [0] * B,
        [1] * B,
        [0] * B,
    ]


def test_records_and_vocabularies_that_do_not_fit(place, theirs, tmp_path):
    done = train(place, tmp_path / "model", record_info_dir=tmp_path / "tfrecords")
    assert (
        done.returncode == 1
        and "record_info_dir: found no manifest.json in" in done.stderr
    )
    with pytest.raises(
        UserError, match="num_core_per_host: found 3, expected half of a divisor"
    ):
        import_records.main(settings(place, tmp_path, num_core_per_host=3))
    assert not (tmp_path / "ours").exists()
