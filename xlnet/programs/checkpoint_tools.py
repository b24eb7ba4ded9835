"""Inspects, strips, averages and compares checkpoints."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, Callable, Optional

from xlnet import cli, quiet
from xlnet.errors import UserError
from xlnet.settings.fields import Settings, required, setting

_CHECKPOINT = "a checkpoint's prefix, its directory, or DIRECTORY/latest"
_TARGET = "directory to write, new or empty"


@dataclasses.dataclass(frozen=True)
class InspectSettings(Settings):
    """inspect: names, shapes, norms, counts, and the architecture."""
    model_dir: str = required(_CHECKPOINT, aliases=("checkpoint",))
    slots: bool = setting(False, "also list what is not a weight, as the optimizer's slots")


@dataclasses.dataclass(frozen=True)
class StripSettings(Settings):
    """strip: from what, to where."""
    model_dir: str = required(_CHECKPOINT, aliases=("checkpoint",))
    output: str = required(_TARGET, aliases=("target",))


@dataclasses.dataclass(frozen=True)
class AverageSettings(Settings):
    """average: of what, to where."""
    output: str = required(_TARGET, aliases=("target",))
    input: Optional[str] = setting(None, "checkpoints to average, with commas between",
                                   aliases=("checkpoints",))
    model_dir: Optional[str] = setting(None, "or the directory of a run, with --last",
                                       instead_of="input")
    last: Optional[int] = setting(None, "number of its checkpoints to average, the newest first",
                                  minimum=2)

    def check(self) -> None:
        super().check()
        if bool(self.model_dir) != bool(self.last) or not (self.input or self.model_dir):
            raise UserError("give input, or model_dir and last")


@dataclasses.dataclass(frozen=True)
class CompareSettings(Settings):
    """compare: which two."""
    first: str = required(_CHECKPOINT)
    second: str = required(_CHECKPOINT)
    most: int = setting(20, "number of differences listed, the largest first; 0: all", minimum=0)


def library() -> tuple[Any, Any]:
    quiet.import_tensorflow()
    from xlnet.engine import checkpoint, checkpoint_tools, devices
    devices.set_up_process()
    return checkpoint, checkpoint_tools


def inspect(settings: InspectSettings) -> None:
    """Shows what a checkpoint holds."""
    checkpoint, tools = library()
    prefix = checkpoint.resolve(settings.model_dir, "model_dir")
    contents = tools.inspect(prefix)
    print("%s%s" % (prefix, "" if contents.step is None else ", step %d" % contents.step))
    print_config(os.path.dirname(prefix))
    print_variables("weights", contents.weights, True)
    if contents.others:
        print_variables("others", contents.others, settings.slots)
    bad = [variable for variable in contents.weights + contents.others if variable.bad]
    for variable in bad:
        print("note: %s has %d numbers that are NaN or infinite" % (variable.name, variable.bad))


def print_config(directory: str) -> None:
    from xlnet.settings.network import CONFIG_NAME, XLNetConfig
    path = os.path.join(directory, CONFIG_NAME)
    if os.path.exists(path):
        print(XLNetConfig(json_path=path))


def print_variables(what: str, variables: Sequence[Any], are_listed: bool) -> None:
    print("%s: %d, %s numbers" % (what, len(variables), "{:,}".format(
        sum(variable.size for variable in variables))))
    if variables and are_listed:
        width = max(len(variable.name) for variable in variables)
        print("  %s  %-8s  %10s  %10s  %s" % ("name".ljust(width), "type", "norm", "largest",
                                              "shape"))
        for variable in variables:
            print("  %s  %-8s  %10.4g  %10.4g  %s" % (
                variable.name.ljust(width), variable.dtype, variable.norm, variable.largest,
                list(variable.shape)))


def strip(settings: StripSettings) -> None:
    """Writes the weights of a checkpoint without the optimizer's slots."""
    checkpoint, tools = library()
    prefix = checkpoint.resolve(settings.model_dir, "model_dir")
    tools.average([prefix], settings.output)
    print("%s -> %s" % (prefix, settings.output))


def average(settings: AverageSettings) -> None:
    """Writes the mean of several checkpoints."""
    checkpoint, tools = library()
    prefixes = tools.last(settings.model_dir, settings.last) if settings.model_dir else [
        checkpoint.resolve(path.strip(), "input")
        for path in (settings.input or "").split(",")]
    if len(prefixes) < 2:
        raise UserError("input: an average is of two or more checkpoints, found 1")
    tools.average(prefixes, settings.output)
    print("mean of %s -> %s" % (", ".join(prefixes), settings.output))


def compare(settings: CompareSettings) -> None:
    """Shows the largest difference of each weight of two checkpoints."""
    checkpoint, tools = library()
    found = tools.compare(checkpoint.resolve(settings.first, "first"),
                          checkpoint.resolve(settings.second, "second"))
    different = [one for one in found.differences if one.largest != 0]
    print("%d weights in both, %d of them equal to the last bit"
          % (len(found.differences), len(found.differences) - len(different)))
    if different:
        print("  %10s  %10s  name" % ("largest", "relative"))
    for one in different[:settings.most or None]:
        print("  %10.3g  %10.3g  %s" % (one.largest, one.relative, one.name))
    if settings.most and len(different) > settings.most:
        print("  ... and %d smaller ones" % (len(different) - settings.most))
    for name, first, second in found.shapes:
        print("%s has shape %s, in the second one %s" % (name, list(first), list(second)))
    for what, names in (("first", found.only_first), ("second", found.only_second)):
        if names:
            print("%d only in the %s: %s" % (len(names), what, ", ".join(names)))


_PROGRAMS: dict[str, tuple[Callable[..., object], type, str]] = {
    "inspect": (inspect, InspectSettings, "--model_dir=model/best --slots"),
    "strip": (strip, StripSettings, "--model_dir=model/latest --output=stripped"),
    "average": (average, AverageSettings, "--model_dir=model --last=3 --output=mean"),
    "compare": (compare, CompareSettings, "--first=model/best --second=model/latest"),
}


def run(name: str) -> None:
    main, group, example = _PROGRAMS[name]
    cli.run(main, group, about=main.__doc__, examples=(example,))
