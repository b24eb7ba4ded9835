"""Four ways to read a long document, side by side: which book is a passage of 2,000 tokens from,
and whose is it?

Books are cut into passages of whole paragraphs. A book's last quarter is held out, a passage before
it left out, so that no stretch is in both. The same small network is fine-tuned with each
--long_document for equally many steps of equally many documents (windows, with sliding), and
evaluated on the held-out passages.
"""

import dataclasses
import glob
import json
import math
import os
import time
from typing import Optional

from recipes import chosen, print_table, stage

from xlnet import cli, files, presets
from xlnet.config import required, setting
from xlnet.errors import UserError
from xlnet.tokenization import Tokenizer

WAYS = ("truncate", "head_tail", "sliding", "memory")
HELD_OUT = 0.25
SPECIAL_TOKENS = 2      # <sep> and <cls>


@dataclasses.dataclass(frozen=True)
class ComparisonSettings:
    """compare_long_documents.py: the books, the network, how long."""
    books: str = required("directory of plain-text books, AUTHOR_TITLE.txt each")
    spiece_model_file: str = required("SentencePiece model")
    out_dir: str = setting("long_documents", "directory for everything that is made")
    model_config_path: str = setting(os.path.join("configs", "model", "tiny.json"),
                                     "the network; its n_token gives way to the vocabulary's")
    init_checkpoint: Optional[str] = setting(None, "weights to start from; random if not given")
    ways: str = setting(",".join(WAYS), "values of long_document, comma-separated")
    passage_tokens: int = setting(2000, "least length of a passage [tokens]", minimum=1)
    passages_per_book: int = setting(40, "passages of a book for training, a third as many held "
                                         "out; as many as there are if fewer", minimum=3)
    max_seq_length: int = setting(256, "tokens that the network sees at once", minimum=4)
    train_steps: int = setting(400, "fine-tuning steps of each way", minimum=1)
    train_batch_size: int = setting(8, "documents, or windows, of a step", minimum=1)
    learning_rate: float = setting(1e-3, "peak learning rate", minimum=0.0)
    init_std: float = setting(0.08, "standard deviation of random weights")
    seed: int = setting(0, "seed of initialization, dropout and shuffling", minimum=0)


def main(settings):
    ways = chosen("ways", settings.ways, "long_document", WAYS)
    tokenizer = Tokenizer(settings.spiece_model_file)
    sizes = write_set(settings, tokenizer)
    print("%d passages to train on, %d held out, of %d to %d tokens" % (
        len(sizes["train"]), len(sizes["dev"]), min(sizes["train"] + sizes["dev"]),
        max(sizes["train"] + sizes["dev"])))
    config = files.read_json(presets.find(settings.model_config_path, "model_config_path",
                                          presets.MODEL), "model_config_path")
    files.write_json(os.path.join(settings.out_dir, "config.json"),
                     dict(config, n_token=tokenizer.vocab_size))
    rows = [run(settings, way, max(sizes["train"] + sizes["dev"])) for way in ways]
    print_table(("long_document", "book", "author", "macro F1", "loss", "minutes"), rows)


# ---- the set ----

