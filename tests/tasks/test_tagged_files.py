"""Sentences with tagged words: what is read from each form, refused, and written again."""

import csv
import json
import unicodedata

import pytest

from xlnet.errors import UserError
from xlnet.tasks.files import tagged_columns, tagged_files, tagged_json, tagged_words

CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

# a comment
Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
"""


def write(directory, text, name="train.txt"):
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def read(path, word="1", tag=None, need_tags=True):
    return list(tagged_files.read(path, None, word, tag, need_tags))


def conll_text(*columns):
    return "".join(tagged_columns.conll_lines(*columns))


def json_text(sources, spans):
    return "".join(tagged_json.json_lines(sources, spans, spans))


# --- Columns


def test_words_and_tags_of_columns_and_the_file_with_one_more(tmp_path):
    path = write(tmp_path, CONLL)
    first, second = sentences = read(path)
    assert first.words == ("EU", "rejects") and first.tags == ("I-ORG", "O")
    assert [place.removeprefix(path) for place in (*first.places, *second.places)] == [
        ":3",
        ":4",
        ":7",
        ":8",
    ]
    assert read(path, "2", "3")[0][:3] == (("NNP", "VBZ"), None, ("I-NP", "I-VP"))
    text = conll_text([s.source for s in sentences], [("X", "Y"), ("Z", "O")])
    assert (
        text
        == """-DOCSTART- -X- O O O

EU NNP I-NP I-ORG X
rejects VBZ I-VP O Y

# a comment
Peter NNP I-NP I-PER Z
Blackburn NNP I-NP I-PER O
"""
    )


def test_columns_by_name_between_tabs(tmp_path):
    text = "id\tword\tner\n1\tNew York\tB-LOC\n2\tis\tO\n\n\n1\tBig\tO\n"
    sentences = read(write(tmp_path, text), "word", "ner")
    assert [s.words for s in sentences] == [("New York", "is"), ("Big",)]
    written = conll_text([s.source for s in sentences], [("B-LOC", "O"), ("O",)])
    assert written == (
        "id\tword\tner\tpredicted\n1\tNew York\tB-LOC\tB-LOC\n2\tis\tO\tO\n\n\n1\tBig\tO\tO\n"
    )


def test_a_comment_may_have_as_many_parts_as_there_are_columns(tmp_path):
    """In CoNLL-U's form; elsewhere # is a word, whatever its columns are, as are hashtags."""
    text = "# id = 1\nEU x y B-ORG\nsays x y O\n\n# id = 2\n# x y O\n# x y B-X\n\n#tag x y z\n"
    first, second, third = sentences = read(write(tmp_path, text))
    assert [s.words for s in sentences] == [("EU", "says"), ("#", "#"), ("#tag",)]
    assert (first.source.before, second.source.before) == (("# id = 1",), ("", "# id = 2"))
    assert conll_text([s.source for s in sentences], ["XX", "OO", "O"]) == (
        text.replace("ORG\n", "ORG X\n")
        .replace("y O\n\n", "y O X\n\n")
        .replace("y O\n#", "y O O\n#")
        .replace("X\n\n#tag x y z", "X O\n\n#tag x y z O")
    )
    (predicted,) = tagged_files.read(
        write(tmp_path, "# NN\n1 CD\nfan NN\n"), "conll", "1", None, need_tags=False
    )
    assert predicted.words == ("#", "1", "fan")


@pytest.mark.parametrize(
    "text, words",
    (
        (
            "# sent_id = 1\n1\tEU\tB-A\n2\tdo\tO\n\n#newdoc\n1\tPeter\tB-A\n2\tx\tO\n",
            [("EU", "do"), ("Peter", "x")],
        ),
        ("1 B-A\n1 I-A\n0 O\n", [("1", "1", "0")]),
    ),
)
def test_a_column_that_counts_the_words_does_so_in_each_sentence(tmp_path, text, words):
    assert [sentence.words for sentence in read(write(tmp_path, text))] == words


def test_comments_do_not_hide_tabs(tmp_path):
    text = "#id = 1\n# text = New York\nNew York\tB-LOC\n\n# id = 2\n# text = Yes\nYes\tO\n"
    sentences = read(write(tmp_path, text))
    assert [s.words for s in sentences] == [("New York",), ("Yes",)]
    assert conll_text([s.source for s in sentences], "XY") == text.replace(
        "LOC\n", "LOC\tX\n"
    ).replace("\tO\n", "\tO\tY\n")


