"""Which tokens of a sequence are predicted, and in which order (paper, sections 2.2 to 2.4).

NumPy functions of batches. A factorization order is a vector of ranks, not a matrix:
`modeling.permutation_mask` makes the mask on the device.

Shape letters: B sequences, Q tokens of a sequence, T tokens of a part of it, P target positions.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Callable, Union

import numpy as np

from xlnet.settings.data import SEQUENCE_SPECIAL_TOKENS
from xlnet.support.errors import wrong

LONGEST_WORD = (
    10  # pieces; longer runs come from scripts that are written without spaces
)

# rank int32 [B,Q]: that of `ranks` in each part. The ranks of the second part are raised by a
# constant above all ranks of the first. Its tokens outside of the order have the constant - 1, so
# every position of the second part sees them, and none of the first.
# positions int32 [B,P]: the targets in ascending order, filled up with the last one (without
# targets, the sequence's last token). weights float32 [B,P]: 1 for targets, 0 for what fills up.
Sampled = collections.namedtuple("Sampled", "rank positions weights")


@dataclasses.dataclass(frozen=True)
class Permutation:
    """How the targets of a sequence are sampled; sizes in tokens."""

    reuse_len: int  # length of the first part, the context of the rest
    num_predict: int  # P, exactly
    perm_size: int  # size of a permutation chunk
    mask_alpha: (
        int  # targets lie evenly: with a budget of mask_beta in mask_alpha tokens,
    )
    mask_beta: (
        int  # about one of each mask_alpha / mask_beta n-grams in a row is predicted
    )
    mask_mode: str = "whole_word"
    max_ngram: int = 5  # words of an n-gram
    factorization_order: str = "uniform"  # a name in `ORDERS`

    def check(self, seq_len: int) -> None:
        """Raises UserError for more targets than a sequence of `seq_len` tokens can have, and for
        an order that nothing registered."""
        if self.factorization_order not in ORDERS:
            found, expected = repr(self.factorization_order), ", ".join(ORDERS)
            remedy = "--own_module registers others"
            raise wrong("factorization_order", found, f"one of {expected}", remedy)
        most = seq_len - SEQUENCE_SPECIAL_TOKENS
        if self.mask_mode == "legacy":  # half of them in each part, however long it is
            most = min(most, 2 * self.reuse_len, 2 * (seq_len - self.reuse_len) + 1)
        if self.num_predict > most:
            expected = (
                f"at most {most} for sequences of {seq_len} tokens of which {self.reuse_len} are "
                f"reused, with mask_mode={self.mask_mode}"
            )
            raise wrong("num_predict", self.num_predict, expected)
        if self.mask_alpha < self.mask_beta:
            expected = f"at least mask_beta, {self.mask_beta}"
            raise wrong("mask_alpha", self.mask_alpha, expected)


class Random:
    """Random numbers in B rows; row b is a function of (seed, epochs[b], streams[b], sequences[b])
    alone, where `epochs` may be one for all. All are integers from 0 to 2^64 - 1."""

    def __init__(
        self,
        seed: int,
        epochs: Union[int, np.ndarray],
        streams: Iterable[int],
        sequences: Iterable[int],
    ) -> None:
        # Philox is a counter-based generator that begins at any counter, so a sequence's
        # numbers are the same in any batch and order.
        self._philox = np.random.Philox(key=np.array([seed, 0], np.uint64))
        self._generator = np.random.Generator(self._philox)
        self._rows = []
        streams = list(streams)
        epoch_of_row = np.broadcast_to(epochs, len(streams))
        for sequence, stream, epoch in zip(sequences, streams, epoch_of_row):
            self._rows.append((int(sequence), int(stream), int(epoch)))
        self._used = 0  # numbers of each row
        self._state: Any = self._philox.state  # at its beginning, nothing buffered

    def uniform(self, count: int) -> np.ndarray:
        """Returns the next `count` numbers of each row: float64 [B,count] in [0, 1)."""
        numbers = np.empty((len(self._rows), count))
        for numbers_of_row, row in zip(numbers, self._rows):
            self._state["state"]["counter"] = (self._used, *row)
            self._philox.state = self._state
            self._generator.random(out=numbers_of_row)
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
      random: of the sequences.
      is_special: bool [B,Q], tokens that are never predicted (<sep>, <cls>).
      word_start: bool [B,Q], where, in reading order, words begin; for the legacy rule, which
        reads backward sequences in the order of the text, pieces that begin a word there.
      direction: int [B], 1 backward; for the legacy rule.
    """
    if permutation.mask_mode == "legacy":
        is_target = _legacy_targets(
            random, is_special, word_start, direction, permutation
        )
    else:
        if permutation.mask_mode == "token":
            word_start = np.ones_like(word_start)
        is_target = _even_targets(random, is_special, word_start, permutation)
    return arrange(random, is_target, is_special, permutation)


