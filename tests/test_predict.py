"""xlnet predict: a model of any task type, from the standard input to the standard output."""

import dataclasses
import io
import json

import pytest
from helpers import command
from helpers.models import make_model

import xlnet
from xlnet.commands import predict
from xlnet.finetuning import fine_tune
from xlnet.runs import run_document
from xlnet.support.errors import UserError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_start")]
TABLE = "query\ttext_a\tname\tdocument\nq\tkamat\tb\trokmi\nq\tkamat\ta\tka\n"
QUESTION = '{"context": "kamat rokmi", "question": "mi ka", "id": "7"}\n'

# task type: input, its form where nothing shows it, number of lines written, how the first and the
# last one begin
CASES = {
    "classification": ("kamat\tka\n", "text", 2, "id\tlabel\tp_animal", "0\t"),
    "multi_label": ('{"text_a": "kamat"}\n', "jsonl", 2, "id\tlabels\tp_animal", "0\t"),
    "regression": ("kamat\nka\n", "text", 3, "id\tscore", "1\t"),
    "multiple_choice": (
        "text_a,question,a,b,c\nka,ro,x,y,z\n",
        "csv",
        2,
        "id\tlabel\tp_a",
        "0\t",
    ),
    "ranking": (TABLE, "tsv", 3, "query\tid\tscore", "q\ta\t"),
    "tagging": ("kamat\nrokmi\n\nka\n", "conll", 2, "{", '{"text": ["ka"]'),
    "spans": (QUESTION, "jsonl", 3, "{", "}"),
}


@pytest.mark.parametrize("kind", CASES)
def test_standard_input_to_standard_output(kind, tmp_path, monkeypatch, model_of):
    text, form, count, first, last = CASES[kind]
    written = []
    for path in ("-", str(tmp_path / "texts.txt")):
        (tmp_path / "texts.txt").write_text(text)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        flags = dict(model_dir=model_of(kind), input=path, input_format=form)
        written.append(command.succeed("xlnet predict", **flags).stdout)
    lines = written[0].splitlines()
    assert len(lines) == count and lines[0].startswith(first)
    assert lines[-1].startswith(last) and written[1] == written[0]


def test_a_parquet_file_is_predicted(tmp_path, model_of):
    pyarrow = pytest.importorskip("pyarrow", reason="pip install pyarrow")
    from pyarrow import parquet

    path = tmp_path / "new.parquet"
    parquet.write_table(pyarrow.table({"text_a": ["kamat", "ka"]}), path)
    flags = dict(model_dir=model_of("multi_label"), input=path)
    written = command.succeed("xlnet predict", **flags).stdout
    assert len(written.splitlines()) == 3
    table = pyarrow.table([["ka"], ["mi"]], names=["text_a", "text_a"])
    parquet.write_table(table, path)
    line = command.refused("xlnet predict", **flags)
    assert "new.parquet: found columns text_a, text_a, expected" in line


def test_a_model_that_was_trained_on_single_texts_is_not_given_pairs(tmp_path):
    model = tmp_path / "model"
    make_model(model, "multi_label")
    document = json.loads((model / "run.json").read_text())
    document["program"] = "xlnet classify"  # no converted model
    (model / "run.json").write_text(json.dumps(document))
    (tmp_path / "new.csv").write_text("text_a,more\nkamat,ka\n")
    flags = dict(model_dir=model, input=tmp_path / "new.csv")
    command.succeed("xlnet predict", **flags)
    line = command.refused("xlnet predict", text_b_column="more", **flags)
    assert "found a model of single texts" in line and "--text_b_column" in line


@pytest.mark.parametrize(
    "kind, text, said",
    [
        ("classification", "first,label\nkamat,animal\nka,plant\n", "(2 rows)"),
        ("spans", "context,question,answer\nkamat rokmi,mi ka,rokmi\n", "(1 rows)"),
    ],
)
def test_a_file_with_labels_is_evaluated(kind, text, said, tmp_path):
    flags = dict(text_b_column=None) if kind == "classification" else {}
    model = make_model(tmp_path / "model", kind, **flags)
    # What the run's own evaluation wrote stays, whatever the file is called.
    own = tmp_path / "model" / "results" / "eval_results_dev.json"
    own.parent.mkdir()
    own.write_text("of the run")
    (tmp_path / "dev.csv").write_text(text)
    done = command.succeed("xlnet evaluate", str(tmp_path / "dev.csv"), model_dir=model)
    assert "eval custom file_dev" in done.stdout and said in done.stdout, done
    assert own.read_text() == "of the run"
    assert (tmp_path / "model" / "results" / "eval_results_file_dev.json").exists()


def test_an_evaluation_has_the_precision_that_is_given(tmp_path, monkeypatch):
    """Also on the files of the run, whose settings it has."""
    model = make_model(tmp_path / "model", "classification")
    document = run_document.read(model)
    resolved = dict(document.resolved, precision="bf16", data_dir=str(tmp_path))
    changed = dataclasses.replace(document, program="xlnet classify", resolved=resolved)
    run_document.write(model, changed)
    seen, resolve = [], fine_tune.resolve

    def watched(*asked):
        seen.append(resolve(*asked).model.network.precision)
        raise UserError("resolved")

    monkeypatch.setattr(fine_tune, "resolve", watched)
    for precision in ("fp32", None):
        settings = predict.EvaluationSettings(model_dir=model, precision=precision)
        with pytest.raises(UserError, match="resolved"):
            predict.run(settings, do_eval=True)
    assert seen == ["fp32", "bf16"]


