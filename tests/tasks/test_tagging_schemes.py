"""Tag schemes: what tags say, what is legal, how entities are counted."""

import itertools
import random

import numpy as np
import pytest
from helpers import tasks

from xlnet.settings.finetuning import TaggerSettings
from xlnet.tasks import custom
from xlnet.tasks.files import parsing
from xlnet.tasks.tagging import schemes
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


def repaired(tags, scheme):
    return schemes.tags_of(schemes.spans(tags, scheme), len(tags), scheme)


@pytest.mark.parametrize("scheme", TAGS)
def test_each_scheme_says_the_same(scheme):
    tags = tuple(TAGS[scheme].split())
    assert schemes.spans(tags, scheme) == SPANS
    assert schemes.tags_of(SPANS, 8, scheme) == tags
    assert all(schemes.is_tag(tag, scheme) for tag in tags)


# As conlleval and seqeval (default mode; IOE2: strict mode of 1.2.2) read them.
@pytest.mark.parametrize(
    "scheme, tags, spans, legal",
    [
        ("bio2", "I-X I-X O", [(0, 2, "X")], "B-X I-X O"),
        ("bio2", "O I-X B-X", [(1, 2, "X"), (2, 3, "X")], "O B-X B-X"),
        ("bio2", "B-X I-Y I-Y", [(0, 1, "X"), (1, 3, "Y")], "B-X B-Y I-Y"),
        ("bio2", "I I", [(0, 2, "")], "B I"),
        ("bio2", "B-GPE-NAM I-GPE-NAM", [(0, 2, "GPE-NAM")], "B-GPE-NAM I-GPE-NAM"),
        ("bioes", "B-X I-X O", [(0, 2, "X")], "B-X E-X O"),
        ("bioes", "B-X E-X E-X", [(0, 2, "X"), (2, 3, "X")], "B-X E-X S-X"),
        ("bioes", "S-X I-X", [(0, 1, "X"), (1, 2, "X")], "S-X S-X"),
        ("bmes", "B-X M-X O M-X", [(0, 2, "X"), (3, 4, "X")], "B-X E-X O S-X"),
        ("iob1", "B-X I-X", [(0, 2, "X")], "I-X I-X"),
        ("ioe2", "E-X E-X", [(0, 1, "X"), (1, 2, "X")], "E-X E-X"),
        (
            "ioe2",
            "I-X E-X I-Y I-Y E-Y",
            [(0, 2, "X"), (2, 5, "Y")],
            "I-X E-X I-Y I-Y E-Y",
        ),
        ("plain", "NN NN O", [(0, 1, "NN"), (1, 2, "NN")], "NN NN O"),
    ],
)
def test_any_sequence_is_read(scheme, tags, spans, legal):
    tags = tags.split()
    assert schemes.spans(tags, scheme) == spans
    assert repaired(tags, scheme) == tuple(legal.split())


@pytest.mark.parametrize("scheme", TAGS)
def test_the_laws_of_repair_and_of_transitions(scheme):
    """A repair keeps all entities and leaves what is legal alone; the transitions of a scheme that
    is learned allow exactly what a repair leaves alone."""
    all_tags = schemes.all_tags("XY", scheme)
    after, first, last = schemes.legal_transitions(all_tags, scheme)
    for ids in itertools.product(range(len(all_tags)), repeat=3):
        tags = tuple(all_tags[id] for id in ids)
        legal = repaired(tags, scheme)
        assert schemes.spans(legal, scheme) == schemes.spans(tags, scheme)
        assert repaired(legal, scheme) == legal
        if schemes.learned(scheme) == scheme:
            allowed = first[ids[0]] and last[ids[2]] and after[ids[0], ids[1]]
            assert (allowed and after[ids[1], ids[2]]) == (legal == tags)


@pytest.mark.parametrize(
    "tag, scheme, message",
    [
        (
            "NNP",
            "bio2",
            "found tag 'NNP', expected O, or B, I before a label, as in B-PER",
        ),
        ("B-", "bio2", "found tag 'B-', expected"),
        ("", "bio2", "found tag '', expected"),
        ("", "plain", "found tag '', expected a label"),
        ("BI-X", "bio2", "found tag 'BI-X', expected"),
        ("o", "bioes", "found tag 'o', expected"),
        ("S-X", "bio2", "found tag 'S-X', .*; --scheme is bio2"),
        ("B-LOC|B-LOC", "bio2", "found tag 'B-LOC.B-LOC'"),
        ("O|B-LOC", "bio2", "found tag 'O.B-LOC'"),
        ("B-PERS", "bio2", "found tag 'B-PERS', expected one of 2 labels: LOC, PER"),
        ("O", "plain", "found tag 'O', expected one of 2 labels"),
    ],
)
def test_what_is_no_tag(tag, scheme, message):
    with pytest.raises(ValueError, match=message):
        schemes.check(tag, scheme, ("LOC", "PER"))


@pytest.mark.parametrize(
    "tag, scheme",
    [("B", "bio2"), ("O", "bmes"), ("B-Case=Nom|Number=Sing", "bio2"), ("O", "plain")],
)
def test_what_is_a_tag(tag, scheme):
    schemes.check(tag, scheme)


# ---- entities are counted as seqeval and conlleval count them


