"""reading: files of every form to lines, wherever they are cut; bad ones refused or left out."""

import collections
import gzip
import io
import json
import os
import random
import re
import tracemalloc

import pytest

from xlnet import files
from xlnet.errors import UserError
from xlnet.settings.data import CorpusSettings
from xlnet.text import advice, reading, recognition, text_forms

WHOLE = 1 << 30  # a size of chunks beyond that of all files


def settings(**values):
    return CorpusSettings(input_glob="-", save_dir="-", sp_path="-", **values)


def read(path, chunk_bytes=WHOLE, **values):
    """Returns the lines of all chunks and the count of what was skipped."""
    skipped = collections.Counter()
    lines = [
        line
        for chunk in reading.cut(
            [str(path)],
            chunk_bytes,
            encoding=values.get("encoding"),
            text_format=values.get("text_format", "lines"),
        )
        for line in reading.read_chunk(chunk, settings(**values), skipped)
    ]
    return lines, skipped


def write(path, content):
    content = content.encode("utf-8") if isinstance(content, str) else content
    with gzip.open(path, "wb") if path.suffix == ".gz" else open(path, "wb") as f:
        f.write(content)
    return path


def documents(lines):
    """Returns the texts of each document."""
    found = split_at_ends(lines)
    assert not found.pop(), "the last line of a file ends a document"
    return [[line.text for line in document] for document in found]


def split_at_ends(lines):
    """Lists of the lines of each document, and of those behind the last end."""
    found = [[]]
    for line in lines:
        found[-1].append(line)
        if line.ends_document:
            found.append([])
    return found


# Files.


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in (
        "a.txt",
        "b.md",
        "c.jsonl",
        "d.log.gz",
        "sub/e.TXT",
        "sub/deep/f.txt",
        ".hidden/g.txt",
        "sub/._h.txt",
        "empty/i.md",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, "x")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "patterns, expected",
    [
        ("a.txt", "a.txt"),
        ("b.md", "b.md"),
        ("*", "a.txt b.md c.jsonl d.log.gz sub/deep/f.txt sub/e.TXT"),
        (".", "./a.txt ./c.jsonl ./d.log.gz ./sub/deep/f.txt ./sub/e.TXT"),
        ("sub", "sub/deep/f.txt sub/e.TXT"),
        ("sub/**/*.txt", "sub/deep/f.txt"),
        ("c.jsonl, a.txt,*.txt, ./a.txt", "a.txt c.jsonl"),
        (".hidden", ".hidden/g.txt"),
    ],
)
def test_files_are_found_sorted_and_once(tree, patterns, expected):
    assert reading.find_files(patterns) == expected.split()


def test_links_to_directories_are_not_followed(tree):
    for name in ("x", "sub/y"):
        os.symlink(".", name)
    assert reading.find_files("sub") == ["sub/deep/f.txt", "sub/e.TXT"]


def test_a_link_to_nowhere_is_an_error_that_names_it(tree):
    """It must not be left out in silence."""
    os.symlink("none", "z.txt")
    paths = reading.find_files("*.txt")
    with (
        pytest.raises(UserError, match="cannot read z.txt: No such file or directory"),
        reading.naming(reading.some_of(paths)),
    ):
        files.sizes(paths)


def test_empty_files_are_noted(tmp_path, caplog):
    paths = [str(write(tmp_path / name, text)) for name, text in (("a", ""), ("b", "x"))]
    caplog.set_level("INFO", "xlnet")
    assert [chunk.path for chunk in reading.cut(paths)] == paths[1:]
    assert [record.getMessage() for record in caplog.records] == ["note: a without text: empty"]


def test_a_name_that_looks_like_a_pattern_is_a_name(tmp_path):
    path = write(tmp_path / "a[1].txt", "x")
    assert reading.find_files(str(path)) == [str(path)]


@pytest.mark.parametrize(
    "patterns, message",
    [
        ("a.txt,z*.txt", "text: no file matches 'z*.txt'"),
        ("z.txt", "text: no file matches 'z.txt'"),
        (
            "a.txt,empty",
            "text: no .txt, .jsonl, .ndjson, .gz or .parquet file in directory 'empty'",
        ),
        ("/dev/null", "text: a file is expected, which can be read twice, not '/dev/null'"),
        (" , ", "text: no file given"),
    ],
)
def test_a_pattern_without_files_is_named(tree, patterns, message):
    with pytest.raises(UserError) as error:
        reading.find_files(patterns, "text")
    assert str(error.value) == message


def test_chunks_cover_each_file(tmp_path):
    plain = str(write(tmp_path / "a.txt", b"x" * 25))
    packed = str(write(tmp_path / "b.gz", b"x" * 25))
    chunks = reading.cut([plain, packed, str(write(tmp_path / "c.txt", b""))], 10)
    assert [chunk[:3] for chunk in chunks] == [
        (plain, 0, 10),
        (plain, 10, 20),
        (plain, 20, 25),
        (packed, 0, os.path.getsize(packed)),
    ]


