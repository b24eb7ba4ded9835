"""Sentences with tagged words: what is read from each form, refused, and written again."""

import csv
import functools
import io
import json
import random
import unicodedata

import pytest

from xlnet.errors import UserError
from xlnet.tasks.files import (
    tagged_columns,
    tagged_files,
    tagged_hints,
    tagged_json,
    tagged_words,
)
from xlnet.tasks.files.tagged_files import Declared

CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

# SYM O O
Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
"""


def write(directory, text, name="train.txt"):
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def read(path, word="1", tag=None, need_tags=True, *, skips=False, **declared):
    declared = Declared(word_column=word, tag_column=tag, **declared)
    return list(tagged_files.read(path, declared, need_tags, skips=skips))


def conll_text(*columns):
    return "".join(tagged_columns.conll_lines(*columns))


def json_text(sources, spans):
    return "".join(tagged_json.json_lines(sources, spans, spans))


# --- Columns


@pytest.mark.parametrize("first", ['word\ttag\ra\t"O"', "a\tO\rb\tO", 'a\r"b"\tO'])
def test_a_carriage_return_in_the_first_line_is_refused(tmp_path, first):
    """As of old Macs, with one line feed at the end; the first line says how many columns are."""
    path = tmp_path / "train.tsv"
    path.write_bytes((first + "\n").encode())
    for need_tags in (True, False):
        with pytest.raises(UserError, match="train.tsv:1: a carriage return"):
            read(str(path), need_tags=need_tags)


def test_words_and_tags_of_columns_and_the_file_with_one_more(tmp_path):
    path = write(tmp_path, CONLL)
    first, second = sentences = read(path)
    assert first.words == ("EU", "rejects") and first.tags == ("I-ORG", "O")
    assert [place.removeprefix(path) for place in (*first.places, *second.places)] == [
        ":3",
        ":4",
        ":6",
        ":7",
        ":8",
    ]
    assert read(path, "2", "3")[0][:3] == (("NNP", "VBZ"), None, ("I-NP", "I-VP"))
    text = conll_text([s.source for s in sentences], [("X", "Y"), ("O", "Z", "O")])
    assert (
        text
        == """-DOCSTART- -X- O O O

EU NNP I-NP I-ORG X
rejects VBZ I-VP O Y

# SYM O O O
Peter NNP I-NP I-PER Z
Blackburn NNP I-NP I-PER O
"""
    )


def test_columns_by_name_between_tabs(tmp_path):
    text = "id\tword\tner\n1\tNew York\tB-LOC\n2\tis\tO\n\n\n1\tBig\tO\n"
    sentences = read(write(tmp_path, text, "train.tsv"), "word", "ner")
    assert [s.words for s in sentences] == [("New York", "is"), ("Big",)]
    written = conll_text([s.source for s in sentences], [("B-LOC", "O"), ("O",)])
    assert written == (
        "id\tword\tner\tpredicted\n1\tNew York\tB-LOC\tB-LOC\n2\tis\tO\tO\n\n\n1\tBig\tO\tO\n"
    )


CONLLU = """# text = in dem Zug
1-2	im	_
1	in	O
2	dem	O
3	Zug	B-X
3.1	x	_

