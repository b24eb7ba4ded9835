"""How a setting is declared and checked: name, type, default, meaning [unit], allowed values; and
the presets, settings of runs and architectures that come with the library, by name."""

import dataclasses
import enum
import math
import operator
import os
import types
import typing
from collections.abc import Sequence
from typing import Any, Literal, Optional, Union

from typing_extensions import dataclass_transform

from xlnet.support import files
from xlnet.support.errors import wrong

REQUIRED = object()  # in place of the default of a setting that must be given


class HelpGroup(enum.Enum):
    """What a setting is for: the groups of `--help`, in their order."""

    TASK = "What to do"
    TEXT = "Text that goes in"
    COLUMNS = "Columns of your own files"
    RECORDS = "Records"
    MODEL = "Model and checkpoints"
    STEPS = "Steps and batches"
    TARGETS = "Targets of pretraining"
    LENGTH = "Length of texts"
    OPTIMIZER = "Learning rate and optimizer"
    REGULARIZATION = "Against overfitting"
    HEAD = "Output layer and loss"
    EVALUATION = "Evaluation and the best checkpoint"
    PREDICTION = "Prediction"
    SPEED = "Memory and speed"
    DEVICES = "Devices and machines"
    ORIGINAL = "As in the original implementation, rarely needed"
    OTHER = "Others"


# What the value of a setting belongs to. `run.json` keeps the values of both. A command that
# resumes the run has the kept value where none is given; another one is refused, as the run would
# learn something else (`runs.run_document.inherit`). Evaluation and prediction inherit
# what belongs to the model. None: to one command.
BelongsTo = Optional[Literal["run", "model"]]


def setting(
    default: Any,
    help: str,
    help_group: Optional[HelpGroup] = None,
    *,
    choices: Optional[Sequence[str]] = None,
    minimum: Optional[float] = None,
    maximum: Optional[float] = None,
    above: Optional[float] = None,
    below: Optional[float] = None,
    instead_of: Optional[str] = None,
    aliases: Sequence[str] = (),
    belongs_to: Union[BelongsTo, Literal["class"]] = "class",
) -> Any:
    """A dataclass field with its meaning [unit] and its allowed values.

    Args:
      default: the default; `REQUIRED`: there is none.
      help: the meaning.
      help_group: its group of `--help`; None: that of its class.
      choices: the allowed names.
      minimum: least value.
      maximum: greatest value.
      above: a bound that is not allowed itself.
      below: the same from above.
      instead_of: another setting for the same thing, which has this one there. On the command line
        one of them overrides the other one in a preset or an earlier run, and both are an error.
      aliases: other names of the flag.
      belongs_to: see `BelongsTo`; "class": that of its class.
    """
    metadata = {
        "help": help,
        "help_group": help_group,
        "choices": choices,
        "minimum": minimum,
        "maximum": maximum,
        "above": above,
        "below": below,
        "instead_of": instead_of,
        "aliases": aliases,
        "belongs_to": belongs_to,
    }
    return dataclasses.field(default=default, metadata=metadata)


def required(help: str, help_group: Optional[HelpGroup] = None, **limits: Any) -> Any:
    """A `setting` that has no default."""
    return setting(REQUIRED, help, help_group, **limits)


def same_as(group: Any, name: str, **changes: Any) -> Any:
    """Declares a setting like `name` of another group. changes: other arguments of `setting`."""
    field = group.__dataclass_fields__[name]
    return setting(**{"default": field.default, **field.metadata, **changes})


def setting_type(field: "dataclasses.Field[Any]") -> type:
    """The plain Python type of a field: `Optional[int]` is int."""
    arguments = typing.get_args(field.type)
    return arguments[0] if arguments else typing.cast(type, field.type)


_TYPES_IN_WORDS = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a text",
}


def check_value(
    field: "dataclasses.Field[Any]",
    value: object,
    source: str,
) -> None:
    """Raises UserError unless `value` has the type of `field` and is one that it may be.

    Args:
      source: what the error begins with; "": the name of the field.
    """
    # The type must be exactly that of the setting, as a bool is an int; but a float may be an int,
    # as JSON writes 1.0 as 1.
    kind, before = setting_type(field), source and source + ": "
    if type(value) not in ((int, float) if kind is float else (kind,)):
        raise wrong(before + field.name, repr(value), _TYPES_IN_WORDS[kind])
    check_limits(field, value, before)


# Limits of `setting`, in words, and the comparison of a value with one.
_BOUNDS = (
    ("minimum", "at least", operator.ge),
    ("above", "more than", operator.gt),
    ("maximum", "at most", operator.le),
    ("below", "less than", operator.lt),
)


def check_limits(field: "dataclasses.Field[Any]", value: Any, before: str = "") -> None:
    """Raises UserError unless `value` is within the limits of `field`. before: what the error
    begins with, ahead of the name of the field."""
    where, limits = before + field.name, field.metadata
    if limits["choices"] and value not in limits["choices"]:
        raise wrong(where, repr(value), f"one of {', '.join(limits['choices'])}")
    if isinstance(value, float) and not math.isfinite(value):
        raise wrong(where, repr(value), "a finite number")
    bounds, is_right = [], True
    for name, words, is_within in _BOUNDS:
        bound = limits[name]
        if bound is not None:
            bounds.append(f"{words} {bound:g}")
            is_right = is_right and is_within(value, bound)
    if not is_right:
        raise wrong(where, repr(value), " and ".join(bounds))


@dataclass_transform(frozen_default=True)
@dataclasses.dataclass(frozen=True)
class Settings:
    """A group of settings: each subclass is a frozen dataclass, without a decorator of its own.
    `help_group` and `belongs_to`: those of fields that do not name their own."""

    def __init_subclass__(
        cls, help_group: HelpGroup = HelpGroup.OTHER, belongs_to: BelongsTo = "run"
    ) -> None:
        for field in vars(cls).values():
            if isinstance(field, dataclasses.Field):
                metadata = dict(field.metadata)
                if metadata["help_group"] is None:
                    metadata["help_group"] = help_group
                if metadata["belongs_to"] == "class":
                    metadata["belongs_to"] = belongs_to
                field.metadata = types.MappingProxyType(metadata)
        dataclasses.dataclass(frozen=True)(cls)

    def check(self) -> None:
        """Raises UserError for a value that is not allowed or contradicts another one.

        Checks that need the data, a task or another group are made elsewhere.
        """
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                check_limits(field, value)


# ---- presets


def read_preset(name: str, role: str, table: str) -> dict[str, Any]:
    """The settings of a JSON file, which takes precedence, or of a preset.

    Args:
      name: the path of the file, or the name of a preset.
      role: what the settings are for, such as the name of the flag; errors begin with it.
      table: the kind of preset: "model", "pretrain" or "finetune", see `presets_of`.
    """
    if os.path.isfile(name) or files.is_remote(name):
        values = files.read_json(name, role)
        return values.get("resolved", values)  # those of a run.json, or a preset
    found = presets_of(table)
    if name not in found:
        expected = f"a file, or one of the presets {', '.join(found)}"
        raise wrong(role, f"'{name}'", expected)
    return found[name]


def presets_of(table: str) -> dict[str, Any]:
    """The presets by name of a file of `configs/`: "model", architectures; "pretrain" or
    "finetune", runs."""
    # The folder is inside an installed package; in the repository it is next to the package.
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    home = os.path.join(package, "configs")
    if not os.path.isdir(home):
        home = os.path.join(os.path.dirname(package), "configs")
    return files.read_json(os.path.join(home, table + ".json"), "presets")
