"""Converts a folder of Hugging Face's library to a checkpoint of ours, and back."""

from __future__ import annotations

import dataclasses
import logging
import os
import tempfile
from collections.abc import Collection, Mapping
from typing import Any, Optional

import numpy as np

from xlnet import files
from xlnet.convert import (
    config_json,
    huggingface_task,
    safetensors,
    tokenizer_files,
    tokenizer_json,
    weights,
)
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.errors import UserError
from xlnet.model_directory import model_files, run_document
from xlnet.model_directory.run_document import RunDocument
from xlnet.settings.network import CONFIG_NAME, XLNetConfig
from xlnet.settings.training import RELEASED_NAME
from xlnet.tokenization.tokenizer import SPIECE_NAME, Tokenizer

_log = logging.getLogger(__name__)
_LENGTH = 512  # of a text, by default [tokens]


def is_theirs(source: str) -> bool:
    """Whether `source` is a folder of that library, not a checkpoint of ours."""
    return any(
        os.path.exists(os.path.join(source, name))
        for name in (config_json.NAME, *safetensors.NAMES)
    )


# ---- theirs to ours ----


def from_huggingface(
    source: str,
    target: str,
    columns: huggingface_task.Columns,
    spiece_model_file: Optional[str] = None,
    uncased: Optional[bool] = None,
    keep_accents: Optional[bool] = None,
) -> None:
    """Converts the folder `source` to the directory `target`, which must be new or empty.

    A model with a vocabulary and a task of ours becomes a model directory, ready to predict, for
    files with `columns`. Any other model becomes weights to start from, like the released ones.
    """
    config_path = os.path.join(source, config_json.NAME)
    model = config_json.read(config_path)
    with tempfile.TemporaryDirectory(prefix="xlnet-vocabulary-") as scratch:
        tokenizer = tokenizer_files.read(source, scratch, spiece_model_file, uncased, keep_accents)
        if tokenizer is not None and tokenizer.vocab_size != model.config.n_token:
            raise UserError(
                f"{tokenizer.path} has {tokenizer.vocab_size} pieces, but vocab_size is "
                f"{model.config.n_token} in {config_path}; tokens that were added "
                "to the vocabulary have no place here"
            )
        # Weights, by our names.
        tensors = safetensors.read_folder(source, model.class_name)
        model = _with_labels_and_biases_of_the_weights(model, tensors)
        pairs = model.pairs(huggingface_task.scope(model), _outputs(tensors))
        ours, left_over = weights.to_ours(tensors, pairs, source)

        # A model that no task of this library can use is converted without a task.
        why_not = huggingface_task.why_not(model) or (
            f"no {SPIECE_NAME} and no {tokenizer_json.NAME} in {source}; give --spiece_model_file"
            if tokenizer is None
            else None
        )
        if why_not:
            _refuse_columns(columns, why_not)
        document = RunDocument("", None, _settings_of(model))
        if tokenizer is not None:
            document = dataclasses.replace(document, text=run_document.text_of(tokenizer))
        if tokenizer is not None and not why_not:
            document = huggingface_task.describe(
                model,
                tokenizer,
                columns,
                columns.max_seq_length or tokenizer_files.max_length(source) or _LENGTH,
            )
        with files.new_directory(target) as directory:
            document = dataclasses.replace(document, huggingface=config_json.carried(model))
            run_document.write(directory, document, model.config, tokenizer)
            # Weights to start from have no step, as the released ones. A model directory has step
            # 0, and is read as a program would read it: what it could not use is not written.
            if document.task is None:
                checkpoint.write_arrays(os.path.join(directory, RELEASED_NAME), ours)
            else:
                checkpoint.write_arrays(
                    os.path.join(directory, "model.ckpt-0"),
                    dict(ours, global_step=np.array(0, np.int64)),
                )
                checkpoint.write_state_file(directory)
                try:
                    model_files.read(directory)
                except UserError as e:
                    raise UserError(
                        f"{source} gives a model that cannot be used here: "
                        f"{str(e).replace(directory, target)}"
                    ) from None
    _say(f"{model.class_name} -> {target}", model, ours)
    _note_pooling(model)
    if why_not and model.head not in (config_json.NETWORK, weights.LM):
        _log.warning("note: weights to start from, without a task: %s", why_not)
    _note_left_over(left_over, source)


