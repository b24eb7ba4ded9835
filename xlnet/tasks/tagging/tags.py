"""The task type tagging: a tag for each word of a sentence, such as those that mark entities.

Each word is encoded alone (`Tokenizer.encode_words`), so that a piece belongs to one word. A word
after a space has the mark of the space, "▁EU"; a word after another one, such as a Chinese
character, does not, so that it is the vocabulary's piece of running text, without a lone "▁". The
first word of a sentence has the mark in languages with spaces between words.

A sentence that does not fit becomes several windows, as a long text of a classification. Each word
is tagged in one of them, the others have it as context.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xlnet.corpus.record_files import Feature
from xlnet.corpus.tokenizer import is_unspaced
from xlnet.support.errors import wrong
from xlnet.tasks import contract, encoding
from xlnet.tasks.contract import THRESHOLD, LossOptions, Task, softmax_loss
from xlnet.tasks.files import forms
from xlnet.tasks.tagging import sentences
from xlnet.tasks.tagging.sentences import TagSpan
from xlnet.tasks.task import Entity, InlineExample, Row, Tagged


class Tags(NamedTuple):
    """The predictions for a sentence of W words."""

    ids: np.ndarray  # int32 [W], of the tags
    probabilities: np.ndarray  # float32 [W], of each tag


@dataclasses.dataclass(frozen=True)
class TaggingOptions:
    """Options of files and of the output layer."""

    scheme: str = "bio2"  # of the task's labels
    is_spaced: bool = True  # put spaces between the words of files without any
    # Whether the train file has texts, which say where the spaces are; columns do not.
    knows_spaces: bool = True


class Tagging(Task):
    """Sentences. The labels of a task are all tags of its scheme; the label of a row is its tags in
    that scheme, its source the `Sentence`. The output is a softmax over the tags at the first piece
    of each word, a prediction is `Tags`. The gold labels are the rows."""

    kind = "tagging"
    default_metrics = ("f1", "precision", "recall", "accuracy")
    # `evaluate` computes them
    metric_functions: ClassVar[Any] = dict.fromkeys(default_metrics)
    default_options = TaggingOptions()
    loss_options = True
    has_labels = True
    verb = "tag"
    program = "xlnet tag"

    def from_train_file(self, path: str) -> Task:
        """The task with the tags, and whether there are spaces between words."""
        rows = self.read(path, need_labels=True)
        tags: set[str] = set()
        for row in rows:
            tags.update(row.label)
        if tags == {sentences.OUTSIDE}:
            raise wrong(path, "no tag but O", "some entities", "--label_column")
        names = sentences.all_tags(tags, self.options.scheme)
        unspaced = sum(is_unspaced(row.source.words[0]) for row in rows)
        return dataclasses.replace(self, labels=names).with_options(
            is_spaced=unspaced <= len(rows) / 2,
            knows_spaces=all(row.source.text for row in rows),
        )

    def table(self, path: str) -> forms.Records:
        form, columns = forms.declared_form(self, path), self.columns
        words_key = _key_of(columns.text_a, "text")
        if form.name == "text":
            form = dataclasses.replace(form, names=(words_key,))
        if form.name in ("text", "jsonl", "ndjson", "json", "parquet"):
            return forms.read(path, form, sentences.WHAT)
        # Columns have names if the task calls them so.
        (column,) = columns.text_a
        name = form.name if form.name in forms.DELIMITERS else "conll"
        header = form.header or ("none" if column.isdecimal() else "names")
        form = dataclasses.replace(form, name=name, header=header)
        keys = {
            column: words_key,
            "".join(columns.label): _key_of(columns.label, "tags"),
        }
        return sentences.of_columns(path, form, keys)

    def _check_columns(
        self, path: str, need_labels: bool, names: Sequence[str]
    ) -> None:
        """Each sentence has cells of its own."""

    def _of_cells(self, cells: dict, id: Any, need_labels: bool) -> Row:
        columns, tags = self.columns, None
        sentence = sentences.sentence_of(cells, _key_of(columns.text_a, "text"))
        key = _key_of(columns.label, "entities" if sentence.text else "tags")
        try:
            sentence, tags = sentences.tagged(sentence, key, self.options.scheme)
            known = self.labels or tags
            unknown = set(tags) - set(known)
            if unknown:
                found = f"found tag '{min(unknown)}'"
                expected = f"one of {', '.join(known)}"
                raise ValueError(f"{found}, expected {expected:.300}")
        except ValueError:
            # Tags that are not needed may be wrong.
            if need_labels:
                raise
            tags = None
        between = " " if self.options.is_spaced else ""
        pair = between.join(sentence.words), None
        return Row(id, (pair,), tags, source=sentence)

    def row(self, id: str, asked: InlineExample) -> Row:
        cells = {_key_of(self.columns.text_a, "text"): asked.text_a}
        return self._of_cells(cells, id, need_labels=False)

    def after_space(self, sentence: sentences.Sentence) -> list[bool]:
        """Whether each word comes after a space."""
        # Training and prediction must agree about spaces, or the network sees subword tokens that
        # it has not learned. The spaces of a text count if the model learned from texts. A model
        # that learned from columns, which do not have them, gives all words the same mark. So does
        # a sentence of columns, and the first word of any sentence, which has nothing before it.
        marks = [self.options.is_spaced] * len(sentence.words)
        if sentence.text and self.options.knows_spaces:
            for i, (start, _) in enumerate(sentence.places[1:], 1):
                marks[i] = sentence.text[start - 1].isspace()
        return marks

    def encode(
        self, rows: Sequence[Row], tokenizer: Any, layout: encoding.Layout
    ) -> tuple:
        length, names = layout.max_seq_length, self.class_names
        room = length - 2  # for subword tokens, as <sep> and <cls> are on the right
        texts, labels, starts, counts, tokens = [], [], [], [], []
        for row in rows:
            marks = self.after_space(row.source)
            pieces = tokenizer.encode_words(row.source.words, marks)
            ids = list(itertools.chain.from_iterable(pieces))
            sizes = [len(of_word) for of_word in pieces]
            first = np.cumsum([0, *sizes[:-1]])  # the first piece of each word
            # A word is tagged in the window in which its first piece has the most context.
            windows = encoding.windows_of(len(ids), room, max(room // 2, 1))
            tokens.append(len(ids))
            counts.append(len(windows))
            for window in windows:
                texts.append((ids[window.start : window.end], None))
                # The first piece of a word of the window's own has its tag, and a 1; the others,
                # context and padding have 0.
                is_own = (window.widest_start <= first) & (first < window.widest_end)
                place = first[is_own] - window.end + room
                label = np.zeros(length, np.int32)
                start = np.zeros(length, np.int32)
                start[place] = 1
                if row.label:
                    tags = np.array([names.index(tag) for tag in row.label])
                    label[place] = 1 + tags[is_own]
                labels.append(label)
                starts.append(start)
        arrays = encoding.lay_out(texts, length, tokenizer)
        arrays["label_ids"] = np.array(labels)
        arrays["word_starts"] = np.array(starts)
        read = np.array(tokens)
        return arrays, np.array(counts), encoding.TokenCounts(read, read)

    # -- the output layer

    def features(self, length: int) -> tuple:
        """Those of a record of T = `length` tokens, in addition to the ids."""
        return (
            # At the first piece of each word to be tagged: its tag's id + 1.
            Feature("label_ids", (length,), "int"),
            # 1 at these pieces.
            Feature("word_starts", (length,), "int"),
        )

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """[B,T',L], of the last T' tokens."""
        return nn.dense(nn.sequence, len(self.class_names), nn.scope + "/logit")

    def loss(self, nn: Any, logits: Any, features: dict, options: LossOptions) -> Any:
        """The mean over the first pieces of the words of a record."""
        import tensorflow.compat.v1 as tf

        length = tf.shape(logits)[1]  # T'
        labels = features["label_ids"][:, -length:]  # int32 [B,T']
        weights = tf.cast(labels > 0, tf.float32)
        ids = tf.maximum(labels - 1, 0)
        loss = weights * softmax_loss(nn, logits, ids, options)
        # With `keepdims` the gradient computes no shapes on the host, for which a GPU would wait.
        total = tf.reduce_sum(loss, axis=1, keepdims=True)
        count = tf.reduce_sum(weights, axis=1, keepdims=True)
        return (total / tf.maximum(count, 1.0))[:, 0]

    def outputs(self, nn: Any, logits: Any, features: dict) -> dict:
        """`values`, int32 [B,T]: the most probable tag of each word at its first piece, -1
        elsewhere; `probabilities`, float32 [B,T]: of these tags."""
        import tensorflow.compat.v1 as tf

        probabilities = tf.nn.softmax(tf.cast(logits, tf.float32))  # [B,T',L]
        tags = tf.argmax(probabilities, axis=2, output_type=tf.int32)
        probabilities = tf.reduce_max(probabilities, axis=2)
        # The network leaves out tokens that are padding in all examples of a batch. Restore T
        # tokens by adding padding on the left.
        starts = features["word_starts"]
        missing = tf.shape(starts)[1] - tf.shape(logits)[1]
        padding = [[0, 0], [missing, 0]]
        tags = tf.pad(tags, padding)
        none = -tf.ones_like(tags)
        return {
            "values": tf.where(starts > 0, tags, none),
            "probabilities": tf.pad(probabilities, padding),
        }

    def join(self, outputs: dict, windows: np.ndarray | None) -> contract.Predictions:
        """values: the `Tags` of each row, a list."""
        assert windows is not None, "sentences are split where they do not fit"
        ends = np.cumsum(windows)[:-1]
        all_ids = np.split(outputs["values"], ends)
        all_probabilities = np.split(outputs["probabilities"], ends)
        values = []
        for ids, probabilities in zip(all_ids, all_probabilities):
            is_word = ids >= 0
            values.append(Tags(ids[is_word], probabilities[is_word]))
        # Tags of logits that are not finite look like others.
        sums = np.array([found.probabilities.sum() for found in values])
        contract.check_finite(self, sums)
        loss = contract.mean_over_windows(outputs["loss"], windows)
        return contract.Predictions(values, loss)

    def named_outputs(self, outputs: dict, threshold: float) -> dict:
        """The tag of each word at its first piece, "" elsewhere: string [B,T]."""
        import tensorflow.compat.v1 as tf

        tags = tf.constant(("", *self.class_names))
        return {"tags": tf.gather(tags, outputs["values"] + 1)}

    # -- predictions

    def gold_labels(self, rows: Sequence[Row]) -> Sequence[Row]:
        return rows

    def results(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> list:
        """An entity has the mean probability of its words' tags. Raises UserError for tags of
        logits that are not finite, which alone look like others."""
        results = []
        for row, found in zip(rows, values):
            sentence, entities = row.source, []
            tags = [self.class_names[id] for id in found.ids]
            spans = sentences.spans(tags, self.options.scheme)
            for span, (start, end, label) in zip(spans, sentence.located(spans)):
                score = found.probabilities[span[0] : span[1]].mean()
                text = sentence.text[start:end] or " ".join(sentence.words[start:end])
                entities.append(Entity(label, text, start, end, float(score)))
            results.append(Tagged(sentence.words, tuple(tags), tuple(entities)))
        return results

    def evaluate(
        self, values: Any, gold_labels: Any, threshold: float = THRESHOLD
    ) -> dict:
        results = self.results(gold_labels, values)
        ratios, _ = _scores(results, gold_labels)
        found = dict(zip(("precision", "recall", "f1"), ratios))
        gold = np.concatenate([row.label for row in gold_labels])
        tags = np.concatenate([one.tags for one in results])
        found["accuracy"] = float(np.mean(gold == tags))
        return {name: found[name] for name in self.metrics}

    def label_table(
        self, values: Any, gold_labels: Any, threshold: float
    ) -> str | None:
        _, table = _scores(self.results(gold_labels, values), gold_labels)
        return table

    def prediction_files(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> dict[str, Iterable]:
        """The objects of the sentences with one more key: the entities of a text, or the tags of
        words."""
        objects = []
        for row, one in zip(rows, self.results(rows, values)):
            predicted = _spans_of(one) if row.source.text else one.tags
            objects.append({**row.source.cells, "predicted": predicted})
        return {"jsonl": objects}


def _spans_of(tagged: Tagged) -> list[TagSpan]:
    return [(entity.start, entity.end, entity.label) for entity in tagged.entities]


def _scores(results: Sequence[Tagged], rows: Sequence[Row]) -> tuple:
    """As of `sentences.scores`."""
    true = [row.source.entities for row in rows]
    return sentences.scores(list(map(_spans_of, results)), true)


def _key_of(column: tuple[str, ...], usual: str) -> str:
    """The key of a column; the usual one if it has a number, or is not named."""
    name = "".join(column)
    return usual if not name or name.isdecimal() else name
