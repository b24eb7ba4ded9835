"""Questions/s and memory from a SQuAD file to records: tables for benchmarks/DETAILS.md.

    python benchmarks/question_data.py --train_file=train-v2.0.json --spiece_model_file=spiece.model
"""

import copy
import dataclasses
import json
import os
import tempfile
import time

import memory
import repository

from xlnet import cli
from xlnet.settings.fields import as_in, required, setting
from xlnet.settings.finetuning import SpanSettings


@dataclasses.dataclass(frozen=True)
class BenchmarkSettings:
    """question_data.py: the file, how often."""
    train_file: str = required("SQuAD's JSON; repeated, with other ids, to larger files")
    spiece_model_file: str = required("SentencePiece model")
    max_seq_length: int = as_in(SpanSettings, "max_seq_length")
    doc_stride: int = as_in(SpanSettings, "doc_stride")
    sizes: str = setting("1,4,16", "times that the file is repeated, comma-separated")
    repeats: int = setting(3, "runs of each; the table has the fastest", minimum=1)


def main(settings):
    print("| questions | file, MB | read and checked | tokenized and written | together | "
          "peak memory, MB |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        for times in map(int, settings.sizes.split(",")):
            path = os.path.join(directory, "%d.json" % times)
            repeat(settings.train_file, path, times)
            runs = [memory.in_a_process(prepare, settings, path) for _ in range(settings.repeats)]
            count, peak = runs[0][0], min(run[3] for run in runs)
            read, written = (min(run[place] for run in runs) for place in (1, 2))
            print("| %s | %.1f | %.0f | %.0f | **%.0f** | %.0f |" % (
                "{:,}".format(count), os.path.getsize(path) / 1e6, count / read, count / written,
                count / (read + written), peak), flush=True)


def repeat(source, path, times):
    """Writes the file `times` over, so that no paragraph and no id is there twice."""
    with open(source, encoding="utf-8") as f:
        value = json.load(f)
    articles = []
    for number in range(times):
        for article in copy.deepcopy(value["data"]):
            for paragraph in article["paragraphs"]:
                paragraph["context"] += " %d" % number
                for question in paragraph["qas"]:
                    question["id"] = "%s-%d" % (question["id"], number)
            articles.append(article)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(dict(value, data=articles), f)


def prepare(settings, path):
    """Returns (questions, CPU seconds of reading, of tokenizing and writing, peak memory [MB])."""
    from xlnet.tasks.features import encoding
    from xlnet.tasks.files import parsing
    from xlnet.tasks.types import known
    from xlnet.tokenization.tokenizer import Tokenizer
    tokenizer = Tokenizer(settings.spiece_model_file)
    task = known.find_task("squad2").with_options(doc_stride=settings.doc_stride)
    layout = encoding.Layout(settings.max_seq_length, long_document=SpanSettings.long_document)
    began = time.process_time()
    rows = parsing.read_file(task, path, need_labels=True)
    read = time.process_time()
    with tempfile.TemporaryDirectory() as directory:
        encoding.write_records(
            directory, "squad", task.reader.examples(rows), tokenizer, layout,
            label_features=task.head.features(settings.max_seq_length), encode=task.reader.encode,
            options=task.reader.record_options)
    ended = time.process_time()
    return len(rows), read - began, ended - read, memory.peak() / 1e6


if __name__ == "__main__":
    cli.run(main, BenchmarkSettings, about="measures how fast questions become records")
