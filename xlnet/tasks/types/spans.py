"""Questions with a span of a text as their answer, or without answer, as in SQuAD and CMRC.

How an answer's start and end become positions, and positions an answer:

1. `squad_files` reads questions and finds the characters of an answer in its context.
2. `question_windows` makes records: windows of the context's tokens, each token with its first and
   last character. The answer's positions are those of the tokens that have its characters; where a
   window does not have all of them, both are that of <cls>.
3. The head predicts S starts and E ends for each, with the characters of these tokens. A span
   counts in the window in which it has the most context.
4. `span_answers` sorts the spans of all windows of a question, and cuts texts out of the context.
5. `span_metrics` compares the best text with the answers, by the rule of the official script.

Shape letters: n rows (questions), m records (windows), B records of a batch, T tokens, S starts and
E ends for each start in the beam, D width.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np

from xlnet.errors import UserError
from xlnet.settings.finetuning import SpanSettings
from xlnet.tasks.features import encoding, question_windows
from xlnet.tasks.files import squad_files
from xlnet.tasks.files.row_store import MappedRows, digest, store_rows
from xlnet.tasks.metrics import span_metrics
from xlnet.tasks.output import span_answers
from xlnet.tasks.output.prediction_files import PredictionFile
from xlnet.tasks.task import InlineExample, Row, Task
from xlnet.tasks.types import contract
from xlnet.tasks.types.contract import THRESHOLD, LossOptions

_log = logging.getLogger(__name__)

_HIDDEN = -1e30  # the logit of a position without answer

# Questions, answered and scored together. rule: a key of `span_metrics.RULES`.
GoldAnswers = collections.namedtuple("GoldAnswers", "rows rule")


@dataclasses.dataclass(frozen=True)
class SpanOptions:
    """How questions are read, answered and scored."""

    doc_stride: int = 128  # pieces from one window of a paragraph to the next
    max_query_length: int = 64  # pieces
    max_answer_length: int = 64  # pieces
    start_n_top: int = 5  # S
    end_n_top: int = 5  # E
    n_best_size: int = 5  # answers written for each question
    max_segments: int = 1  # segments of a record: the window, and the text before it
    span_head: str = "joint"  # or "separate"
    scoring: Optional[str] = None  # key of `span_metrics.RULES`; None: as the file's version


class SpanReader(contract.Reader):
    """A row's pair is (context, question), its label the answers, `GoldAnswer`s, () where there is
    none."""

    unit = "questions"
    forms = squad_files.FORMS
    takes_empty_text_b = True
    pads = "right"
    # Sliding windows cover all of a context.
    cut_words = "the questions are cut, their contexts are not; see --max_query_length"

    @property
    def record_options(self) -> tuple:
        options = self.options
        return options.doc_stride, options.max_query_length, options.max_segments

    def read(self, path: str, need_labels: bool) -> Sequence[Row]:
        rows = super().read(path, need_labels)
        squad_files.note_positions(path, rows)
        return rows

    def flag_of(self, column: str) -> str:
        columns = self.task.columns
        flags = ("context_column", "question_column", "answer_column", "answer_start_column")
        names = (*columns.text_a, *columns.text_b, *columns.label)
        return dict(zip(names, flags)).get(column, "")

    def parse_label(self, cells: list) -> tuple:
        return squad_files.parse_answers(cells)

    def check_row(self, row: Row, seen: dict) -> Optional[str]:
        """seen: the ids of the rows before."""
        if not row.id.strip():
            return f"column '{self.task.columns.id}' is empty"
        if digest(row.id) in seen:
            return f"duplicate id '{row.id}'"
        seen[digest(row.id)] = True
        context = row.pairs[0][0]
        for answer in row.label or ():
            if answer.start is not None and not -1 <= answer.start < len(context):
                return (
                    f"question '{row.id}': answer_start {answer.start} is outside of the "
                    f"context of {len(context)} characters"
                )
        return None

    def row(self, id: str, asked: InlineExample) -> tuple:
        if not (asked.text_b or "").strip():
            return None, "the question is empty, expected a text"
        return super().row(id, asked)

    def training_rows(self, rows: Sequence[Row], seed: int, data_dir: str) -> Sequence[Row]:
        """All but those whose answer has no position; `read` has named them."""
        has_place = [not row.label or squad_files.position_of(row).is_known for row in rows]
        if not any(has_place):
            raise UserError(
                f"data_dir: no answer of the train file in {data_dir} has a known position in "
                "its context, expected some to train on"
            )
        return rows if all(has_place) else store_rows(itertools.compress(rows, has_place))

    def examples(self, rows: Sequence[Row]) -> Collection[question_windows.Question]:
        """The first answer of a row that has a position is the one to be learned."""

        def example(row: Row) -> Any:
            (context, question), position = row.pairs[0], squad_files.position_of(row)
            return question_windows.Question(context, question, position.start, position.end)

        return MappedRows(example, rows)

    def encode(self, examples: list, tokenizer: Any, layout: encoding.Layout) -> tuple:
        stride, max_query_length, segments = self.record_options
        return question_windows.encode(
            examples,
            tokenizer,
            layout.max_seq_length // segments,
            stride=stride,
            max_query_length=max_query_length,
            segments=segments,
        )

    @property
    def texts(self) -> tuple[str, ...]:
        return "question", "context"


class SpanHead(contract.Head):
    """The positions of the first and last token of the answer, or that there is none.

    The joint head has logits of the start; of the end given a start, the true one in training; and
    of no answer, from <cls> and the mean of all tokens weighted by the probability of the start.
    Its variables have the names of the original. The separate head has logits of start and end from
    one dense layer; if both are <cls>, there is no answer.
    """

    token_features = question_windows.TOKEN_FEATURES
    targets = ("start_positions", "end_positions", "is_impossible")

    def scope(self, name: Optional[str] = None) -> str:
        return "start_logits" if self.options.span_head == "joint" else "span_logits"

    def features(self, length: int) -> tuple:
        return question_windows.window_features(length // self.options.max_segments)

    def logits(self, nn: Any, features: dict, is_training: bool) -> dict:
        import tensorflow.compat.v1 as tf

        place = nn.count_to(tf.shape(nn.sequence)[1], features["cls_index"].dtype)  # [T]
        is_hidden = (place >= features["paragraph_len"][:, None]) & tf.not_equal(
            place, features["cls_index"][:, None]
        )
        return self.beams(
            nn,
            tf.cast(is_hidden, tf.float32),
            features["cls_index"],
            None if is_training else self.options.start_n_top,
            features.get("start_positions", features["cls_index"]),
        )

    def beams(
        self, nn: Any, is_hidden: Any, cls_index: Any, num_starts: Optional[int], true_start: Any
    ) -> dict:
        """The output layer on `nn.sequence` [B,T,D]: a dict of `start_log_probs` [B,T];
        `end_log_probs` [B,T], given the true start; and `cls_logits` [B], the higher the less
        likely an answer. With a beam also `start_top_log_probs`, `start_top_index` [B,S], best
        first, and for each of these starts `end_top_log_probs`, `end_top_index` [B,S,E]. The
        separate head has `cls_logits` only with a beam.

        is_hidden: float32 [B,T], 1 where no answer can be; cls_index, true_start: int [B];
        num_starts: S, None: no beam, only the true start.
        """
        if self.options.span_head == "separate":
            return self._separate_head(nn, is_hidden, cls_index, num_starts)
        with nn.beside_network():
            return self._joint_head(nn, is_hidden, cls_index, num_starts, true_start)

    def _separate_head(
        self, nn: Any, is_hidden: Any, cls_index: Any, num_starts: Optional[int]
    ) -> dict:
        """The beam has ends within `max_answer_length` of the start. `cls_logits` is the logarithm
        of the ratio of the probabilities of no answer and of the best one."""
        import tensorflow.compat.v1 as tf

        # Start and end are predicted independently of each other; impossible positions are masked.
        both = nn.dense(nn.sequence, 2, "span_logits/dense")  # [B,T,2]
        start, end = (tf.nn.log_softmax(_mask_logits(both[..., i], is_hidden)) for i in range(2))
        outputs = {"start_log_probs": start, "end_log_probs": end}
        if num_starts:
            # The beam has S starts in the paragraph, and for each the best ends within
            # `max_answer_length`.
            size = tf.shape(nn.sequence)[1]
            no_text = tf.maximum(is_hidden, tf.one_hot(cls_index, size))
            best = _top(_mask_logits(start, no_text), num_starts)
            length = tf.range(size) - best.indices[:, :, None] + 1  # [B,S,T]
            fits = tf.cast((length >= 1) & (length <= self.options.max_answer_length), tf.float32)
            ends = _top(
                _mask_logits(end[:, None], tf.maximum(no_text[:, None], 1 - fits)),
                self.options.end_n_top,
            )
            outputs["start_top_log_probs"], outputs["start_top_index"] = best
            outputs["end_top_log_probs"], outputs["end_top_index"] = ends
            answer = tf.reduce_max(best.values[:, :, None] + ends.values, axis=[1, 2])
            outputs["cls_logits"] = tf.gather(start + end, cls_index, batch_dims=1) - answer
        return outputs

    def _joint_head(
        self, nn: Any, is_hidden: Any, cls_index: Any, num_starts: Optional[int], true_start: Any
    ) -> dict:
        import tensorflow.compat.v1 as tf

        sequence = nn.sequence
        width = sequence.shape.as_list()[-1]

        # The start has one score for each token.
        start = nn.dense(sequence, 1, "start_logits/dense")[..., 0]  # [B,T]
        start = _mask_logits(start, is_hidden)
        outputs = {"start_log_probs": tf.nn.log_softmax(start)}
        starts = true_start[:, None]
        if num_starts:
            best = _top(outputs["start_log_probs"], num_starts)
            outputs["start_top_log_probs"], outputs["start_top_index"] = best
            starts = tf.concat([best.indices, starts], axis=1)  # [B,S+1]

        # The end is scored given each start of the beam and, last, given the true start, which the
        # loss needs.
        last = tf.cast(tf.shape(sequence)[1] - 1, starts.dtype)
        at_start = nn.gather_rows(sequence, tf.minimum(starts, last))  # [B,S+1,D]
        with tf.variable_scope("end_logits"):
            hidden = tf.tanh(nn.dense_of_pairs(sequence, at_start, width, "dense_0"))
            end = nn.dense(nn.layer_norm(hidden, "LayerNorm"), 1, "dense_1")[..., 0]  # [B,S+1,T]
        ends = tf.nn.log_softmax(_mask_logits(end, is_hidden[:, None]))
        outputs["end_log_probs"] = ends[:, -1]
        if num_starts:
            outputs["end_top_log_probs"], outputs["end_top_index"] = _top(
                ends[:, :-1], self.options.end_n_top
            )

        # Whether there is an answer is predicted from <cls> and the mean of the sequence, weighted
        # by the probabilities of the start.
        of_start = tf.einsum("btd,bt->bd", sequence, tf.nn.softmax(start))
        of_cls = nn.gather_rows(sequence, cls_index[:, None])[:, 0]
        with tf.variable_scope("answer_class"):
            hidden = tf.tanh(nn.dense(tf.concat([of_start, of_cls], axis=1), width, "dense_0"))
            outputs["cls_logits"] = nn.linear(nn.dropout(hidden), 1, "dense_1")[:, 0]
        return outputs

    def loss(self, nn: Any, logits: dict, features: dict, options: Optional[LossOptions]) -> Any:
        """The mean of the losses of start and end; with the joint head, as in the original, plus
        half of that of answerability."""
        losses = [  # of start and end
            -nn.gather_rows(
                logits[name + "_log_probs"][:, :, None], features[name + "_positions"][:, None]
            )[:, 0, 0]
            for name in ("start", "end")
        ]
        if self.options.span_head == "separate":
            return 0.5 * (losses[0] + losses[1])
        return 0.5 * (
            losses[0]
            + losses[1]
            + nn.sigmoid_cross_entropy(logits["cls_logits"], features["is_impossible"])
        )

    def outputs(self, nn: Any, logits: dict, features: dict) -> dict:
        """The arguments of `span_answers.join`."""
        import tensorflow.compat.v1 as tf

        starts, ends = logits["start_top_index"], logits["end_top_index"]  # [B,S], [B,S,E]
        last = tf.shape(nn.sequence)[1] - 1
        # A span may be the answer if it is in the paragraph, not too long, and starts where this
        # window has more context than any other.
        size, low, high = (
            features[name][:, None, None]
            for name in ("paragraph_len", "widest_start", "widest_end")
        )
        first = starts[:, :, None]  # [B,S,1]
        is_allowed = (
            (first >= low)
            & (first < high)
            & (ends >= first)
            & (ends < size)
            & (ends - first < self.options.max_answer_length)
        )  # [B,S,E]
        return {
            "start_log_prob": logits["start_top_log_probs"],
            "end_log_prob": logits["end_top_log_probs"],
            "char_start": tf.gather(features["char_start"], tf.minimum(starts, last), batch_dims=1),
            "char_end": tf.gather(features["char_end"], tf.minimum(ends, last), batch_dims=1),
            "is_allowed": is_allowed,
            "null_score": logits["cls_logits"],
        }

    def join(self, outputs: dict, windows: Optional[np.ndarray]) -> contract.Predictions:
        """values: n `span_answers.BestSpans`, over all windows of each question."""
        assert windows is not None, "the records of questions are windows"
        return contract.Predictions(
            span_answers.join(outputs, windows),
            contract.mean_over_windows(outputs["loss"], windows),
        )

    def outputs_in_words(self) -> str:
        return (
            f"answers of up to {self.options.max_answer_length} tokens, windows every "
            f"{self.options.doc_stride} tokens"
        )


class SpanScorer(contract.Scorer):
    """Exact match and F1 of the texts of answers."""

    default_metrics = ("f1", "exact")
    metrics: Mapping[str, Any] = dict.fromkeys(("f1", "exact", "best_f1", "best_exact"))
    has_threshold = True

    def gold_labels(self, rows: Sequence[Row]) -> GoldAnswers:
        has_none = any(row.label == () for row in rows)
        return GoldAnswers(rows, self.options.scoring or ("squad2.0" if has_none else "squad1.1"))

    def evaluate(self, values: Any, gold_labels: GoldAnswers, threshold: float = THRESHOLD) -> dict:
        """The official script's numbers. Where some questions have no answer, also those of the
        questions with and without one, and the best over all thresholds."""
        # Texts are scored as if each question had an answer; the threshold then replaces some.
        null = span_answers.null_probabilities(values)
        contract.refuse_nan(self.task, null)
        texts = span_answers.texts(gold_labels.rows, values)
        scores = span_metrics.score(
            gold_labels.rule, texts, list(map(squad_files.as_in_context, gold_labels.rows))
        )
        found = span_metrics.summary(span_metrics.with_threshold(scores, null, threshold))
        best = {}
        for name in ("exact", "f1"):
            best["best_" + name], best[f"best_{name}_thresh"] = span_metrics.best_threshold(
                getattr(scores, name), [bool(text) for text in texts], scores, null
            )
        shown = (*found, *best) if not scores.has_answer.all() else tuple(found)
        found.update(best)
        return {name: found[name] for name in dict.fromkeys((*self.task.metrics, *shown))}

    def constant_prediction(
        self, values: Any, gold_labels: GoldAnswers, threshold: float = THRESHOLD
    ) -> Optional[str]:
        """No answer to any question, although some have one."""
        has_answers = any(row.label for row in gold_labels.rows)
        says_none = span_answers.null_probabilities(values) > threshold
        if len(gold_labels.rows) < 2 or not has_answers or not says_none.all():
            return None
        return "every question is predicted to have no answer"

    def counts_in_words(self, rows: Sequence[Row]) -> str:
        answered = sum(bool(row.label) for row in rows)
        return "{} with an answer, {} without".format(
            *tuple(map("{:,}".format, (answered, len(rows) - answered)))
        )

    def prediction_files(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> list:
        """The official forms: answers, n best answers, and probabilities of no answer."""
        names = (
            ("json", None),
            ("nbest.json", "n best answers"),
            ("na_prob.json", "probabilities of no answer"),
        )
        rows = store_rows(row for row in rows if row.pairs)
        contract.refuse_nan(self.task, span_answers.null_probabilities(values))
        return [
            PredictionFile(*name, [span_answers.as_json(content)])
            for name, content in zip(
                names, span_answers.official(rows, values, self.options.n_best_size, threshold)
            )
        ]

    def compare(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> Iterator[contract.Comparison]:
        """The gold label is all answers; the error is 1 less the mean of exact match and F1."""
        rule = self.gold_labels(rows).rule
        for row, answer in zip(rows, self.results(rows, values, threshold)):
            golds = squad_files.as_in_context(row) if row.label else []
            scores = span_metrics.with_threshold(
                span_metrics.score(rule, [answer.text], [golds]),
                [answer.null_probability],
                threshold,
            )
            error = 1 - (scores.exact[0] + scores.f1[0]) / 2
            probability = (
                answer.best[0].probability * (1 - answer.null_probability)
                if answer.text
                else answer.null_probability
            )
            yield contract.Comparison(
                " | ".join(dict.fromkeys(golds)),
                answer.text,
                probability,
                0.0 if row.label is None else float(error),
            )

    def results(self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD) -> list:
        contract.refuse_nan(self.task, span_answers.null_probabilities(values))
        return span_answers.answers(rows, values, self.options.n_best_size, threshold)


# ---- from the command line to a task


def _own_columns(settings: SpanSettings) -> dict:
    """With `query`, the questions on a paragraph are held out together."""
    label = (settings.answer_column, settings.answer_start_column)
    return dict(
        text_a=(settings.context_column,),
        text_b=(settings.question_column,),
        label=tuple(filter(None, label)),
        id=settings.id_column,
        query=settings.context_column,
    )


def _with_settings(task: Task, settings: SpanSettings) -> Task:
    # The standard names of files are looked for only if a directory or a file is given.
    files = dict(task.files.by_split) if settings.data_dir or settings.named_files else {}
    # The file to predict is evaluated, too, if it has answers. If it is the only file to evaluate,
    # it is not looked at here: reading it reports that answers are missing.
    path = settings.file_to_predict
    is_looked_at = (settings.do_train or settings.do_eval or settings.do_prepro) and (
        not settings.do_eval or settings.data_dir or settings.train_file
    )
    if path and is_looked_at and not squad_files.has_answers(task, path):
        _log.info("note: %s has no answers: it is predicted, and not evaluated", path)
        path = None
    if path and "dev" not in settings.named_files:
        files["dev"] = os.path.abspath(path)
    options = {
        field.name: getattr(settings, field.name) for field in dataclasses.fields(SpanOptions)
    }
    if settings.long_document != "memory":
        options["max_segments"] = 1
    options["scoring"] = settings.scoring or task.options.scoring
    holds_out = "train" in files and "dev" not in files
    task = task.with_files(by_split=files, dev_share=task.files.dev_share if holds_out else 0.0)
    return task.with_options(**options)


SPANS = contract.TaskType(
    "spans",
    SpanReader,
    SpanHead,
    SpanScorer,
    SpanOptions(),
    verb="answer",
    program="xlnet squad",
    selecting_flag="task_name",
    own_columns=_own_columns,
    with_settings=_with_settings,
)


def _mask_logits(logits: Any, is_hidden: Any) -> Any:
    return logits * (1 - is_hidden) + _HIDDEN * is_hidden


def _top(log_probs: Any, count: int) -> Any:
    """The `count` best of the last axis; where it has fewer, with positions beyond its end."""
    import tensorflow.compat.v1 as tf

    padding = [[0, 0]] * (log_probs.shape.ndims - 1) + [[0, count]]
    return tf.nn.top_k(tf.pad(log_probs, padding, constant_values=2 * _HIDDEN), count)
