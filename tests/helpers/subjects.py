"""Subjects of damage: folders of files as programs write them, and how programs read them.

A subject's `read` reads the files as the programs do and returns plain values. Functions import
TensorFlow.
"""

import collections
import dataclasses
import gzip
import json
import os
import shutil
from typing import Any, Callable

import numpy as np

from helpers import command, pretraining
from helpers.finetuning import make_files, make_vocabulary
from helpers.paths import GOLDEN, RELEASED
from xlnet.corpus import reading, tfrecord
from xlnet.corpus.manifest import Manifest
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.data import CorpusSettings
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.settings.network import XLNetConfig
from xlnet.support import files
from xlnet.tasks import custom
from xlnet.tasks.features import encoding


@dataclasses.dataclass(frozen=True)
class Subject:
    """A subject.

    Attributes:
      make: fills a new folder; arguments: the folder, the version 0 or 1.
      read: function of a folder.
      victims: patterns of the files to damage.
      is_checked: whether checksums protect the files; otherwise other content may be read.
      is_native: whether native code reads them, which may end the process.
      needs_tensorflow: whether TensorFlow is imported first.
      valid: kinds of damage that give another valid file.
    """

    name: str
    make: Callable[..., Any]
    read: Callable[..., Any]
    victims: tuple
    is_checked: bool
    is_native: bool = False
    needs_tensorflow: bool = False
    valid: tuple = ()


# ---- pretraining


def _make_records(folder, version):
    pretraining.make_text(folder / "text.txt", seed=version, sentences=100)
    command.succeed(
        "data_utils.py",
        input_glob=folder / "text.txt",
        save_dir=folder / "records",
        sp_path=_vocabulary(folder, version),
        seq_len=32,
        reuse_len=16 + version,
        num_streams=2,
        num_workers=1,
    )


def _vocabulary(folder, version):
    make_vocabulary(folder / "made.model", 37 + version)
    return folder / "made.model"


def _read_records(folder):
    """As a pretraining run does, after the checksums are verified."""
    directory = str(folder / "records")
    manifest = Manifest.read(directory)
    manifest.verify(directory)
    return [_of_manifest(manifest), _windows(directory, manifest)]


def _read_records_unverified(folder):
    directory = str(folder / "records")
    return _windows(directory, Manifest.read(directory))


def _of_manifest(manifest):
    """The values that a run uses; the counts are for people."""
    return [
        manifest.seq_len,
        manifest.reuse_len,
        manifest.bi_data,
        manifest.num_streams,
        manifest.windows_per_stream,
        manifest.uncased,
        manifest.keep_accents,
    ]


def _windows(directory, manifest):
    return [
        [
            tfrecord.EqualRecords(path, stream["bytes"] // stream["windows"]).read(
                number
            )
            for number in range(manifest.windows_per_stream)
        ]
        for path, stream in zip(manifest.stream_paths(directory), manifest.streams)
    ]


# ---- raw text


def _make_texts(folder, version):
    lines = pretraining.make_text(folder / "text.txt", seed=version, sentences=60)
    with gzip.open(folder / "text.txt.gz", "wb") as f:
        f.write("\n".join(lines).encode())
    (folder / "text.jsonl").write_text(
        "".join(json.dumps({"text": line}) + "\n" for line in lines)
    )


def _read_text(name):
    def read(folder):
        settings = CorpusSettings(input_glob="", save_dir="", sp_path="")
        path = str(folder / name)
        return [
            tuple(line)
            for chunk in reading.cut([path], [files.size(path)])
            for line in reading.read_chunk(chunk, settings, collections.Counter())
        ]

    return read


# ---- checkpoints


def _make_checkpoint(folder, version):
    from xlnet.engine import checkpoint

    rng = np.random.default_rng(version)
    for step in (1, 2):
        checkpoint.write_arrays(
            str(folder / (f"model.ckpt-{step}")),
            {
                "global_step": np.array(step + 10 * version),
                **{
                    f"model/w{i}": rng.normal(size=[7, 3]).astype("f4")
                    for i in range(5)
                },
            },
        )
    checkpoint.write_state_file(str(folder))
    shutil.copy(RELEASED / "xlnet_config.json", folder)


