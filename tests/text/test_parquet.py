"""Parquet as a source of text: the documents of JSON lines, cut anywhere, a line for bad rows."""

import collections
import dataclasses
import json

import pytest
from helpers.preparation import make_documents, make_workspace

from xlnet.errors import UserError
from xlnet.settings.data import CorpusSettings
from xlnet.text import preparation, reading, token_store

pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

TEXTS = ["\n".join(document) for document in make_documents(3, 60)]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return make_workspace(str(tmp_path_factory.mktemp("parquet")))


@pytest.fixture
def settings(workspace, tmp_path):
    return CorpusSettings(
        input_glob=str(tmp_path / "shards"),
        save_dir=str(tmp_path / "out"),
        sp_path=workspace.path("sp.model"),
        seq_len=64,
        reuse_len=24,
        num_streams=2,
        num_workers=1,
        json_field="content",
    )


def write(path, texts=TEXTS, name="content", kind=None, **how):
    path.parent.mkdir(exist_ok=True)
    table = pyarrow.table({"id": list(range(len(texts))), name: pyarrow.array(texts, kind)})
    parquet.write_table(table, path, **dict(dict(row_group_size=7), **how))
    return str(path)


def read(chunks, settings, seen=None):
    return [
        sentence[1:]
        for chunk in chunks
        for sentence in reading.read_chunk(chunk, settings, collections.Counter(), seen)
    ]


def test_two_columns_of_the_name_are_refused(settings, tmp_path):
    path = tmp_path / "shards" / "a.parquet"
    path.parent.mkdir()
    table = pyarrow.table([["a"], ["b"]], names=["content", "content"])
    parquet.write_table(table, path)
    with pytest.raises(
        UserError, match="a.parquet: 2 columns 'content' .json_field., expected one"
    ):
        read(reading.cut([str(path)]), settings)


@pytest.mark.parametrize(
    "how",
    (
        {},
        dict(compression="none", use_dictionary=False),
        dict(kind=pyarrow.large_string(), row_group_size=1000),
    ),
)
@pytest.mark.parametrize("split", ("all", "train", "heldout"))
def test_it_gives_the_sentences_of_json_lines_wherever_it_is_cut(settings, tmp_path, how, split):
    settings = dataclasses.replace(settings, split=split, heldout_share=0.3)
    lines = tmp_path / "text.jsonl"
    lines.write_text("".join(json.dumps({"content": text}) + "\n" for text in TEXTS))
    expected = read(reading.cut([str(lines)]), settings)
    assert expected
    path = write(tmp_path / "shards" / "a.parquet", **how)
    for size in (1 << 30, 3000, 517):
        chunks = reading.cut([path], size)
        assert read(chunks, settings) == expected, size


def test_the_tokens_depend_on_what_was_seen(settings, tmp_path):
    """A row group that goes on behind its chunk, and the names of the columns, count."""
    path = write(tmp_path / "shards" / "a.parquet", compression="none", use_dictionary=False)
    chunk = next(chunk for chunk in reading.cut([path], 517) if read([chunk], settings))
    seen = reading.SeenBytes(chunk.begin, chunk.end)
    read([chunk], settings, seen)
    assert seen.high > chunk.end
    before = token_store.content_of(chunk)
    write(
        tmp_path / "shards" / "a.parquet", name="another", compression="none", use_dictionary=False
    )
    assert token_store.content_of(chunk) != before


def test_records_are_made_of_shards(settings, tmp_path, caplog):
    caplog.set_level("INFO")
    for shard in range(2):
        write(tmp_path / "shards" / (f"{shard}.parquet"), TEXTS[shard::2])
    made = preparation.make_records(settings).manifest
    assert made.documents == len(TEXTS) and made.tokens > 1000
    assert "input: 2 files (0.parquet, ...) as Parquet (column content)" in caplog.messages


def test_bad_rows_are_one_line(settings, tmp_path):
    path = write(tmp_path / "shards" / "a.parquet", [*TEXTS[:9], None])
    with pytest.raises(
        UserError, match=f"^{path}: row 10: field 'content' is NoneType, expected text$"
    ):
        preparation.make_records(settings)
    skipped = preparation.make_records(dataclasses.replace(settings, on_error="skip")).manifest
    assert skipped.skipped == {"field 'content' is not text": 1} and skipped.documents == 9
    with pytest.raises(UserError, match="no column 'text' .json_field.; it has id, content$"):
        preparation.make_records(
            dataclasses.replace(settings, json_field="text", save_dir=str(tmp_path / "other"))
        )
    with open(path, "r+b") as f:
        f.truncate(1000)
    with pytest.raises(UserError, match=f"^{path}: not a complete Parquet file: "):
        preparation.make_records(dataclasses.replace(settings, overwrite=True))


@pytest.mark.parametrize("compression", ("none", "snappy"))
def test_a_damaged_page_is_one_line_about_its_file(settings, tmp_path, compression):
    path = write(tmp_path / "shards" / "a.parquet", compression=compression, use_dictionary=False)
    place = parquet.ParquetFile(path).metadata.row_group(1).column(1).data_page_offset
    with open(path, "r+b") as f:
        f.seek(place)
        f.write(b"\xff" * 60)
    with pytest.raises(UserError, match=f"^{path}: not a complete Parquet file: "):
        preparation.make_records(settings)


def test_text_that_is_not_utf8_is_a_bad_row(settings, tmp_path):
    path = write(tmp_path / "shards" / "a.parquet", compression="none", use_dictionary=False)
    with open(path, "rb") as f:
        content = f.read()
    place = content.index(TEXTS[9].encode()) + 3
    with open(path, "wb") as f:
        f.write(content[:place] + b"\xff" + content[place + 1 :])
    with pytest.raises(
        UserError, match=f"^{path}: row 10: field 'content' is not UTF-8: byte 0xff at 3"
    ):
        preparation.make_records(settings)
    skipped = preparation.make_records(dataclasses.replace(settings, on_error="skip")).manifest
    assert skipped.skipped == {"not UTF-8": 1} and skipped.documents == len(TEXTS) - 1
