"""Files of the forms that people have, for the tagger and for questions: what is read from each.

The folders of `reports` have the property of a public report each; the table adds small ones.
"""

import dataclasses
import json
import random
import re

import numpy as np
import pytest
from helpers import tasks
from helpers.paths import ROOT

from xlnet.errors import UserError
from xlnet.settings.finetuning import TaggerSettings
from xlnet.tasks.files import parsing, schemes
from xlnet.tasks.metrics import entity_metrics
from xlnet.tasks.types import custom
from xlnet.tasks.types.tagging import Tags

REPORTS = ROOT / "tests" / "reports"


def settings(path, **flags):
    return tasks.settings(path, TaggerSettings, **flags)


def rows_of(path, **flags):
    """(the task that is trained on a file, its rows)."""
    task = custom.resolve_task(settings(path, **flags))
    return task, parsing.read_file(task, str(path), need_labels=True)


def tagged(row):
    """ "word/tag" of each word that is part of an entity."""
    return " ".join(
        "{}/{}".format(*pair) for pair in zip(row.source.words, row.label) if pair[1] != "O"
    )


def outside(rows, tag=0):
    """Answers that every word has this tag."""
    return [
        Tags(np.full(len(row.source.words), tag), np.ones(len(row.source.words))) for row in rows
    ]


# --- Entities

