"""Converts a folder of Hugging Face's library to a checkpoint of ours, and back."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping
from typing import Any, Optional

import numpy as np

from xlnet.convert import config_json, tokenizer_files, weights
from xlnet.corpus.tokenizer import SPIECE_NAME, Tokenizer
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.runs import model_files, run_document
from xlnet.runs.run_document import RunDocument
from xlnet.settings.network import CONFIG_NAME, XLNetConfig
from xlnet.settings.training import RELEASED_NAME
from xlnet.support import files
from xlnet.support.errors import UserError, wrong

_log = logging.getLogger(__name__)
_LENGTH = 512  # of a text, by default [tokens]

# Settings here that are entries of their config under the same name.
_SHARED = ("clamp_len", "mem_len", "same_length")


def is_theirs(source: str) -> bool:
    """Whether `source` is a folder of that library, not a checkpoint of ours."""
    names = (config_json.NAME, weights.WEIGHTS_NAME, weights.INDEX_NAME)
    return any(os.path.exists(os.path.join(source, name)) for name in names)


# ---- theirs to ours ----


def from_huggingface(
    source: str,
    target: str,
    columns: Mapping[str, Any],
    max_seq_length: Optional[int] = None,
    spiece_model_file: Optional[str] = None,
    uncased: Optional[bool] = None,
    keep_accents: Optional[bool] = None,
) -> None:
    """Converts the folder `source` to the directory `target`, which must be new or empty.

    A model with a vocabulary and a task of ours becomes a model directory, ready to predict, for
    files with `columns`, fields of `ClassifierSettings`. Any other model becomes weights to start
    from, like the released ones.
    """
    config_path = os.path.join(source, config_json.NAME)
    entries = config_json.read(files.read_json(config_path, "config"), config_path)
    config = config_json.architecture(entries, config_path)
    tokenizer = tokenizer_files.read(source, spiece_model_file, uncased, keep_accents)
    _check_size(tokenizer, config)
    # Weights, by our names.
    tensors, outputs = weights.read_folder(source), 1
    for name in ("logits_proj.weight", "classifier.weight"):
        outputs = len(tensors.get(name, range(outputs)))
    pairs = config_json.pairs(entries, config, config_json.scope(entries), outputs)
    ours, left_over = weights.to_ours(tensors, pairs, source)
    labels = config_json.labels_of(entries, outputs)

    # A model that no task of this library can use is converted without a task.
    why_not = config_json.why_not(entries)
    if tokenizer is None and not why_not:
        why_not = f"{source} has no vocabulary; --spiece_model_file"
    document = RunDocument("", None, _settings_of(entries))
    if tokenizer is not None:
        document = dataclasses.replace(document, text=run_document.text_of(tokenizer))
        if not why_not:
            length = max_seq_length or tokenizer_files.max_length(source) or _LENGTH
            document = config_json.describe(entries, labels, tokenizer, columns, length)
    document = dataclasses.replace(document, huggingface=entries)
    with files.new_directory(target) as directory:
        run_document.write(directory, document, config, tokenizer)
        # Weights to start from have no step, as the released ones. A model directory has step
        # 0, and is read as a program would read it: what it could not use is not written.
        if document.task is None:
            checkpoint.write_arrays(os.path.join(directory, RELEASED_NAME), ours)
        else:
            arrays = dict(ours, global_step=np.array(0, np.int64))
            checkpoint.write_arrays(os.path.join(directory, "model.ckpt-0"), arrays)
            checkpoint.write_state_file(directory)
            try:
                model_files.read(directory)
            except UserError as e:
                raise UserError(
                    f"{source}: {str(e).replace(directory, target)}"
                ) from None
    _say(f"{entries['architectures'][0]} -> {target}", entries, ours, left_over)
    if why_not and entries["architectures"][0] not in (
        config_json.NETWORK,
        config_json.LM,
    ):
        _log.warning("note: weights to start from, without a task: %s", why_not)


def _settings_of(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that weights without a task have: how far apart positions may be, and what they
    may see."""
    settings = {"clamp_len": entries["clamp_len"]}
    if entries["attn_type"] == "uni":
        settings["objective"] = "causal"
    if entries["same_length"] and entries["mem_len"]:
        settings.update(same_length=True, mem_len=entries["mem_len"])
    return settings