def _refuse_columns(columns: huggingface_task.Columns, why_not: str) -> None:
    """Raises UserError for settings of a task where none is written."""
    for field in dataclasses.fields(columns):
        if getattr(columns, field.name) != field.default:
            raise UserError(
                f"{field.name} is for a model with a task, but only weights to start from are "
                f"written: {why_not}"
            )


def _settings_of(model: config_json.Model) -> dict[str, Any]:
    """The settings that weights without a task have: how far apart positions may be, and the
    objective, which is that of a network that reads from left to right if none is named."""
    settings = {}
    if "clamp_len" in model.carried:
        settings["clamp_len"] = model.carried["clamp_len"]
    # `_describe_ours` is the opposite direction.
    if config_json.OBJECTIVE in model.carried:
        settings["objective"] = model.carried[config_json.OBJECTIVE]
    elif model.carried.get("attn_type") == "uni":
        settings["objective"] = "causal"
    if model.carried.get("same_length") and model.carried.get("mem_len"):
        settings.update(same_length=True, mem_len=model.carried["mem_len"])
    return settings


def _outputs(tensors: Mapping[str, np.ndarray]) -> int:
    """The outputs C of a layer that has one for each label; 1 without such a layer."""
    for name in ("logits_proj.weight", "classifier.weight"):
        if name in tensors:
            return len(tensors[name])
    return 1


def _with_labels_and_biases_of_the_weights(
    model: config_json.Model, tensors: Mapping[str, np.ndarray]
) -> config_json.Model:
    """The model with its labels, and with untied biases if those of the layers differ."""
    config = model.config
    # That library gives each layer its own biases, whatever its config says.
    if not config.untie_r and not weights.biases_are_tied(tensors, config, model.prefix):
        _log.warning(
            "note: untie_r is False, but the layers' attention biases differ, and that "
            "library uses each layer's own: untie_r is True here"
        )
        config = XLNetConfig(**dict(config.to_dict(), untie_r=True))
    labels = model.labels
    if model.head in (weights.SEQUENCE, weights.TOKENS):
        labels = huggingface_task.names_of(model, _outputs(tensors))
    return dataclasses.replace(model, config=config, labels=labels)


def _note_pooling(model: config_json.Model) -> None:
    if model.head in (weights.SEQUENCE, weights.CHOICE) and model.summary_type != "last":
        _log.warning(
            "note: summary_type %s leaves padding out here; there it counts", model.summary_type
        )


def _note_left_over(names: Collection[str], source: str) -> None:
    if names:
        _log.warning("note: %d only in %s, not used: %s", len(names), source, ", ".join(names))