@pytest.mark.parametrize(
    "sizes, chunk_bytes, count",
    [
        ([], 256, 0),
        ([100], 256, 1),
        ([6000], 256, 24),
        ([2 << 20], 1 << 14, 128),
        ([100 << 20], 1 << 18, 400),
        ([1 << 40], 1 << 22, 1 << 18),
        ([5000] * 1000, 1 << 16, 1000),
        ([10 << 30, 3000], 1 << 20, 10241),
    ],
)
def test_chunks_are_enough_for_many_machines_and_not_too_many(
    monkeypatch, sizes, chunk_bytes, count
):
    monkeypatch.setattr(files, "size", lambda path: sizes[int(path)])
    monkeypatch.setattr(recognition, "look", lambda *_: reading.Form())
    chunks = reading.cut([str(number) for number in range(len(sizes))])
    assert max((chunk.end - chunk.begin for chunk in chunks), default=0) <= chunk_bytes
    assert len(chunks) == count
    assert sum(chunk.end - chunk.begin for chunk in chunks) == sum(sizes)


def test_names_with_commas(tmp_path):
    """A list has commas, too: a name that exists goes before its parts."""
    for name in ("a,b.txt", "c.txt", "d, e/f.txt", "d, e/g.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, "a\n")

    def found(*names):
        paths = reading.find_files(",".join(str(tmp_path / name) for name in names))
        return [os.path.relpath(path, tmp_path) for path in paths]

    assert found("a,b.txt") == ["a,b.txt"]
    assert found("a,b.txt", "c.txt") == ["a,b.txt", "c.txt"]
    assert found("c.txt", "d, e") == ["c.txt", "d, e/f.txt", "d, e/g.txt"]
    assert found("a,*.txt", "c.txt") == ["a,b.txt", "c.txt"]
    (tmp_path / "a").mkdir()
    write(tmp_path / "a" / "x.txt", "a\n")
    assert found("a,b.txt") == ["a,b.txt"]
    with pytest.raises(UserError, match="no file matches '.*none'"):
        found("c.txt", "none", "a,b.txt")


def test_a_field_in_another_form_of_unicode(tmp_path):
    """ü, or u with a combining mark, as macOS writes it."""
    pytest.importorskip("pyarrow")
    import pyarrow
    import pyarrow.parquet

    composed, decomposed = "Pr\u00fcfung", "Pru\u0308fung"
    for stored, asked in ((composed, decomposed), (decomposed, composed)):
        path = write(tmp_path / "a.jsonl", json.dumps({stored: "a"}) + "\n")
        assert documents(read(path, json_field=asked)[0]) == [["a"]]
        pyarrow.parquet.write_table(pyarrow.table({stored: ["a"]}), tmp_path / "a.parquet")
        assert documents(read(tmp_path / "a.parquet", json_field=asked)[0]) == [["a"]]


@pytest.mark.parametrize("start", (b"ARROW1\0\0", b"\xff\xff\xff\xff\x10\0\0\0"))
def test_arrow_files_name_parquet(tmp_path, start):
    (tmp_path / "data").mkdir()
    path = write(tmp_path / "data" / "data-00000-of-00001.arrow", start)
    with pytest.raises(UserError, match=f"{path}: an Arrow file.*to_parquet"):
        reading.cut([str(path)])
    with pytest.raises(UserError, match=f"no .txt.* in directory .*{path}.*to_parquet"):
        reading.find_files(str(tmp_path))


# Marks between documents: declared, or refused.


@pytest.mark.parametrize("text_format", ("lines", "paragraphs", "wrapped"))
def test_a_separator_of_documents(tmp_path, text_format):
    """Anywhere in a line; blank lines are between paragraphs then."""
    path = write(tmp_path / "a.txt", "a\n\nb\n<|x|>\nc<|x|>d\n<|x|><|x|>\n\ne<|x|>\n")
    lines, _ = read(path, text_format=text_format, document_separator="<|x|>")
    assert documents(lines) == [["a", "b"], ["c"], ["d"], ["e"]]


def test_a_separator_within_records(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text": "So. B<eod>C\\nD"}\n{"text": "E"}\n')
    lines, _ = read(path, document_separator="<eod>")
    assert documents(lines) == [["So.", "B"], ["C", "D"], ["E"]]


@pytest.mark.parametrize("name", ("a.txt", "a.jsonl"))
@pytest.mark.parametrize("on_error", ("fail", "skip"))
@pytest.mark.parametrize(
    "line, mark",
    (
        ("<|endoftext|>", "<|endoftext|>"),
        ("So it is.<|endoftext|>", "<|endoftext|>"),
        ("<|endoftext|>So it is.", "<|endoftext|>"),
        (" <s> ", "<s>"),
        ("</s>", "</s>"),
        ("[SEP]", "[SEP]"),
    ),
)
def test_a_mark_that_is_not_declared_is_refused(tmp_path, name, on_error, line, mark):
    text = json.dumps({"text": "a\n" + line}) if name == "a.jsonl" else line
    path = write(tmp_path / name, f"{{}}\n{text}\n" if name == "a.jsonl" else f"a\n{text}\nb\n")
    values = dict(on_error=on_error, json_field="text")
    if name == "a.jsonl":
        values["on_error"] = "skip"  # the first record has no text
    said = re.escape(f"a{name[1:]}, line 2: '{mark}'") + ".*--document_separator='"
    with pytest.raises(UserError, match=said + re.escape(mark)):
        read(path, **values)
    # As text, as it is declared to be.
    lines, _ = read(path, document_separator="blank_line", **values)
    assert line.strip() in [each.text for each in lines]


@pytest.mark.parametrize("line", ("Write <s> here.", "a <|endoftext|> b", "x < y", "[1]", "<p>"))
def test_other_lines_are_no_marks(tmp_path, line):
    path = write(tmp_path / "a.txt", f"a\n{line}\n")
    assert documents(read(path)[0]) == [["a", line]]


BOOK = ["It is a truth that is known to all, that a single man in possession"] * 30 + ["of a wife."]


@pytest.mark.parametrize(
    "content, said",
    (
        ("\n".join(BOOK) + "\n\n" + "\n".join(BOOK), "hard-wrapped.*--text_format=wrapped"),
        ("It rains. It snows.\n\n" * 30, "blank line behind it.*--text_format=wrapped"),
        ("It rains here.\n" * 30, "no blank line.*--document_separator"),
        (("It rains here.\n" * 9 + "\n") * 9, None),
        ("It rains here.\n\n" * 30, None),  # documents of a sentence
    ),
)
def test_what_the_first_lines_say_is_noted(tmp_path, caplog, content, said):
    path = str(write(tmp_path / "a.txt", content))
    for text_format in ("lines", "paragraphs"):
        caplog.clear()
        advice.check(reading.cut([path], 100), settings(text_format=text_format))
        assert bool(said) == bool(caplog.records), caplog.text
        if said:
            (record,) = caplog.records
            assert re.search("note: .*a.txt: .*" + said, record.getMessage())
    caplog.clear()
    advice.check(reading.cut([path], 100), settings(text_format="wrapped"))
    assert not caplog.records


@pytest.mark.parametrize("line", ("=====", "***", "-" * 80, "____", "……", "...", "a line", ""))
def test_several_files_without_blank_lines_are_noted_if_they_have_drawn_lines(
    tmp_path, caplog, line
):
    drawn = f"{line}\n" if line else ""
    for name, count in (("a.txt", 3), ("b.txt", 4)):
        write(tmp_path / name, ("It rains here.\n" * 9 + drawn) * count)
    advice.check(reading.cut(reading.find_files(str(tmp_path)), 100), settings())
    if line[:1] in tuple("=*-_"):
        (record,) = caplog.records
        said = rf"2 files \(a.txt.*--document_separator='{re.escape(line)}'"
        assert re.search(said, record.getMessage().replace(f"{tmp_path}/", ""))
    else:
        assert not caplog.records


def test_a_separator_that_is_not_in_a_file_with_blank_lines_is_noted(tmp_path, caplog):
    with_blank_lines = ("It rains here.\n" * 9 + "\n") * 9
    marked = str(write(tmp_path / "a.txt", with_blank_lines.replace("\n\n", "\n<|eot|>\n")))
    unmarked = str(write(tmp_path / "b.txt", with_blank_lines))
    given = settings(document_separator="<|eot|>")
    advice.check(reading.cut([marked, unmarked], 100), given)
    (record,) = caplog.records
    assert re.search(r"note: \S*b.txt: no '<\|eot\|>' in its .* one document", record.getMessage())
    caplog.clear()
    advice.check(reading.cut([unmarked], 100), given, reads_documents=False)
    advice.check(reading.cut([unmarked], 100), settings(document_separator="blank_line"))
    assert not caplog.records


@pytest.mark.parametrize("separator", ("-- ", " --"))
def test_a_separator_with_a_space_at_its_end_is_found(tmp_path, caplog, separator):
    document = "It rains here.\n" * 9 + "\n" + "It snows.\n"
    path = str(write(tmp_path / "a.txt", (document + separator + "\n") * 9))
    advice.check(reading.cut([path], 100), settings(document_separator=separator))
    assert not caplog.records


def test_a_mark_is_refused_before_work_begins(tmp_path):
    write(tmp_path / "a.txt", "a\n\nb\n")
    write(tmp_path / "b.txt.gz", "a\n<s>\nb\n")
    chunks = reading.cut(reading.find_files(str(tmp_path)))
    with pytest.raises(UserError, match=r"b.txt.gz, line 2: '<s>'.*--document_separator='<s>'"):
        advice.check(chunks, settings())
    advice.check(chunks, settings(document_separator="<s>"))
    advice.check(chunks, settings(document_separator="blank_line"))


def test_a_paragraph_that_is_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(text_forms, "LONGEST_LINE", 10)
    path = write(tmp_path / "a.txt", "abc\n\nabcdef\nabcdef\nabc\n\nd\n")
    with pytest.raises(UserError, match="a.txt, line 3: a paragraph of more than 10"):
        read(path, text_format="wrapped")
    for chunk_bytes in (3, 8, WHOLE):
        lines, skipped = read(path, chunk_bytes, text_format="wrapped", on_error="skip")
        assert [line.text for line in lines] == ["abc", "d"]
        assert skipped == {"paragraph too long": 1}


@pytest.mark.parametrize(
    "values, said",
    (
        (dict(document_separator=" "), "expected text in one line"),
        (dict(document_separator="a\nb"), "expected text in one line"),
        (dict(document_separator="blank_line", text_format="wrapped"), "between paragraphs"),
        (dict(document_separator="<s>", from_raw_text=False), "from_raw_text"),
    ),
)
def test_separators_that_cannot_be(values, said):
    with pytest.raises(UserError, match="document_separator is.*" + said):
        settings(**values).check()


# Forms: what comes out.


@pytest.mark.parametrize(
    "text_format, content, expected",
    [
        ("lines", "a\nb c\n\n\nd\n", [["a", "b c"], ["d"]]),
        ("lines", "a\r\nb\r\n \t\r\nc", [["a", "b"], ["c"]]),
        ("lines", "\ufeffa\u0085b\u2028c\vd\n", [["a\u0085b\u2028c\vd"]]),
        ("lines", "\n\n  a  \n\u3000\nb", [["a"], ["b"]]),
        ("lines", "\n \n", []),
        ("lines", "\ufeff", []),
        ("lines", "Mr. A. So it is.", [["Mr. A. So it is."]]),  # whatever is in it
        (
            "paragraphs",
            "Mr. A. So. It is.\n好。是\n\nB. C\n",
            [["Mr. A. So.", "It is.", "好。", "是"], ["B. C"]],
        ),
        # A paragraph on several lines; the lines of Chinese are joined without spaces.
        (
            "wrapped",
            "It was\nso. He ran\n\naway.\n他来，\n了\nB\n",
            [["It was so.", "He ran", "away.", "他来，了 B"]],
        ),
        ("wrapped", "\n \n", []),
    ],
)
def test_layouts_of_text(tmp_path, text_format, content, expected):
    for name in ("a.txt", "a.txt.gz"):
        path = write(tmp_path / name, content)
        assert documents(read(path, text_format=text_format)[0]) == expected


def test_records(tmp_path):
    records = [{"text": "One. Two.\nThree\n\n Four \r\n"}, {"text": " "}, {"text": "é\u2028f"}]
    content = "\ufeff" + "\n\n".join(map(json.dumps, records))
    for name in ("a.jsonl", "a.JSONL.gz"):
        lines, _ = read(write(tmp_path / name, content))
        assert documents(lines) == [["One.", "Two.", "Three", "Four"], ["é\u2028f"]]
    (chunk,) = reading.cut([str(tmp_path / "a.JSONL.gz")])
    assert reading.place(chunk, lines[-1].offset).endswith("line 5")
    path = write(tmp_path / "b.jsonl", '{"body": "b", "text": 1}')
    assert documents(read(path, json_field="body")[0]) == [["b"]]


FORMS = [  # name, content, kind, documents
    ("a.json", '{"text": "Is. Was."}\n{"text": "C"}\n', "records", [["Is.", "Was."], ["C"]]),
    ("a.ndjson", '{"text": "A"}\r\n{"text": "B"}\r\n', "records", [["A"], ["B"]]),
    ("a.jsonl", '\ufeff\n{"text": "A"}\n', "records", [["A"]]),
    ("a.json", '{{"text": "{}"}}'.format("x" * 70000), "records", [["x" * 70000]]),
    ("a.json.gz", '{"text": "A"}\n', "records", [["A"]]),
]


@pytest.mark.parametrize("chunk_bytes", [5, WHOLE])
@pytest.mark.parametrize("name, content, kind, expected", FORMS)
def test_json_lines_are_declared_by_name_or_flag(
    tmp_path, name, content, kind, expected, chunk_bytes
):
    path = write(tmp_path / name, content)
    assert recognition.look(str(path)).kind == kind
    assert documents(read(path, chunk_bytes)[0]) == expected
    assert os.path.basename(path) in reading.in_words(reading.cut([str(path)]), settings())
    # What they look like does not declare them, but names the flag that does.
    packed = tmp_path / "packed_under_another_name"
    packed.write_bytes(gzip.compress(content.encode("utf-8")))
    for other in (write(tmp_path / "a.txt", content), packed):
        with pytest.raises(UserError, match=f"{other.name}: .*--text_format=jsonl"):
            read(other)
        assert documents(read(other, chunk_bytes, text_format="jsonl")[0]) == expected


def test_a_declared_form_holds_for_every_content(tmp_path):
    """Of JSON lines, others are errors with their numbers; in a text, a few objects are text."""
    path = write(tmp_path / "a.txt", 'One.\n{"text": "A"}\n')
    with pytest.raises(UserError, match="a.txt, line 1: not JSON"):
        read(path, text_format="jsonl")
    found, skipped = read(path, text_format="jsonl", on_error="skip")
    assert documents(found) == [["A"]] and sum(skipped.values()) == 1
    path = write(tmp_path / "b.txt", 'One.\nTwo.\n{"text": "A"}\n')
    assert documents(read(path)[0]) == [["One.", "Two.", '{"text": "A"}']]


@pytest.mark.parametrize(
    "content",
    [
        "text, more text, and\nsecond, with two, commas\n\nthird\n",
        "a list of words: letter, word,text\nIt has a, b, c.\n\nthird\n",
        "title|text\nsecond|x\n\nthird\n",
        "a\ttext\nb\tc\td\n\nthird\n",
        "{}\nvoid main() {\n}\n\nthird\n",
        'How to use it.\n{"a": 1}\nThen more.\n\nthird\n',
        "[1] A reference.\n[2] Another.\n\nthird\n",
        "<doctor> To be.\n\nthird\n",
        "{ braces }\n\nthird\n",
        "<doc>\n\nthird\n",
    ],
)
def test_plain_text_that_begins_as_other_forms_do(tmp_path, content):
    path = write(tmp_path / "a.txt", content)
    assert recognition.look(str(path), "text").kind == reading.TEXT
    assert [line.text for line in read(path)[0]] == content.replace("\n\n", "\n").splitlines()


@pytest.mark.parametrize("encoding", ["utf8", "utf-8-sig"])
def test_a_byte_order_mark_is_no_text_where_the_encoding_is_given(tmp_path, encoding):
    settings(encoding=encoding).check()
    for name, content in (("a.txt", "A\n\nb\n"), ("a.jsonl", '{"text": "A"}\n{"text": "b"}')):
        path = write(tmp_path / name, content.encode("utf-8-sig"))
        assert [line.text for line in read(path, 2, encoding=encoding)[0]] == ["A", "b"]


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.txt", "Größe\nüber\n\nschön\n"),
        ("a.jsonl", '{"text": "Größe\\nüber"}\n{"text": "schön"}'),
    ],
)
def test_text_of_another_encoding(tmp_path, name, content):
    path = write(tmp_path / name, content.encode("cp1252"))
    for chunk_bytes in (7, WHOLE):
        assert documents(read(path, chunk_bytes, encoding="cp1252")[0]) == [
            ["Größe", "über"],
            ["schön"],
        ]
    with pytest.raises(UserError, match=r"not UTF-8: .*--encoding=cp1252"):
        read(path)


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.csv", b"id,body\n1,A\n", "a.csv: a table; .*pandas.read_csv.*orient='records'"),
        ("a.csv.gz", b"text\nA\n", "a.csv.gz: a table"),
        ("a.tsv", b"text\nA, b\n", "a table"),
        ("a.txt", b"id\ttext\n1\tA, b\n", "a table"),
        ("a.txt", b"id\ttext\n1\tA\n2\t\n\n", "a table"),
        (
            "a.txt",
            b' [{"text": "Is. B", "n": 1.5}, \n {"text": "e"}]',
            "a list of JSON objects; .*json.load",
        ),
        ("a.json.gz", b'\xef\xbb\xbf[\n{"text": "A"}\n]\n', "a list of JSON objects"),
        (
            "a.json",
            b'{\n "text": "A",\n "n": [1]\n}\n{\n "text": "B"}',
            "JSON objects over several lines; .*jq -c",
        ),
        (
            "wiki_00",
            b'<doc id="1" url="u" title="A">\nA\n\nOne.\n</doc>\n',
            "WikiExtractor's <doc> tags; .*--json",
        ),
        ("a.txt", b" \n = A title = \n \n Some text . \n", "WikiText, .*prepare_data.md"),
        ("a.txt", b"One\rtwo\r\rthree\r", "lines that end in a carriage return alone; .*: tr "),
        ("a.xml", b"<mediawiki xmlns='x'>\n <page>\n", "a dump of MediaWiki"),
        ("a.txt", b"<?xml version='1.0'?>\n<mediawiki>\n", "a dump of MediaWiki"),
        ("a.html", b"\n<html lang='en'>\n", "an HTML page"),
        ("a.rtf", b"{\\rtf1\\ansi a}", "RTF"),
        ("a.gz", b"<!DOCTYPE html>\n", "an HTML page"),
        ("a.txt", b'<div class="post">\nSome text.\n</div>\n', "markup, such as HTML"),
        ("a.txt", b"<!-- saved -->\ntext\n", "markup, such as HTML"),
        ("a.txt", "hello".encode("utf-16"), "UTF-16.*iconv -f utf-16 "),
        ("a.txt", "hello".encode("utf-32"), "UTF-32.*iconv -f utf-32 "),
        ("a.zst", b"\x28\xb5\x2f\xfd\0", "zstd"),
    ],
)
def test_a_form_that_is_not_read_is_refused(tmp_path, name, content, message):
    with pytest.raises(UserError, match=message):
        reading.cut([str(write(tmp_path / name, content))])


