"""Parquet files as text: a row is a document, its text in the column `json_field`.

A chunk owns the row groups that begin in its byte range, so the shards of a corpus on the Hugging
Face Hub are read by any number of processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xlnet import encodings, files
from xlnet.errors import UserError
from xlnet.settings.data import InputSettings
from xlnet.text.text_forms import document

_ROWS = 32  # rows that are decoded at once, and held in memory together with a page of the file
_PAGE = 1 << 20  # [bytes]
_END = 8  # [bytes] the size of the footer, and "PAR1"


def events(chunk: Any, settings: InputSettings, bad: Any, seen: Any = None) -> Iterator[Any]:
    """Yields the events of the documents in a chunk's row groups; see `text_forms`. `seen` takes
    note of the bytes that they depend on, but for the `footer`."""
    field = settings.json_field
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError(
            f"{chunk.path}: a Parquet file, which pyarrow reads; pip install pyarrow, or convert "
            "it to JSON lines"
        ) from None
    bad.row = 0
    try:
        # pre_buffer would load complete row groups ahead, of which one may have gigabytes.
        with (
            files.open_binary(chunk.path) as f,
            parquet.ParquetFile(f, buffer_size=_PAGE, pre_buffer=False) as stored,
        ):
            names = stored.schema_arrow.names
            if field not in names:
                by_name = {encodings.composed(name): name for name in names}
                field = by_name.get(encodings.composed(field), field)
            if field not in names:
                raise UserError(
                    "{}: no column '{}' (json_field); it has {!s:.200}".format(
                        chunk.path, field, ", ".join(names)
                    )
                )
            if names.count(field) > 1:
                raise UserError(
                    f"{chunk.path}: {names.count(field)} columns '{field}' (json_field), expected "
                    "one"
                )
            for index in range(stored.num_row_groups):
                group = stored.metadata.row_group(index)
                columns = [group.column(i) for i in range(group.num_columns)]
                begin = min(
                    column.dictionary_page_offset or column.data_page_offset for column in columns
                )
                # The rows of another chunk's group are only counted, for the numbers in errors.
                if not chunk.begin <= begin < chunk.end:
                    bad.row += group.num_rows
                    continue
                if seen:
                    seen.add(begin, sum(column.total_compressed_size for column in columns))
                for batch in stored.iter_batches(_ROWS, [index], [field], use_threads=False):
                    for value in batch.column(0):
                        bad.row += 1
                        try:
                            text = value.as_py()
                        except UnicodeDecodeError as e:  # pyarrow does not check text
                            bad.add(
                                begin,
                                "not UTF-8",
                                f"field '{field}' is not UTF-8: byte 0x{e.object[e.start]:02x} "
                                f"at {e.start}",
                            )
                            continue
                        yield from document({settings.json_field: text}, settings, begin, bad)
    except (pyarrow.ArrowException, OSError) as e:  # OSError without a number: a damaged page
        if isinstance(e, OSError) and e.errno:
            raise UserError(f"cannot read {chunk.path}: {e.strerror}") from None
        raise UserError(
            f"{chunk.path}: not a complete Parquet file: {str(e).splitlines()[0]}"
        ) from None


def footer(path: str) -> tuple[int, int]:
    """The bytes [begin, end) of a file that say where and what its columns are."""
    size = files.size(path)
    with files.open_binary(path) as f:
        f.seek(max(0, size - _END))
        return max(0, size - _END - int.from_bytes(f.read(4), "little")), size
