"""Tag schemes: what tags say, what is legal, what is made of the rest."""

import itertools

import pytest

from xlnet.tasks.files import schemes

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


def sequences(prefixes, length):
    """All sequences of tags with two labels."""
    tags = ["O"] + ["{}-{}".format(*pair) for pair in itertools.product(prefixes, "XY")]
    return itertools.product(tags, repeat=length)


@pytest.mark.parametrize("scheme", schemes.SCHEMES)
def test_each_scheme_says_the_same(scheme):
    tags = tuple(TAGS[scheme].split())
    assert schemes.spans(tags) == SPANS
    assert schemes.tags_of(SPANS, 8, scheme) == tags
    assert schemes.illegal(tags, scheme) == [] and schemes.fitting([tags]) == scheme


# As conlleval and seqeval (default mode) read them.
@pytest.mark.parametrize(
    "scheme, tags, spans, repaired",
    [
        ("bio2", "I-X I-X O", [(0, 2, "X")], "B-X I-X O"),
        ("bio2", "O I-X B-X", [(1, 2, "X"), (2, 3, "X")], "O B-X B-X"),
        ("bio2", "B-X I-Y I-Y", [(0, 1, "X"), (1, 3, "Y")], "B-X B-Y I-Y"),
        ("bioes", "B-X O", [(0, 1, "X")], "S-X O"),
        ("bioes", "B-X I-X O", [(0, 2, "X")], "B-X E-X O"),
        ("bioes", "I-X E-X", [(0, 2, "X")], "B-X E-X"),
        ("bioes", "B-X E-X E-X", [(0, 2, "X"), (2, 3, "X")], "B-X E-X S-X"),
        ("bioes", "S-X I-X", [(0, 1, "X"), (1, 2, "X")], "S-X S-X"),
        ("bmes", "B-X M-X O M-X", [(0, 2, "X"), (3, 4, "X")], "B-X E-X O S-X"),
        ("iob1", "B-X I-X", [(0, 2, "X")], "I-X I-X"),
    ],
)
def test_illegal_sequences(scheme, tags, spans, repaired):
    tags = tags.split()
    assert schemes.spans(tags) == spans
    assert schemes.repaired(tags, scheme) == tuple(repaired.split())


@pytest.mark.parametrize("scheme", schemes.SCHEMES)
def test_the_laws_of_repair(scheme):
    """It keeps all entities, leaves what is legal alone, and leaves nothing illegal."""
    for tags in sequences(schemes.prefixes(scheme), 3):
        repaired = schemes.repaired(tags, scheme)
        assert schemes.spans(repaired) == schemes.spans(tags)
        assert schemes.repaired(repaired, scheme) == repaired
        for other in schemes.SCHEMES:
            assert schemes.spans(schemes.tags_of(schemes.spans(tags), 3, other)) == schemes.spans(
                tags
            )


@pytest.mark.parametrize("scheme", ["bio2", "bioes", "bmes"])
def test_transitions_say_what_is_legal(scheme):
    tags = schemes.all_tags("XY", scheme)
    after, first, last = schemes.legal_transitions(tags, scheme)
    for ids in itertools.product(range(len(tags)), repeat=3):
        allowed = first[ids[0]] and last[ids[2]] and after[ids[0], ids[1]] and after[ids[1], ids[2]]
        assert allowed == (not schemes.illegal([tags[id] for id in ids], scheme))


def test_the_scheme_of_a_file_has_the_fewest_errors():
    assert schemes.fitting([TAGS["bio2"].split(), ["I-PER", "O"]]) == "bio2"
    assert schemes.fitting([["O", "I-X"]]) == "iob1" and schemes.fitting([["O"]]) == "bio2"


# As seqeval 1.2.2 reads them in the scheme IOE2, strict mode.
@pytest.mark.parametrize(
    "tags, spans",
    [
        ("I-X E-X", [(0, 2, "X")]),
        ("E-X E-X", [(0, 1, "X"), (1, 2, "X")]),
        ("O I-X I-X E-X E-X O E-Y", [(1, 4, "X"), (4, 5, "X"), (6, 7, "Y")]),
        ("I-X E-X I-Y I-Y E-Y", [(0, 2, "X"), (2, 5, "Y")]),
    ],
)
def test_ioe2_is_recognized_and_read_as_by_seqeval(tags, spans):
    tags = tags.split()
    assert schemes.fitting([tags]) == "ioe2" and schemes.learned("ioe2") == "bio2"
    assert schemes.spans(tags) == spans and schemes.illegal(tags, "ioe2") == []


@pytest.mark.parametrize(
    "tag, scheme, message",
    [
        ("NNP", None, "tag 'NNP', expected O, or B, I, M, E, S, L, U before a label, as in B-PER"),
        ("B-", None, "tag 'B-', expected"),
        ("", None, "tag '', expected"),
        ("BI-X", None, "tag 'BI-X', expected"),
        ("o", None, "tag 'o', expected"),
        ("S-X", "bio2", "tag 'S-X', expected O, or B, I before a label, as in B-PER (scheme bio2)"),
        ("B-LOC|B-LOC", None, "tags 'B-LOC|B-LOC', expected one tag: nested entities"),
        ("B-LOC|B-LOC", "bio2", "tags 'B-LOC|B-LOC', expected one tag: nested entities"),
        ("O|B-LOC", "bio2", "tags 'O|B-LOC', expected one tag: nested entities"),
    ],
)
def test_what_is_no_tag(tag, scheme, message):
    assert schemes.tag_error(tag, scheme).startswith(message)


def test_labels_hold_hyphens_or_are_not_there():
    assert schemes.tag_error("B-GPE-NAM") is None and schemes.tag_error("B") is None
    assert schemes.spans(["B-GPE-NAM", "I-GPE-NAM"]) == [(0, 2, "GPE-NAM")]
    assert schemes.repaired(["I", "I"], "bio2") == ("B", "I")
    assert schemes.all_tags(["LOC", "PER"], "bmes")[:5] == ("O", "B-LOC", "M-LOC", "E-LOC", "S-LOC")


def test_a_bar_may_be_part_of_a_label():
    assert schemes.tag_error("B-Case=Nom|Number=Sing", "bio2") is None


def test_no_scheme_fits_words_or_mixed_prefixes():
    assert schemes.fitting([["O", "NNP"]]) is None
    assert schemes.fitting([["B-X", "M-X", "I-X"]]) is None


def test_of_many_labels_the_nearest_and_their_number_are_named():
    labels = [f"label{number}" for number in range(3000)]
    message = schemes.unknown_label("B-label0x", labels)
    assert "did you mean 'label0'" in message and "3,000 labels" in message
    assert len(message) < 100


def test_a_label_that_was_not_in_training():
    assert schemes.unknown_label("B-PERS", ["LOC", "PER"]) == (
        "tag 'B-PERS' was not in training; did you mean 'PER'? (labels: LOC, PER)"
    )
    assert schemes.unknown_label("O", ["LOC"]) is schemes.unknown_label("I-LOC", ["LOC"]) is None
