"""Settings of inference with a trained model; flags and keyword arguments are derived from them.

Annotations are types here, not strings: flags need them. TensorFlow is not imported.
"""

import copy
import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, TypeVar

from xlnet import files
from xlnet.errors import UserError, did_you_mean
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import Settings, check_value, required, same_as, setting, share
from xlnet.settings.finetuning import TaskSettings
from xlnet.settings.network import NetworkSettings

Chosen = TypeVar("Chosen", bound=Settings)

POOLINGS = ("mean", "first", "last", "none")
_MOST_CONTEXT = 1_000_000  # tokens
MOST_PIECES = 64  # of a blank
TEXTS = ("stop", "targets")  # settings that are a text or several
MOST_TEXTS, LONGEST_TEXT = 64, 1000  # of these; characters
_MOST_SEED = (1 << 64) - 1
ORDERS = ("left_to_right", "right_to_left", "random", "all")
ATTENTION_ORDERS = ("random", "left_to_right", "none")
FACTORIZATION_ORDERS = ("random", "left_to_right", "right_to_left")


@dataclasses.dataclass(frozen=True)
class LoadSettings(Settings):
    """Which model, and where it runs."""

    model_dir: str = required(
        "model directory, directory with a released checkpoint, its config and its vocabulary, or "
        "checkpoint prefix",
        aliases=("model",),
    )
    model_config_path: Optional[str] = setting(
        None, "JSON with the architecture, if it is not next to the checkpoint"
    )
    spiece_model_file: Optional[str] = setting(
        None, "SentencePiece model, if it is not next to the checkpoint"
    )
    use_checkpoint: str = setting(
        "best", "that of model_dir/best if it is there, or the newest", choices=("best", "newest")
    )
    device: str = same_as(DeviceSettings, "device")
    precision: str = same_as(NetworkSettings, "precision", default="fp32")
    task_module: Optional[str] = same_as(TaskSettings, "task_module")


@dataclasses.dataclass(frozen=True)
class FillingSettings(Settings):
    """How blanks are filled."""

    blank: str = setting(
        "___", "how a blank is written in the text; more underscores are one blank, too"
    )
    pieces: str = setting("1-3", "pieces of a blank: a number, or the least and the most of them")
    order: str = setting(
        "left_to_right",
        "the factorization order of the pieces: left_to_right, right_to_left, random, all (the "
        "mean over all of them), or the numbers of the blanks, as 2,1,3, pieces of a blank from "
        "left to right",
    )
    targets: Optional[str] = setting(
        None,
        "compare only these words for the one blank, a JSON list; pieces and whole_words do not "
        "apply",
    )
    whole_words: bool = setting(
        True, "only words: what is filled in begins and ends with a word, and has no punctuation"
    )
    top: int = setting(5, "fillings that are returned, the likeliest first", minimum=1)
    beams: int = setting(
        50, "fillings that are followed from piece to piece", minimum=1, maximum=10_000
    )
    context: int = setting(
        512,
        "known tokens that are read around the blanks, at most [tokens]",
        minimum=2,
        maximum=_MOST_CONTEXT,
    )
    seed: int = setting(0, "seed of random orders", minimum=0, maximum=_MOST_SEED)

    def check(self) -> None:
        super().check()
        if not self.blank.strip() or len(self.blank) > LONGEST_TEXT:
            raise UserError(
                f"blank is {self.blank!r:.80}, expected a text that marks a blank, of at most "
                f"{LONGEST_TEXT} characters"
            )
        if self.targets is not None and not stop_texts(self.targets, "targets"):
            raise UserError(f"targets is {self.targets}, expected one word or more")
        if self.top > self.beams:
            raise UserError(f"top is {self.top}, expected at most beams, {self.beams}")
        self.pieces_range()
        if self.order not in ORDERS:
            self.blanks_in_order()

    def split(self, text: str) -> list[str]:
        """The parts of a text before, between and behind its blanks."""
        # More underscores are one blank, too.
        more = "_*" if not self.blank.strip("_") else ""
        return re.split(re.escape(self.blank) + more, text)

    def pieces_range(self) -> range:
        """The numbers of pieces that a blank may have."""
        ends = self.pieces.split("-")
        if (
            len(ends) > 2
            or not all(map(_is_number, ends))
            or not (1 <= int(ends[0]) <= int(ends[-1]) <= MOST_PIECES)
        ):
            raise UserError(
                f"pieces is '{self.pieces!s:.80}', expected a number, or two as in 1-3, "
                f"at most {MOST_PIECES}"
            )
        return range(int(ends[0]), int(ends[-1]) + 1)

    def blanks_in_order(self) -> list[int]:
        """The numbers of the blanks, from 0 on, of an order that names them."""
        return _numbers_in_order(self.order, ORDERS, "blanks")


