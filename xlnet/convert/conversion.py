"""Converts a folder of Hugging Face's library to a checkpoint of ours, and back."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from xlnet.convert import config_json, tokenizer_files, weights
from xlnet.corpus.tokenizer import SPIECE_NAME, Tokenizer
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.runs import run_document
from xlnet.runs.run_document import RunDocument
from xlnet.settings.network import CONFIG_NAME, XLNetConfig
from xlnet.settings.training import RELEASED_NAME
from xlnet.support import files
from xlnet.support.errors import wrong

_log = logging.getLogger(__name__)


def is_theirs(source: str) -> bool:
    """Whether `source` is a folder of that library, not a checkpoint of ours."""
    return os.path.exists(os.path.join(source, config_json.NAME))


def from_huggingface(
    source: str,
    target: str,
    columns: Mapping[str, Any],
    spiece_model_file: str | None = None,
) -> None:
    """Converts the folder `source` to the directory `target`, which must be new or empty.

    A fine-tuned model becomes a model directory, ready to predict, for files with `columns`, fields
    of `ClassifierSettings`. Any other model becomes weights to start from, like the released ones.
    """
    path = os.path.join(source, config_json.NAME)
    entries = config_json.read(files.read_json(path, "config"), path)
    config = config_json.architecture(entries, path)
    tokenizer, length = tokenizer_files.read(source, spiece_model_file)
    _check_size(tokenizer, config)
    document = config_json.describe_theirs(entries, tokenizer, columns, length)
    pairs = weights.pairs(entries, config, document.task)
    tensors = weights.read_folder(source)
    ours, left_over = weights.to_ours(tensors, pairs, source)
    with files.new_directory(target) as directory:
        run_document.write(directory, document, config, tokenizer)
        # Weights to start from have no step, as the released ones. A model directory has step 0.
        name = RELEASED_NAME
        if document.task:
            name = "model.ckpt-0"
            ours["global_step"] = np.array(0, np.int64)
        checkpoint.write_arrays(os.path.join(directory, name), ours)
        checkpoint.write_state_file(directory)
    _say(source, target, entries, tensors, left_over)


def to_huggingface(
    source: str, target: str, spiece_model_file: str | None = None
) -> None:
    """Converts a checkpoint of ours to the folder `target`, which must be new or empty.

    `source` is a prefix or a directory; of a model directory the best checkpoint is taken, if it
    has one.
    """
    best = best_checkpoint.best_or_newest(source)
    prefix = best or checkpoint.resolve(source, "input")
    directory = os.path.dirname(prefix)
    config = XLNetConfig(json_path=os.path.join(directory, CONFIG_NAME))
    vocabulary = spiece_model_file or os.path.join(directory, SPIECE_NAME)
    files.require_file(vocabulary, "spiece_model_file")
    tokenizer = Tokenizer(vocabulary)
    run_document.check_vocabulary(directory, tokenizer, "input")
    _check_size(tokenizer, config)
    # What the checkpoint is, in their terms, and its weights by their names.
    ours = checkpoint.read_weights(prefix)
    run = run_document.read(directory) or RunDocument("", None, {})
    entries = config_json.describe_ours(run, config, weights.LM_BIAS in ours)
    pairs = weights.pairs(entries, config, run.task)
    # Fine-tuned models have no mask embedding, and that library expects one.
    no_mask = np.zeros([1, 1, config.d_model], np.float32)
    ours.setdefault(weights.MASK_EMBEDDING, no_mask)
    tensors = weights.to_theirs(ours, pairs, prefix)
    with files.new_directory(target) as folder:
        length = run.resolved.get("max_seq_length")
        entries.update(tokenizer_files.write(folder, tokenizer, length))
        entries["dtype"] = "float32"
        files.write_json(os.path.join(folder, config_json.NAME), entries)
        weights.write_file(os.path.join(folder, weights.WEIGHTS_NAME), tensors)
    left_over = set(ours) - {pair.ours for pair in pairs}
    _say(prefix, target, entries, tensors, left_over)


def _check_size(tokenizer: Tokenizer, config: XLNetConfig) -> None:
    """Raises UserError where a vocabulary is not that of the embedding."""
    if tokenizer.vocab_size != config.n_token:
        found = f"{tokenizer.vocab_size} pieces"
        expected = f"{config.n_token}, the rows of the embedding"
        raise wrong(tokenizer.path, found, expected)


def _say(
    source: str,
    target: str,
    entries: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    left_over: Collection[str],
) -> None:
    """Logs what was converted, and the names of weights that have no counterpart."""
    count = sum(array.size for array in tensors.values())
    name = entries["architectures"][0]
    _log.info("%s -> %s, %s: %s parameters", source, target, name, f"{count:,}")
    if left_over:
        names = ", ".join(sorted(left_over))
        _log.warning("note: %d weights are not used: %s", len(left_over), names)
