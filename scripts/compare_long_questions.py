"""Questions that windows by themselves cannot answer: --long_document=sliding and memory on made-up
texts, side by side.

A text is 18 letters, each a piece. The first one says which of the three names among the last seven
is the answer. The network reads 16 tokens at once, 11 of them the text's, one window every 6: no
window has the first letter and one of the last seven. So only what is remembered of the windows
before tells, and who remembers nothing is right in a third of the cases.
"""

import dataclasses
import json
import os
import random
import time

from recipes import chosen, print_table, stage

from xlnet import cli, files
from xlnet.config import setting
from xlnet.tokenization import Tokenizer

WAYS = ("sliding", "memory")
KEYS, FILLERS, NAMES = "xyz", "abcdefgh", "klmnopqr"
FILLED, LAST = 10, 7                # letters behind the first; the last ones
NETWORK = dict(n_layer=2, d_model=32, n_head=2, d_head=16, d_inner=64, ff_activation="gelu",
               untie_r=True)


@dataclasses.dataclass(frozen=True)
class ComparisonSettings:
    """compare_long_questions.py: how many questions, how long."""
    out_dir: str = setting("long_questions", "directory for everything that is made")
    ways: str = setting(",".join(WAYS), "values of long_document, comma-separated")
    questions: int = setting(3000, "questions to train on; a tenth as many, others, to measure by",
                             minimum=10)
    train_steps: int = setting(600, "fine-tuning steps of each way", minimum=1)
    seed: int = setting(0, "seed of texts, initialization and shuffling", minimum=0)


def main(settings):
    ways = chosen("ways", settings.ways, "long_document", WAYS)
    write_set(settings)
    write_network(settings)
    print_table(("long_document", "F1", "exact match", "loss", "minutes"),
                [run(settings, way) for way in ways])


def write_set(settings):
    """Writes train.jsonl, dev.jsonl and text.txt, the texts alone."""
    draw = random.Random(settings.seed)
    rows = [made_up(draw, number) for number in range(settings.questions * 11 // 10)]
    parts = {"train": rows[:settings.questions], "dev": rows[settings.questions:]}
    for name, part in parts.items():
        files.write_text(os.path.join(settings.out_dir, name + ".jsonl"),
                         "".join(json.dumps(row) + "\n" for row in part))
    files.write_text(os.path.join(settings.out_dir, "text.txt"),
                     "".join(row["context"] + "\n" for row in parts["train"]))


def write_network(settings):
    """Writes spiece.model, each letter a piece, and config.json."""
    out = os.path.abspath(settings.out_dir)
    spiece = os.path.join(out, "spiece.model")
    stage("vocabulary", "scripts/train_sentencepiece.py", sp_path=spiece, model_type="char",
          input_glob=os.path.join(out, "text.txt"))
    files.write_json(os.path.join(out, "config.json"),
                     dict(NETWORK, n_token=Tokenizer(spiece).vocab_size))


def made_up(draw, number):
    """A row: id, context, question, answer and where it begins [characters]."""
    key, names = draw.randrange(len(KEYS)), draw.sample(NAMES, len(KEYS))
    last = [draw.choice(FILLERS) for _ in range(LAST)]
    places = sorted(draw.sample(range(LAST), len(names)))
    for place, name in zip(places, names):
        last[place] = name
    text = KEYS[key] + "".join(draw.choice(FILLERS) for _ in range(FILLED)) + "".join(last)
    return dict(id=str(number), context=text, question=draw.choice(FILLERS), answer=names[key],
                answer_start=1 + FILLED + places[key])


def run(settings, way):
    """Fine-tunes and evaluates one way; returns its row of the table."""
    out, began = os.path.abspath(settings.out_dir), time.time()
    model_dir = os.path.join(out, way)
    stage("long_document=" + way, "run_squad.py", train_file=os.path.join(out, "train.jsonl"),
          predict_file=os.path.join(out, "dev.jsonl"), answer_start_column="answer_start",
          output_dir=os.path.join(out, "records"), model_dir=model_dir, long_document=way,
          max_segments=4, spiece_model_file=os.path.join(out, "spiece.model"),
          model_config_path=os.path.join(out, "config.json"), do_train=True, do_eval=True,
          max_seq_length=16, doc_stride=6, max_query_length=2, max_answer_length=1,
          train_batch_size=32, train_steps=settings.train_steps, learning_rate=5e-3,
          warmup_share=0.1, dropout=0, dropatt=0, init_std=0.2, seed=settings.seed,
          eval_steps=0, save_steps=settings.train_steps, log_steps=100)
    last = files.read_json(os.path.join(model_dir, "eval_results_dev.json"),
                           "results")["checkpoints"][-1]
    return (way, "%.1f" % last["f1"], "%.1f" % last["exact"], "%.4f" % last["loss"],
            "%.1f" % ((time.time() - began) / 60))


if __name__ == "__main__":
    cli.run(main, ComparisonSettings,
            about="questions on texts longer than a window, with and without memory",
            examples=("--out_dir=long_questions",))