#	http://example.org	[2010]
1	New York	B-LOC
2	"	O
"""


def test_comments_and_numbers_of_words_are_conllu(tmp_path):
    """The file of predictions has all of its lines."""
    for path, declared in (
        (write(tmp_path, CONLLU, "a.conllu"), {}),
        (write(tmp_path, CONLLU, "a.tsv"), {"form": "conllu"}),
    ):
        sentences = read(path, **declared)
        assert [s.words for s in sentences] == [("in", "dem", "Zug"), ("New York", '"')]
        assert [s.tags for s in sentences] == [("O", "O", "B-X"), ("B-LOC", "O")]
        written = conll_text([s.source for s in sentences], ["XYZ", "UV"])
        assert written == (
            CONLLU.replace("im	_", "im	_	_")
            .replace("in	O", "in	O	X")
            .replace("dem	O", "dem	O	Y")
            .replace("Zug	B-X", "Zug	B-X	Z")
            .replace("x	_\n", "x	_	_\n")
            .replace("B-LOC", "B-LOC	U")
            .replace('"	O', '"	O	V')
        )


@pytest.mark.parametrize(
    "name, text, message",
    [
        # Without the declaration they are refused with it, never read as words.
        (
            "a.tsv",
            "1	EU	O\n2	says	O\n",
            "column 1 counts the words.*--input_format=conllu",
        ),
        ("a.txt", "0 EU O\n1 says O\n", "column 1 counts the words.*--input_format=conllu"),
        ("a.tsv", CONLLU, "column 1 counts the words.*--input_format=conllu"),
        ("a.conll", "# x = 1\nEU B-X\nsays O\n", ":2: 2 column.*"),
        ("a.conll", "EU B-X\n\n# x = 1\nso O\n", ":3: 4 column.*--input_format=conllu"),
        ("a.conllu", "EU	x	B-X\n", ":1: column 1 is 'EU', expected 1, the number .*=conll$"),
        ("a.conllu", "1\tEU\tO\n3\tx\tO\n", ":2: column 1 is '3', expected 2, the number"),
        ("a.conllu", "1\tEU\tO\n1\tx\tO\n", ":2: column 1 is '1', expected 2, the number"),
        ("a.conllu", "0\tEU\tO\n2\tx\tO\n", ":2: column 1 is '2', expected 1, the number"),
        ("a.txt", '{"tokens": ["a"], "tags": ["O"]}\n', "begins like JSON.*--input_format=jsonl"),
        ("a.txt", "New York	B-X\nis	O\n", ":2: 2 column.*--delimiter=tab"),
        ("a.csv", "EU,B-X\n", "a.csv: .*--delimiter=,"),
        ("a.txt", "EU,B-X\nsays,O\n", "column 1 is that of the words.*--delimiter=,"),
        ("a.tsv", 'He	O\n"	O\nx	B-X\n', ":2: a quotation mark.*--quoting=none"),
        ("a.tsv", 'He	O\n5"	O\nx	B-X\n', ":2: a quotation mark.*--quoting=none"),
        ("a.tsv", '""	O\nHe	O\nx	B-X\n', ":1: column 1 is empty.*--quoting=none"),
        ("a.tsv", 'a "b" c	O\nx	B-X\n', ":1: a quotation mark.*--quoting=none"),
        ("a.json", '{"text": "a"}\n{"text": "b"}\n', "not valid JSON"),
        ("a.jsonl", '[{"text": "a"}]\n', ":1: .*found list"),
        ("-", "", None),
    ],
)
def test_what_is_not_of_the_declared_form_is_refused_with_the_flag(tmp_path, name, text, message):
    if message is None:
        with pytest.raises(UserError, match="raw text has no tags"):
            read(name)
        return
    with pytest.raises(UserError, match=message) as e:
        read(write(tmp_path, text, name))
    assert "\n" not in str(e.value) and name in str(e.value)


@pytest.mark.parametrize(
    "name, text, declared, words",
    [
        ("a.tsv", CONLLU, {"form": "conllu"}, ["in dem Zug", 'New York "']),
        ("a.tsv", "1	EU	O\n2	says	O\n", {"form": "conll"}, ["1 2"]),
        ("a.tsv", "1	EU	O\n2	says	O\n", {"word": "2"}, ["EU says"]),
        ("a.txt", '{"tokens": ["a"], "tags": ["O"]}\n', {"form": "jsonl"}, ["a"]),
        ("a.txt", '[\n{"tokens": ["a"], "tags": ["O"]}]', {"form": "json"}, ["a"]),
        ("a.txt", "New York	B-X\nis	O\n", {"delimiter": "	"}, ["New York is"]),
        ("a.csv", "EU,B-X\n,\nso,O\n", {"delimiter": ","}, ["EU", "so"]),
        ("a.tsv", 'He	O\n"	O\n5"	B-X\n', {"quoting": "none"}, ['He " 5"']),
        ("a.tsv", 'He	O\n""	O\n"x"	B-X\n', {"quoting": "none"}, ['He "" "x"']),
        ("a.txt", 'He O\n" O\n5" O\n', {}, ['He " 5"']),
        ("a.txt", '"	O\nHe	O\n', {}, ['" He']),
    ],
)
def test_the_flag_of_the_error_reads_it(tmp_path, name, text, declared, words):
    sentences = read(write(tmp_path, text, name), **declared)
    assert [" ".join(sentence.words) for sentence in sentences] == words


def test_a_column_has_the_numbers_of_sentences(tmp_path):
    """As in tables of words: on the first word of each sentence, or on all."""
    first = "Sentence #,Word,Tag\nSentence: 1,EU,B-X\n,says,O\nSentence: 2,Yes,O\n,EU,B-X\n"
    every = "Sentence #,Word,Tag\n0,EU,B-X\n0,says,O\n1,Yes,O\n1,EU,B-X\n"
    again = first.replace("Sentence: 2", "Sentence: 1")  # as of the next document
    for text in (first, again, every):
        path = write(tmp_path, text, "a.csv")
        declared = dict(word="Word", tag="Tag", delimiter=",")
        assert len(read(path, **declared)) == 1
        sentences = read(path, **declared, sentence_column="Sentence #")
        assert [s.words for s in sentences] == [("EU", "says"), ("Yes", "EU")]
        written = conll_text([s.source for s in sentences], ["XY", "ZU"])
        assert [line.rpartition(",")[0] for line in written.splitlines()] == text.splitlines()
    with pytest.raises(UserError, match="no column 'Sentence'; did you mean 'Sentence #'"):
        read(path, **declared, sentence_column="Sentence")
    # A sentence with an error is skipped alone.
    path = write(tmp_path, every.replace("0,says,O", "0,says"), "a.csv")
    (sentence,) = read(path, **declared, sentence_column="Sentence #", skips=True)
    assert sentence.words == ("Yes", "EU")
    path = write(tmp_path, every.replace("0,says,O", '0,"a" x,O\n0,says,O'), "a.csv")
    (sentence,) = read(path, **declared, sentence_column="Sentence #", skips=True)
    assert sentence.words == ("Yes", "EU")


def test_a_hash_is_a_word_of_plain_conll(tmp_path):
    """Whatever its columns are, as are hashtags and words with an equals sign."""
    text = "# NN O\n1 CD O\n\n# = O\nx = B-X\n\n#tag x O\n"
    sentences = read(write(tmp_path, text))
    assert [s.words for s in sentences] == [("#", "1"), ("#", "x"), ("#tag",)]


def test_numbers_may_be_words(tmp_path):
    (sentence,) = read(write(tmp_path, "1 B-A\n1 I-A\n0 O\n"))
    assert sentence.words == ("1", "1", "0")


def test_lines_after_the_last_word_are_kept(tmp_path):
    sentences = read(write(tmp_path, "a O\n\n-DOCSTART- O\n"))
    assert conll_text([s.source for s in sentences], [["O"]]) == ("a O O\n\n-DOCSTART- O O\n")


def test_unusual_spaces_and_line_ends_are_no_borders(tmp_path):
    path = tmp_path / "train.txt"
    path.write_bytes("\u3000 O\r\nx\u00a0y  B-A \r\n\u2028 I-A\r\n".encode())
    (sentence,) = read(str(path))
    assert sentence.words == ("\u3000", "x\u00a0y", "\u2028")
    assert sentence.tags == ("O", "B-A", "I-A")


def test_a_carriage_return_within_a_line_of_text_is_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\rtwo\nthree\n")
    with pytest.raises(UserError, match="a.txt:1: a carriage return inside of a line"):
        read(str(tmp_path / "a.txt"), need_tags=False, form="text")


@pytest.mark.parametrize(
    "text, word, tag, message",
    [
        (
            "a O\nb c O\n\nd\n",
            "1",
            "2",
            ":2: 3 column(s), expected 2 as in line 1 (and 1 more faulty",
        ),
        ("a O\n", "1", "3", ": no column '3' (columns: 1, 2)"),
        ("a O\n", "0", "2", ": no column '0' (columns: 1, 2)"),
        (
            "word tag\na O\n",
            "word",
            "tags",
            ": no column 'tags'; did you mean 'tag'? (columns: word",
        ),
        ("word tag word\na O b\n", "word", "tag", ": 2 columns are called 'word'; expected one"),
        ("a\nb\n", "1", None, ": column 1 is that of the words and of the tags"),
        ("\n", "1", None, ": the file is empty"),
        ("-DOCSTART- O\n", "1", None, ": no words"),
    ],
)
def test_faulty_columns(tmp_path, text, word, tag, message):
    path = write(tmp_path, text)
    with pytest.raises(UserError) as e:
        read(path, word, tag)
    assert str(e.value).startswith(path + message)


def test_a_sentence_with_an_error_is_skipped_alone(tmp_path):
    path = write(tmp_path, "a B-X\nb O c\n\nb B-Y\n\nc O\nd\n\ne O\n")
    sentences = read(path, tag="2", skips=True)
    assert [(s.words, s.tags) for s in sentences] == [(("b",), ("B-Y",)), (("e",), ("O",))]


def test_bytes_of_a_skipped_sentence_that_are_no_characters_are_written_as_such(tmp_path):
    """The predictions of all others could not be written."""
    (tmp_path / "a.conll").write_bytes(b"so\xfcl O\n\nmi O\n")
    sentences = read(str(tmp_path / "a.conll"), need_tags=False, skips=True)
    text = conll_text([each.source for each in sentences], [None, ["O"]])
    assert text == "so\ufffdl O _\n\nmi O O\n"


def test_a_skipped_sentence_to_predict_has_an_empty_answer_in_its_place(tmp_path, caplog):
    """So that predictions are aligned with the input."""
    text = "-DOCSTART- O\n\na O\n\nb O\nc\nd O\n\ne O\n\nf\n"
    sentences = read(write(tmp_path, text), tag="2", need_tags=False, skips=True)
    assert [s.words for s in sentences] == [("a",), (), ("e",), ()]
    assert conll_text([s.source for s in sentences], [["B-X"], None, ["O"], None]) == (
        "-DOCSTART- O O\n\na O B-X\n\nb O _\nc _\nd O _\n\ne O O\n\nf _\n"
    )
    assert "2 entries with errors are skipped" in caplog.text
    lines = '{"text": "a b"}\n{"text": 1, "id": 7}\n{"tex\n\n{"text": "c"}\n'
    sentences = read(write(tmp_path, lines, "a.jsonl"), need_tags=False, skips=True)
    assert [len(s.words) for s in sentences] == [2, 0, 0, 0, 1]
    written = json_text([s.source for s in sentences], [[(0, 1, "X")], None, None, None, []])
    assert list(map(json.loads, written.splitlines())) == [
        {"text": "a b", "predicted": [[0, 1, "X"]]},
        {"text": 1, "id": 7, "predicted": None},
        {"predicted": None},
        {"predicted": None},
        {"text": "c", "predicted": []},
    ]
    (tmp_path / "t.txt").write_bytes(
        "ein Satz, ein Satz.\n\xe9\n\nnoch einer hier.\n".encode("latin-1")
    )
    sentences = read(str(tmp_path / "t.txt"), need_tags=False, skips=True, form="text")
    assert [len(s.words) for s in sentences] == [6, 0, 0, 4]
    for text, name, what in (  # nothing is left
        ("a O\nb\n", "train.txt", "column"),
        ('{"x": 1}\n\n{"y": 2}\n', "a.jsonl", "a.jsonl:1: no 'text'"),
        ("\u200b\n \n", "t.text", "t.text:1: 'text' has no word"),
    ):
        declared = {} if name != "t.text" else {"form": "text"}
        with pytest.raises(UserError, match=what):
            path = write(tmp_path, text, name)
            read(path, tag="2", need_tags=False, skips=True, **declared)


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": "Anna is here", "label": "positive"},
        {"text": "Anna is here", "entities": [[0, 99, "PER"]]},
        {"tokens": ["Anna", "is", "here"], "tags": ["B-PER"]},
    ],
)
def test_tags_that_are_not_needed_may_be_wrong(tmp_path, wrong):
    path = write(tmp_path, json.dumps(wrong) + "\n", "a.jsonl")
    (sentence,) = read(path, need_tags=False)
    assert (sentence.words, sentence.tags) == (("Anna", "is", "here"), None)
    with pytest.raises(UserError, match="a.jsonl:1: '(label|entities|tags)'"):
        read(path)


def test_quotes_that_pandas_and_excel_write_are_not_part_of_words(tmp_path):
    """They quote cells that have a quotation mark or the delimiter; Excel also those with a
    comma."""
    words = ["He", "said", '"', "a\tb", '"x', "'", ",", '"']
    tags = ["O"] * 7 + ["B-X"]
    for delimiter, name in (("\t", "t.tsv"), (",", "t.csv")):
        with open(tmp_path / name, "w", newline="") as file:  # as pandas calls it
            csv.writer(
                file, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_MINIMAL
            ).writerows([("word", "tag"), *zip(words, tags)])
        declared = {} if delimiter == "\t" else {"delimiter": ","}
        (sentence,) = read(str(tmp_path / name), "word", "tag", **declared)
        assert sentence.words == tuple(words)
        written = conll_text([sentence.source], [["X"] * 8]).splitlines()
        assert written[3] == delimiter.join(['""""', "O", "X"])
    excel = 'word\ttag\nAnna\tB-PER\n","\tO\n""""\tO\n'
    assert read(write(tmp_path, excel, "e.tsv"), "word", "tag")[0].words == ("Anna", ",", '"')


