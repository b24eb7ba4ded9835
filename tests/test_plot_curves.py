"""Learning curves as a figure, from the files that runs of any program keep."""

import csv
import json
import struct

from helpers import command

from xlnet.plots import curves


def make_run(directory, steps=(4, 8, 12), metric="loss", evaluated=(0, 8)):
    directory.mkdir(parents=True)
    with open(directory / "training.csv", "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["step", "loss", "learning_rate"])
        writer.writerows([step, 5 / step, 1e-3] for step in steps)
    (directory / "evaluations.json").write_text(
        json.dumps(
            {
                "metric": metric,
                "evaluations": [
                    {"step": step, "loss": 4 - step / 10, metric: 4 - step / 10}
                    for step in evaluated
                ],
            }
        )
    )
    return directory


def test_runs_are_plotted_together(tmp_path, monkeypatch):
    """A pretraining run, a fine-tuning run, one without evaluations."""
    monkeypatch.chdir(tmp_path)
    runs = [
        make_run(tmp_path / "größer"),
        make_run(tmp_path / "tuned", metric="accuracy"),
        make_run(tmp_path / "short", evaluated=()),
    ]
    more = [f"more{number}" for number in range(6)]  # than there are colors
    for name in more:
        make_run(tmp_path / name)
    output = tmp_path / "curves.png"
    done = command.succeed(
        "xlnet plot curves", "größer", "tuned/", "short", *more, output=output
    )
    width, height = struct.unpack(">II", output.read_bytes()[16:24])
    assert 700 < width < 1200 and 600 < height < 1500
    assert done.stdout == f"written: {output}\n"
    found = curves.read(str(runs[1]))
    assert found.training == [(4, 1.25), (8, 0.625), (12, 5 / 12)]
    points = [(0, 4.0), (8, 3.2)]
    assert found.evaluated == {"accuracy": points, "loss": points}


def test_what_is_not_a_run_is_refused(tmp_path):
    make_run(tmp_path / "model")
    assert f"model_dir: found no such directory: {tmp_path}/modle" in command.refused(
        "xlnet plot curves", str(tmp_path / "modle")
    )
    (tmp_path / "empty").mkdir()
    for text in (
        None,
        "step,loss\n",
    ):  # the second run was stopped before its first log line
        if text:
            (tmp_path / "empty" / "training.csv").write_text(text)
        assert "found no loss in training.csv and no evaluation in" in command.refused(
            "xlnet plot curves", str(tmp_path / "empty")
        )
    for name, text, said in (
        ("evaluations.json", '{"metric": "loss", "evalua', "found not valid JSON"),
        ("evaluations.json", '{"evaluations": 3}', "found damaged"),
        ("training.csv", "step,loss\nx,1\n", "found damaged"),
    ):
        directory = make_run(tmp_path / "bad")
        (directory / name).write_text(text)
        assert said in command.refused("xlnet plot curves", str(directory))
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()
    assert "expected a name that ends in .png" in command.refused(
        "xlnet plot curves", str(tmp_path / "model"), output="x.jpg", status=2
    )
