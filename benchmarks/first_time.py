"""Thirteen small settings as a newcomer runs them: no flag but files and columns.

Each is fine-tuned from the sample's model or from random weights, and is compared with the constant
answer and with a logistic regression on words, on the same held-out rows. A table has the metric,
both of these, the seconds and the verdict of the run.

    python scripts/run_sample.py
    python benchmarks/first_time.py --data=shared/data
"""

import csv
import dataclasses
import glob
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import repository
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier

from xlnet.commands import cli
from xlnet.settings.fields import Settings, setting
from xlnet.settings.finetuning import ClassifierSettings
from xlnet.support import files
from xlnet.tasks import known
from xlnet.tasks.contract import THRESHOLD
from xlnet.tasks.files import parsing
from xlnet.tasks.results import best_threshold

ROWS = 500  # of a setting; other numbers are in `settings_in`


class Arguments(Settings):
    """first_time.py: where the data and the sample's model are."""

    data: str = setting("shared/data", "directory of the sets")
    sample: str = setting("sample_run", "directory of scripts/run_sample.py")


@dataclasses.dataclass(frozen=True)
class Case:
    """A setting: its file and its columns.

    Attributes:
      path: of the file.
      flags: of its columns.
      program: the command.
      is_pretrained: whether it starts from the sample's model.
    """

    path: str
    flags: dict
    program: str = "classify"
    is_pretrained: bool = True


def settings_in(data, directory):
    """The settings by name; their files are written into `directory`."""
    cases = {}

    def add(name, rows, columns=("text", "label"), is_pretrained=True, **flags):
        path = os.path.join(directory, f"{len(cases)}.csv")
        with open(path, "w", encoding="utf-8", newline="") as f:
            csv.writer(f).writerows([columns, *rows])
        flags.update(text_a_column=columns[0], label_column="label")
        cases[name] = Case(path, flags, is_pretrained=is_pretrained)

    def lines_of(*parts):
        with open(os.path.join(data, *parts), encoding="utf-8-sig") as f:
            return f.read().split("\n")

    def cells_of(*parts):
        return [line.split("\t") for line in lines_of(*parts)[1:] if line]

    sst = cells_of("glue", "SST-2", "train.tsv")
    add("SST-2", sst[:ROWS])
    add("SST-2, 2,000 rows", sst[:2000])

    with open(os.path.join(data, "ag_news_csv", "train.csv"), encoding="utf-8") as f:
        news = [[row[1] + " " + row[2], row[0]] for row in csv.reader(f)]
    add("topics", news[:ROWS])
    add("topics, from scratch", news[:ROWS], is_pretrained=False)
    add("topics, 64 rows", news[:64])
    sports = [[body, str(topic == "2")] for body, topic in news if topic != "3"]
    rare = [row for row in sports if row[1] == "True"][:50]
    rare += [row for row in sports if row[1] == "False"][:950]
    add("imbalanced, 5 %", rare)
    # Two news in a row have the topics of both.
    topics = ("world", "sports", "business", "science")
    several = []
    for first, second in zip(news[0:1000:2], news[1:1000:2]):
        names = sorted({topics[int(each[1]) - 1] for each in (first, second)})
        several.append([f"{first[0][:200]} {second[0][:200]}", ",".join(names)])
    add("multi-label", several, multi_label=True)

    pair = ("a", "b", "label")
    sts = [row[7:10] for row in cells_of("glue", "STS-B", "train.tsv")[:ROWS]]
    add("regression, STS-B", sts, pair, text_b_column="b", is_regression=True)
    mrpc = cells_of("glue", "MRPC", "train.tsv")[:ROWS]
    rows = [[row[3], row[4], row[0]] for row in mrpc]
    add("pairs, MRPC", rows, pair, text_b_column="b")
    choices = []
    articles = sorted(glob.glob(os.path.join(data, "RACE", "train", "middle", "*")))
    for path in articles[:125]:
        article = files.read_json(path, "article")
        for question, options, answer in zip(
            article["questions"], article["options"], article["answers"]
        ):
            choices.append([article["article"], question, *options[:4], answer])
    letters = ["first", "second", "third", "fourth"]
    add(
        "choices, RACE",
        choices,
        ("text", "question", *letters, "label"),
        text_b_column="question",
        choice_columns=",".join(letters),
    )

    tags = os.path.join(directory, "ner.txt")
    sentences = "\n".join(lines_of("conll2003_bio2", "train.txt")).split("\n\n")
    pathlib.Path(tags).write_text("\n\n".join(sentences[1:ROWS]) + "\n", "utf-8")
    cases["CoNLL-2003"] = Case(tags, {}, "tag")
    questions = os.path.join(directory, "squad.json")
    squad = files.read_json(os.path.join(data, "squad", "train-v1.1.json"), "squad")
    files.write_json(questions, dict(squad, data=squad["data"][:3]))
    cases["SQuAD"] = Case(questions, {}, "squad")

    reviews = cells_of("ChnSentiCorp", "train.tsv")[:1000]
    add("Chinese, from scratch", [row[::-1] for row in reviews], is_pretrained=False)
    return cases


