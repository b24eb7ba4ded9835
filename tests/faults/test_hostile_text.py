"""Texts and files from anywhere: a line or rows, soon, and in little memory.

With more examples: XLNET_TEST_EXAMPLES=10000.
"""

import collections
import contextlib
import gzip
import json
import logging
import operator
import os
import pathlib
import tracemalloc
from time import process_time

import hypothesis
import pytest
from helpers import tasks
from helpers.vocabulary import ODD_TEXTS, train_odd_model
from hypothesis import strategies as st

from xlnet.corpus import reading
from xlnet.corpus.offsets import align
from xlnet.corpus.sentences import split_sentences
from xlnet.corpus.tokenizer import Tokenizer, preprocess_text
from xlnet.settings.data import CorpusSettings
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.support import files
from xlnet.support.errors import UserError
from xlnet.tasks import encoding, known

EXAMPLES = int(os.environ.get("XLNET_TEST_EXAMPLES", "25"))
SIZE = 64_000  # characters
SOON = 10.0  # CPU seconds; some tenths on an idle machine
COLUMNS = dict(text_a_column="a", label_column="b")

# Characters with a meaning in rules, vocabularies and file formats; controls; halves of surrogate
# pairs, as escapes in JSON may give them.
_WORDS = "`` '' <unk> <eop> <sep> __label__ 3, Mr. e\u0301 \U0001f469\u200d\U0001f467"
_LOADED = [
    *" \t\n\r\x00\x0b\x1c\x85\u00a0\u2028\u3000\ufeff\u200b\u200d",
    *"`'\"“”.!?…。！，,;:|-()[]{}\\/<>@_▁#=ﷺİ",
    *_WORDS.split(" "),
    " = ",
]
_CHARACTERS = st.one_of(
    st.characters(exclude_categories=("Cs",)),
    st.sampled_from(_LOADED),
    st.sampled_from("".join(ODD_TEXTS)),
)
WHOLE_TEXTS = st.lists(_CHARACTERS, max_size=60).map("".join)
_HALVES = st.characters(categories=("Cs",))
_BROKEN_TEXTS = st.lists(st.one_of(_CHARACTERS, _HALVES), max_size=20).map("".join)
TEXTS = st.one_of(WHOLE_TEXTS, _BROKEN_TEXTS)
CONTENTS = st.one_of(
    st.lists(WHOLE_TEXTS, max_size=8).map(lambda lines: "\n".join(lines).encode()),
    st.binary(max_size=200),
    WHOLE_TEXTS.map(lambda text: text.encode("utf-16")),
)
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)
    ),
    max_leaves=12,
)
_PLACES, _NAMES = st.integers(-2, 12), st.sampled_from(["PER", "", "a b"])
_ENTITIES = st.lists(st.one_of(_JSON, st.tuples(_PLACES, _PLACES, _NAMES)), max_size=3)


def objects(**values):
    """JSON objects with some of these keys."""
    return st.one_of(_JSON, st.fixed_dictionaries({}, optional=values))


def some(strategy):
    """A short list of these, or anything."""
    return st.one_of(_JSON, st.lists(strategy, max_size=2))


_ANY = st.one_of(TEXTS, _JSON)
_ANSWERS = some(objects(text=TEXTS, answer_start=st.integers(-3, 30)))
_QUESTIONS = objects(id=_ANY, question=TEXTS, is_impossible=_JSON, answers=_ANSWERS)
_ARTICLES = objects(paragraphs=some(objects(context=TEXTS, qas=some(_QUESTIONS))))


def lines_of(rows, write=json.dumps):
    return st.lists(rows, max_size=8).map(
        lambda each: "\n".join(map(write, each)).encode()
    )


_HEADERS = st.sampled_from([b"", b"a\tb\n", b"a,b\n", b"b;a\n"])
_TABLES = st.builds(operator.add, _HEADERS, CONTENTS)
_TAGS = st.sampled_from(["O", "B-X", "S-Y", "", "B-", "-"])
_TAGGED = lines_of(st.tuples(TEXTS.filter(str.isprintable), _TAGS), " ".join)