def _check_size(tokenizer: Optional[Tokenizer], config: XLNetConfig) -> None:
    """Raises UserError where a vocabulary is not that of the embedding."""
    if tokenizer is not None and tokenizer.vocab_size != config.n_token:
        found = f"{tokenizer.vocab_size} pieces"
        raise wrong(
            tokenizer.path, found, f"{config.n_token}, the rows of the embedding"
        )


def _say(
    what: str,
    entries: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    left_over: list[str],
) -> None:
    count = sum(array.size for array in arrays.values())
    labels = ", ".join(entries.get("id2label", {}).values())
    end = f"; labels {labels}" if labels else ""
    _log.info("%s: %d weights, %s parameters%s", what, len(arrays), f"{count:,}", end)
    if left_over:
        _log.warning(
            "note: %d weights are not used: %s", len(left_over), ", ".join(left_over)
        )


# ---- ours to theirs ----


def to_huggingface(
    source: str,
    target: str,
    dtype: str = "float32",
    spiece_model_file: Optional[str] = None,
    uncased: Optional[bool] = None,
    keep_accents: Optional[bool] = None,
) -> None:
    """Converts a checkpoint of ours to the folder `target`, which must be new or empty.

    `source` is a prefix or a directory; of a model directory the best checkpoint is taken, if it
    has one. `dtype` is one of `weights.DTYPES`.
    """
    best = os.path.join(source, best_checkpoint.BEST)
    if os.path.isdir(best) and checkpoint.newest(best):
        _log.info(
            "the best checkpoint of %s is taken; %s/latest is the newest",
            source,
            source,
        )
        source = best
    prefix = checkpoint.resolve(source, "input")
    directory = os.path.dirname(prefix)
    config = XLNetConfig(json_path=os.path.join(directory, CONFIG_NAME))
    # What the checkpoint is, in their terms, and its weights by their names.
    ours = checkpoint.read_weights(prefix)
    run = run_document.read(directory) or RunDocument("", None, {})
    entries = _describe_ours(run, config, weights.LM_BIAS in ours)
    tokenizer = None
    path = spiece_model_file or os.path.join(directory, SPIECE_NAME)
    if spiece_model_file or os.path.exists(path):
        tokenizer = Tokenizer(path, uncased, keep_accents)
        run_document.check_vocabulary(directory, tokenizer, "input")
        _check_size(tokenizer, config)
    else:
        _log.warning(
            "note: %s has no vocabulary, so %s has no tokenizer", directory, target
        )
    scope = run.task["head"] if run.task else config_json.scope(entries)
    outputs = len(entries.get("id2label", {})) or 1
    wanted = config_json.pairs(entries, config, scope, outputs)
    # Fine-tuned models have no mask embedding, and that library expects one.
    no_mask = np.zeros([1, 1, config.d_model], np.float32)
    tensors = weights.to_theirs(
        {weights.MASK_EMBEDDING: no_mask, **ours}, wanted, prefix
    )
    # The folder is written completely or not at all.
    entries["dtype"] = dtype
    with files.new_directory(target) as aside:
        if tokenizer is not None:
            length = run.resolved.get("max_seq_length")
            entries.update(tokenizer_files.write(aside, tokenizer, length))
        files.write_json(
            os.path.join(aside, config_json.NAME), dict(sorted(entries.items()))
        )
        weights.write_file(os.path.join(aside, weights.WEIGHTS_NAME), tensors, dtype)
    left_over = sorted(set(ours) - {pair.ours for pair in wanted})
    _say(
        f"{prefix} -> {target}, {entries['architectures'][0]}",
        entries,
        tensors,
        left_over,
    )


def _describe_ours(
    run: RunDocument, config: XLNetConfig, has_lm: bool
) -> dict[str, Any]:
    """The entries of a checkpoint: those of the config that its weights came with; in place of them
    settings of the run that trained it since; in place of both, what its task says."""
    name = config_json.LM if has_lm else config_json.NETWORK
    entries = dict(config_json.DEFAULTS, model_type="xlnet", architectures=[name])
    entries.update(run.huggingface or {})
    entries.update(config_json.of_architecture(config))
    for name in _SHARED:
        if name in run.resolved:
            entries[name] = run.resolved[name]
    if "objective" in run.resolved:
        # One direction is an attention type there.
        entries["attn_type"] = "uni" if run.resolved["objective"] == "causal" else "bi"
    entries.update(config_json.to_huggingface_model(run))
    return config_json.read(entries, run.path)
