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
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xlnet.corpus.record_files import Feature
from xlnet.corpus.tokenizer import is_unspaced
from xlnet.support.errors import wrong
from xlnet.tasks import contract, encoding
from xlnet.tasks.contract import LossOptions, Task, softmax_loss
from xlnet.tasks.files.forms import Records, declared_form
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
        tags = set(itertools.chain.from_iterable(row.label for row in rows))
        if tags == {sentences.OUTSIDE}:
            raise wrong(path, "no tag but O", "some entities", "--label_column")
        names = sentences.all_tags(tags, self.options.scheme)
        unspaced = sum(is_unspaced(row.source.words[0]) for row in rows)
        return dataclasses.replace(self, labels=names).with_options(
            is_spaced=unspaced <= len(rows) / 2,
            knows_spaces=all(row.source.text for row in rows),
        )

    def table(self, path: str) -> Records:
        columns = self.columns
        of_flags = {"text_a_column": columns.text_a, "label_column": columns.label}
        for flag, names in of_flags.items():
            if len(names) > 1:
                raise wrong(flag, ",".join(names), "one column")
        return sentences.read(path, declared_form(self, path), columns)

    def _check_columns(
        self, path: str, need_labels: bool, names: Collection[str]
    ) -> None:
        """Each sentence has cells of its own."""

    def _row_of_cells(self, cells: dict, id: Any, need_labels: bool) -> Row:
        columns, tags = self.columns, None
        words_key = sentences.key_of(columns.text_a, "text")
        sentence = sentences.sentence_of(cells, words_key)
        usual = "entities" if sentence.text else "tags"
        tags_key = sentences.key_of(columns.label, usual)
        try:
            sentence, tags = sentences.tagged(sentence, tags_key, self.options.scheme)
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

    def row(self, example: InlineExample) -> Row:
        cells = {sentences.key_of(self.columns.text_a, "text"): example.text_a}
        return self._row_of_cells(cells, "0", need_labels=False)

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
        """As `Task.encode`, with a record for each window: (arrays by name, int [n] windows of each
        row, `TokenCounts`). word_starts, int32 [m,length], is 1 at the first piece of each word
        that is tagged in the window; label_ids, of this shape, has 1 + the word's tag there, or 0.
        """
        length, names = layout.max_seq_length, self.labels
        room = length - 2  # for subword tokens, as <sep> and <cls> are on the right
        texts, records, counts, tokens = [], [], [], []
        for row in rows:
            after_space = self.after_space(row.source)
            pieces = tokenizer.encode_words(row.source.words, after_space)
            ids = list(itertools.chain.from_iterable(pieces))
            sizes = [len(of_word) for of_word in pieces]
            # At the first piece of each word a 1, and the id of its tag + 1; 0 elsewhere.
            marks = np.zeros([2, len(ids)], np.int32)
            first = np.cumsum([0, *sizes[:-1]])
            marks[0, first] = 1
            if row.label:
                marks[1, first] = [1 + names.index(tag) for tag in row.label]
            windows = encoding.windows_of(len(ids), room, room // 2)
            tokens.append(len(ids))
            counts.append(len(windows))
            for start, end, own_start, own_end in windows:
                texts.append((ids[start:end], None))
                # A word is tagged in the window in which its first piece has the most context.
                record = np.zeros([2, length], np.int32)
                own = slice(own_start + room - end, own_end + room - end)
                record[:, own] = marks[:, own_start:own_end]
                records.append(record)
        arrays = encoding.lay_out(texts, length, tokenizer)
        arrays["word_starts"], arrays["label_ids"] = np.stack(records, axis=1)
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
        return nn.dense(nn.sequence, len(self.labels), nn.scope + "/logit")

    def loss(self, nn: Any, logits: Any, features: dict, options: LossOptions) -> Any:
        """The mean over the first pieces of the words of a record."""
        import tensorflow.compat.v1 as tf

        length = tf.shape(logits)[1]  # T'
        labels = features["label_ids"][:, -length:]  # int32 [B,T'], ids + 1 or 0
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

        # The network leaves out tokens that are padding in all examples of a batch. Restore T
        # tokens by adding padding on the left.
        starts = features["word_starts"]
        missing = tf.shape(starts)[1] - tf.shape(logits)[1]
        logits = tf.pad(tf.cast(logits, tf.float32), [[0, 0], [missing, 0], [0, 0]])
        probabilities = tf.nn.softmax(logits)  # [B,T,L]
        tags = tf.argmax(probabilities, axis=2, output_type=tf.int32)
        return {
            "values": tf.where(starts > 0, tags, -tf.ones_like(tags)),
            "probabilities": tf.reduce_max(probabilities, axis=2),
        }

    def join(self, outputs: dict, windows: np.ndarray) -> list[Tags]:
        """Those of each sentence; of each word in the window that tags it."""
        values = []
        ends = np.cumsum(windows)[:-1]  # of the windows of each sentence but the last
        of_tags = np.split(outputs["values"], ends)
        of_probabilities = np.split(outputs["probabilities"], ends)
        for ids, probabilities in zip(of_tags, of_probabilities):
            is_word = ids >= 0
            values.append(Tags(ids[is_word], probabilities[is_word]))
        # Tags of logits that are not finite look like others.
        sums = np.array([found.probabilities.sum() for found in values])
        contract.finite(self, sums)
        return values

    def named_outputs(self, outputs: dict, threshold: float) -> dict:
        """The tag of each word at its first piece, "" elsewhere: string [B,T]."""
        import tensorflow.compat.v1 as tf

        tags = tf.constant(("", *self.labels))
        return {"tags": tf.gather(tags, outputs["values"] + 1)}

    # -- predictions

    def results(self, rows: Sequence[Row], values: Any, threshold: float) -> list:
        """A `Tagged` for each row; an entity has the mean probability of its words' tags."""
        results = []
        for row, found in zip(rows, values):
            sentence, entities = row.source, []
            tags = tuple([self.labels[id] for id in found.ids])
            for first, last, label in sentences.spans(tags, self.options.scheme):
                start, end, text = sentence.part(first, last)
                score = float(found.probabilities[first:last].mean())
                entities.append(Entity(label, text, start, end, score))
            results.append(Tagged(sentence.words, tags, tuple(entities)))
        return results

    def evaluate(self, values: Any, gold_labels: Any, threshold: float) -> dict:
        ratios, _ = self._scores(values, gold_labels, threshold)
        found = dict(zip(("precision", "recall", "f1"), ratios))
        gold = np.concatenate([row.label for row in gold_labels])
        ids = np.concatenate([tags.ids for tags in values])
        found["accuracy"] = float(np.mean(np.array(self.labels)[ids] == gold))
        return {name: found[name] for name in self.metrics}

    def label_table(
        self, values: Any, gold_labels: Any, threshold: float
    ) -> str | None:
        _, table = self._scores(values, gold_labels, threshold)
        return table

    def _scores(self, values: Any, rows: Sequence[Row], threshold: float) -> tuple:
        """As of `sentences.scores`."""
        found = map(_spans_of, self.results(rows, values, threshold))
        return sentences.scores(found, [row.source.entities for row in rows])

    def prediction_files(
        self, rows: Sequence[Row], values: Any, threshold: float
    ) -> dict[str, Iterable]:
        """The objects of the sentences with one more key: the entities of a text, or the tags of
        words."""
        objects = []
        for row, one in zip(rows, self.results(rows, values, threshold)):
            predicted = _spans_of(one) if row.source.text else one.tags
            objects.append({**row.source.cells, "predicted": predicted})
        return {"jsonl": objects}


def _spans_of(tagged: Tagged) -> list[TagSpan]:
    """The predicted entities without their texts and scores."""
    return [(entity.start, entity.end, entity.label) for entity in tagged.entities]
