"""Which tokens of a window are predicted, and in which order (paper, sections 2.2 to 2.4).

NumPy functions of batches. A factorization order is a vector of ranks, not a matrix:
`modeling.permutation_mask` makes the mask on the device.

Shape letters: B windows, Q tokens of a window, T tokens of a part of it, P target positions.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable
from typing import Any, Callable

import numpy as np

from xlnet.errors import UserError, did_you_mean
from xlnet.settings.data import WINDOW_SPECIAL_TOKENS

MAX_NGRAM = 5
LONGEST_WORD = 10  # pieces; longer runs come from scripts that are written without spaces

# rank int32 [B,Q], see `ranks`. positions int32 [B,P]: the targets in ascending order, filled up
# with the last one (without targets, the window's last token). weights float32 [B,P]: 1 for
# targets, 0 for what fills up.
Sampled = collections.namedtuple("Sampled", "rank positions weights")


@dataclasses.dataclass(frozen=True)
class Permutation:
    """How the targets of a window are sampled; sizes in tokens."""

    reuse_len: int  # length of the first part, the context of the rest
    num_predict: int  # P, exactly
    perm_size: int  # size of a permutation chunk
    mask_alpha: int  # targets lie evenly: with a budget of mask_beta in mask_alpha tokens,
    mask_beta: int  # about one of each mask_alpha / mask_beta n-grams in a row is predicted
    mask_mode: str = "whole_word"
    factorization_order: str = "uniform"  # a name in `ORDERS`

    def check(self, seq_len: int) -> None:
        """Raises UserError for more targets than a window of `seq_len` tokens can have, and for an
        order that nothing registered."""
        if self.factorization_order not in ORDERS:
            raise UserError(
                "factorization_order is '{}', expected one of {}{}; --objective_module registers "
                "others".format(
                    self.factorization_order,
                    ", ".join(ORDERS),
                    did_you_mean(self.factorization_order, ORDERS),
                )
            )
        most = seq_len - WINDOW_SPECIAL_TOKENS
        if self.mask_mode == "legacy":  # half of them in each part, however long it is
            most = min(most, 2 * self.reuse_len, 2 * (seq_len - self.reuse_len) + 1)
        if self.num_predict > most:
            raise UserError(
                f"num_predict is {self.num_predict}, expected at most {most} for windows "
                f"of {seq_len} tokens of which {self.reuse_len} are "
                f"reused, with mask_mode={self.mask_mode}"
            )
        if self.mask_alpha < self.mask_beta:
            raise UserError(
                f"mask_alpha is {self.mask_alpha}, expected at least mask_beta, {self.mask_beta}"
            )


class Random:
    """B sequences of random numbers; that of row b is a function of (seed, epoch, streams[b],
    windows[b]) alone. All are integers from 0 to 2^64 - 1."""

    def __init__(
        self, seed: int, epoch: int, streams: Iterable[int], windows: Iterable[int]
    ) -> None:
        # Philox is a counter-based generator whose sequences begin at any counter, so a window's
        # numbers are the same in any batch and order.
        self._philox = np.random.Philox(key=np.array([seed, 0], np.uint64))
        self._generator = np.random.Generator(self._philox)
        self._rows = [(int(window), int(stream), epoch) for stream, window in zip(streams, windows)]
        self._used = 0  # numbers of each row
        state = self._philox.state  # at its beginning, nothing buffered
        # Lists: Philox reads item by item, which takes twice as long with arrays.
        self._state: Any = dict(state, buffer=state["buffer"].tolist(), state={"key": [seed, 0]})

    def uniform(self, count: int) -> np.ndarray:
        """Returns the next `count` numbers of each row: float64 [B,count] in [0, 1)."""
        numbers = np.empty((len(self._rows), count))
        for sequence, row in zip(numbers, self._rows):
            self._state["state"]["counter"] = (self._used, *row)
            self._philox.state = self._state
            self._generator.random(out=sequence)
        self._used += count  # Philox counts once in four numbers: more than enough
        return numbers


def sample(
    random: Random,
    is_special: np.ndarray,
    word_start: np.ndarray,
    direction: np.ndarray,
    permutation: Permutation,
) -> Sampled:
    """Samples targets and factorization orders of a batch: P targets in the modes `whole_word` and
    `token`.

    Args:
      random: of the windows.
      is_special: bool [B,Q], tokens that are never predicted (<sep>, <cls>).
      word_start: bool [B,Q], where, in reading order, words begin; for the legacy rule, which
        reads backward windows in the order of the text, pieces that begin a word there.
      direction: int [B], 1 backward; for the legacy rule.
    """
    if permutation.mask_mode == "legacy":
        is_target = _legacy_targets(random, is_special, word_start, direction, permutation)
    else:
        if permutation.mask_mode == "token":
            word_start = np.ones_like(word_start)
        is_target = _even_targets(random, is_special, word_start, permutation)
    return arrange(random, is_target, is_special, permutation)


def arrange(
    random: Random, is_target: np.ndarray, is_special: np.ndarray, permutation: Permutation
) -> Sampled:
    """Samples factorization orders for given targets, bool [B,Q]; the rest as for `sample`."""
    rank = np.empty(is_target.shape, np.int32)  # [B,Q]
    # The reused context and the rest have an order each; the first part is blind to the second, the
    # second sees all of the first. A constant added to every rank of the second part, its -1
    # included, does that, if it is above all ranks of the first part.
    apart = 1 + _rank_limit(permutation.reuse_len, permutation.perm_size)
    for index, part in enumerate(_parts(is_target, permutation)):
        if part.start < part.stop:
            is_permuted = (is_target | is_special)[:, part]
            rank[:, part] = index * apart + ranks(random, is_permuted, permutation)  # [B,T]

    # The targets' positions, of which the last one fills up: of four tokens, the second and the
    # last are targets, P = 3: positions 1 3 3, weights 1 1 0.
    count = is_target.sum(axis=1, keepdims=True)  # [B,1]
    if count.max() > permutation.num_predict:
        raise ValueError(
            f"a window has {count.max()} targets, more than num_predict={permutation.num_predict}"
        )
    is_used = np.arange(permutation.num_predict) < count  # [B,P]
    targets = np.flatnonzero(is_target) % is_target.shape[1]  # row by row, as `is_used` is
    positions = np.full(is_used.shape, is_target.shape[1] - 1, np.int32)  # [B,P]
    positions[is_used] = targets
    last = positions[np.arange(len(count)), np.maximum(count[:, 0] - 1, 0)]  # [B]
    return Sampled(rank, np.where(is_used, positions, last[:, None]), is_used.astype(np.float32))


def _parts(windows, permutation):
    """The reused context, and the rest."""
    return slice(0, permutation.reuse_len), slice(permutation.reuse_len, windows.shape[1])


# ---- orders ----

# A factorization order: a function of (random numbers, is_permuted bool [B,T], perm_size) that
# returns ranks, int32 [B,T], as `ranks` explains them. T are the tokens of a part of a window, in
# the order in which the model reads them.
Order = Callable[[Random, np.ndarray, int], np.ndarray]
ORDERS: dict[str, Order] = {}


def register_order(order: Order) -> Order:
    """Makes a factorization order available by the name of its function; returns it.

    Raises:
      ValueError: the name is that of the library's order.
    """
    name = order.__name__
    if name == Permutation.factorization_order and name in ORDERS:
        raise ValueError(f"factorization order '{name}' is the library's, expected another name")
    ORDERS[name] = order
    return order


def ranks(random: Random, is_permuted: np.ndarray, permutation: Permutation) -> np.ndarray:
    """Ranks, int32 [B,T], of the tokens of a part in the factorization order that is chosen.

    is_permuted: bool [B,T], the predicted and the special tokens. The others have rank -1: all see
      them, they see no permuted token. Position i may not see j exactly when
      `rank[i] + (0 if i is a target else 1) <= rank[j]`. Four tokens, of which 0, 2 and 3 are
      targets in the order 2, 0, 3 (● sees, · does not; a target does not see itself):

                      sees  0 1 2 3
        token 0, rank 1     · ● ● ·       after token 2, before token 3
        token 1, rank -1    · ● · ·       is not permuted
        token 2, rank 0     · ● · ·       the first
        token 3, rank 2     ● ● ● ·       the last

    Raises:
      UserError: an order of one's own returns something else.
    """
    name = permutation.factorization_order
    rank = np.asarray(ORDERS[name](random, is_permuted, permutation.perm_size))
    if rank.shape != is_permuted.shape or rank.dtype.kind not in "iu":
        raise UserError(
            f"factorization_order: {name} returns {rank.dtype} of shape {rank.shape}, expected "
            f"integers of shape {is_permuted.shape}"
        )
    # Wrong ranks would show targets their own answers.
    limit = _rank_limit(is_permuted.shape[1], permutation.perm_size)
    if not np.array_equal(rank >= 0, is_permuted) or rank.min() < -1 or rank.max() >= limit:
        raise UserError(
            f"factorization_order: {name} returns ranks from {rank.min()} to {rank.max()}, "
            f"expected 0 to {limit - 1} where is_permuted is true, and -1 elsewhere"
        )
    return rank


def _rank_limit(length: int, perm_size: int) -> int:
    """What the ranks of `length` tokens are below: the last chunk has those of a full one even if
    it is cut."""
    size = min(perm_size, length)
    return -(-length // size) * size


@register_order
def uniform(random: Random, is_permuted: np.ndarray, perm_size: int) -> np.ndarray:
    """The paper's: uniform among all orders, within chunks of `perm_size` tokens."""
    # As in the original implementation, all chunks have one order, and each comes after those to
    # its left.
    size = min(perm_size, is_permuted.shape[1])
    return ranks_of_order(_in_order(random.uniform(size)), is_permuted)