GERMEVAL = [
    "Krumholz/B-LOC Pflaumen-Halle/B-LOCpart",
    "SV/B-ORG Krumholz/I-ORG finnische/B-LOCderiv",
]
SPAIN = ["Coruña/B-LOC España/B-LOC"] * 6
# Sentences of four kinds, in turn.
KAGGLE = [
    "Anna/B-PER Berg/I-PER Oslo/B-LOC",
    "Kolmo/B-ORG Peter/B-PER Lund/I-PER",
    "Rome/B-LOC",
    "Maria/B-PER Paris/B-LOC Anna/B-PER Berg/I-PER",
] * 3
GERM = {"input_format": "conllu"}
FILES = (
    # file, flags, the entities of each sentence or the error
    ("germeval_comments_and_numbers/train.tsv", {**GERM, "tag_column": "3"}, GERMEVAL),
    (
        "germeval_comments_and_numbers/dev.tsv",
        {**GERM, "word_column": "2", "tag_column": "3"},
        GERMEVAL,
    ),
    (
        "germeval_comments_and_numbers/train.tsv",
        dict(tag_column="3"),
        "column 1 counts the words .*--input_format=conllu",
    ),
    (
        "germeval_numbers_in_column_1/train.tsv",
        GERM,
        ["", "Krumholz/B-LOC"],
    ),  # the last column is a second layer
    (
        "germeval_numbers_in_column_1/train.tsv",
        {},
        "column 1 counts the words .*--input_format=conllu",
    ),
    (
        "germeval_numbers_in_column_1/dev.tsv",
        dict(tag_column="2"),
        "column 1 counts the words .*--input_format=conllu",
    ),
    (
        "conll2012_brackets/train.conll",
        {},
        ": a CoNLL-2012 file .#begin document., whose brackets are not read",
    ),
    ("conll2012_brackets/dev.conll", dict(word_column="4", tag_column="11"), ": a CoNLL-2012 file"),
    ("conll2002_in_latin1/esp.train", dict(encoding="latin-1"), SPAIN),
    ("conll2002_in_latin1/esp.testa", dict(encoding="cp1252"), SPAIN),
    ("conll2002_in_latin1/esp.train", {}, "--encoding=cp1252"),
    (
        "tagged_csv/kaggle.csv",
        {
            "delimiter": ",",
            "word_column": "Word",
            "tag_column": "Tag",
            "sentence_column": "Sentence #",
        },
        KAGGLE,
    ),
    (
        "tagged_csv/simple.csv",
        {
            "delimiter": ",",
            "word_column": "words",
            "tag_column": "labels",
            "sentence_column": "sentence_id",
        },
        KAGGLE,
    ),
    ("tagged_csv/words.csv", {"delimiter": ","}, KAGGLE),
    ("nested_tags/train.txt", {}, ":4: tags 'B-LOC.B-LOC', expected one tag: nested entities"),
    (
        "tagger_tsv_saved_by_excel/train.tsv",
        {"word_column": "word", "tag_column": "tag"},
        ["Anna/B-PER Oslo/B-LOC"] * 12,
    ),
)
IOB1 = {"scheme": "iob1"}
JSONL = {"input_format": "jsonl"}
TOKENS = '{"tokens": ["In", "Bonn"], "ner_tags": ["O", "B-X"]}\n'
TEXTS = (
    # content, flags, the entities of each sentence or the error
    ("a B-X\nb\tI-X\nc O\n", {}, ["a/B-X b/I-X"]),  # a stray tab
    ("1\tIm\tO\n2\tFC\tB-X\n3\tZug\tI-X\n", GERM, ["FC/B-X Zug/I-X"]),
    (
        "# text = Im Zug\n1-2\tIm\t_\n1\tin\tO\n2\tdem\tO\n3\tZug\tB-X\n3.1\tx\t_\n",
        GERM,
        ["Zug/B-X"],
    ),
    ("0\ta\tB-X\n1\tb\tO\n\n0\tc\tB-X\n", GERM, ["a/B-X", "c/B-X"]),
    ("1 O\n2 B-X\n3 O\n", {}, "column 1 counts the words .*--input_format=conll "),
    ("1 O\n2 B-X\n3 O\n", {"input_format": "conll"}, ["2/B-X"]),
    ("1 O\n5 B-X\n", {}, ["5/B-X"]),  # numbers are words
    ("a U-X\nb B-Y\nc I-Y\nd L-Y\n", {}, ":1: tag 'U-X', .*--scheme=bilou"),
    ("a U-X\nb B-Y\nc I-Y\nd L-Y\n", {"scheme": "bilou"}, ["a/U-X b/B-Y c/I-Y d/L-Y"]),
    (TOKENS, {}, "it begins like JSON; give --input_format=jsonl"),
    (TOKENS, JSONL, ["Bonn/B-X"]),
    (f"[{TOKENS}]", {"input_format": "json"}, ["Bonn/B-X"]),
    (
        '{"words": ["In", "Bonn"], "pos": ["P", "B-Y"], "ner": ["O", "B-X"]}\n',
        {**JSONL, "tag_column": "ner"},
        ["Bonn/B-X"],
    ),
    ('{"tokens": ["Bonn"], "ner_tags": [3]}\n', JSONL, "'ner_tags' has 3, expected tags such"),
    (
        '{"tokens": ["Bonn"], "ner_tags": ["O", "O"]}\n',
        JSONL,
        "has 2, expected a tag for each of 1",
    ),
    (
        '{"tokens": ["Bonn", ""], "ner_tags": ["O", "O"]}\n',
        JSONL,
        "'tokens' has ...., expected one",
    ),
    ('{"text": "In Bonn", "entities": [[3, 7, "X"]]}\n', JSONL, ["Bonn/B-X"]),
    (
        '[{"text": "In Bonn", "entities": [{"start": 3, "end": 7, "label": "X"}]}]',
        {"input_format": "json"},
        ["Bonn/B-X"],
    ),
    (
        '{"text": "In Bonn", "spans": [{"start": 3, "end": 7, "label": "X", "token_start": 1}], '
        '"tokens": [{"text": "In", "start": 0}], "answer": "accept"}\n{"text": "Bonn", "spans": [],'
        ' "answer": "reject"}\n',
        {**JSONL, "keep_where": "answer=accept"},
        ["Bonn/B-X"],
    ),  # Prodigy
    (
        '{"id": 1, "text": "In Bonn", "label": [[3, 7, "X"]]}\n',
        JSONL,
        ["Bonn/B-X"],
    ),  # doccano
    (
        '{"text": "In Bonn", "entities": [{"id": 1, "label": "X", "start_offset": 3, '
        '"end_offset": 7}]'
        ', "relations": []}\n',
        JSONL,
        ["Bonn/B-X"],
    ),
    (
        '["In Bonn", {"entities": [[3, 7, "X"]]}]\n["Bonn", {"entities": [[0, 4, "X"]]}]\n',
        JSONL,
        ["Bonn/B-X", "Bonn/B-X"],
    ),  # spaCy
    ('{"text": "서울에서 왔다", "entities": [[0, 2, "X"]]}\n', JSONL, ["서/B-X 울/I-X"]),
)