def test_conll_2012_is_refused_by_name(tmp_path):
    path = write(tmp_path, "#begin document (x); part 000\nx 0 0 A N x x x x x (P) -\n")
    for need_tags in (True, False):
        with pytest.raises(UserError) as e:
            read(path, need_tags=need_tags)
        assert str(e.value) == path + (
            ": a CoNLL-2012 file (#begin document), whose brackets are not read; expected a word a "
            "line with its tag, such as B-PERSON, I-PERSON or O"
        )


# --- Any words and tags, by standard writers

PIECES = [
    "a",
    "Z",
    "1",
    "2",
    '"',
    "'",
    ",",
    ";",
    "#",
    "|",
    "{",
    "[",
    "-",
    "字",
    "é",
    "😀",
    "\\",
    "_",
]


def random_sentences(rng, pieces=PIECES):
    """Of three words or more, so that two lines that become one do not look like a file with other
    columns."""
    return [
        [
            ("".join(rng.choices(pieces, k=rng.randint(1, 3))), rng.choice(["O", "B-X", "I-X"]))
            for _ in range(rng.randint(3, 5))
        ]
        for _ in range(rng.randint(1, 4))
    ]


def as_conll(sentences, rng, separators=(" ", "\t", "  ")):
    between = rng.choice(separators)
    return "".join(
        "".join(f"{word}{between}{tag}\n" for word, tag in words) + "\n" for words in sentences
    )


