"""train_gpu.py from the command line: trains, resumes, evaluates, starts from weights, refuses."""

import json
import re
import shutil
import types

import numpy as np
import pytest
from helpers import command
from helpers.finetuning import assert_same
from helpers.paths import RELEASED
from helpers.pretraining import complete, flags_of, losses, train, weights

from xlnet.corpus import record_files
from xlnet.pretraining import resolve

pytestmark = pytest.mark.usefixtures("quick_start")


@pytest.fixture(scope="module")
def trained(place):
    """Its held-out records are named as the original's command lines name records."""
    held_out = place / "heldout" / "tfrecords"
    return complete(place, "whole", eval_record_info_dir=held_out)


def test_held_out_before_and_after(place, trained):
    found = f"note: eval_record_info_dir: the records are in {place}/heldout\n"
    assert found in trained.stdout
    kept = json.loads((place / "whole" / "evaluations.json").read_text())["evaluations"]
    assert [one["step"] for one in kept] == [0, 4]
    found = held_out(trained.stdout)
    assert [step for step, _, _, _ in found] == ["0", "4"]
    for (_, loss, perplexity, bits), one in zip(found, kept):
        assert abs(one["loss"] - float(loss)) < 1e-4
        assert abs(np.exp(float(loss)) - float(perplexity)) < 0.02
        assert abs(np.log2(np.exp(float(loss))) - float(bits)) < 1e-3


@pytest.mark.slow
def test_what_a_run_without_checkpoints_left_is_not_continued(place, trained):
    """Its evaluation of other initial weights, and a row that a full disk cut off."""
    stopped = place / "stopped"
    stopped.mkdir()
    left = {"metric": "loss", "evaluations": [{"step": 0, "loss": 0.1}]}
    (stopped / "evaluations.json").write_text(json.dumps(left))
    (stopped / "training.csv").write_text("step,loss\n0")
    complete(place, "stopped", eval_record_info_dir=place / "heldout")
    kept = json.loads((stopped / "evaluations.json").read_text())
    assert kept == json.loads((place / "whole" / "evaluations.json").read_text())
    assert (stopped / "best").exists()
    steps = (stopped / "training.csv").read_text().splitlines()[1:]
    assert [line.partition(",")[0] for line in steps] == ["1", "2", "3", "4"]


def held_out(text):
    return re.findall(
        r"held out: step (\d+)  loss (\S+)  ppl (\S+)  bits/token (\S+)", text
    )


@pytest.mark.slow
def test_any_checkpoint_is_evaluated_without_training(place, trained):
    """What was trained says how targets are drawn; a flag goes before it. Nothing is written."""
    before = sorted((place / "whole").rglob("*"))
    names = "model_config_path train_steps warmup_steps mem_len perm_size num_predict"
    bare = dict(dict.fromkeys(names.split()), do_eval=True)
    last, records = held_out(trained.stdout)[-1:], place / "heldout"
    done = complete(place, "whole", eval_record_info_dir=records, **bare)
    assert held_out(done.stdout) == last
    assert sorted((place / "whole").rglob("*")) == before
    elsewhere = dict(init_checkpoint=place / "whole", record_info_dir=records)
    done = complete(place, "none", **bare, **elsewhere)
    assert held_out(done.stdout) == last and not (place / "none").exists()
    bare.update(eval_record_info_dir=records, num_predict=4)
    assert held_out(complete(place, "whole", **bare).stdout) != last


def test_a_resumed_run_is_the_uninterrupted_run(place, trained):
    """Dropout on, memories full: stopped after two steps and started again."""
    first = train(place, "parts", train_steps=4, eval_steps=1, save_steps=2)
    assert "note: eval_steps is 1, but nothing is evaluated without" in first.stdout
    assert re.search(r"^start +random weights$", first.stdout, re.M)
    written = f"{place}/parts: checkpoints, run.json, training.csv"
    assert re.search(rf"^writes +{written}$", first.stdout, re.M)
    assert not (place / "parts" / "model.ckpt-3.index").exists()
    # Take the run back to its second step, as if it had been killed there.
    folder = place / "killed"
    shutil.copytree(place / "parts", folder)
    for path in list(folder.glob("*-4*")):
        path.unlink()
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-2"\n')
    second = complete(place, "killed")
    assert re.search("^steps +2 to 4", second.stdout, re.M)
    assert re.search(rf"^start +{folder}, step 2$", second.stdout, re.M)
    whole = dict(losses(trained.stdout))
    assert dict(losses(first.stdout)) == whole
    assert losses(second.stdout) == [(step, whole[step]) for step in ("3", "4")]
    assert_same(weights(place, "killed"), weights(place, "whole"), atol=1e-6)


