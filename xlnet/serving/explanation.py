"""How much each word of a text counts for a prediction.

Shape letters: W words, T tokens of a record, K steps, L labels.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.errors import UserError, did_you_mean
from xlnet.finetuning.model import TaskModel
from xlnet.model_directory.model_files import LoadedModel
from xlnet.model_directory.task_settings import FineTunedTask
from xlnet.serving import session
from xlnet.serving.batched_calls import BatchedCall, Computed
from xlnet.serving.inference import Inference, row_of
from xlnet.serving.settings import ExplanationSettings, from_keywords
from xlnet.serving.texts import pair
from xlnet.tasks.features import encoding
from xlnet.tasks.features.encoding import TokenCounts
from xlnet.tasks.files.tagged_words import find_words
from xlnet.tasks.task import Asked, Row
from xlnet.tasks.types.contract import Head
from xlnet.tokenization.offsets import Aligner
from xlnet.tokenization.tokenizer import is_unspaced

_log = logging.getLogger(__name__)

VERBS = ("classify", "score", "rank")  # of models with one output for a text


class Explanation(NamedTuple):
    """How much each word counts for an output.

    Attributes:
      words: W of them, of both texts of a pair.
      weights: float64 [W], above 0 where a word raises the output. leave_one_out: by how much the
        output falls without the word. integrated_gradients: a sum of W parts of `value` - `base`.
      first_words: the number of words of the first text.
      output: the label whose probability is explained, or "score".
      value: the output for the text.
      base: the output for a text whose words have zero embeddings; None: not used by the method.
      tokens_read: how many tokens of the texts were read; words that were not have weight 0.
      tokens: how many there are, without special ones.
    """

    words: tuple[str, ...]
    weights: np.ndarray
    first_words: int
    output: str
    value: float
    base: Optional[float]
    tokens_read: Optional[int] = None
    tokens: Optional[int] = None


def explaining(inference: Inference, **settings: Any) -> BatchedCall:
    """The call that explains texts or pairs, one after the other.

    Args:
      settings: those of `ExplanationSettings`.
    """
    tuned = inference.tuned(None)
    chosen = from_keywords(ExplanationSettings, settings, "explain")
    check(tuned, chosen.label, chosen.method)

    def prepare(item: Any) -> Row:
        return row_of(tuned, 0, Asked(*pair(item)))

    def compute(rows: list[Row]) -> list[Computed]:
        (row,) = rows
        counts: list[TokenCounts] = []

        def values_of(rows: list[Row]) -> Any:
            values, found = inference.values(tuned, rows)
            counts.append(found)
            return values

        if chosen.method == "leave_one_out":
            explained = leave_one_out(row, chosen.label, tuned, values_of)
        else:
            explained = integrated_gradients(row, chosen, inference, tuned, values_of)
        # The first row that is predicted is the text itself.
        inference.note_cut(counts[0].is_cut[:1], inference.loaded.max_seq_length)
        return [Computed(explained, int(counts[0].read[0]), int(counts[0].total[0]))]

    return BatchedCall(prepare, compute, 1)


def check(tuned: FineTunedTask, label: Optional[str], method: str) -> None:
    """Raises UserError if a model or its label cannot be explained."""
    task = tuned.task
    if task.type.verb not in VERBS:
        raise UserError(
            "explain: a model of task type {} ({}) has several outputs for a text, "
            "expected one for {}".format(task.type.name, task.type.verb, " or ".join(VERBS))
        )
    names = task.scorer.probabilities
    if label is not None and label not in names:
        raise UserError(
            "explain: label is '{}'{}, expected {}".format(
                label,
                did_you_mean(label, names),
                ("one of " + ", ".join(names)) if names else "none: the model has one score",
            )
        )
    if method == "integrated_gradients" and type(task.head).join is not Head.join:
        raise UserError(
            f"explain: predictions of task type {task.type.name} are made of several outputs; give "
            "method=leave_one_out"
        )
    if method == "integrated_gradients" and (
        tuned.settings.long_document == "memory" or task.head.num_choices(False) > 1
    ):
        raise UserError(
            "explain: integrated_gradients needs a model that reads a text at once; "
            "give method=leave_one_out"
        )


def words_of(text: str) -> list[tuple[int, int]]:
    """(start, end) of the words: what is between spaces; in scripts without them each letter."""
    found: list[tuple[int, int]] = []
    for match in re.finditer(r"\S+", text):
        inside = find_words(match[0]) if any(map(is_unspaced, match[0])) else [(0, len(match[0]))]
        found += [(match.start() + start, match.start() + end) for start, end in inside]
    return found


def leave_one_out(
    row: Row, label: Optional[str], tuned: FineTunedTask, values_of: Callable[[list[Row]], Any]
) -> Explanation:
    """Predicts the text without each of its words; `values_of` gives the task's values of n rows,
    float32 [n,L] or [n]."""
    words, first_words = _words(row)
    rows = [row]
    for number, text in enumerate(_texts(row)):
        for start, end in words_of(text):
            texts = _texts(row)
            texts[number] = text[:start] + text[end:]
            rest = iter(texts)
            rows.append(
                row._replace(
                    pairs=tuple(
                        tuple(None if text is None else next(rest) for text in pair)
                        for pair in row.pairs
                    )
                )
            )
    # The first row is the text itself; row w + 1 lacks word w.
    values = np.asarray(values_of(rows), np.float64)
    index, name = _output(tuned, values, label)
    values = values[:, index] if values.ndim > 1 else values
    return Explanation(words, values[0] - values[1:], first_words, name, float(values[0]), None)


def integrated_gradients(
    row: Row,
    chosen: ExplanationSettings,
    inference: Inference,
    tuned: FineTunedTask,
    values_of: Callable[[list[Row]], Any],
) -> Explanation:
    """Integrates the gradient of the output on the way from zero embeddings to those of the words
    (https://arxiv.org/abs/1703.01365). <sep> and <cls> keep theirs.

    Raises:
      UserError: the text is longer than a record, or is cut elsewhere than at its end.
    """
    # The record of the text, and which part of each of its tokens belongs to which word.
    reader, layout, tokenizer = tuned.task.reader, tuned.layout, inference.tokenizer
    records, _ = reader.encode(list(reader.examples([row])), tokenizer, layout)
    encoding.pop_token_counts(records)
    batches = list(
        session.batches_by_length(
            records, layout.max_seq_length, tuned.padding._replace(multiple=1), 1
        )
    )
    word_of_token = (
        _tokens(row, tokenizer, batches[0][1]["input_ids"][0]) if len(batches) == 1 else None
    )
    if word_of_token is None:
        raise UserError(
            f"the text does not fit into max_seq_length {layout.max_seq_length} as it is; give "
            "method=leave_one_out"
        )
    index, name = _output(tuned, np.asarray(values_of([row])), chosen.label)
    part = inference.open().part("explanation", lambda: build(inference.loaded, tuned))

    # The ends of the way, for the sum that the weights should have, and between them the nodes of
    # Gauss and Legendre, of which few give an integral that is nearly exact.
    nodes, factors = np.polynomial.legendre.leggauss(chosen.steps)
    alphas = np.concatenate([[0.0, 1.0], (nodes + 1) / 2])  # [K+2]
    is_word = word_of_token.any(axis=0)  # [T]
    scales = np.where(is_word, alphas[:, None], 1.0).astype(np.float32)
    # Every point of the way is the same record with other scales.
    found = []
    for begin in range(0, len(alphas), inference.batch_size):
        scale = scales[begin : begin + inference.batch_size]
        repeated = {
            feature: np.repeat(values, len(scale), axis=0)
            for feature, values in batches[0][1].items()
        }
        found.append(part(["value", "gradient"], dict(repeated, token_scale=scale, output=index)))
    value, gradient = (np.concatenate(each).astype(np.float64) for each in zip(*found))
    by_token = (factors / 2) @ gradient[2:]  # [T]
    words, first_words = _words(row)
    return Explanation(
        words, word_of_token @ by_token, first_words, name, float(value[1]), float(value[0])
    )


def build(loaded: LoadedModel, tuned: FineTunedTask) -> tuple[session.Tensors, session.Tensors]:
    """The graph of `integrated_gradients`: from a record, `token_scale` float32 [B,T] and the
    number of the output, to its value [B] and the gradient [B,T] with respect to `token_scale`."""
    # As the way begins at zero, the gradient of a token's scale is that of its embedding times the
    # embedding: what integrated gradients integrate.
    inputs = dict(
        session.placeholders(tuned),
        output=tf.placeholder(tf.int32, []),
        token_scale=tf.placeholder(tf.float32, [None, None]),
    )
    values = TaskModel(loaded.config, tuned, loaded.network).outputs(inputs)["values"]
    value = tf.gather(values, inputs["output"], axis=1) if len(values.shape) > 1 else values
    (gradient,) = tf.gradients(tf.reduce_sum(value), inputs["token_scale"])
    return inputs, {"value": value, "gradient": gradient}


def _texts(row):
    return [text for pair in row.pairs for text in pair if text is not None]


def _words(row):
    """(all words of a row, the number of those of its first text)."""
    by_text = [[text[start:end] for start, end in words_of(text)] for text in _texts(row)]
    return tuple(word for words in by_text for word in words), len(by_text[0])


def _output(tuned, values, label):
    """(index, name) of the output that is explained: of the label, or the most probable one of the
    first of `values`."""
    names = tuned.task.scorer.probabilities
    if values.ndim > 2:
        raise UserError(
            f"explain: a prediction of task type {tuned.task.type.name} has the shape "
            f"{values.shape[1:]}, expected a number, or some numbers in a row"
        )
    if not names and values.ndim > 1:
        _log.warning(
            "note: explain: a prediction of task type %s has %d numbers without names "
            "(Scorer.probabilities); the first one is explained",
            tuned.task.type.name,
            values.shape[1],
        )
    if not names:
        return 0, "score"
    index = list(names).index(label) if label is not None else int(values[0].argmax())
    return index, names[index]


def _tokens(row, tokenizer, ids):
    """The part of each token that each word has, float64 [W,T]: a piece of several words is divided
    among them. None: the ids are not the texts of the row, or the beginnings of them."""
    # The tokens are aligned with the characters of the texts, as far as the record has them.
    texts = _texts(row)
    aligned = Aligner(tokenizer).encode(texts)
    ends = np.append(np.flatnonzero(ids == tokenizer.sep_id), len(ids) - 1)
    made, columns, first_word = np.zeros((len(_words(row)[0]), len(ids))), [], 0
    begin = 0
    for text, pieces, end in zip(texts, aligned, ends):
        count, spans = end - begin, np.array(words_of(text)).reshape(-1, 2)
        columns += [*pieces.ids[:count], tokenizer.sep_id]
        # A token belongs to the words that it overlaps; one of spaces alone to the word behind it.
        first = np.searchsorted(spans[:, 1], pieces.starts[:count], "right")
        last = np.searchsorted(spans[:, 0], pieces.ends[:count], "left")
        for token, (one, other) in enumerate(zip(first.tolist(), last.tolist())):
            one = min(one, len(spans) - 1)
            made[first_word + one : first_word + max(other, one + 1), begin + token] = 1 / max(
                other - one, 1
            )
        first_word, begin = first_word + len(spans), end + 1
    return made if np.array_equal([*columns, tokenizer.cls_id], ids) else None