# Chunks: the same lines wherever a file is cut.

PIECES = {
    "lines": ["\n", "\n", "a", "b. C", " ", "\r\n", "\xff", "\0", "x" * 12, "x" * 40],
    "paragraphs": ["\n", "\n", "a. B", " C! D\n", "\xff", "x" * 40],
    "wrapped": ["\n", "\n", "a. B", "c\nd", " ", "<|", "\xff", "x" * 12],
    "separated": ["\n", "|", "| ", "a. B", "c\nd", "|e|\n", "\xff", "x" * 40],
    "records": [
        "\n",
        "\n",
        '{"text": "a. B\\nc"}\n',
        '{"text": 1}\n',
        '{"text": ""}',
        "{",
        "\xff",
        " ",
        "x" * 80,
    ],
}


@pytest.fixture
def short_lines(monkeypatch):
    for module in (reading, text_forms):
        monkeypatch.setattr(module, "LONGEST_LINE", 30)
    monkeypatch.setattr(reading, "LONGEST_RECORD", 60)


@pytest.fixture
def generated(tmp_path, short_lines, monkeypatch):
    """Yields (path, settings) of files of random pieces, good and bad, of every form.

    They are kept in memory: it is many small files that are read, not the disk that is tested.
    """
    stored = {}
    monkeypatch.setattr(files, "open_binary", lambda path, *_: io.BytesIO(stored[path]))
    monkeypatch.setattr(files, "size", lambda path: len(stored[path]))

    def generate(count, forms=tuple(PIECES), seed=0):
        rng = random.Random(seed)
        for number in range(count):
            for form in forms:
                text = "".join(rng.choices(PIECES[form], k=rng.randrange(12)))
                mark = b"\xef\xbb\xbf" if rng.random() < 0.2 else b""
                path = "{}.{}".format(number, "jsonl" if form == "records" else "txt")
                stored[path] = mark + text.encode("latin-1")
                values = dict(on_error="skip")
                if form in ("lines", "paragraphs", "wrapped"):
                    values["text_format"] = form
                if form == "separated":
                    values["document_separator"] = "|"
                yield path, values

    return generate


