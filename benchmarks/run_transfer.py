"""Is it worth while to pretrain? Tasks learned from a small pretrained model, from random weights,
and by words alone: texts, entities, questions.

The model of a language is pretrained on raw text and on the texts of the tasks' training files,
without their labels. Each task is then fine-tuned with several seeds, all settings alike but the
start, and evaluated once, after the last step; nothing is chosen by the results.
"""

import collections
import dataclasses
import json
import os
import re
import statistics
import sys

import numpy as np
import repository  # finds the library and recipes
from recipes import chosen, keep_settings, print_table, stage

from xlnet.commands import cli
from xlnet.corpus import reading
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.data import CorpusSettings
from xlnet.settings.fields import required, setting
from xlnet.support import files
from xlnet.tasks import custom, evaluation, known
from xlnet.tasks.files import parsing
from xlnet.tasks.questions.answers import BestSpans
from xlnet.tasks.tagging.tags import Tags
from xlnet.tasks.types import contract

# raw_text: (directory, its input_format, or a key of `BREAKS`). tasks: by name, (directory, split
# to evaluate, epochs). more_text: tasks whose texts are read, and nothing else. pieces: of the
# vocabulary; entities in Chinese are tagged character by character.
Language = collections.namedtuple("Language", "raw_text tasks more_text pieces")

LANGUAGES = {
    "english": Language(
        raw_text=(
            ("pretrain_en/gutenberg", "book"),
            ("pretrain_en/wikitext-2", "wikitext"),
            ("pretrain_en/xlnet_lines", "lines"),
        ),
        tasks={
            "sst-2": ("glue/SST-2", "dev", 1),
            "cola": ("glue/CoLA", "dev", 4),
            "ag_news": ("ag_news_csv", "test", 4),
            "qqp": ("glue/QQP", "dev", 3),
            "conll2003": ("conll2003", "dev", 5),
            "squad1": ("squad", "dev", 8),
            "squad2": ("squad", "dev", 5),
        },
        more_text={"imdb": "aclImdb", "race": "RACE"},
        pieces="unigram",
    ),
    "chinese": Language(
        raw_text=(("pretrain_zh", "paragraphs"),),
        tasks={
            "chnsenticorp": ("ChnSentiCorp", "dev", 3),
            "msra_ner": ("msra_ner", "test", 3),
            "resume_ner": ("ResumeNER", "dev", 2),
        },
        more_text={"tnews": "clue/tnews", "afqmc": "clue/afqmc"},
        pieces="char",
    ),
}
ARCHITECTURE = dict(
    n_layer=2,
    d_model=192,
    n_head=4,
    d_head=48,
    d_inner=768,
    ff_activation="gelu",
    untie_r=True,
)
INIT_STD = "--init_std=0.07"  # 1/sqrt(d_model): benchmarks/README.md
PRETRAINING = dict(
    train_batch_size=16,
    mem_len=64,
    perm_size=64,
    num_predict=64,
    mask_alpha=5,
    mask_beta=3,
    dropout=0,
    dropatt=0,
    learning_rate=1.5e-3,
    weight_decay=0.01,
    log_steps=100,
    save_steps=1000,
)
FINE_TUNING = dict(
    max_seq_length=128,
    train_batch_size=32,
    learning_rate=1e-3,
    save_steps=100000,
    eval_steps=0,
    log_steps=200,
)
OF_PROGRAM = {
    "xlnet classify": dict(summary_type="mean"),
    "xlnet tag": {},
    "xlnet squad": dict(
        max_seq_length=256, doc_stride=96, max_query_length=32, max_answer_length=32
    ),
}
HEADER = (
    "task",
    "rows",
    "evaluated",
    "metric",
    "majority",
    "words alone",
    "from scratch",
    "pretrained",
)


@dataclasses.dataclass(frozen=True)
class TransferSettings:
    """run_transfer.py: the data, where to, how long."""

    data_dir: str = required("directory of the data sets, in their official layouts")
    out_dir: str = setting("transfer_run", "directory for everything that is made")
    languages: str = setting(",".join(LANGUAGES), "languages, comma-separated")
    tasks: str = setting("all", "tasks of these languages, comma-separated, or all")
    vocab_size: int = setting(8000, "pieces of a language's vocabulary", minimum=100)
    pretrain_steps: int = setting(4000, "pretraining steps of each language", minimum=1)
    num_seeds: int = setting(3, "fine-tunings of a task from each start", minimum=1)
    epochs: int = setting(
        0, "passes over a task's training file; 0: each task's own number", minimum=0
    )


