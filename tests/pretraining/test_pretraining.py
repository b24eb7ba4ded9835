"""Objectives, precisions, optimization, reports and presets of pretraining, by train_gpu.py."""

import dataclasses
import glob
import json
import os
import re
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers import command
from helpers.paths import ROOT
from helpers.pretraining import (
    complete,
    curve,
    features,
    losses_of_steps,
    run_of,
    train,
    weights,
)

from xlnet.corpus.manifest import Manifest
from xlnet.engine import loop, progress
from xlnet.engine.devices import Devices
from xlnet.pretraining import resolve
from xlnet.pretraining.held_out import outputs
from xlnet.settings.fields import presets_of
from xlnet.settings.network import ArchitectureSettings
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.support.errors import UserError

pytestmark = pytest.mark.usefixtures("quick_start")


def held_out(printed):
    found = re.findall(r"^held out: step \d+  loss (\S+)", printed, re.M)
    return list(map(float, found))


def evaluation_of(place, name, **others):
    """The flags of an evaluation of a run."""
    where = dict(init_checkpoint=place / name, record_info_dir=place / "heldout")
    return dict(where, do_eval=True, device="cpu", **others)


OWN_MODULE = ROOT / "examples" / "own_pretraining" / "left_to_right.py"


@pytest.mark.slow
def test_an_order_and_an_objective_of_ones_own(place):
    """Trained and evaluated by the flags."""
    # Weights that are large enough for attention to matter before it has learned anything.
    each = dict(eval_record_info_dir=place / "heldout", init_std=0.5, train_steps=2)
    own = dict(each, own_module=OWN_MODULE)
    losses = []
    for name, flags in (
        ("uniform", each),
        ("ordered", dict(own, factorization_order="left_to_right")),
        ("all_masked", dict(own, objective="all_masked")),
    ):
        losses.append(held_out(complete(place, name, **flags).stdout))
    assert [len(each) for each in losses] == [2, 2, 2]
    # The same weights and targets, in another order, or seen in another way.
    assert len({each[0] for each in losses}) == 3
    # The kept settings say the order, so that the flag need not be given again. Targets and orders
    # of an evaluation are the same with any seed.
    asked = evaluation_of(place, "ordered", own_module=OWN_MODULE, seed=1)
    evaluated = command.succeed("train_gpu.py", **asked)
    assert held_out(evaluated.stdout) == losses[1][1:]
    unknown = train(place, "unknown", objective="all_maskd", own_module=OWN_MODULE)
    assert unknown.returncode == 1
    assert "objective: found 'all_maskd', expected one of " in unknown.stderr
    assert ", all_masked; --own_module" in unknown.stderr
    assert not (place / "unknown").exists()


def test_a_network_has_the_vocabulary_of_the_records():
    """With a preset and with initial weights, too, which are compared with it later."""
    settings = PretrainingSettings(
        record_info_dir="r", model_config_path="tiny", init_checkpoint="c"
    )
    start = resolve.Start("c/model.ckpt-1", "init_checkpoint")
    of_records = types.SimpleNamespace(vocab_size=49)
    config = resolve.choose_architecture(
        settings, ArchitectureSettings(), of_records, start
    )
    assert config.n_token == 49


def test_micro_batches_train_as_the_whole_batch():
    """The loss and its gradients; with dropout, whose masks belong to batch elements."""
    whole, parts = (
        losses_of_steps(run_of({}, {}, dict(mem_len=8, grad_accum_steps=count)))
        for count in (1, 2)
    )
    np.testing.assert_allclose(parts, whole, rtol=2e-5)


@pytest.mark.parametrize("objective", ("causal", "masked"))
@pytest.mark.slow
def test_other_objectives_learn(place, objective):
    extra, predicted = dict(num_predict=10), "10"
    if objective == "causal":  # num_predict is not read: more than a window has
        extra, predicted = dict(same_length=True, num_predict=85), "all"
    done = complete(
        place,
        objective,
        objective=objective,
        next_segment_loss=0.5,
        eval_record_info_dir=place / "heldout",
        train_steps=60,
        eval_steps=30,
        save_steps=60,
        **extra,
    )
    assert f"reused, memory 8, {predicted} predicted\n" in done.stdout
    losses = held_out(done.stdout)
    assert len(losses) == 3 and losses[2] < losses[0] - 0.2, losses
    assert len(re.findall(r"next segment 0\.\d{4}$", done.stdout, re.M)) == 3
    names = set(weights(place, objective))
    assert "model/classification_next_segment/logit/kernel" in names
    assert not any("mask_emb" in name for name in names)  # only the query stream has it
    # So it cannot be evaluated as a permutation language model.
    other = dict(objective="permutation", same_length=False, num_predict=10)
    asked = evaluation_of(place, objective, **other)
    line = command.refused("train_gpu.py", **asked)
    assert "ckpt-60: found no model/transformer/mask_emb/mask_emb, expected" in line


