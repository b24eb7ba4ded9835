"""Laws that hold for any text and any bytes, and texts that try them: `LAWS`, by name.

A law is a function of a sample of its strategy and of `Place`; it raises if it does not hold.
"""

import collections
import contextlib
import dataclasses
import functools
import gzip
import io
import json
import os
import pathlib
import shutil
import tempfile
import time
import tracemalloc

import hypothesis
import numpy as np
from hypothesis import strategies as st

from helpers.damage import quiet
from helpers.vocabulary import ODD_TEXTS, train_odd_model
from xlnet import json_stream
from xlnet.errors import UserError
from xlnet.settings.data import CorpusSettings
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.tasks.features import encoding
from xlnet.tasks.files import parsing
from xlnet.tasks.types import custom
from xlnet.text import corpus, reading, recognition
from xlnet.text.sentences import sentences_and_joints
from xlnet.tokenization.offsets import Aligner
from xlnet.tokenization.tokenizer import Tokenizer, clean_lines, clean_text

SKIPPING = CorpusSettings(input_glob="", save_dir="", sp_path="", on_error="skip")

# ---- texts

# Characters with a meaning in rules, vocabularies and file formats; controls.
_LOADED = st.sampled_from([*" \t\n\r\x00\x0b\x1c\x85\u00a0\u2028\u3000\ufeff\u200b\u200d",
                           *"`'\"“”.!?…。！，,;:|-()[]{}\\/<>@_▁#", "``", "''", "<unk>", "<eop>",
                           "<sep>", "__label__", "e\u0301", "\u1112\u1161\u11ab", "ﷺ", "İ", "ß",
                           "ſ", "Σ", "\U0001f469\u200d\U0001f467", "3,", "Mr.", "U.S.", "=", " = "])
_CHARACTERS = st.one_of(st.characters(exclude_categories=("Cs",)), _LOADED,
                        st.sampled_from("".join(ODD_TEXTS)))
WHOLE_TEXTS = st.lists(_CHARACTERS, max_size=60).map("".join)
# With halves of surrogate pairs, as escapes in JSON may give them.
TEXTS = st.one_of(WHOLE_TEXTS, st.text(max_size=30),
                  st.lists(st.one_of(_CHARACTERS, st.characters(categories=("Cs",))),
                           max_size=20).map("".join))
# Lines of a file, mostly UTF-8.
CONTENTS = st.one_of(
    st.lists(WHOLE_TEXTS, max_size=8).map(lambda lines: "\n".join(lines).encode()),
    st.binary(max_size=200), WHOLE_TEXTS.map(lambda text: text.encode("utf-16")))
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4),
                            st.dictionaries(TEXTS, inner, max_size=4)), max_leaves=12)


