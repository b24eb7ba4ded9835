"""Settings of inference with a trained model; flags and keyword arguments are derived from them.

Annotations are types here, not strings: flags need them. TensorFlow is not imported.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
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
from xlnet.support.errors import UserError, did_you_mean, wrong

Chosen = TypeVar("Chosen", bound=Settings)

POOLINGS = ("mean", "first", "last", "none")
BLANK = "___"  # of a text to be filled; more underscores are one blank, too
CONTEXT = (
    512  # tokens of a text that the network reads to fill or to continue it, at most
)
MOST_PIECES = 64  # of a blank
TEXTS = ("stop",)  # settings that are a text or several
MOST_TEXTS, LONGEST_TEXT = 64, 1000  # of these; characters
_MOST_SEED = (1 << 64) - 1
ORDERS = ("left_to_right", "right_to_left", "all")
ATTENTION_ORDERS = ("random", "left_to_right", "none")
FACTORIZATION_ORDERS = ("random", "left_to_right", "right_to_left")


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
        "the factorization order of the pieces: left_to_right, right_to_left, all (the mean over "
        "all of them), or the numbers of the blanks, as 2,1,3; pieces of a blank from left to "
        "right",
    )
    whole_words: bool = setting(
        True,
        "only words: what is filled in begins and ends with a word, and has no punctuation",
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
        if self.order not in ORDERS:
            numbers_in_order(self.order, ORDERS, "blanks")

    def pieces_range(self) -> range:
        """The numbers of pieces that a blank may have."""
        ends = self.pieces.split("-")
        are_numbers = len(ends) <= 2 and all(map(_is_number, ends))
        if not are_numbers or not 1 <= int(ends[0]) <= int(ends[-1]) <= MOST_PIECES:
            raise wrong(
                "pieces",
                f"{self.pieces!r:.80}",
                f"a number or two as in 1-3, up to {MOST_PIECES}",
            )
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
        maximum=_MOST_SEED,
    )

    def check(self) -> None:
        super().check()
        if self.stop is not None:
            stop_texts(self.stop)


@dataclasses.dataclass(frozen=True)
class PythonSettings(Settings):
    """How a model is loaded from Python, in addition to `LoadSettings`."""

    batch_size: int = setting(
        32, "texts that go through the network together", minimum=1
    )
    progress: bool = setting(True, "progress bars")


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
        "factorization order: random, left_to_right, none, or the numbers of the tokens, as 2,1,3; "
        "default: that of the model, random of a permutation network",
    )
    seed: int = setting(0, "seed of a random order", minimum=0, maximum=_MOST_SEED)
    most_tokens: int = setting(512, "tokens of the text, at most", minimum=1)

    def check(self) -> None:
        super().check()
        if self.order not in (None, *ATTENTION_ORDERS):
            numbers_in_order(self.order or "", ATTENTION_ORDERS, "tokens")


@dataclasses.dataclass(frozen=True)
class FactorizationSettings(Settings):
    """In which order the tokens of a text are predicted."""

    order: str = setting(
        "random",
        "factorization order: random, left_to_right, right_to_left, or the numbers of the tokens, "
        "as 2,1,3",
    )
    seed: int = setting(0, "seed of a random order", minimum=0, maximum=_MOST_SEED)
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
    most_tokens: int = setting(
        64, "tokens of the text, at most", minimum=1, maximum=4096
    )

    def check(self) -> None:
        super().check()
        if self.order not in FACTORIZATION_ORDERS:
            numbers_in_order(self.order, FACTORIZATION_ORDERS, "tokens")


@dataclasses.dataclass(frozen=True)
class ErrorSettings(Settings):
    """What becomes of a bad text in a list."""

    errors: str = setting(
        "raise", "raise, or return its error as its result", choices=("raise", "return")
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def numbers_in_order(order: str, names: Sequence[str], what: str) -> list[int]:
    """The numbers 0 ... n - 1 in an order such as "2,1,3"."""
    numbers = [number.strip() for number in order.split(",")]
    every_number = list(range(1, len(numbers) + 1))
    if not all(map(_is_number, numbers)) or sorted(map(int, numbers)) != every_number:
        expected = f"{', '.join(names)}, or the numbers of the {what} as in 2,1,3"
        raise wrong(
            "order", f"{order!r:.80}", expected + did_you_mean(order[:80], names)
        )
    return [int(number) - 1 for number in numbers]


def from_keywords(
    group: type[Chosen],
    values: Mapping[str, Any],
    source: str = "",
    shown: Callable[[object], str] = repr,
) -> Chosen:
    """The settings with these values, checked; NumPy's numbers are taken as Python's. Of `TEXTS` a
    str is a text, not JSON as in a flag; several are a list.

    Args:
      group: their class.
      values: by name.
      source: what errors begin with.
      shown: a value as whoever gave it writes it, for errors.

    Raises:
      UserError: an unknown name, or a value of another type or range; it begins with `source`.
    """
    where = f"{source}: " if source else ""
    fields = {field.name: field for field in dataclasses.fields(group)}
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if name not in fields:
            hint = did_you_mean(str(name)[:80], list(fields))
            raise UserError(
                f"{where}no '{name!s:.80}'{hint} (there are {', '.join(fields)})"
            )
        if getattr(value, "ndim", None) == 0:
            value = value.item()
        if name == "pieces" and type(value) is int:  # as the flag has it
            value = str(value)
        if name in TEXTS and value is not None:
            value = json.dumps(_checked_texts(value, where + name, shown))
        if value is not None or fields[name].default is not None:
            check_value(fields[name], value, source, shown)
        plain[name] = value
    made = group(**plain)
    try:
        made.check()
    except UserError as e:
        raise UserError(f"{where}{e}") from None
    return made


def stop_texts(flag: Optional[str], name: str = "stop") -> tuple[str, ...]:
    """The texts of a flag of this name: a text, or a JSON list of texts."""
    if flag is None:
        return ()
    # "[END]" is a plain text; what begins as a list of texts is JSON.
    if not re.match(r'\[\s*"', flag):
        return _checked_texts(flag, name)
    try:
        return _checked_texts(json.loads(flag), name)
    except ValueError:
        raise wrong(name, f"{flag!r:.80}", "a text or a JSON list of texts") from None


def _checked_texts(
    given: Any, name: str, shown: Callable[[object], str] = repr
) -> tuple[str, ...]:
    """The texts of a setting of this name: a text, or a list, tuple or array of texts. shown: the
    setting as whoever gave it writes it, for errors."""
    texts = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, (list, tuple)) or not texts or len(texts) > MOST_TEXTS:
        raise wrong(name, f"{shown(given):.80}", f"1 to {MOST_TEXTS} texts")
    for text in texts:
        if not isinstance(text, str) or not 0 < len(text) <= LONGEST_TEXT:
            raise wrong(
                name, f"{shown(text):.80}", f"texts of 1 to {LONGEST_TEXT} characters"
            )
    return tuple(texts)