@dataclasses.dataclass(frozen=True)
class GenerationSettings(Settings):
    """How text is generated."""

    method: str = setting(
        "sample",
        "sample: sample each token; greedy: take the likeliest one; beam: beam search",
        choices=("sample", "greedy", "beam"),
    )
    max_tokens: int = setting(
        100, "generated tokens, at most", minimum=1, aliases=("max_new_tokens",)
    )
    min_tokens: int = setting(
        0,
        "generated tokens, at least: before them no document ends",
        minimum=0,
        aliases=("min_new_tokens",),
    )
    temperature: float = setting(
        1.0, "of sampling: below 1 likely tokens become likelier", above=0.0, maximum=1e6
    )
    top_k: int = setting(
        0, "of sampling: only the k likeliest tokens; 0: all", minimum=0, maximum=1 << 30
    )
    top_p: float = setting(
        1.0,
        "of sampling (nucleus): only the likeliest tokens that have this probability together",
        above=0.0,
        maximum=1.0,
    )
    beams: int = setting(4, "texts that beam search follows", minimum=1, maximum=10_000)
    length_penalty: float = setting(
        1.0,
        "of beams: the score of a text is its log probability over its number of tokens to this "
        "power",
        minimum=0.0,
        maximum=10.0,
    )
    samples: int = setting(
        1,
        "texts for each prompt; of method beam, the best ones",
        minimum=1,
        maximum=10_000,
        aliases=("num_return_sequences",),
    )
    repetition_penalty: float = setting(
        1.0,
        "log probabilities of tokens that are among the last `context` ones are multiplied by it; "
        "1: off",
        minimum=0.01,
        maximum=100.0,
    )
    no_repeat_ngram_size: int = setting(
        0,
        "no n-gram of so many tokens occurs twice in the last `context` tokens; 0: off",
        minimum=0,
        maximum=100,
    )
    stop: Optional[str] = setting(None, "text before which generation ends; several as a JSON list")
    context: int = setting(
        512,
        "last tokens that a token is generated from, at most [tokens]",
        minimum=2,
        maximum=_MOST_CONTEXT,
    )
    seed: Optional[int] = setting(
        None, "seed of sampling; off: another text each time", minimum=0, maximum=_MOST_SEED
    )

    def check(self) -> None:
        super().check()
        if self.min_tokens > self.max_tokens:
            raise UserError(
                f"min_tokens is {self.min_tokens}, expected at most max_tokens, {self.max_tokens}"
            )
        if self.method == "greedy" and self.samples > 1:
            raise UserError(
                f"samples is {self.samples}, but method=greedy writes one text; use sample or beam"
            )
        if self.method == "beam" and self.samples > self.beams:
            raise UserError(f"samples is {self.samples}, expected at most beams, {self.beams}")
        stop_texts(self.stop)


@dataclasses.dataclass(frozen=True)
class PythonSettings(Settings):
    """How a model is loaded from Python, in addition to `LoadSettings`."""

    batch_size: int = setting(32, "texts that go through the network together", minimum=1)
    progress: bool = setting(True, "progress bars")


@dataclasses.dataclass(frozen=True)
class PredictSettings(Settings):
    """How a fine-tuned model predicts."""

    threshold: Optional[float] = share(None, "least probability of a label, or of no answer")
    top_k: Optional[int] = setting(
        None,
        "of answers to questions: the best spans that are returned, as many as there are",
        minimum=1,
        maximum=10_000,
    )


@dataclasses.dataclass(frozen=True)
class ExplanationSettings(Settings):
    """How a prediction is explained."""

    method: str = setting(
        "leave_one_out",
        "leave_one_out: the output without each word; integrated_gradients: gradients on the way "
        "from zero embeddings",
        choices=("leave_one_out", "integrated_gradients"),
    )
    label: Optional[str] = setting(
        None, "the label whose probability is explained; the most probable one if not given"
    )
    steps: int = setting(50, "steps of integrated_gradients", minimum=2, maximum=10_000)


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
            self.tokens_in_order()

    def order_of(self, only: Optional[str] = None) -> str:
        """The order that is given, or the default; UserError if it is not the `only` one that the
        model has."""
        order = self.order or only or "random"
        if only and order != only:
            raise UserError(f"order is {order}, but the model has {only} alone; leave it out")
        return order

    def tokens_in_order(self) -> list[int]:
        """The numbers of the tokens, from 0 on, of an order that names them."""
        return _numbers_in_order(self.order or "", ATTENTION_ORDERS, "tokens")


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
        maximum=_MOST_CONTEXT,
    )
    top: int = setting(
        5, "the likeliest pieces that are returned for each token", minimum=1, maximum=1000
    )
    most_tokens: int = setting(64, "tokens of the text, at most", minimum=1, maximum=4096)

    def check(self) -> None:
        super().check()
        if self.order not in FACTORIZATION_ORDERS:
            self.tokens_in_order()

    def tokens_in_order(self) -> list[int]:
        """The numbers of the tokens, from 0 on, of an order that names them."""
        return _numbers_in_order(self.order, FACTORIZATION_ORDERS, "tokens")


