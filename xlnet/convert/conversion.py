"""Converts a folder of Hugging Face's library to a checkpoint of ours, and back. "Ours" and "here"
mean this library, "theirs" and "there" that one."""

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


def from_huggingface(
    source: str,
    target: str,
    columns: Mapping[str, Any],
    spiece_model_file: str | None = None,
) -> None:
    """Converts a folder of theirs to a directory of ours.

    A fine-tuned model becomes a model directory, ready to predict. Any other model becomes weights
    to start from, like the released ones.

    Args:
      source: the folder.
      target: the directory, which must be new or empty.
      columns: `text_b_column` and `choice_columns` of `ClassifierSettings`, those of the files to
        predict, or some of these.
      spiece_model_file: the vocabulary; None: that of the folder.
    """
    path = os.path.join(source, config_json.NAME)
    entries = config_json.checked_entries(files.read_json(path, "config"), path)
    config = config_json.architecture(entries, path)
    tokenizer, length = tokenizer_files.read(source, spiece_model_file)
    _check_size(tokenizer, config)
    document = config_json.run_document_of(entries, tokenizer, columns, length)
    pairs = weights.pairs(entries, config, document.task)
    tensors = weights.read_folder(source)
    variables, left_over = weights.to_ours(tensors, pairs, source)
    with files.new_directory(target) as directory:
        run_document.write(directory, document, config, tokenizer)
        # Weights to start from have no step, as the released ones. A model directory has step 0.
        name = RELEASED_NAME
        if document.task:
            name = "model.ckpt-0"
            variables["global_step"] = np.array(0, np.int64)
        checkpoint.write_arrays(os.path.join(directory, name), variables)
        checkpoint.write_state_file(directory)
    _log_conversion(source, target, entries, tensors, left_over)


def to_huggingface(
    source: str, target: str, spiece_model_file: str | None = None
) -> None:
    """Converts a checkpoint of ours to a folder of theirs.

    Args:
      source: the checkpoint's prefix, or a directory; of a model directory the best checkpoint is
        taken, if it has one.
      target: the folder, which must be new or empty.
      spiece_model_file: the vocabulary; None: that next to the checkpoint.
    """
    # None: not a directory with checkpoints
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
    variables = checkpoint.read_weights(prefix)
    # Released checkpoints have no document.
    document = run_document.read(directory) or RunDocument(
        path="", program=None, resolved={}
    )
    has_lm = weights.LM_BIAS in variables
    entries = config_json.entries_of(document, config, has_lm)
    pairs = weights.pairs(entries, config, document.task)
    # Fine-tuned models have no mask embedding, and that library expects one.
    no_mask = np.zeros([1, 1, config.d_model], np.float32)
    variables.setdefault(weights.MASK_EMBEDDING, no_mask)
    tensors = weights.to_theirs(variables, pairs, prefix)
    with files.new_directory(target) as folder:
        length = document.resolved.get("max_seq_length")
        ids = tokenizer_files.write(folder, tokenizer, length)
        entries.update(ids, dtype="float32")
        files.write_json(os.path.join(folder, config_json.NAME), entries)
        weights.write_file(os.path.join(folder, weights.WEIGHTS_NAME), tensors)
    left_over = set(variables) - {pair.ours for pair in pairs}
    _log_conversion(prefix, target, entries, tensors, left_over)


def _check_size(tokenizer: Tokenizer, config: XLNetConfig) -> None:
    """Raises UserError unless the vocabulary has a piece for each row of the word embedding."""
    if tokenizer.vocab_size != config.n_token:
        found = f"{tokenizer.vocab_size} pieces"
        expected = f"{config.n_token}, the rows of the embedding"
        raise wrong(tokenizer.path, found, expected)


def _log_conversion(
    source: str,
    target: str,
    entries: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    left_over: Collection[str],
) -> None:
    """Logs what was converted: their class and number of parameters, as of the `entries` and
    `tensors` of their side; warns of the weights of the source that have no counterpart, which
    `left_over` names."""
    count = sum(tensor.size for tensor in tensors.values())
    name = entries["architectures"][0]
    _log.info("%s -> %s, %s: %s parameters", source, target, name, f"{count:,}")
    if left_over:
        names = ", ".join(sorted(left_over))
        _log.warning("note: %d weights are not used: %s", len(left_over), names)