def arrange(
    random: Random,
    is_target: np.ndarray,
    is_special: np.ndarray,
    permutation: Permutation,
) -> Sampled:
    """Samples factorization orders for given targets, bool [B,Q]; the rest as for `sample`."""
    rank = np.empty(is_target.shape, np.int32)  # [B,Q]
    # The reused context and the rest of the sequence have an order each. The first part must not
    # see the second, and the second sees all of the first: a constant is added to every rank of
    # the second part, also to its ranks -1, and is larger than all ranks of the first part.
    second_part_offset = 1 + _rank_limit(permutation.reuse_len, permutation.perm_size)
    for part, offset in zip(_parts(is_target, permutation), (0, second_part_offset)):
        if part.start < part.stop:
            is_permuted = (is_target | is_special)[:, part]
            rank[:, part] = offset + ranks(random, is_permuted, permutation)  # [B,T]

    # The positions of the targets. If there are fewer than P, the last one is repeated with the
    # weight 0. Example: of four tokens the second and the last are targets, and P = 3: positions
    # 1 3 3, weights 1 1 0.
    count = is_target.sum(axis=1, keepdims=True)  # [B,1]
    if count.max() > permutation.num_predict:
        raise ValueError(
            f"a sequence has {count.max()} targets, more than num_predict={permutation.num_predict}"
        )
    is_used = np.arange(permutation.num_predict) < count  # [B,P]
    # Row by row, as `is_used` is.
    targets = np.flatnonzero(is_target) % is_target.shape[1]
    positions = np.full(is_used.shape, is_target.shape[1] - 1, np.int32)  # [B,P]
    positions[is_used] = targets
    last = positions[np.arange(len(count)), np.maximum(count[:, 0] - 1, 0)]  # [B]
    return Sampled(
        rank, np.where(is_used, positions, last[:, None]), is_used.astype(np.float32)
    )


def _parts(sequences: np.ndarray, permutation: Permutation) -> tuple[slice, slice]:
    """The reused context, and the rest."""
    return slice(0, permutation.reuse_len), slice(
        permutation.reuse_len, sequences.shape[1]
    )


# ---- orders ----

# A factorization order: a function of (random numbers, is_permuted bool [B,T], perm_size) that
# returns ranks, int32 [B,T], as `ranks` explains them. T are the tokens of a part of a sequence, in
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
        raise ValueError(
            f"factorization order '{name}' is the library's, expected another name"
        )
    ORDERS[name] = order
    return order


def ranks(
    random: Random, is_permuted: np.ndarray, permutation: Permutation
) -> np.ndarray:
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
        found = f"{rank.dtype} of shape {rank.shape}"
        expected = f"integers of shape {is_permuted.shape}"
        raise wrong(f"factorization_order {name}", found, expected)
    # Wrong ranks would show targets their own answers.
    limit = _rank_limit(is_permuted.shape[1], permutation.perm_size)
    is_right = np.where(is_permuted, (rank >= 0) & (rank < limit), rank == -1)
    if not is_right.all():
        found = f"ranks from {rank.min()} to {rank.max()}"
        expected = f"0 to {limit - 1} where is_permuted is true, and -1 elsewhere"
        raise wrong(f"factorization_order {name}", found, expected)
    return rank