@dataclasses.dataclass(frozen=True)
class ErrorSettings(Settings):
    """What becomes of a bad text in a list."""

    errors: str = setting(
        "raise", "raise, or return its error as its result", choices=("raise", "return")
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def _numbers_in_order(order: str, names: Sequence[str], what: str) -> list[int]:
    """The numbers 0 ... n - 1 in an order such as "2,1,3"."""
    numbers = order.split(",")
    are_numbers = all(_is_number(number.strip()) for number in numbers)
    every_number = list(range(1, len(numbers) + 1))
    if not are_numbers or sorted(map(int, numbers)) != every_number:
        raise UserError(
            "order is '{!s:.80}', expected {}, or the numbers of the {} as in 2,1,3{}".format(
                order, ", ".join(names), what, did_you_mean(order[:80], names)
            )
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
    given_as: dict[str, str] = {}  # the setting -> the name of another library that it was given by
    # NumPy's numbers, and names of other libraries.
    plain = {
        name: value.item() if getattr(value, "ndim", None) == 0 else value
        for name, value in values.items()
    }
    for name, field in fields.items():
        for alias in set(field.metadata["aliases"]) & set(plain):
            if name in plain:
                raise UserError(f"{where}{alias} and {name} are one setting, expected one of them")
            plain[name], given_as[name] = plain.pop(alias), alias
    # A number of pieces is a text, as the flag has it.
    if type(plain.get("pieces")) is int:
        plain["pieces"] = str(plain["pieces"])
    if group is GenerationSettings and plain.get("temperature") in (0, 0.0):
        raise UserError(
            f"{where}temperature is 0, expected above 0; for the likeliest token each time give "
            "method=greedy"
        )
    # As the flag has them.
    for name in TEXTS:
        if name in fields and plain.get(name) is not None:
            plain[name] = json.dumps(_checked_texts(plain[name], where + name, shown))
    for name, value in plain.items():
        if name not in fields:
            raise UserError(
                "{}no '{:.80}'{} (there are {})".format(
                    where,
                    str(name),
                    did_you_mean(str(name)[:80], list(fields)),
                    ", ".join(fields),
                )
            )
        if value is not None or fields[name].default is not None:
            check_value(_renamed(fields[name], given_as.get(name, name)), value, source, shown)
    made = group(**plain)
    try:
        made.check()
    except UserError as e:
        raise UserError(f"{where}{e}") from None
    return made


def _renamed(field: "dataclasses.Field[Any]", name: str) -> "dataclasses.Field[Any]":
    """A setting under another name, for errors."""
    renamed = copy.copy(field)
    renamed.name = name
    return renamed


def stop_texts(stop: Optional[str], name: str = "stop") -> tuple[str, ...]:
    """The texts of a flag of this name: a text, or a JSON list of texts."""
    if stop is None:
        return ()
    texts = stop
    try:
        if stop.startswith("["):
            texts = files.parse_json(stop)
    except ValueError as e:
        # "[END]" is a plain text; what begins as a list of texts is a damaged one.
        if re.match(r'\[\s*"', stop):
            raise UserError(
                f"{name} is {stop!s:.80}, expected a text or a JSON list of texts ({e})"
            ) from None
    return _checked_texts(texts, name, shown=lambda _: repr(stop))


def _checked_texts(given: Any, name: str, shown: Callable[[object], str]) -> tuple[str, ...]:
    """The texts of a setting of this name: a text, or a list, tuple or array of texts. shown: the
    setting as whoever gave it writes it, for errors."""
    texts = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, (list, tuple)) or not all(
        isinstance(text, str) and text for text in texts
    ):
        raise UserError(f"{name} is {shown(given):.80}, expected texts that are not empty")
    if len(texts) > MOST_TEXTS or any(len(text) > LONGEST_TEXT for text in texts):
        raise UserError(
            f"{name} is {shown(given):.80}, expected at most {MOST_TEXTS} texts of at most "
            f"{LONGEST_TEXT} characters"
        )
    return tuple(texts)
