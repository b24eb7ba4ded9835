"""Fine-tuning data: rows/s from files to records, large files, evaluation with and without padding.

Prints a table for benchmarks/DETAILS.md. Everything is measured in this one run, the two ways of
padding in turn.
"""

import csv
import dataclasses
import itertools
import json
import os
import tempfile
import time

import memory
from repository import ROOT

from xlnet import cli
from xlnet.settings.fields import required, setting
from xlnet.settings.finetuning import ClassifierSettings
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.tasks.types import known

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")      # before TensorFlow is imported

TASKS = ("sst-2", "mrpc", "qqp", "qnli")
REPEATS = 3


@dataclasses.dataclass(frozen=True)
class BenchmarkSettings:
    """finetuning_data.py: the data and the network."""
    glue_dir: str = required("directory with SST-2, MRPC, QQP and QNLI, the official files in each")
    spiece_model_file: str = required("SentencePiece model of the network's vocabulary size")
    model_config_path: str = setting(os.path.join(ROOT, "configs", "model", "base.json"),
                                     "architecture; its weights are random")
    max_seq_length: int = setting(128, "tokens of an example")
    eval_batch_size: int = setting(32, "examples per evaluation step")
    sizes: str = setting("1,4,16", "times that SST-2 is repeated for a large file, comma-separated")


def main(settings):
    from xlnet.tokenization.tokenizer import Tokenizer
    tokenizer = Tokenizer(settings.spiece_model_file)
    with tempfile.TemporaryDirectory() as directory:
        print("| task | rows | read rows/s | tokenize and write, one process: rows/s of CPU time |")
        print("|---|---|---|---|")
        for name in TASKS:
            preparation(settings, known.GLUE[name], tokenizer, directory)
        growth(settings, directory)
        evaluation(settings, tokenizer, directory)


def examples_of(task, glue_dir, split):
    """The examples of an official file."""
    from xlnet.tasks.files import parsing
    rows = parsing.read_rows(task, os.path.join(glue_dir, task.name.upper()), split)
    return task.reader.examples(rows)


def preparation(settings, task, tokenizer, directory):
    """A line of the table for one task's train file; the best of some repeats."""
    from xlnet.tasks.features import encoding
    layout = encoding.Layout(settings.max_seq_length)
    read, written = [], []
    for _ in range(REPEATS):
        began = time.process_time()
        examples = examples_of(task, settings.glue_dir, "train")
        read.append(time.process_time() - began)
        began = time.process_time()
        encoding.write_records(directory, task.name, examples, tokenizer, layout,
                               label_names=task.labels, overwrite=True)
        written.append(time.process_time() - began)
    count = len(examples)
    print("| %s | %d | %.0f | %.0f |" % (task.name, count, count / min(read),
                                         count / min(written)), flush=True)


def growth(settings, directory):
    """A table of SST-2's train file, repeated, as tables of several forms."""
    print("\n| file | rows | MB | read and checked: rows/s | tokenize and write: rows/s "
          "| peak memory, MB |\n|---|---|---|---|---|---|")
    for form, write in (("tsv", _tsv), ("csv", _csv), ("jsonl", _json)):
        for times in map(int, settings.sizes.split(",")):
            path = os.path.join(directory, "train." + form)
            repeat(os.path.join(settings.glue_dir, "SST-2", "train.tsv"), path, times, write)
            count, read, written, peak = memory.in_a_process(
                prepare, path, settings.spiece_model_file, settings.max_seq_length)
            print("| %s | %s | %.1f | %.0f | %.0f | %.0f |" % (
                form, "{:,}".format(count), os.path.getsize(path) / 1e6, count / read,
                count / written, peak / 1e6), flush=True)


def repeat(source, path, times, write):
    """Writes the rows of a TSV `times` over, none of them twice."""
    with open(source, encoding="utf-8") as f:
        names, *rows = [line.rstrip("\n").split("\t") for line in f]
    with open(path, "w", encoding="utf-8", newline="") as f:
        write(f, names, ((text + "%d " % number, label) for number in range(times)
                         for text, label in rows))


