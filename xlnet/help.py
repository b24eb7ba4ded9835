"""What `--help` and `--helpfull` show of a program, and by which need its flags are grouped."""

import dataclasses
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from xlnet.settings.fields import REQUIRED, default_of

WIDTH = 100

# The needs in the order in which they come up, and the settings of each. They group the flags of
# programs that have too many for one list, in `--help` and in the reference.
NEEDS: dict[str, tuple[str, ...]] = {
    "What to do": (
        "task_name", "do_train", "do_eval", "do_predict", "do_export", "do_prepro", "objective"),
    "Text that goes in": (
        "input_glob", "text_format", "json_field", "from_raw_text", "split", "heldout_share",
        "on_error", "uncased", "keep_accents", "sp_path", "spiece_model_file", "data_dir",
        "train_file", "dev_file", "validation_file", "eval_file", "test_file", "encoding",
        "delimiter", "dev_share"),
    "Columns of your own files": (
        "text_a_column", "text_b_column", "label_column", "id_column", "choice_columns",
        "query_id_column", "is_regression", "multi_label", "label_separator", "word_column",
        "tag_column", "scheme", "context_column", "question_column", "answer_column",
        "answer_start_column"),
    "Records": (
        "save_dir", "record_info_dir", "eval_record_info_dir", "output_dir", "for_config",
        "seq_len", "reuse_len", "num_streams", "bi_data", "use_eod", "num_passes", "bsz_per_host",
        "tokens_dir", "overwrite", "overwrite_data"),
    "Model and checkpoints": (
        "model_dir", "init_checkpoint", "model_config_path", "save_steps", "max_save",
        "allow_changes", "use_checkpoint", "cls_scope"),
    "Steps and batches": (
        "train_batch_size", "train_steps", "epochs", "grad_accum_steps", "seed", "log_steps"),
    "What is predicted while pretraining": (
        "num_predict", "mask_mode", "mask_alpha", "mask_beta", "perm_size", "mem_len",
        "same_length", "next_segment_loss"),
    "Length of texts": (
        "max_seq_length", "padding", "long_document", "max_segments", "doc_stride",
        "max_query_length"),
    "Learning rate and optimizer": (
        "learning_rate", "warmup_steps", "warmup_share", "decay_method", "min_lr_ratio",
        "lr_layer_decay_rate", "weight_decay", "clip", "adam_epsilon", "average_decay",
        "legacy_optimizer", "on_nan"),
    "Against overfitting": (
        "dropout", "dropatt", "position_dropout", "label_smoothing", "class_weights",
        "freeze_layers"),
    "What the task learns": (
        "summary_type", "use_summ_proj", "ranking_loss", "pairs_per_query", "tagged_pieces",
        "span_head"),
    "Evaluation and the best checkpoint": (
        "eval_split", "eval_steps", "eval_batch_size", "eval_all_ckpt", "metric", "patience",
        "num_trials", "learning_rates", "ranking_cutoff", "highest_grade", "scoring"),
    "Prediction and export": (
        "predict_file", "predict_split", "predict_form", "predict_dir", "predict_output",
        "predict_threshold", "label_thresholds", "max_answer_length", "start_n_top", "end_n_top",
        "n_best_size", "export_dir"),
    "Memory and speed": (
        "precision", "use_bfloat16", "tf32", "recompute", "xla", "deterministic",
        "num_workers", "data_workers"),
    "Devices and machines": (
        "device", "num_core_per_host", "num_hosts", "num_task", "task", "use_tpu", "tpu_name",
        "beam_options"),
    "Architecture and first weights": (
        "n_layer", "d_model", "n_head", "d_head", "d_inner", "ff_activation", "untie_r", "n_token",
        "clamp_len", "init", "init_std", "init_range"),
}
OTHERS = "Others"

Fields = Mapping[str, "dataclasses.Field[Any]"]


def by_need(names: Sequence[str]) -> dict[str, list[str]]:
    """The names of settings by need; without needs that none of them is for."""
    known = {name: need for need, of_need in NEEDS.items() for name in of_need}
    groups: dict[str, list[str]] = {need: [] for need in (*NEEDS, OTHERS)}
    for name in names:
        groups[known.get(name, OTHERS)].append(name)
    for need, group in groups.items():
        group.sort(key=lambda name: NEEDS[need].index(name) if need in NEEDS else 0)
    return {need: group for need, group in groups.items() if group}


def short(about: str, fields: Fields, first: Sequence[str], config: str) -> str:
    """The flags that matter first with what they mean, the others by name.

    Args:
      about: the text above them. fields: all settings of a program, by name.
      first: names of those that matter first. config: the meaning of --config.
    """
    lines = [about.strip(), ""] + ["The flags that matter first:"]
    for name in first:
        lines += flag(fields[name])
    lines += ["", *_wrapped("--config=", config), "",
              "All %d, by need; --helpfull says what they mean:" % len(fields)]
    for need, names in by_need(list(fields)).items():
        lines += textwrap.wrap("%s: %s" % (need, " ".join(names)), WIDTH - 2, initial_indent="  ",
                               subsequent_indent=" " * 6, break_on_hyphens=False)
    return "\n".join(lines)


def full(about: str, fields: Fields, groups: Sequence[type], config: str) -> str:
    """All flags with what they mean: by need, or by class of settings where classes are given.

    Args:
      about, fields, config: as in `short`.
    """
    if not groups:
        parts = by_need(list(fields))
    else:
        parts, seen = {}, set()
        for group in groups:
            names = [field.name for field in dataclasses.fields(group) if field.name not in seen]
            seen |= set(names)
            parts[" ".join((group.__doc__ or "").split())] = sorted(
                names, key=lambda name: default_of(fields[name]) is not REQUIRED)
    lines = [about.strip(), ""]
    for title, names in parts.items():
        lines.append(title)
        for name in names:
            lines += flag(fields[name])
        lines.append("")
    return "\n".join(lines + _wrapped("--config=", config))


def flag(field: "dataclasses.Field[Any]") -> list[str]:
    """The lines about a flag: name, default, meaning, choices."""
    default, choices = default_of(field), field.metadata["choices"]
    return _wrapped("--%s=%s" % (field.name, "" if default is None else default),
                    field.metadata["help"] + (" (%s)" % ", ".join(choices) if choices else ""))


def _wrapped(name, meaning):
    return textwrap.wrap(meaning, WIDTH - 4, initial_indent="  %s  " % name,
                         subsequent_indent=" " * 6)


def commands(command: str, examples: Sequence[str]) -> str:
    """Examples as they may be copied.

    Args:
      command: the program as it is started. examples: what stands behind it.
    """
    return "\n".join(" \\\n".join(textwrap.wrap(
        "%s %s" % (command, example), WIDTH - 4, initial_indent="  ", subsequent_indent=" " * 6,
        break_on_hyphens=False, break_long_words=False)) for example in examples)
