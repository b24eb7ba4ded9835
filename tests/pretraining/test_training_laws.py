"""Laws of pretraining runs under any settings: resumed = uninterrupted, cut into micro-batches or
replicas = whole, and each checkpoint holds weights that can be used."""

import shutil

import numpy as np
import pytest
from helpers.finetuning import assert_same
from helpers.laws import law
from helpers.pretraining import complete, curve, weights
from hypothesis import strategies as st

from xlnet.engine import checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_start")]

SETTINGS = st.fixed_dictionaries(
    dict(
        objective=st.sampled_from(["permutation", "causal", "masked"]),
        precision=st.sampled_from(["fp32", "bf16", "fp16"]),
        init_std=st.sampled_from([0.02, 0.5]),
        ema_decay=st.sampled_from([0.0, 0.5, 0.9]),
        weight_decay=st.sampled_from([0.0, 0.1]),
        lr_layer_decay_rate=st.sampled_from([1.0, 0.5]),
        clip=st.sampled_from([0.1, 1e3]),
        decay_method=st.sampled_from(["poly", "cos", "constant"]),
        warmup_steps=st.sampled_from([0, 2]),
        legacy_optimizer=st.booleans(),
        next_segment_loss=st.sampled_from([0.0, 1.0]),
        mem_len=st.sampled_from([0, 5, 40]),
        mask_mode=st.sampled_from(["whole_word", "token", "legacy"]),
        recompute=st.booleans(),
        untie_r=st.booleans(),
        clamp_len=st.sampled_from([-1, 3]),
        n_layer=st.just(1),
        seed=st.sampled_from([0, 2**32 - 1]),
    )
)
CUTS = st.sampled_from(
    [
        dict(grad_accum_steps=2),
        dict(grad_accum_steps=4),
        dict(num_core_per_host=2, grad_accum_steps=2),
        dict(num_core_per_host=4),
    ]
)
STEPS = 3
# Of the losses. A sum over other parts is rounded otherwise, and fp16 overflows in other steps.
TOLERANCE = dict(fp32=1e-4, bf16=2e-2, fp16=1e-1)


@law(2, 60, settings=SETTINGS, cut=CUTS, step=st.integers(1, STEPS - 1))
def test_a_run_is_the_same_resumed_and_cut(place, settings, cut, step):
    for folder in ("whole", "resumed", "cut"):
        shutil.rmtree(place / folder, ignore_errors=True)
    run(place, "whole", settings)
    shutil.copytree(place / "whole", place / "resumed")
    for later in range(step + 1, STEPS + 1):
        for path in (place / "resumed").glob(f"m*-{later}*"):
            path.unlink()
    run(place, "resumed", settings)
    assert_same(arrays(place, "resumed", STEPS), arrays(place, "whole", STEPS))
    np.testing.assert_array_equal(curve(place, "resumed"), curve(place, "whole"))
    found, wanted = (place / name / "evaluations.json" for name in ("resumed", "whole"))
    assert found.read_text() == wanted.read_text()
    check_checkpoints(place, settings["ema_decay"])
    run(place, "cut", dict(settings, **cut), eval_record_info_dir=None)
    losses, expected = curve(place, "cut")[:, 1], curve(place, "whole")[:, 1]
    tolerance = TOLERANCE[settings["precision"]]
    np.testing.assert_allclose(losses, expected, rtol=tolerance)


def run(place, folder, settings, **more):
    steps = dict(train_steps=STEPS, save_steps=1, eval_steps=1, max_save=0)
    held_out = dict(eval_record_info_dir=place / "heldout")
    complete(place, folder, **{**settings, **steps, **held_out, **more})


def arrays(place, folder, step):
    """All variables of the checkpoint of a step, by name."""
    return weights(place, f"{folder}/model.ckpt-{step}")


def check_checkpoints(place, decay):
    """The weights that are read are those of the step, or the mean of those after each update so
    far, an older one counting `decay` times less; `best/` has those of its step."""
    history, counted, read = [], 0, {}
    for step in range(1, STEPS + 1):
        stored = arrays(place, "whole", step)
        updates = int(stored.get(checkpoint.UPDATES, step))
        history = history + [stored] if updates > counted else history
        counted, prefix = updates, str(place / "whole" / f"model.ckpt-{step}")
        read[step] = checkpoint.read_weights(prefix)
        counts = decay ** np.arange(len(history))[::-1]
        for name, found in read[step].items():
            mean = stored[name]
            if decay and history:
                means = [count * one[name] for count, one in zip(counts, history)]
                mean = sum(means) / counts.sum()
            np.testing.assert_allclose(found, mean, rtol=1e-4, atol=1e-6, err_msg=name)
            assert np.isfinite(found).all()
    prefix = checkpoint.newest(str(place / "whole" / "best"))
    step = checkpoint.step_in_name(prefix)
    assert_same(checkpoint.read_weights(prefix), read[step])
