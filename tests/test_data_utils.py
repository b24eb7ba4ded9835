"""data_utils.py from the command line: what it writes, that it repeats itself, what it refuses."""

import json
import os
import re
import shutil

import numpy as np
import pytest
from helpers.preparation import REUSE_LEN, SEQ_LEN, SHAPE, make_workspace

from xlnet.corpus import record_files
from xlnet.corpus.manifest import Manifest
from xlnet.settings.data import CorpusSettings
from xlnet.support import files

PASSES = 2


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return make_workspace(str(tmp_path_factory.mktemp("data_utils")))


@pytest.fixture(scope="module")
def made(workspace):
    """The manifest, and the sequences of each stream and pass: `{(stream, pass): [W, ...]}`."""
    import tensorflow as tf

    unused = ["--num_core_per_host=1", "--mask_alpha=6", "--num_predict=85"]
    done = workspace.run(*SHAPE, *unused, "--bsz_per_host=4", f"--num_passes={PASSES}")
    assert done.returncode == 0, done.stderr
    noted = "note: not used: --mask_alpha, --num_core_per_host, --num_predict"
    assert noted in done.stderr and "documents 12," in done.stdout
    manifest = Manifest.read(workspace.path("out"))
    sequences = {}
    for stream, path in enumerate(manifest.stream_paths(workspace.path("out"))):
        batch = tf.data.TFRecordDataset(path).batch(100000).get_single_element()
        parsed = record_files.parse(record_files.pretraining_features(SEQ_LEN), batch)
        for name, value in parsed.items():
            for number, part in enumerate(np.split(value.numpy(), PASSES)):
                sequences.setdefault((stream, number), {})[name] = part
    return manifest, sequences


@pytest.fixture(scope="module")
def text_ids(workspace):
    """The corpus as ids, encoded here by SentencePiece alone."""
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=workspace.path("sp.model"))
    ids = []
    for document in workspace.documents:
        for sentence in document:
            ids += model.encode(sentence.replace("é", "e"))
        ids += [8, 7]  # <eop> <eod>
    return ids


def test_manifest_describes_the_files(workspace, made, text_ids):
    manifest, sequences = made
    shape = manifest.seq_len, manifest.reuse_len, manifest.num_streams
    assert shape == (SEQ_LEN, REUSE_LEN, 4)
    assert (manifest.documents, manifest.vocab_size, manifest.bi_data) == (12, 80, True)
    assert manifest.tokens == len(text_ids)
    for i, stream in enumerate(manifest.streams):
        assert stream["file"] == f"stream-{i:05}-of-00004.tfrecord"
        path = workspace.path("out", stream["file"])
        assert stream["bytes"] == os.path.getsize(path)
        assert stream["sha256"] == files.sha256(path)
        assert stream["windows"] == manifest.windows_per_stream
        assert stream["direction"] == i % 2
    vocabulary = workspace.path("out", manifest.sp_model)
    assert files.sha256(vocabulary) == manifest.sp_model_sha256
    for part in sequences.values():
        assert len(part["label"]) * PASSES == manifest.windows_per_stream


def test_streams_spell_the_text_in_both_directions(made, text_ids):
    _, sequences = made
    half = len(text_ids) // 2
    first, second = text_ids[:half], text_ids[half : 2 * half]
    for stream, expected in enumerate((first, first[::-1], second, second[::-1])):
        text = sequences[stream, 0]["input"][:, :REUSE_LEN].ravel().tolist()
        assert text == expected[: len(text)]
        assert len(expected) - len(text) < SEQ_LEN  # no more sequences would fit


def test_one_seed_gives_the_same_bytes_for_any_number_of_workers(workspace, made):
    flags = [*SHAPE, "--num_streams=4", "--num_passes=2", "--num_workers=3"]
    done = workspace.run(*flags, save_dir="again")
    assert done.returncode == 0, done.stderr
    again, out = workspace.path("again"), workspace.path("out")
    assert Manifest.read(again) == Manifest.read(out)  # with checksums
    assert sorted(os.listdir(again)) == sorted(os.listdir(out))


@pytest.mark.parametrize(
    "arguments, places, message",
    [
        ([], {"input_glob": "none*.txt"}, "input_glob: found no file"),
        ([], {"input_glob": "blank.txt"}, "input_glob: found no text in"),
        ([], {"sp_path": "none.model"}, "no such file"),
        ([], {"save_dir": "text.txt"}, "save_dir: found the file .*, expected a direc"),
        (["--split=heldout", "--heldout_share=1e-9"], {}, "of the other part .*: 12"),
        (["--reuse_len=60"], {}, "reuse_len: found 60, expected at most .* = 59"),
        (["--seq_len=5"], {}, "seq_len: found 5, expected at least 6"),
        (
            ["--from_raw_text=False", "--input_format=paragraphs"],
            {},
            "input_format: found paragraphs",
        ),
        (["--num_task=4", "--task=4"], {}, "task: found 4"),
    ],
)
def test_bad_input_is_refused_in_one_line(workspace, arguments, places, message):
    done = workspace.run(*SHAPE, *arguments, **{"save_dir": "refused", **places})
    (line,) = done.errors
    assert done.returncode in (1, 2) and re.match(f"data_utils.py: .*{message}", line)
    if os.path.exists(workspace.path("refused")):  # tokens, if there were any
        assert os.listdir(workspace.path("refused")) == ["unfinished"]
        shutil.rmtree(workspace.path("refused"))


@pytest.mark.parametrize(
    "seq_len, reuse_len", [(6, 1), (7, 2), (8, 3), (9, 4), (511, 255)]
)
def test_the_default_of_reuse_len_leaves_room_for_two_segments(seq_len, reuse_len):
    names = dict(input_glob="text", save_dir="out", sp_path="model")
    settings = CorpusSettings(**names, seq_len=seq_len)
    settings.check()
    assert settings.resolved().reuse_len == reuse_len


def test_records_for_a_preset_are_what_it_trains_on(workspace, tmp_path):
    preset = dict(seq_len=32, reuse_len=16, num_streams=6, mem_len=24)
    preset.update(learning_rate=1e-3, model_config_path="tiny.json")
    (tmp_path / "preset.json").write_text(json.dumps(preset))
    out = tmp_path / "out"
    done = workspace.run(f"--config={tmp_path / 'preset.json'}", save_dir=out)
    assert done.returncode == 0, done.stderr
    manifest = Manifest.read(str(out))
    assert (manifest.seq_len, manifest.reuse_len, manifest.num_streams) == (32, 16, 6)
    flags = ["--seq_len=32", "--reuse_len=16", "--num_streams=6"]
    same = workspace.run(*flags, save_dir=out)
    assert "nothing to do" in same.stdout
