"""Damaged files: one line that names the file, or what was written; never anything else where there
are checksums. With more cases of each: XLNET_TEST_CASES=100."""

import collections
import gzip
import json
import os
import pathlib
import random
import shutil
from functools import partial

import pytest
from helpers import command, pretraining
from helpers.finetuning import make_vocabulary
from helpers.paths import GOLDEN, RELEASED
from helpers.tasks import read_rows, settings, write_records

from xlnet.convert import config_json, weights
from xlnet.corpus import reading, record_files
from xlnet.corpus.manifest import Manifest
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine import checkpoint
from xlnet.settings.data import CorpusSettings
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.settings.network import XLNetConfig
from xlnet.support import errors, files
from xlnet.support.errors import UserError
from xlnet.tasks import encoding, known
from xlnet.tasks.fields import Row

CASES = int(os.environ.get("XLNET_TEST_CASES", 12))


# ---- kinds of damage: functions of (bytes, `random.Random`)


def flip(content, rng):
    """One to three bits, often in the first bytes, where formats have their marks."""
    spoiled = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 3))):
        reach = min(len(spoiled), 200) if rng.random() < 0.3 else len(spoiled)
        spoiled[rng.randrange(reach)] ^= 1 << rng.randrange(8)
    return bytes(spoiled)


def cut(content, rng):
    return content[: rng.randrange(len(content))]


def overwrite(content, rng):
    place = rng.randrange(len(content))
    more = rng.randbytes(rng.choice((1, 4, 40)))
    return (content[:place] + more + content[place + len(more) :])[: len(content)]


STRANGE = (None, True, -1, 10**30, float("nan"), "", "../x", "\x00", [], {}, [[]])


def edit(content, rng):
    """JSON with another value, or without a key, as with an editor; other files are cut."""
    try:
        value = json.loads(content)
    except ValueError:
        return cut(content, rng)
    holders, rest = [], [value]
    while rest:
        each = rest.pop()
        if isinstance(each, (dict, list)) and each:
            holders.append(each)
            rest += each.values() if isinstance(each, dict) else each
    holder = rng.choice(holders)
    keys = list(holder) if isinstance(holder, dict) else range(len(holder))
    key = rng.choice(keys)
    if isinstance(holder, dict) and rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = rng.choice(STRANGE)
    return json.dumps(value).encode()


KINDS = (flip, cut, overwrite, edit)


# ---- subjects: files as programs write them, and how programs read them


def make_records(folder):
    pretraining.make_text(folder / "text.txt", seed=0, sentences=100)
    make_vocabulary(folder / "made.model", 37)
    command.succeed(
        "data_utils.py",
        input_glob=folder / "text.txt",
        save_dir=folder / "records",
        sp_path=folder / "made.model",
        seq_len=32,
        reuse_len=16,
        num_streams=2,
        num_workers=1,
    )


def read_records(folder):
    directory = str(folder / "records")
    manifest = Manifest.read(directory)
    manifest.verify(directory)
    found = [manifest.seq_len, manifest.reuse_len, manifest.uncased]
    for path in manifest.stream_paths(directory):
        found.append(pathlib.Path(path).read_bytes())
    return found


def make_text(folder):
    lines = pretraining.make_text(folder / "text.txt", seed=0, sentences=60)
    with gzip.open(folder / "text.txt.gz", "wb") as f:
        f.write("\n".join(lines).encode())


def read_text(folder):
    settings = CorpusSettings(input_glob="", save_dir="", sp_path="")
    path, found = str(folder / "text.txt.gz"), []
    for chunk in reading.cut({path: files.size(path)}):
        found += reading.read_chunk(chunk, settings, collections.Counter())
    return found


def make_checkpoint(folder):
    arrays = checkpoint.read_weights(str(RELEASED / "xlnet_model.ckpt"))
    checkpoint.write_arrays(str(folder / "model.ckpt-1"), arrays)
    checkpoint.write_state_file(str(folder))
    shutil.copy(RELEASED / "xlnet_config.json", folder)


