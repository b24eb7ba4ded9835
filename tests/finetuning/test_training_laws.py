"""Laws of fine-tuning runs under any settings: frozen weights do not change by a bit, resumed =
uninterrupted, cut = whole, and each checkpoint, that of step 0 too, holds weights to predict with.
"""

import json
import re
import shutil

import numpy as np
import pytest
from helpers.finetuning import assert_same, make_workspace, weights
from helpers.laws import law
from hypothesis import strategies as st

from xlnet.engine import checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_start")]

STEPS, LAYERS = 3, 2
SETTINGS = st.fixed_dictionaries(
    dict(
        freeze_layers=st.integers(0, LAYERS),
        untie_r=st.booleans(),
        weight_decay=st.sampled_from([0.0, 0.1]),
        ema_decay=st.sampled_from([0.0, 0.9]),
        precision=st.sampled_from(["fp32", "bf16", "fp16"]),
        init_std=st.sampled_from([0.02, 0.5]),
        lr_layer_decay_rate=st.sampled_from([1.0, 0.5]),
        legacy_optimizer=st.booleans(),
        clip=st.sampled_from([0.1, 1e3]),
        decay_method=st.sampled_from(["poly", "cos", "constant"]),
        summary_type=st.sampled_from(["last", "attn"]),
    )
)
CUTS = st.sampled_from(
    [dict(grad_accum_steps=2), dict(grad_accum_steps=4), dict(num_core_per_host=2)]
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return make_workspace(tmp_path_factory.mktemp("laws"))


@law(2, 60, settings=SETTINGS, cut=CUTS, step=st.integers(0, STEPS - 1))
def test_frozen_resumed_and_kept(place, settings, cut, step):
    for folder in ("whole", "resumed", "cut"):
        shutil.rmtree(place.directory / folder, ignore_errors=True)
    run(place, "whole", settings)
    check_frozen(place, settings)
    shutil.copytree(place.directory / "whole", place.directory / "resumed")
    for later in range(step + 1, STEPS + 1):
        for path in (place.directory / "resumed").glob(f"model.ckpt-{later}.*"):
            path.unlink()
    run(place, "resumed", settings)
    assert_same(
        *(
            weights(place.path(folder, f"model.ckpt-{STEPS}"))
            for folder in ("resumed", "whole")
        )
    )
    check_predictions(place, settings)
    if settings["precision"] == "fp32":
        # Without dropout, which depends on where an example is in the batch.
        still = dict(settings, dropout=0, dropatt=0, clip=1e3)
        shutil.rmtree(place.directory / "whole")
        losses = [
            run(place, folder, dict(still, **more))
            for folder, more in (("whole", {}), ("cut", cut))
        ]
        np.testing.assert_allclose(*losses, rtol=1e-3)


def run(place, folder, settings, *arguments):
    """The losses of the lines of a run of two layers."""
    (place.directory / "config.json").write_text(
        json.dumps(
            dict(
                n_layer=LAYERS,
                d_model=8,
                n_head=2,
                d_head=4,
                d_inner=16,
                ff_activation="gelu",
                untie_r=settings["untie_r"],
                n_token=37,
            )
        )
    )
    settings = {name: value for name, value in settings.items() if name != "untie_r"}
    out = place.succeed(
        "--do_train=True",
        *arguments,
        **dict(
            settings,
            model_dir=place.path(folder),
            model_config_path=place.path("config.json"),
            train_steps=STEPS,
            save_steps=1,
            eval_steps=1,
            max_save=0,
            log_steps=1,
            learning_rate=0.01,
        ),
    )
    return [
        float(loss) for loss in re.findall(r"^step +\d+/\d+  loss +(\S+)", out, re.M)
    ]


def check_frozen(place, settings):
    """The embeddings and the lowest layers, rows of what stacks all layers, and what all layers
    share once all of them are frozen."""
    count, first, last = (
        settings["freeze_layers"],
        *(
            checkpoint.read_weights(place.path("whole", f"model.ckpt-{step}"))
            for step in (1, STEPS)
        ),
    )
    assert set(first) == set(last)
    for name, value in first.items():
        layer = re.search(r"/layer_(\d)/", name)
        stacked = re.search("seg_embed|r_._bias", name) and (
            settings["untie_r"] or "seg_embed" in name
        )
        rows = (
            slice(count)
            if stacked
            else slice(
                None
                if count
                and (
                    "_emb" in name
                    or layer
                    and int(layer[1]) < count
                    or count == LAYERS
                    and "r_" in name
                    and "_bias" in name
                )
                else 0
            )
        )
        np.testing.assert_array_equal(last[name][rows], value[rows], err_msg=name)


def check_predictions(place, settings):
    """Each checkpoint predicts finite values, others than zero weights do."""
    place.succeed(
        "--do_eval=True",
        "--eval_all_ckpt=True",
        **dict(
            model_dir=place.path("whole"),
            model_config_path=place.path("config.json"),
            precision=settings["precision"],
            summary_type=settings["summary_type"],
        ),
    )
    found = json.loads(
        (place.directory / "whole" / "eval_results_dev.json").read_text()
    )
    results = found["checkpoints"]
    assert [one["step"] for one in results] == list(range(1, STEPS + 1))
    for step, one in enumerate(results, 1):
        weights = checkpoint.read_weights(place.path("whole", f"model.ckpt-{step}"))
        assert np.isfinite(one["loss"])
        assert all(
            np.isfinite(value).all() and (value.any() or re.search("bias|beta", name))
            for name, value in weights.items()
        )