@pytest.mark.slow
def test_chunks_of_any_size_give_the_same_lines(generated):
    seen = collections.Counter()
    for path, values in generated(240):
        whole, skipped = read(path, **values)
        for chunk_bytes in (1, 2, 3, 5, 8, 13, 40):
            lines, again = read(path, chunk_bytes, **values)
            assert again == skipped
            # The paragraph's last lines alone, which a chunk behind it sees, are not too long.
            if "paragraph too long" in skipped:
                lines, whole = unmarked(lines), unmarked(whole)
            assert lines == whole, (path, chunk_bytes)
        seen += skipped
        seen["lines"] += len(whole)
        seen["documents"] += len(documents(whole))
    assert {
        "not UTF-8",
        "NUL byte",
        "line too long",
        "not JSON",
        "field 'text' is not text",
    } <= set(seen)
    assert seen["lines"] > seen["documents"] > 300


@pytest.mark.parametrize("blank", ["\u3000", "\xa0 \u2003", ""])
def test_a_document_begins_behind_blank_lines_of_any_space(tmp_path, blank):
    """Where a separator ends documents, a chunk looks back over blank lines to find it."""
    path = write(tmp_path / "a.txt", f"One.\n===\n{blank}\n{blank}\nTwo.\n")
    whole, cut = (read(path, size, document_separator="===")[0] for size in (WHOLE, 1))
    assert cut == whole and [line.begins_document for line in whole] == [True, True]


