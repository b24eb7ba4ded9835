"""Settings of inference with a trained model; flags and keyword arguments are derived from them.

Annotations are types here, not strings: flags need them. TensorFlow is not imported.
"""

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Optional, TypeVar

from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import (
    Settings,
    check_value,
    required,
    same_as,
    setting,
    share,
)
from xlnet.settings.finetuning import TaskSettings
from xlnet.settings.network import NetworkSettings
from xlnet.support.errors import wrong

Chosen = TypeVar("Chosen", bound=Settings)

POOLINGS = ("mean", "first", "last", "none")
BLANK = "___"  # of a text to be filled; more underscores are one blank, too
CONTEXT = 512  # tokens that are read of a text to be filled or continued, at most
MOST_PIECES = 64  # of all blanks of a text
MOST_STOP = 4000  # characters of all texts of `stop`
ORDERS = ("random", "left_to_right", "right_to_left")


@dataclasses.dataclass(frozen=True)
class LoadSettings(Settings):
    """Which model, and where it runs."""

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
    device: str = same_as(DeviceSettings, "device")
    precision: str = same_as(NetworkSettings, "precision", default="fp32")
    own_module: Optional[str] = same_as(TaskSettings, "own_module")


@dataclasses.dataclass(frozen=True)
class FillingSettings(Settings):
    """How blanks are filled."""

    pieces: str = setting(
        "1-3", "pieces of a blank: a number, or the least and the most of them"
    )
    order: str = setting(
        "left_to_right",
        "the factorization order of the pieces",
        choices=("left_to_right", "right_to_left"),
    )
    top: int = setting(5, "fillings that are returned, the likeliest first", minimum=1)
    beams: int = setting(
        50, "fillings that are followed from piece to piece", minimum=1, maximum=10_000
    )

    def check(self) -> None:
        super().check()
        if self.top > self.beams:
            raise wrong("top", self.top, f"at most beams, {self.beams}")
        self.pieces_range()

    def pieces_range(self) -> range:
        """The numbers of pieces that a blank may have."""
        ends = self.pieces.split("-")
        are_numbers = len(ends) <= 2 and all(map(_is_number, ends))
        if not are_numbers or not 1 <= int(ends[0]) <= int(ends[-1]) <= MOST_PIECES:
            expected = f"a number or two as in 1-3, up to {MOST_PIECES}"
            raise wrong("pieces", f"{self.pieces!r:.80}", expected)
        return range(int(ends[0]), int(ends[-1]) + 1)


@dataclasses.dataclass(frozen=True)
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
    stop: Optional[str] = setting(
        None, "text before which generation ends; several as a JSON list"
    )
    seed: Optional[int] = setting(
        None,
        "seed of sampling; off: another text each time",
        minimum=0,
    )

    def check(self) -> None:
        super().check()
        if self.stop is not None:
            stop_texts(self.stop)


@dataclasses.dataclass(frozen=True)
class PredictSettings(Settings):
    """How a fine-tuned model predicts."""

    threshold: Optional[float] = share(
        None, "least probability of a label, or of no answer"
    )
    top_k: Optional[int] = setting(
        None,
        "of answers to questions: the best spans that are returned, as many as there are",
        minimum=1,
        maximum=10_000,
    )


@dataclasses.dataclass(frozen=True)
class ExplanationSettings(Settings):
    """How a prediction is explained."""

    label: Optional[str] = setting(
        None,
        "the label whose probability is explained; the most probable one if not given",
    )


@dataclasses.dataclass(frozen=True)
class VectorSettings(Settings):
    """How vectors of texts are made."""

    pooling: str = setting("mean", "the vector of a text", choices=POOLINGS)
    normalize: bool = setting(False, "scale each vector to length 1")


@dataclasses.dataclass(frozen=True)
class AttentionSettings(Settings):
    """In which order attention is computed, and of how much."""

    order: Optional[str] = setting(
        None,
        "factorization order: random, left_to_right, right_to_left, none, or the numbers of the "
        "tokens, as 2,1,3; default: that of the model, random of a permutation network",
    )
    seed: int = setting(0, "seed of a random order", minimum=0)
    most_tokens: int = setting(512, "tokens of the text, at most", minimum=1)

    def check(self) -> None:
        super().check()
        if self.order not in (None, "none", *ORDERS):
            numbers_in_order(self.order)


@dataclasses.dataclass(frozen=True)
class FactorizationSettings(Settings):
    """In which order the tokens of a text are predicted."""

    order: str = setting(
        "random",
        "factorization order: random, left_to_right, right_to_left, or the numbers of the tokens, "
        "as 2,1,3",
    )
    seed: int = same_as(AttentionSettings, "seed")
    known: int = setting(
        0,
        "so many tokens at the beginning of the order are read, but not predicted; all see each "
        "other [tokens]",
        minimum=0,
        maximum=1_000_000,
    )
    top: int = setting(
        5,
        "the likeliest pieces that are returned for each token",
        minimum=1,
        maximum=1000,
    )
    most_tokens: int = same_as(
        AttentionSettings, "most_tokens", default=64, maximum=4096
    )

    def check(self) -> None:
        super().check()
        if self.order not in ORDERS:
            numbers_in_order(self.order)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def numbers_in_order(order: str) -> list[int]:
    """The numbers 0 ... n - 1 in an order such as "2,1,3"."""
    numbers = [number.strip() for number in order.split(",")]
    every_number = list(range(1, len(numbers) + 1))
    if not all(map(_is_number, numbers)) or sorted(map(int, numbers)) != every_number:
        expected = f"{', '.join(ORDERS)}, or the numbers of the tokens as in 2,1,3"
        raise wrong("order", f"{order!r:.80}", expected)
    return [int(number) - 1 for number in numbers]


def from_keywords(group: type[Chosen], values: Mapping[str, Any]) -> Chosen:
    """The settings with these values, checked; NumPy's numbers are taken as Python's, and a list of
    texts as the flag has it, in JSON.

    Raises:
      UserError: an unknown name, or a value of another type or range.
    """
    fields = {field.name: field for field in dataclasses.fields(group)}
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if name not in fields:
            raise wrong("settings", f"'{name!s:.80}'", ", ".join(fields))
        if hasattr(value, "tolist"):
            value = value.tolist()
        if name == "pieces" and type(value) is int:
            value = str(value)
        if name == "stop" and isinstance(value, (list, tuple)):
            if not all(isinstance(text, str) for text in value):
                raise wrong(name, f"{value!r:.80}", "a text or a list of texts")
            value = json.dumps(value) if value else None
        if value is not None or fields[name].default is not None:
            check_value(fields[name], value, "")
        plain[name] = value
    made = group(**plain)
    made.check()
    return made


def stop_texts(flag: Optional[str]) -> tuple[str, ...]:
    """The texts of the setting `stop`: a text, or a JSON list of texts."""
    if flag is None:
        return ()
    texts: Any = [flag]
    if flag.startswith('["'):  # "[END]" is a plain text
        with contextlib.suppress(ValueError):
            texts = json.loads(flag)
    for text in texts:
        if not isinstance(text, str) or not text or len(flag) > MOST_STOP:
            expected = f"texts, of up to {MOST_STOP} characters together"
            raise wrong("stop", f"{text!r:.80}", expected)
    return tuple(texts)