def check(path, flags, expected):
    if isinstance(expected, str):
        with pytest.raises(UserError) as e:
            rows_of(path, **flags)
        assert str(e.value).startswith(str(path)) and re.search(expected, str(e.value)), e.value
        assert "\n" not in str(e.value)
    else:
        assert list(map(tagged, rows_of(path, **flags)[1])) == expected


@pytest.mark.parametrize("name, flags, expected", FILES)
def test_tagged_files(name, flags, expected):
    check(REPORTS / name, flags, expected)


@pytest.mark.parametrize("content, flags, expected", TEXTS)
def test_tagged_texts(tmp_path, content, flags, expected):
    """Of a file whose name does not say its form."""
    path = tmp_path / "data.txt"
    path.write_text(content, encoding="utf-8")
    check(path, flags, expected)


@pytest.mark.parametrize("name, flags", [file[:2] for file in FILES if isinstance(file[2], list)])
def test_predictions_are_the_file_with_a_column_more(name, flags):
    """Comments, numbers and what is between sentences stay; the model knows the columns."""
    task, rows = rows_of(REPORTS / name, **flags)
    stored = dict(
        labels=list(task.labels),
        kind_options=dataclasses.asdict(task.options),
        columns=dict(text_a=task.columns.text_a, label=task.columns.label),
    )
    task = custom.resolve_task(settings(REPORTS / name, **flags), stored)
    rows = parsing.read_to_predict(task, str(REPORTS / name))
    (file,) = task.scorer.prediction_files(rows, outside(rows))
    content = (REPORTS / name).read_bytes().decode(flags.get("encoding", "utf-8"))
    lines, sources = "".join(file.lines).split("\n"), content.split("\n")
    assert len(lines) == len(sources)
    for line, source in zip(lines, sources):
        if not source.strip() or source.startswith("#"):
            assert line == source
        else:
            assert re.fullmatch(re.escape(source) + r"[\t ,](O|predicted)", line)


@pytest.mark.parametrize(
    "form, content, words, predicted",
    [
        ("text", "Eva Koch lives in Berlin.\n", ["Eva Koch lives in Berlin ."], [0, 3, "X"]),
        (
            "text",
            "One is short.\n\nAnother one has more words.\n",
            ["One is short .", "", "Another one has more words ."],
            [0, 3, "X"],
        ),
        ("text", "我在北京工作\n", ["我 在 北 京 工 作"], [0, 1, "X"]),
        ("jsonl", '{"text": "In Bonn"}\n', ["In Bonn"], [0, 2, "X"]),
        (
            "jsonl",
            '{"tokens": ["In", "New York"], "ner_tags": [0, 3]}\n',
            ["In New York"],
            "B-X",
        ),
        ("conll", "EU\nsays\n", ["EU says"], "EU B-X"),
        ("conll", "Berlin\n", ["Berlin"], "Berlin B-X"),
        ("conll", "北\n京\n", ["北 京"], "北 B-X"),
        ("conll", "EU B-X\nsays O\n", ["EU says"], "EU B-X B-X"),
        ("conll", "EU NNP\nsays VBZ\n\nEva NNP\n", ["EU says", "Eva"], "EU NNP B-X"),
        ("conll", "EU\tx\nsays\tz\n", ["EU says"], "EU\tx\tB-X"),
        (None, "EU\nsays\n", "--input_format=conll .*--input_format=text", None),
    ],
)
def test_what_is_predicted(tmp_path, form, content, words, predicted):
    """A .txt file does not say whether it has columns or text, so a flag does."""
    train, path = tmp_path / "train.txt", tmp_path / "new.txt"
    train.write_text("EU B-X\nsays O\n")
    path.write_text(content, encoding="utf-8")
    task = custom.resolve_task(settings(train))
    if predicted is None:
        with pytest.raises(UserError, match=words):
            parsing.read_to_predict(task, str(path), form)
        return
    rows = parsing.read_to_predict(task, str(path), form)
    assert [" ".join(row.source.words) for row in rows] == words
    values = outside([row for row in rows if row.pairs], task.labels.index("B-X"))
    (file,) = task.scorer.prediction_files(rows, values)
    first = next(iter(file.lines))
    assert file.extension == ("jsonl" if first.startswith("{") else "conll")
    assert predicted == (json.loads(first)["predicted"][0] if first.startswith("{") else first[:-1])


