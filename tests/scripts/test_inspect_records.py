"""xlnet data inspect: what it shows is what is trained on; what it counts is right."""

import dataclasses
import os
import re

import numpy as np
import pytest
from helpers import command, vocabulary
from helpers.paths import ROOT

from xlnet.commands import data_inspect
from xlnet.corpus import input_pipeline, record_files
from xlnet.corpus.manifest import Manifest
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.plots import masks
from xlnet.settings.pretraining import SamplingSettings

SCRIPT = "xlnet data inspect"
SEQ_LEN, REUSE_LEN, PREDICT = 64, 24, 12
DRAWN = [f"--num_predict={PREDICT}"]
SETTINGS = SamplingSettings(num_predict=PREDICT, perm_size=256)


@dataclasses.dataclass
class Place:
    directory: str

    def make(self, name, **flags):
        """Makes records of the text."""
        command.succeed(
            "data_utils.py",
            input_glob=self.path("text.txt"),
            sp_path=self.path("sp.model"),
            save_dir=self.path(name),
            seq_len=SEQ_LEN,
            reuse_len=REUSE_LEN,
            **flags,
        )

    def inspect(self, *arguments, run=command.succeed, directory="records"):
        return run(SCRIPT, "--input=" + self.path(directory), *DRAWN, *arguments)

    def plot(self, *arguments, run=command.succeed):
        vocabulary = "--spiece_model_file=" + self.path("sp.model")
        return run("xlnet plot masks", vocabulary, "--text=ka lo mi", *arguments)

    def path(self, name):
        return os.path.join(self.directory, name)

    @property
    def tokenizer(self):
        return Tokenizer(self.path("records/spiece.model"))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Records of invented words, each of its own, so that a text is found in one place only."""
    rng, lines = np.random.default_rng(0), []
    syllables = ["ka", "lo", "mi", "sun", "tor", "ve", "x", "机", "器"]
    for number in range(120):
        words = ["".join(rng.choice(syllables, rng.integers(1, 5))) for _ in range(8)]
        lines += [" ".join(words) + ".", *([""] if number % 12 == 11 else [])]
    made = Place(str(tmp_path_factory.mktemp("inspect")))
    vocabulary.train(made.path("sp.model"), lines, 50)
    with open(made.path("text.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(lines))
    made.make("records", num_streams=4)
    return made


def parts_of(output):
    """The sequences of an output: lists of their parts `(name, pieces)`."""
    found = []
    for line in output.split("\n"):
        head = re.match(r"(reused|A|B) +(?=\S)", line)
        if " tokens predicted" in line:
            found.append([])
        elif head:
            found[-1].append((head[1], line[head.end() :].split()))
    return found


@pytest.mark.parametrize("mask_mode", ["whole_word", "legacy"])
def test_the_text_of_a_sequence_has_its_pieces_targets_and_order(place, mask_mode):
    """A backward sequence is read from its end."""
    import tensorflow.compat.v1 as tf

    tokenizer = place.tokenizer
    with tf.Graph().as_default(), tf.Session() as session:
        batches = input_pipeline.pretraining_batches(
            place.path("records"),
            Manifest.read(place.path("records")),
            batch_size=4,
            sampling=dataclasses.replace(SETTINGS, mask_mode=mask_mode),
            tokenizer=tokenizer,
            seed=0,
        )
        batch = session.run(tf.data.make_one_shot_iterator(batches).get_next())
    for stream, names in enumerate((["reused", "A", "B"], ["B", "A", "reused"])):
        sequence = {name: values[stream] for name, values in batch.items()}
        text = data_inspect.as_text(sequence, tokenizer, REUSE_LEN)
        assert text.startswith(("forward", "backward")[stream] + ", B ")
        parts = parts_of(text)[0]
        assert [name for name, _ in parts] == names
        assert len(dict(parts)["reused"]) == REUSE_LEN
        shown = sum((pieces for _, pieces in parts), [])
        is_target = np.zeros(SEQ_LEN, bool)
        used = sequence["weights"] > 0  # the legacy rule may leave slots
        is_target[sequence["positions"][used]] = True
        order = slice(None, None, -1 if stream else None)
        ids, rank = sequence["input_ids"][order], sequence["rank"][order]
        is_target = is_target[order]
        assert is_target.sum() == PREDICT
        for i, piece in enumerate(shown):
            expected = tokenizer.id_to_piece(int(ids[i]))
            if is_target[i]:
                expected = f"⟦{expected}⟧{np.sum(rank[is_target] <= rank[i])}"
            assert piece == expected


ORDER = dict(
    rank=np.array([3, -1, 0, 2, 1], np.int32), is_target=np.array([1, 0, 1, 0, 1], bool)
)  # token 3 is special: permuted only


def test_masks_of_an_order_made_by_hand():
    content, query = masks.visibility(memory_length=2, **ORDER)
    expected = ["1101111", "1101000", "1101000", "1101111", "1101100"]
    assert ["".join("01"[int(seen)] for seen in row) for row in query] == expected
    itself = np.eye(5, 7, 2, dtype=bool)
    np.testing.assert_array_equal(content, query | itself)


def test_everything_from_the_command_line(place, tmp_path):
    image = tmp_path / "masks.png"
    plotted = place.plot(f"--output={image}")
    done = place.inspect()
    assert "\nbackward, B " in done.stdout and "\nforward, B " in done.stdout
    assert f"\n{PREDICT} of {SEQ_LEN} tokens predicted\n" in done.stdout
    assert [len(parts) for parts in parts_of(done.stdout)] == [3, 3]
    assert image.read_bytes().startswith(b"\x89PNG")
    assert plotted.stdout == f"written: {image}\n"


def test_streams_of_one_direction_are_shown_by_their_numbers(place):
    """Three of them, of which two do not make a batch."""
    import tensorflow.compat.v1 as tf

    records = place.path("one_way")
    place.make("one_way", num_streams=3, bi_data=False)
    shown = parts_of(place.inspect(directory="one_way").stdout)
    assert len(shown) == 2
    features = record_files.pretraining_features(SEQ_LEN)
    for path, parts in zip(Manifest.read(records).stream_paths(records), shown):
        with tf.Graph().as_default(), tf.Session() as session:
            serialized = [record_files.EqualRecords(path).read(0)]
            (ids,) = session.run(record_files.parse(features, serialized)["input"])
        for piece, id in zip(sum((pieces for _, pieces in parts), []), ids):
            assert place.tokenizer.id_to_piece(int(id)) in piece


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--input=nowhere"], "input: found no such directory: nowhere"),
        (["--num_predict=62"], "num_predict: found 62, expected at most 61 for sequ"),
        (["--output=m.png", "--mask_mode=legacy"], "mask_mode: found legacy, a rule"),
        (["--objective=causal"], "objective: found causal, which chooses its own tar"),
        (["--text= ", "--output=m.png"], "text: found 0 pieces, expected 1 to 40"),
        (["--output=masks.jpg"], "masks.jpg', expected a name that ends in .png"),
    ],
)
def test_bad_requests_are_refused_in_one_line(
    place, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    show = place.plot if "--output" in " ".join(arguments) else place.inspect
    done = show(*arguments, run=command.run)
    (line,) = done.stderr.splitlines()
    assert done.returncode in (1, 2) and message in line
    assert not done.stdout and not os.listdir(tmp_path)


def test_masks_are_plotted_in_an_order_of_ones_own(place, tmp_path):
    output = tmp_path / "masks.png"
    example = ROOT / "examples" / "own_pretraining" / "left_to_right.py"
    flags = ["--factorization_order=left_to_right", f"--own_module={example}"]
    place.plot(*flags, f"--output={output}", "--text=kalomi suntor ve")
    assert output.read_bytes().startswith(b"\x89PNG")
