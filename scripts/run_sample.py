"""The main job: text -> vocabulary -> records -> pretraining -> fine-tuning -> predictions.

Every stage is a command that can be copied; a table of what was measured closes the run.
"""

import json
import math
import os
import time

import numpy as np
from recipes import ROOT, stage

from xlnet.commands import cli
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.fields import Settings, setting
from xlnet.support import files

VOCAB_SIZE = 1000  # so small a text has too few examples of rarer pieces
SEQ_LEN, REUSE_LEN = 128, 64
# 1/sqrt(d_model). With the 0.02 of large networks a narrow one forgets, while it learns to predict,
# which words it has read (benchmarks/README.md).
INIT_STD = "--init_std=0.08"
CLASSIFY = (
    "--task_name=custom",
    "--id_column=id",
    "--text_a_column=text",
    "--label_column=label",
    "--max_seq_length=96",
    "--train_batch_size=16",
    "--learning_rate=2e-3",
    "--summary_type=mean",
    "--save_steps=1000",
    "--eval_steps=0",
    "--log_steps=50",
    INIT_STD,
)

# Of the default steps, with any seed and processor: the text is the same everywhere. Accuracy on
# 800 rows has a standard error of 0.018.
EXPECTED = {
    "held-out perplexity, unigram frequencies": "275",
    "held-out perplexity, step 0": "1000-2000",
    "held-out perplexity, step 2000": "55-61",
    "dev accuracy, majority class": "0.125",
    "dev accuracy, fine-tuned from scratch": "0.44-0.56",
    "test accuracy, fine-tuned from scratch": "0.45-0.54",
    "dev accuracy, fine-tuned from the pretrained model": "0.50-0.66",
    "test accuracy, fine-tuned from the pretrained model": "0.54-0.64",
}


class SampleSettings(Settings):
    """run_sample.py: where to, and how long."""

    out_dir: str = setting("sample_run", "directory for everything that is made")
    pretrain_steps: int = setting(2000, "pretraining steps", minimum=1)
    finetune_steps: int = setting(150, "fine-tuning steps, each time", minimum=1)
    seed: int = setting(0, "seed of both trainings")


def main(settings):
    began = time.time()
    out = os.path.relpath(settings.out_dir, ROOT)
    os.chdir(ROOT)
    path = lambda *parts: os.path.join(out, *parts)
    stage(
        "1/6 a corpus and a classification set: documentation of Python 3.11.7",
        "xlnet sample",
        output=path("text"),
    )
    if not os.path.exists(path("spiece.model")):
        stage(
            "2/6 a SentencePiece vocabulary",
            "xlnet data vocabulary",
            input_glob=path("text", "pretrain", "train.txt"),
            sp_path=path("spiece.model"),
            vocab_size=VOCAB_SIZE,
        )
    for split, streams in (("train", 32), ("heldout", 8)):
        stage(
            f"3/6 records of the {split} text",
            "data_utils.py",
            input_glob=path("text", "pretrain", split + ".txt"),
            save_dir=path("records", split),
            sp_path=path("spiece.model"),
            seq_len=SEQ_LEN,
            reuse_len=REUSE_LEN,
            num_streams=streams,
        )
    stage(
        "4/6 pretraining", "train_gpu.py", INIT_STD, **pretraining_flags(settings, path)
    )
    rows = {}
    for name, start in (
        ("pretrained", path("pretrained", "latest")),
        ("scratch", None),
    ):
        rows[name] = fine_tune(settings, path, name, start)
    default = SampleSettings()
    is_default = (settings.pretrain_steps, settings.finetune_steps) == (
        default.pretrain_steps,
        default.finetune_steps,
    )
    report(path, rows, time.time() - began, EXPECTED if is_default else {})


def pretraining_flags(settings, path):
    return dict(
        record_info_dir=path("records", "train"),
        eval_record_info_dir=path("records", "heldout"),
        model_dir=path("pretrained"),
        model_config_path="tiny",
        train_batch_size=8,
        mem_len=64,
        perm_size=64,
        num_predict=64,
        mask_alpha=5,
        mask_beta=3,
        dropout=0,
        dropatt=0,
        learning_rate=1e-3,
        warmup_steps=min(100, settings.pretrain_steps),
        weight_decay=0.01,
        train_steps=settings.pretrain_steps,
        save_steps=1000,
        log_steps=200,
        seed=settings.seed,
    )


