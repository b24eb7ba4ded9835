"""Records of the reference: read as they are, trained on, refused where they do not fit.

The files here are made by this test to the reference's layout, not by the reference.
"""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.pretraining import losses, train

from xlnet.batches import input_pipeline
from xlnet.batches.permutation import Permutation
from xlnet.errors import UserError
from xlnet.records.legacy import LegacyManifest
from xlnet.tokenization.tokenizer import Tokenizer

pytestmark = pytest.mark.usefixtures("quick_start")
B, Q, REUSE, MASKED = 4, 32, 16, 5
BATCHES = (3, 2)        # of the two files, which two passes make
NAME = "bsz-%d.seqlen-%d.reuse-%d.bi.alpha-6.beta-1.fnp-%d" % (B, Q, REUSE, MASKED)


def make_windows(rng, tokenizer, batches):
    """Windows [batches,B,...] whose rows go on from batch to batch, the second half backward."""
    text = rng.integers(9, tokenizer.vocab_size, [B, (batches + 1) * REUSE + Q])
    text[B // 2:] = text[:B // 2, ::-1]
    is_masked = np.argsort(rng.random([batches, B, Q]), axis=2) < MASKED
    input_ids = np.stack([text[:, i * REUSE:i * REUSE + Q] for i in range(batches)])
    input_ids[:, :, [-1, -2, 22]] = [tokenizer.cls_id, tokenizer.sep_id, tokenizer.sep_id]
    seg_id = np.zeros_like(input_ids)
    seg_id[:, :, 23:], seg_id[:, :, -1] = 1, 2
    return {"input": input_ids, "seg_id": seg_id, "is_masked": is_masked.astype(np.int64),
            "target": np.roll(input_ids, -1, axis=2), "label": rng.integers(0, 2, [batches, B, 1])}


def write(folder, number, windows, leave_out=None):
    """Writes one pass: a TFRecord file, and the record_info that names it by another folder."""
    import tensorflow as tf
    folder.mkdir(parents=True, exist_ok=True)
    batches = len(windows["input"])
    name = "train-0-%d.%s.tfrecords" % (number, NAME)
    with tf.io.TFRecordWriter(str(folder / name)) as writer:
        for i in range(batches * B):
            example = tf.train.Example()
            for feature, values in windows.items():
                if feature != leave_out:
                    example.features.feature[feature].int64_list.value.extend(
                        values[i // B, i % B].tolist())
            writer.write(example.SerializeToString())
    (folder / ("record_info-train-0-%d.%s.json" % (number, NAME))).write_text(json.dumps(
        {"filenames": ["elsewhere/tfrecords/" + name], "num_batch": batches}))


@pytest.fixture(scope="module")
def legacy(place):
    """`place` with the reference's records in `legacy/tfrecords`; their windows; the tokenizer."""
    rng, tokenizer = np.random.default_rng(0), Tokenizer(str(place / "sp.model"))
    files = [make_windows(rng, tokenizer, batches) for batches in BATCHES]
    folder = place / "legacy" / "tfrecords"
    for number, windows in enumerate(files):
        write(folder, number, windows)
    (place / "legacy" / "corpus_info.json").write_text(json.dumps(
        {"sp_path": str(place / "sp.model"), "num_core_per_host": 1}))
    return SimpleNamespace(folder=folder, files=files, tokenizer=tokenizer)


def read(legacy, steps, num_predict=MASKED, **changes):
    """`steps` batches, as a list of dicts of arrays."""
    import tensorflow as tf
    manifest = LegacyManifest.read(str(legacy.folder), None)
    permutation = Permutation(reuse_len=REUSE, num_predict=num_predict, perm_size=16,
                              mask_alpha=6, mask_beta=1)
    arguments = dict(dict(batch_size=B, seed=3), **changes)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = input_pipeline.pretraining_batches(
            str(legacy.folder), manifest, permutation=permutation,
            special_ids=[legacy.tokenizer.sep_id, legacy.tokenizer.cls_id], **arguments)
        batch = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
        return [session.run(batch) for _ in range(steps)]


def in_order(legacy, name):
    """All windows of both files, one batch after the other: [batches,B,...]."""
    return np.concatenate([windows[name] for windows in legacy.files])


def test_batches_are_those_of_the_files(legacy):
    batches = read(legacy, 5)
    for name, feature in (("input_ids", "input"), ("seg_ids", "seg_id")):
        np.testing.assert_array_equal([batch[name] for batch in batches], in_order(legacy, feature))
    np.testing.assert_array_equal([batch["label"] for batch in batches],
                                  in_order(legacy, "label")[:, :, 0])
    assert all(batch["direction"].tolist() == [0, 0, 1, 1] for batch in batches)
    assert [batch["starts_stream"].tolist() for batch in batches] == [
        [1] * B, [0] * B, [0] * B, [1] * B, [0] * B]


def test_masks_are_honoured_and_orders_drawn_anew(legacy):
    batches = read(legacy, 10, num_predict=MASKED + 2)
    special = np.isin(in_order(legacy, "input"), [legacy.tokenizer.sep_id, legacy.tokenizer.cls_id])
    expected = (in_order(legacy, "is_masked") > 0) & ~special
    assert (expected.sum(axis=2) < MASKED).any(), "no mask fell on <sep> or <cls>"
    for batch, is_target in zip(batches, np.concatenate([expected, expected])):
        for row in range(B):
            used = batch["positions"][row][batch["weights"][row] > 0]
            np.testing.assert_array_equal(used, np.flatnonzero(is_target[row]))
        permuted = is_target | np.isin(batch["input_ids"], [legacy.tokenizer.sep_id,
                                                            legacy.tokenizer.cls_id])
        np.testing.assert_array_equal(batch["rank"][:, :REUSE] < 0, ~permuted[:, :REUSE])
    for first, second in zip(batches[:5], batches[5:]):
        np.testing.assert_array_equal(first["input_ids"], second["input_ids"])
        assert (first["rank"] != second["rank"]).any()


def test_part_of_the_rows_part_of_the_steps(legacy):
    whole = read(legacy, 12)
    for start in (2, 3, 5, 9):
        for batch, expected in zip(read(legacy, 3, start_step=start), whole[start:]):
            for name in expected:
                np.testing.assert_array_equal(batch[name], expected[name], err_msg=name)
    for batch, expected in zip(read(legacy, 5, rows=slice(1, 3)), whole):
        for name in expected:
            np.testing.assert_array_equal(batch[name], expected[name][1:3], err_msg=name)


def test_smaller_batches_take_a_file_part_by_part(legacy):
    """Rows 0 and 2 of the first file, then 1 and 3: both directions in each, memory goes on."""
    whole, batches = read(legacy, 5), read(legacy, 10, batch_size=2)
    for part, first in ((slice(0, B, 2), 0), (slice(1, B, 2), 3)):
        for batch, expected in zip(batches[first:first + 3], whole):
            for name in expected:
                np.testing.assert_array_equal(batch[name], expected[name][part], err_msg=name)


def test_directions_of_several_cores(legacy):
    info = legacy.folder.parent / "corpus_info.json"
    before = info.read_text()
    info.write_text(json.dumps(dict(json.loads(before), num_core_per_host=2)))
    assert read(legacy, 1)[0]["direction"].tolist() == [0, 1, 0, 1]
    info.write_text(before)


@pytest.mark.slow
def test_trains_and_resumes(place, legacy):
    flags = dict(record_info_dir=legacy.folder, eval_record_info_dir=legacy.folder, save_steps=2)
    whole = train(place, "legacy_whole", **flags)
    assert whole.returncode == 0, whole.stderr
    assert "4 streams of 5 windows" in whole.stdout
    assert np.abs(np.load(place / "legacy_whole" / "memory-4-0.npy")).max() > 0
    shutil.copytree(place / "legacy_whole", place / "legacy_parts")
    for path in list((place / "legacy_parts").glob("*-4*")):
        path.unlink()
    (place / "legacy_parts" / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-2"\n')
    second = train(place, "legacy_parts", **flags)
    assert second.returncode == 0, second.stderr
    assert losses(second.stdout) == losses(whole.stdout)[2:] and len(losses(whole.stdout)) == 4


def rename(folder, old, new):
    for path in list(folder.iterdir()):
        path.rename(folder / path.name.replace(old, new))
    for path in folder.glob("*.json"):
        path.write_text(path.read_text().replace(old, new))


def cut_off(folder):
    path = sorted(folder.glob("*.tfrecords"))[1]
    path.write_bytes(path.read_bytes()[:-5])


BAD = {
    "batch size": (dict(train_batch_size=3), None, "does not divide the 4 streams"),
    "seq_len": (dict(seq_len=64), None, "seq_len: the flag says 64, the records in"),
    "reuse_len": (dict(reuse_len=8), None, "reuse_len: the flag says 8, the records in"),
    "too few slots": (dict(num_predict=4), None, "num_predict is 4, expected at least 5"),
    "no file": ({}, lambda d: sorted(d.glob("*.tfrecords"))[0].unlink(), "no such file"),
    "cut off": ({}, cut_off, "cut off in record 7"),
    "other name": ({}, lambda d: rename(d, "seqlen-", "len-"), "expected a name like record_info-"),
    "window length": ({}, lambda d: rename(d, "seqlen-32", "seqlen-64"),
                      "feature input has 32 integers, expected 64"),
    "rows": ({}, lambda d: rename(d, "bsz-4", "bsz-8"), "expected 24 windows, found 12"),
    "no vocabulary": ({}, lambda d: (d.parent / "corpus_info.json").unlink(),
                      "spiece_model_file: give the SentencePiece model of the records in"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_one_line(place, legacy, tmp_path, case):
    changes, damage, message = BAD[case]
    shutil.copytree(legacy.folder.parent, tmp_path / "legacy")
    folder = tmp_path / "legacy" / "tfrecords"
    if damage:
        damage(folder)
    done = train(place, "legacy_bad", record_info_dir=folder, **changes)
    errors = [line for line in done.stderr.split("\n") if line and not line.startswith("WARNING")]
    assert done.returncode == 1 and len(errors) == 1 and message in errors[0], done.stderr
    assert not (place / "legacy_bad").exists()


@pytest.mark.parametrize("feature", ["is_masked", "label"])
def test_a_missing_feature_is_named(place, legacy, tmp_path, feature):
    write(tmp_path, 0, legacy.files[0], leave_out=feature)
    with pytest.raises(UserError, match="feature %s has no integers" % feature):
        LegacyManifest.read(str(tmp_path), str(place / "sp.model"))


@pytest.mark.slow
def test_more_masks_than_slots_found_while_training(place, legacy, tmp_path):
    """The name does not say how many tokens are masked; a flag names the vocabulary."""
    folder = tmp_path / "tfrecords"
    shutil.copytree(legacy.folder, folder)
    rename(folder, ".fnp-5", "")
    done = train(place, "legacy_masks", record_info_dir=folder, num_predict=3,
                 spiece_model_file=place / "sp.model")
    assert done.returncode == 1, done.stdout
    assert "train_gpu.py: num_predict is 3, but a window of the records has" in done.stderr


def test_other_vocabulary(place, legacy, tmp_path):
    done = train(place, "legacy_vocabulary", spiece_model_file=place / "tiny.json")
    assert "tiny.json is not the vocabulary of the records in" in done.stderr
    windows = dict(legacy.files[0], input=legacy.files[0]["input"] + 1)
    write(tmp_path, 0, windows)
    with pytest.raises(UserError, match="record 0 ends with the ids"):
        LegacyManifest.read(str(tmp_path), str(place / "sp.model"))
