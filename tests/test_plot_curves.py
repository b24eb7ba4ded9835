"""Learning curves as a figure, from the files that runs of any program keep."""

import json
import struct

from helpers import command

from xlnet.plots import curves


def make_run(directory, metric="loss", evaluated=(0, 8)):
    directory.mkdir()
    rows = [f"{step},{5 / step},1e-3\n" for step in (4, 8, 12)]
    (directory / "training.csv").write_text("step,loss,learning_rate\n" + "".join(rows))
    values = {step: 4 - step / 10 for step in evaluated}
    evaluations = [{"step": n, "loss": x, metric: x} for n, x in values.items()]
    content = json.dumps({"metric": metric, "evaluations": evaluations})
    (directory / "evaluations.json").write_text(content)
    return directory


def test_runs_are_plotted_together(tmp_path, monkeypatch):
    """A pretraining run, a fine-tuning run, one without evaluations."""
    monkeypatch.chdir(tmp_path)
    tuned = make_run(tmp_path / "tuned", metric="accuracy")
    make_run(tmp_path / "short", evaluated=())
    more = [
        "größer",
        *(f"more{number}" for number in range(6)),
    ]  # than there are colors
    for name in more:
        make_run(tmp_path / name)
    output = tmp_path / "curves.png"
    done = command.succeed("xlnet plot curves", "tuned/", "short", *more, output=output)
    width, height = struct.unpack(">II", output.read_bytes()[16:24])
    assert 700 < width < 1200 and 600 < height < 1500
    assert done.stdout == f"written: {output}\n"
    found = curves.read(str(tuned))
    assert found.training == [(4, 1.25), (8, 0.625), (12, 5 / 12)]
    points = [(0, 4.0), (8, 3.2)]
    assert found.evaluated == {"accuracy": points, "loss": points}


def test_what_is_not_a_run_is_refused(tmp_path):
    def refused(folder, **how):
        return command.refused("xlnet plot curves", str(folder), **how)

    line = refused(tmp_path / "modle")
    assert f"model_dir: found no such directory: {tmp_path}/modle" in line
    none = "found no loss in training.csv and no evaluation in"
    (tmp_path / "empty").mkdir()
    assert none in refused(tmp_path / "empty")
    # A run that was stopped before its first log line.
    (tmp_path / "empty" / "training.csv").write_text("step,loss\n")
    assert none in refused(tmp_path / "empty")
    for number, (name, text, said) in enumerate(
        (
            ("evaluations.json", '{"metric": "loss", "evalua', "found not valid JSON"),
            ("evaluations.json", '{"evaluations": 3}', "found damaged"),
            ("training.csv", "step,loss\nx,1\n", "found damaged"),
        )
    ):
        directory = make_run(tmp_path / str(number))
        (directory / name).write_text(text)
        assert said in refused(directory)
    line = refused(tmp_path, output="x.jpg", status=2)
    assert "expected a name that ends in .png" in line