def ranks_of_order(order: np.ndarray, is_permuted: np.ndarray) -> np.ndarray:
    """Ranks for given orders [B,size] of the positions in a chunk.

    Chunks of 3, order 2 0 1, four tokens of which the second is not permuted: the chunks have
    2 0 1 and 5 3 4, so the ranks are 2 -1 1 5.
    """
    length, size = is_permuted.shape[1], order.shape[1]
    firsts = np.arange(0, length, size)  # [chunks]
    rank = firsts[:, None] + order[:, None]  # [B,chunks,size]
    rank = rank.reshape(len(order), -1)[:, :length]  # [B,T]
    return ((rank + 1) * is_permuted - 1).astype(np.int32)


# ---- targets: whole words, every token with the same chance ----


def _even_targets(random, is_special, word_start, permutation):
    """`sample_targets` in both parts: bool [B,Q]."""
    first, rest = [
        np.count_nonzero(~is_special[:, part], axis=1)  # [B] each
        for part in _parts(is_special, permutation)
    ]
    if permutation.num_predict > (first + rest).min():
        raise UserError(
            f"num_predict is {permutation.num_predict}, but a sequence of the records has "
            f"only {(first + rest).min()} tokens "
            "besides <sep> and <cls>; give at most as many"
        )
    # Each part gets a budget in proportion to its tokens that can be predicted, rounded at random,
    # so that a token's chance is the same in both: of P = 2 targets in parts of 3 and 1 tokens the
    # first has 1.5, so 1 or 2 with the same chance.
    share = permutation.num_predict * first / (first + rest)  # [B]
    budget = np.floor(share + random.uniform(1)[:, 0]).astype(np.int64)  # [B]
    budgets = (budget, permutation.num_predict - budget)
    return np.concatenate(
        [
            sample_targets(random, is_special[:, part], word_start[:, part], budget, permutation)
            for part, budget in zip(_parts(is_special, permutation), budgets)
        ],
        axis=1,
    )