def _read_checkpoint(folder):
    from xlnet.engine import checkpoint

    XLNetConfig(json_path=str(folder / "xlnet_config.json"))
    prefix = checkpoint.resolve(str(folder))
    assert os.path.dirname(prefix) == str(folder)
    return [
        os.path.basename(prefix),
        checkpoint.step_of(str(folder)),
        checkpoint.read_weights(prefix),
    ]


# ---- fine-tuning


def _own_rows(group, path, need_labels=True, skips=False, **columns):
    """The task and the rows of an own file, which decides the labels."""
    task = custom.resolve_task(
        group(
            task_name="custom",
            data_dir=str(path),
            do_train=True,
            model_dir="model",
            **columns,
        )
    )
    rows = task.with_files(skips_errors=skips).reader.read(str(path), need_labels)
    return task, [row[:4] for row in rows]  # without where they stand


def _make_table(form):
    def make(folder, version):
        make_files(folder)
        rows = [
            line.split("\t")
            for line in (folder / "own" / "train.tsv").read_text().splitlines()
        ]
        if version:
            rows[1:] = rows[:0:-1]
        for name in ("own", "sts"):
            shutil.rmtree(folder / name)
        lines = {
            "tsv": ["\t".join(row) for row in rows],
            "csv": [",".join(f'"{cell}"' for cell in row) for row in rows],
            "jsonl": [json.dumps(dict(zip(rows[0], row))) for row in rows[1:]],
        }[form]
        (folder / ("train." + form)).write_text("\n".join(lines) + "\n")

    return make


def _read_table(form, skips=False):
    def read(folder):
        task, rows = _own_rows(
            ClassifierSettings,
            folder / ("train." + form),
            not skips,
            skips,
            text_a_column="first",
            text_b_column="second",
            label_column="kind",
            id_column="name",
        )
        assert skips or all(label in task.labels for _, _, label, _ in rows)
        return rows, task.labels

    return read


_CONLL = (
    "EU B-ORG\nrejects O\nGerman B-MISC\ncall O\n\nPeter B-PER\nBlackburn I-PER\n\n"
)


def _make_tagged(folder, version):
    (folder / "train.txt").write_text(
        (_CONLL * 3).replace("EU", "UN" if version else "EU")
    )
    (folder / "train.jsonl").write_text(
        "".join(
            json.dumps({"text": f"EU rejects call {i}", "entities": [[0, 2, "ORG"]]})
            + "\n"
            for i in range(9 - version)
        )
    )


def _read_tagged(name):
    def read(folder):
        task, rows = _own_rows(TaggerSettings, folder / name)
        return rows, task.labels

    return read


def _make_squad(folder, version):
    questions = [
        {
            "id": f"q{i}",
            "question": f"What is {i}?",
            "answers": [{"text": "kamat", "answer_start": 0}],
        }
        for i in range(5)
    ]
    (folder / "train.json").write_text(
        json.dumps(
            {
                "version": "1.1",
                "data": [
                    {
                        "title": "t",
                        "paragraphs": [
                            {"context": "kamat telok rokmi", "qas": questions[:2]},
                            {"context": f"kamat {version}", "qas": questions[2:]},
                        ],
                    }
                ],
            }
        )
    )


def _read_squad(folder):
    return _own_rows(SpanSettings, folder / "train.json")[1]


def _make_cache(folder, version):
    _write_cache(folder, Tokenizer(str(_vocabulary(folder, 0))), version)


def _write_cache(folder, tokenizer, version=0):
    examples = [
        encoding.Example((("kamat telok " * (i + 1 + version), "rokmi"),), i % 2)
        for i in range(9)
    ]
    return encoding.write_records(
        str(folder / "cache"),
        "own.train",
        examples,
        tokenizer,
        encoding.Layout(16, False, "sliding"),
    )


def _read_cache(folder):
    """As a run that finds the records of an earlier one."""
    found = _write_cache(folder, Tokenizer(str(folder / "made.model")))
    records = tfrecord.EqualRecords(found.path)
    return [list(map(records.read, range(found.count))), len(records)]


# ---- vocabularies and models