@pytest.mark.slow
def test_precisions_train_alike(place):
    """300 steps of a small network: bf16 and fp16 end within 2 % of the float32 loss."""
    last = {}
    for precision in ("fp32", "bf16", "fp16"):
        complete(place, precision, precision=precision, train_steps=300, log_steps=50)
        last[precision] = curve(place, precision)[-2:, 1].mean()
    assert last["fp32"] < 3.2, last  # from 3.9
    for precision in ("bf16", "fp16"):
        assert abs(last[precision] / last["fp32"] - 1) < 0.02, last
    stored = weights(place, "fp16")
    assert stored["loss_scale/scale"] >= 1 and stored["loss_scale/good_steps"] > 200


def board(folder):
    """Scalars {tag: {step: value}} of TensorBoard's files."""
    scalars = {}
    for path in glob.glob(str(folder / "cache" / "events*")):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                scalars.setdefault(value.tag, {})[event.step] = value.simple_value
    return scalars


@pytest.fixture(scope="module")
def reported(place):
    steps = dict(eval_steps=5, train_steps=10, save_steps=5, warmup_steps=2)
    averaged = dict(eval_record_info_dir=place / "heldout", ema_decay=0.9)
    return complete(place, "reported", **steps, **averaged)


@pytest.mark.slow
def test_tensorboard_and_csv_say_the_same(place, reported):
    scalars = board(place / "reported")
    for name in "gradient_norm gradient_scale per_second memory_gib".split():
        assert list(scalars[name]) == list(range(1, 11)), name
    rates = [scalars["learning_rate"][step] for step in (1, 2, 3)]  # a fifth is warm-up
    np.testing.assert_allclose(rates, [0.0, 0.005, 0.01], rtol=1e-6)
    losses = curve(place, "reported")[:, 1]
    np.testing.assert_allclose(list(scalars["loss"].values()), losses, rtol=1e-5)
    evaluated = scalars["eval/loss"]
    assert [round(loss, 4) for loss in evaluated.values()] == held_out(reported.stdout)
    bits, perplexity = scalars["eval/bits_per_token"], scalars["eval/perplexity"]
    assert set(evaluated) == set(bits) == set(perplexity) == {0, 5, 10}
    for step, loss in evaluated.items():
        found, expected = (
            (perplexity[step], bits[step]),
            (np.exp(loss), loss / np.log(2)),
        )
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.slow
def test_the_best_checkpoint_has_the_averages_as_weights(place, reported):
    """And no slots: it is to start from, here or in run_classifier.py."""
    losses = dict(zip((0, 5, 10), held_out(reported.stdout)))
    best = min((5, 10), key=losses.get)
    files = {path.name for path in (place / "reported" / "best").iterdir()}
    checkpoint = {"checkpoint", f"model.ckpt-{best}.index"}
    checkpoint.add(f"model.ckpt-{best}.data-00000-of-00001")
    sidecars = {"run.json", "xlnet_config.json", "spiece.model", "spiece.model.json"}
    assert files == checkpoint | sidecars
    stored = weights(place, f"reported/model.ckpt-{best}")
    kept = weights(place, "reported/best")
    names = [name for name in stored if name + "/average" in stored]
    assert set(kept) == {*names, "global_step"} and len(names) > 30
    for name in names:
        np.testing.assert_array_equal(kept[name], stored[name + "/average"])
    name = "model/transformer/layer_0/ff/layer_1/kernel"
    assert 0 < np.abs(kept[name] - stored[name]).max() < 0.1
    texts = place / "texts.tsv"
    texts.write_text("text_a\tlabel\n" + "kamat telok\tx\nsolkat dakar\ty\n" * 8)
    command.succeed(
        "xlnet classify",
        data_dir=texts,
        do_train=True,
        model_dir=place / "tuned",
        init_checkpoint=place / "reported" / "best",
        max_seq_length=16,
        train_steps=1,
        eval_steps=0,
        dev_share=0,
        learning_rate=1e-30,
        device="cpu",
    )
    tuned = weights(place, "tuned/model.ckpt-1")
    np.testing.assert_array_equal(tuned[name], kept[name])


