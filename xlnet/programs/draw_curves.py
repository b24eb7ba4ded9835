"""Plots the loss, held-out loss, learning rate and gradient norm of one or several runs."""

import dataclasses
import os

from xlnet import cli, quiet
from xlnet.errors import UserError
from xlnet.settings.fields import Settings, required, setting


@dataclasses.dataclass(frozen=True)
class CurvesSettings(Settings):
    """xlnet plot curves: which runs, to which image."""
    input: str = required("model directories, with commas; a name for the legend may precede one, "
                          "as in base=model,wide=model2", aliases=("runs",))
    output: str = required("image to write, .png", aliases=("png",))
    smoothing: int = setting(1, "length of the training loss's running mean [lines]; 1: off",
                             minimum=1)


def main(settings: CurvesSettings) -> None:
    quiet.import_tensorflow()
    from xlnet.plots import curves
    curves.draw(settings.output, {name: curves.read(path) for name, path in named(settings.input)},
                settings.smoothing)
    print("written: %s" % settings.output)


def named(runs: str) -> list[tuple[str, str]]:
    """(name, directory) of each run; the default name is the last part of the directory."""
    pairs = []
    for run in runs.split(","):
        name, found, path = run.strip().rpartition("=")
        path = path.rstrip("/")
        pairs.append((name if found else os.path.basename(path), path))
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UserError("input: '%s' is the name of %d runs; give them names, as in a=%s"
                            % (name, names.count(name), pairs[0][1]))
    return pairs


def run() -> None:
    cli.run(main, CurvesSettings, about=__doc__, examples=(
        "--input=base=model,wide=model2 --output=curves.png",))
