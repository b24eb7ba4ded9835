"""reading: files of every form to sentences, wherever they are cut; bad ones refused in a line."""

import collections
import gzip
import json
import os
import random
import tracemalloc
from unittest import mock

import pytest

from xlnet.corpus import reading
from xlnet.settings.data import CorpusSettings
from xlnet.support import files
from xlnet.support.errors import UserError

WHOLE = 1 << 30  # a size of chunks beyond that of all files


def settings(**values):
    return CorpusSettings(input_glob="-", save_dir="-", sp_path="-", **values)


def read(path, chunk_bytes=WHOLE, **values):
    """The sentences of all chunks, with empty ones behind documents, and the number of documents of
    the other part."""
    counts = collections.Counter()
    sentences = []
    with mock.patch.object(reading, "chunk_size", lambda total: chunk_bytes):
        chunks = reading.cut(files.matching_sizes(str(path)))
    for chunk in chunks:
        sentences += reading.read_chunk(chunk, settings(**values), counts)
    return sentences, counts[reading.OTHER_PART]


def documents(path, chunk_bytes=WHOLE, **values):
    """The texts of each document."""
    return parts(read(path, chunk_bytes, **values)[0])


def parts(sentences):
    """The texts of each document that has some."""
    found = [[]]
    for sentence in sentences:
        assert sentence.ends_document != bool(sentence.text)
        if sentence.text:
            found[-1].append(sentence.text)
        elif found[-1]:
            found.append([])
    assert not found.pop(), "the last document ends"
    return found


def write(path, content):
    content = content.encode("utf-8") if isinstance(content, str) else content
    with gzip.open(path, "wb") if path.suffix == ".gz" else open(path, "wb") as f:
        f.write(content)
    return path


def write_parquet(path, texts, name="text", **how):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"id": list(range(len(texts))), name: texts})
    parquet.write_table(table, path, **dict({"row_group_size": 7}, **how))
    return path


# Files.


@pytest.fixture
def tree(tmp_path, monkeypatch):
    names = "a.txt b.md c.jsonl d.log.gz sub/e.TXT sub/deep/f.txt .hidden/g.txt"
    for name in (*names.split(), "sub/._h.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, "x")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "patterns, expected",
    [
        ("*", "a.txt b.md c.jsonl d.log.gz sub/deep/f.txt sub/e.TXT"),
        (".", "./a.txt ./c.jsonl ./d.log.gz ./sub/deep/f.txt ./sub/e.TXT"),
        ("c.jsonl, a.txt,*.txt, ./a.txt", "a.txt c.jsonl"),
    ],
)
def test_files_are_found_sorted_and_once(tree, patterns, expected):
    assert list(reading.find_files(patterns)) == expected.split()


def test_links_to_folders_or_nowhere_and_pipes_are_errors(tree):
    os.symlink("none", "z.txt")
    os.mkfifo("pipe.txt")
    for name in ("z.txt", "pipe.txt"):
        with pytest.raises(UserError, match=f"found {name}, which is no file"):
            reading.find_files(name)
    for target in (".", "deep"):  # a circle, or what is there already
        os.symlink(target, "sub/linked")
        with pytest.raises(UserError, match="sub/linked, a linked folder"):
            reading.find_files("sub")
        os.remove("sub/linked")


def test_a_pattern_without_files_is_an_error(tree):
    for patterns in ("a.txt,y*.txt", "sub/deep/none", " , "):
        with pytest.raises(UserError, match="^input_glob: found no file that matches"):
            reading.find_files(patterns)


# Forms: what comes out.


@pytest.mark.parametrize(
    "input_format, content, expected",
    [
        ("lines", "a\r\nb c\r\n \t\r\n\nd", [["a", "b c"], ["d"]]),
        ("lines", "\ufeffa\u0085b\u2028c\vd\n", [["a\u0085b\u2028c\vd"]]),
        ("lines", "\n\n  a  \n\u3000\nb", [["a"], ["b"]]),
        ("lines", "\n \n", []),
        ("lines", "Mr. A. So it is.", [["Mr. A. So it is."]]),  # whatever is in it
        (
            "paragraphs",
            "So. It is.\n好。是\n\nB. C\n",
            [["So.", "It is.", "好。", "是"], ["B. C"]],
        ),
    ],
)
def test_layouts_of_text(tmp_path, input_format, content, expected):
    for name in ("a.txt", "a.txt.gz"):
        path = write(tmp_path / name, content)
        assert documents(path, input_format=input_format) == expected


def test_json_lines_and_parquet(tmp_path):
    texts = ["One. Two.\nThree\n\n Four \r\n", " ", "é\u2028f"]
    content = "\ufeff" + "\n\n".join(json.dumps({"body": text}) for text in texts)
    expected = [["One.", "Two.", "Three", "Four"], ["é\u2028f"]]
    for name in ("a.jsonl", "a.JSONL.gz", "a.ndjson", "a.json"):
        path = write(tmp_path / name, content)
        assert documents(path, text_a_column="body") == expected
    path = write(tmp_path / "a.txt", content)
    assert documents(path, text_a_column="body", input_format="jsonl") == expected
    path = write_parquet(tmp_path / "a.parquet", texts, "body")
    assert documents(path, text_a_column="body") == expected


