"""The data of a pretraining run: records, and the rule for sampling targets."""

from __future__ import annotations

import dataclasses
import logging
import os
from typing import Optional

from xlnet.corpus.manifest import MANIFEST_NAME, Manifest
from xlnet.corpus.permutation import Permutation
from xlnet.settings.data import RECORD_SETTINGS
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.support import files
from xlnet.support.errors import wrong

_log = logging.getLogger(__name__)

_TFRECORDS = "tfrecords"


def find_records(directory: str) -> str:
    """The directory of the records for the path `directory`: that path or, as the original's
    command lines name `<save_dir>/tfrecords`, the one above."""
    parent, name = os.path.split(directory.rstrip("/"))
    above = parent or "."
    if name == _TFRECORDS and files.exists(os.path.join(above, MANIFEST_NAME)):
        return above
    return directory


def read_manifest(settings: PretrainingSettings) -> Manifest:
    """The manifest of the training records; a UserError if a flag contradicts them."""
    directory, vocabulary = settings.record_info_dir, settings.spiece_model_file
    manifest = Manifest.read(directory)
    if vocabulary:
        files.require_file(vocabulary, "spiece_model_file")
        if files.sha256(vocabulary) != manifest.sp_model_sha256:
            own = _vocabulary(directory, manifest)
            raise wrong("spiece_model_file", vocabulary, own)
    for name in RECORD_SETTINGS:
        wanted, found = getattr(settings, name), getattr(manifest, name)
        if wanted is not None and wanted != found:
            raise wrong(name, wanted, f"{found}, as of the records in {directory}")
    return manifest


def held_out_manifest(
    settings: PretrainingSettings, manifest: Manifest
) -> Optional[Manifest]:
    """The manifest of the held-out records, whose sequences must be as the training records'."""
    directory = settings.eval_record_info_dir
    if not directory:
        return None
    held_out = Manifest.read(directory, "eval_record_info_dir")
    where = f"eval_record_info_dir: {directory}"
    if held_out.sp_model_sha256 != manifest.sp_model_sha256:
        own = _vocabulary(settings.record_info_dir, manifest)
        raise wrong(where, _vocabulary(directory, held_out), own, "make them again")
    for name in ("seq_len", "reuse_len", "uncased", "keep_accents"):
        found, expected = getattr(held_out, name), getattr(manifest, name)
        if found != expected:
            as_in = f"{expected}, as in {settings.record_info_dir}"
            raise wrong(where, f"{name} {found}", as_in)
    return held_out


def _vocabulary(directory: str, manifest: Manifest) -> str:
    """The vocabulary that records were made with."""
    path = os.path.normpath(os.path.join(directory, manifest.sp_model))
    return f"the vocabulary {path} of {manifest.vocab_size:,} pieces"


def note_trained_on(held_out: Manifest, manifest: Manifest, flag: str) -> None:
    """Notes held-out records of text that is trained on.

    Args:
      held_out: that of the held-out records.
      manifest: that of the training records.
      flag: what named the held-out records.
    """
    made, other = held_out.made_from, manifest.made_from
    # A larger part of the training records' text may be left out there than is held out here.
    is_other_part = made.get("split") == "heldout" and other.get("split") == "train"
    if is_other_part and made["heldout_share"] <= other["heldout_share"]:
        return
    trained = {stream["sha256"] for stream in manifest.streams}
    shares_streams = any(stream["sha256"] in trained for stream in held_out.streams)
    content = made.get("input_content")
    if shares_streams or content is not None and content == other.get("input_content"):
        _log.warning(
            "note: %s: its text is trained on: their loss says little about other texts; "
            "--split=train and --split=heldout of xlnet data make take different documents",
            flag,
        )


def with_lengths(
    settings: PretrainingSettings, manifest: Manifest
) -> PretrainingSettings:
    """The settings with the lengths that follow from those of the records, if not given."""
    seq_len, reuse_len = manifest.seq_len, manifest.reuse_len
    return dataclasses.replace(
        settings,
        num_predict=settings.num_predict or max(1, seq_len // 6),
        perm_size=settings.perm_size or max(reuse_len, seq_len - reuse_len),
    )


def choose_permutation(
    settings: PretrainingSettings, manifest: Manifest, is_read: bool = True
) -> Permutation:
    """The rule for sampling targets.

    Args:
      settings: of the run.
      manifest: of the records.
      is_read: whether the targets are used; if not, one is sampled.

    Raises:
      UserError: more targets than a sequence can have, or no such factorization order.
    """
    settings = with_lengths(settings, manifest)
    permutation = Permutation(
        reuse_len=manifest.reuse_len,
        num_predict=settings.num_predict if is_read else 1,
        perm_size=settings.perm_size,
        mask_alpha=settings.mask_alpha,
        mask_beta=settings.mask_beta,
        mask_mode=settings.mask_mode,
        max_ngram=settings.max_ngram,
        factorization_order=settings.factorization_order,
    )
    permutation.check(manifest.seq_len)
    return permutation
