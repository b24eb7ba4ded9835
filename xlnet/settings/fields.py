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


# What the value of a setting belongs to:
# - "run": a command that resumes the run has the value of its `run.json` where the user gives none.
#   A different value is an error, as the run would learn something else
#   (`runs.run_document.inherit`).
# - "model": the same; and commands that evaluate or predict with the weights have the value, too.
# - None: a single command. No later one inherits it.
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
    """A dataclass field of a `Settings` class, with its meaning and its allowed values as metadata.

    Args:
      default: the default; `REQUIRED`: the setting must be given.
      help: the meaning, with the unit in brackets.
      help_group: the group of `--help` that lists the setting; None: that of the class.
      choices: the allowed texts; None: any.
      minimum: the least allowed number; None, as with the other bounds: no bound.
      maximum: the greatest allowed number.
      above: a lower bound that is not itself allowed.
      below: an upper bound that is not itself allowed.
      instead_of: the name of another setting for the same thing, as "epochs" of `train_steps`; the
        other one names this one in turn. On the command line, each of the two overrides the other
        one's value in a preset or an earlier run, and giving both is an error.
      aliases: other names of the flag.
      belongs_to: see `BelongsTo`; "class": what the class says.

    Returns:
      A `dataclasses.Field`; Any, as the class annotates the field with the type of its value.
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


def required(help: str, help_group: Optional[HelpGroup] = None, **others: Any) -> Any:
    """A `setting` that has no default. others: its other arguments, by keyword."""
    return setting(REQUIRED, help, help_group, **others)


def same_as(group: Any, name: str, **changes: Any) -> Any:
    """Declares a setting like `name` of another dataclass of settings.

    Args:
      group: the dataclass.
      name: a field of it.
      changes: arguments of `setting` that replace those of the field.
    """
    field = group.__dataclass_fields__[name]
    # The metadata are the arguments of `setting` but the default, under the same names.
    return setting(**{"default": field.default, **field.metadata, **changes})


def setting_type(field: "dataclasses.Field[Any]") -> type:
    """The plain Python type of a field: int of `int` and of `Optional[int]`."""
    # `field.type` is a type and not a text: files of settings do not postpone annotations. Its
    # arguments are (int, NoneType) of Optional[int], and () of int.
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
    """Raises UserError unless `value` has the type of `field` and is within its limits.

    Args:
      field: the setting.
      value: its value; None is an error, too.
      source: where the value is from, such as a file; the error begins with it. "": not said.
    """
    where = f"{source}: {field.name}" if source else field.name
    wanted = setting_type(field)
    # The type must be exactly that of the setting, as a bool is an int, too. Only a float may be
    # given as an int, as JSON may have 1 for 1.0.
    allowed = (int, float) if wanted is float else (wanted,)
    if type(value) not in allowed:
        raise wrong(where, repr(value), _TYPES_IN_WORDS[wanted])
    check_limits(field, value, where)


# Bounds of a number: the argument of `setting`, its words, and the comparison `value ? bound`.
_BOUNDS = (
    ("minimum", "at least", operator.ge),
    ("above", "more than", operator.gt),
    ("maximum", "at most", operator.le),
    ("below", "less than", operator.lt),
)


def check_limits(field: "dataclasses.Field[Any]", value: Any, where: str) -> None:
    """Raises UserError, which begins with `where`, unless `value`, which has the type of `field`,
    is one of its choices, finite and within its bounds."""
    limits = field.metadata
    if limits["choices"] and value not in limits["choices"]:
        raise wrong(where, repr(value), f"one of {', '.join(limits['choices'])}")
    if isinstance(value, float) and not math.isfinite(value):
        raise wrong(where, repr(value), "a finite number")
    # The error names all bounds of the field, also those that the value keeps.
    in_words, is_within_all = [], True
    for name, words, is_within in _BOUNDS:
        bound = limits[name]
        if bound is not None:
            in_words.append(f"{words} {bound:.12g}")
            is_within_all = is_within_all and is_within(value, bound)
    if not is_within_all:
        raise wrong(where, repr(value), " and ".join(in_words))


@dataclass_transform(frozen_default=True)
@dataclasses.dataclass(frozen=True)
class Settings:
    """A group of settings: each subclass is a frozen dataclass, without a decorator of its own.

    Its fields are declared with `setting`, and its header may have two arguments, `help_group` and
    `belongs_to`: those of the fields that do not name their own; "run" if the class does not.
    """

    def __init_subclass__(
        cls, help_group: HelpGroup = HelpGroup.OTHER, belongs_to: BelongsTo = "run"
    ) -> None:
        # Only the fields that this class declares: inherited ones have the values of their class.
        for field in vars(cls).values():
            if isinstance(field, dataclasses.Field):
                metadata = dict(field.metadata)
                if metadata["help_group"] is None:
                    metadata["help_group"] = help_group
                if metadata["belongs_to"] == "class":
                    metadata["belongs_to"] = belongs_to
                field.metadata = types.MappingProxyType(metadata)
        dataclasses.dataclass(frozen=True)(cls)  # changes the class itself

    def check(self) -> None:
        """Raises UserError for a value that is not allowed or contradicts another one.

        Checks that need the data, a task or another group are made elsewhere.
        """
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                check_limits(field, value, field.name)


# ---- files of settings, and presets


def read_settings(name: str, role: str, table: str) -> dict[str, Any]:
    """The values by setting of a JSON file, or of a preset if there is no file `name`.

    Args:
      name: the path of the file, or the name of a preset.
      role: what the settings are for, such as the name of the flag; errors begin with it.
      table: the file of presets: "model", "pretrain" or "finetune", see `presets_of`; "": none.
    """
    if os.path.isfile(name) or files.is_remote(name):
        values = files.read_json(name, role)
        # A run.json has the settings under "resolved"; any other file has nothing else.
        return values.get("resolved", values)
    if not table:
        raise wrong(role, f"'{name}'", "a file; this program has no presets")
    presets = presets_of(table)
    if name not in presets:
        expected = f"a file, or one of the presets {', '.join(presets)}"
        raise wrong(role, f"'{name}'", expected)
    return presets[name]


def presets_of(table: str) -> dict[str, Any]:
    """The presets of `configs/<table>.json`, values by setting for each name: of "model", those of
    architectures; of "pretrain" and "finetune", those of runs."""
    # The folder is inside an installed package; in the repository it is next to the package.
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    directory = os.path.join(package, "configs")
    if not os.path.isdir(directory):
        directory = os.path.join(os.path.dirname(package), "configs")
    return files.read_json(os.path.join(directory, table + ".json"), "presets")