def as_conllu(sentences, rng):
    return "".join(
        rng.choice(["", "# text = x\n"])
        + "".join(f"{i}\t{word}\t{tag}\n" for i, (word, tag) in enumerate(words, 1))
        + "\n"
        for words in sentences
    )


def as_quoted(sentences, rng):
    content = io.StringIO()
    writer = csv.writer(
        content,
        delimiter="\t",
        lineterminator=rng.choice(["\n", "\r\n"]),
        quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    )
    for words in sentences:
        writer.writerows(words)
        writer.writerow([])
    return content.getvalue()


def as_jsonl(sentences, rng):
    return "".join(
        json.dumps(dict(zip(("tokens", "tags"), map(list, zip(*words))))) + "\n"
        for words in sentences
    )


def as_json(sentences, rng):
    return f"[{','.join(as_jsonl(sentences, rng).splitlines())}]"


WRITERS = {
    "a.conll": (as_conll, {}),
    "a.tsv": (as_quoted, {}),
    "b.tsv": (functools.partial(as_conll, separators="\t"), {"quoting": "none"}),
    "a.conllu": (as_conllu, {}),
    "a.jsonl": (as_jsonl, {}),
    "a.json": (as_json, {}),
}
COUNTS = [200, pytest.param(10000, marks=pytest.mark.slow)]