def _say(what: str, model: config_json.Model, arrays: Mapping[str, np.ndarray]) -> None:
    _log.info(
        "%s: %d weights, %s parameters%s",
        what,
        len(arrays),
        f"{sum(array.size for array in arrays.values()):,}",
        "; labels " + ", ".join(model.labels) if model.labels else "",
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
    has one. `dtype` is one of `safetensors.DTYPES`.
    """
    best = os.path.join(source, best_checkpoint.BEST)
    if os.path.isdir(best) and checkpoint.newest(best):
        _log.info("the best checkpoint of %s is taken; %s/latest is the newest", source, source)
        prefix = checkpoint.resolve(best, "source")
    else:
        prefix = checkpoint.resolve(source, "source")
    directory = os.path.dirname(prefix)
    config = XLNetConfig(json_path=os.path.join(directory, CONFIG_NAME))
    # What the checkpoint is, in common terms, and its weights by their names.
    ours = checkpoint.read_weights(prefix)
    run = run_document.read(directory) or RunDocument("", None, {})
    model, scope = _describe_ours(run, config, ours)
    tokenizer = _find_tokenizer(directory, config, spiece_model_file, uncased, keep_accents)
    values = config_json.describe(model, dtype)
    wanted = model.pairs(scope, 1 if model.labels is None else len(model.labels))
    # Fine-tuned models have no mask embedding, and that library expects one.
    no_mask = np.zeros([1, 1, config.d_model], np.float32)
    tensors = weights.to_theirs({weights.MASK_EMBEDDING: no_mask, **ours}, wanted, prefix)
    # The folder is written completely or not at all.
    with files.new_directory(target) as aside:
        if tokenizer is not None:
            values.update(
                tokenizer_files.write(aside, tokenizer, run.resolved.get("max_seq_length"))
            )
        files.write_json(os.path.join(aside, config_json.NAME), values)
        safetensors.write(os.path.join(aside, safetensors.WEIGHTS_NAME), tensors, dtype)
    _say(f"{prefix} -> {target}, {model.class_name}", model, tensors)
    if tokenizer is None:
        _log.warning("note: no %s next to %s, so %s has no tokenizer", SPIECE_NAME, prefix, target)
    if model.head == weights.SPANS:
        _log.warning(
            "note: load it with transformers.%s; AutoModelForQuestionAnswering builds %s, "
            "whose output layer begins with random numbers",
            model.class_name,
            config_json.CLASSES[weights.SIMPLE_SPANS],
        )
    _note_pooling(model)
    _note_left_over(sorted(set(ours) - {pair.ours for pair in wanted}), prefix)


def _describe_ours(
    run: RunDocument, config: XLNetConfig, ours: Mapping[str, np.ndarray]
) -> tuple[config_json.Model, str]:
    """The `config_json.Model` of a checkpoint, and the name of its output layer."""
    # A task decides; without one, what it came from; else what its weights are.
    came = config_json.parse(run.huggingface, run.path) if run.huggingface else None
    found = huggingface_task.read(run, config)
    if found:
        model, scope = found
    elif came:
        model, scope = dataclasses.replace(came, config=config), huggingface_task.scope(came)
    else:
        head = weights.LM if weights.LM_BIAS in ours else config_json.NETWORK
        model, scope = config_json.Model(config, head), ""
    # The entries of their config: those of the config that the weights came with; in place of them,
    # settings of the run that trained them since, under their names; in place of both, what the
    # task says.
    carried = dict(came.carried) if came else {}
    for name in ("clamp_len", "mem_len", "same_length"):
        if name in run.resolved:
            carried[name] = run.resolved[name]
    if "objective" in run.resolved:
        objective = run.resolved["objective"]
        # One direction is an attention type there.
        carried["attn_type"] = "uni" if objective == "causal" else "bi"
        carried.pop(config_json.OBJECTIVE, None)
        if objective != "permutation":
            carried[config_json.OBJECTIVE] = objective
    if found:
        carried.update(model.carried)
    return dataclasses.replace(model, carried=carried), scope


def _find_tokenizer(
    directory: str,
    config: XLNetConfig,
    spiece_model_file: Optional[str],
    uncased: Optional[bool],
    keep_accents: Optional[bool],
) -> Optional[Tokenizer]:
    path = spiece_model_file or os.path.join(directory, SPIECE_NAME)
    if not spiece_model_file and not os.path.exists(path):
        return None
    tokenizer = Tokenizer(path, uncased, keep_accents)
    run_document.check_vocabulary(directory, tokenizer)
    if tokenizer.vocab_size != config.n_token:
        raise UserError(
            f"{path} has {tokenizer.vocab_size} pieces, but n_token is {config.n_token}"
        )
    return tokenizer
