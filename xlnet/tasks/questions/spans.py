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
from xlnet.support.errors import wrong
from xlnet.tasks import contract, encoding
from xlnet.tasks.contract import LossOptions, Task
from xlnet.tasks.files import forms
from xlnet.tasks.questions import answers
from xlnet.tasks.questions.answers import GoldAnswer
from xlnet.tasks.task import Answer, Row, Span

_log = logging.getLogger(__name__)

_HIDDEN = -1e30  # the logit of a position without answer


@dataclasses.dataclass(frozen=True)
class SpanOptions:
    """How questions are read, answered and scored."""

    doc_stride: int = 128  # pieces from one window of a paragraph to the next
    max_query_length: int = 64  # pieces
    max_answer_length: int = 64  # pieces
    start_n_top: int = 5  # S
    end_n_top: int = 5  # E
    n_best_size: int = 5  # answers written for each question
    scoring: str = "squad2.0"  # rule of `answers.scores`


class BestSpans(NamedTuple):
    """The predictions for a question."""

    # [start, end, log probability of the start, of the end] each, in characters, best first.
    spans: list[list[float]]
    null_probability: float  # of no answer, the lowest one of its windows


class Spans(Task):
    """A row's pair is (context, question), its label the `GoldAnswer`s, () where there is none.

    The logits are of the start; of the end given a start, the true one in training; and of no
    answer, from <cls> and the mean of all tokens weighted by the probability of the start. The
    variables have the names of the original. Metrics are exact match and F1 of the texts of
    answers. Gold labels are the rows themselves.
    """

    kind = "spans"
    default_metrics = ("f1", "exact")
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
        """The questions of SQuAD's articles, or the rows of a table or of a list in JSON."""
        is_json = forms.declared_form(self, path).name == "json"
        for place, cells in super().table(path):
            if is_json and "paragraphs" in cells:
                yield from answers.of_article(self.columns, place, cells)
            else:
                yield place, cells

    def parse_label(self, cells: list) -> tuple[GoldAnswer, ...]:
        """The answers. cells: a text, empty if there is no answer, with its start, if that has a
        column; in JSON also a list of texts, or of SQuAD's objects with `text` and
        `answer_start`."""
        golds = cells[0]
        if golds is None:
            raise ValueError("no answers")
        if not isinstance(golds, list):
            start = cells[-1] if len(cells) > 1 else None
            only = {"text": golds, "answer_start": start}
            golds = [only] if forms.to_text(golds).strip() else []
        found = []
        for gold in golds:
            if not isinstance(gold, dict):
                gold = {"text": gold}
            text = forms.to_text(gold.get("text"))
            start = forms.to_text(gold.get("answer_start"))
            if not text.strip():
                raise ValueError("found an empty answer, expected a text")
            # pandas writes 9.0 where rows have gaps
            number = forms.to_number(start)
            if start and not number.is_integer():
                what = f"found {start!r} as answer_start"
                raise ValueError(f"{what}, expected an integer")
            found.append(GoldAnswer(text, int(number) if start else None))
        return tuple(found)

    def check_row(self, row: Row, seen: dict) -> None:
        """seen: the ids of the rows before."""
        if row.id in seen:
            raise ValueError(f"duplicate id '{row.id}'")
        seen[row.id] = True

    def training_rows(self, rows: Sequence[Row], seed: int) -> Sequence[Row]:
        """All but those whose answer has no known position in its context."""
        kept = []
        for row in rows:
            if not row.label or answers.position_of(row)[0] >= 0:
                kept.append(row)
        what = "questions with an answer that has no known position in its context"
        lost = f"{len(rows) - len(kept)} of {len(rows)} {what}"
        if not kept:
            raise wrong("train", lost, "some to train on", "--train_file")
        if len(kept) < len(rows):
            _log.warning("note: train: without %s", lost)
        return kept

    def encode(
        self, rows: Sequence[Row], tokenizer: Any, layout: encoding.Layout
    ) -> tuple:
        """Windows of a paragraph. With its pieces p and those of its question q, one is

        input_ids     p3  p4  p5  <sep>  q0  q1  <sep>  <cls>  0  0
        segment_ids    0   0   0      0   1   1      1      2  3  3
        input_mask     0   0   0      0   0   0      0      0  1  1
        """
        length = layout.max_seq_length
        # A paragraph is tokenized once, however many questions it has.
        contexts = {row.pairs[0][0] for row in rows}
        paragraphs = {context: align(tokenizer, context) for context in contexts}
        queries = tokenizer.encode_lines([row.pairs[0][1] for row in rows])
        pairs = []
        counts, tokens_read, tokens = [], [], []  # of each question
        records = []  # the features of each window besides its ids
        for row, query in zip(rows, queries):
            paragraph = paragraphs[row.pairs[0][0]]
            pieces = len(paragraph.ids)
            tokens.append(len(query) + pieces)
            query = query[: self.options.max_query_length]
            tokens_read.append(len(query) + pieces)
            # (0, -1) where there is no answer, or where it is is not known.
            first, last = piece_span(paragraph, *answers.position_of(row))
            room = length - len(query) - QUESTION_SPECIAL_TOKENS
            windows = encoding.windows_of(pieces, room, self.options.doc_stride)
            counts.append(len(windows))
            for start, end, widest_start, widest_end in windows:
                pairs.append((paragraph.ids[start:end].tolist(), query))
                size = end - start
                cls = size + len(query) + QUESTION_SPECIAL_TOKENS - 1
                # The answer's position is that of <cls> unless the window has all of the answer.
                is_inside = start <= first <= last < end
                char_start, char_end = np.full(length, -1), np.zeros(length)
                own = slice(widest_start - start, widest_end - start)
                char_start[own] = paragraph.starts[widest_start:widest_end]
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
        for name, _, kind in self.features(length):
            # kind: "int" or "float"
            values = [record[name] for record in records]
            arrays[name] = np.array(values, kind + "32")
        read = encoding.TokenCounts(np.array(tokens_read), np.array(tokens))
        return arrays, np.array(counts), read

    # -- the output layer

    def features(self, length: int) -> tuple:
        """Those of a window of T = `length` tokens, in addition to its ids."""
        return (
            # The answer's first and last token; <cls>: no answer.
            Feature("start_positions", (), "int"),
            Feature("end_positions", (), "int"),
            Feature("is_impossible", (), "float"),  # 1: the answer is not in the window
            Feature("cls_index", (), "int"),
            Feature("paragraph_len", (), "int"),
            # Integers, but a paragraph may have more characters than the ids of pieces allow.
            # char_start is -1 where no answer of this window begins: another one has more context
            # there, or there is no paragraph.
            Feature("char_start", (length,), "float"),
            Feature("char_end", (length,), "float"),
        )

    def logits(self, nn: Any, features: dict, is_training: bool) -> dict:
        import tensorflow.compat.v1 as tf

        cls_index = features["cls_index"]
        # An answer is in the paragraph or, where there is none, at <cls>.
        place = nn.count_to(tf.shape(nn.sequence)[1], cls_index.dtype)  # [T]
        is_behind = place >= features["paragraph_len"][:, None]
        is_hidden = tf.cast(
            is_behind & tf.not_equal(place, cls_index[:, None]), tf.float32
        )
        num_starts = None if is_training else self.options.start_n_top
        # Only the loss reads the ends after the true start: without labels it may be any place.
        true_start = features.get("start_positions", cls_index)
        return self.beams(nn, is_hidden, cls_index, num_starts, true_start)

    def beams(
        self,
        nn: Any,
        is_hidden: Any,
        cls_index: Any,
        num_starts: int | None,
        true_start: Any,
    ) -> dict:
        """A dict of `start_log_probs` [B,T]; `end_log_probs` [B,T], given the true start; and
        `cls_logits` [B], the higher the less likely an answer. With a beam also
        `start_top_log_probs`, `start_top_index` [B,S], best first, and for each of these starts
        `end_top_log_probs`, `end_top_index` [B,S,E].

        Args:
          nn: with the sequence [B,T,D].
          is_hidden: float32 [B,T], 1 where no answer can be.
          cls_index: int [B].
          num_starts: S; None: no beam, only the true start.
          true_start: int [B].
        """
        import tensorflow.compat.v1 as tf

        sequence = nn.sequence
        width = sequence.shape.as_list()[-1]
        with nn.beside_network():
            # The start has one score for each token.
            start = nn.dense(sequence, 1, "start_logits/dense")[..., 0]  # [B,T]
            start = _mask_logits(start, is_hidden)
            outputs = {"start_log_probs": tf.nn.log_softmax(start)}
            starts = true_start[:, None]
            if num_starts:
                best = tf.nn.top_k(outputs["start_log_probs"], num_starts)
                outputs["start_top_log_probs"], outputs["start_top_index"] = best
                starts = tf.concat([best.indices, starts], axis=1)  # [B,S+1]

            # The end is scored given each start of the beam and, last, given the true start, which
            # the loss needs.
            at_start = nn.gather_rows(sequence, starts)  # [B,S+1,D]
            with tf.variable_scope("end_logits"):
                hidden = nn.dense_of_pairs(sequence, at_start, width, "dense_0")
                hidden = nn.layer_norm(tf.tanh(hidden), "LayerNorm")
                end = nn.dense(hidden, 1, "dense_1")[..., 0]
            ends = tf.nn.log_softmax(_mask_logits(end, is_hidden[:, None]))  # [B,S+1,T]
            outputs["end_log_probs"] = ends[:, -1]
            if num_starts:
                best = tf.nn.top_k(ends[:, :-1], self.options.end_n_top)
                outputs["end_top_log_probs"], outputs["end_top_index"] = best

            # Whether there is an answer is predicted from <cls> and the mean of the sequence,
            # weighted by the probabilities of the start.
            of_start = tf.einsum("btd,bt->bd", sequence, tf.nn.softmax(start))
            of_cls = nn.gather_rows(sequence, cls_index[:, None])[:, 0]
            with tf.variable_scope("answer_class"):
                both = tf.concat([of_start, of_cls], axis=1)
                hidden = tf.tanh(nn.dense(both, width, "dense_0"))
                hidden = nn.dropout(hidden)
                no_answer = nn.dense(hidden, 1, "dense_1", has_bias=False)
                outputs["cls_logits"] = no_answer[:, 0]
        return outputs

    def loss(self, nn: Any, logits: dict, features: dict, options: LossOptions) -> Any:
        """The mean of the losses of start and end, plus half of that of answerability, as in the
        original."""
        losses = []
        for name in ("start", "end"):
            log_probs = logits[name + "_log_probs"][:, :, None]
            position = features[name + "_positions"][:, None]
            losses.append(-nn.gather_rows(log_probs, position)[:, 0, 0])
        has_none = nn.sigmoid_cross_entropy(
            logits["cls_logits"], features["is_impossible"]
        )
        return 0.5 * (losses[0] + losses[1] + has_none)

    def outputs(self, nn: Any, logits: dict, features: dict) -> dict:
        """The arguments of `join`."""
        import tensorflow.compat.v1 as tf

        starts = logits["start_top_index"]  # [B,S]
        ends = logits["end_top_index"]  # [B,S,E]
        first = tf.gather(features["char_start"], starts, batch_dims=1)
        end = tf.gather(features["char_end"], ends, batch_dims=1)
        # A span may be the answer if it has characters, is not too long, and starts where this
        # window has more context than any other. Elsewhere char_start is -1.
        length = ends - starts[:, :, None] + 1
        is_short = (length >= 1) & (length <= self.options.max_answer_length)
        first_of_end = first[:, :, None]
        return {
            "start_log_prob": logits["start_top_log_probs"],
            "end_log_prob": logits["end_top_log_probs"],
            "char_start": first,
            "char_end": end,
            "is_allowed": (first_of_end >= 0) & (end > first_of_end) & is_short,
            "null_score": logits["cls_logits"],
        }

    def join(self, outputs: dict, windows: np.ndarray) -> list[BestSpans]:
        """Those of each question, over all of its windows."""
        # The spans of all windows of a question compete by the sum of both log probabilities, each
        # normalized over its own window, as in the original.
        window, start, end = np.nonzero(outputs["is_allowed"])
        columns = (
            outputs["char_start"][window, start],
            outputs["char_end"][window, start, end],
            outputs["start_log_prob"][window, start],
            outputs["end_log_prob"][window, start, end],
        )
        spans = np.stack(columns, axis=1).astype(np.float64)
        ends = np.cumsum(windows)  # of each question
        of_questions = np.split(spans, np.searchsorted(window, ends[:-1]))
        scores = outputs["null_score"].astype(np.float64)
        null = special.expit(np.minimum.reduceat(scores, ends - windows))
        contract.finite(self, null)
        joined = []
        for own, probability in zip(of_questions, null.tolist()):
            best_first = np.argsort(-own[:, 2:].sum(axis=1), kind="stable")
            joined.append(BestSpans(own[best_first].tolist(), probability))
        return joined

    # -- predictions

    def evaluate(
        self, values: Any, gold_labels: Sequence[Row], threshold: float
    ) -> dict:
        """The official script's numbers. Where some questions have no answer, also those of the
        questions with and without one, and the best over all thresholds."""
        rows, rule = gold_labels, self.options.scoring
        # The best text of each question, as if it had an answer.
        results = self.results(rows, values, threshold=1.0)
        texts = [answer.text for answer in results]
        null = np.array([answer.null_probability for answer in results])
        of_best = answers.scores(rule, texts, rows)
        of_none = answers.scores(rule, [""] * len(rows), rows)
        written = np.where(null[:, None] > threshold, of_none, of_best)
        has_answer = np.array([bool(row.label) for row in rows])
        parts = {"": has_answer | True, "HasAns_": has_answer, "NoAns_": ~has_answer}
        found = {}
        for part, chosen in parts.items():
            if chosen.any():
                exact, f1 = 100.0 * written[chosen].mean(axis=0)
                found[part + "exact"] = float(exact)
                found[part + "f1"] = float(f1)

        # As in the official script, the questions are answered one after the other, those with the
        # surest answers first. One with an answer then adds its value; one without loses the 1 that
        # it has as long as no answer is predicted, unless the predicted text is empty anyway.
        for i, text in enumerate(texts):
            if not has_answer[i]:
                of_best[i] = -1.0 if text else 0.0
        order = np.argsort(null, kind="stable")
        thresholds = [0.0, *null[order].tolist()]
        unanswerable = np.count_nonzero(~has_answer)
        for column, name in enumerate(("exact", "f1")):
            totals = np.cumsum([unanswerable, *of_best[order, column]])
            best = int(np.argmax(totals))
            found["best_" + name] = 100.0 * float(totals[best]) / len(rows)
            found[f"best_{name}_thresh"] = thresholds[best]
        names = self.metrics if has_answer.all() else (*self.metrics, *found)
        return {name: found[name] for name in names}

    def results(self, rows: Sequence[Row], values: Any, threshold: float) -> list:
        """The answer to each question: none where the probability of no answer is above
        `threshold`, or no span is allowed; with the best texts, whether there is an answer or
        not."""
        answers_of = []
        for row, (spans, null) in zip(rows, values):
            context = row.pairs[0][0]
            texts: dict[str, Span] = {}  # the best span of each text
            for first, last, *log_probs in spans:
                text = context[int(first) : int(last)].strip()
                if text and len(texts) < self.options.n_best_size:
                    start = context.index(text, int(first))  # behind spaces
                    span = Span(text, start, start + len(text), 0.0, *log_probs)
                    texts.setdefault(text, span)
            best = list(texts.values())
            if best:
                scores = [span.start_log_prob + span.end_log_prob for span in best]
                for i, ratio in enumerate(special.softmax(scores).tolist()):
                    best[i] = best[i]._replace(probability=ratio)
            text, start, end = "", None, None
            if best and null <= threshold:
                text, start, end = best[0][:3]
            answers_of.append(Answer(text, start, end, tuple(best), null))
        return answers_of

    def prediction_files(
        self, rows: Sequence[Row], values: Any, threshold: float
    ) -> dict[str, Iterable]:
        """The official forms, by question: the answer, "" for none; the n best answers with
        probabilities whose sum is 1; the probability of no answer."""
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


def _mask_logits(logits: Any, is_hidden: Any) -> Any:
    """Logits without those of positions where no answer can be; is_hidden: 1 there, else 0."""
    return logits * (1 - is_hidden) + _HIDDEN * is_hidden
