"""The lines of Python of `docs/how_to/come_from.md` write the forms that the library reads."""

import json
import re

from helpers.paths import ROOT

PAGE = (ROOT / "docs/how_to/come_from.md").read_text(encoding="utf-8")
LOCATION = {"text": "In Bonn", "entities": [[3, 7, "LOC"]]}
DOCCANO = {"id": 1, "label": "LOC", "start_offset": 3, "end_offset": 7}


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def squad(answers):
    qas = {"id": "1", "question": "?", "answers": answers}
    return {"data": [{"paragraphs": [{"context": "a b", "qas": [qas]}]}]}


GIVEN = {
    "flat.jsonl": lines(
        {
            "id": "1",
            "context": "a b",
            "question": "?",
            "answers": {"text": ["b"], "answer_start": [2]},
        }
    ),
    "fasttext.txt": "__label__sad He left.\n__label__old __label__sad She left.\n",
    "lists.csv": "text,label\na,\"['sad', 'old']\"\nb,\"['old']\"\n",
    "ones.jsonl": lines({"text": "a", "label": [1, 0]}),
    "german.csv": "sep=;\ntext;score\na;1,5\nb;2,5\n",
    "prodigy.jsonl": lines(
        {"text": "a", "answer": "reject"}, {"text": "b", "answer": "accept"}
    ),
    "authors.csv": "author,text\nAnn,a\nIda,b\nAnn,c\n",
    "marked.txt": "a\n\nb\n<|endoftext|>\nc\n <|endoftext|> \n<|endoftext|>\nd\n",
    "old.txt": "Größe\n",
    "ud.conllu": "# text = im Zug\n1-2\tim\t_\t_\n1\tin\tin\tADP\n2\tdem\tder\tDET\n\n",
    "doc.tsv": "#FORMAT=WebAnno TSV 3.3\n\n#Text=Anna Berg lives\n"
    "1-1\t0-4\tAnna\t*[1]\tPER[1]\t\n1-2\t5-9\tBerg\t*[1]\tPER[1]\t\n"
    "1-3\t10-15\tlives\t_\t_\t\n\n",
    "predictions.jsonl": lines({"text": ["In", "Bonn"], "predicted": ["O", "B-LOC"]}),
    "min.json": json.dumps(
        [{"text": "In Bonn", "label": [{"start": 3, "end": 7, "labels": ["LOC"]}]}]
    ),
    "doccano.jsonl": lines({"text": "In Bonn", "entities": [DOCCANO], "relations": []}),
    "kaggle.csv": "Sentence #,Word,POS,Tag\nSentence: 1,Anna,NN,B-PER\n"
    ",lives,VB,O\nSentence: 2,Bonn,NN,B-LOC\n",
}
WRITTEN = {
    "train.json": json.dumps(squad([{"text": "b", "answer_start": 2}])),
    "fasttext.jsonl": lines(
        {"text": "He left.", "label": ["sad"]},
        {"text": "She left.", "label": ["old", "sad"]},
    ),
    "lists.jsonl": lines(
        {"text": "a", "label": ["sad", "old"]}, {"text": "b", "label": ["old"]}
    ),
    "names.jsonl": lines({"text": "a", "label": ["sad"]}),
    "english.csv": "text,score\na,1.5\nb,2.5\n",
    "accepted.jsonl": lines({"text": "b", "answer": "accept"}),
    "train.csv": "author,text\nAnn,a\nAnn,c\n",
    "dev.csv": "author,text\nIda,b\n",
    "documents.txt": "a\nb\n\nc\n\n\nd\n",
    "new.txt": "Größe\n",
    "ud.tsv": "in\tADP\ndem\tDET\n\n",
    "webanno.tsv": "\n\n\nAnna\tB-PER\nBerg\tI-PER\nlives\tO\n\n",
    "predictions.conll": "In O\nBonn B-LOC\n\n",
    "studio.jsonl": lines(LOCATION),
    "spans.jsonl": lines(LOCATION),
    "kaggle.tsv": "Anna\tB-PER\nlives\tO\n\nBonn\tB-LOC\n",
    "spacy.jsonl": lines(LOCATION),
    "tokens.jsonl": lines({"tokens": ["In", "Bonn"], "tags": ["O", "B-LOC"]}),
}


def test_each_form_becomes_one_that_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in GIVEN.items():
        encoding = "cp1252" if name == "old.txt" else "utf-8"
        (tmp_path / name).write_text(text, encoding=encoding)
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        if "import xlnet" not in block:
            exec(compile(block, "come_from.md", "exec"), {})
    for name, expected in WRITTEN.items():
        written = (tmp_path / name).read_text(encoding="utf-8")
        assert written.lstrip("\n") == expected.lstrip("\n"), name
