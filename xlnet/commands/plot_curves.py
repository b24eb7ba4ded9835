"""Plots the learning curves of runs: training losses and evaluations, by step."""

import dataclasses
import math

from xlnet.commands import cli
from xlnet.settings.fields import Settings, required, setting
from xlnet.support import files, quiet
from xlnet.support.errors import UserError


@dataclasses.dataclass(frozen=True)
class CurveSettings(Settings):
    """xlnet plot curves: of which runs, to which file."""

    model_dir: str = required(
        "model directories of the runs, with commas; or without the flag, with spaces"
    )
    output: str = setting("curves.png", "image to write, .png")

    def check(self) -> None:
        super().check()
        if not self.output.endswith(".png"):
            raise UserError(f"output: {self.output}, expected a name that ends in .png")
        files.check_output(self.output, ())


def main(settings: CurveSettings) -> None:
    quiet.import_tensorflow()
    from xlnet.plots import curves

    runs = []
    for directory in settings.model_dir.split(","):
        runs.append(curves.read(directory.strip(), "model_dir"))
    curves.plot(settings.output, runs)
    for run in runs:
        for what, points in (
            ("training loss", run.loss),
            ("evaluated " + run.metric, run.evaluated),
        ):
            if points:
                step, value = points[-1]
                print(
                    "{}: {} {} at step {}".format(
                        run.name,
                        what,
                        "undefined" if math.isnan(value) else f"{value:.4f}",
                        step,
                    )
                )
    print(f"written: {settings.output}")


def run() -> None:
    cli.run(
        main,
        CurveSettings,
        about=__doc__,
        positional="model_dir",
        examples=("model other_model --output=curves.png",),
    )