def test_lines_after_the_last_word_are_kept(tmp_path):
    sentences = read(write(tmp_path, "a O\n\n-DOCSTART- O\n"))
    assert conll_text([s.source for s in sentences], [["O"]]) == ("a O O\n\n-DOCSTART- O O\n")


def test_unusual_spaces_and_line_ends_are_no_borders(tmp_path):
    path = tmp_path / "train.txt"
    path.write_bytes("\u3000 O\r\nx\u00a0y  B-A \r\n\u2028 I-A\r\n".encode())
    (sentence,) = read(str(path))
    assert sentence.words == ("\u3000", "x\u00a0y", "\u2028")
    assert sentence.tags == ("O", "B-A", "I-A")


@pytest.mark.parametrize(
    "text, word, tag, message",
    [
        (
            "a O\nb c O\n\nd\n",
            "1",
            "2",
            ":2: 3 column(s), expected 2 as in line 1 (and 1 more faulty",
        ),
        ("a\tO\n\tO\n", "1", "2", ":2: column 1 is empty, expected a word"),
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
        ("#id = 1 O\n", "1", None, ": no words"),
    ],
)
def test_faulty_columns(tmp_path, text, word, tag, message):
    path = write(tmp_path, text)
    with pytest.raises(UserError) as e:
        read(path, word, tag)
    assert str(e.value).startswith(path + message)


def test_a_sentence_with_an_error_is_skipped_alone(tmp_path):
    path = write(tmp_path, "a B-X\nb O c\n\nb B-Y\n\nc O\nd\n\ne O\n")
    sentences = tagged_files.read(path, None, "1", "2", True, skips=True)
    assert [(s.words, s.tags) for s in sentences] == [(("b",), ("B-Y",)), (("e",), ("O",))]


def test_a_skipped_sentence_to_predict_has_an_empty_answer_in_its_place(tmp_path, caplog):
    """So that predictions are aligned with the input."""
    text = "-DOCSTART- O\n\na O\n\nb O\nc\nd O\n\n# x = 1\ne O\n\nf\n"
    sentences = list(tagged_files.read(write(tmp_path, text), "conll", "1", "2", False, skips=True))
    assert [s.words for s in sentences] == [("a",), (), ("e",), ()]
    assert conll_text([s.source for s in sentences], [["B-X"], None, ["O"], None]) == (
        "-DOCSTART- O O\n\na O B-X\n\nb O _\nc _\nd O _\n\n# x = 1\ne O O\n\nf _\n"
    )
    assert "2 entries with errors are skipped" in caplog.text
    lines = '{"text": "a b"}\n{"text": 1, "id": 7}\n{"tex\n\n{"text": "c"}\n'
    sentences = list(
        tagged_files.read(write(tmp_path, lines, "a.jsonl"), None, "1", None, False, skips=True)
    )
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
    sentences = list(
        tagged_files.read(str(tmp_path / "t.txt"), "text", "1", None, False, skips=True)
    )
    assert [len(s.words) for s in sentences] == [6, 0, 0, 4]
    with pytest.raises(UserError, match="column"):  # nothing is left
        list(tagged_files.read(write(tmp_path, "a O\nb\n"), "conll", "1", "2", False, skips=True))


def test_a_word_may_be_a_hash_with_an_equals_sign(tmp_path):
    text = "# id = 1\nEU x B-ORG\n\n# = O\nx = B-X\n\n# text = O or x\nz y O\n"
    assert [(s.words, s.tags) for s in read(write(tmp_path, text))] == [
        (("EU",), ("B-ORG",)),
        (("#", "x"), ("O", "B-X")),
        (("z",), ("O",)),
    ]
    assert read(write(tmp_path, "# = O\nx = B-X\n"))[0].words == ("#", "x")


