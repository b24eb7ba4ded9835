"""The paper's ablations (table 6) in small: each file of configs/pretrain/ablation/, on the sample.

Records are made once for each setting of `bi_data`; a table of held-out losses closes the run. It
shows that every setting trains; so small a network says nothing about the paper's findings, and
losses of different objectives or data are no measure of each other.
"""

import dataclasses
import glob
import math
import os
import time

from recipes import ROOT, chosen, print_table, stage
from run_sample import REUSE_LEN, SEQ_LEN, VOCAB_SIZE

from xlnet import cli, files
from xlnet.config import setting

ABLATIONS = os.path.join("configs", "pretrain", "ablation")
RUN = dict(model_config_path=os.path.join("configs", "model", "tiny.json"), n_token=VOCAB_SIZE,
           train_batch_size=8, perm_size=64, dropout=0, dropatt=0, learning_rate=1.5e-3,
           weight_decay=0.01, save_steps=1000, log_steps=100)


@dataclasses.dataclass(frozen=True)
class AblationSettings:
    """run_ablation.py: which, where to, and how long."""
    names: str = setting("", "ablations, comma-separated; all if not given")
    out_dir: str = setting("ablation_run", "directory for everything that is made")
    train_steps: int = setting(1800, "pretraining steps of each", minimum=1)


def main(settings):
    os.chdir(ROOT)
    known = sorted(os.path.splitext(os.path.basename(path))[0]
                   for path in glob.glob(os.path.join(ABLATIONS, "*.json")))
    names = chosen("names", settings.names, "ablation", known) if settings.names else known
    out = os.path.relpath(settings.out_dir, ROOT)
    make_text(out)
    rows = [run(settings, out, name) for name in names]
    print_table(("ablation", "held-out nats", "perplexity", "bits/token", "minutes"), rows)


def make_text(out):
    stage("the sample's text", "scripts/make_sample.py", save_dir=os.path.join(out, "text"))
    stage("a vocabulary", "scripts/train_sentencepiece.py", vocab_size=VOCAB_SIZE,
          input_glob=os.path.join(out, "text", "pretrain", "train.txt"),
          sp_path=os.path.join(out, "spiece.model"))


def make_records(out, bi_data):
    """Training and held-out records; returns the flags that name them."""
    folder = os.path.join(out, "records" if bi_data else "forward_records")
    for split, streams in (("train", 32), ("heldout", 8)):
        if not os.path.exists(os.path.join(folder, split, "manifest.json")):
            stage("records of the %s text" % split, "data_utils.py", seq_len=SEQ_LEN,
                  input_glob=os.path.join(out, "text", "pretrain", split + ".txt"),
                  save_dir=os.path.join(folder, split), reuse_len=REUSE_LEN, bi_data=bi_data,
                  sp_path=os.path.join(out, "spiece.model"), num_streams=streams)
    return dict(record_info_dir=os.path.join(folder, "train"),
                eval_record_info_dir=os.path.join(folder, "heldout"))


def run(settings, out, name):
    """Trains one ablation; returns its row of the table."""
    path, began = os.path.join(ABLATIONS, name + ".json"), time.time()
    values = files.read_json(path, "config")
    flags = dict(RUN, **make_records(out, values.get("bi_data", True)))
    if "mem_len" not in values:
        flags["mem_len"] = REUSE_LEN
    model_dir = os.path.join(out, name)
    stage(values["about"]["row"], "train_gpu.py", config=path, model_dir=model_dir,
          num_predict=SEQ_LEN // values["about"]["k"], train_steps=settings.train_steps,
          warmup_steps=min(100, settings.train_steps), **flags)
    with open(os.path.join(model_dir, "held_out.tsv"), encoding="utf-8") as f:
        loss = float(list(f)[-1].split("\t")[1])
    return (values["about"]["row"], "%.4f" % loss, "%.1f" % math.exp(loss),
            "%.4f" % (loss / math.log(2)), "%.1f" % ((time.time() - began) / 60))


if __name__ == "__main__":
    cli.run(main, AblationSettings, about="the paper's ablations in small, on the sample's text",
            examples=("--train_steps=1200",))
