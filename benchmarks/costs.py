"""Operations, bytes and messages of a step, from the configuration alone.

Shape letters as in `xlnet.model.modeling`; `config` is a dict with its keys. Counts only what
grows with the model: matmuls, and the tensors that the backward pass needs.
"""

import json
import os

from repository import ROOT
from work import Work

FLOAT = 4  # bytes


def parameters(config):
    """Weights of the network, the biases of the language model's softmax included."""
    d, heads, f = (
        config["d_model"],
        config["n_head"] * config["d_head"],
        config["d_inner"],
    )
    layer = 5 * d * heads + 2 * d * f + f + d + 4 * d
    biases = (
        5 * heads if config["untie_r"] else 2 * heads + 3 * heads / config["n_layer"]
    )
    return config["n_layer"] * (layer + biases) + config["n_token"] * (d + 1) + d


def query_rows(config, work, layer):
    """(content rows, targets) of a layer, per example: above the last keys only the targets are
    left."""
    is_last = layer == config["n_layer"] - 1
    return (0 if work.targets and is_last else work.length), work.targets


def forward_operations(config, work):
    """Floating-point operations of matmuls, by part; a multiply-add is two."""
    d, heads, f = (
        config["d_model"],
        config["n_head"] * config["d_head"],
        config["d_inner"],
    )
    b, keys = work.batch, work.memory + work.length
    parts = dict.fromkeys(("projections", "attention", "feed-forward", "softmax"), 0.0)
    for layer in range(config["n_layer"]):
        content, targets = query_rows(config, work, layer)
        rows = content + targets
        parts["projections"] += (
            2 * d * heads * (2 * b * rows + 2 * b * keys + keys + work.length)
        )
        scores = 2 * rows * keys + rows * (keys + work.length)
        parts["attention"] += 2 * b * heads * scores
        parts["feed-forward"] += 4 * b * rows * d * f
    parts["softmax"] = 2.0 * b * work.targets * d * config["n_token"]
    return parts


def step_operations(config, work, recompute=False):
    """Operations of a step: the backward pass has two matmuls for each of the forward pass, except
    for keys and values of the memory, where only the kernels have a gradient. The softmax over the
    vocabulary is not computed again."""
    parts = forward_operations(config, work)
    forward = sum(parts.values())
    if work.kind == "infer":
        return forward
    heads = config["n_head"] * config["d_head"]
    of_memory = (
        config["n_layer"] * 4 * work.batch * work.memory * config["d_model"] * heads
    )
    again = forward - parts["softmax"] if recompute else 0
    return 3 * forward + again - of_memory


def layer_activations(config, work, layer, size=FLOAT):
    """Bytes that the backward pass of a layer needs; `size` of a number in the compute dtype."""
    d, heads, f = (
        config["d_model"],
        config["n_head"] * config["d_head"],
        config["d_inner"],
    )
    b, keys = work.batch, work.memory + work.length
    content, targets = query_rows(config, work, layer)
    rows = content + targets
    narrow = (
        size * (5 * d + 5 * heads) + 2 * d
    )  # inputs, norms, q, heads; what dropout kept
    wide = size * f + f  # before GELU; what dropout kept
    shared = size * (keys * (d + 2 * heads) + (keys + work.length) * heads)
    scores = size * config["n_head"] * rows * keys
    return b * (rows * (narrow + wide) + shared + scores)


def activations(config, work, recompute=False, size=FLOAT):
    """Bytes kept between forward and backward pass, and in the layer that is at work."""
    layers = [
        layer_activations(config, work, i, size) for i in range(config["n_layer"])
    ]
    loss = 3 * FLOAT * work.batch * work.targets * config["n_token"]
    if not recompute:
        return sum(layers) + loss
    rows = work.batch * (work.length + work.targets)
    return len(layers) * rows * config["d_model"] * size + max(layers) + loss


def state_bytes(config):
    """Weights, gradients and Adam's two moments, all float32."""
    return 4 * FLOAT * parameters(config)


# ---- the table of scaling.md: `python benchmarks/costs.py`

PAPER_ROWS = 500e3 * 8192  # the paper's run, appendix A.3: steps × rows of 512 tokens
GPU_SHARE = 0.35  # of its rate that a GPU is assumed to reach
TPU_CHIP = 123e12  # bfloat16 operations/s of a TPU v3 chip
# (name, devices, bfloat16 operations/s of one, its share of links to the others [bytes/s])
MACHINES = (
    ("1 A100", 1, 312e12, 300e9),
    ("8 A100, one host", 8, 312e12, 300e9),
    ("64 A100, 8 hosts of 200 GB/s", 64, 312e12, 25e9),
    ("1 H100", 1, 989e12, 450e9),
    ("8 H100, one host", 8, 989e12, 450e9),
    ("64 H100, 8 hosts of 400 GB/s", 64, 989e12, 50e9),
    ("512 TPU v3 chips (the paper's)", 512, TPU_CHIP, 70e9),
)


def pretraining(rows):
    """The paper's sequences: 512 tokens, memory 384, 85 targets."""
    return Work("pretrain", rows, length=512, memory=384, targets=85)


def gradient_traffic(config, devices):
    """Bytes that each of some devices sends in a step: float32 gradients added up in a ring."""
    return 2 * (devices - 1) / devices * FLOAT * parameters(config)


def tpu_share(large):
    """The share of the chips' rate that the paper's 5.5 days on 512 TPU v3 chips mean."""
    return (
        step_operations(large, pretraining(1))
        * PAPER_ROWS
        / (5.5 * 86400 * 512 * TPU_CHIP)
    )


def scale_rows(name, config, share_of_tpu, rows=32):
    """The table's lines of a model whose devices have some rows each."""
    operations = step_operations(config, pretraining(1))
    for machine, devices, rate, link in MACHINES:
        share = share_of_tpu if "TPU" in machine else GPU_SHARE
        tokens = 512 * devices * rate * share / operations
        days = PAPER_ROWS * 512 / tokens / 86400
        yield (
            f"| {name} | {machine} | {1e3 * rows * operations / rate / share:.0f} | "
            f"{1e3 * gradient_traffic(config, devices) / link:.1f} | {tokens / 1e3:.0f} | "
            f"{days:.1f} | {days * devices:.0f} |"
        )


def main():
    configs = {}
    for name in ("base", "large"):
        with open(
            os.path.join(ROOT, "configs", "model", name + ".json"), encoding="utf-8"
        ) as f:
            configs[name] = json.load(f)
    share = tpu_share(configs["large"])
    print("TPU v3 chips in the paper: %.0f %% of their rate\n" % (100 * share))
    print(
        "| model | devices | compute [ms] | gradients [ms] | thousand tokens/s | days | "
        "device-days |\n|---|---|---|---|---|---|---|"
    )
    for name, config in configs.items():
        print("\n".join(scale_rows(name, config, share)))


if __name__ == "__main__":
    main()
