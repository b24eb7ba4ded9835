"""Every file of GLUE is read whole, where the data sets are there."""

import pathlib

import pytest

from xlnet import task_files, tasks

GLUE_DIR = pathlib.Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "glue"
FILES = [(task.name, split) for task in tasks.GLUE.values() for split in task.files]


@pytest.mark.parametrize("name, split", FILES)
def test_split(name, split):
    if not GLUE_DIR.is_dir():
        pytest.skip("the GLUE files are not there")
    task = tasks.GLUE[name]
    folder, = [f for f in GLUE_DIR.iterdir() if f.name.lower() == name]
    rows = task_files.read_rows(task, folder, split)
    lines = (folder / task.files[split]).read_bytes().rstrip(b"\n").count(b"\n")
    assert len(rows) == lines + (split in task.headers) > 0
    assert len({row.id for row in rows}) == len(rows)
    assert all(row.pairs[0][0] and (not task.text_b) == (row.pairs[0][1] is None) for row in rows)
    if split.startswith("test"):
        assert {row.label for row in rows} == {None}
    elif task.is_regression:
        assert all(0 <= row.label <= 5 for row in rows)
    else:
        assert {row.label for row in rows} <= set(task.labels)
