"""Which tokens of a sequence are predicted, and in which order (paper, sections 2.2 to 2.4).

NumPy functions of batches. A factorization order is a vector of ranks, not a matrix:
`modeling.permutation_mask` makes the mask on the device.

`SamplingSettings` are those of the run, with `num_predict` and `perm_size` above 0: where they are
not given, they follow from the lengths of the records (`pretraining.resolve.choose_sampling`). A
sequence has two parts: the first `reuse_len` tokens, the context, and the rest.

Shape letters: B sequences, Q tokens of a sequence, T tokens of a part of it, P target positions.
"""

from __future__ import annotations

import collections
from typing import Any, Callable

import numpy as np
from numpy.typing import ArrayLike

from xlnet.settings.data import SEQUENCE_SPECIAL_TOKENS
from xlnet.settings.pretraining import SamplingSettings
from xlnet.support.errors import wrong

# [pieces] Longer runs without a word's beginning are text without spaces, see `_Words`.
LONGEST_WORD = 10
# N-grams have 1 to 5 words (of the legacy rule: pieces), n of them with weight 1/n. These are the
# chances that an n-gram has at most 1, 2, 3 and 4.
_WEIGHTS = 1.0 / np.arange(1, 6)
_NGRAM_LIMITS = (np.cumsum(_WEIGHTS) / np.sum(_WEIGHTS))[:-1]

# rank int32 [B,Q]: that of `ranks` in each part. The ranks of the second part are raised by a
# constant above all ranks of the first. Its tokens outside of the order have the constant - 1, so
# every position of the second part sees them, and none of the first.
# positions int32 [B,P]: the targets in ascending order, filled up with the last one (without
# targets, the sequence's last token). weights float32 [B,P]: 1 for targets, 0 for what fills up.
Sampled = collections.namedtuple("Sampled", "rank positions weights")


def check(settings: SamplingSettings, seq_len: int, reuse_len: int) -> None:
    """Raises UserError for more targets than a sequence of `seq_len` tokens can have, for more than
    `mask_alpha` targets in `mask_alpha` tokens, and for an order that nothing registered."""
    if settings.factorization_order not in ORDERS:
        found, expected = repr(settings.factorization_order), ", ".join(ORDERS)
        remedy = "--own_module registers others"
        raise wrong("factorization_order", found, f"one of {expected}", remedy)
    most = seq_len - SEQUENCE_SPECIAL_TOKENS
    if settings.mask_mode == "legacy":
        # Half of them are in each part, however long it is; of an odd number the first part has one
        # more. So 7 targets need at least 4 tokens in the first part and 3 in the second. Special
        # tokens count here, as this rule may predict <sep> and <cls>.
        most = min(most, 2 * reuse_len, 2 * (seq_len - reuse_len) + 1)
    if settings.num_predict > most:
        expected = f"at most {most} for sequences of {seq_len} tokens"
        raise wrong("num_predict", settings.num_predict, expected)
    if settings.mask_alpha < settings.mask_beta:
        expected = f"at least mask_beta, {settings.mask_beta}"
        raise wrong("mask_alpha", settings.mask_alpha, expected)


class Random:
    """Random numbers in B rows; row b is a function of (seed, epochs[b], streams[b], sequences[b])
    alone. These are integers from 0 to 2^63 - 1; epochs, streams and sequences are [B], or a number
    that all rows have."""

    def __init__(
        self, seed: int, epochs: ArrayLike, streams: ArrayLike, sequences: ArrayLike
    ) -> None:
        # Philox is a counter-based generator that begins at any counter, so a sequence's
        # numbers are the same in any batch and order.
        self._philox = np.random.Philox(key=np.array([seed, 0], np.uint64))
        self._generator = np.random.Generator(self._philox)
        columns = np.broadcast_arrays(sequences, streams, epochs)
        # Of each row (sequence, stream, epoch), which are 3 of the 4 words of its counter.
        self._rows = np.stack(columns, axis=1).tolist()
        self._used = 0  # numbers that each row has had, the first word of the counter
        self._state: Any = self._philox.state  # at its beginning, nothing buffered

    def uniform(self, count: int) -> np.ndarray:
        """Returns the next `count` numbers of each row: float64 [B,count] in [0, 1)."""
        numbers = np.empty((len(self._rows), count))
        for numbers_of_row, row in zip(numbers, self._rows):
            self._state["state"]["counter"] = (self._used, *row)
            self._philox.state = self._state
            self._generator.random(out=numbers_of_row)
        # Philox counts by one for four numbers, so no counter is used twice.
        self._used += count
        return numbers