def unmarked(lines):
    """A long paragraph right behind the end of a document hides that the next one begins."""
    return [line._replace(begins_document=False) for line in lines]


@pytest.mark.parametrize("split", ["all", "train"])
def test_a_record_longer_than_chunks_is_parsed_once(tmp_path, monkeypatch, split):
    """A library of novels, each a line of .jsonl, must not cost a parsing for each chunk of it."""
    parsed, loads = [], json.loads
    monkeypatch.setattr(
        text_forms.json, "loads", lambda text, **how: parsed.append(text) or loads(text, **how)
    )
    path = tmp_path / "novels.jsonl"
    path.write_text(
        "".join(
            json.dumps({"text": "Novel {}. {}".format(n, "It goes on. " * 4000)}) + "\n"
            for n in range(3)
        ),
        encoding="utf-8",
    )
    lines, _ = read(path, 4096, split=split, heldout_share=0.001)
    assert len(parsed) == 3
    assert sum(line.begins_document for line in lines) == 3


@pytest.mark.parametrize("form", ["lines", "paragraphs"])
def test_parts_are_the_same_documents_wherever_a_file_is_cut(generated, form):
    parts_seen = collections.Counter()
    for path, values in generated(80, (form,), seed=1):
        whole, _ = read(path, **values)
        numbers = {
            line: number
            for number, document in enumerate(split_at_ends(whole))
            for line in document
        }
        assert len(numbers) == len(set(whole))
        parts = {
            split: read(path, split=split, heldout_share=0.5, **values)
            for split in ("train", "heldout")
        }
        lines = parts["train"][0] + parts["heldout"][0]
        assert sorted(lines) == sorted(whole)
        found = {split: {numbers[line] for line in part} for split, (part, _) in parts.items()}
        assert not found["train"] & found["heldout"]
        assert parts["train"][1][reading.OTHER_PART] == len(found["heldout"])
        assert parts["heldout"][1][reading.OTHER_PART] == len(found["train"])
        for chunk_bytes in (1, 3, 8, 20, 41):
            for split, part in parts.items():
                assert read(path, chunk_bytes, split=split, heldout_share=0.5, **values) == part, (
                    path,
                    chunk_bytes,
                )
        parts_seen.update({split: len(documents) for split, documents in found.items()})
    assert min(parts_seen.values()) > 0