def counts(found, true):
    spans = (
        [schemes.spans(line.split(), "bio2") for line in lines]
        for lines in (found, true)
    )
    return schemes.by_label(*spans)


def test_the_example_of_seqevals_description():
    """One of two entities has another beginning; F1 is 0.50, accuracy 0.80 there."""
    true = ["O O O B-MISC I-MISC I-MISC O", "B-PER I-PER O"]
    found = ["O O B-MISC I-MISC I-MISC I-MISC O", "B-PER I-PER O"]
    by_label = counts(found, true)
    assert schemes.total(by_label).ratios[2] == 0.5
    assert [by_label[name].ratios[2] for name in ("MISC", "PER")] == [0, 1]
    tags = ([line.split() for line in lines] for lines in (found, true))
    assert schemes.accuracy(*tags) == 0.8


def test_the_table():
    assert "micro avg" in schemes.table(counts(["O"], ["O"]))
    lines = schemes.table(counts(["B-A B-B B-B"], ["B-A B-A B-B"])).split("\n")
    assert [line.split() for line in lines] == [
        ["label", "precision", "recall", "f1", "entities"],
        ["A", "1.0000", "0.5000", "0.6667", "2"],
        ["B", "0.5000", "1.0000", "0.6667", "1"],
        ["micro", "avg", "0.6667", "0.6667", "0.6667", "3"],
    ]


def conlleval(true, found):
    """(right, found, true) chunks of two sequences of tags."""

    def parts(tag):
        prefix, _, label = tag.partition("-")
        return prefix, label

    def ends(before, now):
        (b, x), (n, y) = before, now
        return (
            (b, n)
            in (
                ("B", "B"),
                ("B", "O"),
                ("I", "B"),
                ("I", "O"),
                ("E", "E"),
                ("E", "I"),
                ("E", "O"),
                ("S", "S"),
                ("B", "S"),
                ("I", "S"),
            )
            or b in "ES"
            or (b != "O" and x != y)
        )

    def begins(before, now):
        (b, x), (n, y) = before, now
        return (
            n in "BS"
            or (b, n)
            in (("O", "I"), ("O", "E"), ("E", "E"), ("E", "I"), ("S", "E"), ("S", "I"))
            or (n != "O" and x != y)
        )

    counts, open_chunk, outside = [0, 0, 0], False, ("O", "")
    before = [outside, outside]
    for pair in [*zip(true, found), ("O", "O")]:
        now = list(map(parts, pair))
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


@pytest.mark.parametrize("prefixes", ("BI", "BIES"))
def test_entities_are_counted_as_conlleval_counts_them(prefixes):
    rng = random.Random(0)
    tags = ["O", "O", *(f"{prefix}-{label}" for prefix in prefixes for label in "XY")]
    for _ in range(3000):
        true = rng.choices(tags, k=rng.randint(1, 9))
        found = [tag if rng.random() < 0.7 else rng.choice(tags) for tag in true]
        counts = schemes.by_label(
            [schemes.spans(found, "bio2")], [schemes.spans(true, "bio2")]
        )
        assert schemes.total(counts) == conlleval(true, found), (true, found)


@pytest.mark.parametrize("scheme", [*TAGS, "plain"])
def test_scores_are_those_of_the_file_that_is_written(tmp_path, scheme):
    """seqeval and conlleval compute them of its last two columns, gold and predicted tags, whether
    the gold ones are legal or not."""
    rng = random.Random(scheme)
    tags = [*schemes.all_tags("XY", scheme), "O"]
    path = tmp_path / "train.conll"
    with open(path, "w") as f:
        for _ in range(300):
            for _ in range(rng.randint(1, 9)):
                f.write(f"w {rng.choice(tags)}\n")
            f.write("\n")
    settings = tasks.settings(path, TaggerSettings, scheme=scheme, dev_share=0.0)
    task = custom.resolve_task(settings)
    rows = parsing.read_file(task, str(path), need_labels=True)
    values = []
    for row in rows:
        ids = [task.labels.index(tag) for tag in row.label]
        ids = [
            id if rng.random() < 0.7 else rng.randrange(len(task.labels)) for id in ids
        ]
        values.append(Tags(np.array(ids), np.ones(len(ids))))
    (file,) = task.scorer.prediction_files(rows, values)
    # conlleval knows two names for each kind of prefix.
    usual = str.maketrans({"M": "I", "U": "S", "L": "E"})
    right, counts = [], np.zeros(3)
    for sentence in "".join(file.lines).rstrip("\n").split("\n\n"):
        gold, found = zip(*(line.split()[1:] for line in sentence.split("\n")))
        right += [one == other for one, other in zip(gold, found)]
        if scheme == "plain":  # each word is an entity
            gold = [tag if tag == "O" else "S-" + tag for tag in gold]
            found = [tag if tag == "O" else "S-" + tag for tag in found]
        gold = [tag.translate(usual) for tag in gold]
        counts += conlleval(gold, [tag.translate(usual) for tag in found])
    result = task.scorer.evaluate(values, task.scorer.gold_labels(rows))
    assert 0.3 < result["accuracy"] == np.mean(right) < 1
    expected = counts[0] / counts[1], counts[0] / counts[2]
    assert (result["precision"], result["recall"]) == expected
    assert result["f1"] == pytest.approx(2 * counts[0] / (counts[1] + counts[2]))
