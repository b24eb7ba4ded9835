"""run_tagger.py from end to end: a small network that learns which words are entities."""

import json
import random
import re

import pytest
from helpers import command
from helpers.finetuning import make_vocabulary, weights
from helpers.paths import RELEASED

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_start")]
NAMES, PLACES = ("kamat", "telok", "solkit"), ("dakar", "nokla")
FILLER = ("mi", "le", "rok", "las")
ROWS = {"train": 100, "dev": 24, "test": 12}


def make_sentence(rng):
    lines = []
    for _ in range(rng.randint(2, 14)):
        drawn = rng.random()
        if drawn < 0.2:
            lines += [f"{name} NN I-PER" for name in rng.choices(NAMES, k=2)]
        elif drawn < 0.4:
            lines.append(f"{rng.choice(PLACES)} NN I-LOC")
        else:
            lines.append(f"{rng.choice(FILLER)} XX O")
    return "\n".join(lines) + "\n"


class Place:
    """A folder with CoNLL-style files, a vocabulary, and runs."""

    def __init__(self, directory):
        self.directory = directory
        (directory / "data").mkdir()
        rng = random.Random(0)
        for split, count in ROWS.items():
            sentences = "\n".join(make_sentence(rng) for _ in range(count))
            text = "-DOCSTART- -X- O\n\n" + sentences
            (directory / "data" / (split + ".txt")).write_text(text)
        make_vocabulary(directory / "sp.model", 37)

    def run(self, **changes):
        flags = dict(
            task_name="custom",
            data_dir=self.directory / "data",
            max_seq_length=16,
            output_dir=self.directory / "records",
            model_dir=self.directory / "model",
            spiece_model_file=self.directory / "sp.model",
            learning_rate=0.01,
            dropout=0,
            dropatt=0,
            model_config_path=RELEASED / "xlnet_config.json",
            train_batch_size=16,
            train_steps=80,
            eval_steps=40,
            save_steps=1000,
            device="cpu",
        )
        return command.run("run_tagger.py", **dict(flags, **changes))

    def succeed(self, **changes):
        """What a run prints that trains, evaluates and predicts."""
        done = self.run(do_train=True, do_eval=True, do_predict=True, **changes)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, name, text):
        (self.directory / name).write_text(text, encoding="utf-8")
        return self.directory / name


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("tagger"))


@pytest.fixture(scope="module")
def trained(place):
    return place.succeed()


def test_a_small_network_learns_entities(place, trained):
    assert "custom: 100 examples" in trained
    model = place.directory / "model"
    kept = json.loads((model / "evaluations.json").read_text())
    assert kept["metric"] == "f1"
    assert [one["step"] for one in kept["evaluations"]] == [40, 80]
    results = json.loads((model / "results" / "eval_results_dev.json").read_text())
    best = results["result"]
    assert best["f1"] > 0.8
    kernel = weights(model / "best")["model/tagging_custom/logit/kernel"]
    assert kernel.shape == (16, 5)
    table = (model / "results" / "eval_table_dev.txt").read_text().split("\n")
    (micro,) = (line.split() for line in table if "micro avg" in line)
    assert float(micro[4]) == pytest.approx(best["f1"], abs=1e-4)


def predicted(path):
    """The objects of the sentences of a file of predictions."""
    return list(map(json.loads, path.read_text().splitlines()))


def test_the_sentences_come_back_with_one_key_more(place, trained):
    results = place.directory / "model" / "results"
    found = predicted(results / "predictions_custom_test.jsonl")
    text = (place.directory / "data" / "test.txt").read_text()
    sentences = text.strip().split("\n\n")[1:]  # without -DOCSTART-
    assert len(found) == len(sentences)
    for one, sentence in zip(found, sentences):
        assert one["text"] == [line.split()[0] for line in sentence.split("\n")]
    assert all(len(one["predicted"]) == len(one["2"]) for one in found)
    labels = {tag[2:] for one in found for tag in one["predicted"]}
    assert labels == {"", "PER", "LOC"}


def test_the_model_directory_and_a_text_suffice(place, trained, tmp_path):
    """No training data and no other flags; entities come out as characters."""
    text = "mi  kamat telok dakar le"
    path = place.write("texts.jsonl", json.dumps(dict(text=text, id=3)) + "\n")
    flags = dict(model_dir=place.directory / "model", predict_dir=tmp_path)
    command.succeed("run_tagger.py", do_predict=True, predict_file=path, **flags)
    value = json.loads((tmp_path / "predictions_custom_texts.jsonl").read_text())
    assert value.pop("predicted") == [[4, 15, "PER"], [16, 21, "LOC"]]
    assert value == dict(text=text, id=3)


def test_training_on_texts_with_spans(place, tmp_path):
    rng = random.Random(0)
    lines = []
    for _ in range(40):
        name, town, filler = map(rng.choice, (NAMES, PLACES, FILLER))
        text = f"{name} {filler} {town}."
        start, end = len(text) - len(town) - 1, len(text) - 1
        entities = [[0, len(name), "PER"], [start, end, "LOC"]]
        lines.append(json.dumps(dict(text=text, entities=entities)) + "\n")
    out = place.succeed(
        data_dir=place.write("spans.jsonl", "".join(lines)),
        model_dir=tmp_path,
        train_steps=100,
        eval_steps=0,
        predict_split="dev",
        class_weights="balanced",
        label_smoothing=0.1,
    )
    shown = r"custom: (\d+) examples; \d+ more of the file held"
    (count,) = re.findall(shown, out)
    found = predicted(tmp_path / "results" / "predictions_custom_dev.jsonl")
    assert 1 <= len(found) == 40 - int(count) < 10
    assert all(one["text"] and "predicted" in one for one in found)
    results = json.loads((tmp_path / "results" / "eval_results_dev.json").read_text())
    assert results["result"]["f1"] > 0.5


def test_bad_input_is_refused_in_one_line(place):
    model = place.directory / "no"
    done = place.run(do_train=True, label_column="4", model_dir=model)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert re.search("train.txt:3: found null .*; --label_column", done.stderr)
    assert not model.exists()
