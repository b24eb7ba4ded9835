"""benchmarks/run_transfer.py: the whole comparison in small, and the parts that it is made of."""

import json
import random

import pytest
import run_transfer as script
from helpers import command

pytestmark = pytest.mark.usefixtures("quick_start")
FILLER = [
    a + b
    for a in ("kam", "tel", "rok", "sol", "mit", "dak")
    for b in ("at", "ok", "mi", "er")
]


def sentence(rng, word):
    words = rng.choices(FILLER, k=5) + [word]
    rng.shuffle(words)
    return " ".join(words)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with raw text, and SST-2 files whose labels one word decides."""
    folder, rng = tmp_path_factory.mktemp("transfer"), random.Random(0)
    (folder / "raw").mkdir()
    (folder / "raw" / "text.txt").write_text(
        "\n\n".join(
            "\n".join(
                sentence(rng, rng.choice(("good", "bad"))) + "." for _ in range(6)
            )
            for _ in range(4000)
        )
        + "\n"
    )
    (folder / "sst").mkdir()
    for split, count in (("train", 120), ("dev", 40)):
        rows = [(sentence(rng, ("bad", "good")[i % 2]), i % 2) for i in range(count)]
        (folder / "sst" / (split + ".tsv")).write_text(
            "sentence\tlabel\n" + "".join("{}\t{}\n".format(*row) for row in rows)
        )
    return folder


@pytest.fixture
def small(monkeypatch):
    """One language, one task, a tiny network, programs run in this process."""
    monkeypatch.setattr(
        script,
        "LANGUAGES",
        {
            "english": script.Language(
                raw_text=(("raw", "lines"),),
                tasks={"sst-2": ("sst", "dev", 1)},
                more_text={},
                pieces="unigram",
            )
        },
    )
    monkeypatch.setattr(
        script,
        "ARCHITECTURE",
        dict(script.ARCHITECTURE, d_model=8, n_head=2, d_head=4, d_inner=16),
    )

    def stage(title, program, *arguments, **flags):
        done = command.run(program, *arguments, **flags)
        assert done.returncode == 0, (title, done.stderr)

    monkeypatch.setattr(script, "stage", stage)


def test_the_table(data, small, tmp_path, capsys):
    settings = script.TransferSettings(
        data_dir=str(data),
        out_dir=str(tmp_path),
        vocab_size=50,
        pretrain_steps=3,
        num_seeds=1,
        epochs=2,
        languages="english",
    )
    script.main(settings)
    header, _, row = [
        line.strip("| ").split(" | ")
        for line in capsys.readouterr().out.split("\n")
        if line.startswith("| ")
    ]
    values = dict(zip(header, row))
    assert values["task"] == "sst-2" and values["rows"] == "120"
    assert values["evaluated"] == "40 dev" and values["majority"] == "0.500"
    assert values["words alone"] == "1.000"  # one word decides
    for start, folder in (
        ("from scratch", "scratch_0_of_2_epochs"),
        ("pretrained", "pretrained_0_of_2_epochs"),
    ):
        path = (
            tmp_path
            / "english"
            / "sst-2"
            / folder
            / "results"
            / "eval_results_dev.json"
        )
        (result,) = json.loads(path.read_text())["checkpoints"]
        assert values[start] == "{:.3f}".format(result["accuracy"])