def pairs_of(path, declared):
    """(word, tag) of each word of each sentence; None if the file is refused."""
    try:
        return [list(zip(one.words, one.tags)) for one in read(str(path), **declared)]
    except UserError:
        return None


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", WRITERS)
def test_what_is_written_is_read_back_equal_or_refused(tmp_path, name, count):
    rng, equal = random.Random(name), 0
    writer, declared = WRITERS[name]
    pieces = [*PIECES, " "] if name in ("a.tsv", "a.jsonl", "a.json") else PIECES
    for _ in range(count):
        sentences = random_sentences(rng, pieces)
        (tmp_path / name).write_text(writer(sentences, rng), encoding="utf-8", newline="")
        found = pairs_of(tmp_path / name, declared)
        if found is None:
            continue
        if name == "a.tsv":  # blanks around a cell do not count
            sentences = [[(word.strip(" "), tag) for word, tag in words] for words in sentences]
        assert found == sentences, (tmp_path / name).read_text()
        equal += 1
    assert equal > 0.4 * count


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["a.conll", "a.tsv", "a.conllu", "a.jsonl"])
def test_a_damaged_byte_changes_at_most_its_word_or_is_refused(tmp_path, name, count):
    """No word is lost, joined or divided. (Where sentences end cannot be checked.)"""
    rng, equal = random.Random(name), 0
    writer, declared = WRITERS[name]
    for _ in range(count):
        sentences = random_sentences(rng)
        content = bytearray(writer(sentences, rng).encode())
        content[rng.randrange(len(content))] = rng.choice(
            [*b'",\t\n\r\\{}[]: ;#', rng.randrange(256)]
        )
        (tmp_path / name).write_bytes(content)
        found = pairs_of(tmp_path / name, declared)
        if found is None:
            continue
        before, after = ([pair for words in each for pair in words] for each in (sentences, found))
        assert len(before) == len(after), bytes(content)
        different = [pair for pair in zip(before, after) if pair[0] != pair[1]]
        assert len(different) <= 1, bytes(content)
        equal += 1
    assert equal > 0.1 * count