def test_the_part_of_a_document_depends_on_its_text_alone(tmp_path):
    texts = [f"text {number}\nand more" for number in range(2000)]
    held_out = documents(read(write(tmp_path / "a.txt", "\n\n".join(texts)), split="heldout")[0])
    backward = documents(
        read(write(tmp_path / "b.txt.gz", "\n\n".join(reversed(texts))), split="heldout")[0]
    )
    assert backward == held_out[::-1]
    assert 60 < len(held_out) < 140  # of 2000, 5 %: 100 ± 4 deviations
    more = documents(read(tmp_path / "a.txt", split="heldout", heldout_share=0.1)[0])
    assert {tuple(each) for each in held_out} < {tuple(each) for each in more}


def test_the_beginning_of_a_very_long_document_decides(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "HASHED_LENGTH", 6)
    begins = [f"abc {number:02}" for number in range(60)]
    short = write(tmp_path / "a.txt", "\n\n".join(begins))
    long = write(tmp_path / "b.txt", "\n\n".join(begin + "\nmore\nand more" for begin in begins))
    for split in ("train", "heldout"):
        expected = documents(read(short, split=split, heldout_share=0.5)[0])
        for chunk_bytes in (WHOLE, 7):
            found = documents(read(long, chunk_bytes, split=split, heldout_share=0.5)[0])
            assert found == [[begin, "more", "and more"] for (begin,) in expected]


