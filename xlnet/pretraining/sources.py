"""The data of a pretraining run: manifests, and the rule for sampling targets."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, Optional

from xlnet import files
from xlnet.batches.permutation import Permutation
from xlnet.errors import UserError
from xlnet.records.manifest import MANIFEST_NAME, Manifest
from xlnet.settings.pretraining import PretrainingSettings

_log = logging.getLogger(__name__)

_TFRECORDS = "tfrecords"


def find_records(directory: str) -> str:
    """The directory of the records for the path `directory`: that path or, as the original's
    command lines name `<save_dir>/tfrecords`, the one below or above."""
    parent, name = os.path.split(directory.rstrip("/"))
    others = [os.path.join(directory, _TFRECORDS)] + ([parent or "."] if name == _TFRECORDS else [])
    for other in (directory, *others):
        if files.exists(os.path.join(other, MANIFEST_NAME)):
            return other
    return directory


def read_manifest(directory: str, spiece_model_file: Optional[str]) -> Manifest:
    """The manifest of the records in a directory; another vocabulary than theirs is an error."""
    manifest = Manifest.read(directory)
    if spiece_model_file:
        files.require_file(spiece_model_file, "spiece_model_file")
        if files.sha256(spiece_model_file) != manifest.sp_model_sha256:
            raise UserError(
                "spiece_model_file: {} is not the vocabulary of the records in {}, "
                "which were made with {} ({} pieces); leave the flag out".format(
                    spiece_model_file, directory, *_vocabulary(directory, manifest)
                )
            )
    return manifest


def choose_permutation(
    settings: PretrainingSettings, manifest: Manifest, is_read: bool = True
) -> Permutation:
    """The rule for sampling targets. is_read: whether the targets are used; if not, one is sampled.

    Raises:
      UserError: more targets than a sequence can have, or no such factorization order.
    """
    permutation = Permutation(
        reuse_len=manifest.reuse_len,
        num_predict=settings.num_predict if is_read else 1,
        perm_size=settings.perm_size,
        mask_alpha=settings.mask_alpha,
        mask_beta=settings.mask_beta,
        mask_mode=settings.mask_mode,
        factorization_order=settings.factorization_order,
    )
    permutation.check(manifest.seq_len)
    return permutation


def held_out_manifest(settings: PretrainingSettings, manifest: Manifest) -> Optional[Manifest]:
    """The manifest of the held-out records, whose sequences must be as the training records'."""
    directory = settings.eval_record_info_dir
    if not directory:
        return None
    held_out = Manifest.read(directory, "eval_record_info_dir")
    if held_out.sp_model_sha256 != manifest.sp_model_sha256:
        own = _vocabulary(settings.record_info_dir, manifest)
        raise UserError(
            "eval_record_info_dir: the records in {} were made with another vocabulary, {} ({} "
            "pieces), than those in {}, {} ({} pieces); make them again with --sp_path={}".format(
                directory, *_vocabulary(directory, held_out), settings.record_info_dir, *own, own[0]
            )
        )
    for name in ("seq_len", "reuse_len", "uncased", "keep_accents"):
        if getattr(held_out, name) != getattr(manifest, name):
            raise UserError(
                f"eval_record_info_dir: {name} is {getattr(held_out, name)} in {directory}, "
                f"{getattr(manifest, name)} in {settings.record_info_dir}"
            )
    return held_out


# What decides where documents and sentences begin and end, of `Manifest.made_from`.
_CUT_DOCUMENTS = ("text_format", "document_separator", "json_field", "sentence_rules")


def note_trained_on(held_out: Manifest, manifest: Manifest, flag: str) -> None:
    """Notes how many sequences of held-out records are trained on.

    Those of text streams that both have, however their files are called; and all where both were
    made of the same text, whose parts overlap. The same sentences in another corpus are not found:
    sequences begin at other places there.

    Args:
      manifest: that of the training records.
      flag: what named the held-out records.
    """
    total = sum(stream["windows"] for stream in held_out.streams)
    trained = {stream["sha256"] for stream in manifest.streams}
    count = sum(stream["windows"] for stream in held_out.streams if stream["sha256"] in trained)
    made, other = held_out.made_from, manifest.made_from
    why = ""
    # Merged records have no checksum of the text, but that of the names and sizes of its files.
    name = "input_content" if "input_content" in made and "input_content" in other else "input"
    is_same_text = made.get(name) is not None and made.get(name) == other.get(name)
    if is_same_text:
        low, high = _part_of_text(made)
        other_low, other_high = _part_of_text(other)
        cut_differently = [name for name in _CUT_DOCUMENTS if made.get(name) != other.get(name)]
        if cut_differently:
            # Documents are held out by a hash of their sentences. Where these differ, the parts are
            # drawn independently of each other.
            share = other_high - other_low
            setting = cut_differently[0]
            why = (
                f": {setting} is {made.get(setting)} for them, {other.get(setting)} for the "
                "training records"
            )
        else:
            # Example: with 5 % held out in training and 20 % here, three quarters of the documents
            # held out here were trained on.
            share = max(0.0, min(high, other_high) - max(low, other_low)) / (high - low)
        count = max(count, round(total * share))
    if count:
        _log.warning(
            "note: %s: about %s of %s sequences (%.1f %%) are trained on%s: their loss says little "
            "about other texts",
            flag,
            f"{count:,}",
            f"{total:,}",
            100 * count / total,
            why,
        )


def _part_of_text(made: Mapping[str, Any]) -> tuple[float, float]:
    """The hashes of the documents that records were made of, an interval in [0, 1)."""
    share = made["heldout_share"]
    return {"all": (0.0, 1.0), "heldout": (0.0, share), "train": (share, 1.0)}[made["split"]]


def _vocabulary(directory: str, manifest: Manifest) -> tuple[str, str]:
    """(path, size) of the vocabulary that records were made with."""
    return (
        os.path.normpath(os.path.join(directory, manifest.sp_model)),
        f"{manifest.vocab_size:,}",
    )
