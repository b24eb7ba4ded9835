"""The data of a pretraining run: manifests, and the rule for sampling targets."""

from __future__ import annotations

import os
from typing import Optional, Union

from xlnet import files
from xlnet.batches.permutation import Permutation
from xlnet.errors import UserError
from xlnet.records import legacy
from xlnet.records.manifest import MANIFEST_NAME, Manifest
from xlnet.settings.pretraining import PretrainingSettings

_TFRECORDS = "tfrecords"

AnyManifest = Union[Manifest, legacy.LegacyManifest]


def find_records(directory: str) -> str:
    """The directory of the records for the path `directory`.

    The original data_utils.py writes to `<save_dir>/tfrecords`, ours to `<save_dir>`; either path
    finds either format. A directory without records is returned as it is.
    """
    parent, name = os.path.split(directory.rstrip("/"))
    others = [os.path.join(directory, _TFRECORDS)] + ([parent or "."] if name == _TFRECORDS else [])
    return next((other for other in [directory, *others]
                 if legacy.is_in(other) or files.exists(os.path.join(other, MANIFEST_NAME))),
                directory)


def read_manifest(directory: str, spiece_model_file: Optional[str]) -> AnyManifest:
    """The `Manifest` of our records, or the `LegacyManifest` of the original implementation's.

    Args:
      directory: of the records.
      spiece_model_file: the vocabulary of the original's records; None: the file that they name.
        Ours contain their vocabulary, and another one is an error.
    """
    if legacy.is_in(directory):
        return legacy.LegacyManifest.read(directory, spiece_model_file)
    manifest = Manifest.read(directory)
    if spiece_model_file:
        files.require_file(spiece_model_file, "spiece_model_file")
        if files.sha256(spiece_model_file) != manifest.sp_model_sha256:
            raise UserError("spiece_model_file: %s is not the vocabulary of the records in %s"
                            % (spiece_model_file, directory))
    return manifest


def choose_permutation(settings: PretrainingSettings, manifest: AnyManifest,
                       is_read: bool = True) -> Permutation:
    """The rule for sampling targets.

    Args:
      settings: of pretraining.
      manifest: of the records.
      is_read: whether the targets are used; if not, one is sampled.

    Raises:
      UserError: more targets than a sequence can have.
    """
    is_sampled = not isinstance(manifest, legacy.LegacyManifest)
    permutation = Permutation(
        reuse_len=manifest.reuse_len,
        num_predict=1 if is_sampled and not is_read else settings.num_predict,
        perm_size=settings.perm_size, mask_alpha=settings.mask_alpha, mask_beta=settings.mask_beta,
        mask_mode=settings.mask_mode)
    permutation.check(manifest.seq_len)
    if isinstance(manifest, legacy.LegacyManifest):
        manifest.check_targets(settings.num_predict)
    return permutation


def held_out_manifest(settings: PretrainingSettings,
                      manifest: AnyManifest) -> Optional[AnyManifest]:
    """The manifest of the held-out records; their sequences must have the training records'
    shape."""
    directory = settings.eval_record_info_dir
    if not directory:
        return None
    held_out = read_manifest(directory, os.path.join(settings.record_info_dir, manifest.sp_model)
                             if legacy.is_in(directory) else None)
    if isinstance(held_out, legacy.LegacyManifest):
        held_out.check_targets(settings.num_predict)
    for name in ("seq_len", "reuse_len", "sp_model_sha256", "uncased", "keep_accents"):
        if getattr(held_out, name) != getattr(manifest, name):
            raise UserError("eval_record_info_dir: %s is %s in %s, %s in %s" % (
                name, getattr(held_out, name), directory, getattr(manifest, name),
                settings.record_info_dir))
    return held_out