def test_what_was_declared_in_training_holds_when_predicting(tmp_path):
    """Until a flag says otherwise; a name that says another form is an error."""
    train, path = tmp_path / "train.txt", tmp_path / "new.txt"
    train.write_text("1\tEU\tB-X\n2\tsays\tO\n")
    path.write_text("1\tEU\n2\tgoes\n")
    task = custom.resolve_task(settings(train, **GERM))
    (row,) = parsing.read_to_predict(task, str(path))
    assert row.source.words == ("EU", "goes")
    (tmp_path / "new.jsonl").write_text('{"text": "EU"}\n')
    with pytest.raises(UserError, match="--input_format=jsonl or --input_format=conllu"):
        parsing.read_to_predict(task, str(tmp_path / "new.jsonl"))
    (row,) = parsing.read_to_predict(task, str(tmp_path / "new.jsonl"), "jsonl")
    assert row.source.words == ("EU",)


def test_scores_are_those_of_the_true_offsets(tmp_path, caplog):
    """An entity inside of a word is not right because truth and prediction are widened alike."""
    path = tmp_path / "train.jsonl"
    path.write_text('{"text": "Unhappy Oslo", "entities": [[2, 7, "A"], [8, 12, "B"]]}\n')
    task, rows = rows_of(path)
    assert tagged(rows[0]) == "Unhappy/B-A Oslo/B-B"
    assert "an entity begins or ends inside of a word" in caplog.text
    values = [
        Tags(np.array([task.labels.index(tag) for tag in row.label]), np.ones(len(row.label)))
        for row in rows
    ]
    result = task.scorer.evaluate(values, task.scorer.gold_labels(rows))
    assert (result["precision"], result["recall"], result["accuracy"]) == (0.5, 0.5, 1)
    table = task.scorer.table(values, rows, 0.5).splitlines()
    assert [line.split()[0] for line in table[1:3]] == ["A", "B"] and " 0.0000 " in table[1]


def conlleval(true, found):
    """(right, found, true) chunks of two sequences of tags."""

    def parts(tag):
        prefix, _, label = tag.partition("-")
        return prefix, label

    def ends(before, now):
        (b, x), (n, y) = before, now
        return (
            (b, n)
            in (
                ("B", "B"),
                ("B", "O"),
                ("I", "B"),
                ("I", "O"),
                ("E", "E"),
                ("E", "I"),
                ("E", "O"),
                ("S", "S"),
                ("B", "S"),
                ("I", "S"),
            )
            or b in "ES"
            or (b != "O" and x != y)
        )

    def begins(before, now):
        (b, x), (n, y) = before, now
        return (
            n in "BS"
            or (b, n) in (("O", "I"), ("O", "E"), ("E", "E"), ("E", "I"), ("S", "E"), ("S", "I"))
            or (n != "O" and x != y)
        )

    counts, open_chunk, outside = [0, 0, 0], False, ("O", "")
    before = [outside, outside]
    for pair in [*zip(true, found), ("O", "O")]:
        now = list(map(parts, pair))
        ended = [ends(*both) for both in zip(before, now)]
        begun = [begins(*both) for both in zip(before, now)]
        if open_chunk and (ended[0] or ended[1]):
            counts[0] += ended[0] and ended[1]
            open_chunk = False
        open_chunk = open_chunk or begun[0] and begun[1] and now[0][1] == now[1][1]
        counts[1] += begun[1]
        counts[2] += begun[0]
        before = now
    return tuple(counts)


@pytest.mark.parametrize("prefixes", ("BI", "BIES"))
def test_entities_are_counted_as_conlleval_counts_them(prefixes):
    rng = random.Random(0)
    tags = ["O", "O", *(f"{prefix}-{label}" for prefix in prefixes for label in "XY")]
    for _ in range(3000):
        true = rng.choices(tags, k=rng.randint(1, 9))
        found = [tag if rng.random() < 0.7 else rng.choice(tags) for tag in true]
        counts = entity_metrics.by_label([schemes.spans(found)], [schemes.spans(true)])
        assert entity_metrics.total(counts) == conlleval(true, found), (true, found)