def sample_targets(
    random: Random,
    is_special: np.ndarray,
    word_start: np.ndarray,
    budget: np.ndarray,
    permutation: Permutation,
) -> np.ndarray:
    """Picks exactly `budget` tokens as whole-word n-grams, n = 1 ... 5 with weight 1/n.

    The text is cut into n-grams, which are laid out on a ring in random order; the tokens on an arc
    of `budget` tokens that begins anywhere are picked. So each token has exactly the chance
    budget / tokens, whatever the words and the order. The order spreads the picked n-grams evenly
    over the text (`_spread`). Of the words that the ends of the arc cut, at most one stays cut
    (`_complete_words`).

    is_special, word_start: bool [B,T], as the result; budget: int [B].
    """
    length = is_special.shape[1]
    sizes, spread, uniforms = np.split(
        random.uniform(2 * length + 4),  # [B,T], [B,T], [B,4]
        [length, 2 * length],
        axis=1,
    )

    # The ring: n-grams in the order of their keys, special tokens behind it.
    #
    #     words 01, 2, 3 of four tokens, each an n-gram, with keys .6, .2, .4: the ring is 2 3 01
    #     tokens at places 0 to 3: 2 3 0 1         places of tokens 0 to 3: 2 3 0 1
    #     an arc of 2 tokens from place 1 on picks tokens 3 and 0: word 01 is cut
    words = _Words(is_special, word_start)
    ngram = _ngrams(words, sizes, uniforms[:, :1], permutation.mask_mode)  # [B,T]
    step = permutation.mask_alpha // permutation.mask_beta
    key = _take(_spread(spread, step), ngram)  # [B,T], of the n-gram
    key = np.where(is_special, np.inf, key)
    order = _in_order(key)  # [B,T], place -> token
    place = np.empty_like(order)  # [B,T], token -> place
    place.ravel()[_flat(order, length)] = np.arange(length)

    # The arc, and the words at its ends.
    tokens = np.maximum(words.tokens, 1)  # [B,1], of the ring
    arc = (uniforms[:, 1:2] * tokens).astype(np.int64)  # [B,1], its first place
    ahead = place - arc
    ahead += tokens * (ahead < 0)  # [B,T], places from there
    picked = (ahead < budget[:, None]) & ~is_special  # [B,T]
    edges = (arc + [[0, -1]] + budget[:, None] * [[0, 1]]) % tokens  # [B,2], places
    ends = _take(order, edges)  # [B,2], tokens
    return _complete_words(picked, words, ends, uniforms[:, 2:])