def write_set(settings, tokenizer):
    """Writes train.jsonl and dev.jsonl of rows `id text label`; returns each file's lengths in
    tokens."""
    paths = sorted(glob.glob(os.path.join(settings.books, "*.txt")))
    if len(paths) < 2:
        raise UserError("books: %d *.txt in %s, expected two books or more"
                        % (len(paths), settings.books))
    lines, sizes = {"train": [], "dev": []}, {"train": [], "dev": []}
    for path in paths:
        book = os.path.splitext(os.path.basename(path))[0]
        parts = split(passages(path, tokenizer, settings.passage_tokens), path)
        for name, most in (("train", settings.passages_per_book),
                           ("dev", settings.passages_per_book // 3)):
            for number, (text, size) in evenly(parts[name], most):
                lines[name].append(json.dumps(
                    {"id": "%s-%s-%d" % (book, name, number), "text": text, "label": book},
                    ensure_ascii=False))
                sizes[name].append(size)
    for name, rows in lines.items():
        files.write_text(os.path.join(settings.out_dir, "data", name + ".jsonl"),
                         "\n".join(rows) + "\n")
    return sizes


def passages(path, tokenizer, least):
    """Cuts a book into passages of whole paragraphs: a list of (text, tokens), each `least` or
    more."""
    with open(path, encoding="utf-8") as f:
        paragraphs = [" ".join(part.split()) for part in f.read().split("\n\n")]
    paragraphs = [part for part in paragraphs if part]
    found, current, size = [], [], 0
    for paragraph, ids in zip(paragraphs, tokenizer.encode_lines(paragraphs)):
        current.append(paragraph)
        size += len(ids)
        if size >= least:
            found.append((" ".join(current), size))
            current, size = [], 0
    return found


def split(found, path):
    """The passages of a book as {"train": ..., "dev": ...}; one between the two is left out."""
    held_out = max(1, round(HELD_OUT * len(found)))
    if len(found) < held_out + 2:
        raise UserError("%s: %d passages, expected three or more" % (path, len(found)))
    return {"train": found[:-held_out - 1], "dev": found[-held_out:]}


def evenly(items, most):
    """At most `most` of the items, spread evenly over them, with their numbers."""
    count = min(most, len(items))
    return [(i * len(items) // count, items[i * len(items) // count]) for i in range(count)]


# ---- the runs ----

def run(settings, way, longest):
    """Fine-tunes and evaluates one way; returns its row of the table."""
    out, began = os.path.abspath(settings.out_dir), time.time()
    model_dir = os.path.join(out, way)
    start = {"init_checkpoint": os.path.abspath(settings.init_checkpoint)} \
        if settings.init_checkpoint else {}
    stage("long_document=" + way, "run_classifier.py", task_name="custom",
          data_dir=os.path.join(out, "data"), text_a_column="text", id_column="id",
          output_dir=os.path.join(out, "records"), model_dir=model_dir, long_document=way,
          max_segments=math.ceil((longest + SPECIAL_TOKENS) / settings.max_seq_length),
          spiece_model_file=os.path.abspath(settings.spiece_model_file),
          model_config_path=os.path.join(out, "config.json"), do_train=True, do_eval=True,
          do_predict=True, predict_split="dev",
          max_seq_length=settings.max_seq_length, train_batch_size=settings.train_batch_size,
          train_steps=settings.train_steps, warmup_share=0.1, eval_batch_size=16,
          learning_rate=settings.learning_rate, init_std=settings.init_std, seed=settings.seed,
          save_steps=settings.train_steps, eval_steps=0,
          log_steps=max(1, settings.train_steps // 3), **start)
    results = files.read_json(os.path.join(model_dir, "eval_results_dev.json"), "results")
    last = results["checkpoints"][-1]
    numbers = (last["accuracy"], author_accuracy(model_dir), last["macro_f1"], last["loss"])
    return (way, *("%.4f" % number for number in numbers),
            "%.1f" % ((time.time() - began) / 60))


def author_accuracy(model_dir):
    """Share of the held-out passages whose predicted book is by the right author."""
    path = os.path.join(model_dir, "predictions_custom_dev.tsv")
    with open(path, encoding="utf-8") as f:
        rows = [line.split("\t")[:2] for line in f][1:]
    return sum(author(id.rsplit("-", 2)[0]) == author(label) for id, label in rows) / len(rows)


def author(name):
    """The author in AUTHOR_TITLE, the whole name if there is none."""
    return name.partition("_")[0]


if __name__ == "__main__":
    cli.run(main, ComparisonSettings,
            about="truncate, head_tail, sliding and memory on passages of books, side by side",
            examples=("--books=gutenberg --spiece_model_file=spiece.model",))