@pytest.mark.parametrize("objective", ("permutation", "causal", "masked"))
@pytest.mark.slow
def test_memories_are_carried_through_evaluation(objective):
    """The same batch twice: the second time it is remembered, unless streams start anew."""
    run = run_of({}, dict(init_std=0.3), dict(mem_len=8, objective=objective))
    for starts, is_same in ((0, False), (1, True)):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.train.get_or_create_global_step()
            batch = features()
            batch["starts_stream"] = tf.fill(batch["starts_stream"].shape, starts)
            loss = tf.reduce_mean(outputs(run, batch)["losses"])
            session.run(tf.global_variables_initializer())
            session.run(tf.local_variables_initializer())
            first, second = session.run(loss), session.run(loss)
        assert (abs(first - second) < 1e-6) == is_same


@pytest.mark.slow
def test_what_is_masked_in_an_evaluation_depends_on_the_sequence_alone(place):
    """Not on the step, nor on the row of the batch."""
    run = dict(objective="masked", learning_rate=1e-30, mem_len=0, n_layer=1)
    run.update(eval_steps=1, train_steps=2, eval_record_info_dir=place / "heldout")
    found = []
    for parts in (1, 2):
        done = complete(place, f"masked_{parts}", grad_accum_steps=parts, **run)
        found += held_out(done.stdout)
    assert len(found) == 6 and len(set(found)) == 1


GOOD = dict(loss=3.0, gradient_norm=1.0, gradient_scale=1.0)


def report(steps):
    """Tells a `Progress` what the steps from 7 on brought."""
    settings = PretrainingSettings(record_info_dir="", model_dir="none")
    run = types.SimpleNamespace(settings=settings, devices=Devices(None, host=1))
    reported = progress.Progress(run, 6)
    for step, values in enumerate(steps, 7):
        reported.add(step, values, 1.0)


@pytest.mark.parametrize(
    "wrong", (dict(loss=np.float32("nan")), dict(gradient_norm=np.inf))
)
def test_what_stops_a_run(wrong):
    halved = dict(GOOD, gradient_norm=np.inf, gradient_scale=2.0)  # which does no harm
    fine = [GOOD, dict(GOOD, loss=99.0), halved]
    report(fine)
    with pytest.raises(UserError, match="^loss: found .* at step 10, and"):
        report([*fine, dict(GOOD, **wrong)])


# ---- presets


@pytest.mark.parametrize("name, settings", presets_of("pretrain").items())
def test_the_program_takes_the_preset(place, tmp_path, monkeypatch, name, settings):
    """Up to the first step: its settings fit each other, and records of the shape that it names."""
    preset = dict(settings)
    about = preset.pop("about")
    flags = {"record_info_dir": place / "train", "model_dir": tmp_path / "model"}
    is_ablation = name.startswith("ablation/")
    if is_ablation:  # which has only what differs from row to row
        flags.update(
            model_config_path="tiny",
            train_batch_size=8,
            perm_size=64,
            num_predict=128 // about["k"],
        )
    run = dict(flags, **preset)
    # What is read of records before the first step: a manifest, and the vocabulary.
    shape = dict(seq_len=128, reuse_len=64, bi_data=True, num_streams=8)
    shape = {name: run.get(name, default) for name, default in shape.items()}
    made = Manifest.read(str(place / "train"))
    records = dataclasses.replace(made, **shape)
    monkeypatch.setattr(Manifest, "read", lambda *given: records)
    # Neither a TPU nor GPUs are looked for.
    flags.update(n_token=made.vocab_size, use_tpu=False, device="cpu")
    started = []
    monkeypatch.setattr(loop, "fit", lambda run, *_: started.append(run))
    done = command.run("train_gpu.py", f"--config={name}", **flags)
    assert done.returncode == 0, done.stderr
    (tmp_path / "model").mkdir()
    started[0].write_document()
    kept = json.loads((tmp_path / "model" / "run.json").read_text())["resolved"]
    assert os.path.isabs(kept["record_info_dir"])
    for name in preset.keys() - {"use_tpu", "model_config_path", "num_streams"}:
        assert kept[name] == preset[name], name
    if not is_ablation:
        (job,) = started
        assert job.unit == ("tokens", about["tokens_per_step"])
        assert job.unit[1] * kept["train_steps"] == about["total_tokens"]
        assert about["memory"] and about["for"]