def main(settings):
    languages = chosen("languages", settings.languages, "language", LANGUAGES)
    tasks = [task for name in languages for task in LANGUAGES[name].tasks]
    if settings.tasks != "all":
        tasks = chosen("tasks", settings.tasks, "task of these languages", tasks)
    keep_settings(
        settings.out_dir,
        data_dir=os.path.abspath(settings.data_dir),
        vocab_size=settings.vocab_size,
        pretrain_steps=settings.pretrain_steps,
    )
    rows = [
        row for name in languages for row in run(settings, name, LANGUAGES[name], tasks)
    ]
    print_table(HEADER, rows)


def run(settings, name, language, tasks):
    """Pretrains the model of a language and fine-tunes it; yields the rows of the table."""
    out = os.path.join(os.path.abspath(settings.out_dir), name)
    pretrain(settings, name, language, out)
    for task, where in language.tasks.items():
        if task in tasks:
            yield from compare(settings, out, task, *where)


# ---- text and pretraining ----


def pretrain(settings, name, language, out):
    text, spiece = os.path.join(out, "text.jsonl"), os.path.join(out, "spiece.model")
    if not os.path.exists(text):
        count = write_text(settings.data_dir, language, text)
        print(f"{name}: {count} documents in {text}", flush=True)
    if not os.path.exists(spiece):
        stage(
            f"{name}: vocabulary",
            "xlnet data vocabulary",
            input_glob=text,
            sp_path=spiece,
            vocab_size=settings.vocab_size,
            model_type=language.pieces,
            language=name,
        )
    flags = {}
    for split, flag, streams in (
        ("train", "record_info_dir", 32),
        ("heldout", "eval_record_info_dir", 16),
    ):
        flags[flag] = os.path.join(out, "records", split)
        stage(
            f"{name}: records, {split}",
            "data_utils.py",
            input_glob=text,
            split=split,
            save_dir=flags[flag],
            sp_path=spiece,
            seq_len=128,
            reuse_len=64,
            num_streams=streams,
            heldout_share=0.01,
        )
    files.write_json(
        os.path.join(out, "config.json"),
        dict(ARCHITECTURE, n_token=Tokenizer(spiece).vocab_size),
    )
    stage(
        f"{name}: pretraining",
        "train_gpu.py",
        INIT_STD,
        model_dir=os.path.join(out, "pretrained"),
        model_config_path=os.path.join(out, "config.json"),
        train_steps=settings.pretrain_steps,
        **flags,
        warmup_steps=round(0.03 * settings.pretrain_steps),
        **PRETRAINING,
    )


def write_text(data_dir, language, path):
    """Writes all documents of a language as JSON lines; returns their number."""
    documents = [
        document
        for part, form in language.raw_text
        for document in raw_documents(os.path.join(data_dir, part), form)
    ]
    for name, part in dict(
        {task: where[0] for task, where in language.tasks.items()}, **language.more_text
    ).items():
        documents += task_documents(name, os.path.join(data_dir, part))
    files.write_text(
        path,
        "".join(
            json.dumps({"text": document}, ensure_ascii=False) + "\n"
            for document in documents
        ),
    )
    return len(documents)


# Where documents begin in text of a form that the library does not read, and what is replaced
# within them: lines of hard-wrapped paragraphs are joined, WikiText's " @-@ " becomes "-".
BREAKS = {
    "book": ("\f", r"(?<=\S)[ \t]*\n[ \t]*(?=\S)", " "),
    "wikitext": (r"(?<=\n \n)(?= = [^=\n]+ = \n \n)", r" @([-,.])@ ", r"\1"),
}


def raw_documents(directory, form):
    """The documents of text files."""
    if form in BREAKS:
        border, old, new = BREAKS[form]
        for path in reading.find_files(directory, "data_dir"):
            with open(path, encoding="utf-8") as f:
                parts = re.split(border, f.read())
            yield from (re.sub(old, new, part) for part in parts if part.strip())
        return
    how = CorpusSettings(
        input_glob=directory, save_dir="", sp_path="", input_format=form
    )
    lines = []
    paths = reading.find_files(directory, "data_dir")
    for chunk in reading.cut(paths, files.sizes(paths), sys.maxsize):
        for line in reading.read_chunk(chunk, how, collections.Counter()):
            lines.append(line.text)
            if line.ends_document:
                yield "\n".join(lines)
                lines = []


def task_documents(name, directory):
    """The different texts of a task's training file."""
    task = custom.complete(known.find_task(name), directory)
    rows = parsing.read_parts(task, directory, "train", need_labels=True)["train"]
    return list(
        dict.fromkeys(
            text for row in rows for pair in row.pairs for text in pair if text
        )
    )


# ---- tasks ----