def _in_order(key):
    """`np.argsort(key, kind="stable")`, which is several times slower, of keys [B,T] >= 0."""
    # The bits of such floats are integers in the same order. The last bits are replaced by the
    # column, so that equal keys, of an n-gram's tokens, stay in the order of the text.
    length = key.shape[1]
    room = (1 << (length - 1).bit_length()) - 1
    return np.sort(key.view(np.int64) & ~room | np.arange(length), axis=1) & room


def _take(values, columns):
    """`np.take_along_axis(values, columns, axis=1)`, which is slower: [B,T], [B,N] -> [B,N]."""
    return values.ravel()[_flat(columns, values.shape[1])]


def _flat(columns, length):
    """Indices [B,N] into the flattened array of `columns` [B,N] in B rows of `length`."""
    return columns + length * np.arange(len(columns))[:, None]


def _count_up_to(counted):
    """`np.cumsum(counted, axis=1)` of bool [B,T], which takes twice as long in 64 bits."""
    return np.cumsum(counted, axis=1, dtype=np.int32).astype(np.int64)


class _Words:
    """Words as arrays over tokens. A special token ends a word and is not one.

    Attributes:
      starts: bool [B,T], where words begin.
      index: int [B,T], of the token's word in the row.
      length: int [B,T], of the token's word [tokens].
      after_special: bool [B,T].
      count, tokens: int [B,1], words and tokens in words.
    """

    def __init__(self, is_special, word_start):
        self.is_special = is_special
        self.after_special = np.concatenate(
            [np.ones_like(is_special[:, :1]), is_special[:, :-1]], axis=1
        )
        self.starts = (word_start | self.after_special) & ~is_special
        self._count()
        # In a long run each piece is a word: without spaces, as in Chinese or Thai, the records
        # mark sentences there.
        is_long = (self.length > LONGEST_WORD) & ~is_special
        if is_long.any():
            self.starts |= is_long
            self._count()
        self.count = self.starts.sum(axis=1, keepdims=True)
        self.tokens = np.count_nonzero(~is_special, axis=1)[:, None]

    def _count(self):
        # Words 01, 2 of three tokens: starts 1 0 1, index 0 0 1, length 2 2 1.
        self.index = np.maximum(_count_up_to(self.starts) - 1, 0)  # [B,T]
        flat = _flat(self.index, self.starts.shape[1])  # [B,T], of all rows
        sizes = np.bincount(flat.ravel(), minlength=flat.size)  # [B*T], by word
        sizes -= np.bincount(flat[self.is_special], minlength=flat.size)
        self.length = sizes[flat]  # [B,T]


