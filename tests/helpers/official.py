"""A few generated examples of every known task in the form of its official files.

The columns are from the datasets' descriptions, not from `xlnet.tasks.known`, to find wrong
column or file names there.
"""

import itertools
import json
import random

ROWS = {"train": 40, "dev": 16, "test": 10}
SYLLABLES = ["kamat", "telok", "rokmi", "solkat", "mitel", "dakar", "nokla", "laskit"]
NLI = "entailment neutral contradiction"
CONSTITUENTS = (
    "sentence1_binary_parse,sentence2_binary_parse,sentence1_parse,sentence2_parse"
)
MNLI = f"index,promptID,pairID,genre,{CONSTITUENTS},sentence1,sentence2"
PAIR = "index,sentence1,sentence2"
STS_B = "index,genre,filename,year,old_index,source1,source2,sentence1,sentence2"


def splits(train, test, form="tsv"):
    """Columns by file, where dev is like train."""
    return {"train." + form: train, "dev." + form: train, "test." + form: test}


# name: (labels, {file: columns}); the extension is the form, "-" before the columns: no header.
TABLES = {
    "cola": ("0 1", splits("-source,label,mark,sentence", "index,sentence")),
    "sst-2": ("0 1", splits("sentence,label", "index,sentence")),
    "mrpc": (
        "0 1",
        splits(
            "Quality,#1 ID,#2 ID,#1 String,#2 String",
            "index,#1 ID,#2 ID,#1 String,#2 String",
        ),
    ),
    "sts-b": ("0.000 2.400 5.000", splits(STS_B + ",score", STS_B)),
    "qqp": (
        "0 1",
        splits(
            "id,qid1,qid2,question1,question2,is_duplicate", "id,question1,question2"
        ),
    ),
    "mnli": (
        NLI,
        {
            "train.tsv": MNLI + ",label1,gold_label",
            **{
                f"dev_{half}.tsv": MNLI
                + ",label1,label2,label3,label4,label5,gold_label"
                for half in ("matched", "mismatched")
            },
            "test_matched.tsv": MNLI,
            "test_mismatched.tsv": MNLI,
        },
    ),
    "qnli": (
        "entailment not_entailment",
        splits("index,question,sentence,label", "index,question,sentence"),
    ),
    "rte": ("entailment not_entailment", splits(PAIR + ",label", PAIR)),
    "wnli": ("0 1", splits(PAIR + ",label", PAIR)),
    "ax": ("", {"diagnostic.tsv": PAIR}),
    "snli": (
        NLI + " -",
        {
            f"snli_1.0_{split}.jsonl": (
                "annotator_labels,captionID,gold_label,pairID,sentence1,sentence1_binary_parse,"
                "sentence1_parse,sentence2,sentence2_binary_parse,sentence2_parse"
            )
            for split in ROWS
        },
    ),
    **{
        name: (
            " ".join(str(1 + i) for i in range(count)),
            {"train.csv": "-label," + texts, "test.csv": "-label," + texts},
        )
        for name, count, texts in (
            ("yelp-2", 2, "text"),
            ("yelp-5", 5, "text"),
            ("ag_news", 4, "title,text"),
            ("dbpedia", 14, "title,text"),
            ("amazon-2", 2, "title,text"),
            ("amazon-5", 5, "title,text"),
        )
    },
    "tnews": (
        "100 101 102 103 104 106 107 108 109 110 112 113 114 115 116",
        splits("label,label_desc,sentence,keywords", "id,sentence,keywords", "json"),
    ),
    "afqmc": (
        "0 1",
        splits("sentence1,sentence2,label", "id,sentence1,sentence2", "json"),
    ),
    "iflytek": (
        " ".join(map(str, range(119))),
        splits("label,label_des,sentence", "id,sentence", "json"),
    ),
    "cmnli": (
        NLI + " -",
        splits("sentence1,sentence2,label", "id,sentence1,sentence2", "json"),
    ),
    "ocnli": (
        NLI + " -",
        {
            "train.50k.json": "level,sentence1,sentence2,label,label0,label1,genre,prem_id,id",
            "dev.json": "level,sentence1,sentence2,label,label0,label1,genre,prem_id,id",
            "test.json": "id,sentence1,sentence2",
        },
    ),
    "csl": ("0 1", splits("id,abst,keyword,label", "id,abst,keyword", "json")),
    "cluewsc": (
        "true false",
        splits("target,idx,label,text", "target,id,text", "json"),
    ),
    "chnsenticorp": (
        "0 1",
        {
            "train.tsv": "label,text_a",
            "dev.tsv": "qid,label,text_a",
            "test.tsv": "qid,text_a",
        },
    ),
    **{
        "xnli-" + language: (
            NLI,
            {
                f"XNLI-MT-1.0/multinli/multinli.train.{language}.tsv": "premise,hypo,label",
                **{
                    f"XNLI-1.0/xnli.{split}.tsv": (
                        f"language,gold_label,{CONSTITUENTS},sentence1,sentence2,promptID,pairID,genre,label1,label2,label3,"
                        "label4,label5,sentence1_tokenized,sentence2_tokenized,match"
                    )
                    for split in ("dev", "test")
                },
            },
        )
        for language in "ar bg de el en es fr hi ru sw th tr ur vi zh".split()
    },
    "ranking": (
        "0 1 2",
        {f"{split}.tsv": "query_id,document_id,query,document,grade" for split in ROWS},
    ),
}
TREES = ("imdb", "race", "race-middle", "race-high")
NAMES = (*TABLES, *TREES)