def main(arguments):
    with tempfile.TemporaryDirectory() as directory:
        cases = settings_in(arguments.data, directory)
        print(
            "| setting | metric | ours | constant | words | seconds | verdict |\n"
            "|---|---|---|---|---|---|---|"
        )
        for name, case in cases.items():
            print(row_of(name, case, arguments.sample, directory), flush=True)


def row_of(name, case, sample, directory):
    """Trains a setting; its row of the table."""
    model_dir = os.path.join(directory, "model " + name)
    flags = dict(case.flags, model_dir=model_dir)
    if case.is_pretrained:
        flags["init_checkpoint"] = os.path.join(sample, "pretrained", "latest")
    else:
        flags.update(from_scratch(name, case, sample, directory))
    source = "train_file" if case.program == "squad" else "data_dir"
    command = [sys.executable, "-m", "xlnet", case.program, "--task_name=custom"]
    command += ["--do_train", "--do_eval", f"--{source}={case.path}"]
    command += [f"--{flag}={value}" for flag, value in flags.items()]
    began = time.time()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.time() - began
    if done.returncode:
        return f"| {name} | failed: {done.stderr[-300:]} |"
    found = files.read_json(
        os.path.join(model_dir, "results", "eval_results_dev.json"), "results"
    )
    best = found["result"]
    metric = next(key for key in best if key != "step")
    constant = (found["constant_answer"] or {}).get(metric)
    words = of_words(name, case, metric) if case.program == "classify" else None
    verdict = []
    for line in [*done.stderr.split("\n"), *done.stdout.split("\n")]:
        if line.startswith("verdict: "):
            verdict.append(line[9:])
    numbers = []
    for value in (best[metric], constant, words):
        numbers.append("" if value is None else f"{value:.3f}")
    said = "; ".join(verdict[1:]) or "nothing to complain about"
    return f"| {name} | {metric} | {' | '.join(numbers)} | {seconds:.0f} | {said} |"


def from_scratch(name, case, sample, directory):
    """The flags of a vocabulary and of an architecture."""
    config = os.path.join(sample, "pretrained", "xlnet_config.json")
    spiece = os.path.join(sample, "spiece.model")
    if "Chinese" in name:
        spiece = os.path.join(directory, "chinese.model")
        command = [sys.executable, "-m", "xlnet", "data", "vocabulary"]
        command += [f"--input_glob={case.path}", f"--sp_path={spiece}"]
        command += ["--vocab_size=3000"]
        subprocess.run(command, check=True, capture_output=True)
        values = dict(files.read_json(config, "config"), n_token=3000)
        config = os.path.join(directory, "chinese.json")
        files.write_json(config, values)
    return dict(spiece_model_file=spiece, model_config_path=config)


def of_words(name, case, metric):
    """The metric of a logistic regression, or of a ridge regression, on words; of several labels
    with the threshold that is best for these rows, as ours."""
    settings = ClassifierSettings(
        task_name="custom",
        data_dir=case.path,
        model_dir=".",
        do_train=True,
        **case.flags,
    )
    task = known.resolve_task(settings)
    parts = parsing.read_parts(task, case.path, "train", True)
    gold = {part: task.gold(rows) for part, rows in parts.items()}
    words = TfidfVectorizer(token_pattern=r"\w" if "Chinese" in name else r"\w+")
    choices = task.num_choices(False)
    texts = {}
    for part, rows in parts.items():
        texts[part] = []
        for row in rows:
            texts[part] += [" ".join(filter(None, pair)) for pair in row.pairs]
    train, dev = words.fit_transform(texts["train"]), words.transform(texts["dev"])
    if choices > 1:  # whether an answer is the right one
        right = np.eye(choices)[gold["train"]].ravel()
        learned = LogisticRegression(max_iter=1000).fit(train, right)
        values = learned.predict_proba(dev)[:, 1].reshape(-1, choices)
    elif task.labels is None:
        values = Ridge().fit(train, gold["train"]).predict(dev)
    elif gold["train"].ndim > 1:
        learned = OneVsRestClassifier(LogisticRegression(max_iter=1000))
        values = learned.fit(train, gold["train"]).predict_proba(dev)
    else:
        learned = LogisticRegression(max_iter=1000).fit(train, gold["train"])
        values = learned.predict_proba(dev)
    threshold = THRESHOLD
    if gold["dev"].ndim > 1:
        threshold = best_threshold(values, gold["dev"])
    return task.evaluate(values, gold["dev"], threshold)[metric]


if __name__ == "__main__":
    with cli.command(
        Arguments, about="thirteen small settings as a newcomer runs them"
    ) as line:
        main(*line.settings)