def compare(settings, out, task, part, split, epochs):
    """Yields the rows of a task, one for each of its two first metrics."""
    epochs = settings.epochs or epochs
    data_dir = os.path.join(settings.data_dir, part)
    known_task = custom.complete(known.find_task(task), data_dir)
    starts = {
        "scratch": {},
        "pretrained": {"init_checkpoint": os.path.join(out, "pretrained")},
    }
    program = known_task.type.program
    found = {
        start: [
            fine_tune(program, out, task, data_dir, split, epochs, start, seed, flags)
            for seed in range(settings.num_seeds)
        ]
        for start, flags in starts.items()
    }
    train, held_out = (
        parsing.read_parts(known_task, data_dir, each, need_labels=True)[each]
        for each in ("train", split)
    )
    majority, words = baselines(known_task, out, train, held_out)
    for metric in known_task.metrics[:2]:
        yield (
            task,
            f"{len(train):,}",
            f"{len(held_out):,} {split}",
            metric,
            "{:.3f}".format(majority.get(metric, float("nan"))),
            f"{words[metric]:.3f}",
            *(spread([result[metric] for result in found[start]]) for start in starts),
        )


def fine_tune(program, out, task, data_dir, split, epochs, start, seed, flags):
    """Fine-tunes once; returns the metrics after the last step."""
    model_dir = os.path.join(out, task, f"{start}_{seed}_of_{epochs}_epochs")
    stage(
        f"{task} from {start}, seed {seed}",
        program,
        INIT_STD,
        task_name=task,
        data_dir=data_dir,
        output_dir=os.path.join(out, task, "records"),
        model_dir=model_dir,
        spiece_model_file=os.path.join(out, "spiece.model"),
        model_config_path=os.path.join(out, "config.json"),
        do_train=True,
        do_eval=True,
        eval_split=split,
        epochs=epochs,
        seed=seed,
        **flags,
        **dict(FINE_TUNING, **OF_PROGRAM[program]),
    )
    results = files.read_json(
        os.path.join(model_dir, "results", f"eval_results_{split}.json"), "results"
    )
    return results["checkpoints"][-1]


def spread(values):
    """Mean and standard deviation in words."""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"


def baselines(task, out, train, held_out):
    """The metrics of a constant prediction, and of a prediction from single words, as dicts.

    For questions both are no answer at all. Words of a sentence have no constant answer; their
    other one is the tag that each word has most often in training.
    """
    scorer = task.scorer
    truth = scorer.gold_labels(held_out)
    if task.type.name == "spans":
        nothing = scorer.evaluate(
            [BestSpans([], null_score=1e9)] * len(held_out), truth
        )
        return nothing, nothing
    words = (
        most_frequent_tags(task, train, held_out)
        if task.type.name == "tagging"
        else bag_of_words(
            task, Tokenizer(os.path.join(out, "spiece.model")), train, held_out
        )
    )
    constant = evaluation.constant_answer(task, truth, contract.THRESHOLD) or {}
    return constant, scorer.evaluate(words, truth)


def most_frequent_tags(task, train, held_out):
    """Gives each word the tag that it has most often in training, and words that are not in
    training the most frequent tag of all: n `Tags`, as predictions are."""
    counts_of_word: dict[str, collections.Counter] = collections.defaultdict(
        collections.Counter
    )
    all_counts: collections.Counter = collections.Counter()
    for row in train:
        all_counts.update(row.label)
        for word, tag in zip(row.source.words, row.label):
            counts_of_word[word][tag] += 1

    tag_of_word = {
        word: counts.most_common(1)[0][0] for word, counts in counts_of_word.items()
    }
    tag_of_unknown = all_counts.most_common(1)[0][0]
    predictions = []
    for row in held_out:
        tags = [tag_of_word.get(word, tag_of_unknown) for word in row.source.words]
        ids = np.array([task.labels.index(tag) for tag in tags])
        predictions.append(Tags(ids, np.ones(len(ids), np.float32)))
    return predictions


def bag_of_words(task, tokenizer, train, held_out):
    """Logistic regression on which pieces a row has: float32 [n,L] probabilities.

    Of pairs also which pieces one text has and the other one has not.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import normalize

    model = LogisticRegression(max_iter=1000).fit(
        normalize(bags(tokenizer, train)), task.reader.label_array(train)
    )
    return model.predict_proba(normalize(bags(tokenizer, held_out))).astype(np.float32)


def bags(tokenizer, rows):
    """Sparse [n, pieces] of single texts, [n, 2 * pieces] of pairs: in any, in just one."""
    from scipy import sparse
    from sklearn.feature_extraction.text import CountVectorizer

    count = CountVectorizer(
        analyzer=lambda ids: ids,
        binary=True,
        dtype=np.float32,
        vocabulary=range(tokenizer.vocab_size),
    )
    sides = zip(*(row.pairs[0] for row in rows))
    has = [count.transform(tokenizer.encode_lines(side)) for side in sides if any(side)]
    if len(has) == 1:
        return has[0]
    return sparse.hstack([has[0].maximum(has[1]), abs(has[0] - has[1])]).tocsr()


if __name__ == "__main__":
    cli.run(
        main,
        TransferSettings,
        about="pretrains small models and shows what it is worth on tasks",
    )