TEXT_COLUMNS = set(
    "sentence,sentence1,sentence2,question,question1,question2,text,#1 String,#2 String,"
    "title,abst,text_a,premise,hypo,document".split(",")
)
LABEL_COLUMNS = {"label", "gold_label", "Quality", "score", "is_duplicate", "grade"}
OTHER_LANGUAGES = ("de", "zh")  # in XNLI's files beside that of the task


class _Maker:
    """Texts, and the cells of a row by the names of their columns."""

    def __init__(self, name):
        self._rng = random.Random(name)
        self._name = name

    def text(self, words=5):
        return " ".join(self._rng.choices(SYLLABLES, k=self._rng.randint(2, words)))

    def cell(self, column, number, label):
        if column in TEXT_COLUMNS:
            return self.text()
        if column in LABEL_COLUMNS:
            return _spelled(self._name, column, label)
        if column == "language":
            return language_of(self._name, number)
        if column == "keyword":
            return [self.text(2), self.text(2)]
        if column == "target":
            spans = {"span2_index": 0, "span1_index": 1, "span1_text": self.text(2)}
            return dict(spans, span2_text=self.text(2))
        if column == "query_id":
            return "q%s" % (number // 4)
        if column == "query":
            return SYLLABLES[number // 4 % len(SYLLABLES)]
        return number  # an index, or nothing that is looked at


def language_of(name, number):
    """The language of a row of XNLI's dev and test files."""
    return [name.partition("-")[2], *OTHER_LANGUAGES][number % 3]


def _spelled(name, column, label):
    """Training files of XNLI have a word of their own for a label."""
    is_xnli_train = name.startswith("xnli") and column == "label"
    return "contradictory" if is_xnli_train and label == "contradiction" else label


def make(name, directory):
    """Makes `directory` with the official files of the task `name`."""
    directory.mkdir(parents=True)
    if name == "imdb":
        return _make_imdb(directory)
    if name in TREES:
        return _make_race(directory)
    labels, files = TABLES[name]
    for file, columns in files.items():
        maker, names = _Maker(name), columns.lstrip("-").split(",")
        counts = [count for split, count in ROWS.items() if split in file]
        rows = [] if columns.startswith("-") else [names]
        for number in range(counts[0] if counts else ROWS["test"]):
            label = labels.split(" ")[number % (labels.count(" ") + 1)]
            rows.append([maker.cell(column, number, label) for column in names])
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        lines = _LINES[file.rpartition(".")[2]](names, rows)
        text = "".join(line + "\n" for line in lines)
        (directory / file).write_text(text, encoding="utf-8")


def _tsv(names, rows):
    return ["\t".join(map(str, row)) for row in rows]


def _csv(names, rows):
    return [",".join(f'"{cell}"' for cell in row) for row in rows]


def _json(names, rows):
    return [json.dumps(dict(zip(names, row))) for row in rows[1:]]


_LINES = {"tsv": _tsv, "csv": _csv, "json": _json, "jsonl": _json}


def _make_imdb(directory):
    maker = _Maker("imdb")
    for split, (label, stars) in itertools.product(
        ("train", "test"), (("neg", 2), ("pos", 7))
    ):
        folder = directory / split / label
        folder.mkdir(parents=True)
        for number in range(ROWS[split] // 2):
            text = f"{maker.text()}<br /><br />{maker.text()}"
            (folder / f"{number}_{stars}.txt").write_text(text)


def _make_race(directory):
    maker = _Maker("race")
    for split, level in itertools.product(ROWS, ("middle", "high")):
        folder = directory / split / level
        folder.mkdir(parents=True)
        for number in range(ROWS[split] // 8 + 1):
            article = {
                "article": maker.text(9),
                "questions": [maker.text() + " _ .", maker.text() + "?"],
                "options": [[maker.text(3) for _ in range(4)] for _ in range(2)],
                "answers": ["ABCD"[number % 4], "D"],
                "id": f"{level}{number}.txt",
            }
            (folder / f"{number}.txt").write_text(json.dumps(article))
