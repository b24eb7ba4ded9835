"""Damaged files: a line, or what was written; never anything else. With more cases of each, and of
all subjects: XLNET_TEST_CASES=100."""

import os

import pytest
from helpers import damage, mutations
from helpers.subjects import SUBJECTS

CASES = int(os.environ.get("XLNET_TEST_CASES", 0))
# Quick ones; the others take TensorFlow's graphs or a process each.
TRIED = [
    subject
    for subject in SUBJECTS
    if CASES
    or subject.name
    in (
        "manifest",
        "text, gzip",
        "tokens",
        "checkpoint",
        "TSV",
        "CSV",
        "JSON lines",
        "CoNLL",
        "tagged JSON lines",
        "SQuAD",
        "fine-tuning records",
        "Hugging Face's folder",
    )
]


@pytest.mark.parametrize("subject", TRIED, ids=lambda subject: subject.name)
def test_damage_is_named_or_harmless(subject, tmp_path):
    laboratory = damage.Laboratory(subject, tmp_path / "made")
    cases = laboratory.cases(CASES or 2 * len(mutations.KINDS))
    for outcome in damage.try_cases(laboratory, cases, subject.is_native):
        assert outcome.what in damage.GOOD, outcome


def test_what_is_wrong_is_seen(tmp_path):
    """Readers that raise, take another content for theirs, or do not name the file."""
    from helpers.subjects import Subject

    from xlnet.support.errors import UserError

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

    for read, expected in (
        (raises, "traceback"),
        (vague, "does not name the file"),
        (reads, "wrong in silence"),
    ):
        laboratory = damage.Laboratory(
            Subject("x", make, read, ("x",), True), tmp_path / expected
        )
        (case,) = (case for case in laboratory.cases(8) if case.kind == "cut")
        assert laboratory.try_case(case).what == expected
