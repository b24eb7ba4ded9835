"""Prints benchmarks/scaling.md: what a step costs, and what that means on other machines.

    python benchmarks/scaling.py > benchmarks/scaling.md
"""

import json
import os

import costs
from repository import ROOT
from work import WORKS, Work

MODELS = ("base", "large")
GIB = 2. ** 30

# The paper's run, appendix A.3 of its last version: 512 chips of TPU v3, two cores each; rates are
# the makers' figures for bfloat16 products.
PAPER_STEPS, PAPER_BATCH, PAPER_DAYS, PAPER_CHIPS = 500e3, 8192, 5.5, 512
TPU_CORE_RATE = 123e12 / 2
GPU_RATE, GPU_LINK = 312e12, 300e9      # A100 80 GB: products/s, bytes/s each way (NVLink)
GPU_SHARE = 0.35                        # of its rate that a GPU reaches: an assumption
# Measured by benchmarks/run.py, see README.md: processor times on two cores.
MEASURED = json.load(open(os.path.join(ROOT, "benchmarks", "measured.json"), encoding="utf-8"))


def model(name):
    with open(os.path.join(ROOT, "configs", "model", name + ".json"), encoding="utf-8") as f:
        return json.load(f)


def pretraining(batch):
    return Work("pretrain", batch, length=512, memory=384, targets=85)


def table(header, rows):
    lines = [header, ["---"] * len(header)] + rows
    return "\n".join("| %s |" % " | ".join(str(cell) for cell in line) for line in lines)


def operations_table():
    rows = []
    for name in MODELS:
        config = model(name)
        for title, work in (("pretraining, a row of 512", pretraining(1)),
                            ("fine-tuning, a row of 128", Work("finetune", 1, 128)),
                            ("fine-tuning, a row of 512", Work("finetune", 1, 512))):
            parts = costs.forward_operations(config, work)
            rows.append([name, title] + ["%.1f" % (part / 1e9) for part in parts.values()] + [
                "%.0f" % (costs.step_operations(config, work) / 1e9),
                "%.0f" % (costs.step_operations(config, work, recompute=True) / 1e9)])
    return table(["model", "work", "projections", "attention", "feed-forward", "softmax",
                  "step", "with recompute"], rows)


def memory_table():
    rows = []
    for name in MODELS:
        config = model(name)
        for title, work in (("pretraining, 2 × 512", pretraining(2)),
                            ("pretraining, 16 × 512", pretraining(16)),
                            ("fine-tuning, 8 × 512", WORKS["finetune512"])):
            cells = [costs.activations(config, work, recompute, size) / GIB
                     for size in (4, 2) for recompute in (False, True)]
            rows.append([name, title, "%.2f" % (costs.state_bytes(config) / GIB)]
                        + ["%.2f" % cell for cell in cells])
    return table(["model", "work", "weights, gradients, moments", "fp32", "fp32, recompute",
                  "bf16", "bf16, recompute"], rows)


def communication_table():
    rows = []
    for name in MODELS:
        config = model(name)
        for devices in (2, 8, 64, 512):
            sent = costs.communication(config, devices)
            rows.append([name, devices, "%.2f" % (sent / 1e9), "%.1f" % (1e3 * sent / GPU_LINK)])
    return table(["model", "devices", "sent by each [GB]", "ms at 300 GB/s"], rows)


def paper_share():
    """The share of the TPUs' rate that the paper's days mean."""
    operations = costs.step_operations(model("large"), pretraining(PAPER_BATCH)) * PAPER_STEPS
    return operations / (PAPER_DAYS * 86400 * PAPER_CHIPS * 2 * TPU_CORE_RATE)


def days_table():
    rows = []
    for name in MODELS:
        operations = costs.step_operations(model(name), pretraining(1))
        for machine, rate in (("8 GPUs of 80 GB, %.0f %% of 312 TFLOP/s" % (100 * GPU_SHARE),
                               8 * GPU_RATE * GPU_SHARE),
                              ("512 TPU v3 cores, at the paper's share", 512 * TPU_CORE_RATE
                               * paper_share())):
            tokens = rate / operations * 512
            all_tokens = PAPER_STEPS * PAPER_BATCH * 512
            rows.append([name, machine, "%.0f thousand" % (tokens / 1e3),
                         "%.0f" % (all_tokens / tokens / 86400),
                         "%.1f" % (all_tokens / 100 / tokens / 86400)])
    return table(["model", "machine", "tokens/s", "days, paper's 2.1e12 tokens",
                  "days, 2.1e10 tokens"], rows)


def measured_table():
    rows = []
    for point in MEASURED:
        config = dict(model("base"), n_layer=point["n_layer"])
        work = WORKS[point["work"]]
        products = costs.step_operations(config, work) / point["matrix_rate_processor"]
        rows.append(["%s, %d layers" % (point["work"], point["n_layer"]), "%.2f" % products,
                     "%.2f" % point["processor"], "%.2f" % (point["processor"] / products),
                     "%.2f" % ((costs.state_bytes(config) if work.kind != "infer" else
                                4 * costs.parameters(config)) / GIB
                               + (costs.activations(config, work) / GIB
                                  if work.kind != "infer" else 0)),
                     "%.2f" % point["peak_gib"]])
    return table(["work", "products, predicted [CPU s]", "step, measured [CPU s]", "ratio",
                  "memory, predicted [GiB]", "peak, measured [GiB]"], rows)


TEXT = """# What a step costs, and scaling

Written by `python benchmarks/scaling.py`; the formulas are `benchmarks/costs.py`. Nothing here ran
on the GPUs or TPUs that are named.

## Operations of a step [10^9 floating-point operations, for one row]

Forward by part, then whole steps. Pretraining has a memory of 384 and 85 targets.

%s

## Memory [GiB]

State: float32 weights, gradients and Adam's moments. Then activations, kept for the backward pass.

%s

## Communication

Gradients are float32 and added up in a ring; a step of each device sends 2 (N - 1) / N of them.

%s

## Tokens and days

The paper trained Large for %d thousand steps of %d rows in %.1f days on %d TPU v3 chips: by these
formulas %.0f %% of the chips' bfloat16 rate. The share that GPUs reach is assumed; communication is
taken to hide behind the backward pass. The last column is a hundredth of the paper's tokens.

%s

## Checked against what was measured

Base, float32, on 2 cores, processor times (README.md says how). The products' time is their number
divided by the rate of a single product on the same machine. The measured peak also holds TensorFlow
itself (0.45 GiB when it is imported), clipped copies of the gradients, other temporaries and what
the allocator cannot use again; the formulas leave them out. Pretraining was measured when it still
had a gradient for the rows of its memory, 2.4 %% more operations.

%s
"""


if __name__ == "__main__":
    print(TEXT % (operations_table(), memory_table(), communication_table(), PAPER_STEPS / 1e3,
                  PAPER_BATCH, PAPER_DAYS, PAPER_CHIPS, 100 * paper_share(), days_table(),
                  measured_table()), end="")