def test_sentences_that_follow_without_a_space_are_joined(tmp_path):
    path = write(tmp_path / "a.txt", "好。是！ 不\n\n人。“Is it?” No?人\n\n")
    lines, _ = read(path, text_format="paragraphs")
    assert [(line.text, line.is_joined) for line in lines] == [
        ("好。", False),
        ("是！", True),
        ("不", False),
        ("人。", False),
        ("“Is it?”", True),
        ("No?", False),
        ("人", True),
    ]


# Bad input.

BAD = [
    ("a.txt", b"fine\nbad \xff\n", "not UTF-8", "line 2: not UTF-8: byte 0xff at column 5"),
    ("a.txt", b"\xef\xbb\xbf\xff", "not UTF-8", "line 1: not UTF-8: byte 0xff at column 1"),
    ("a.txt", b"a\n\nb\0", "NUL byte", "line 3: a NUL byte at column 2; expected plain UTF-8 text"),
    (
        "a.txt",
        b"a\n" + b"x" * 99 + b"\nb",
        "line too long",
        "line 2: a line of more than 30 bytes; expected a sentence",
    ),
    ("a.gz", b"a\n\xff", "not UTF-8", "line 2: not UTF-8"),
    ("a.jsonl", b'{"text": "a"}\n{"text": \n', "not JSON", "line 2: not JSON: Expecting value at"),
    (
        "a.jsonl",
        b"\n[1]\n",
        "no field 'text'",
        "line 2: no field 'text'; expected a JSON object with it (json_field), found list",
    ),
    ("a.jsonl", b'{"body": 1, "id": 2}', "no field 'text'", "found body, id"),
    (
        "a.jsonl",
        b'{"text": null}',
        "field 'text' is not text",
        "line 1: field 'text' is NoneType, expected text",
    ),
    ("a.jsonl", b'{"text": "a\\u0000"}', "NUL byte", "line 1: a NUL character in field 'text'"),
    ("a.jsonl", b'{"text": "\\ud800"}', "not UTF-8", "line 1: half of a surrogate pair"),
    (
        "a.jsonl",
        b'{"text": "%s"}' % (b"x" * 31),
        "line too long",
        "line 1: a line of more than 30 characters in field 'text'",
    ),
    ("a.jsonl", b"x" * 61, "line too long", "line 1: a line of more than 60 bytes"),
]


@pytest.mark.parametrize("name, content, reason, message", BAD)
def test_bad_text_is_refused_with_its_line(tmp_path, short_lines, name, content, reason, message):
    path = write(tmp_path / name, content)
    with pytest.raises(UserError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}, line ")
    assert message in str(error.value) and "\n" not in str(error.value)
    assert str(error.value).count(str(path)) == 1
    assert read(path, on_error="skip")[1] == {reason: 1}


def test_a_huge_line_is_read_by_blocks(tmp_path):
    path = tmp_path / "a.txt"
    with open(path, "wb") as f:
        f.write(b"a\nb\n")
        f.truncate(100 << 20)  # a line of 100 MiB
        f.seek(0, os.SEEK_END)
        f.write(b"\n\nc\n")
    tracemalloc.start()
    with pytest.raises(UserError, match="a.txt, line 3: a line of more than 1048576 bytes"):
        read(path, 8 << 20)
    for chunk_bytes in (8 << 20, WHOLE):
        lines, skipped = read(path, chunk_bytes, on_error="skip")
        assert documents(lines) == [["a", "b"], ["c"]] and skipped == {"line too long": 1}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20, "8 times the longest line allowed"


def test_deep_json_is_refused(tmp_path):
    with pytest.raises(UserError, match="line 1: not JSON: a number too long or lists too deep"):
        read(write(tmp_path / "a.jsonl", b"[" * 100000))


def test_a_field_twice_is_refused(tmp_path):
    """Other keys may be there twice: nobody reads them."""
    good = b'{"headers": {"a": 1, "a": 2}, "b": 1, "b": 2, "text": "a"}\n'
    path = write(tmp_path / "a.jsonl", good + b'{"text": "a", "text": "b"}\n')
    with pytest.raises(UserError, match="line 2: field 'text' twice in an object"):
        read(path)
    lines, skipped = read(path, on_error="skip")
    assert documents(lines) == [["a"]] and skipped == {"a field twice": 1}


