"""benchmarks/run_transfer.py: the whole comparison in small, and the parts that it is made of."""

import json
import random

import pytest
import run_transfer as script
from helpers import command

from xlnet.support import files
from xlnet.support.errors import UserError
from xlnet.tasks.task import Row

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
        done = command.run(
            program, *arguments, *("--{}={}".format(*item) for item in flags.items())
        )
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
        path = tmp_path / "english" / "sst-2" / folder / "eval_results_dev.json"
        (result,) = json.loads(path.read_text())["checkpoints"]
        assert values[start] == "{:.3f}".format(result["accuracy"])


@pytest.mark.parametrize(
    "flag, given",
    (("data_dir", "/other"), ("vocab_size", 60), ("pretrain_steps", 4)),
)
def test_other_settings_in_the_directory_of_a_run_are_refused(
    tmp_path, monkeypatch, flag, given
):
    """Its text, vocabulary and models were kept without a word."""
    monkeypatch.setattr(script, "run", lambda *_: [])
    same = {
        "data_dir": "/data",
        "vocab_size": 50,
        "pretrain_steps": 3,
        "out_dir": str(tmp_path),
    }
    script.main(script.TransferSettings(**same, languages="chinese"))
    script.main(
        script.TransferSettings(**same, num_seeds=1)
    )  # another part of the comparison
    with pytest.raises(
        UserError, match=f"^{flag}: {given}, but the .* with {same[flag]} "
    ):
        script.main(script.TransferSettings(**dict(same, **{flag: given})))


def test_spread():
    assert script.spread([0.5, 0.7, 0.75]) == "0.650 ± 0.132"


def test_the_text_is_of_all_sources(data, small, tmp_path):
    count = script.write_text(
        str(data), script.LANGUAGES["english"], str(tmp_path / "text.jsonl")
    )
    documents = [
        json.loads(line)["text"]
        for line in (tmp_path / "text.jsonl").read_text().splitlines()
    ]
    assert count == len(documents) == 4000 + len(set(documents[4000:]))
    raw = (data / "raw" / "text.txt").read_text().strip().split("\n\n")
    assert documents[:4000] == raw
    held_out = (data / "sst" / "dev.tsv").read_text()
    assert len(documents) > 4110 and not any(
        text in held_out for text in documents[4000:]
    )


def test_tags_are_compared_with_the_most_frequent_ones_of_words(tmp_path, monkeypatch):
    """The table's row of a tagging task; the program that would train it is only asked."""
    (tmp_path / "msra").mkdir()
    for split, text in (
        ("train", "a B-X\nb I-X\na O\n" + 3 * "c O\n" + "a B-X\n"),
        ("test", "a B-X\nb I-X\n\nd B-X\n" + 3 * "c O\n"),
    ):
        (tmp_path / "msra" / (split + ".txt")).write_text(text)
    asked = []

    def stage(title, program, *arguments, **flags):
        asked.append((program, "summary_type" in flags, flags["task_name"]))
        files.write_json(
            flags["model_dir"] + "/eval_results_test.json",
            {"checkpoints": [{"f1": 0.25, "precision": 0.5}]},
        )

    monkeypatch.setattr(script, "stage", stage)
    settings = script.TransferSettings(data_dir=str(tmp_path), num_seeds=1)
    f1, precision = script.compare(
        settings, str(tmp_path), "msra_ner", "msra", "test", 1
    )
    # One of the two entities is found, and nothing else: F1 is 2/3.
    assert f1 == ("msra_ner", "1", "2 test", "f1", "nan", "0.667", "0.250", "0.250")
    assert precision[3:6] == ("precision", "nan", "1.000")
    assert asked == [("xlnet tag", False, "msra_ner")] * 2


def test_questions_are_compared_with_no_answer(tmp_path, monkeypatch):
    def question(id, text, answer):
        answers = [] if answer is None else [{"text": answer, "answer_start": 0}]
        return {
            "id": id,
            "question": text,
            "answers": answers,
            "is_impossible": answer is None,
        }

    (tmp_path / "squad").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "squad" / (split + "-v2.0.json")).write_text(
            json.dumps(
                {
                    "data": [
                        {
                            "paragraphs": [
                                {
                                    "context": "a cat sat. dogs ran.",
                                    "qas": [
                                        question(
                                            "1", "what did the cat do?", "a cat sat."
                                        ),
                                        question("2", "what did the cow do?", None),
                                    ],
                                }
                            ]
                        }
                    ]
                }
            )
        )

    def stage(title, program, *arguments, **flags):
        assert program == "xlnet squad" and flags["max_seq_length"] == 256
        files.write_json(
            flags["model_dir"] + "/eval_results_dev.json",
            {"checkpoints": [{"f1": 60.0, "exact": 55.5}]},
        )

    monkeypatch.setattr(script, "stage", stage)
    settings = script.TransferSettings(data_dir=str(tmp_path), num_seeds=2)
    f1, exact = script.compare(settings, str(tmp_path), "squad2", "squad", "dev", 1)
    assert f1 == (
        "squad2",
        "2",
        "2 dev",
        "f1",
        "50.000",
        "50.000",
        *2 * ("60.000 ± 0.000",),
    )
    assert exact[3:6] == ("exact", "50.000", "50.000")


def test_bags_of_pairs_tell_what_texts_share():
    class Pieces:
        vocab_size = 4

        def encode_lines(self, texts):
            return [[int(word) for word in text.split()] for text in texts]

    (pair,) = script.bags(Pieces(), [Row("0", (("0 1 1", "1 3"),), "0")]).toarray()
    assert pair.tolist() == [1, 1, 0, 1, 1, 0, 0, 1]
    (single,) = script.bags(Pieces(), [Row("0", (("2 2", ""),), "0")]).toarray()
    assert single.tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize(
    "asked, message",
    (
        (
            dict(languages="english,klingon"),
            "languages: no language 'klingon' .there are english, ",
        ),
        (
            dict(tasks="squad1,msra"),
            "tasks: no task of these languages 'msra' .there are sst-2, ",
        ),
    ),
)
def test_unknown_names(tmp_path, asked, message):
    with pytest.raises(UserError, match=message):
        script.main(
            script.TransferSettings(data_dir="x", out_dir=str(tmp_path), **asked)
        )