def fine_tune(settings, path, name, start):
    """Trains, evaluates and predicts; returns the dev results and the test accuracy."""
    folder = path("classifier_" + name)
    start_flag = {"init_checkpoint": start} if start else {}
    stage(
        "5/6 fine-tuning from the pretrained model"
        if start
        else "6/6 fine-tuning from scratch",
        "run_classifier.py",
        *CLASSIFY,
        do_train=True,
        do_eval=True,
        do_predict=True,
        data_dir=path("text", "classify"),
        output_dir=path("classify_records"),
        model_dir=folder,
        spiece_model_file=path("spiece.model"),
        train_steps=settings.finetune_steps,
        seed=settings.seed,
        model_config_path=path("pretrained", "xlnet_config.json"),
        **start_flag,
    )
    dev = files.read_json(
        os.path.join(folder, "results", "eval_results_dev.json"), "evaluation"
    )
    return dev, test_accuracy(
        os.path.join(folder, "results", "predictions_custom_test.tsv"),
        path("text", "classify", "test_labels.tsv"),
    )


def unigram_perplexity(spiece, train, heldout):
    """Perplexity of the held-out text under the training text's token frequencies, plus one."""
    tokenizer = Tokenizer(spiece)

    def counts(path):
        with open(path, encoding="utf-8") as f:
            ids = tokenizer.encode_lines(
                [line for line in f.read().split("\n") if line]
            )
        return np.bincount(np.concatenate(ids), minlength=tokenizer.vocab_size)

    frequency = counts(train) + 1.0
    seen = counts(heldout)
    return math.exp(-(seen * np.log(frequency / frequency.sum())).sum() / seen.sum())


def test_accuracy(predictions, labels):
    """Accuracy of a prediction file (id, label, ...), given the file `labels`."""
    predicted, gold = labels_by_id(predictions), labels_by_id(labels)
    num_right = sum(predicted[id] == label for id, label in gold.items())
    return num_right / len(gold)


def labels_by_id(path):
    """The second column of a table by the first one; the first line has the names."""
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n")[1:]
    labels = {}
    for line in filter(None, lines):
        id, label, *_ = line.split("\t")
        labels[id] = label
    return labels


def report(path, rows, seconds, expected):
    """Prints the closing table, with what is expected of its lines by name; writes results.json."""
    with open(path("pretrained", "evaluations.json"), encoding="utf-8") as f:
        evaluations = json.load(f)["evaluations"]
    text = path("text", "pretrain", "%s.txt")
    table = [
        (
            "held-out perplexity, unigram frequencies",
            "{:.1f}".format(
                unigram_perplexity(
                    path("spiece.model"), text % "train", text % "heldout"
                )
            ),
        )
    ]
    for one in evaluations:
        table.append(
            (f"held-out perplexity, step {one['step']}", f"{one['perplexity']:.1f}")
        )
    baseline = rows["scratch"][0]["constant_answer"]["accuracy"]
    table.append(("dev accuracy, majority class", f"{baseline:.3f}"))
    for name, (dev, test) in (
        ("from scratch", rows["scratch"]),
        ("from the pretrained model", rows["pretrained"]),
    ):
        accuracy = dev["result"]["accuracy"]
        table.append(("dev accuracy, fine-tuned " + name, f"{accuracy:.3f}"))
        table.append(("test accuracy, fine-tuned " + name, f"{test:.3f}"))
    table.append(("minutes in all", f"{seconds / 60:.1f}"))
    table += [
        ("records", path("records")),
        ("pretrained model", path("pretrained")),
        ("fine-tuned model", path("classifier_pretrained")),
        (
            "predictions",
            path("classifier_pretrained", "results", "predictions_custom_test.tsv"),
        ),
    ]
    width = max(len(name) for name, _ in table)
    title = "expected" if expected else ""
    print("\n" + f"{'result':<{width}}  {'value':<8}  {title}".rstrip())
    for name, value in table:
        print(f"{name:<{width}}  {value:<8}  {expected.get(name, '')}".rstrip())
    print("what each line means: docs/tutorials/first_run.md#what-the-results-mean")
    files.write_json(path("results.json"), dict(table))


if __name__ == "__main__":
    with cli.command(
        SampleSettings, about="everything on a sample: documentation of Python 3.11.7"
    ) as line:
        main(*line.settings)
