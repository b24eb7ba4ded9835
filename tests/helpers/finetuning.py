"""Small fine-tuning runs: a folder of data, and run_classifier.py started on it."""

import dataclasses
import json
import pathlib
import random

import numpy as np

from helpers import command, vocabulary
from helpers.paths import RELEASED

TOPICS = {
    "animal": ["kamat", "telok", "rokmi"],
    "plant": ["solkat", "mitel", "dakar"],
    "stone": ["nokla", "laskit"],
}
ROWS = {"train": 21, "dev": 7, "test": 5}


def make_text(rng, words, count=5):
    return " ".join(rng.choices(words, k=rng.randint(1, count)))


def make_files(directory):
    """Own files with two texts, a label and an id; STS-B-shaped files."""
    rng = random.Random(0)
    for split, count in ROWS.items():
        own = ["name\tfirst\tsecond\tkind"]
        pairs = ["index\tsentence1\tsentence2\tscore"]
        for i in range(count):
            kind = list(TOPICS)[i % 3]
            texts = f"{make_text(rng, TOPICS[kind])}\t{make_text(rng, TOPICS[kind])}"
            own.append(f"{split}-{10 * i}\t{texts}\t{kind}")
            pairs.append(f"{i}\t{texts}\t{rng.uniform(0, 5):.2f}")
        for name, lines in (("own", own), ("sts", pairs)):
            if split == "test":  # no labels here
                lines = [line.rpartition("\t")[0] for line in lines]
            (directory / name).mkdir(exist_ok=True)
            (directory / name / (split + ".tsv")).write_text("\n".join(lines) + "\n")


def make_vocabulary(path, size):
    rng = random.Random(1)
    syllables = "ka mat tel ok rok mi sol kit dar las nok le".split()
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 3))) for _ in range(100)]
    vocabulary.train(path, (make_text(rng, words) for _ in range(200)), size)


@dataclasses.dataclass
class Workspace:
    directory: pathlib.Path

    def path(self, *names):
        return str(self.directory.joinpath(*names))

    def json(self, *names):
        return json.loads(self.directory.joinpath(*names).read_text())

    def arguments(self, *arguments, **changes):
        """The command line for own files, with changes; None leaves a flag out."""
        flags = dict(
            task_name="custom",
            data_dir=self.path("own"),
            output_dir=self.path("records"),
            model_dir=self.path("model"),
            spiece_model_file=self.path("sp.model"),
            model_config_path=str(RELEASED / "xlnet_config.json"),
            max_seq_length=16,
            train_batch_size=4,
            eval_batch_size=2,
            text_a_column="first",
            text_b_column="second",
            label_column="kind",
            id_column="name",
            decay_method="constant",
            train_steps=2,
            eval_steps=0,
            max_save=0,
            device="cpu",
        )
        if changes.get("task_name", "custom") != "custom":
            for name in ("text_a", "text_b", "label", "id"):
                del flags[name + "_column"]
        flags.update(changes)
        return [*arguments, *command.flags(flags)]

    def on_one_file(self, **changes):
        """The changes of `arguments` for the file of `make_one_file`."""
        flags = dict(
            data_dir=self.path("all.jsonl"),
            text_a_column="text",
            text_b_column=None,
            id_column=None,
        )
        return {**flags, **changes}

    def run(self, *arguments, **changes):
        return command.run("run_classifier.py", *self.arguments(*arguments, **changes))

    def succeed(self, *arguments, **changes):
        words = self.arguments(*arguments, **changes)
        return command.succeed("run_classifier.py", *words).stdout

    def predictions(self, *names):
        """A prediction file: header, ids, and the columns of numbers [n, columns]."""
        with open(self.path(*names), encoding="utf-8") as f:
            header, *lines = [line.rstrip("\n").split("\t") for line in f]
        is_number = [name == "score" or name.startswith("p_") for name in header]
        numbers = np.array(lines)[:, is_number].astype(np.float64)
        return header, lines, numbers


def make_one_file(directory, rows):
    """Writes all.jsonl: short and long texts, each with a label and with several."""
    kinds = list(TOPICS)
    texts = [" ".join(TOPICS[kind] * (1 + 3 * i)) for i, kind in enumerate(kinds)]
    with open(directory / "all.jsonl", "w") as f:
        for i in range(rows):
            row = dict(text=texts[i % 3], kind=kinds[i % 3], tags=kinds[: i % 3])
            print(json.dumps(row), file=f)


def make_workspace(directory):
    """A `Workspace` with own files and a vocabulary that fits the released model."""
    make_files(directory)
    make_vocabulary(directory / "sp.model", 37)
    return Workspace(directory)


def weights(path):
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(path))
    return {
        name: reader.get_tensor(name) for name in reader.get_variable_to_dtype_map()
    }


def assert_same(found, expected, atol=0.0):
    """Weights are those expected, up to `atol`."""
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=atol, err_msg=name)