# --- What is predicted


def predicted(path, **declared):
    if not declared:
        tagged_files.check_to_predict(path, None)
    return read(path, need_tags=False, **declared)


def test_files_are_read_alike_without_the_hints(tmp_path, monkeypatch):
    """Hints word errors: without them there are the same sentences, or there was an error."""

    def outcome(path, declared):
        try:
            return [sentence[:3] for sentence in read(path, need_tags=False, **declared)]
        except UserError:
            return "error"

    pieces = ["EU", "1", "2", "#", '"', ",", "\t", " ", "\n", "\n\n", "O", "B-X", "{", "[", "-"]
    rng = random.Random(0)
    names = ("a.txt", "a.tsv", "a.conllu", "a.jsonl", "a.json")
    cases = [
        (
            write(tmp_path, "".join(rng.choices(pieces, k=rng.randint(1, 20))) + "x", f"{i}{name}"),
            {},
        )
        for i, name in enumerate(names * 400)
    ]
    with_hints = [outcome(*case) for case in cases]
    monkeypatch.setattr(tagged_hints, "of_columns", lambda *_: None)
    monkeypatch.setattr(tagged_hints, "of_text", lambda *_: None)
    monkeypatch.setattr(tagged_hints, "of_line", lambda *_: "")
    without = [outcome(*case) for case in cases]
    assert all(one in (other, "error") for one, other in zip(with_hints, without))
    assert 400 < sum(one != "error" for one in with_hints) < 1900


# --- JSON lines


def json_line(text, *entities, **more):
    return (
        json.dumps(dict(more, text=text, entities=list(map(list, entities))), ensure_ascii=False)
        + "\n"
    )


def test_words_and_tags_of_a_text(tmp_path):
    text = "In New York, 3km. 北京的U.S."
    (sentence,) = read(write(tmp_path, json_line(text, (3, 11, "LOC"), (18, 20, "LOC")), "a.jsonl"))
    assert sentence.words == (
        "In",
        "New",
        "York",
        ",",
        "3",
        "km",
        ".",
        "北",
        "京",
        "的",
        "U",
        ".",
        "S",
        ".",
    )
    assert sentence.after_space == tuple(map(bool, (1, 1, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)))
    assert [(word, tag) for word, tag in zip(sentence.words, sentence.tags) if tag != "O"] == [
        ("New", "B-LOC"),
        ("York", "I-LOC"),
        ("北", "B-LOC"),
        ("京", "I-LOC"),
    ]


def test_spans_come_back_as_characters(tmp_path):
    line = json_line("He  saw Oslo .", (8, 12, "LOC"), id=7)
    (sentence,) = read(write(tmp_path, line, "a.jsonl"))
    text = json_text([sentence.source], [[(0, 1, "PER"), (2, 4, "LOC")]])
    assert json.loads(text) == dict(json.loads(line), predicted=[[0, 2, "PER"], [8, 14, "LOC"]])


def test_predictions_of_a_file_of_predictions_replace_them_with_a_note(tmp_path, caplog):
    path = write(tmp_path, json_line("In Bonn", predicted=[[0, 2, "X"]]), "a.jsonl")
    (sentence,) = read(path, need_tags=False)
    assert "1: the key 'predicted' is replaced by the prediction" in caplog.text
    assert json.loads(json_text([sentence.source], [[]]))["predicted"] == []