# The settings of a task type, the file's name, and what it may contain.
FILES = {
    "TSV": (ClassifierSettings, "train.tsv", _TABLES, COLUMNS),
    "CSV": (ClassifierSettings, "train.csv", _TABLES, COLUMNS),
    "JSON": (ClassifierSettings, "train.json", _TABLES, COLUMNS),
    "JSON lines": (
        ClassifierSettings,
        "train.jsonl",
        lines_of(objects(a=_ANY, b=_ANY)),
        COLUMNS,
    ),
    "columns of tags": (TaggerSettings, "train.txt", st.one_of(CONTENTS, _TAGGED), {}),
    "tagged JSON": (
        TaggerSettings,
        "train.jsonl",
        lines_of(objects(text=TEXTS, entities=st.one_of(_JSON, _ENTITIES))),
        {},
    ),
    "questions": (
        SpanSettings,
        "train.json",
        objects(data=some(_ARTICLES)).map(lambda value: json.dumps(value).encode()),
        dict(max_seq_length=40, max_query_length=8, doc_stride=8),
    ),
}


class Place:
    """A folder with a vocabulary for texts of many scripts."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.tokenizer = Tokenizer(train_odd_model(self.folder / "m.model", "all"))

    def file(self, name, content):
        (self.folder / name).write_bytes(content)
        return str(self.folder / name)

    def read_text(self, name, content):
        chunk = reading.Chunk(self.file(name, content), 0, 1 << 30)
        settings = CorpusSettings(input_glob="", save_dir="", sp_path="")
        with contextlib.suppress(UserError):
            collections.deque(reading.read_chunk(chunk, settings, None), maxlen=0)

    def read_rows(self, group, name, content, how):
        """Reads and encodes the rows of a task's file; an error has to be a line that names it."""
        settings = tasks.settings(self.file(name, content), group, **how)
        try:
            task = known.resolve_task(settings)
            rows = task.read(settings.data_dir, True)
        except UserError as e:
            assert name in str(e), e
            return
        if group is not SpanSettings:
            made = task.encode(rows, self.tokenizer, encoding.Layout(16))
            assert (made[0]["input_ids"] < self.tokenizer.vocab_size).all()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("hostile"))


@pytest.mark.parametrize("form", FILES)
def test_a_file_is_refused_in_a_line_or_read(form, place, caplog):
    group, name, contents, how = FILES[form]

    @hypothesis.seed(0)
    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(contents)
    def holds(content):
        place.read_rows(group, name, content, how)

    caplog.set_level(logging.CRITICAL, "xlnet")
    holds()


# Texts of length n, and their readers.
SHAPES = {
    "one line": lambda n: "a" * n,
    "spaces": lambda n: " " * n,
    "stops": lambda n: "." * n,
    "initials": lambda n: "A. " * (n // 3),
    "accents": lambda n: "e" + "\u0301" * n,
    "quotation marks": lambda n: "`" * n,
    "brackets": lambda n: "[" * n,
    "quotes": lambda n: '"' * n,
    "accents above and below": lambda n: "e" + "\u0301\u0316" * (n // 2),
    "ligatures": lambda n: "ﷺ" * (n // 9),
    "capitals": lambda n: "İ" * n,
    "commas": lambda n: "2010, " * (n // 6),
}


def read_json(text):
    with contextlib.suppress(ValueError):
        files.parse_json(text)


def table(name):
    return lambda place, text: place.read_rows(
        ClassifierSettings, name, b"a\tb\nx\tp\ny\tq\n" + text.encode(), COLUMNS
    )


READERS = {
    "cleaning": lambda place, text: preprocess_text(text),
    "encoding": lambda place, text: place.tokenizer.encode_lines([text]),
    "offsets": lambda place, text: align(place.tokenizer, text),
    "sentences": lambda place, text: split_sentences(text),
    "text": lambda place, text: place.read_text("text.txt", text.encode()),
    "TSV": table("train.tsv"),
    "CSV": table("train.csv"),
    "JSON lines": table("train.jsonl"),
    "JSON in pieces": lambda place, text: read_json(text),
}


@pytest.mark.parametrize("name", READERS)
def test_a_long_text_is_read_soon(name, place):
    """A step for each pair of characters would take minutes."""
    took = {}
    for kind, shape in SHAPES.items():
        text, began = shape(SIZE), process_time()
        READERS[name](place, text)
        took[kind] = process_time() - began
    assert max(took.values()) < SOON, took


def test_a_bomb_takes_no_memory(place):
    """20 MB in 20 kB."""
    content = gzip.compress(bytes(20 << 20))
    tracemalloc.start()
    try:
        place.read_text("bomb.txt.gz", content)
        assert tracemalloc.get_traced_memory()[1] < 6e6
    finally:
        tracemalloc.stop()