@pytest.mark.slow
def test_memory_matters_and_is_saved_beside_each_checkpoint(place, trained):
    memory = np.load(place / "whole" / "memory-4-0.npy")
    assert memory.shape == (4, 2, 8, 8)
    assert np.abs(memory).max(axis=(2, 3)).min() > 0  # each row, each layer
    shutil.copytree(place / "whole", place / "forgetful")
    (place / "forgetful" / "memory-4-0.npy").unlink()
    done = train(place, "forgetful", train_steps=5)
    found = "the memories of step 4 have the shape [], those of this run [4, 2,"
    assert found in done.stdout
    (place / "forgetful" / "memory-5-0.npy").write_bytes(b"\x93NUMPY")
    line = refused(place, "forgetful", train_steps=6)
    assert "memory-5-0.npy cannot be read: EOF" in line


@pytest.mark.slow
def test_starts_from_weights_without_slots(place, trained):
    flags = dict(train_steps=1, warmup_steps=0, learning_rate=1e-30)
    done = complete(place, "warm", init_checkpoint=place / "whole/latest", **flags)
    assert re.search(r"started from \S+model\.ckpt-4: (\d+) of \1 var", done.stdout)
    found = weights(place, "warm")
    for name, value in weights(place, "whole").items():
        if "Adam" not in name and name != "global_step":
            assert np.allclose(found[name], value, rtol=0, atol=1e-29), name


def manifest_of(split=None, content="x", digest="a"):
    """A manifest whose records have this digest."""
    made = dict(split=split, input_content=content)
    return types.SimpleNamespace(digest=digest, made_from=made)


@pytest.mark.parametrize(
    "evaluated, trained, is_noted",
    (
        (manifest_of(content=None), manifest_of(content=None), True),
        (manifest_of("all", digest="b"), manifest_of("all"), True),
        (manifest_of("heldout", digest="b"), manifest_of("train"), False),
        (manifest_of(content=None, digest="b"), manifest_of(content=None), False),
    ),
)
def test_held_out_text_that_is_trained_on_is_noted(
    caplog, evaluated, trained, is_noted
):
    resolve.note_trained_on(evaluated, trained)
    note = "note: eval_record_info_dir: its text is trained on"
    assert [each[: len(note)] for each in caplog.messages] == is_noted * [note]


BAD = {
    "--trian_steps=3": "Unknown command line flag 'trian_steps'",
    "--record_info_dir=nowhere": "no such directory: nowhere",
    "--train_batch_size=3": "expected a divisor of the 4 streams",
    "--model_config_path=": "model_config_path: found none, expected an architecture",
    "--n_token=99": "pieces",
    "--num_predict=31": "num_predict: found 31, expected at most 29",
    "--init_checkpoint=nothing": "no checkpoint nothing",
    f"--init_checkpoint={RELEASED}": "found d_model 16, expected 8",
    "--num_core_per_host=3": "a multiple of 3 replicas x 1 micro-batches",
    "--same_length=True": "objective: found permutation, expected causal",
}


@pytest.mark.parametrize("flag", BAD)
def test_bad_input_is_one_line(place, trained, flag):
    done = command.run("train_gpu.py", *flags_of(place, "bad"), flag)
    (line,) = [line for line in done.errors if not line.startswith("WARN")]
    assert done.returncode in (1, 2)
    assert line.startswith("train_gpu.py: ") and BAD[flag] in line
    assert not (place / "bad").exists()


def refused(place, model_dir, **changes):
    """The line of a run that is refused."""
    return command.refused("train_gpu.py", *flags_of(place, model_dir, **changes))


