"""Files of sentences with tagged words: what is read from each, refused, and written again.

The folders of `reports` have the property of a public report each.
"""

import csv
import dataclasses
import io
import json
import random
import re

import numpy as np
import pytest
from helpers import tasks
from helpers.paths import ROOT

from xlnet.settings.finetuning import TaggerSettings
from xlnet.support.errors import UserError
from xlnet.tasks import known
from xlnet.tasks.files import parsing
from xlnet.tasks.tagging import sentences
from xlnet.tasks.tagging.tags import Tags

REPORTS = ROOT / "tests" / "reports"


def settings(path, **flags):
    return tasks.settings(path, TaggerSettings, **flags)


def write(directory, name, content):
    path = directory / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows_of(path, **flags):
    """(the task that is trained on a file, its rows)."""
    task = known.resolve_task(settings(path, **flags))
    return task, task.read(str(path), need_labels=True)


def tagged(row):
    """ "word/tag" of each word that is part of an entity."""
    pairs = zip(row.source.words, row.label)
    return " ".join(f"{word}/{tag}" for word, tag in pairs if tag != "O")


def check(path, flags, expected):
    """expected: the entities of each sentence, or the error."""
    if isinstance(expected, list):
        assert list(map(tagged, rows_of(path, **flags)[1])) == expected
        return
    with pytest.raises(UserError) as e:
        rows_of(path, **flags)
    assert str(e.value).startswith(str(path)) and re.search(expected, str(e.value)), (
        e.value
    )
    assert "\n" not in str(e.value)


# Sentences of four kinds, in turn.
WORDS = [
    "Anna/B-PER Berg/I-PER Oslo/B-LOC",
    "Kolmo/B-ORG Peter/B-PER Lund/I-PER",
    "Rome/B-LOC",
    "Maria/B-PER Paris/B-LOC Anna/B-PER Berg/I-PER",
] * 3
NAMED = {"text_a_column": "word", "label_column": "tag"}
LABEL = {"label_column": "label"}
SKIP = {"on_error": "skip", "dev_share": 0}
REPORTED = (
    ("germeval_comments_and_numbers/train.tsv", {}, ":1: found tag .., expected"),
    (
        "conll2002_in_latin1/esp.train",
        {"encoding": "latin-1"},
        ["Coruña/B-LOC España/B-LOC"] * 6,
    ),
    ("conll2002_in_latin1/esp.train", {}, ":1: found bytes .*; --encoding"),
    ("tagged_csv/words.csv", {}, WORDS),
    ("nested_tags/train.txt", {}, ":1: found tag 'B-LOC.B-LOC', expected O, or a"),
    ("tagger_tsv_saved_by_excel/train.tsv", NAMED, ["Anna/B-PER Oslo/B-LOC"] * 12),
    ("webanno/doc.tsv", {}, ":1: found null in 'tags', expected a list, a tag"),
    ("label_studio/min.json", LABEL, "item 1: found {.*}.* expected .start, end"),
    ("label_studio/full.json", {}, "item 1: found .*, expected 'text'.*; --text_a"),
)


@pytest.mark.parametrize("name, flags, expected", REPORTED)
def test_reported_files(name, flags, expected):
    check(REPORTS / name, flags, expected)