def _rank_limit(length: int, perm_size: int) -> int:
    """The ranks of `length` tokens are below this number. It is that of full chunks: the ranks in
    the last chunk go up to those of a full one, even if the chunk is shorter."""
    size = min(perm_size, length)
    return -(-length // size) * size


@register_order
def uniform(random: Random, is_permuted: np.ndarray, perm_size: int) -> np.ndarray:
    """The paper's: uniform among all orders, within chunks of `perm_size` tokens."""
    # As in the original implementation, all chunks have the same order within, and each chunk comes
    # after those to its left.
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


def _even_targets(
    random: Random,
    is_special: np.ndarray,
    word_start: np.ndarray,
    permutation: Permutation,
) -> np.ndarray:
    """`sample_targets` in both parts: bool [B,Q]."""
    num_predict = permutation.num_predict
    first_part, second_part = _parts(is_special, permutation)
    num_first = np.count_nonzero(
        ~is_special[:, first_part], axis=1
    )  # [B], can be predicted
    num_second = np.count_nonzero(~is_special[:, second_part], axis=1)
    fewest = (num_first + num_second).min()
    if num_predict > fewest:
        expected = f"at most {fewest}, the tokens of a sequence besides <sep> and <cls>"
        raise wrong("num_predict", num_predict, expected)

    # Each part gets a budget of targets in proportion to its tokens that can be predicted. The
    # budget is rounded at random, so that every token has the same chance. Example: P = 2, parts of
    # 3 and 1 tokens; the first part should have 1.5 targets, and gets 1 or 2, each half of the
    # time.
    expected = num_predict * num_first / (num_first + num_second)  # [B]
    budget = np.floor(expected + random.uniform(1)[:, 0]).astype(np.int64)  # [B]
    budgets = (budget, num_predict - budget)
    targets = []
    for part, budget_of_part in zip((first_part, second_part), budgets):
        targets.append(
            sample_targets(
                random,
                is_special[:, part],
                word_start[:, part],
                budget_of_part,
                permutation,
            )
        )
    return np.concatenate(targets, axis=1)


def sample_targets(
    random: Random,
    is_special: np.ndarray,
    word_start: np.ndarray,
    budget: np.ndarray,
    permutation: Permutation,
) -> np.ndarray:
    """Picks exactly `budget` tokens as whole-word n-grams, n = 1 ... `max_ngram` with weight 1/n.

    The text is cut into n-grams, which are laid out on a ring in random order; the tokens on an arc
    of `budget` tokens that begins anywhere are picked. So each token has exactly the chance
    budget / tokens, whatever the words and the order. The order spreads the picked n-grams evenly
    over the text (`_spread`). Of the words that the ends of the arc cut, at most one stays cut
    (`_complete_words`).

    is_special, word_start: bool [B,T], as the result; budget: int [B].
    """
    length = is_special.shape[1]
    size_numbers, spread_numbers, uniforms = np.split(
        random.uniform(2 * length + 4),  # [B,T], [B,T], [B,4]
        [length, 2 * length],
        axis=1,
    )

    # The ring: the n-grams in the order of their random keys; special tokens come after it.
    # Example: tokens 0 1 are a word, 2 and 3 are words; each word is an n-gram; the keys are .6, .2
    # and .4.
    #
    #     the ring, from place 0 on           tokens 2 3 0 1
    #     an arc of 2 tokens from place 1 on  tokens   3 0      so the word 0 1 is cut
    words = _Words(is_special, word_start)
    ngram = _ngrams(words, size_numbers, uniforms[:, :1], permutation)  # [B,T]
    ngram_key = _spread(spread_numbers, permutation.mask_alpha // permutation.mask_beta)
    key = np.where(
        is_special, np.inf, np.take_along_axis(ngram_key, ngram, axis=1)
    )  # [B,T], by token
    order = _in_order(key)  # [B,T], place -> token
    place = np.empty_like(order)  # [B,T], token -> place
    place.ravel()[_flat(order, length)] = np.arange(length)

    # The arc, and the words at its ends.
    tokens = np.maximum(words.tokens, 1)  # [B,1], of the ring
    first_place = (uniforms[:, 1:2] * tokens).astype(np.int64)  # [B,1], of the arc
    ahead = place - first_place
    ahead += tokens * (ahead < 0)  # [B,T], places from there
    picked = (ahead < budget[:, None]) & ~is_special  # [B,T]
    last_place = (first_place + budget[:, None] - 1) % tokens  # [B,1]
    end_places = np.concatenate([first_place, last_place], axis=1)
    ends = np.take_along_axis(order, end_places, axis=1)  # [B,2], tokens
    return _complete_words(picked, words, ends, uniforms[:, 2:])


def _in_order(key: np.ndarray) -> np.ndarray:
    """The columns of each row in the order of its keys [B,T]; those of equal keys, such as the
    tokens of one n-gram, stay in the order of the text."""
    return np.argsort(key, axis=1, kind="stable")


def _flat(columns: np.ndarray, length: int) -> np.ndarray:
    """Indices [B,N] into the flattened array of `columns` [B,N] in B rows of `length`."""
    return columns + length * np.arange(len(columns))[:, None]


class _Words:
    """Words as arrays over tokens. A special token ends a word and is not one.

    Attributes:
      starts: bool [B,T], where words begin.
      index: int [B,T], of the token's word in the row.
      length: int [B,T], of the token's word [tokens].
      after_special: bool [B,T].
      count, tokens: int [B,1], words and tokens in words.
    """

    def __init__(self, is_special: np.ndarray, word_start: np.ndarray) -> None:
        self.is_special = is_special
        self.after_special = np.concatenate(
            [np.ones_like(is_special[:, :1]), is_special[:, :-1]], axis=1
        )
        self.starts = (word_start | self.after_special) & ~is_special
        self._count()
        # In a long run each piece counts as a word: in scripts without spaces, such as Chinese or
        # Thai, the records mark only sentences as words.
        is_long = (self.length > LONGEST_WORD) & ~is_special
        if is_long.any():
            self.starts |= is_long
            self._count()
        self.count = self.starts.sum(axis=1, keepdims=True)
        self.tokens = np.count_nonzero(~is_special, axis=1)[:, None]

    def _count(self) -> None:
        # Words 01, 2 of three tokens: starts 1 0 1, index 0 0 1, length 2 2 1.
        self.index = np.maximum(np.cumsum(self.starts, axis=1) - 1, 0)  # [B,T]
        flat = _flat(self.index, self.starts.shape[1])  # [B,T], of all rows
        sizes = np.bincount(flat.ravel(), minlength=flat.size)  # [B*T], by word
        sizes -= np.bincount(flat[self.is_special], minlength=flat.size)
        self.length = sizes[flat]  # [B,T]


def _size_limits(max_ngram: int) -> np.ndarray:
    """The chance that an n-gram has at most 1, 2, ... max_ngram - 1 words: float64."""
    weights = 1.0 / np.arange(1, max_ngram + 1)
    return (np.cumsum(weights) / np.sum(weights))[:-1]


def _ngrams(
    words: _Words,
    size_numbers: np.ndarray,
    lap_number: np.ndarray,
    permutation: Permutation,
) -> np.ndarray:
    """Cuts the text into n-grams of n words: index of the token's n-gram, int [B,T].

    The text is cut as a ring, once around from a random word, so that all places and both
    directions are treated alike. N-grams do not cross the ring's seam or a special token; an n-gram
    that ends there may be shorter, and so may the last one.

    Args:
      words: of the text.
      size_numbers: [B,T] in [0, 1), random numbers that decide on the n of each n-gram.
      lap_number: [B,1] in [0, 1), a random number that decides where the cutting begins.
      permutation: its `max_ngram`; with the `mask_mode` "token" each token is an n-gram.
    """
    if permutation.mask_mode == "token":
        return words.index
    # Example: four words of one token each, n of 2, 1 and 3, beginning at word 1. N-grams begin at
    # the words 1, 3 and 0; the last one is cut where the lap ends. They are 0, 1 2 and 3, so the
    # indices of the four tokens are 0 1 1 2.
    # Column j is n-gram j in the order of cutting. Its first word is counted from the beginning of
    # the lap: 0, 2 and 3 in the example. There are no n-grams from the lap's end on.
    ngram_size = np.ones(size_numbers.shape, np.int16)
    for limit in _size_limits(permutation.max_ngram):
        ngram_size += size_numbers >= limit
    first_word = np.cumsum(ngram_size, axis=1, dtype=np.int32) - ngram_size  # [B,T]
    is_ngram = first_word < words.count  # [B,T]
    rows = np.repeat(np.arange(len(first_word)), is_ngram.sum(axis=1))  # [n-grams]
    count = words.count[rows, 0]  # [n-grams]
    lap_begin = (lap_number[rows, 0] * count).astype(np.int64)  # [n-grams], a word
    begins_at_word = np.zeros(words.starts.shape, bool)  # [B,T], column: word
    begins_at_word[rows, (lap_begin + first_word[is_ngram]) % count] = True
    begins_in_word = np.take_along_axis(
        begins_at_word, words.index, axis=1
    )  # [B,T], column: token
    begins_at_token = (begins_in_word | words.after_special) & words.starts
    return np.maximum(np.cumsum(begins_at_token, axis=1) - 1, 0)


def _spread(uniform: np.ndarray, step: int) -> np.ndarray:
    """Keys [B,T] whose ascending order spreads n-grams over the text. Column j is the key of n-gram
    j; those after the last n-gram are not read.

    The text is divided into groups of `step` neighbours. The order takes one n-gram of each group
    in a first round, another one of each group in the second round, and so on. So the n-grams of a
    round are about `step` apart. Within a group and within a round the order is random."""
    # Example: step 2 and the numbers .9 .1 .3 .5. The groups are .9 .1 and .3 .5. The lower number
    # of each comes in round 0, the other one in round 1, so the keys are 1.9 .1 .3 1.5 and the
    # order is 1 2 3 0.
    length = uniform.shape[1]
    step = min(step, length)
    padded = np.pad(uniform, [[0, 0], [0, -length % step]], constant_values=1.0)
    groups = padded.reshape(len(uniform), -1, step)  # [B,groups,step]
    rounds: np.ndarray = np.zeros(
        groups.shape, np.int32
    )  # [B,groups,step], 0 to step - 1
    for i in range(step):
        rounds += groups[:, :, i, None] < groups
    return (rounds + groups).reshape(len(uniform), -1)[:, :length]


def _complete_words(
    picked: np.ndarray, words: _Words, ends: np.ndarray, uniforms: np.ndarray
) -> np.ndarray:
    """Completes words that the arc has cut: at most one of them stays cut.

    The words are those of the first and of the last token of the arc. Picked tokens move from one
    of these words to the other until one of the two is complete or empty. The direction is random,
    with chances such that the expected number of picked tokens of each word does not change: if u
    tokens could move to the first word and d to the second, they move to the first one with the
    chance d / (u + d). The picked tokens of a word that stays cut begin at a random token of the
    word and wrap around, so that each has the same chance.

    Args:
      picked: bool [B,T], the tokens of the arc.
      words: of the text.
      ends: int [B,2], the first and the last token of the arc.
      uniforms: [B,2], random numbers in [0, 1).
    """
    # The tokens near each end that belong to its word: all of them, as words have at most
    # `LONGEST_WORD` tokens (`_Words`).
    rows, columns = np.arange(len(picked))[:, None, None], picked.shape[1]
    near = ends[:, :, None] + np.arange(
        1 - LONGEST_WORD, LONGEST_WORD
    )  # [B,2,19], tokens
    is_token = (near >= 0) & (near < columns)
    near = np.clip(near, 0, columns - 1)
    own = np.take_along_axis(words.index, ends, axis=1)  # [B,2], words
    is_in = (
        is_token
        & (words.index[rows, near] == own[:, :, None])
        & ~words.is_special[rows, near]
    )

    # How many tokens of each word are picked, and how many move. Example: two words of 3 tokens, of
    # which 1 and 2 tokens are picked. Up to 2 tokens can move to the first word, up to 1 to the
    # second. With a chance of 1/3 the first word becomes complete, with a chance of 2/3 the second:
    # the expected numbers are 1 and 2, as before.
    size = np.take_along_axis(words.length, ends, axis=1)  # [B,2]
    count = (is_in & picked[rows, near]).sum(axis=2)  # [B,2], picked tokens
    could_move_to_first = np.minimum(size[:, 0] - count[:, 0], count[:, 1])  # [B]
    could_move_to_second = np.minimum(count[:, 0], size[:, 1] - count[:, 1])  # [B]
    threshold = uniforms[:, 0] * (could_move_to_first + could_move_to_second)
    moved_to_first = np.where(
        threshold < could_move_to_second, could_move_to_first, -could_move_to_second
    )  # [B]
    moved_to_first *= own[:, 0] != own[:, 1]
    count = count + moved_to_first[:, None] * [[1, -1]]  # [B,2]

    # Which tokens of a word are picked: those from a random token of the word on.
    first_picked = (uniforms[:, 1:] * size).astype(
        np.int64
    )  # [B,2], tokens of the word before it
    ahead = (
        np.cumsum(is_in, axis=2) - 1 - first_picked[:, :, None]
    )  # [B,2,19], tokens from there
    ahead += size[:, :, None] * (ahead < 0)  # around the word
    completed = picked.copy()
    row_index, _, _ = np.nonzero(is_in)
    completed[row_index, near[is_in]] = (ahead < count[:, :, None])[is_in]
    return completed


# ---- targets: the rule of the original implementation ----


def _legacy_targets(
    random: Random,
    is_special: np.ndarray,
    word_start: np.ndarray,
    direction: np.ndarray,
    permutation: Permutation,
) -> np.ndarray:
    """The targets of the original implementation: bool [B,Q], half of the budget in each part."""
    half = permutation.num_predict // 2
    goals = (permutation.num_predict - half, half)
    is_target = np.zeros(is_special.shape, bool)
    for part, goal in zip(_parts(is_special, permutation), goals):
        numbers = random.uniform(3 * (part.stop - part.start))
        # the rule reads backward sequences forward
        for row, backward in enumerate(direction):
            order = slice(None, None, -1) if backward else slice(None)
            is_target[row, part][order] = _legacy_part(
                numbers[row], word_start[row, part][order].tolist(), goal, permutation
            )
    # The single tokens that use up the budget may be <sep> or <cls>, so there may be fewer than P.
    return is_target & ~is_special


def _legacy_part(
    numbers: np.ndarray, starts: Sequence[bool], goal: int, permutation: Permutation
) -> np.ndarray:
    """Spans of n pieces from a word's start on, in stretches of n · alpha / beta pieces, from the
    left until the budget is spent; single tokens for the rest of it."""
    # Stretches follow each other from the left. Each has one span, which begins at the first word
    # that starts after a random part of the stretch. The last span is cut to the budget.
    length = len(starts)
    pairs = iter(numbers[: 2 * length].reshape(-1, 2).tolist())
    limits = _size_limits(permutation.max_ngram)
    picked, missing, place = np.zeros(length, bool), goal, 0
    while place < length and missing:
        which, where = next(pairs)
        drawn = int(np.searchsorted(limits, which, side="right")) + 1
        size = min(drawn, missing)
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
