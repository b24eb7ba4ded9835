"""xlnet features: vectors of a file's texts, in each form, from where it stopped."""

import json

import numpy as np
import pytest
from helpers import command

import xlnet

pytestmark = pytest.mark.usefixtures("quick_start")
TEXTS = ["kamat telok", "sol mitel dakar", "rokmi", "laskit nokla", "kamat"]


@pytest.fixture(scope="module")
def place(tmp_path_factory, model_of):
    folder = tmp_path_factory.mktemp("features")
    (folder / "model").symlink_to(model_of("multi_label"))
    (folder / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    (folder / "texts.tsv").write_text("name\tfirst\n" + "".join(
        "n%d\t%s\n" % item for item in enumerate(TEXTS)))
    return folder


@pytest.fixture(scope="module")
def model(place):
    with xlnet.load(str(place / "model"), device="cpu") as model:
        yield model


def extract(place, output, *arguments, run=command.succeed, texts="texts.txt", **flags):
    return run("xlnet features", *arguments, model=place / "model", device="cpu",
               input_file=place / texts, output_file=place / output, **flags)


def test_json_lines(place, model):
    done = extract(place, "v.jsonl", text_a_column="first", id_column="name", texts="texts.tsv")
    assert done.stdout.endswith("5 texts: %s\n" % (place / "v.jsonl"))
    lines = [json.loads(line) for line in (place / "v.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == ["n0", "n1", "n2", "n3", "n4"]
    np.testing.assert_allclose([line["vector"] for line in lines], model.vectors(TEXTS), atol=1e-6)


def test_files_are_read_one_after_another(place, model):
    (place / "one.txt").write_text("\n".join(TEXTS[:2]) + "\n")
    (place / "two.txt").write_text("\n".join(TEXTS[2:]) + "\n")
    extract(place, "w.jsonl", texts="[ot][nw][eo].txt")
    lines = [json.loads(line) for line in (place / "w.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == ["0", "1", "2", "3", "4"]
    np.testing.assert_allclose([line["vector"] for line in lines], model.vectors(TEXTS), atol=1e-6)


def test_vectors_of_tokens(place, model):
    extract(place, "t.jsonl", pooling="none", layers="0,1")
    expected = model.vectors(TEXTS, layers=[0, 1], pooling="none")
    lines = [json.loads(line) for line in (place / "t.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == ["0", "1", "2", "3", "4"]
    for line, text, values in zip(lines, TEXTS, expected):
        np.testing.assert_allclose(line["vector"], values, atol=1e-6)
        assert line["pieces"] == list(map(model.tokenizer.id_to_piece, model.encode(text)))


def test_a_stopped_run_goes_on(place, model, monkeypatch):
    """What was there is not made again; other settings are refused."""
    from xlnet.serving.model import Model
    whole, asked = Model.vectors, []

    def vectors(self, texts, *more):
        asked.append(texts)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return whole(self, texts, *more)
    monkeypatch.setattr(Model, "vectors", vectors)
    assert extract(place, "v.npy", rows_per_part=2, run=command.run).returncode
    assert asked == [TEXTS[:2], TEXTS[2:4], TEXTS[4:]] and not (place / "v.npy").exists()
    for name, value in (("layers", 0), ("precision", "bf16")):
        done = extract(place, "v.npy", rows_per_part=2, run=command.run, **{name: value})
        assert "made with other %s; remove them, or give another name" % name in done.stderr
    done = extract(place, "v.npy", rows_per_part=2)
    assert "2 of 3 parts are there, resuming\n" in done.stdout and asked[3:] == [TEXTS[4:]]
    monkeypatch.undo()
    np.testing.assert_allclose(np.load(place / "v.npy"), model.vectors(TEXTS), atol=1e-6)
    assert not (place / "v.npy.parts").exists()
    assert extract(place, "v.npy", run=command.run).errors == [
        "xlnet features: output: %s is there already; remove it, or give another name"
        % (place / "v.npy")]


def test_bad_texts_are_named_and_left_out(place, model):
    (place / "holes.txt").write_bytes(b"kamat telok\nsol \xff\n\nrokmi\n")
    path, out = place / "holes.txt", place / "holes.jsonl"
    done = extract(place, "holes.jsonl", texts="holes.txt", run=command.run)
    assert done.returncode == 1
    assert "%s:2: not UTF-8" % path in done.stderr and "%s:3: " % path in done.stderr
    assert "faulty" not in done.stdout and done.errors[-1] == (
        "xlnet features: input %s: 2 of 4 texts are bad and have no vector" % path)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["id"] for line in lines] == ["0", "3"]
    np.testing.assert_allclose([line["vector"] for line in lines],
                               model.vectors(["kamat telok", "rokmi"]), atol=1e-6)


def test_blank_rows_of_a_table_are_no_texts(place):
    (place / "blank.csv").write_text("text_a,x\nkamat,1\n,\nsol,2\n")
    extract(place, "blank.jsonl", texts="blank.csv", text_a_column="text_a")
    lines = [json.loads(line) for line in (place / "blank.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == ["0", "1"]


def test_a_wrong_layer_does_not_block_the_right_one(place):
    assert "layers: 9, expected 0" in extract(
        place, "layer.npy", layers="0,9", run=command.run).stderr
    extract(place, "layer.npy", layers="0")


@pytest.mark.parametrize("flags, said", [
    (dict(output="v.csv"), "output: v.csv"),
    (dict(output="n.npy", pooling="none"), "with pooling none each text has as many as"),
    (dict(layers="last"), "layers is 'last'"), (dict(text_b_column="second"), "expected 2"),
    (dict(model_dir="nowhere"), "model_dir: no checkpoint nowhere")])
def test_wrong_flags_are_named(place, flags, said):
    done = command.run("xlnet features", **dict(dict(
        model_dir=place / "model", device="cpu", input=place / "texts.txt",
        output=place / "other.jsonl"), **flags))
    assert done.returncode == 1 and said in done.errors[-1], done.stderr