_SIZES = np.arange(1, MAX_NGRAM + 1)
_CUMULATIVE = np.cumsum(1.0 / _SIZES) / np.sum(1.0 / _SIZES)


def _ngrams(words, sizes, lap_start, mask_mode):
    """Cuts the text into n-grams of n words: index of the token's n-gram, int [B,T].

    The text is cut as a ring, once around from any word, so that all places and both directions are
    treated alike. N-grams do not cross the ring's seam or a special token; those next to these may
    be shorter, and so may the last.

    sizes [B,T], which decide on each n-gram's n, and lap_start [B,1] are in [0, 1).
    """
    if mask_mode == "token":
        return words.index
    # Four words of a token, sizes 2 1 3, lap from word 1 on: n-grams begin at words 1, 3 and 0 (the
    # last is cut at the lap's end), so they are 0, 12, 3 and the tokens' indices 0 1 1 2.
    size = 1 + sum((sizes >= limit).view(np.int8) for limit in _CUMULATIVE[:-1])  # int8 [B,T], n
    begin = np.cumsum(size, axis=1, dtype=np.int32) - size  # [B,T], in words
    is_ngram = begin < words.count  # [B,T]
    rows = np.repeat(np.arange(len(begin)), is_ngram.sum(axis=1))  # [n-grams]
    count = words.count[rows, 0]  # [n-grams]
    lap_start = (lap_start[rows, 0] * count).astype(np.int64)  # [n-grams]
    begins = np.zeros(words.starts.shape, bool)  # [B,T], by word
    begins[rows, (lap_start + begin[is_ngram]) % count] = True
    begins = _take(begins, words.index) | words.after_special  # [B,T], by token
    return np.maximum(_count_up_to(begins & words.starts) - 1, 0)


def _spread(uniform, step):
    """Keys [B,T] whose ascending order takes one of each `step` neighbours, then another, ...

    In this order any 1/step of the n-grams in a row are about `step` apart, each at a random
    position among its `step` neighbours; rounds are shuffled, so a part of one lies anywhere."""
    # Step 2, .9 .1 .3 .5: the groups are .9 .1 and .3 .5, whose lower ones come in round 0, so the
    # keys are 1.9 .1 .3 1.5 and the order 1 2 3 0.
    length = uniform.shape[1]
    step = min(step, length)
    padded = np.pad(uniform, [[0, 0], [0, -length % step]], constant_values=1.0)
    groups = padded.reshape(len(uniform), -1, step)  # [B,groups,step]
    rounds: np.ndarray = np.zeros(groups.shape, np.int32)  # [B,groups,step], 0 to step - 1
    for i in range(step):
        rounds += groups[:, :, i, None] < groups
    return (rounds + groups).reshape(len(uniform), -1)[:, :length]


