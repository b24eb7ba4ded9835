"""Several fine-tunings of a task with other seeds and learning rates, and their statistics."""

from __future__ import annotations

import dataclasses
import logging
import os
import statistics
from collections.abc import Callable
from typing import Any

from xlnet import files
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.finetuning.run import Run
from xlnet.settings.finetuning import FineTuningSettings
from xlnet.settings.training import OptimizationSettings
from xlnet.tasks.types.task import Task

_log = logging.getLogger(__name__)

RESULTS_NAME = "results.json"


def run(make_run: Callable[[FineTuningSettings, OptimizationSettings], Run],
        settings: FineTuningSettings, optimization: OptimizationSettings, task: Task) -> bool:
    """Trains `num_trials` times and copies the best model to `model_dir/best`.

    Trial i is the run in `model_dir/trial_<i>` with seed `seed` + i - 1; the learning rates take
    turns. Completed trials are not repeated.

    Returns:
      False if a signal stopped a trial before its end.
    """
    rates = settings.trial_rates() or [optimization.learning_rate]
    done = []
    for i in range(settings.num_trials):
        model_dir = os.path.join(settings.model_dir, "trial_%d" % (i + 1))
        seed, rate = settings.seed + i, rates[i % len(rates)]
        _log.info("trial %d of %d: seed %d, learning rate %.2e, in %s",
                  i + 1, settings.num_trials, seed, rate, model_dir)
        trial = make_run(
            dataclasses.replace(settings, model_dir=model_dir, seed=seed, do_eval=False,
                                do_predict=False, num_trials=1, learning_rates=None),
            dataclasses.replace(optimization, learning_rate=rate))
        trial.prepare()
        if not trial.train():
            return False
        done.append({"seed": seed, "learning_rate": rate, "model_dir": model_dir,
                     "best": trial.best()})
    results = summary(done, task.metrics[0], task.lower_is_better)
    _take_best(settings.model_dir, done[results["best_trial"] - 1]["model_dir"])
    files.write_json(os.path.join(settings.model_dir, RESULTS_NAME), results)
    _log.info("%s", "\n".join(table(results)))
    return True


def _take_best(model_dir, trial_dir):
    """Copies the best model of a trial to `model_dir/best`."""
    best = os.path.join(trial_dir, best_checkpoint.BEST)
    noted = checkpoint.noted(best)
    assert noted, "a trial that ended has evaluated, and so has a best checkpoint"
    best_checkpoint.export(noted[1], os.path.join(model_dir, best_checkpoint.BEST))


def summary(trials: list[dict[str, Any]], metric: str,
            lower_is_better: bool = False) -> dict[str, Any]:
    """Median, best, worst and standard deviation of the trials' best results, the content of
    `results.json`. Of equally good trials the one with the lowest loss is the best.

    Args:
      trials: dicts of `seed`, `learning_rate`, `best` (an evaluation).
      metric: the main metric.
      lower_is_better: whether a lower value is better.
    """
    values = [trial["best"][metric] for trial in trials]
    sign = -1 if lower_is_better else 1
    best = max(range(len(trials)), key=lambda i: (
        sign * values[i], -trials[i]["best"].get("loss", 0)))
    return {"metric": metric, "median": statistics.median(values), "best": values[best],
            "worst": min(values, key=lambda value: sign * value),
            "standard_deviation": statistics.stdev(values) if len(values) > 1 else 0.0,
            "best_trial": best + 1,
            "collapsed": sum(bool(trial["best"].get("collapsed")) for trial in trials),
            "trials": trials}


def table(results: dict[str, Any]) -> list[str]:
    """The results of `summary` as lines of text."""
    metric = results["metric"]
    lines = ["trial  seed  learning rate   step  %10s" % metric]
    for number, trial in enumerate(results["trials"], 1):
        best = trial["best"]
        lines.append("%5d  %4d  %13.2e  %5d  %10.4f%s" % (
            number, trial["seed"], trial["learning_rate"], best["step"], best[metric],
            "  degenerate: %s" % best["collapsed"] if best.get("collapsed") else ""))
    lines.append("median %.4f  best %.4f (trial %d)  worst %.4f  standard deviation %.4f" % (
        results["median"], results["best"], results["best_trial"], results["worst"],
        results["standard_deviation"]))
    return lines
