"""Paths that are mistyped: what is there instead is named, before anything else is missed."""

import dataclasses
import json
import shutil

import pytest
from helpers import command
from helpers.pretraining import flags_of

from xlnet.corpus.manifest import Manifest


def test_an_initial_checkpoint_that_is_not_there(tmp_path):
    """Before the files next to it are missed, such as the vocabulary."""
    (tmp_path / "train.csv").write_text("text,label\na,b\n")
    line = command.refused(
        "run_classifier.py",
        "--do_train",
        task_name="custom",
        data_dir=tmp_path / "train.csv",
        text_a_column="text",
        model_dir=tmp_path / "out",
        init_checkpoint=tmp_path / "far_away",
    )
    assert (
        line
        == f"run_classifier.py: init_checkpoint: found no checkpoint {tmp_path}/far_away, "
        "expected one that exists"
    )


@pytest.mark.usefixtures("quick_start")
def test_records_that_are_elsewhere_or_of_another_vocabulary(place):
    refused = lambda **changes: command.refused(
        "train_gpu.py", *flags_of(place, "refused", **changes)
    )
    assert "record_info_dir: found no such directory: {}".format(
        place / "trian"
    ) in refused(record_info_dir=place / "trian")
    assert "eval_record_info_dir: found no such directory: %s" % (
        place / "hedlout"
    ) in refused(eval_record_info_dir=place / "hedlout")
    assert "n_token: found 5, expected " in refused(n_token=5)
    assert f"record_info_dir: found no manifest.json in {place}, expected" in refused(
        record_info_dir=place
    )
    other = shutil.copytree(place / "heldout", place / "other")
    manifest = Manifest.read(str(other))
    (other / "manifest.json").write_text(
        json.dumps(
            dataclasses.asdict(dataclasses.replace(manifest, sp_model_sha256="0" * 64))
        )
    )
    line = refused(eval_record_info_dir=other)
    expected = "expected the vocabulary {}/spiece.model of {} pieces; make them again"
    assert line.startswith(
        f"train_gpu.py: eval_record_info_dir: {other}: found the vocabulary "
    )
    assert line.endswith(expected.format(place / "train", manifest.vocab_size))
    assert not (place / "refused").exists()
