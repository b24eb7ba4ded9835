"""The task type tagging: a tag for each word of a sentence, such as those that mark entities.

Each word is encoded alone (`Tokenizer.encode_words`), so that a piece belongs to one word. A word
after a space has the mark of the space, "▁EU"; a word after another one, such as a Chinese
character, does not, so that it is the vocabulary's piece of running text, without a lone "▁". The
first word of a sentence has the mark in languages with spaces between words.

A sentence that does not fit becomes several windows, as the paragraph of a question. Each word is
tagged in one of them, the others have it as context.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xlnet.corpus.record_files import Feature
from xlnet.corpus.tokenizer import is_unspaced
from xlnet.support.errors import require_finite, wrong
from xlnet.tasks import encoding
from xlnet.tasks.contract import LossOptions, Task, softmax_loss
from xlnet.tasks.fields import Entity, InlineExample, Row, Tagged
from xlnet.tasks.files.forms import Records, declared_form
from xlnet.tasks.tagging import sentences
from xlnet.tasks.tagging.sentences import TagSpan


class Tags(NamedTuple):
    """The predictions for a sentence of W words."""

    ids: np.ndarray  # int32 [W], of the tags
    probabilities: np.ndarray  # float32 [W], of each tag


@dataclasses.dataclass(frozen=True)
class TaggingOptions:
    """How sentences are read, and their tags written.

    Attributes:
      scheme: of the task's labels, one of those in `sentences`.
      is_spaced: whether the language has spaces between words, by the words of the train file.
      knows_spaces: whether the train file has texts, which say where the spaces are; columns do
        not.
    """

    scheme: str = "bio2"
    is_spaced: bool = True
    knows_spaces: bool = True


class Tagging(Task):
    """The task type of tagged sentences. The labels of a task are all tags of its scheme; the label
    of a row is its tags in that scheme, its source the `Sentence`. The output is a softmax over the
    tags at the first piece of each word, a prediction is `Tags`. The gold labels are the rows."""

    kind = "tagging"
    default_metrics = ("f1", "precision", "recall", "accuracy")
    # Names alone: `evaluate` computes all of them together.
    metric_functions: ClassVar[Any] = dict.fromkeys(default_metrics)
    default_options = TaggingOptions()
    loss_options = True
    has_labels = True
    verb = "tag"
    program = "xlnet tag"

    def from_train_file(self, path: str) -> Task:
        """The task with what its train file determines: its labels, and the options about
        spaces."""
        rows = self.read(path, need_labels=True)
        tags = set(itertools.chain.from_iterable(row.label for row in rows))
        if tags == {sentences.OUTSIDE}:
            raise wrong(path, "no tag but O", "some entities", "--label_column")
        names = sentences.all_tags(tags, self.options.scheme)
        # The first words are enough to know the language.
        num_unspaced = sum(is_unspaced(row.source.words[0]) for row in rows)
        return dataclasses.replace(self, labels=names).with_options(
            is_spaced=num_unspaced <= len(rows) / 2,
            knows_spaces=all(row.source.text for row in rows),
        )

    def table(self, path: str) -> Records:
        """(place, object) of each sentence: the place is FILE:LINE, the object a dict with words
        or its text, and its tags or entities; or, if it cannot be read, the error, a str."""
        columns = self.columns
        of_flags = {"text_a_column": columns.text_a, "label_column": columns.label}
        for flag, names in of_flags.items():
            if len(names) > 1:
                raise wrong(flag, ",".join(names), "one column")
        return sentences.read(path, declared_form(self, path), columns)

    def _check_columns(
        self, path: str, need_labels: bool, names: Collection[str]
    ) -> None:
        """Checks nothing: `_row_of_cells` checks the keys of each sentence, which may differ."""

    def _row_of_cells(self, cells: dict, id: Any, need_labels: bool) -> Row:
        """The row of an object; raises ValueError. id: the row's name."""
        columns = self.columns
        tags: tuple[str, ...] | None
        words_key = sentences.key_of(columns.text_a, "text")
        sentence = sentences.sentence_of(cells, words_key)
        # The labels of a text are entities; those of a list of words, whose `text` is "", tags.
        usual = "entities" if sentence.text else "tags"
        tags_key = sentences.key_of(columns.label, usual)
        try:
            # The same sentence with its gold entities, and the tags of its words.
            sentence, tags = sentences.tagged(sentence, tags_key, self.options.scheme)
            # Before the train file is read, a task has no labels, and any tag may occur.
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
        # The words as a text, by which rows are compared. `encode` reads those of the source.
        between = " " if self.options.is_spaced else ""
        pair = between.join(sentence.words), None
        return Row(id, (pair,), tags, source=sentence)

    def row(self, example: InlineExample) -> Row:
        """The row of a sentence without a file, called "0"; raises ValueError."""
        cells = {sentences.key_of(self.columns.text_a, "text"): example.text_a}
        return self._row_of_cells(cells, "0", need_labels=False)

    def after_space(self, sentence: sentences.Sentence) -> list[bool]:
        """Whether each of the W words is encoded as one after a space."""
        # Training and prediction must agree about spaces, or the network sees subword tokens that
        # it has not learned. The spaces of a text count if the model learned from texts. If it
        # learned from columns, which have no spaces, all words count alike: as after a space in
        # languages with spaces. So do those of a sentence in columns, and the first word of any
        # sentence, which has nothing before it.
        after_space = [self.options.is_spaced] * len(sentence.words)
        if sentence.text and self.options.knows_spaces:
            for i, (start, _) in enumerate(sentence.offsets[1:], 1):
                after_space[i] = sentence.text[start - 1].isspace()
        return after_space

    def encode(
        self, rows: Sequence[Row], tokenizer: Any, layout: encoding.Layout
    ) -> tuple:
        """As `Task.encode`, with a record for each window: (arrays by name, int [n] windows of each
        row, `TokenCounts`). word_starts, int32 [m,length], is 1 at the first piece of each word
        that is tagged in the window; label_ids, of this shape, has 1 + the word's tag there, or 0.
        """
        length, names = layout.max_seq_length, self.labels
        room = length - 2  # for subword tokens, as <sep> and <cls> are on the right
        counts, tokens = [], []  # of each sentence: its windows, its tokens
        # Of each window: (its ids, no second text); word_starts and label_ids, int32 [2,length].
        texts, records = [], []
        for row in rows:
            after_space = self.after_space(row.source)
            pieces = tokenizer.encode_words(row.source.words, after_space)
            ids = list(itertools.chain.from_iterable(pieces))
            sizes = [len(of_word) for of_word in pieces]
            # The word_starts and label_ids of the sentence.
            of_sentence = np.zeros([2, len(ids)], np.int32)
            first_pieces = np.cumsum([0, *sizes[:-1]])
            of_sentence[0, first_pieces] = 1
            if row.label:
                tag_ids = [names.index(tag) for tag in row.label]
                of_sentence[1, first_pieces] = np.add(tag_ids, 1)
            windows = encoding.windows_of(len(ids), room, room // 2)
            tokens.append(len(ids))
            counts.append(len(windows))
            for start, end, widest_start, widest_end in windows:
                texts.append((ids[start:end], None))
                # A word is tagged in the window in which its first piece has the most context.
                record = np.zeros([2, length], np.int32)
                # As padding is on the left, the pieces end at the token `room`.
                shift = room - end
                widest = slice(widest_start + shift, widest_end + shift)
                record[:, widest] = of_sentence[:, widest_start:widest_end]
                records.append(record)
        arrays = encoding.lay_out(texts, length, tokenizer, "left")
        arrays["word_starts"], arrays["label_ids"] = np.stack(records, axis=1)
        num_tokens = np.array(tokens)
        # Windows have all tokens.
        token_counts = encoding.TokenCounts(read=num_tokens, total=num_tokens)
        return arrays, np.array(counts), token_counts

    # -- the output layer

    def features(self, length: int) -> tuple:
        """The features of a record of T = `length` tokens, in addition to the ids."""
        return (
            # At the first piece of each word to be tagged: its tag's id + 1; else 0.
            Feature("label_ids", (length,), "int"),
            # 1 at these pieces, else 0.
            Feature("word_starts", (length,), "int"),
        )

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """[B,T',L], of the last T' tokens: the network leaves out those at the left that are
        padding in all records of a batch."""
        return nn.dense(nn.sequence, len(self.labels), nn.scope + "/logit")

    def loss(self, nn: Any, logits: Any, features: dict, options: LossOptions) -> Any:
        """The mean of the cross entropy over the tagged words of each record, float32 [B]."""
        import tensorflow.compat.v1 as tf

        # T', as of `logits`: T without the padding on the left that all records have.
        length = tf.shape(logits)[1]
        labels = features["label_ids"][:, -length:]  # int32 [B,T'], ids + 1 or 0
        weights = tf.cast(labels > 0, tf.float32)  # 1 at tagged words' first pieces
        ids = tf.maximum(labels - 1, 0)
        loss = weights * softmax_loss(nn, logits, ids, options)
        # With `keepdims` the gradient computes no shapes on the host, for which a GPU would wait.
        total = tf.reduce_sum(loss, axis=1, keepdims=True)
        count = tf.reduce_sum(weights, axis=1, keepdims=True)
        # A record may have no tagged word.
        return (total / tf.maximum(count, 1.0))[:, 0]

    def outputs(self, nn: Any, logits: Any, features: dict) -> dict:
        """`values`, int32 [B,T]: the most probable tag of each word at its first piece, -1
        elsewhere; `probabilities`, float32 [B,T]: of these tags."""
        import tensorflow.compat.v1 as tf

        # The logits are those of the last T' tokens: restore T tokens by adding padding on the
        # left.
        starts = features["word_starts"]  # [B,T]
        num_missing = tf.shape(starts)[1] - tf.shape(logits)[1]
        padding = [[0, 0], [num_missing, 0], [0, 0]]
        logits = tf.pad(tf.cast(logits, tf.float32), padding)
        probabilities = tf.nn.softmax(logits)  # [B,T,L]
        tags = tf.argmax(probabilities, axis=2, output_type=tf.int32)
        return {
            "values": tf.where(starts > 0, tags, -tf.ones_like(tags)),
            "probabilities": tf.reduce_max(probabilities, axis=2),
        }

    def join(self, outputs: dict, num_records: np.ndarray) -> list[Tags]:
        """The predictions for each sentence, which has those of a word from the window that tags
        it.

        Args:
          outputs: as of `outputs`, arrays [m,T] of windows in the order of their sentences.
          num_records: int [n], the number of windows of each sentence.
        """
        predictions = []
        ends = np.cumsum(num_records)[
            :-1
        ]  # of the windows of each sentence but the last
        ids_of = np.split(outputs["values"], ends)
        probabilities_of = np.split(outputs["probabilities"], ends)
        for ids, probabilities in zip(ids_of, probabilities_of):
            # Each word has one token >= 0 in one of the windows; these are in reading order.
            is_tagged = ids >= 0
            predictions.append(Tags(ids[is_tagged], probabilities[is_tagged]))
        # Tags of logits that are not finite look like others. Their probabilities do not.
        require_finite([tags.probabilities.sum() for tags in predictions])
        return predictions

    def named_outputs(self, outputs: dict, threshold: float) -> dict:
        """`tags`, string [B,T]: the tag of each word at its first piece, "" elsewhere."""
        import tensorflow.compat.v1 as tf

        names = tf.constant(("", *self.labels))  # "" of -1
        return {"tags": tf.gather(names, outputs["values"] + 1)}

    # -- predictions

    def results(self, rows: Sequence[Row], values: Any, threshold: float) -> list:
        """A `Tagged` for each row; an entity has the mean probability of its words' tags. values:
        the `Tags` of each row."""
        results = []
        for row, predicted in zip(rows, values):
            sentence, entities = row.source, []
            tags = tuple([self.labels[id] for id in predicted.ids])
            for first, end_word, label in sentences.entities_of(
                tags, self.options.scheme
            ):
                start, end, text = sentence.span_of_words(first, end_word)
                score = float(predicted.probabilities[first:end_word].mean())
                entities.append(Entity(label, text, start, end, score))
            results.append(Tagged(sentence.words, tags, tuple(entities)))
        return results

    def evaluate(self, values: Any, gold: Any, threshold: float) -> dict:
        """The task's metrics by name: precision, recall and F1 of entities, accuracy of tags.
        values: the `Tags` of n rows; gold: the rows; threshold: not read, as tags have none."""
        ratios, _ = self._scores(values, gold, threshold)
        found = dict(zip(("precision", "recall", "f1"), ratios))
        gold_tags = np.concatenate([row.label for row in gold])
        ids = np.concatenate([tags.ids for tags in values])
        found["accuracy"] = float(np.mean(np.array(self.labels)[ids] == gold_tags))
        return {name: found[name] for name in self.metrics}

    def label_table(self, values: Any, gold: Any, threshold: float) -> str | None:
        """The table of `sentences.scores`."""
        _, table = self._scores(values, gold, threshold)
        return table

    def _scores(self, values: Any, rows: Sequence[Row], threshold: float) -> tuple:
        """((precision, recall, F1), table) of the predicted entities, as of `sentences.scores`."""
        predicted = map(_spans_of, self.results(rows, values, threshold))
        return sentences.scores(predicted, [row.source.entities for row in rows])

    def prediction_files(
        self, rows: Sequence[Row], values: Any, threshold: float
    ) -> dict[str, Iterable]:
        """A file of the objects of the sentences with one more key, `predicted`: the entities of a
        text, or the tags of words."""
        objects = []
        for row, tagged in zip(rows, self.results(rows, values, threshold)):
            predicted = _spans_of(tagged) if row.source.text else tagged.tags
            objects.append({**row.source.cells, "predicted": predicted})
        return {"jsonl": objects}


def _spans_of(tagged: Tagged) -> list[TagSpan]:
    """(start, end, label) of the predicted entities."""
    return [(entity.start, entity.end, entity.label) for entity in tagged.entities]