def _complete_words(picked, words, ends, uniforms):
    """Of the words of the first and the last picked token, leaves at most one cut.

    As many tokens as possible move from one word to the other, at random in either direction, so
    that the expected number in each stays (up and down are the possible moves, taken in the
    proportion down : up). The picked tokens of a word that stays cut begin at any of its tokens and
    wrap around, so each has the same chance.

    picked: bool [B,T]; ends: int [B,2], the first and the last token of the arc; uniforms: [B,2].
    """
    # The tokens near each end that belong to its word.
    rows, columns = np.arange(len(picked))[:, None, None], picked.shape[1]
    near = ends[:, :, None] + np.arange(1 - LONGEST_WORD, LONGEST_WORD)  # [B,2,19], tokens
    is_token = (near >= 0) & (near < columns)
    near = np.clip(near, 0, columns - 1)
    own = _take(words.index, ends)  # [B,2], words
    is_in = is_token & (words.index[rows, near] == own[:, :, None]) & ~words.is_special[rows, near]

    # How many of each word are picked, and how many move. Two words of 3 tokens, 1 of the first and
    # 2 of the second picked: up to 2 tokens can move to the first, up to 1 to the second. With
    # chance 1/3 all of the first is picked, with chance 2/3 all of the second: 1 and 2 tokens are
    # expected, as before.
    size = _take(words.length, ends)  # [B,2]
    some = (is_in & picked[rows, near]).sum(axis=2)  # [B,2], picked
    up = np.minimum(size[:, 0] - some[:, 0], some[:, 1])  # [B]
    down = np.minimum(some[:, 0], size[:, 1] - some[:, 1])  # [B]
    move = np.where(uniforms[:, 0] * (up + down) < down, up, -down)  # [B]
    move *= own[:, 0] != own[:, 1]
    some = some + move[:, None] * [[1, -1]]  # [B,2]

    # Which: those from any token of the word on.
    turn = (uniforms[:, 1:] * size).astype(np.int64)  # [B,2], tokens
    index = np.cumsum(is_in, axis=2) - 1 - turn[:, :, None]  # [B,2,19]
    index += size[:, :, None] * (index < 0)  # of the word's tokens, from the turn on
    completed = picked.copy()
    which, _, _ = np.nonzero(is_in)
    completed[which, near[is_in]] = (index < some[:, :, None])[is_in]
    return completed


# ---- targets: the rule of the original implementation ----


def _legacy_targets(random, is_special, word_start, direction, permutation):
    """The targets of the original implementation: bool [B,Q], half of the budget in each part."""
    half = permutation.num_predict // 2
    goals = (permutation.num_predict - half, half)
    is_target = np.zeros(is_special.shape, bool)
    for part, goal in zip(_parts(is_special, permutation), goals):
        numbers = random.uniform(3 * (part.stop - part.start))
        for row, backward in enumerate(direction):  # backward ones in the order of the text
            order = slice(None, None, -1) if backward else slice(None)
            is_target[row, part][order] = _legacy_part(
                numbers[row], word_start[row, part][order].tolist(), goal, permutation
            )
    # Single tokens that fill up the budget may fall on <sep> or <cls>: there may be fewer than P.
    return is_target & ~is_special


def _legacy_part(numbers, starts, goal, permutation):
    """Spans of n pieces from a word's start on, in stretches of n · alpha / beta pieces, from the
    left until the budget is spent; single tokens for the rest of it."""
    # From the left: a stretch has one span, which begins at the first word that starts after a
    # random part of the stretch. The last span is cut to the budget.
    length = len(starts)
    pairs = iter(numbers[: 2 * length].reshape(-1, 2).tolist())
    picked, missing, place = np.zeros(length, bool), goal, 0
    while place < length and missing:
        which, where = next(pairs)
        size = min(int(np.searchsorted(_CUMULATIVE[:-1], which, side="right")) + 1, missing)
        stretch = size * permutation.mask_alpha // permutation.mask_beta
        left = int(where * stretch)
        begin = next((i for i in range(place + left, length) if starts[i]), length)
        if begin + size >= length:
            break
        picked[begin : begin + size] = True
        missing -= size
        place = begin + size + stretch - left
    # Where the text ends before the budget does: single tokens, each with the same chance.
    chances = np.where(picked, np.inf, numbers[2 * length :])
    picked[np.argsort(chances)[:missing]] = True
    return picked
