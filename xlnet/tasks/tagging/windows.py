"""Sentences of words as records: the pieces of words, and windows of sentences that are too long.

Each word is encoded alone (`Tokenizer.encode_words`), so that a piece belongs to one word. A word
after a space has the mark of the space, "▁EU"; a word after another one, such as a Chinese
character, does not, so that it is the vocabulary's piece of running text, without a lone "▁". The
first word of a sentence has the mark in languages with spaces between words.

A sentence that does not fit becomes several windows of complete words. Each word belongs to one
window, in order; a window has as many words on both sides as fit, as context that is not tagged. A
word that alone does not fit loses its end.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np

from xlnet.corpus.feature_spec import Feature
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.tasks.features import encoding

_CONTEXT_SHARE = (
    8  # of a window, on each side of its own words, is context: one in eight
)


class TaggedExample(NamedTuple):
    """A sentence of W words, as `json` can write it."""

    words: Sequence[str]
    after_space: Sequence[int]  # 1 if a word comes after a space
    tags: Optional[Sequence[int]]  # ids; None if they are not known


class WordWindow(NamedTuple):
    """Words [first, last) of a sentence, of which [own, own_end) are tagged."""

    first: int
    last: int
    own: int
    own_end: int


def features(length: int) -> tuple[Feature, ...]:
    """The features of a record of T = `length` tokens, in addition to the ids."""
    return (
        Feature(
            "label_ids", (length,), "int"
        ),  # at each piece of a word: its tag's id + 1
        Feature(
            "word_starts", (length,), "int"
        ),  # 1 at the first piece of each word to be tagged
        Feature(
            "sentence_edges", (2,), "int"
        ),  # 1 if the first, the last of these words is
        # that of the sentence
    )


def windows(sizes: Sequence[int], room: int) -> list[WordWindow]:
    """The windows of a sentence, of the pieces of each word (at most `room`) and those that fit."""
    ends = np.cumsum([0, *sizes])  # ends[i]: pieces before word i
    count, context = len(sizes), room // _CONTEXT_SHARE
    if ends[-1] <= room:
        return [WordWindow(0, count, 0, count)]
    made, own = [], 0
    while own < count:
        # The window's own words are as many as fit next to context on both sides, at least one. If
        # the rest of the sentence fits it is taken completely, as it needs no context on the right.
        left = min(context, int(ends[own]))
        own_end = count
        if ends[-1] - ends[own] > room - left:
            limit = ends[own] + room - left - context
            own_end = max(int(np.searchsorted(ends, limit, "right")) - 1, own + 1)
        # Context: up to `left` pieces before them, then words after them and, if there are none,
        # more before them.
        first, last = own, own_end
        left = min(left, room - int(ends[own_end] - ends[own]))
        while first > 0 and ends[own] - ends[first - 1] <= left:
            first -= 1
        while last < count and ends[last + 1] - ends[first] <= room:
            last += 1
        while first > 0 and ends[last] - ends[first - 1] <= room:
            first -= 1
        made.append(WordWindow(first, last, own, own_end))
        own = own_end
    return made


def arrays_of(
    examples: Sequence[TaggedExample], tokenizer: Tokenizer, layout: encoding.Layout
) -> tuple:
    """(dict of arrays [m, ...], int [n], the windows of each sentence), as
    `feature_spec.finetuning_features` with `features` lists them."""
    length = layout.max_seq_length
    room = length - 2  # without <sep> <cls>
    words: list[str] = []
    after_space: list[bool] = []
    examples = list(map(TaggedExample._make, examples))
    for example in examples:
        words += example.words
        after_space += map(bool, example.after_space)
    encoded = iter(tokenizer.encode_words(words, after_space))
    texts, labels, starts, edges, counts = [], [], [], [], []
    tokens_read, tokens = [], []
    for example in examples:
        complete = [next(encoded) for _ in example.words]
        pieces = [ids[:room] for ids in complete]
        sizes = list(map(len, pieces))
        parts = windows(sizes, room)
        counts.append(len(parts))
        tokens += [sum(map(len, complete))] * len(parts)
        tokens_read += [sum(sizes)] * len(parts)
        for part in parts:
            ids = list(itertools.chain.from_iterable(pieces[part.first : part.last]))
            texts.append((ids, None))
            # A word of the window's own has its tag at each piece, and a 1 at the first; context
            # and padding have 0.
            label, start = np.zeros((2, length), np.int32)
            place = room - len(ids)
            for i in range(part.first, part.last):
                if part.own <= i < part.own_end:
                    start[place] = 1
                    if example.tags:
                        label[place : place + sizes[i]] = example.tags[i] + 1
                place += sizes[i]
            labels.append(label)
            starts.append(start)
            edges.append((part.own == 0, part.own_end == len(pieces)))
    arrays = encoding.lay_out(texts, length, tokenizer.cls_id, tokenizer.sep_id)
    arrays["label_ids"] = np.array(labels)
    arrays["word_starts"] = np.array(starts)
    arrays["sentence_edges"] = np.array(edges, np.int32)
    arrays["is_real_example"] = np.ones(len(texts), np.int32)
    arrays[encoding.TOKENS_READ] = np.array(tokens_read)
    arrays[encoding.TOKENS] = np.array(tokens)
    return arrays, np.array(counts)