def read_checkpoint(folder):
    XLNetConfig(json_path=str(folder / "xlnet_config.json"))
    prefix = checkpoint.resolve(str(folder))
    assert os.path.dirname(prefix) == str(folder)
    arrays = checkpoint.read_weights(prefix)
    return [(name, arrays[name].tobytes()) for name in sorted(arrays)]


QUESTION = {"question": "What?", "answers": [{"text": "ka", "answer_start": 0}]}
QUESTIONS = [dict(QUESTION, id=f"q{i}") for i in range(5)]
SQUAD = {"data": [{"paragraphs": [{"context": "kamat te", "qas": QUESTIONS}]}]}
ROWS = [{"text_a": f"kamat telok {i}", "label": "pq"[i % 2]} for i in range(20)]
CELLS = "".join('"{}",{}\n'.format(*row.values()) for row in ROWS)
OWN_FILES = {
    "train.csv": "text_a,label\n" + CELLS,
    "train.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
    "train.conll": "EU B-ORG\nrejects O\nGerman B-MISC\ncall O\n\nPeter B-PER\n\n" * 3,
    "train.json": json.dumps(SQUAD),
}


def make_own_files(folder):
    for name, text in OWN_FILES.items():
        (folder / name).write_text(text)


def read_own_file(name, group, folder):
    task = known.resolve_task(settings(folder / name, group, dev_share=0.0))
    rows = read_rows(task, "", "train")
    return [row[:4] for row in rows], task.labels  # without where they stand


def make_cache(folder):
    make_vocabulary(folder / "made.model", 37)
    write_cache(folder)


def write_cache(folder):
    tokenizer = Tokenizer(str(folder / "made.model"))
    rows = []
    for i in range(9):
        texts = ("kamat telok " * (i + 1), "rokmi")
        rows.append(Row(str(i), (texts,), str(i % 2)))
    layout = encoding.Layout(16)
    return write_records(folder / "cache", rows, tokenizer, layout)


def read_cache(folder):
    """As a run that finds the records of an earlier one."""
    records = record_files.EqualRecords(write_cache(folder))
    return list(map(records.read, range(len(records))))


def make_theirs(folder):
    for name in ("config.json", "model.safetensors"):
        shutil.copy(GOLDEN / "hf" / "sequence_classification" / name, folder)


def read_theirs(folder):
    path = str(folder / "config.json")
    entries = config_json.checked_entries(files.read_json(path, "config"), path)
    config_json.architecture(entries, path)
    return [entries, weights.read_folder(str(folder)).keys()]


# name: make, read, the files to damage, whether checksums protect them
SUBJECTS = {
    "records": (make_records, read_records, "records/*[dn]", True),
    "text, gzip": (make_text, read_text, "text.txt.gz", True),
    "checkpoint": (make_checkpoint, read_checkpoint, "model.ckpt-*", True),
    "fine-tuning records": (make_cache, read_cache, "cache/*.tf*", True),
    "Hugging Face": (make_theirs, read_theirs, "*.*", False),
}
for path, group in (
    ("train.csv", ClassifierSettings),
    ("train.jsonl", ClassifierSettings),
    ("train.conll", TaggerSettings),
    ("train.json", SpanSettings),
):
    SUBJECTS[path] = make_own_files, partial(read_own_file, path, group), path, False


@pytest.mark.parametrize("name", SUBJECTS)
def test_damage_is_named_or_harmless(name, tmp_path):
    make, read, victims, is_checked = SUBJECTS[name]
    made = tmp_path / "made"
    made.mkdir()
    make(made)
    folder = tmp_path / "damaged"
    expected = read(made)
    for number in range(CASES):
        rng, damage = random.Random(repr((name, number))), KINDS[number % len(KINDS)]
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(made, folder)
        victim = rng.choice(sorted(folder.glob(victims)))
        victim.write_bytes(damage(victim.read_bytes(), rng))
        case = f"{damage.__name__} {number} of {victim.name}"
        try:
            with errors.translated_errors():
                found = read(folder)
        except (UserError, OSError) as e:
            line = str(e)
            assert "\n" not in line, case
            stem = victim.name.partition(".data-")[0].removesuffix(".index")
            assert stem in line or victim.parent.name in line, (case, line)
        else:
            assert found == expected or not is_checked or damage is edit, case
