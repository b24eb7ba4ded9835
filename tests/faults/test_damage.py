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