def test_quotes_that_pandas_writes_are_not_part_of_words(tmp_path):
    """It quotes cells that have a quotation mark or the delimiter."""
    words = ["He", "said", '"', "a\tb", '"x', "'", '"']
    tags = ["O"] * 6 + ["B-X"]
    for delimiter, name in (("\t", "t.tsv"), (",", "t.csv")):
        with open(tmp_path / name, "w", newline="") as file:  # as pandas calls it
            csv.writer(
                file, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_MINIMAL
            ).writerows([("word", "tag"), *zip(words, tags)])
        (sentence,) = tagged_files.read(
            str(tmp_path / name),
            None,
            "word",
            "tag",
            True,
            delimiter=None if delimiter == "\t" else delimiter,
        )
        assert sentence.words == tuple(words)
        written = conll_text([sentence.source], [["X"] * 7]).splitlines()
        assert written[3] == delimiter.join(['""""', "O", "X"])
    # Where quotation marks are not quoted they are words.
    plain = 'He\tO\n"\tO\n""\tO\n\nx\tO\n"\tB-X\n'
    assert [s.words for s in read(write(tmp_path, plain))] == [("He", '"', '""'), ("x", '"')]


def test_conll_2012_is_refused_by_name(tmp_path):
    path = write(tmp_path, "#begin document (x); part 000\nx 0 0 A N x x x x x (P) -\n")
    for need_tags in (True, False):
        with pytest.raises(UserError) as e:
            read(path, need_tags=need_tags)
        assert str(e.value) == path + (
            ": a CoNLL-2012 file (#begin document), whose brackets are not read; expected a word a "
            "line with its tag, such as B-PERSON, I-PERSON or O"
        )


# --- Columns or raw text

CHINESE = (
    "2008年北京举办奥运会。",
    "他说很好。",
    "iPhone发布了。",
    "“你好”",
    "[图]见下。",
    "今天天气不错。",
)
THAI = ("ประเทศ", "ไทย", "มี", "กรุงเทพมหานคร", "", "เป็น", "เมืองหลวง", "ของ")
TO_PREDICT = (
    (CHINESE, "text"),
    (["B站", "天气怎么样", "北京到上海的火车票"], "text"),
    (["(图) 无"[:3] + "新闻", "怎么去上海", "北京的天气好不好"], "text"),
    (THAI, "conll"),
    (["ประเทศไทยมีกรุงเทพมหานครเป็นเมืองหลวง", "2008ประเทศไทยมีกรุงเทพมหานคร"], "text"),
    (["我", "在", "北京", "。", "", "2008", "年", "。"], "conll"),
    (["2008", "年", "北京", "举办", "奥运会", "。"], "conll"),
    (["EU", "rejects", "."], "conll"),
    (["2008", "was", "good", "", "So", "is", "2009"], "conll"),
    (["It is.", "", "2008 was good for us."], "text"),
    (["a O", "b B-X", "", "c O"], "conll"),
    (["他说：“好。”", "", "2008年", "北京举办奥运会，很好。", "结束了。"], "text"),
)


@pytest.mark.parametrize("lines, form", TO_PREDICT)
def test_what_a_file_to_predict_is_does_not_depend_on_its_first_line(tmp_path, lines, form, caplog):
    with caplog.at_level("INFO", "xlnet"):
        for first in range(len(lines)):
            if lines[first]:
                order = [*lines[first:], *lines[:first]]
                path = write(tmp_path, "\n".join(order) + "\n", "new.txt")
                sentences = read(path, need_tags=False)
                kinds = {type(sentence.source).__name__ for sentence in sentences}
                assert kinds == {"JsonLine" if form == "text" else "ColumnLines"}, order
    if lines[0] != "a O":  # tags leave no doubt
        assert (
            "new.txt is read as %s"
            % (
                "raw text, a sentence a line (--input_format=conll"
                if (form == "text")
                else "a word a line (--input_format=text"
            )
            in caplog.text
        )


def test_the_flag_says_what_a_file_is(tmp_path):
    path = write(tmp_path, "北京天气\n上海天气\n", "new.txt")
    for form, count in (("text", 2), ("conll", 1)):
        assert len(list(tagged_files.read(path, form, "1", None, False))) == count


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
    for text in ("\n%s\n%s\n", "[%s, %s]\n", "[\n%s,\n%s]"):
        assert [one.tags for one in read(write(tmp_path, text % (pair, pair), "a.json"))] == [
            ("B-X",),
            ("B-X",),
        ]


def test_other_keys(tmp_path):
    path = write(tmp_path, '{"satz": "a", "namen": [[0, 1, "X"]]}\n', "a.jsonl")
    assert read(path, "satz", "namen")[0].tags == ("B-X",)