SPAN = '{"text": "In Bonn", "entities": [[3, 7, "X"]]}\n'
PRODIGY = (
    '{"text": "In Bonn", "s": [{"start": 3, "end": 7, "label": "X", "token_end": 1}]}'
)
BLANKS = b"\xef\xbb\xbfa B-X\r\n\xe3\x80\x80  O \r\n\xe2\x80\xa8 I-X\r\n"
OVERLAP = '{"text": "abc", "entities": [[0, 2, "X"], [1, 3, "Y"]]}'
HANGUL = '{"text": "서울에서", "label": [[0, 2, "X"]]}'
DOCUMENT = "-DOCSTART- -X- O\n\na x B-X\nb\ty\tI-X\n\n# z O\n"
READ = (
    ("a.txt", DOCUMENT, {}, ["a/B-X b/I-X", ""]),
    ("a.tsv", "id\tword\ttag\n1\tNew York\tB-X\n", NAMED, ["New York/B-X"]),
    ("a.txt", "a,B-X\n,\nb,B-X\n", {"delimiter": ","}, ["a/B-X", "b/B-X"]),
    ("a.csv", '",",B-X\n"""",I-X\n', {}, [',/B-X "/I-X']),
    ("a.tsv", '"\tB-X\n5"\tI-X\n', {"quoting": "none"}, ['"/B-X 5"/I-X']),
    (
        "a.tsv",
        'a\tB-X\n"\tO\n\n"\tO\n',
        {},
        ":2: found a quotation over 3 lines.*--quoting",
    ),
    ("a.csv", ",,word,tag\n1,2,b,B-X\n", NAMED, ["b/B-X"]),
    ("a.txt", "a B-X\nb O c\n\nd\n", {}, ":2: 3 column.* expected 2, .*1 more"),
    ("a.txt", "a B-X\n", {"label_column": "3"}, ":1: found .*, expected a list, a tag"),
    ("a.txt", "a O\n", {}, ": found no tag but O"),
    ("a.txt", BLANKS, {}, ["a/B-X \u2028/B-X"]),
    ("a.txt", "a NN\nb O\n", {"scheme": "plain"}, ["a/NN"]),
    ("a.txt", "a B-X\nb I\n\nc O\n\nd Y\n", SKIP, ["a/B-X b/B", ""]),
    # JSON
    ("a.jsonl", SPAN + "\n", {}, ["Bonn/B-X"]),
    ("a.txt", SPAN, {"input_format": "jsonl"}, ["Bonn/B-X"]),
    ("a.json", f"[{SPAN}]", {"scheme": "bmes"}, ["Bonn/S-X"]),
    ("a.jsonl", PRODIGY, {"label_column": "s"}, ["Bonn/B-X"]),
    ("a.jsonl", HANGUL, LABEL, ["서/B-X 울/I-X"]),
    ("a.jsonl", '{"text": ["a"], "tags": ["O", "O"]}', {}, "a tag for each of 1 words"),
    (
        "a.jsonl",
        '{"text": "\\ud83d", "entities": []}',
        {},
        ":1: found bytes or escapes",
    ),
    ("a.jsonl", '{"text": "a", "label": 1}', {}, "a list, entities; --label_column"),
    ("a.jsonl", '{"text": "ab", "entities": [[0, 3, "X"]]}', {}, "in a text of 2 char"),
    ("a.jsonl", '{"text": "a  b", "entities": [[1, 3, "X"]]}', {}, "around a word"),
    ("a.jsonl", OVERLAP, {}, ":1: found 'abc' in two entities, expected one"),
)


@pytest.mark.parametrize("name, content, flags, expected", READ)
def test_what_is_read(tmp_path, name, content, flags, expected):
    """What does not fit is one error with its place, and the flag that may help."""
    check(write(tmp_path, name, content), flags, expected)


# --- Texts