def _tsv(f, names, rows):
    f.writelines("\t".join(row) + "\n" for row in itertools.chain([names], rows))


def _csv(f, names, rows):
    csv.writer(f, quoting=csv.QUOTE_ALL).writerows(itertools.chain([names], rows))


def _json(f, names, rows):
    f.writelines(json.dumps(dict(zip(names, row))) + "\n" for row in rows)


def prepare(path, spiece_model_file, max_seq_length):
    """Returns (rows, CPU seconds of reading, of tokenizing and writing, peak memory [bytes])."""
    from xlnet.tasks.features import encoding
    from xlnet.tasks.files import parsing
    from xlnet.tokenization.tokenizer import Tokenizer
    tokenizer, task = Tokenizer(spiece_model_file), known.GLUE["sst-2"]
    began = time.process_time()
    rows = parsing.read_file(task, path, need_labels=True)
    read = time.process_time()
    with tempfile.TemporaryDirectory() as directory:
        encoding.write_records(directory, "sst-2", task.reader.examples(rows), tokenizer,
                               encoding.Layout(max_seq_length), label_names=task.labels)
    return len(rows), read - began, time.process_time() - read, memory.peak()


def evaluation(settings, tokenizer, directory):
    """Seconds for the whole of SST-2's dev file with batches of either kind."""
    from xlnet.tasks.features import encoding
    task = known.GLUE["sst-2"]
    examples = examples_of(task, settings.glue_dir, "dev")
    path = encoding.write_records(directory, "dev", examples, tokenizer,
                                  encoding.Layout(settings.max_seq_length),
                                  label_names=task.labels).path
    seconds = {"fixed": [], "longest": []}
    passes = {padding: one_pass(settings, task, path, padding) for padding in seconds}
    for _ in range(REPEATS):
        for padding, run in passes.items():
            seconds[padding].append(run(len(examples)))
    fixed, longest = min(seconds["fixed"]), min(seconds["longest"])
    print("\nSST-2 dev, %d rows at max_seq_length %d: %.1f s padded to it, %.1f s to the longest "
          "of a batch, ratio %.2f; ratio of each round %s" % (
              len(examples), settings.max_seq_length, fixed, longest, fixed / longest,
              ", ".join("%.2f" % (a / b) for a, b in zip(*seconds.values()))))


def one_pass(settings, task, path, padding):
    """Returns a function that evaluates the whole file and says how many seconds it took."""
    import tensorflow.compat.v1 as tf

    from xlnet.batches import input_pipeline
    from xlnet.models.task_model import TaskModel
    from xlnet.records import feature_spec
    graph, length = tf.Graph(), settings.max_seq_length
    with graph.as_default():
        batches = input_pipeline.finetuning_batches(
            path, feature_spec.finetuning_features(length), row_length=length,
            batch_size=settings.eval_batch_size, multiple=length if padding == "fixed" else 8)
        iterator = tf.data.make_initializable_iterator(batches)
        needed = dict.fromkeys(("data_dir", "model_dir", "output_dir"), "")
        model = TaskModel(
            XLNetConfig(json_path=settings.model_config_path), task, NetworkSettings(),
            ClassifierSettings(
                task_name=task.name, spiece_model_file=settings.spiece_model_file,
                model_config_path=settings.model_config_path, **needed), scope=task.head.scope())
        values = model.answers(iterator.get_next())["values"]
        session = tf.Session()
        session.run(tf.global_variables_initializer())

    def run(count):
        began, done = time.time(), 0
        session.run(iterator.initializer)
        while done < count:
            done += len(session.run(values))
        return time.time() - began
    return run


if __name__ == "__main__":
    cli.run(main, BenchmarkSettings, about="measures how fast fine-tuning data is made and used")
