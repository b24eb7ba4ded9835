"""Damaged files: a line, or what was written; never anything else. In full: `run.py damage`."""

import pytest
from helpers import damage, mutations
from helpers.subjects import SUBJECTS

# Quick ones; the others take TensorFlow's graphs or a process each.
QUICK = [subject for subject in SUBJECTS if subject.name in (
    "manifest", "text, gzip", "tokens", "checkpoint", "TSV", "CSV", "JSON lines", "CoNLL",
    "tagged JSON lines", "SQuAD", "fine-tuning records", "Hugging Face's folder")]
CASES = 2 * len(mutations.KINDS)


@pytest.mark.parametrize("subject", QUICK, ids=lambda subject: subject.name)
def test_damage_is_named_or_harmless(subject, tmp_path):
    laboratory = damage.Laboratory(subject, tmp_path / "made")
    for outcome in damage.try_cases(laboratory, laboratory.cases(CASES), subject.is_native):
        assert outcome.what in damage.GOOD, outcome


def test_the_same_seed_damages_the_same_bytes():
    content = bytes(range(256)) * 4
    for kind in mutations.KINDS:
        first, again, other = (mutations.mutate(kind, content, b"other", mutations.rng_of(*of))
                               for of in ((kind, 1), (kind, 1), (kind, 2)))
        assert first == again
        assert (first != other) == (kind in ("flipped", "cut", "overwritten", "removed"))


def test_what_is_wrong_is_seen(tmp_path):
    """Readers that raise, take another content for theirs, or do not name the file."""
    from helpers.subjects import Subject

    from xlnet.errors import UserError

    def make(folder, version):
        (folder / "x").write_bytes(b"%d" % version * 100)

    def raises(folder):
        return {}[(folder / "x").read_bytes()[:0] or "known"] if changed(folder) else 0

    def changed(folder):
        return (folder / "x").read_bytes() not in (b"0" * 100, b"1" * 100)

    def vague(folder):
        if changed(folder):
            raise UserError("it is damaged")

    def reads(folder):
        return (folder / "x").read_bytes()
    for read, expected in ((raises, "traceback"), (vague, "does not name the file"),
                           (reads, "wrong in silence")):
        laboratory = damage.Laboratory(Subject("x", make, read, ("x",), True),
                                       tmp_path / expected)
        case, = (case for case in laboratory.cases(8) if case.kind == "cut")
        assert laboratory.try_case(case).what == expected
