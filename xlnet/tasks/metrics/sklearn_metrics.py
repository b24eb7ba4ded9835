"""Functions and scorers of scikit-learn as metrics.

Some functions of `sklearn.metrics` take labels, others probabilities, which their arguments do not
show: `log_loss(y_true, y_pred)` takes probabilities. scikit-learn's scorers declare it, and whether
a higher value is better; nothing here decides it by a list of names. Shape letters: n rows, L
labels.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Optional

import numpy as np

from xlnet.errors import UserError
from xlnet.tasks.task import Task

MODULE = "sklearn.metrics"
_TAKES_LABELS = "predict"  # `response_method` of the scorers of such functions
# Names of the second parameter, of functions without a scorer that take probabilities.
_PROBABILITIES = frozenset({"y_score", "y_prob", "y_proba"})
_MARGINS = "pred_decision"  # the same of distances from a hyperplane, which no network here has
# Its convention: "functions ending with _error or _loss return a value to minimize".
_LOWER_IS_BETTER = ("_loss", "_error")


class SklearnMetric(NamedTuple):
    """A function of scikit-learn, and what its scorer declares."""

    function: Callable[..., Any]
    takes_probabilities: bool
    lower_is_better: bool
    sign: int = 1  # of a scorer that was named itself: -1 for neg_log_loss
    arguments: Mapping[str, Any] = {}  # of the scorer

    def __call__(
        self, task: Task, decisions: np.ndarray, labels: np.ndarray, values: np.ndarray
    ) -> float:
        """As `split_metrics.Metric`."""
        arguments = dict(self.arguments)
        if not self.takes_probabilities:
            return self.sign * self.function(labels, decisions, **arguments)
        count = len(task.labels or ())
        if np.ndim(values) != 2 or np.shape(values)[1] != count:
            raise ValueError(
                "it takes the probability of each label, which this task does not have"
            )
        # A split may lack some labels.
        if np.ndim(labels) == 1 and "labels" in inspect.signature(self.function).parameters:
            arguments["labels"] = np.arange(count)
        elif np.ndim(labels) == 1 and count > 2:
            labels = np.equal(labels[:, None], np.arange(count)).astype(np.int64)  # [n,L]
        scores = values[:, 1] if np.ndim(labels) == 1 and count == 2 else values
        return self.sign * self.function(labels, scores, **arguments)


def is_of_sklearn(function: Any) -> bool:
    """Whether scikit-learn defines a function, under whichever name it was imported."""
    return str(getattr(function, "__module__", "")).startswith("sklearn.")


def of_scorer(name: str) -> Optional[SklearnMetric]:
    """The metric of a scorer such as "roc_auc_ovr"; None: there is no such scorer."""
    from sklearn import metrics

    return _of_scorer(metrics.get_scorer(name)) if name in metrics.get_scorer_names() else None


def _of_scorer(scorer: Any) -> SklearnMetric:
    return SklearnMetric(
        scorer._score_func,
        scorer._response_method != _TAKES_LABELS,
        lower_is_better=False,  # a scorer turns its function's sign
        sign=scorer._sign,
        arguments=scorer._kwargs,
    )


def of_function(function: Callable[..., Any], name: str) -> SklearnMetric:
    """The metric of a function of scikit-learn, or of what its `make_scorer` returned; name: what
    the flag says, for errors.

    Raises:
      UserError: it takes neither labels nor probabilities.
    """
    if hasattr(function, "_score_func"):
        return _of_scorer(function)
    scorers = _scorers_of(function)
    if scorers:
        return SklearnMetric(
            function,
            scorers[0]._response_method != _TAKES_LABELS,
            lower_is_better=scorers[0]._sign < 0,
        )
    second = [*inspect.signature(function).parameters][1:2]
    if second == [_MARGINS]:
        raise UserError(
            f"metric: '{name}' takes the margins of a linear classifier, expected a function of "
            "labels or of probabilities"
        )
    return SklearnMetric(
        function,
        bool(_PROBABILITIES & set(second)),
        lower_is_better=function.__name__.endswith(_LOWER_IS_BETTER),
    )


def _scorers_of(function: Callable[..., Any]) -> list[Any]:
    """The scorers of scikit-learn that call a function, first those that give it no arguments."""
    from sklearn import metrics

    scorers: list[Any] = [metrics.get_scorer(name) for name in metrics.get_scorer_names()]
    found = [scorer for scorer in scorers if scorer._score_func is function]
    return sorted(found, key=lambda scorer: len(scorer._kwargs))


def check_direction(metric: SklearnMetric, name: str) -> None:
    """Raises UserError where the flag `name` says another direction than scikit-learn."""
    says_lower = name.endswith(":min")
    if metric.lower_is_better and not says_lower:
        raise UserError(
            f"metric: '{name}': scikit-learn says that lower is better; give --metric={name}:min"
        )
    if says_lower and not metric.lower_is_better:
        raise UserError(
            f"metric: '{name}': scikit-learn says that higher is better; give "
            f"--metric={name[: -len(':min')]}"
        )