class Place:
    """A folder of its own, with a vocabulary for texts of many scripts."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hostile-"))
        self.tokenizer = Tokenizer(train_odd_model(self.folder / "m.model", "all"))
        self.aligner = Aligner(self.tokenizer)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def close(self):
        shutil.rmtree(self.folder)


# ---- cleaning, encoding, offsets, sentences

def cleaning(texts, place):
    """Cleaning lines together is the same as each alone, and idempotent."""
    for lower in (False, True):
        for keeps in (False, True):
            alone = [clean_text(text, lower, True, keeps) for text in texts]
            assert clean_lines(texts, lower, keeps) == alone
    for text in alone:
        assert " ".join(text.split()) == text or "`" in text or "'" in text


def encodes(texts, place):
    """Encoding together is the same as each alone; half characters are an error of one line."""
    tokenizer = place.tokenizer
    if any(_has_half(text) for text in texts):
        with contextlib.suppress(UserError):
            tokenizer.encode_lines(texts)
            raise AssertionError("half a character was taken")
        return
    together = tokenizer.encode_lines(texts)
    assert together == [tokenizer.ids(text) for text in texts]
    for text, ids in zip(texts, together):
        assert all(0 <= id < tokenizer.vocab_size for id in ids)
        pieces = tokenizer.pieces(text)
        assert [piece for id, piece in zip(ids, pieces) if id != tokenizer.unk_id] == [
            tokenizer.id_to_piece(id) for id in ids if id != tokenizer.unk_id]
        normal = tokenizer.normalize_with_offsets(tokenizer.clean(text))[0]
        if not (set(ids) & {tokenizer.unk_id}) and not _is_special(tokenizer, ids):
            # Joined pieces are the text.
            assert "".join(pieces) == normal, (pieces, normal)
            assert tokenizer.ids(tokenizer.decode(ids)) == ids or "`" in text or "'" in text


def _is_special(tokenizer, ids):
    return any(tokenizer.is_special[id] for id in ids) or set(ids) & set(tokenizer.byte_ids)


def _has_half(text):
    return any("\ud800" <= character <= "\udfff" for character in text)


def offsets(texts, place):
    """Pieces have offsets inside of the text, in order."""
    whole = [text for text in texts if not _has_half(text)]
    for text, aligned in zip(whole, place.aligner.encode(whole)):
        assert (aligned.starts >= 0).all() and (aligned.ends <= len(text)).all()
        assert (aligned.starts <= aligned.ends).all()
        assert (np.diff(aligned.starts) >= 0).all() and (np.diff(aligned.ends) >= 0).all()


def sentences(text, place):
    """Joined, they are the text, except for spaces between them."""
    found = [sentence for sentence, _ in sentences_and_joints(text)]
    assert all(sentence and sentence == sentence.strip() for sentence in found)
    assert "".join("".join(found).split()) == "".join(text.split())
    joined = "".join(("" if is_joined else " ") + sentence
                     for sentence, is_joined in sentences_and_joints(text))
    assert joined.split() == text.split()


# ---- streams

def streams(draw, place):
    """A file gives the same lines wherever it is cut, and tokens of the vocabulary."""
    content, form, cut = draw
    path = place.file("text.jsonl" if form == "jsonl" else "text.txt", content)
    settings = dataclasses.replace(SKIPPING, text_format="lines" if form == "jsonl" else form)
    end = len(content)
    borders = [0, min(cut, end), end]
    try:
        found = recognition.look(path)
    except UserError:       # refused, as UTF-16
        return
    if found.is_packed:
        return
    whole, parts = ([
        line for begin, end in zip(edges, edges[1:]) if begin < end for line in reading.read_chunk(
            reading.Chunk(path, begin, end, found), settings, collections.Counter())]
        for edges in ([0, end], borders))
    assert [line[:2] for line in whole] == [line[:2] for line in parts]
    tokens = [array for array in corpus.tokenize(
        reading.Chunk(path, 0, end, found), settings, place.tokenizer, collections.Counter(),
        reading.Seen(0, end))]
    ids = np.concatenate(tokens) & ((1 << 30) - 1) if tokens else np.zeros(0, np.uint32)
    assert (ids < place.tokenizer.vocab_size).all()


# ---- files of tasks

_COLUMNS = dict(text_a_column="a", label_column="b")


def _rows_of(group, place, path, **columns):
    """The rows of a file, whose features can be made; None if an error of one line refuses it."""
    settings = group(task_name="custom", data_dir=path, do_train=True, model_dir="m", **columns)
    try:
        task = custom.get_task(settings)
        rows = parsing.read_file(task, path, True)
        task = custom.get_task(settings)
    except UserError as e:
        assert os.path.basename(path) in str(e), e
        return None
    examples = list(task.reader.examples(rows))
    made = task.reader.encode(examples, place.tokenizer, encoding.Layout(16))
    assert all(0 <= ids.min() and ids.max() < place.tokenizer.vocab_size
               for name, ids in made[0].items() if name == "input_ids" and ids.size)
    return rows


def _of_file(group, name, **columns):
    """The law that a file of this content is refused in a line, or can be read and encoded."""
    return lambda content, place: _rows_of(group, place, place.file(name, content), **columns)


def tables(draw, place):
    content, form = draw
    _rows_of(ClassifierSettings, place, place.file("train." + form, content), **_COLUMNS)


def csv_comes_back(rows, place):
    """Reading gives what csv.writer wrote, except for spaces around labels."""
    import csv
    written = io.StringIO(newline="")
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(("a", "b"))
    writer.writerows(rows)
    found = _rows_of(ClassifierSettings, place, place.file(
        "train.csv", written.getvalue().encode()), **_COLUMNS)
    if found is not None:
        texts = [row.pairs[0][0].split() for row in found]
        kept = iter([text.split() for text, _ in rows])
        assert all(text in kept for text in texts), "in order, no others"


def questions(value, place):
    from xlnet.tasks.types import spans
    path = place.file("train.json", json.dumps(value).encode())
    settings = SpanSettings(task_name="custom", data_dir=path, do_train=True, model_dir="m",
                            max_seq_length=40, max_query_length=8, doc_stride=8)
    try:
        task = custom.get_task(settings)
        rows = parsing.read_file(task, path, True)
    except UserError as e:
        assert "train.json" in str(e), e
        return
    assert isinstance(task.reader, spans.SpanReader)
    for row in rows:
        context = row.pairs[0][0]
        assert all(answer.start is None or -1 <= answer.start < max(len(context), 1)
                   for answer in row.label or ())


def json_in_pieces(draw, place):
    """A stream of JSON gives the same value as `json`."""
    value, size = draw
    text = json.dumps(value)
    chunks = [text[i:i + size] for i in range(0, len(text), size)]
    try:
        found = list(json_stream.items(chunks, ""))
    except ValueError:          # not standard JSON, or beyond 64 bits
        return
    assert repr(found) == repr([json.loads(text)])


_ENTITIES = st.lists(st.one_of(_JSON, st.tuples(
    st.integers(-2, 12), st.integers(-2, 12), st.sampled_from(["PER", "", "a b"]))), max_size=3)
_CELLS = st.lists(_CHARACTERS.filter(lambda c: c not in "\x00"), max_size=12).map("".join)
_QUESTION = st.fixed_dictionaries({}, optional={
    "id": st.one_of(TEXTS, _JSON), "question": st.one_of(TEXTS, _JSON),
    "is_impossible": _JSON, "answers": st.one_of(_JSON, st.lists(st.fixed_dictionaries(
        {}, optional={"text": st.one_of(TEXTS, _JSON),
                      "answer_start": st.one_of(st.integers(-3, 30), _JSON)}), max_size=2))})
_ARTICLE = st.fixed_dictionaries({}, optional={"paragraphs": st.one_of(_JSON, st.lists(
    st.fixed_dictionaries({}, optional={"context": st.one_of(TEXTS, _JSON),
                                        "qas": st.one_of(_JSON, st.lists(_QUESTION, max_size=2))}),
    max_size=2))})


def _lines_of(rows):
    """JSON lines of lists of rows."""
    return st.lists(rows, max_size=4).map(lambda found: "\n".join(map(json.dumps, found)).encode())


LAWS = {
    "cleaning": (cleaning, st.lists(TEXTS, max_size=4)),
    "encoding": (encodes, st.lists(TEXTS, max_size=3)),
    "offsets": (offsets, st.lists(TEXTS, max_size=3)),
    "sentences": (sentences, TEXTS),
    "streams": (streams, st.tuples(CONTENTS, st.sampled_from(
        ["lines", "paragraphs", "jsonl"]), st.integers(0, 200))),
    "tables": (tables, st.tuples(st.builds(
        lambda header, content: header + content,
        st.sampled_from([b"", b"a\tb\n", b"a,b\n", b"b;a\n"]), CONTENTS),
        st.sampled_from(["tsv", "csv", "txt", "jsonl", "json"]))),
    "JSON tables": (_of_file(ClassifierSettings, "train.jsonl", **_COLUMNS), _lines_of(st.one_of(
        _JSON, st.fixed_dictionaries({"a": st.one_of(TEXTS, _JSON),
                                      "b": st.one_of(TEXTS, _JSON)})))),
    "CSV": (csv_comes_back, st.lists(st.tuples(_CELLS, st.sampled_from(["x", "y", " z"])),
                                     max_size=5)),
    "columns of tags": (_of_file(TaggerSettings, "train.txt"), st.one_of(CONTENTS, st.lists(
        st.tuples(_CELLS, st.sampled_from(["O", "B-X", "I-X", "S-Y", "", "B-", "-"])).map(" ".join),
        max_size=8).map(lambda lines: "\n".join(lines).encode()))),
    "tagged JSON": (_of_file(TaggerSettings, "train.jsonl"), _lines_of(st.one_of(
        _JSON, st.fixed_dictionaries({"text": st.one_of(TEXTS, _JSON),
                                      "entities": st.one_of(_JSON, _ENTITIES)})))),
    "questions": (questions, st.one_of(_JSON, st.fixed_dictionaries(
        {"data": st.one_of(_JSON, st.lists(_ARTICLE, max_size=2))}))),
    "JSON in pieces": (json_in_pieces, st.tuples(_JSON, st.integers(1, 9))),
}


def try_law(name, place, examples):
    """Tries a law with `examples` samples; raises for one that breaks it, the shortest found."""
    law, strategy = LAWS[name]

    @hypothesis.seed(0)
    @hypothesis.settings(max_examples=examples, deadline=None, database=None,
                         suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(strategy)
    def holds(sample):
        law(sample, place)
    with quiet():
        holds()


# ---- sizes

def _table_of(place, name):
    def read(text):
        path = place.file(name, b"a\tb\nx\tp\ny\tq\n" + text.encode())
        with contextlib.suppress(UserError):
            task = custom.get_task(ClassifierSettings(
                task_name="custom", data_dir=path, do_train=True, model_dir="m", **_COLUMNS))
            parsing.read_file(task, path, True)
    return read


def _stream_of(place, name="text.txt", pack=bytes):
    return lambda text: _read_stream(place.file(name, pack(text.encode())))


def _read_stream(path):
    for _ in reading.read_chunk(reading.cut([path], 1 << 30)[0], SKIPPING, collections.Counter()):
        pass


def _questions_of(place):
    def read(text):
        with contextlib.suppress(ValueError):
            collections.deque(json_stream.items(
                (text[i:i + 4096] for i in range(0, len(text), 4096)), "item"), maxlen=0)
    return read


# Texts of length n, and their readers.
SHAPES = {
    "one line": lambda n: "a" * n, "spaces": lambda n: " " * n, "empty lines": lambda n: "\n" * n,
    "stops": lambda n: "." * n, "stops and quotes": lambda n: '."' * (n // 2),
    "initials": lambda n: "A. " * (n // 3), "accents": lambda n: "e" + "\u0301" * n,
    "quotation marks": lambda n: "`" * n, "brackets": lambda n: "[" * n,
    "full-width": lambda n: "。" * n, "tabs": lambda n: "\t" * n, "quotes": lambda n: '"' * n,
    "accents above and below": lambda n: "e" + "\u0301\u0316" * (n // 2),
    "vowels of Tibetan": lambda n: "\u0f73\u0f81" * (n // 2), "ligatures": lambda n: "ﷺ" * (n // 9),
    "sigmas": lambda n: "Σ.'" * (n // 3), "capitals": lambda n: "İ" * n,
    "numbers": lambda n: "1" * n, "commas": lambda n: "2010, " * (n // 6),
}
READERS = {
    "cleaning": lambda place: lambda text: clean_lines([text]),
    "encoding": lambda place: lambda text: place.tokenizer.encode_lines([text]),
    "offsets": lambda place: lambda text: place.aligner.encode([text]),
    "sentences": lambda place: sentences_and_joints,
    "streams": _stream_of,
    "gzip": functools.partial(_stream_of, name="text.txt.gz", pack=gzip.compress),
    "TSV": lambda place: _table_of(place, "train.tsv"),
    "CSV": lambda place: _table_of(place, "train.csv"),
    "JSON lines": lambda place: _table_of(place, "train.jsonl"),
    "JSON in pieces": _questions_of,
}


def seconds(read, text):
    """CPU time of reading a text [s]."""
    began = time.process_time()
    read(text)
    return time.process_time() - began


def peak_of_bomb(place, packed_megabytes):
    """The peak memory of reading a .gz that unpacks to so many megabytes [bytes]."""
    path = place.folder / "bomb.txt.gz"
    with gzip.open(path, "wb") as f:
        for _ in range(packed_megabytes):
            f.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        _read_stream(str(path))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
