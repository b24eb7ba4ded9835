"""How much each word of a text counts for a prediction.

Shape letters: W words, T tokens of a record, K steps, L labels.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.errors import UserError, did_you_mean
from xlnet.finetuning.model import TaskModel
from xlnet.model_directory.model_files import LoadedModel
from xlnet.model_directory.task_settings import FineTunedTask
from xlnet.serving import session
from xlnet.serving.batched_calls import BatchedCall, Computed, require_finite
from xlnet.serving.inference import Inference, row_of
from xlnet.serving.settings import ExplanationSettings, from_keywords
from xlnet.serving.texts import pair_of
from xlnet.tasks.features import encoding
from xlnet.tasks.features.by_length import batches_by_length
from xlnet.tasks.features.encoding import TokenCounts
from xlnet.tasks.tagging.words import find_words
from xlnet.tasks.task import InlineExample, Row
from xlnet.tasks.types.contract import Head
from xlnet.tokenization.offsets import Aligner
from xlnet.tokenization.tokenizer import Tokenizer, is_unspaced

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


def explanation_call(inference: Inference, **settings: Any) -> BatchedCall:
    """The call that explains texts or pairs, one after the other.

    Args:
      settings: those of `ExplanationSettings`.
    """
    tuned = inference.tuned(None)
    chosen = from_keywords(ExplanationSettings, settings)
    check(tuned, chosen.label, chosen.method)

    def prepare(item: Any) -> tuple[Row, Optional[Record]]:
        row = row_of(tuned, 0, InlineExample(*pair_of(item, tuned.task)))
        if chosen.method == "leave_one_out":
            return row, None
        return row, record_of(row, tuned, inference.tokenizer)

    def compute(items: list[tuple[Row, Optional[Record]]]) -> list[Computed]:
        ((row, record),) = items
        counts: list[TokenCounts] = []

        def values_of(rows: list[Row]) -> Any:
            values, found = inference.values(tuned, rows)
            require_finite(values)
            counts.append(found)
            return values

        if record is None:
            explained = leave_one_out(row, chosen.label, tuned, values_of)
        else:
            explained = integrated_gradients(row, record, chosen, inference, tuned, values_of)
        # The first row that is predicted is the text itself.
        inference.note_cut(counts[0].is_cut[:1], tuned.layout.max_seq_length)
        return [Computed(explained, int(counts[0].read[0]), int(counts[0].total[0]))]

    return BatchedCall(prepare, compute, 1)


def check(tuned: FineTunedTask, label: Optional[str], method: str) -> None:
    """Raises UserError if a model or its label cannot be explained."""
    task = tuned.task
    if task.type.verb not in VERBS:
        raise UserError(
            "a model of task type {} ({}) has several outputs for a text, "
            "expected one for {}".format(task.type.name, task.type.verb, " or ".join(VERBS))
        )
    check_label(tuned, label)
    if method == "integrated_gradients" and type(task.head).join is not Head.join:
        raise UserError(
            f"predictions of task type {task.type.name} are made of several outputs; give "
            "method=leave_one_out"
        )
    if method == "integrated_gradients" and (
        tuned.settings.long_document == "memory" or task.head.num_choices(False) > 1
    ):
        raise UserError(
            "integrated_gradients needs a model that reads a text at once; "
            "give method=leave_one_out"
        )


def check_label(tuned: FineTunedTask, label: Optional[str], source: str = "") -> None:
    """Raises UserError, which begins with `source`, for a label that a model does not have."""
    names = tuned.task.scorer.probabilities
    if label is not None and label not in names:
        raise UserError(
            "{}label is '{}', expected {}{}".format(
                source and f"{source}: ",
                label,
                ("one of " + ", ".join(names)) if names else "none: the model has one score",
                did_you_mean(label, names),
            )
        )


def words_of(text: str) -> list[tuple[int, int]]:
    """(start, end) of the words: what is between spaces; in scripts without them each letter."""
    found: list[tuple[int, int]] = []
    for match in re.finditer(r"\S+", text):
        first, between_spaces = match.start(), match[0]
        words: Iterable[tuple[int, int]] = [(0, len(between_spaces))]
        if any(map(is_unspaced, between_spaces)):
            words = find_words(between_spaces)
        for start, end in words:
            found.append((first + start, first + end))
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
            rows.append(_with_texts(row, texts))
    # The first row has the complete text; row w + 1 lacks word w.
    values = np.asarray(values_of(rows), np.float64)
    index, name = _output(tuned, values, label)
    values = values[:, index] if values.ndim > 1 else values
    return Explanation(words, values[0] - values[1:], first_words, name, float(values[0]), None)


class Record(NamedTuple):
    """The record of a row for `integrated_gradients`.

    Attributes:
      features: [1,T] by name.
      word_of_token: float64 [W,T], the fraction of each token that belongs to each word.
    """

    features: session.Arrays
    word_of_token: np.ndarray


def record_of(row: Row, tuned: FineTunedTask, tokenizer: Tokenizer) -> Record:
    """The record of a row.

    Raises:
      UserError: the text is longer than a record, or is cut elsewhere than at its end.
    """
    reader, layout = tuned.task.reader, tuned.layout
    records, _ = reader.encode(list(reader.examples([row])), tokenizer, layout)
    encoding.pop_token_counts(records)
    batches = list(
        batches_by_length(records, layout.max_seq_length, tuned.padding._replace(multiple=1), 1)
    )
    _, features = batches[0]
    word_of_token = None
    if len(batches) == 1:
        word_of_token = _words_of_tokens(row, tokenizer, features["input_ids"][0])
    if word_of_token is None:
        raise UserError(
            f"the text does not fit into max_seq_length {layout.max_seq_length} as it is; give "
            "method=leave_one_out"
        )
    return Record(features, word_of_token)


def integrated_gradients(
    row: Row,
    record: Record,
    chosen: ExplanationSettings,
    inference: Inference,
    tuned: FineTunedTask,
    values_of: Callable[[list[Row]], Any],
) -> Explanation:
    """Integrates the gradient of the output on the way from zero embeddings to those of the words
    (https://arxiv.org/abs/1703.01365). <sep> and <cls> keep theirs."""
    index, output_name = _output(tuned, np.asarray(values_of([row])), chosen.label)
    subgraph = inference.open().subgraph("explanation", lambda: build(inference.loaded, tuned))

    # The points on the way at which the network is evaluated: its two ends, whose outputs differ by
    # the sum that the weights should have, and between them the nodes of a Gauss-Legendre
    # quadrature, of which a few give a nearly exact integral.
    nodes, factors = np.polynomial.legendre.leggauss(chosen.steps)
    alphas = np.concatenate([[0.0, 1.0], (nodes + 1) / 2])  # [K+2]
    is_word = record.word_of_token.any(axis=0)  # [T]
    scales = np.where(is_word, alphas[:, None], 1.0).astype(np.float32)
    # Every point of the way is the same record with other scales of its embeddings.
    found = []
    for begin in range(0, len(alphas), inference.batch_size):
        scale = scales[begin : begin + inference.batch_size]
        features: dict[str, Any] = dict(token_scale=scale, output=index)
        for name, values in record.features.items():
            features[name] = np.repeat(values, len(scale), axis=0)
        found.append(subgraph(["value", "gradient"], features))
    value, gradient = (np.concatenate(each).astype(np.float64) for each in zip(*found))
    require_finite(value)
    require_finite(gradient)
    at_zero, at_text = float(value[0]), float(value[1])
    weight_of_token = (factors / 2) @ gradient[2:]  # [T], the integral
    weights = record.word_of_token @ weight_of_token  # [W]
    words, first_words = _words(row)
    return Explanation(words, weights, first_words, output_name, at_text, at_zero)


def build(loaded: LoadedModel, tuned: FineTunedTask) -> tuple[session.Tensors, session.Tensors]:
    """The graph of `integrated_gradients`: from a record, `token_scale` float32 [B,T] and the
    number of the output, to its value [B] and the gradient [B,T] with respect to `token_scale`."""
    # The way begins at zero, so it is a scaling of the embeddings. The gradient with respect to the
    # scale of a token is the product of its embedding and the gradient with respect to that, which
    # is what integrated gradients integrate.
    inputs = dict(
        session.placeholders(tuned),
        output=tf.placeholder(tf.int32, []),
        token_scale=tf.placeholder(tf.float32, [None, None]),
    )
    values = TaskModel(loaded.config, tuned, loaded.network).outputs(inputs)["values"]
    value = tf.gather(values, inputs["output"], axis=1) if len(values.shape) > 1 else values
    (gradient,) = tf.gradients(tf.reduce_sum(value), inputs["token_scale"])
    return inputs, {"value": value, "gradient": gradient}


def _texts(row: Row) -> list[str]:
    return [text for pair in row.pairs for text in pair if text is not None]


def _with_texts(row: Row, texts: Iterable[str]) -> Row:
    """The row with other texts, in the order of `_texts`."""
    rest = iter(texts)
    pairs = []
    for first, second in row.pairs:
        # `_texts` leaves out what a row does not have.
        new_first = None if first is None else next(rest)
        new_second = None if second is None else next(rest)
        pairs.append((new_first, new_second))
    return row._replace(pairs=tuple(pairs))


def _words(row: Row) -> tuple[tuple[str, ...], int]:
    """(all words of a row, the number of those of its first text)."""
    by_text = [[text[start:end] for start, end in words_of(text)] for text in _texts(row)]
    return tuple(word for words in by_text for word in words), len(by_text[0])


def _output(tuned: FineTunedTask, values: np.ndarray, label: Optional[str]) -> tuple[int, str]:
    """(index, name) of the output that is explained: of the label, or the most probable one of the
    first of `values`."""
    names = tuned.task.scorer.probabilities
    if values.ndim > 2:
        raise UserError(
            f"a prediction of task type {tuned.task.type.name} has the shape "
            f"{values.shape[1:]}, expected a number, or some numbers in a row"
        )
    if not names and values.ndim > 1:
        _log.warning(
            "note: a prediction of task type %s has %d numbers without names "
            "(Scorer.probabilities); the first one is explained",
            tuned.task.type.name,
            values.shape[1],
        )
    if not names:
        return 0, "score"
    index = list(names).index(label) if label is not None else int(values[0].argmax())
    return index, names[index]


def _words_of_tokens(row: Row, tokenizer: Tokenizer, ids: np.ndarray) -> Optional[np.ndarray]:
    """The fraction of each token that belongs to each word, float64 [W,T]: a piece of several words
    is divided among them. <sep> and <cls> belong to none.

    None: the ids are not those of the texts of the row, or of the beginnings of these. Two texts
    are `A <sep> B <sep> <cls>`, one is `A <sep> <cls>`.

    ids: [T], of the record.
    """
    texts = _texts(row)
    aligned = Aligner(tokenizer).encode(texts)
    num_words = len(_words(row)[0])
    fractions = np.zeros((num_words, len(ids)))
    expected: list[int] = []  # the ids that the record should have
    # Each text ends at a <sep> of the record, or at its <cls> if there is none.
    ends = np.append(np.flatnonzero(ids == tokenizer.sep_id), len(ids) - 1)
    first_word = first_token = 0  # of the text
    for text, pieces, end in zip(texts, aligned, ends):
        num_tokens = end - first_token  # of the text that the record has
        expected += [*pieces.ids[:num_tokens], tokenizer.sep_id]

        # A token belongs to the words that it overlaps: from the first one that ends after its
        # start to the last one that starts before its end, both by characters.
        words = np.array(words_of(text)).reshape(-1, 2)  # (start, end) of each
        first = np.searchsorted(words[:, 1], pieces.starts[:num_tokens], "right")
        after_last = np.searchsorted(words[:, 0], pieces.ends[:num_tokens], "left")
        for token, (low, high) in enumerate(zip(first.tolist(), after_last.tolist())):
            # One that is only spaces overlaps none: it belongs to the word after it, or at the end
            # of the text to the last word.
            low = min(low, len(words) - 1)
            high = max(high, low + 1)
            its_words = slice(first_word + low, first_word + high)
            fractions[its_words, first_token + token] = 1 / (high - low)
        first_word += len(words)
        first_token = end + 1
    return fractions if np.array_equal([*expected, tokenizer.cls_id], ids) else None
