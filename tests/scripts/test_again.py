"""The quick tables made again: what is read of them, and what counts as changed."""

import again
import pytest

from xlnet import files
from xlnet.errors import UserError

TABLE = """some words
| tokens | kept, ms | anew |
|---|---|---|
| 64 | 3 ms | 1,204.5 ms |
| all | no | -2 |

| other | kept, ms |
|---|---|
| 64 | 9 |
"""


def test_numbers_of_tables():
    assert again.of_tables(TABLE) == {
        "64, kept, ms": 9., "64, anew": 1204.5, "all, anew": -2.}
    assert again.of_tables("no table") == {}


def test_changed_is_what_lies_outside_of_all_earlier_runs():
    assert again.has_changed([5, 6], [1, 4]) and again.has_changed([0, .5], [1, 4])
    assert not again.has_changed([3, 9], [1, 4]) and not again.has_changed([4, 5], [1, 4])


def test_figures_are_compared_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(again, "KEPT", str(tmp_path / "again.json"))
    monkeypatch.setattr(again, "COMMANDS", {"graph": "graph.py"})
    runs = iter([{"graph: a": 1.}, {"graph: a": 2.}, {"graph: a": 3.}, {"graph: a": 4.}])
    monkeypatch.setattr(again, "figures", lambda name, settings: next(runs))
    settings = again.AgainSettings(tables="graph", sample=str(tmp_path), repeats=2, keep=True)
    again.main(settings)
    assert "0 of 1 figures changed" in capsys.readouterr().out
    again.main(settings)
    said = capsys.readouterr().out
    assert "| graph: a | 1.5 (1 to 2) | 3.5 (3 to 4) | **changed** |" in said
    assert files.read_json(again.KEPT, "kept")["figures"] == {"graph: a": [3., 4.]}


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(UserError, match="tables: no table 'speed'"):
        again.main(again.AgainSettings(tables="speed"))
    with pytest.raises(UserError, match="run_sample.sh makes it"):
        again.main(again.AgainSettings(sample=str(tmp_path / "none")))