def test_columns_of_other_names_are_given_by_the_flag_of_the_error(tmp_path, model_of):
    """Also the words of a tagger, whose flag had no effect."""
    (tmp_path / "new.csv").write_text("body\nkamat\nka\n")
    flags = {"model_dir": model_of("regression"), "input": tmp_path / "new.csv"}
    line = command.refused("xlnet predict", **flags)
    assert "no column 'text_a' in body, expected one; --text_a_column" in line
    done = command.succeed("xlnet predict", text_a_column="body", **flags)
    assert done.stdout.count("\n") == 3

    (tmp_path / "new.tsv").write_text("n\ttoken\n1\tkamat\n")
    flags = {"model_dir": model_of("tagging"), "input": tmp_path / "new.tsv"}
    flags.update(text_a_column="token", header="names")
    done = command.succeed("xlnet predict", **flags)
    found = json.loads(done.stdout)
    assert (found["n"], found["token"]) == (["1"], ["kamat"])
    assert len(found["predicted"]) == 1


def test_a_misspelt_directory_of_an_output_is_not_made(tmp_path, model_of):
    (tmp_path / "results").mkdir()
    (tmp_path / "new.txt").write_text("kamat\n")
    flags = {"model_dir": model_of("regression"), "input": tmp_path / "new.txt"}
    flags["input_format"] = "text"
    line = command.refused("xlnet predict", output=tmp_path / "reslts/p.tsv", **flags)
    assert f"output: found no such directory: {tmp_path}/reslts" in line
    assert not (tmp_path / "reslts").exists()
    # A name that is that of a directory makes it.
    command.succeed("xlnet predict", output=f"{tmp_path}/new/deep/", **flags)
    assert (tmp_path / "new" / "deep" / "predictions_custom_new.tsv").exists()
    line = command.refused("xlnet predict", output=f"{tmp_path}/new.txt/", **flags)
    assert "new.txt/, which cannot be written to" in line


def test_several_files_are_predicted_into_a_directory(tmp_path, monkeypatch, model_of):
    """Each as it is alone; a directory may be given for one file, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def predict(*flags):
        model = "--model_dir=" + model_of("regression")
        return command.succeed("xlnet predict", model, *flags)

    texts = {"a.csv": "kamat\nka\n", "b.csv": "rokmi\n", "c.tsv": "ka\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text("text_a\n" + text)
    predict("--input=~/*.csv,c.tsv", "--output=out/")
    predict("--input=b.csv", "--output=out")
    for path in texts:
        alone = predict("--input=" + path).stdout
        written = tmp_path / "out" / f"predictions_custom_{path[0]}.tsv"
        assert written.read_text() == alone
        assert alone.count("\n") == 2 + (path == "a.csv")
    assert len(list((tmp_path / "out").iterdir())) == 3


@pytest.mark.parametrize(
    "given, output, said",
    [
        ("a.txt,b.txt", "all.tsv", "output: found 'all.tsv', expected a directory"),
        ("a.txt,a.csv", "out/", "predict_file: found two files a, expected different"),
        ("a.csv", "./a.csv", "output: found ./a.csv, which is an input"),
        ("a.txt,none", "out/", "input: found no such file: none"),
    ],
)
def test_predictions_do_not_replace_others(
    given, output, said, tmp_path, monkeypatch, model_of
):
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt", "a.csv"):
        (tmp_path / name).write_text("text_a\nka\n")
    flags = dict(model_dir=model_of("regression"), input=given, output=output)
    if given.endswith("a.csv") and "," in given:
        flags["input_format"] = "csv"
    line = command.refused("xlnet predict", **flags)
    assert said in line.replace(f"{tmp_path}/", "") and not list(tmp_path.glob("out/*"))


def test_a_model_keeps_its_columns_and_not_the_form_of_its_files(tmp_path):
    """Another file is read by its own form, as it is declared, or refused."""
    kept = dict(header="none", quoting="none", delimiter=";", labels=["x", "y"])
    kept.update(text_a_column="1", text_b_column=None, label_column="2")
    model = make_model(tmp_path / "model", "classification", **kept)
    (tmp_path / "new.csv").write_text('text;n\n"say ""kamat""";1\n')
    flags = dict(model_dir=model, input=tmp_path / "new.csv")
    line = command.refused("xlnet predict", **flags)
    assert "new.csv:2: found" in line and "--delimiter" in line
    # On some processors the last bit depends on the size of a batch.
    flags.update(delimiter=";", eval_batch_size=1)
    found = []
    for column, header in (("text", "names"), ("1", "none")):
        form = dict(text_a_column=column, header=header)
        done = command.succeed("xlnet predict", **form, **flags)
        found.append([line.split("\t")[1:] for line in done.stdout.splitlines()])
    assert [len(lines) for lines in found] == [2, 3] and found[0][1] == found[1][2]
    with xlnet.load(model, device="cpu") as loaded:
        (asked,) = loaded.classify(['say "kamat"'])
    assert found[0][1][0] == asked.label