def sample(
    random: Random,
    is_special: np.ndarray,
    word_start: np.ndarray,
    direction: np.ndarray,
    settings: SamplingSettings,
    reuse_len: int,
) -> Sampled:
    """Samples targets and factorization orders of a batch: exactly P targets in each sequence in
    the modes `whole_word` and `token`, at most P by the legacy rule.

    Args:
      random: the random numbers of the B sequences.
      is_special: bool [B,Q], tokens that are never predicted (<sep>, <cls>).
      word_start: bool [B,Q], where, in reading order, words begin; for the legacy rule, which
        reads backward sequences in the order of the text, pieces that begin a word there.
      direction: int [B], 1 backward; for the legacy rule.
      settings: P is their `num_predict`.
      reuse_len: tokens of the first part.

    Returns:
      rank int32 [B,Q]; positions int32 [B,P]; weights float32 [B,P], 0 where a position does not
      count, as there are fewer targets.
    """
    num_predict = settings.num_predict
    parts = (slice(0, reuse_len), slice(reuse_len, None))  # reused context, the rest
    is_legacy = settings.mask_mode == "legacy"
    # The number of targets in the first part, int [B].
    if is_legacy:  # half, rounded up
        in_first = np.full(len(is_special), num_predict - num_predict // 2)
    else:
        # Each part gets targets in proportion to its tokens that can be predicted. The number is
        # rounded at random, so that every token has the same chance. Example: P = 2, parts of 3 and
        # 1 tokens; the first part should have 1.5 targets, and gets 1 or 2, each half of the time.
        num_first = np.sum(~is_special[:, parts[0]], axis=1)  # [B]
        num_tokens = np.sum(~is_special, axis=1)  # [B]
        expected = num_predict * num_first / num_tokens  # [B]
        in_first = np.floor(expected + random.uniform(1)[:, 0]).astype(np.int64)
    is_target = np.empty(is_special.shape, bool)
    for part, budget in zip(parts, (in_first, num_predict - in_first)):
        special, starts = is_special[:, part], word_start[:, part]
        if is_legacy:
            picked = _legacy_targets(random, starts, direction, budget, settings)
        else:
            picked = sample_targets(random, special, starts, budget, settings)
        # The legacy rule may pick <sep> or <cls>, so there may be fewer targets than P.
        is_target[:, part] = picked & ~special

    # Each part has an order. The first part must not see the second, and the second sees all of the
    # first: a constant is added to every rank of the second part, also to its ranks -1, and is
    # larger than all ranks of the first part.
    is_permuted = is_target | is_special
    rank = np.empty(is_target.shape, np.int32)  # [B,Q]
    for part in parts:
        rank[:, part] = ranks(random, is_permuted[:, part], settings)
    rank[:, parts[1]] += 1 + _rank_limit(reuse_len, settings.perm_size)
    return Sampled(rank, *_positions(is_target, num_predict))


def _positions(
    is_target: np.ndarray, num_predict: int
) -> tuple[np.ndarray, np.ndarray]:
    """The positions of the targets in ascending order, int32 [B,P], and their weights, float32
    [B,P], from `is_target`, bool [B,Q]; num_predict: P.

    If there are fewer than P, the last one is repeated with the weight 0. Example: of four tokens
    the second and the last are targets, and P = 3: positions 1 3 3, weights 1 1 0.
    """
    # The positions of the targets, then the others, both in ascending order: int [B,Q].
    targets_first = np.argsort(~is_target, axis=1, kind="stable")
    count = is_target.sum(axis=1, keepdims=True)  # [B,1]
    is_used = np.arange(num_predict) < count  # [B,P]
    # Without targets, index -1 is the last of the others, the last token of the sequence.
    last = np.take_along_axis(targets_first, count - 1, axis=1)  # [B,1]
    positions = np.where(is_used, targets_first[:, :num_predict], last)
    return positions.astype(np.int32), is_used.astype(np.float32)


# ---- orders ----

# A factorization order: a function of (random numbers, is_permuted bool [B,T], perm_size) that
# returns ranks, int32 [B,T], as `ranks` explains them. T are the tokens of a part of a sequence, in
# the order in which the model reads them.
Order = Callable[[Random, np.ndarray, int], np.ndarray]


def register_order(order: Order) -> Order:
    """Makes a factorization order available by the name of its function; returns it, for use as a
    decorator. A ValueError for the name of the library's order."""
    if order.__name__ == uniform.__name__:
        found = f"found the name '{order.__name__}' of the library's order"
        raise ValueError(f"{found}, expected another")
    ORDERS[order.__name__] = order
    return order


def ranks(
    random: Random, is_permuted: np.ndarray, settings: SamplingSettings
) -> np.ndarray:
    """Ranks, int [B,T], of the tokens of a part in the order that `settings` name.

    is_permuted: bool [B,T], the predicted and the special tokens. The others have rank -1: all see
      them, they see no permuted token. Position i sees j if j comes earlier:
      `rank[j] < rank[i] + (0 if i is a target else 1)`. Four tokens, of which 0, 2 and 3 are
      targets in the order 2, 0, 3 (● sees, · does not; a target does not see itself):

                      sees  0 1 2 3
        token 0, rank 1     · ● ● ·       after token 2, before token 3
        token 1, rank -1    · ● · ·       is not permuted
        token 2, rank 0     · ● · ·       the first
        token 3, rank 2     ● ● ● ·       the last

    Raises:
      UserError: an order that a user has registered returns something else.
    """
    name = settings.factorization_order
    rank = np.asarray(ORDERS[name](random, is_permuted, settings.perm_size))
    # Wrong ranks would show targets their own answers.
    limit = _rank_limit(is_permuted.shape[1], settings.perm_size)
    if rank.shape == is_permuted.shape and rank.dtype.kind in "iu":
        is_right = np.where(is_permuted, (rank >= 0) & (rank < limit), rank == -1)
        if is_right.all():
            return rank
    raise wrong(
        f"factorization_order {name}",
        f"ranks {rank.dtype} {rank.shape} from {rank.min()} to {rank.max()}",
        f"integers {is_permuted.shape}, 0 to {limit - 1} where is_permuted is true, else -1",
    )


def _rank_limit(length: int, perm_size: int) -> int:
    """The ranks of `length` tokens are below this number: `length` rounded up to full chunks of
    `perm_size`, as the ranks in a shorter last chunk go up to those of a full one."""
    size = min(perm_size, length)
    return -(-length // size) * size


def uniform(random: Random, is_permuted: np.ndarray, perm_size: int) -> np.ndarray:
    """The ranks of the paper's order, int32 [B,T]: random, all orders of a chunk of `perm_size`
    tokens being equally likely. is_permuted: bool [B,T]."""
    # As in the original implementation, all chunks have the same order within, and each chunk comes
    # after those to its left.
    size = min(perm_size, is_permuted.shape[1])
    order = np.argsort(random.uniform(size), axis=1, kind="stable")
    return ranks_of_order(order, is_permuted)


ORDERS: dict[str, Order] = {"uniform": uniform}


def ranks_of_order(order: np.ndarray, is_permuted: np.ndarray) -> np.ndarray:
    """Ranks, int32 [B,T], of tokens whose chunks all have the same order, one after the other.

    Args:
      order: int [B,size], the ranks 0 ... size - 1 of the positions in a chunk.
      is_permuted: bool [B,T]; the other tokens have rank -1.

    Chunks of 3, order 2 0 1, four tokens of which the second is not permuted: the chunks have
    2 0 1 and 5 3 4, so the ranks are 2 -1 1 5.
    """
    length, size = is_permuted.shape[1], order.shape[1]
    firsts = np.arange(0, length, size)  # [chunks], the lowest rank of each
    rank = firsts[:, None] + order[:, None]  # [B,chunks,size]
    # [B,T]: the last chunk is cut where the tokens end.
    rank = rank.reshape(len(order), -1)[:, :length]
    return np.where(is_permuted, rank, -1).astype(np.int32)


# ---- targets: whole words, every token with the same chance ----


def sample_targets(
    random: Random,
    is_special: np.ndarray,
    word_start: np.ndarray,
    budget: np.ndarray,
    settings: SamplingSettings,
) -> np.ndarray:
    """Picks exactly `budget` tokens as whole-word n-grams, n = 1 ... 5 with weight 1/n.

    The text is cut into n-grams, which are laid out on a ring in random order; the tokens on an arc
    of `budget` tokens that begins anywhere are picked. So each token has exactly the chance
    budget / tokens, whatever the words and the order. The order spreads the picked n-grams evenly
    over the text (`_spread`). Of the words that the ends of the arc cut, at most one stays cut
    (`_complete_words`).

    Args:
      random: the random numbers of the B sequences.
      is_special: bool [B,T], tokens that are never picked.
      word_start: bool [B,T], where words begin.
      budget: int [B], at most the number of tokens that are not special.
      settings: `mask_mode`, `mask_alpha` and `mask_beta` are read.

    Returns:
      bool [B,T], the picked tokens.
    """
    # The random numbers: two for each token, [B,T] each, and four for the text, [B,1] each. They
    # decide on the n of each n-gram; the place of each n-gram on the ring; the word at which the
    # cutting begins; where the arc begins; which of the words at its ends becomes complete; and at
    # which of its tokens a word that stays cut begins to be picked.
    length = is_special.shape[1]
    numbers = random.uniform(2 * length + 4)
    for_sizes, for_places, of_text = np.split(numbers, [length, 2 * length], axis=1)
    lap_begin, arc_begin, completed_end, cut_begin = np.split(of_text, 4, axis=1)

    # The ring: the n-grams in the order of their random keys; special tokens come after it.
    # Example: tokens 0 1 are a word, 2 and 3 are words; each word is an n-gram; the keys are .6, .2
    # and .4.
    #
    #     the ring, from place 0 on           tokens 2 3 0 1
    #     an arc of 2 tokens from place 1 on  tokens   3 0      so the word 0 1 is cut
    if settings.mask_mode == "token":
        words = _Words(is_special, np.ones_like(word_start))
        ngram = words.index  # [B,T], of each token
    else:
        words = _Words(is_special, word_start)
        ngram = _ngrams(words, for_sizes, lap_begin)
    ngram_key = _spread(for_places, settings.mask_alpha // settings.mask_beta)
    key = np.take_along_axis(ngram_key, ngram, axis=1)  # [B,T], by token
    key[is_special] = np.inf
    # Equal keys, those of the tokens of an n-gram, stay in the order of the text.
    ring = np.argsort(key, axis=1, kind="stable")  # [B,T], the token at each place
    place = np.argsort(ring, axis=1)  # [B,T], of each token on the ring

    # The arc, and the words at its ends.
    budget = budget[:, None]  # [B,1]
    ring_length = np.sum(~is_special, axis=1, keepdims=True)  # [B,1]
    ring_length = np.maximum(ring_length, 1)  # of special tokens alone: no modulo 0
    first_place = (arc_begin * ring_length).astype(np.int64)  # [B,1], of the arc
    place_on_arc = (place - first_place) % ring_length  # [B,T]
    picked = (place_on_arc < budget) & ~is_special  # [B,T]
    last_place = (first_place + budget - 1) % ring_length  # [B,1]
    end_places = np.concatenate([first_place, last_place], axis=1)
    end_tokens = np.take_along_axis(ring, end_places, axis=1)  # [B,2]
    return _complete_words(picked, words, end_tokens, completed_end, cut_begin)


class _Words:
    """The words of B rows of tokens. A special token ends a word and is not one.

    Words are those of `word_start`, bool [B,T]; but in a run of more than `LONGEST_WORD` tokens
    without a word's beginning each token counts as a word.

    Attributes:
      is_special: bool [B,T].
      after_special: bool [B,T], also the first token.
      starts: bool [B,T], where words begin.
      index: int [B,T], of the token's word in the row; of a special token that of the word before
        it, or 0.
    """

    def __init__(self, is_special: np.ndarray, word_start: np.ndarray) -> None:
        self.is_special = is_special
        self.after_special = np.ones_like(is_special)
        self.after_special[:, 1:] = is_special[:, :-1]
        self.starts = (word_start | self.after_special) & ~is_special
        # In a long run each piece counts as a word: as far as the pieces show, text without spaces
        # may be a single word, which would be too long for an n-gram.
        # Words are counted from 1, through all rows; tokens before the first one have 0.
        word = np.cumsum(self.starts).reshape(is_special.shape)
        lengths = np.bincount(word[~is_special], minlength=1)  # [tokens], by word
        self.starts |= (lengths[word] > LONGEST_WORD) & ~is_special
        self.index = _index(self.starts)


def _index(starts: np.ndarray) -> np.ndarray:
    """The index in its row of each token's word or n-gram, int [B,T]. starts: bool [B,T], where
    words or n-grams begin. Tokens before the first one, which are special, have 0."""
    return np.maximum(np.cumsum(starts, axis=1) - 1, 0)


def _ngram_sizes(numbers: np.ndarray) -> np.ndarray:
    """The sizes of n-grams, n = 1 ... 5 with weight 1/n, one for each random number in [0, 1)."""
    return 1 + np.searchsorted(_NGRAM_LIMITS, numbers, side="right")


def _ngrams(
    words: _Words, size_numbers: np.ndarray, lap_number: np.ndarray
) -> np.ndarray:
    """Cuts the text into n-grams of n words; returns the index of each token's n-gram, int [B,T].

    The text is cut as a ring, once around from a random word, so that all places and both
    directions are treated alike. N-grams do not cross the ring's seam or a special token; an n-gram
    that ends there may be shorter, and so may the last one.

    Args:
      words: of the text.
      size_numbers: [B,T] in [0, 1), random numbers that decide on the n of each n-gram.
      lap_number: [B,1] in [0, 1), a random number that decides where the cutting begins.
    """
    # Example: four words of one token each, n of 2, 1 and 3, beginning at word 1. Counted from
    # there, n-grams begin at the words 0, 2 and 3 of the lap; the last one is cut where the lap
    # ends. They are the words 1 2, 3 and 0, so the indices of the four tokens are 0 1 1 2.
    length = words.index.shape[1]
    sizes = _ngram_sizes(size_numbers)  # [B,T], as many as there can be words
    first_words = np.cumsum(sizes, axis=1) - sizes  # [B,T], of the n-grams, in the lap
    # By word of the lap: whether an n-gram begins. An extra column takes the first words that are
    # beyond any lap; those from the lap's end on are not read.
    begins_in_lap = np.zeros((len(sizes), length + 1), bool)
    np.put_along_axis(begins_in_lap, np.minimum(first_words, length), True, axis=1)
    num_words = words.starts.sum(axis=1, keepdims=True)  # [B,1]
    num_words = np.maximum(num_words, 1)  # of special tokens alone: no modulo 0
    lap_begin = (lap_number * num_words).astype(np.int64)  # [B,1], a word of the text
    word_of_lap = (words.index - lap_begin) % num_words  # [B,T], by token
    begins = np.take_along_axis(begins_in_lap, word_of_lap, axis=1)  # [B,T]
    # `begins` is true at all tokens of an n-gram's first word, of which `starts` keeps the first.
    return _index((begins | words.after_special) & words.starts)


def _spread(uniform: np.ndarray, step: int) -> np.ndarray:
    """Keys [B,T] whose ascending order spreads n-grams over the text. Column j is the key of n-gram
    j of the row; those after the last n-gram are not read.

    The n-grams are divided into groups of `step` neighbours. The order takes one n-gram of each
    group in a first round, another one of each group in the second round, and so on. So the n-grams
    of a round are about `step` apart. Within a group and within a round the order is random.

    uniform: [B,T] in [0, 1), a random number for each n-gram.
    """
    # Example: step 2 and the numbers .9 .1 .3 .5. The groups are .9 .1 and .3 .5. The lower number
    # of each comes in round 0, the other one in round 1, so the keys are 1.9 .1 .3 1.5 and the
    # order is 1 2 3 0.
    rows, length = uniform.shape
    padded = np.pad(uniform, [[0, 0], [0, -length % step]], constant_values=1.0)
    groups = padded.reshape(rows, -1, step)  # [B,groups,step]
    ascending = np.argsort(groups, axis=2)
    rounds = np.argsort(ascending, axis=2)  # how many of the group are lower
    return (rounds + groups).reshape(rows, -1)[:, :length]


def _complete_words(
    picked: np.ndarray,
    words: _Words,
    end_tokens: np.ndarray,
    completed_end: np.ndarray,
    cut_begin: np.ndarray,
) -> np.ndarray:
    """Completes words that the arc of picked tokens has cut: at most one of them stays cut. The arc
    is one of the ring of n-grams in random order (see `sample_targets`), not of the text.

    The words are those of the first and of the last token of the arc. Picked tokens move from one
    of these words to the other until one of the two is complete or empty. The direction is random,
    with chances such that the expected number of picked tokens of each word does not change: if u
    tokens could move to the first word and d to the second, they move to the first one with the
    chance d / (u + d). The picked tokens of a word that stays cut begin at a random token of the
    word and wrap around, so that each has the same chance.

    Args:
      picked: bool [B,T], the tokens of the arc.
      words: of the text.
      end_tokens: int [B,2], the positions in the text of the first and the last token of the arc.
      completed_end: [B,1], random numbers in [0, 1): which word the tokens move to.
      cut_begin: [B,1], random numbers in [0, 1): the token where the picked ones begin.

    Returns:
      bool [B,T], the picked tokens, as many as before.
    """
    # The two words and their tokens.
    end_words = np.take_along_axis(words.index, end_tokens, axis=1)  # [B,2]
    # A special token has the index of the word before it, of which it is no part.
    has_index = words.index[:, None] == end_words[:, :, None]
    in_word = has_index & ~words.is_special[:, None]  # [B,2,T]

    # How many tokens of each word are picked, and how many move. Example: two words of 3 tokens, of
    # which 1 and 2 tokens are picked. Up to 2 tokens can move to the first word, up to 1 to the
    # second. With a chance of 1/3 the first word becomes complete, with a chance of 2/3 the second:
    # the expected numbers are 1 and 2, as before.
    size = in_word.sum(axis=2)  # [B,2]
    count = (in_word & picked[:, None]).sum(axis=2)  # [B,2]
    missing = size - count
    # As many as one word misses and the other one, by [:, ::-1], has: [B] each.
    to_first, to_last = np.minimum(missing, count[:, ::-1]).T
    moves_to_first = completed_end[:, 0] * (to_first + to_last) < to_last  # [B]
    moved = np.where(moves_to_first, to_first, -to_last)  # [B], to the first word
    moved[end_words[:, 0] == end_words[:, 1]] = 0  # both ends in one word
    count += np.stack([moved, -moved], axis=1)

    # Which tokens of a word are picked: `count` of them, from a random token of the word on.
    first_picked = (cut_begin * size).astype(np.int64)  # [B,2]
    place = np.cumsum(in_word, axis=2) - 1  # [B,2,T], in the word
    size = np.maximum(size, 1)  # without words: no modulo 0
    ahead = (place - first_picked[:, :, None]) % size[:, :, None]  # [B,2,T]
    is_repicked = in_word & (ahead < count[:, :, None])
    # Tokens of other words stay as they are.
    return np.where(in_word.any(axis=1), is_repicked.any(axis=1), picked)


# ---- targets: the rule of the original implementation ----


def _legacy_targets(
    random: Random,
    starts: np.ndarray,
    direction: np.ndarray,
    budget: np.ndarray,
    settings: SamplingSettings,
) -> np.ndarray:
    """Picks spans of n pieces from a word's start on, in stretches of n · alpha / beta pieces, from
    the left until the budget is spent, then single tokens if the text ends before the budget.

    Args:
      random: the random numbers of the B sequences.
      starts: bool [B,T], whether a word begins at a token.
      direction: int [B], 1 backward: such a row is turned to the order of the text.
      budget: int [B], the number of tokens to pick.
      settings: `mask_alpha` and `mask_beta` are read.

    Returns:
      bool [B,T], the picked tokens.
    """
    length = starts.shape[1]
    is_target = np.empty(starts.shape, bool)
    # Three numbers a token: first [2T] in turn the n and the place of each span, of which there are
    # at most T; then [T] the token's chance to be picked by itself.
    numbers = random.uniform(3 * length)
    for row, (of_row, missing) in enumerate(zip(numbers, budget.tolist())):
        of_spans, of_tokens = np.split(of_row, [2 * length])
        sizes = _ngram_sizes(of_spans[0::2]).tolist()
        text_order = slice(None, None, -1 if direction[row] else 1)
        word_begins = np.flatnonzero(starts[row, text_order])
        # Stretches follow each other from the left. Each has one span, which begins at the first
        # word that starts after a random part of the stretch. The last span is cut to the budget.
        picked = np.zeros(length, bool)
        stretch_begin = 0
        for size, fraction in zip(sizes, of_spans[1::2].tolist()):
            if stretch_begin >= length or not missing:
                break
            size = min(size, missing)
            stretch = size * settings.mask_alpha // settings.mask_beta
            before_span = int(fraction * stretch)  # [pieces], at least
            following = word_begins[word_begins >= stretch_begin + before_span]
            if not len(following) or following[0] + size >= length:
                break  # the span would reach the end of the text
            begin = following[0]
            picked[begin : begin + size] = True
            missing -= size
            stretch_begin = begin + size + stretch - before_span
        # Where the text ends before the budget does: single tokens, each with the same chance.
        chances = np.where(picked, np.inf, of_tokens)
        picked[np.argsort(chances)[:missing]] = True
        is_target[row] = picked[text_order]
    return is_target
