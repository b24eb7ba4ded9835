"""xlnet zip-glue: official names, checked, in one archive."""

import zipfile

import pytest
from helpers import command


def write(directory, name, *rows):
    directory.mkdir(exist_ok=True)
    (directory / name).write_text("".join(line + "\n" for line in ("index\tprediction", *rows)),
                                  errors="surrogateescape")


def flags(directory):
    return dict(predictions_glob=directory / "*" / "*.tsv", zip_file=directory / "out.zip")


def test_files_of_several_models(tmp_path):
    write(tmp_path / "a", "RTE.tsv", *("%d\tentailment" % i for i in range(3000)))
    write(tmp_path / "a", "predictions_rte_test.tsv", "0\tx")
    write(tmp_path / "b", "STS-B.tsv", "0\t2.5")
    done = command.succeed("xlnet zip-glue", **flags(tmp_path))
    assert "out.zip: STS-B.tsv, RTE.tsv" in done.stdout
    assert "STS-B.tsv has 1 rows, the official file 1379" in done.stderr
    assert "RTE.tsv has" not in done.stderr and "missing: CoLA.tsv, SST-2.tsv" in done.stderr
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert sorted(archive.namelist()) == ["RTE.tsv", "STS-B.tsv"]
        assert archive.read("STS-B.tsv") == b"index\tprediction\n0\t2.5\n"


@pytest.mark.parametrize("name, row, message", [
    ("RTE.tsv", "0\tmaybe", "RTE.tsv:2: '0 maybe'"),
    ("MNLI-m.tsv", "0", "MNLI-m.tsv:2: '0'"),
    ("STS-B.tsv", "0\tmuch", "STS-B.tsv:2: '0 much'"),
    ("STS-B.tsv", "0\tnan", "STS-B.tsv:2: '0 nan'"),
    ("CoLA.tsv", "0\t\udcff0", "CoLA.tsv:2: not UTF-8: byte 0xff at column 3; expected"),
    ("other.tsv", "0\t1", "no file for the GLUE server"),
    (None, None, "input: no file matches '"),
])
def test_wrong_files(tmp_path, name, row, message):
    if name:
        write(tmp_path / "a", name, row)
    assert message in command.refused("xlnet zip-glue", **flags(tmp_path))
    assert not (tmp_path / "out.zip").exists()


def test_two_files_for_a_task(tmp_path):
    for folder in "ab":
        write(tmp_path / folder, "RTE.tsv", "0\tentailment")
    assert "expected one of them" in command.refused("xlnet zip-glue", **flags(tmp_path))