def test_bad_text_is_left_out_and_no_other(tmp_path, short_lines):
    path = write(tmp_path / "a.txt", b"a\n\xff\nb\n\n\0\nc\n")
    with pytest.raises(UserError, match="a.txt, line 2: not UTF-8"):
        read(path)
    lines, skipped = read(path, on_error="skip")
    assert documents(lines) == [["a", "b"], ["c"]]
    assert skipped == {"not UTF-8": 1, "NUL byte": 1}


def test_a_file_in_another_encoding_is_not_read_from_its_beginning_for_each_chunk(
    tmp_path, monkeypatch
):
    """Each line is bad, and the chunks behind the first one are read by other processes."""
    path = write(tmp_path / "a.txt", "длинная строка\n".encode("cp1251") * 2000)
    chunk = reading.Chunk(str(path), 15000, 15150)
    seen = reading.SeenBytes(chunk.begin, chunk.end)
    with pytest.raises(UserError, match="line 1001: not UTF-8: .*it looks like cp1251"):
        list(reading.read_chunk(chunk, settings(), collections.Counter(), seen))
    assert seen.low > 10000  # it reads pages
    # Where lines are skipped, nobody reads what encoding they may have; the look back has an end.
    monkeypatch.setattr(reading, "_hint", lambda *_: pytest.fail("a hint that nobody reads"))
    monkeypatch.setattr(reading, "_LOOKED_BACK", 100)
    seen, skipped = reading.SeenBytes(chunk.begin, chunk.end), collections.Counter()
    assert not list(reading.read_chunk(chunk, settings(on_error="skip"), skipped, seen))
    assert skipped == {"not UTF-8": 10} and seen.low > 10000


def test_a_damaged_gz_is_refused_or_read_up_to_the_damage(tmp_path):
    rng = random.Random(0)
    text = "".join(f"{rng.randrange(10**9)}\n" for _ in range(20000))
    whole = write(tmp_path / "a.txt.gz", text).read_bytes()
    spoilt = whole[:60000] + bytes(99) + whole[60099:]
    for damaged in (whole[:60000], whole[:-4], spoilt, whole + b"tail"):
        path = tmp_path / "b.txt.gz"
        path.write_bytes(damaged)
        lines, skipped = read(path, on_error="skip")
        assert skipped == {"damaged .gz": 1} and lines[-1].ends_document
        with pytest.raises(UserError) as error:
            read(path)
        number = int(str(error.value).split("line ")[1].split(":")[0])
        assert f"{path}, line {number}: the .gz file is damaged or cut off here" in str(error.value)
        if damaged is not spoilt:  # what is damaged inside may unpack to other text
            assert [line.text for line in lines] == text.split()[: number - 1]
        assert number > 10000


def test_a_small_gz_that_is_cut_off_is_not_taken_for_another_form(tmp_path):
    """Packed bytes may look like lines that end in a carriage return."""
    rng = random.Random(0)
    words = [f"{rng.randrange(10**9)}" for _ in range(40)]
    whole = write(tmp_path / "a.txt.gz", "\n".join(words) + "\n").read_bytes()
    path = tmp_path / "b.txt.gz"
    path.write_bytes(whole[: len(whole) * 2 // 3])
    start = recognition.first_bytes(str(path)).decode()
    assert start and "\n".join(words).startswith(start)
    with pytest.raises(UserError, match="b.txt.gz, line .*: the .gz file is damaged or cut off"):
        read(path)
    lines, skipped = read(path, on_error="skip")
    texts = [line.text for line in lines]
    assert skipped == {"damaged .gz": 1} and texts == words[: len(texts)]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.gz", b"plain text\n", "a.gz, line 1: the .gz file is damaged .*Not a gzipped"),
        ("a.gz", b"", "a.gz: is empty, expected gzip data"),
        ("A.GZ", b"", "A.GZ: is empty, expected gzip data"),
    ],
)
def test_a_file_that_is_not_gz_is_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read(path)


def test_an_unreadable_file_is_named(tmp_path):
    with pytest.raises(UserError, match="cannot read .*a.txt: No such file or directory"):
        reading.cut([str(tmp_path / "a.txt")], 10)
    chunk = reading.Chunk(str(tmp_path), 0, 10)
    with pytest.raises(UserError, match="cannot read .*: Is a directory"):
        list(reading.read_chunk(chunk, settings(on_error="skip"), collections.Counter()))


@pytest.mark.parametrize(
    "values, message",
    [
        (dict(heldout_share=0.0), "heldout_share is 0.0"),
        (dict(heldout_share=1.0), "heldout_share is 1.0"),
        (dict(json_field=""), "json_field is empty"),
        (dict(encoding="utf-16"), "encoding: utf-16 .* iconv"),
        (dict(encoding="iso2022_kr"), "encoding: iso2022_kr .* iconv"),
    ],
)
def test_settings_that_do_not_fit_are_refused(values, message):
    with pytest.raises(UserError, match=message):
        settings(**values).check()
