"""Tag schemes: what tags say, what is legal, how entities are counted."""

import itertools
import random

import numpy as np
import pytest
from helpers import tasks

from xlnet.settings.finetuning import TaggerSettings
from xlnet.tasks import known
from xlnet.tasks.tagging import sentences
from xlnet.tasks.tagging.tags import Tags

# Three entities in eight words, the second right after the first one.
SPANS = [(1, 3, "PER"), (3, 6, "PER"), (7, 8, "LOC")]
TAGS = {
    "iob1": "O I-PER I-PER B-PER I-PER I-PER O I-LOC",
    "bio2": "O B-PER I-PER B-PER I-PER I-PER O B-LOC",
    "bioes": "O B-PER E-PER B-PER I-PER E-PER O S-LOC",
    "bmes": "O B-PER E-PER B-PER M-PER E-PER O S-LOC",
    "bilou": "O B-PER L-PER B-PER I-PER L-PER O U-LOC",
    "ioe2": "O I-PER E-PER I-PER I-PER E-PER O E-LOC",
}
LEARNED = ("bio2", "bioes", "bmes")


@pytest.mark.parametrize("name", TAGS)
def test_the_tags_of_each_scheme_say_the_same(name):
    for scheme in LEARNED:
        assert sentences.entities_of(TAGS[name].split(), scheme) == SPANS
        assert sentences.tags_of(SPANS, 8, scheme) == tuple(TAGS[scheme].split())


# As conlleval and seqeval (default mode; IOE2: strict mode of 1.2.2) read them.
@pytest.mark.parametrize(
    "scheme, tags, spans",
    [
        ("bio2", "I-X I-X O", [(0, 2, "X")]),
        ("bio2", "O I-X B-X", [(1, 2, "X"), (2, 3, "X")]),
        ("bio2", "B-X I-Y I-Y", [(0, 1, "X"), (1, 3, "Y")]),
        ("bio2", "I I", [(0, 2, "")]),
        ("bio2", "B-GPE-NAM I-GPE-NAM", [(0, 2, "GPE-NAM")]),
        ("bio2", "B-Case=Nom|Number=Sing", [(0, 1, "Case=Nom|Number=Sing")]),
        ("bioes", "B-X E-X E-X", [(0, 2, "X"), (2, 3, "X")]),
        ("bioes", "S-X I-X", [(0, 1, "X"), (1, 2, "X")]),
        ("bmes", "B-X M-X O M-X", [(0, 2, "X"), (3, 4, "X")]),
        ("bio2", "E-X E-X", [(0, 1, "X"), (1, 2, "X")]),
        ("plain", "NN NN O", [(0, 1, "NN"), (1, 2, "NN")]),
    ],
)
def test_any_sequence_is_read(scheme, tags, spans):
    assert sentences.entities_of(tags.split(), scheme) == spans


@pytest.mark.parametrize("scheme", LEARNED)
def test_written_tags_have_the_entities_that_were_read(scheme):
    for tags in itertools.product(sentences.all_tags(["B-X", "B-Y"], scheme), repeat=3):
        written = sentences.tags_of(sentences.entities_of(tags, scheme), 3, scheme)
        assert sentences.entities_of(written, scheme) == sentences.entities_of(
            tags, scheme
        )
        assert set(written) <= set(sentences.all_tags(["B-X", "B-Y"], scheme))


@pytest.mark.parametrize(
    "tag", ("NNP", "B-", "", "BI-X", "o", "B-LOC|B-LOC", "O|B-LOC", "X-LOC")
)
def test_what_is_no_tag(tag):
    with pytest.raises(ValueError, match="found tag '.*', expected O, or a prefix"):
        sentences.entities_of([tag], "bio2")


# ---- entities are counted as seqeval and conlleval count them


