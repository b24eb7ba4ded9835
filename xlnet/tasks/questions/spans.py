"""The task type of questions: its reader, output layer and scores."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from xlnet.corpus.offsets import align, piece_span
from xlnet.corpus.record_files import Feature
from xlnet.settings.finetuning import QUESTION_SPECIAL_TOKENS
from xlnet.support.errors import require_finite, wrong
from xlnet.tasks import encoding
from xlnet.tasks.contract import LossOptions, Task
from xlnet.tasks.fields import Answer, Row, Span
from xlnet.tasks.files import forms
from xlnet.tasks.questions import answers
from xlnet.tasks.questions.answers import GoldAnswer

_log = logging.getLogger(__name__)

_MASKED = -1e30  # the logit of a position where no answer can be


@dataclasses.dataclass(frozen=True)
class SpanOptions:
    """How questions are read, answered and scored."""

    doc_stride: int = 128  # pieces from one window of a paragraph to the next
    max_query_length: int = 64  # pieces
    max_answer_length: int = 64  # pieces
    start_n_top: int = 5  # S, the starts in the beam
    end_n_top: int = 5  # E, the ends for each start in the beam
    n_best_size: int = 5  # answers written for each question
    scoring: str = "squad2.0"  # rule of `answers.scores`


class BestSpans(NamedTuple):
    """The predictions for a question.

    Attributes:
      spans: [start, end, log probability of the start, that of the end] of each span, best first;
        characters start to before end of the context are the span.
      null_probability: the probability that there is no answer, the lowest one of its windows.
    """

    spans: list[list[float]]
    null_probability: float


class Spans(Task):
    """The task type of questions. A row's pair is (context, question), its label the `GoldAnswer`s,
    () where there is no answer.

    The logits are of the start; of the end given a start, the true one in training; and of no
    answer, from <cls> and the mean of all tokens weighted by the probability of the start. The
    variables have the names of the original. Metrics are exact match and F1 of the texts of
    answers. Gold labels are the rows themselves.
    """

    kind = "spans"
    default_metrics = ("f1", "exact")
    # Names alone: `evaluate` computes all of them together.
    metric_functions: Mapping[str, Any] = dict.fromkeys(
        ("f1", "exact", "best_f1", "best_exact")
    )
    default_options = SpanOptions()
    layer = "start_logits"
    verb = "answer"
    program = "xlnet squad"
    has_threshold = True
    padding = encoding.Padding("right", ("char_start", "char_end"))
    target_features = ("start_positions", "end_positions", "is_impossible")
    takes_empty_text_b = True  # CMRC has empty questions
    texts = ("question", "context")

    def table(self, path: str) -> forms.Records:
        """Yields a record for each question of SQuAD's articles, or for each row of a table or of a
        list in JSON."""
        is_json = forms.declared_form(self, path).name == "json"
        for place, cells in super().table(path):
            if is_json and "paragraphs" in cells:
                yield from answers.questions_of_article(self.columns, place, cells)
            else:
                yield place, cells

    def parse_label(self, cells: list) -> tuple[GoldAnswer, ...]:
        """The gold answers.

        Args:
          cells: [answer], or [answer, start], the index of its first character. The answer is a
            text, empty if there is none; or in JSON also a list of texts, or of SQuAD's objects
            with `text` and `answer_start`.
        """
        listed = cells[0]
        if listed is None:
            raise ValueError("no answers")
        if not isinstance(listed, list):
            start = cells[-1] if len(cells) > 1 else None  # None: not given
            only = {"text": listed, "answer_start": start}
            listed = [only] if forms.to_text(listed).strip() else []
        golds = []
        for answer in listed:
            if not isinstance(answer, dict):
                answer = {"text": answer}
            text = forms.to_text(answer.get("text"))
            start = forms.to_text(answer.get("answer_start"))  # "": not given
            if not text.strip():
                raise ValueError("found an empty answer, expected a text")
            # A float, as pandas writes 9.0 where other rows of the column are empty.
            number = forms.to_number(start)
            if start and not number.is_integer():
                found = f"found {start!r} as answer_start"
                raise ValueError(f"{found}, expected an integer")
            golds.append(GoldAnswer(text, int(number) if start else None))
        return tuple(golds)

    def check_row(self, row: Row, seen: dict) -> None:
        """Raises ValueError for an id that a row before has, too. seen: the ids as keys."""
        if row.id in seen:
            raise ValueError(f"duplicate id '{row.id}'")
        seen[row.id] = True

    def training_rows(self, rows: Sequence[Row], seed: int) -> Sequence[Row]:
        """All rows but those whose answer has no known position in its context."""
        kept = []
        for row in rows:
            start, _ = answers.position_of(row)
            if not row.label or start >= 0:
                kept.append(row)
        what = "questions with an answer that has no known position in its context"
        left_out = f"{len(rows) - len(kept)} of {len(rows)} {what}"
        if not kept:
            raise wrong("train", left_out, "some to train on", "--train_file")
        if len(kept) < len(rows):
            _log.warning("note: train: without %s", left_out)
        return kept

    def encode(
        self, rows: Sequence[Row], tokenizer: Any, layout: encoding.Layout
    ) -> tuple:
        """As `Task.encode`, with a record for each window of a paragraph: (arrays [m, ...] by name;
        int [n], the number of windows of each question; `TokenCounts`). With the pieces p of a
        paragraph and those of its question q, a window is such as

        input_ids     p3  p4  p5  <sep>  q0  q1  <sep>  <cls>  0  0
        segment_ids    0   0   0      0   1   1      1      2  3  3
        input_mask     0   0   0      0   0   0      0      0  1  1
        """
        length = layout.max_seq_length
        # A paragraph is tokenized once, however many questions it has.
        contexts = {row.pairs[0][0] for row in rows}
        paragraphs = {context: align(tokenizer, context) for context in contexts}
        queries = tokenizer.encode_lines([row.pairs[0][1] for row in rows])
        counts, tokens_read, tokens = [], [], []  # of each question
        pairs = []  # of each window: (pieces of the paragraph, pieces of the question)
        records = []  # the features of each window besides its ids
        for row, query in zip(rows, queries):
            context, _ = row.pairs[0]
            paragraph = paragraphs[context]
            pieces = len(paragraph.ids)
            tokens.append(len(query) + pieces)
            query = query[: self.options.max_query_length]
            tokens_read.append(len(query) + pieces)
            # The answer's pieces in the paragraph; (0, -1) if it has no known position.
            first, last = piece_span(paragraph, *answers.position_of(row))
            room = length - len(query) - QUESTION_SPECIAL_TOKENS
            windows = encoding.windows_of(pieces, room, self.options.doc_stride)
            counts.append(len(windows))
            for start, end, widest_start, widest_end in windows:
                pairs.append((paragraph.ids[start:end].tolist(), query))
                size = end - start
                # The last one of the special tokens.
                cls = size + len(query) + QUESTION_SPECIAL_TOKENS - 1
                # The answer's position is that of <cls> unless the window has all of the answer.
                is_inside = start <= first <= last < end
                char_start, char_end = np.full(length, -1), np.zeros(length)
                # The pieces that have the most context in this window.
                widest = slice(widest_start - start, widest_end - start)
                char_start[widest] = paragraph.starts[widest_start:widest_end]
                char_end[:size] = paragraph.ends[start:end]
                record = {
                    "start_positions": first - start if is_inside else cls,
                    "end_positions": last - start if is_inside else cls,
                    "is_impossible": not is_inside,
                    "cls_index": cls,
                    "paragraph_len": size,
                    "char_start": char_start,
                    "char_end": char_end,
                }
                records.append(record)
        arrays = encoding.lay_out(pairs, length, tokenizer, self.padding.side)
        for feature in self.features(length):
            values = [record[feature.name] for record in records]
            arrays[feature.name] = np.array(values, feature.dtype + "32")
        token_counts = encoding.TokenCounts(np.array(tokens_read), np.array(tokens))
        return arrays, np.array(counts), token_counts

    # -- the output layer

    def features(self, length: int) -> tuple:
        """The features of a window of T = `length` tokens, in addition to its ids. Positions and
        indices are those of tokens of the window."""
        return (
            # The answer's first and last token; <cls>: no answer.
            Feature("start_positions", (), "int"),
            Feature("end_positions", (), "int"),
            Feature("is_impossible", (), "float"),  # 1: the answer is not in the window
            Feature("cls_index", (), "int"),
            Feature("paragraph_len", (), "int"),  # of the window's part of it [tokens]
            # Each token's characters in the whole paragraph. Integers, but in a record those may
            # not be larger than ids of pieces, and a paragraph may have more characters.
            # char_start is -1 where no answer of this window begins: another one has more context
            # there, or there is no paragraph.
            Feature("char_start", (length,), "float"),
            Feature("char_end", (length,), "float"),
        )

    def logits(self, nn: Any, features: dict, is_training: bool) -> dict:
        """The scores of `span_scores`; in training without a beam."""
        import tensorflow.compat.v1 as tf

        cls_index = features["cls_index"]  # [B]
        # An answer is in the paragraph or, where there is none, at <cls>.
        position = nn.count_to(tf.shape(nn.sequence)[1], cls_index.dtype)  # [T]
        is_after = position >= features["paragraph_len"][:, None]  # [B,T]
        is_not_cls = tf.not_equal(position, cls_index[:, None])
        is_masked = tf.cast(is_after & is_not_cls, tf.float32)
        num_starts = None if is_training else self.options.start_n_top
        # Without labels the true start may be any position: only the loss reads the ends after it.
        true_start = features.get("start_positions", cls_index)
        return self.span_scores(nn, is_masked, cls_index, num_starts, true_start)

    def span_scores(
        self,
        nn: Any,
        is_masked: Any,
        cls_index: Any,
        num_starts: int | None,
        true_start: Any,
    ) -> dict:
        """Builds the output layer of questions.

        Returns a dict of `start_log_probs` [B,T]; `end_log_probs` [B,T], given the true start; and
        `cls_logits` [B], the higher the less likely an answer. With a beam also
        `start_top_log_probs`, `start_top_index` [B,S], best first, and for each of these starts
        `end_top_log_probs`, `end_top_index` [B,S,E].

        Args:
          nn: the `HeadBuilder`, with the sequence [B,T,D].
          is_masked: float32 [B,T], 1 where no answer can be, else 0.
          cls_index: int [B], the position of <cls>.
          num_starts: S; None: no beam, only the true start.
          true_start: int [B], a position.
        """
        import tensorflow.compat.v1 as tf

        sequence = nn.sequence
        width = sequence.shape.as_list()[-1]
        with nn.outside_model():
            # The start has one score for each token.
            start = nn.dense(sequence, 1, "start_logits/dense")[..., 0]  # [B,T]
            start = _mask_logits(start, is_masked)
            outputs = {"start_log_probs": tf.nn.log_softmax(start)}
            starts = true_start[:, None]  # [B,1]
            if num_starts:
                # (values, indices), as below
                best = tf.nn.top_k(outputs["start_log_probs"], num_starts)
                outputs["start_top_log_probs"], outputs["start_top_index"] = best
                starts = tf.concat([best.indices, starts], axis=1)  # [B,S+1]

            # The end is scored given each start of the beam and, last, given the true start, which
            # the loss needs.
            at_start = nn.gather_rows(sequence, starts)  # [B,S+1,D]
            with tf.variable_scope("end_logits"):
                hidden = nn.dense_of_pairs(sequence, at_start, width, "dense_0")
                hidden = nn.layer_norm(tf.tanh(hidden), "LayerNorm")
                end = nn.dense(hidden, 1, "dense_1")[..., 0]  # [B,S+1,T]
            ends = tf.nn.log_softmax(_mask_logits(end, is_masked[:, None]))
            outputs["end_log_probs"] = ends[:, -1]
            if num_starts:
                of_beam = ends[:, :-1]  # [B,S,T]
                best = tf.nn.top_k(of_beam, self.options.end_n_top)
                outputs["end_top_log_probs"], outputs["end_top_index"] = best

            # Whether there is an answer is predicted from <cls> and the mean of the sequence,
            # weighted by the probabilities of the start.
            of_start = tf.einsum("btd,bt->bd", sequence, tf.nn.softmax(start))
            of_cls = nn.gather_rows(sequence, cls_index[:, None])[:, 0]  # [B,D]
            with tf.variable_scope("answer_class"):
                both = tf.concat([of_start, of_cls], axis=1)
                hidden = tf.tanh(nn.dense(both, width, "dense_0"))
                hidden = nn.dropout(hidden)
                no_answer = nn.dense(hidden, 1, "dense_1", has_bias=False)
                outputs["cls_logits"] = no_answer[:, 0]
        return outputs

    def loss(self, nn: Any, logits: dict, features: dict, options: LossOptions) -> Any:
        """The mean of the losses of start and end, plus half of that of answerability, as in the
        original: float32 [B]."""
        losses = []
        for name in ("start", "end"):
            # The negative log probability of the true position: [B,T,1] -> [B,1,1] -> [B].
            log_probs = logits[name + "_log_probs"][:, :, None]
            position = features[name + "_positions"][:, None]
            losses.append(-nn.gather_rows(log_probs, position)[:, 0, 0])
        of_start, of_end = losses
        of_none = nn.sigmoid_cross_entropy(
            logits["cls_logits"], features["is_impossible"]
        )
        return 0.5 * (of_start + of_end + of_none)

    def outputs(self, nn: Any, logits: dict, features: dict) -> dict:
        """What `join` reads of a window: `start_log_prob` and `char_start` [B,S] of the starts in
        the beam, `end_log_prob`, `char_end` and `is_allowed` [B,S,E] of the ends for each, and
        `null_score` [B], the higher the less likely an answer."""
        import tensorflow.compat.v1 as tf

        starts = logits["start_top_index"]  # [B,S]
        ends = logits["end_top_index"]  # [B,S,E]
        char_start = tf.gather(features["char_start"], starts, batch_dims=1)
        char_end = tf.gather(features["char_end"], ends, batch_dims=1)
        # A span may be the answer if it has characters, is not too long, and starts where this
        # window has more context than any other. Elsewhere char_start is -1.
        num_tokens = ends - starts[:, :, None] + 1
        is_short = (num_tokens >= 1) & (num_tokens <= self.options.max_answer_length)
        start_of_end = char_start[:, :, None]  # [B,S,1], beside the ends
        has_characters = char_end > start_of_end
        return {
            "start_log_prob": logits["start_top_log_probs"],
            "end_log_prob": logits["end_top_log_probs"],
            "char_start": char_start,
            "char_end": char_end,
            "is_allowed": (start_of_end >= 0) & has_characters & is_short,
            "null_score": logits["cls_logits"],
        }

    def join(self, outputs: dict, num_records: np.ndarray) -> list[BestSpans]:
        """The predictions for each question, over all of its windows.

        Args:
          outputs: as of `outputs`, arrays [m, ...] of windows in the order of their questions.
          num_records: int [n], the number of windows of each question.
        """
        # The indices of each allowed span: of its window, its start of S and its end of E; sorted
        # by window.
        window, start, end = np.nonzero(outputs["is_allowed"])
        columns = (
            outputs["char_start"][window, start],
            outputs["char_end"][window, start, end],
            outputs["start_log_prob"][window, start],
            outputs["end_log_prob"][window, start, end],
        )
        spans = np.stack(columns, axis=1).astype(np.float64)
        # Question i has the windows first_window[i] to before first_window[i] + num_records[i].
        first_window = np.cumsum(num_records) - num_records
        first_span = np.searchsorted(window, first_window)
        of_questions = np.split(spans, first_span[1:])
        null_scores = outputs["null_score"].astype(np.float64)
        lowest = np.minimum.reduceat(null_scores, first_window)
        null_probabilities = special.expit(lowest)
        require_finite(null_probabilities)
        joined = []
        # The spans of all windows of a question compete by the sum of both log probabilities, each
        # normalized over its own window, as in the original.
        for of_question, null in zip(of_questions, null_probabilities.tolist()):
            log_probs = of_question[:, 2:].sum(axis=1)
            best_first = np.argsort(-log_probs, kind="stable")
            joined.append(BestSpans(of_question[best_first].tolist(), null))
        return joined

    # -- predictions

    def evaluate(self, values: Any, gold: Sequence[Row], threshold: float) -> dict:
        """The official script's numbers, in percent, by name: those of the task's metrics. Where
        some questions have no answer, also those of the questions with and without one, and the
        best over all thresholds with these thresholds. values: the `BestSpans` of n questions."""
        rows, rule = gold, self.options.scoring
        # The best text of each question, as if it had an answer: no probability is above 1.
        results = self.results(rows, values, threshold=1.0)
        texts = [answer.text for answer in results]
        null = np.array([answer.null_probability for answer in results])
        of_best = answers.scores(rule, texts, rows)  # [n,2], exact match and F1
        of_none = answers.scores(rule, [""] * len(rows), rows)
        of_predicted = np.where(null[:, None] > threshold, of_none, of_best)
        has_answer = np.array([bool(row.label) for row in rows])
        all_questions = np.ones_like(has_answer)
        groups = {"": all_questions, "HasAns_": has_answer, "NoAns_": ~has_answer}
        found = {}
        for prefix, is_in_group in groups.items():
            if is_in_group.any():
                exact, f1 = 100.0 * of_predicted[is_in_group].mean(axis=0)
                found[prefix + "exact"] = float(exact)
                found[prefix + "f1"] = float(f1)

        # The best threshold, as in the official script: it rises over the probabilities of no
        # answer, and at each of them one more question is answered. If the question has an answer,
        # the total of the scores gains that of the text. If not, it loses the 1 that the question
        # has as long as no answer is predicted, unless the predicted text is empty anyway.
        gains = of_best
        for i, text in enumerate(texts):
            if not has_answer[i]:
                gains[i] = -1.0 if text else 0.0
        order = np.argsort(null, kind="stable")
        thresholds = [0.0, *null[order].tolist()]  # at 0 no question is answered
        num_unanswerable = np.count_nonzero(~has_answer)
        for column, name in enumerate(("exact", "f1")):
            totals = np.cumsum([num_unanswerable, *gains[order, column]])
            best = int(np.argmax(totals))
            found["best_" + name] = 100.0 * float(totals[best]) / len(rows)
            found[f"best_{name}_thresh"] = thresholds[best]
        names = self.metrics if has_answer.all() else (*self.metrics, *found)
        return {name: found[name] for name in names}

    def results(self, rows: Sequence[Row], values: Any, threshold: float) -> list:
        """An `Answer` to each question: none where the probability of no answer is above
        `threshold`, or no span is allowed; with the best texts, whether there is an answer or not.
        values: the `BestSpans` of each question."""
        results = []
        for row, (spans, null) in zip(rows, values):
            context, _ = row.pairs[0]
            # Of each text its best span, the best text first.
            span_of: dict[str, Span] = {}
            for char_start, char_end, *log_probs in spans:
                text = context[int(char_start) : int(char_end)].strip()
                if text and len(span_of) < self.options.n_best_size:
                    start = context.index(text, int(char_start))  # behind spaces
                    # The probability is known when all of the best texts are.
                    span = Span(text, start, start + len(text), 0.0, *log_probs)
                    span_of.setdefault(text, span)
            best = list(span_of.values())
            if best:
                scores = [span.start_log_prob + span.end_log_prob for span in best]
                for i, probability in enumerate(special.softmax(scores).tolist()):
                    best[i] = best[i]._replace(probability=probability)
            text, start, end = "", None, None
            if best and null <= threshold:
                text, start, end, *_ = best[0]
            results.append(Answer(text, start, end, tuple(best), null))
        return results

    def prediction_files(
        self, rows: Sequence[Row], values: Any, threshold: float
    ) -> dict[str, Iterable]:
        """The files of the official scripts by extension, each a JSON object by the ids of
        questions: of the answer, "" for none; of the `n_best_size` best answers with probabilities
        whose sum is 1; of the probability of no answer."""
        texts, n_best, null = {}, {}, {}
        for row, answer in zip(rows, self.results(rows, values, threshold)):
            texts[row.id] = answer.text
            null[row.id] = answer.null_probability
            n_best[row.id] = [span._asdict() for span in answer.best]
        contents = {"json": texts, "nbest.json": n_best, "na_prob.json": null}
        files: dict[str, Iterable] = {}
        for extension, content in contents.items():
            text = json.dumps(content, indent=2, ensure_ascii=False)
            files[extension] = [text, "\n"]
        return files


def _mask_logits(logits: Any, is_masked: Any) -> Any:
    """Logits, in which those of positions where no answer can be are `_MASKED`; is_masked: float, 1
    at these positions, else 0."""
    return logits * (1 - is_masked) + _MASKED * is_masked