@pytest.mark.parametrize(
    "text, expected",
    [
        ("In New York, 3km.", ["In", "New", "York", ",", "3", "km", "."]),
        ("don't", ["don", "'", "t"]),
        ("A\u0301b", ["A\u0301b"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("1999年", ["1999", "年"]),
        ("서울에서 KBS가", ["서", "울", "에", "서", "KBS", "가"]),
        ("a\u200bb", ["a", "b"]),
        ("日本ゲーム", list("日本ゲーム")),
        (" \u3000", []),
    ],
)
def test_words(text, expected):
    assert [text[start:end] for start, end in sentences.find_words(text)] == expected


def test_scores_are_those_of_the_true_offsets(tmp_path):
    """An entity inside of a word is not right because truth and prediction are widened alike."""
    line = '{"text": "Unhappy  Oslo", "entities": [[2, 7, "A"], [8, 13, "B"]]}\n'
    task, rows = rows_of(write(tmp_path, "train.jsonl", line))
    assert tagged(rows[0]) == "Unhappy/B-A Oslo/B-B"
    values = [
        Tags(np.array([task.labels.index(tag) for tag in rows[0].label]), np.ones(2))
    ]
    result = task.evaluate(values, task.gold(rows), 0.5)
    assert (result["precision"], result["recall"], result["accuracy"]) == (0.5, 0.5, 1)


def test_each_word_of_plain_labels_is_an_entity_of_texts_too(tmp_path):
    line = '{"text": "In New York", "entities": [[3, 11, "A"]]}\n'
    task, rows = rows_of(write(tmp_path, "train.jsonl", line), scheme="plain")
    ids = np.array([task.labels.index(tag) for tag in rows[0].label])
    values = [Tags(ids, np.ones(3))]
    result = task.evaluate(values, task.gold(rows), 0.5)
    assert (result["f1"], result["accuracy"]) == (1, 1)


# --- Predictions


def outside(rows, tag=0):
    """Predictions that every word has this tag."""
    return [
        Tags(np.full(len(row.source.words), tag), np.ones(len(row.source.words)))
        for row in rows
    ]


def predicted(task, path, tag=0, **flags):
    """The lines of the predictions for a file by the model of a task."""
    stored = dict(
        labels=list(task.labels), kind_options=dataclasses.asdict(task.options)
    )
    trained = known.resolve_task(settings("", do_train=False, **flags), stored)
    rows = parsing.read_to_predict(trained, path)
    files = trained.prediction_files(rows, outside(rows, tag), 0.5)
    return "".join(json.dumps(each) + "\n" for each in files["jsonl"])


@pytest.mark.parametrize(
    "name, content, flags, expected",
    [
        ("a.txt", "EU\nsays\n", {"input_format": "conll"}, {"text": ["EU", "says"]}),
        ("a.conll", "-D- O O\n\n", {}, {"text": ["-D-"], "2": ["O"], "tags": ["O"]}),
        ("a.conll", "EU\tNNP\n", {}, {"text": ["EU"], "tags": ["NNP"]}),
        ("a.csv", "w,t\nEU,\n", {"text_a_column": "w"}, {"w": ["EU"], "tags": [""]}),
        ("a.conll", "EU X O\n", {"text_a_column": "1,2"}, "text_a_column: found 1,2,"),
        ("a.txt", "EU says", {"input_format": "text"}, {"text": "EU says"}),
        ("a.jsonl", '{"text": "我 在", "id": 7}', {}, {"text": "我 在", "id": 7}),
        (
            "a.jsonl",
            '{"text": ["New York"], "x": 0}',
            {},
            {"text": ["New York"], "x": 0},
        ),
        ("a.txt", "EU\n", {}, "a.txt: found no form.*--input_format"),
        ("a.jsonl", '{"text": "a"}\n\n', {}, "a.jsonl:2: an empty row"),
    ],
)
def test_what_is_predicted(tmp_path, name, content, flags, expected):
    """Each sentence is an object with one more key. Tags are not needed; the form of a .txt file
    must be declared."""
    task, _ = rows_of(write(tmp_path, "train.txt", "EU B-X\nsays O\n"))
    path = str(write(tmp_path, name, content))
    if isinstance(expected, str):
        with pytest.raises(UserError, match=expected):
            predicted(task, path, **flags)
        return
    value = json.loads(predicted(task, path, task.labels.index("B-X"), **flags))
    found, text = value.pop("predicted"), expected.get("text")
    assert value == expected
    if isinstance(text, str):
        assert found == [[*each.span(), "X"] for each in re.finditer(r"\w+", text)]
    else:
        assert found == ["B-X"] * len(text or ["EU"])


def test_predictions_of_columns_are_read_again(tmp_path):
    """The object of a sentence is one that is read, with gold tags in the scheme of the others."""
    task, _ = rows_of(write(tmp_path, "train.txt", "EU x I-X\nIBM y B-X\n\nsays z O\n"))
    lines = predicted(task, str(tmp_path / "train.txt"), input_format="conll")
    path = write(tmp_path, "a.jsonl", lines)
    assert list(map(tagged, rows_of(path)[1])) == ["EU/B-X IBM/B-X", ""]


# --- All forms give the same sentences


def test_all_forms_have_the_same_sentences(tmp_path):
    """Written by standard programs, with any characters in words."""
    rng, pieces = random.Random(0), [*"aZ12\"',;#|{[-字é😀\\_"]
    sentences = []
    for _ in range(50):
        words = ["".join(rng.choices(pieces, k=3)) for _ in range(rng.randint(1, 5))]
        sentences.append((words, rng.choices(["B-X", "I-Y", "O"], k=len(words))))
    conll, table, objects = io.StringIO(), io.StringIO(), io.StringIO()
    for words, tags in sentences:
        for pair in zip(words, tags):
            print(*pair, file=conll)
            csv.writer(table, delimiter="\t").writerow(pair)
        print(file=conll)
        csv.writer(table, delimiter="\t").writerow([])
        print(json.dumps({"text": words, "tags": tags}), file=objects)
    forms = {"a.conll": conll, "a.tsv": table, "a.jsonl": objects}
    paths = []
    for name, content in forms.items():
        paths.append(write(tmp_path, name, content.getvalue()))
    items = [json.loads(line) for line in objects.getvalue().splitlines()]
    paths.append(write(tmp_path, "a.json", json.dumps(items)))
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    paths.append(tmp_path / "a.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(items), paths[-1])
    first, *others = (rows_of(path)[1] for path in paths)
    assert [row.source.words for row in first] == [tuple(one) for one, _ in sentences]
    assert all(rows == first for rows in others)