def _make_described_vocabulary(folder, version):
    Tokenizer(str(_vocabulary(folder, version))).save(str(folder / "spiece.model"))
    os.remove(folder / "made.model")


def _read_vocabulary(folder):
    tokenizer = Tokenizer(str(folder / "spiece.model"))
    return tokenizer.encode_lines(
        ["kamat telok 2010, é", "\u3042"]
    ), tokenizer.vocab_size


def _make_bare_vocabulary(folder, version):
    _make_described_vocabulary(folder, version)
    os.remove(folder / "spiece.model.json")


def _make_model(folder, version):
    from helpers.models import make_model

    make_model(folder / "model", "classification" if not version else "regression")


def _read_model(folder):
    from xlnet.runs import model_files

    found = model_files.read(str(folder / "model"))
    settings = found.tuned.settings if found.tuned else None
    return [
        found.config.to_dict(),
        os.path.basename(found.prefix),
        found.tokenizer.vocab_size,
        settings
        and {
            name: value
            for name, value in vars(settings).items()
            if not str(value).startswith(str(folder))
        },
    ]


def _make_theirs(folder, version):
    source = GOLDEN / "hf" / ("sequence_classification" if not version else "lm")
    for name in ("config.json", "model.safetensors"):
        shutil.copy(source / name, folder)


def _read_theirs(folder):
    from xlnet.convert import config_json, weights

    path = str(folder / "config.json")
    entries = config_json.read(files.read_json(path, "config"), path)
    return [entries, weights.read_folder(str(folder))]


SUBJECTS = (
    Subject("records", _make_records, _read_records, ("records/*.tfrecord",), True),
    Subject(
        "records, not verified",
        _make_records,
        _read_records_unverified,
        ("records/*.tfrecord",),
        True,
    ),
    Subject("manifest", _make_records, _read_records, ("records/manifest.json",), True),
    Subject("text", _make_texts, _read_text("text.txt"), ("text.txt",), False),
    Subject(
        "text, JSON lines",
        _make_texts,
        _read_text("text.jsonl"),
        ("text.jsonl",),
        False,
    ),
    Subject(
        "text, gzip",
        _make_texts,
        _read_text("text.txt.gz"),
        ("text.txt.gz",),
        True,
        valid=("doubled",),
    ),
    Subject(
        "checkpoint",
        _make_checkpoint,
        _read_checkpoint,
        ("model.ckpt-*", "checkpoint", "xlnet_config.json"),
        True,
        needs_tensorflow=True,
    ),
    Subject("TSV", _make_table("tsv"), _read_table("tsv"), ("train.tsv",), False),
    Subject(
        "TSV, faults skipped",
        _make_table("tsv"),
        _read_table("tsv", True),
        ("train.tsv",),
        False,
    ),
    Subject("CSV", _make_table("csv"), _read_table("csv"), ("train.csv",), False),
    Subject(
        "JSON lines",
        _make_table("jsonl"),
        _read_table("jsonl"),
        ("train.jsonl",),
        False,
    ),
    Subject("CoNLL", _make_tagged, _read_tagged("train.txt"), ("train.txt",), False),
    Subject(
        "tagged JSON lines",
        _make_tagged,
        _read_tagged("train.jsonl"),
        ("train.jsonl",),
        False,
    ),
    Subject("SQuAD", _make_squad, _read_squad, ("train.json",), False),
    Subject(
        "fine-tuning records",
        _make_cache,
        _read_cache,
        ("cache/*",),
        True,
        valid=("doubled",),
    ),
    Subject(
        "vocabulary",
        _make_described_vocabulary,
        _read_vocabulary,
        ("spiece.model", "spiece.model.json"),
        True,
        is_native=True,
    ),
    Subject(
        "vocabulary, alone",
        _make_bare_vocabulary,
        _read_vocabulary,
        ("spiece.model",),
        False,
        is_native=True,
    ),
    Subject(
        "model directory",
        _make_model,
        _read_model,
        ("model/*.json", "model/checkpoint"),
        False,
        needs_tensorflow=True,
    ),
    Subject(
        "Hugging Face's folder",
        _make_theirs,
        _read_theirs,
        ("config.json", "model.safetensors"),
        False,
    ),
)