@pytest.mark.parametrize("input_format", ["lines", "paragraphs"])
def test_another_separator_of_documents_is_refused(tmp_path, input_format):
    path = write(
        tmp_path / "a.txt",
        "a\n\nb\n<|endoftext|>\nc\n <|endoftext|> \n<|endoftext|>\nd\n",
    )
    message = "a.txt, line 4: found '<.endoftext.>', expected a blank line between"
    with pytest.raises(UserError, match=message):
        read(path, input_format=input_format)


def test_text_of_another_encoding_is_refused(tmp_path):
    path = write(tmp_path / "a.txt", "Größe\nüber\n\nschön\n".encode("cp1252"))
    with pytest.raises(
        UserError,
        match="a.txt, line 1: found byte 0xf6 at column 3, expected UTF-8; iconv",
    ):
        read(path)


# Chunks: the same documents wherever a file is cut.

RECORDS = [json.dumps(dict(text=text)) + "\n" for text in ("a. B\nc", "", "x" * 80)]
PIECES = {
    "lines": ["\n", "\n", "a", "b. C", " ", "\r\n", "\u3000\n", "x" * 12],
    "paragraphs": ["\n", "\n", "a. B", " C! D\n", "x" * 40],
    "jsonl": ["\n", *RECORDS],
}


@pytest.mark.parametrize("form", PIECES)
@pytest.mark.parametrize("split", ("all", "train", "heldout"))
def test_chunks_of_any_size_give_the_same_documents(tmp_path, form, split):
    rng = random.Random(0)
    values = dict(input_format=form, split=split, heldout_share=0.5)
    total = 0
    for _ in range(40):
        pieces = rng.choices(PIECES[form], k=rng.randrange(12))
        path = write(tmp_path / "a.txt", "".join(pieces))
        whole, left_out = read(path, **values)
        total += len(whole)
        for chunk_bytes in (1, 2, 3, 8, 20, 41):
            cut, left_out_of_chunks = read(path, chunk_bytes, **values)
            assert (parts(cut), left_out_of_chunks) == (parts(whole), left_out)
    assert total > 50 or split != "all"


def test_row_groups_of_parquet_belong_to_one_chunk_each(tmp_path):
    texts = [f"Text {number}. And more." for number in range(60)]
    path = write_parquet(tmp_path / "a.parquet", texts)
    whole = read(path)[0]
    assert len(parts(whole)) == 60 and len(whole) == 180
    for chunk_bytes in (517, 3000):
        assert read(path, chunk_bytes)[0] == whole


def test_the_part_of_a_document_depends_on_its_text_alone(tmp_path):
    texts = [f"text {number}\nand more" for number in range(2000)]
    path = write(tmp_path / "a.txt", "\n\n".join(texts))
    held_out = documents(path, split="heldout")
    packed = write(tmp_path / "b.txt.gz", "\n\n".join(reversed(texts)))
    assert documents(packed, split="heldout") == held_out[::-1]
    assert 60 < len(held_out) < 140  # of 2000, 5 %: 100 ± 4 deviations
    train, left_out = read(path, split="train")
    assert left_out == len(held_out) and len(parts(train)) == 2000 - left_out


# Bad input.


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.txt", b"fine\nbad \xff\n", "line 2: found byte 0xff at column 5, expected"),
        ("a.txt", b"a\n\nb\0", "line 3: found a NUL character, expected text"),
        ("a.jsonl", b"\n[1]\n", "line 2: found '[1]\\n', expected an object of JSON"),
        ("a.jsonl", b'{"text": null}', "line 1: found "),
        ("a.jsonl", b'{"text": "\\ud800"}', "line 1: found "),
        ("a.jsonl", b"x" * 99, "line 1: found a line of more than 60 bytes"),
    ],
)
def test_bad_text_is_refused_with_its_line(
    tmp_path, monkeypatch, name, content, message
):
    monkeypatch.setattr(reading, "LONGEST_RECORD", 60)
    path = write(tmp_path / name, content)
    with pytest.raises(UserError) as error:
        read(path)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)
    assert message in str(error.value)


def test_a_huge_line_is_read_by_blocks(tmp_path):
    path = tmp_path / "a.txt"
    with open(path, "wb") as f:
        f.write(b"a\nb\n")
        f.truncate(100 << 20)  # a line of 100 MiB
    tracemalloc.start()
    with pytest.raises(UserError, match="line 3: found a line of more than 1048576 by"):
        read(path, 8 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20, "8 times the longest line allowed"


def test_files_that_are_not_what_their_names_say_are_refused(tmp_path):
    text = "".join(f"{number * 7919 % 99991}\n" for number in range(20000))
    whole = write(tmp_path / "a.txt.gz", text).read_bytes()
    for damaged in (whole[:-4], whole[: len(whole) // 2], b"plain text\n"):
        (tmp_path / "b.txt.gz").write_bytes(damaged)
        with pytest.raises(UserError, match="b.txt.gz cannot be read: "):
            read(tmp_path / "b.txt.gz")
    (tmp_path / "b.txt.gz").write_bytes(b"")
    with pytest.raises(UserError, match="b.txt.gz: found no bytes, expected"):
        read(tmp_path / "b.txt.gz")
    path = write_parquet(tmp_path / "a.parquet", ["a"] * 9 + [None])
    with pytest.raises(UserError, match="a.parquet, row 10: found None, expected text"):
        read(path)
    with pytest.raises(UserError, match="the columns id, text, expected one 'body'"):
        read(path, text_a_column="body")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(UserError, match="a.parquet cannot be read: "):
        read(path)
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        list(reading.read_chunk(reading.Chunk(str(tmp_path), 0, 10), settings(), None))