@pytest.mark.parametrize(
    "name, wanted, found", [("seq_len", 64, 32), ("uncased", True, False)]
)
def test_a_flag_that_contradicts_the_records_is_refused(place, name, wanted, found):
    line = refused(place, "contradiction", **{name: wanted})
    expected = f"expected {found}, as of the records in {place / 'train'}"
    assert line == f"train_gpu.py: {name}: found {wanted}, {expected}"


def test_a_model_directory_keeps_its_architecture(place, trained):
    other = place / "other.json"
    kept = json.loads((place / "tiny.json").read_text())
    other.write_text(json.dumps(dict(kept, d_inner=32)))
    shutil.copytree(place / "whole", place / "unlisted")
    (place / "unlisted" / "checkpoint").unlink()
    for folder in ("whole", "unlisted"):
        line = refused(place, folder, model_config_path=other)
        assert "found d_inner 16, expected 32" in line
    other.write_text(json.dumps(dict(kept, d_iner=32)))
    line = refused(place, "whole", model_config_path=other)
    assert "found 'd_iner', expected only n_layer" in line


def test_a_resume_that_fails_leaves_the_run_as_it_is(place, trained):
    shutil.copytree(place / "whole", place / "failed")
    for folder, changes, key in (
        ("failed", dict(ema_decay=0.9, allow_changes=True), "/average"),
        ("failed/best", dict(eval_record_info_dir=place / "heldout"), "/Adam"),
    ):
        kept = (place / folder / "run.json").read_text()
        line = refused(place, folder, train_steps=9, **changes)
        assert re.search(f"{folder} has no \\S+{key}: its run has", line)
        assert (place / folder / "run.json").read_text() == kept


def test_what_is_not_pretrained_with_this_vocabulary_is_refused(place, trained):
    shutil.copytree(place / "whole", place / "foreign")
    path = place / "foreign" / "spiece.model"
    without_prefix = b"\x1a\x02\x18\x00"  # of a normalizer
    path.write_bytes(path.read_bytes() + without_prefix)
    (place / "foreign" / "spiece.model.json").unlink()
    kept = place / "foreign" / "run.json"
    kept.write_text(json.dumps(dict(json.loads(kept.read_text()), text={})))
    line = refused(place, "refused", init_checkpoint=place / "foreign")
    assert "init_checkpoint: " in line and "another vocabulary" in line
    kept.write_text(json.dumps(dict(json.loads(kept.read_text()), task={})))
    foreign = dict(do_eval=True, init_checkpoint=place / "foreign")
    for flag, line in (
        ("init_checkpoint", refused(place, "refused", **foreign)),
        ("model_dir", refused(place, "foreign")),
        ("model_dir", refused(place, "foreign", learning_rate=0.5)),
    ):
        said = f"{flag}: {place / 'foreign'}: found a fine-tuned model (by {kept}), "
        assert said + "expected a pretrained one" in line
    assert not (place / "refused").exists()


@pytest.mark.slow
def test_remote_records_train_as_those_on_a_disk(place):
    """TensorFlow's file system in memory stands for gs://; blocks are smaller than the files."""
    from tensorflow.io import gfile

    for name in ("train", "heldout"):
        gfile.makedirs("ram://" + name)
        for path in (place / name).glob("*.*"):
            with gfile.GFile(f"ram://{name}/{path.name}", "wb") as f:
                f.write(path.read_bytes())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(record_files, "_BLOCK", 1000)
        records = dict(record_info_dir="ram://train", eval_steps=2)
        held = dict(eval_record_info_dir="ram://heldout")
        remote = complete(place, "remote", **records, **held)
    here = train(place, "here", eval_record_info_dir=place / "heldout", eval_steps=2)
    assert losses(remote.stdout) == losses(here.stdout) != []
    flags = flags_of(place, "none", record_info_dir="ram://heldout")
    flags = [flag for flag in flags if not flag.startswith("--model_dir")]
    line = command.refused("train_gpu.py", *flags)
    assert "model_dir: found none, expected one: ram://heldout is not" in line
