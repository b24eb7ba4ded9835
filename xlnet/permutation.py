"""Which tokens of a window are predicted, and in which order (paper, sections 2.2 to 2.4).

Pure NumPy functions of an explicit random generator. A factorization order is a vector of ranks,
not a matrix: `modeling.permutation_mask` makes the mask on the device.

Shape letters: Q tokens in the window, P prediction slots.
"""

import dataclasses

import numpy as np

MAX_NGRAM = 5


@dataclasses.dataclass(frozen=True)
class Permutation:
    """How the targets of a window are drawn; sizes in tokens."""
    reuse_len: int       # the window's first part: what is known before the rest begins
    num_predict: int     # P, exactly
    perm_size: int       # tokens permuted among themselves
    mask_alpha: int      # about mask_beta in mask_alpha words of the text are predicted
    mask_beta: int


def draw(rng, is_special, word_start, permutation):
    """Draws targets and factorization order of one window.

    Both parts of the window, the reused context and the rest, have their own targets, in
    proportion to their length, and their own order; the first part is blind to the second, the
    second sees all of the first.

    Args:
      rng: `numpy.random.Generator`.
      is_special: bool [Q], tokens that are never predicted (<sep>, <cls>).
      word_start: bool [Q], where words begin.
      permutation: `Permutation`.

    Returns:
      rank int32 [Q] (see `ranks`), positions int32 [P] in ascending order.
    """
    length, split = len(is_special), permutation.reuse_len
    first = int(round(permutation.num_predict * split / length))
    parts = ((0, split, first), (split, length, permutation.num_predict - first))
    is_target = np.zeros(length, bool)
    rank = np.empty(length, np.int32)
    for number, (start, end, goal) in enumerate(parts):
        part = slice(start, end)
        is_target[part] = sample_targets(rng, is_special[part], word_start[part], goal, permutation)
        # A constant added to every rank of the second part, its -1 included, sets the parts apart.
        rank[part] = number * (split + 1) + ranks(
            rng, is_target[part] | is_special[part], permutation.perm_size)
    return rank, np.flatnonzero(is_target).astype(np.int32)


def ranks(rng, is_permuted, perm_size):
    """Ranks in a factorization order that is uniform within chunks of `perm_size` tokens.

    Position i may not see j exactly when `rank[i] + (0 if i is a target else 1) <= rank[j]`. Tokens
    that are not permuted have rank -1: everyone may see them, they see no permuted token. As in the
    reference all chunks share one order, and each comes after those to its left.

    Args:
      is_permuted: bool [T], the predicted and the special tokens.

    Returns:
      int32 [T].
    """
    return ranks_of_order(rng.permutation(min(perm_size, len(is_permuted))), is_permuted)


def ranks_of_order(order, is_permuted):
    """`ranks` for a given order of the `len(order)` places in a chunk."""
    length, size = len(is_permuted), len(order)
    chunks = -(-length // size)
    rank = (np.arange(chunks)[:, None] * size + order[None]).reshape(-1)[:length]
    return np.where(is_permuted, rank, -1).astype(np.int32)


def sample_targets(rng, is_special, word_start, goal, permutation):
    """Picks exactly `goal` tokens as whole-word n-grams, n = 1 ... 5 with weight 1/n.

    The text is taken as a ring, so that every place has the same chance. Starting anywhere, it is
    laid out in stretches of n · alpha / beta words, of which n, at a random place in the stretch,
    are predicted; what is missing after one lap is filled up with single words. Only the last
    n-gram, and at worst one word, is cut to meet the budget.

    Returns:
      bool [T].
    """
    words = _words(is_special, word_start)
    if goal > np.count_nonzero(~is_special):
        raise ValueError("%d tokens to predict, but only %d that can be"
                         % (goal, np.count_nonzero(~is_special)))
    picked = np.zeros(len(is_special), bool)
    budget = goal
    lap_start = int(rng.integers(len(words))) if words else 0
    for word in _ngram_words(rng, len(words), permutation):
        start, end = words[(lap_start + word) % len(words)]
        if end - start <= budget and not picked[start]:
            picked[start:end] = True
            budget -= end - start
        if not budget:
            return picked
    return _fill_up(rng, words, picked, budget)


def _words(is_special, word_start):
    """`(start, end)` of each word; a special token ends a word and is none itself."""
    after_special = np.concatenate([[True], is_special[:-1]])
    starts = np.flatnonzero(~is_special & (word_start.astype(bool) | after_special))
    breaks = np.flatnonzero(is_special | word_start.astype(bool) | after_special)
    ends = np.append(breaks, len(is_special))[np.searchsorted(breaks, starts, side="right")]
    return list(zip(starts.tolist(), ends.tolist()))


_SIZES = np.arange(1, MAX_NGRAM + 1)
_CUMULATIVE = np.cumsum(1. / _SIZES) / np.sum(1. / _SIZES)


def _ngram_words(rng, num_words, permutation):
    """Yields, in order, the words (counted from the start of the lap) of the sampled n-grams."""
    share = permutation.mask_alpha / permutation.mask_beta
    most = int(num_words / share) + 1
    sizes = _SIZES[np.searchsorted(_CUMULATIVE[:-1], rng.random(most), side="right")].tolist()
    offsets = rng.random(most).tolist()
    place = 0.
    for n, offset in zip(sizes, offsets):
        first = int(place + offset * (n * share - n + 1))
        yield from range(first, min(first + n, num_words))
        place += n * share
        if place >= num_words:
            return


def _fill_up(rng, words, picked, budget):
    """Adds words in random order until nothing is missing; cuts one where no whole word fits."""
    too_long = []
    for i in rng.permutation(len(words)).tolist():
        start, end = words[i]
        if picked[start]:
            continue
        if end - start <= budget:
            picked[start:end] = True
            budget -= end - start
        else:
            too_long.append(start)
        if not budget:
            return picked
    if budget:
        picked[too_long[0]:too_long[0] + budget] = True
    return picked
