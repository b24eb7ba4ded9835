"""Sampling the next token from log probabilities: NumPy functions of one text.

Shape letters: V vocabulary.
"""

from __future__ import annotations

import numpy as np
import scipy.special


def distribution(
    log_probabilities: np.ndarray, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> np.ndarray:
    """The probabilities that a token is sampled with: float64 [V], sum 1.

    With top_p = 0.7, of 0.5, 0.1, 0.3 and 0.1 the first and the third are kept: 0.625 and 0.375.
    """
    # The temperature is applied first. A tiny one would take all logs to -inf, so they are then
    # taken relative to the largest one, which stays 0.
    logs = np.asarray(log_probabilities, np.float64)
    with np.errstate(over="ignore"):
        scaled = logs / temperature
        if scaled.max() == -np.inf:
            scaled = (logs - logs.max()) / temperature
    order = np.argsort(-scaled, kind="stable")  # likeliest first
    # Then the `top_k` likeliest tokens are kept.
    if top_k:
        order = order[:top_k]
    kept = scipy.special.softmax(scaled[order])
    # Of these, the fewest likeliest ones whose probabilities sum up to `top_p` (nucleus sampling,
    # https://arxiv.org/abs/1904.09751): those before which the sum was below it.
    if top_p < 1:
        before = np.cumsum(kept) - kept
        order, kept = order[before < top_p], kept[before < top_p]
    probabilities = np.zeros(len(scaled))
    probabilities[order] = kept / kept.sum()
    return probabilities


def best(scores: np.ndarray, count: int) -> tuple[np.ndarray, ...]:
    """The indices of the `count` largest scores that are not -inf, the largest first: one array for
    each axis."""
    # A partition finds the best ones in linear time. Only these are sorted; equal ones by index.
    flat = scores.ravel()
    count = min(count, len(flat))
    found = np.argpartition(-flat, count - 1)[:count]
    found = found[np.lexsort((found, -flat[found]))]
    return np.unravel_index(found[flat[found] > -np.inf], scores.shape)