@pytest.mark.parametrize(
    "text, words",
    [
        ("don't", ["don", "'", "t"]),
        ("A\u0301b", ["A\u0301b"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("1999年", ["1999", "年"]),
        ("서울에서 KBS가", ["서", "울", "에", "서", "KBS", "가"]),
        (unicodedata.normalize("NFD", "서울"), [unicodedata.normalize("NFD", c) for c in "서울"]),
        ("a\u200bb", ["a", "b"]),
        ("日本ゲーム", list("日本ゲーム")),
        (" \u3000", []),
    ],
)
def test_words(text, words):
    assert [text[start:end] for start, end in tagged_words.find_words(text)] == words


def test_entities_that_do_not_fit_words_are_counted(tmp_path, caplog):
    lines = json_line("Unhappy days", (2, 7, "A")) + json_line("Unhappy", (0, 2, "A"), (2, 7, "B"))
    path = write(tmp_path, lines, "a.jsonl")
    first, second = read(path)
    assert first.tags == ("B-A", "O") and second.tags == ("B-A",)
    assert caplog.messages[0].splitlines() == [
        f"note: {path}: 4 entities or examples are not used as they are:",
        f"  {path}:1: an entity begins or ends inside of a word: the complete word is "
        "tagged, so it is "
        f"counted as wrong in an evaluation (3 rows, the last one {path}:2)",
        f"  {path}:2: an entity shares a word with the one before and is not learned",
    ]
    assert second.entities == ((0, 2, "A"), (2, 7, "B"))


def test_spaces_at_the_ends_of_an_entity_do_not_count(tmp_path, caplog):
    (sentence,) = read(write(tmp_path, json_line("in Oslo now", (2, 8, "LOC")), "a.jsonl"))
    assert sentence.tags == ("O", "B-LOC", "O") and not caplog.records


@pytest.mark.parametrize(
    "line, message",
    [
        ("{", "not valid JSON: "),
        (
            '{"text": "a\\ud83d", "entities": []}',
            "an escape such as \\ud83d that is half a character",
        ),
        ("[]", "expected a JSON object, found list"),
        ('{"text": " ", "entities": []}', "'text' is empty, expected a text"),
        ('{"entities": []}', "no 'text' or 'tokens' or 'words' (keys: entities)"),
        ('{"text": "ab"}', "no 'entities'"),
        ('{"text": "ab", "entities": {}}', "'entities' is not a list"),
        (
            '{"text": "ab", "entities": [[0, 3, "X"]]}',
            "'entities' has [0, 3, \"X\"], expected [start, end, label] with 0 <= start < end <= 2",
        ),
        ('{"text": "ab", "entities": [[1, 1, "X"]]}', "'entities' has [1, 1, \"X\"], expected"),
        ('{"text": "ab", "entities": [[0, 1, ""]]}', "'entities' has [0, 1, \"\"], expected"),
        (
            '{"text": "😀 Bonn", "entities": [{"start": 3, "end": 7, "label": "X"}]}',
            '\'entities\' has {"start": 3, "end": 7, "label": "X"}, expected',
        ),
        (
            '{"text": "😀 In Bonn", "label": [{"start": 6, "end": 9, "text": "Bon", '
            '"labels": ["X"]}]}',
            '\'label\' has {"start": 6, "end": 9, "text": "Bon", "labels": ["X"]}, but there the '
            'text is "onn"; start and end count characters',
        ),
        (
            '{"text": "a  b", "entities": [[1, 3, "X"]]}',
            "'entities' has [1, 3, \"X\"], which is not",
        ),
        ('{"text": "\u200b", "entities": []}', "'text' has no word"),
        (
            '{"text": "abc", "entities": [[0, 2, "X"], [1, 3, "Y"]]}',
            '\'entities\': [0, 2, "X"] and [1, 3, "Y"] overlap',
        ),
    ],
)
def test_faulty_json(tmp_path, line, message):
    path = write(tmp_path, json_line("a") + line + "\n", "a.jsonl")
    with pytest.raises(UserError) as e:
        read(path)
    assert str(e.value).startswith(f"{path}:2: {message}")


def test_pairs_of_text_and_entities(tmp_path):
    """As spaCy has them: one on each line, or in a list."""
    pair = '["a", {"entities": [[0, 1, "X"]]}]'
    for name, text in (
        ("a.jsonl", "\n%s\n%s\n"),
        ("a.json", "[%s, %s]\n"),
        ("a.json", "[\n%s,\n%s]"),
        ("a.json", '{"version": 1, "data": [%s, %s]}'),
    ):
        assert [one.tags for one in read(write(tmp_path, text % (pair, pair), name))] == [
            ("B-X",),
            ("B-X",),
        ]


def test_other_keys(tmp_path):
    path = write(tmp_path, '{"satz": "a", "namen": [[0, 1, "X"]]}\n', "a.jsonl")
    assert read(path, "satz", "namen")[0].tags == ("B-X",)


@pytest.mark.parametrize(
    "path, output, expected",
    [
        ("a.txt", "p.csv", "ends in .jsonl"),  # declared as text
        ("a.txt", "p.jsonl", None),
        ("a.json", "p.json", "ends in .jsonl"),
        ("a.tsv", "p.csv", None),
        ("a.tsv", "p.jsonl", "does not end in .json or .jsonl"),
    ],
)
def test_an_output_of_another_form_is_refused(path, output, expected):
    declared = "text" if path == "a.txt" else None
    if expected:
        message = f"{output}: predictions for .* expected a name that {expected}"
        with pytest.raises(UserError, match=message):
            tagged_files.check_output(path, declared, output)
    else:
        tagged_files.check_output(path, declared, output)


@pytest.mark.parametrize(
    "name, text, flag",
    [
        ("a.tsv", "token\tner\nBonn\tB-X\n", "--word_column"),
        ("a.jsonl", '{"body": "Bonn"}\n', "--word_column"),
        ("a.tsv", "word\tner\nBonn\tB-X\n", "--tag_column"),
    ],
)
def test_a_missing_column_names_its_flag(tmp_path, name, text, flag):
    with pytest.raises(UserError, match=f"{flag} names it$"):
        read(write(tmp_path, text, name), "word", "tag")


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_columns_in_another_form_of_unicode(tmp_path, form):
    """The name of a flag is composed; that of the file may look the same."""
    word, tag = "W\u00f6rter", "Sch\u00e4tzung"
    stored = [unicodedata.normalize("NFD", name) for name in (word, tag)]
    if form == "csv":
        text = ",".join(stored) + "\nBonn,B-X\n"
    else:
        text = json.dumps(dict(zip(stored, (["Bonn"], ["B-X"])))) + "\n"
    declared = {"delimiter": ","} if form == "csv" else {}
    (sentence,) = read(write(tmp_path, text, f"a.{form}"), word, tag, **declared)
    assert (sentence.words, sentence.tags) == (("Bonn",), ("B-X",))


def test_a_missing_column_between_commas_names_the_delimiter(tmp_path):
    with pytest.raises(UserError, match="columns with commas give --delimiter=,"):
        read(write(tmp_path, "word,tag\nBonn,B-X\n", "a.tsv"), "word", "tag")


# --- Parquet


def test_parquet_has_tokens_or_texts(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    tokens = {"tokens": [["In", "Bonn"], ["so"]], "ner_tags": [["O", "B-X"], ["O"]]}
    texts = {"text": ["In Bonn"], "entities": [[{"start": 3, "end": 7, "label": "X"}]]}
    numbers = {"tokens": [["In", "Bonn"]], "ner_tags": [[0, 1]]}
    for i, (columns, metadata, tags) in enumerate(
        (
            (tokens, None, [("O", "B-X"), ("O",)]),
            (texts, None, [("O", "B-X")]),
            (numbers, None, "row 1: 'ner_tags' has 0, expected tags such as B-PER"),
            (numbers, {"feature": {"names": ["O", "B-X"]}, "_type": "Sequence"}, [("O", "B-X")]),
            (numbers, [{"names": ["O", "B-X"], "_type": "ClassLabel"}], [("O", "B-X")]),
        )
    ):
        table = pyarrow.table(columns)
        if metadata:
            features = {"info": {"features": {"ner_tags": metadata}}}
            table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
        path = str(tmp_path / f"{i}.parquet")
        parquet.write_table(table, path)
        if isinstance(tags, str):
            with pytest.raises(UserError, match=tags):
                read(path)
        else:
            assert [sentence.tags for sentence in read(path)] == tags
    (sentence,) = read(str(tmp_path / "1.parquet"))
    written = json.loads(json_text([sentence.source], [[(1, 2, "X")]]))
    assert written["text"] == "In Bonn" and written["predicted"] == [[3, 7, "X"]]
