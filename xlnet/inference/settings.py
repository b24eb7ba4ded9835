"""Settings of inference with a trained model; flags and keyword arguments are derived from them.

Annotations are types here, not strings: flags need them. TensorFlow is not imported.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Optional, TypeVar

from xlnet.settings.fields import (
    Settings,
    check_value,
    required,
    same_as,
    setting,
)
from xlnet.settings.finetuning import TaskSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import DeviceSettings
from xlnet.support.errors import wrong

Group = TypeVar("Group", bound=Settings)

BLANK = "___"  # of a text to be filled
BLANKS = re.compile("___+")  # more underscores are one blank, too
CONTEXT = 512  # tokens that a pretrained model reads of a text, at most
MOST_PIECES = 64  # that all blanks of a text may have together


class ModelSettings(Settings):
    """Which trained model: its files, and its precision."""

    model_dir: str = required(
        "model directory (its best checkpoint, or the newest where there is none), "
        "DIRECTORY/latest (the newest), directory with a released checkpoint, its config and its "
        "vocabulary, or checkpoint prefix",
    )
    model_config_path: Optional[str] = setting(
        None, "JSON with the architecture, if it is not next to the checkpoint"
    )
    spiece_model_file: Optional[str] = setting(
        None, "SentencePiece model, if it is not next to the checkpoint"
    )
    precision: str = same_as(NetworkSettings, "precision", default="fp32")
    own_module: Optional[str] = same_as(TaskSettings, "own_module")


class LoadSettings(ModelSettings):
    """Which trained model, and the device on which it runs."""

    device: str = same_as(DeviceSettings, "device")


class FillingSettings(Settings):
    """How blanks are filled."""

    most_pieces: int = setting(
        3,
        "pieces of a blank, at most; each number of them is tried",
        minimum=1,
        maximum=MOST_PIECES,
    )
    order: str = setting(
        "left_to_right",
        "the factorization order of the pieces",
        choices=("left_to_right", "right_to_left"),
    )
    top: int = setting(
        5,
        "fillings that are returned, the likeliest first",
        minimum=1,
        maximum=10_000,
    )
    beams: int = setting(
        50,
        "fillings that are followed from piece to piece, at least top",
        minimum=1,
        maximum=10_000,
    )


class GenerationSettings(Settings):
    """How text is generated."""

    max_tokens: int = setting(100, "generated tokens, at most", minimum=1)
    temperature: float = setting(
        1.0,
        "of sampling: below 1 likely tokens become likelier; 0: the likeliest token each time",
        minimum=0.0,
        maximum=1e6,
    )
    top_k: int = setting(
        0,
        "of sampling: only the k likeliest tokens; 0: all",
        minimum=0,
        maximum=1 << 30,
    )
    top_p: float = setting(
        1.0,
        "of sampling (nucleus): only the likeliest tokens that have this probability together",
        above=0.0,
        maximum=1.0,
    )
    beams: int = setting(
        1,
        "texts that a beam search follows, in place of sampling; 1: no beam search",
        minimum=1,
        maximum=10_000,
    )
    stop: Optional[str] = setting(None, "text before which generation ends")
    seed: Optional[int] = setting(
        None,
        "seed of sampling; off: another text each time",
        minimum=0,
    )


class PredictSettings(Settings):
    """How a fine-tuned model predicts."""

    threshold: Optional[float] = setting(
        None, "least probability of a label, or of no answer", minimum=0.0, maximum=1.0
    )


class VectorSettings(Settings):
    """Which hidden states of a text are its vector."""

    layer: int = setting(-1, "0: the embeddings; -1: the last layer")
    pooling: str = setting(
        "mean", "one vector of all tokens", choices=("mean", "first", "last", "none")
    )


class AttentionSettings(Settings):
    """In which order attention is computed."""

    order: str = setting(
        "random",
        "factorization order: random, left_to_right, right_to_left, the numbers of the tokens, as "
        "2,1,3, or none: each token sees all, its query all but itself; a causal model reads from "
        "left to right",
    )
    seed: int = setting(0, "seed of a random order", minimum=0)


class FactorizationSettings(AttentionSettings):
    """In which order the tokens of a text are predicted; there is no order "none"."""

    known: int = setting(
        0,
        "so many tokens at the beginning of the order are read, but not predicted; all see each "
        "other [tokens]",
        minimum=0,
        maximum=CONTEXT - 1,
    )
    top: int = setting(
        5,
        "the likeliest pieces that are returned for each token",
        minimum=1,
        maximum=1000,
    )


def from_keywords(group: type[Group], values: Mapping[str, Any]) -> Group:
    """The settings of the class `group` with these values, checked; others have their defaults.

    Raises:
      UserError: an unknown name, or a value of another type or range.
    """
    fields = {field.name: field for field in dataclasses.fields(group)}
    checked = {}
    for name, given in values.items():
        if name not in fields:
            expected = ", ".join(fields) or "none"
            raise wrong("settings", f"'{name!s:.80}'", expected)
        value = checked[name] = plain(given)  # such as a threshold of NumPy
        # None is allowed only where it is the default: there it turns a setting off.
        if value is not None or fields[name].default is not None:
            check_value(fields[name], value, source="")  # an error begins with the name
    return group(**checked)


def plain(value: Any) -> Any:
    """Numbers and arrays of NumPy, and columns of a table of pandas, as numbers and lists; anything
    else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value