def test_the_table():
    spans = [[sentences.entities_of(each.split(), "bio2")] for each in ("O", "O B-X")]
    assert sentences.scores(spans[0], spans[0])[1] is None
    found, true = "B-A B-B B-B", "B-A B-A B-B"
    spans = [[sentences.entities_of(each.split(), "bio2")] for each in (found, true)]
    lines = [line.split() for line in sentences.scores(*spans)[1].split("\n")]
    assert lines[0] == ["precision", "recall", "f1-score", "support"]
    assert ["A", "1.0000", "0.5000", "0.6667", "2"] in lines
    assert ["B", "0.5000", "1.0000", "0.6667", "1"] in lines
    assert ["micro", "avg", "0.6667", "0.6667", "0.6667", "3"] in lines
    # The same lines where all is right.
    assert "micro avg" in sentences.scores(spans[0], spans[0])[1]


def conlleval(true, found):
    """(right, found, true) chunks of two sequences of tags."""

    def ends(before, now):
        (b, x), (n, y) = before, now
        after_end = b + n in "BB BO IB IO EE EI EO SS BS IS".split()
        return after_end or b in "ES" or (b != "O" and x != y)

    def begins(before, now):
        (b, x), (n, y) = before, now
        begun = n in "BS" or b + n in "OI OE EE EI SE SI".split()
        return begun or (n != "O" and x != y)

    counts, open_chunk, outside = [0, 0, 0], False, ("O", "")
    before = [outside, outside]
    for pair in [*zip(true, found), ("O", "O")]:
        now = [(tag[0], tag[2:]) for tag in pair]
        ended = [ends(*both) for both in zip(before, now)]
        begun = [begins(*both) for both in zip(before, now)]
        if open_chunk and (ended[0] or ended[1]):
            counts[0] += ended[0] and ended[1]
            open_chunk = False
        open_chunk = open_chunk or begun[0] and begun[1] and now[0][1] == now[1][1]
        counts[1] += begun[1]
        counts[2] += begun[0]
        before = now
    return tuple(counts)


@pytest.mark.parametrize("scheme", [*LEARNED, "plain"])
def test_scores_are_those_of_the_file_that_is_written(tmp_path, scheme):
    """seqeval and conlleval compute them of gold and predicted tags, whichever scheme the file that
    was read has, and whether its tags and the predicted ones are legal or not."""
    rng = random.Random(scheme)
    tags = ["X", "Y", "O"]
    if scheme != "plain":
        tags = [f"{prefix}-{label}" for prefix in "BIESMLU" for label in "XY"] + ["O"]
    path = tmp_path / "train.conll"
    with open(path, "w") as f:
        for _ in range(300):
            for _ in range(rng.randint(1, 9)):
                f.write(f"w {rng.choice(tags)}\n")
            f.write("\n")
    settings = tasks.settings(path, TaggerSettings, scheme=scheme, dev_share=0.0)
    task = known.resolve_task(settings)
    rows = task.read(str(path), need_labels=True)
    values = []
    for row in rows:
        ids = []
        for tag in row.label:
            is_right = rng.random() < 0.7
            ids.append(
                task.labels.index(tag) if is_right else rng.randrange(len(task.labels))
            )
        values.append(Tags(np.array(ids), np.ones(len(ids))))
    objects = task.prediction_files(rows, values, 0.5)["jsonl"]
    right, counts = [], np.zeros(3)
    for value in objects:
        gold, found = value["tags"], value["predicted"]
        right += [one == other for one, other in zip(gold, found)]
        if scheme == "plain":  # each word is an entity
            gold = [tag if tag == "O" else "S-" + tag for tag in gold]
            found = [tag if tag == "O" else "S-" + tag for tag in found]
        # conlleval knows B, I, E and S.
        gold = [tag.replace("M-", "I-") for tag in gold]
        counts += conlleval(gold, [tag.replace("M-", "I-") for tag in found])
    result = task.evaluate(values, task.gold(rows), 0.5)
    assert 0.3 < result["accuracy"] == np.mean(right) < 1
    expected = counts[0] / counts[1], counts[0] / counts[2]
    assert (result["precision"], result["recall"]) == expected
    assert result["f1"] == pytest.approx(2 * counts[0] / (counts[1] + counts[2]))
