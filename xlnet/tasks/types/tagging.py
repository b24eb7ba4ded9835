"""Tagging: a tag for each word of a sentence; the tags mark entities."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from xlnet import encodings
from xlnet.errors import UserError
from xlnet.settings.finetuning import TaggerSettings
from xlnet.tasks.features import encoding, word_encoding
from xlnet.tasks.files import (
    schemes,
    tagged_columns,
    tagged_files,
    tagged_json,
    tagged_words,
)
from xlnet.tasks.files.row_errors import LISTED, RowErrors
from xlnet.tasks.files.row_store import MappedRows, store_rows
from xlnet.tasks.metrics import entity_metrics
from xlnet.tasks.output.prediction_files import PredictionFile
from xlnet.tasks.task import InlineExample, Row, Task
from xlnet.tasks.types import contract
from xlnet.tasks.types.contract import THRESHOLD, LossOptions
from xlnet.tasks.types.simple import weights_of
from xlnet.tokenization.tokenizer import is_unspaced

# Maximum fraction of illegal tags among those that are not O, whatever scheme they fit better.
_MOST_ILLEGAL = 0.01


def _entity_metric(name: str) -> Callable[..., float]:
    """Precision, recall or F1 of entities; tags are legal, so both modes of seqeval agree."""

    def metric(task: Task, decisions: Any, gold_labels: Any, values: Any) -> float:
        return getattr(entity_metrics.total(_counts(decisions, gold_labels)), name)

    return metric


def _counts(
    decisions: Sequence[Sequence[str]], rows: Sequence[Row]
) -> dict[str, entity_metrics.Counts]:
    """Entities by label; those of a text are where its file has them, even inside of words."""
    return entity_metrics.by_label(
        [
            tagged_words.entities_with_offsets(row.source, schemes.spans(tags))
            for row, tags in zip(rows, decisions)
        ],
        [
            tagged_words.entities_with_offsets(row.source, schemes.spans(row.label))
            if row.source.entities is None
            else [tuple(entity) for entity in row.source.entities]
            for row in rows
        ],
    )


def _accuracy(task: Task, decisions: Any, gold_labels: Any, values: Any) -> float:
    return entity_metrics.accuracy(decisions, [row.label for row in gold_labels])


class Tags(NamedTuple):
    """The predictions for a sentence of W words."""

    ids: np.ndarray  # int32 [W], of the tags
    probabilities: np.ndarray  # float32 [W], of each tag alone, without regard to the others


@dataclasses.dataclass(frozen=True)
class TaggingOptions:
    """Options of files and of the loss."""

    scheme: str = "bio2"  # of the files
    is_scheme_given: bool = False  # by the user, not by the task or the model
    sentence_column: Optional[str] = None  # of columns; None: empty lines are between sentences
    learned: str = ""  # the scheme of the task's labels; "": that of `scheme`
    is_spaced: bool = True  # put spaces between the words of files without any
    # Whether the train file has texts, which say where the spaces are; columns do not.
    knows_spaces: bool = True

    @property
    def learned_scheme(self) -> str:
        """The scheme of the task's labels."""
        return self.learned or schemes.learned(self.scheme)


class TaggingReader(contract.Reader):
    """Sentences. The labels of a task are all tags of the learned scheme, O first; the label of a
    row is its tags."""

    unit = "sentences"
    own_forms = ()

    def from_train_file(self, path: str) -> Task:
        """The task with the tags, their column, and whether there are spaces between words."""
        task = self.task
        sentences = store_rows(self._sentences(path, need_tags=True))
        sentences = self._with_right_tags(path, sentences, None, has_notes=False)
        labels = schemes.labels_of(MappedRows(lambda sentence: sentence.tags, sentences))
        if not labels:
            raise UserError(f"{path}: all tags are O; expected some entities")
        source = sentences[0].source
        if isinstance(source, tagged_words.ColumnLines):
            # Columns that are given by number are those found in the file; columns that are given
            # by name stay.
            text_a, label = (
                names if names and not names[0].isdecimal() else (column,)
                for names, column in (
                    (task.columns.text_a, source.word_column),
                    (task.columns.label, source.tag_column),
                )
            )
            task = task.with_columns(text_a=text_a, label=label)
        # Whether there are spaces between words, as in most scripts.
        unspaced = collections.Counter(
            is_unspaced(word) for sentence in sentences for word in sentence.words
        )
        learned = schemes.learned(self.options.scheme)
        return dataclasses.replace(task, labels=schemes.all_tags(labels, learned)).with_options(
            learned=learned,
            is_spaced=unspaced[True] <= unspaced[False],
            knows_spaces=all(sentence.after_space is not None for sentence in sentences),
        )

    def _sentences(self, path: str, need_tags: bool) -> Iterator[tagged_words.TaggedSentence]:
        """The sentences of a file, with labels in Unicode's composed form; the tags of texts with
        entities get the files' scheme."""
        task = self.task
        declared = tagged_files.Declared(
            form=task.files.input_format or task.files.form.name,
            word_column=task.columns.text_a[0],
            tag_column=task.columns.label[0] if task.columns.label else None,
            sentence_column=self.options.sentence_column,
            delimiter=task.files.form.delimiter,
            quoting=task.files.form.quoting,
            header=task.files.form.header,
            encoding=task.files.form.encoding,
        )
        skips = task.files.skips_errors
        for sentence in tagged_files.read(path, declared, need_tags, skips=skips):
            entities, tags = sentence.entities, sentence.tags
            if entities is not None:
                entities = tuple(
                    (start, end, encodings.composed(label)) for start, end, label in entities
                )
            if tags:
                tags = tuple(map(encodings.composed, tags))
            if tags and entities is not None:
                tags = schemes.repaired(tags, self.options.scheme)
            yield sentence._replace(entities=entities, tags=tags)

    def _with_right_tags(
        self,
        path: str,
        sentences: Sequence[tagged_words.TaggedSentence],
        labels: Optional[Sequence[str]],
        has_notes: bool = True,
    ) -> Sequence[tagged_words.TaggedSentence]:
        """The sentences of a file after all of their tags were compared with the declared scheme.

        Tags with other prefixes, or of other labels, are errors. Sequences that are illegal, such
        as O before I in bio2, have a meaning nevertheless, by the rule of `schemes`; they are an
        error if there are many, and another scheme has fewer of them.

        Args:
          path: for errors.
          sentences: with tags.
          labels: those of the training; None: any.
          has_notes: whether to warn of a few illegal tags.

        Returns:
          The sentences, without those with errors if errors are skipped.
        """
        scheme = self.options.scheme
        error_of = self._error_of(labels)
        wrong = RowErrors()
        illegal = RowErrors()
        count = 0  # of tags but O
        has_error = []
        for sentence in sentences:
            tags = sentence.tags or ()
            errors_before = len(wrong)
            for tag, place in zip(tags, sentence.places):
                error = error_of(tag)
                if error:
                    wrong.add(place, error)
                count += tag != schemes.OUTSIDE
            has_error.append(len(wrong) > errors_before)
            if has_error[-1]:
                continue
            for i in schemes.illegal(tags, scheme):
                before = tags[i - 1] if i else "(beginning)"
                illegal.add(
                    sentence.places[i],
                    f"tag '{tags[i]}' after '{before}' is illegal in scheme {scheme}",
                )
        are_many = len(illegal) > max(1, _MOST_ILLEGAL * count)
        hint = ""
        if wrong or are_many:
            better = schemes.fitting(MappedRows(lambda sentence: sentence.tags, sentences))
            if better not in (None, scheme):
                hint = f"; the tags of the file fit --scheme={better}"
        if not self.task.files.skips_errors or all(has_error):
            if len(wrong) == 1 and not hint:
                hint = self._hint_of_names(sentences[0], error_of)
            wrong.refuse(hint)
        wrong.note(path, "tags are wrong; their sentences are skipped")
        if are_many and hint:
            illegal.refuse(hint)
        if has_notes:
            illegal.note(path, f"of {count} tags are illegal and repaired")
        if not wrong:
            return sentences
        return store_rows(
            sentence for sentence, is_wrong in zip(sentences, has_error) if not is_wrong
        )

    def _hint_of_names(
        self, first: tagged_words.TaggedSentence, error_of: Callable[[str], Optional[str]]
    ) -> str:
        """The end of an error about a file whose first line may have the names of its columns."""
        are_columns = isinstance(first.source, tagged_words.ColumnLines)
        if are_columns and not self.task.files.form.header and first.tags:
            if error_of(first.tags[0]):
                return "; if the first line has the names of the columns, give --header=names"
        return ""

    def _error_of(self, labels: Optional[Sequence[str]]) -> Callable[[str], Optional[str]]:
        """A function of a tag that returns its error; labels: those of the training, None: any."""
        unknown = 0

        @functools.cache  # files have few different tags
        def error_of(tag: str) -> Optional[str]:
            nonlocal unknown
            error = schemes.tag_error(tag, self.options.scheme)
            if error is None and labels is not None:
                # No more errors than these are shown.
                has_nearest = unknown < LISTED
                error = schemes.unknown_label(tag, labels, has_nearest)
                unknown += error is not None
            return error

        return error_of

    def from_model(self, stored: dict) -> Task:
        # The column of tags is that found in the train file, unless a flag names it.
        label = self.task.columns.label or tuple(stored["columns"].get("label", ()))
        options = stored["kind_options"]
        task = super().from_model(stored).with_columns(label=label)
        # As those of files; a model of an earlier version may have others.
        labels = tuple(map(encodings.composed, task.class_names))
        return dataclasses.replace(task, labels=labels).with_options(
            # A file may have another scheme than the one that the model has learned.
            scheme=self.options.scheme if self.options.is_scheme_given else options["scheme"],
            learned=options.get("learned") or schemes.learned(options["scheme"]),
            is_spaced=options["is_spaced"],
            # Models of older versions do not have it; they looked at the spaces of texts.
            knows_spaces=options.get("knows_spaces", True),
        )

    def read(self, path: str, need_labels: bool) -> Sequence[Row]:
        sentences: Iterable[tagged_words.TaggedSentence]
        sentences = self._sentences(path, need_labels)
        labels = schemes.labels_of([self.task.class_names])
        if need_labels:
            sentences = self._with_right_tags(path, store_rows(sentences), labels)
        error_of = self._error_of(labels)
        rows = store_rows(self._row(i, sentence, error_of) for i, sentence in enumerate(sentences))
        if not rows:
            raise UserError(f"{path}: no sentences")
        source = next((row.source.source for row in rows if row.pairs), None)
        if not need_labels and isinstance(source, tagged_words.ColumnLines):
            tagged_columns.check_tags(path, source, self.task.class_names)
        return rows

    def _row(
        self,
        index: Any,
        sentence: tagged_words.TaggedSentence,
        error_of: Callable[[str], Optional[str]],
    ) -> Row:
        """The row of a sentence. Its label is None if it has a tag that is wrong, or none."""
        if not sentence.words:  # a skipped one
            return Row(str(index), (), None, source=sentence)
        tags = sentence.tags
        if tags is not None:
            if any(map(error_of, set(tags))):
                tags = None
            else:
                spans = schemes.spans(tags)
                tags = schemes.tags_of(spans, len(tags), self.options.learned_scheme)
        between = " " if self.options.is_spaced else ""
        text = between.join(sentence.words)
        return Row(str(index), ((text, None),), tags, source=sentence)

    def examples(self, rows: Sequence[Row]) -> Collection:
        position = {tag: id for id, tag in enumerate(self.task.class_names)}

        def example(row: Row) -> Any:
            words = row.source.words
            return word_encoding.TaggedExample(
                words,
                self._space_marks(row.source),
                None if row.label is None else [position[tag] for tag in row.label],
            )

        return MappedRows(example, rows)

    def _space_marks(self, sentence: tagged_words.TaggedSentence) -> list[int]:
        """1 for each word that is tokenized as after a space, else 0.

        Training and prediction must agree, or the network sees subword tokens that it has not
        learned. The spaces of a text count if the model learned from texts. A model that learned
        from columns, which do not have them, gives all words the same mark. So does a sentence of
        columns, and the first word of any sentence, which has nothing before it.
        """
        usual = int(self.options.is_spaced)
        if sentence.after_space is None or not self.options.knows_spaces:
            return [usual] * len(sentence.words)
        return [usual, *map(int, sentence.after_space[1:])]

    @property
    def record_options(self) -> tuple:
        return self.options.is_spaced, self.options.knows_spaces

    def encode(self, examples: list, tokenizer: Any, layout: encoding.Layout) -> tuple:
        return word_encoding.arrays_of(examples, tokenizer, layout)

    def row(self, id: str, asked: InlineExample) -> tuple:
        try:
            sentence = (
                tagged_words.of_text(asked.text_a)
                if isinstance(asked.text_a, str)
                else tagged_words.of_words(asked.text_a)
            )
        except ValueError as e:
            return None, str(e)
        return self._row(id, sentence, self._error_of(None)), None


class TaggingHead(contract.Head):
    """A softmax over the tags at the first piece of each word."""

    smooths_labels = True

    def features(self, length: int) -> tuple:
        return word_encoding.features(length)

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """[B,T',L], of the last T' tokens."""
        return nn.dense(nn.sequence, len(self.task.class_names), nn.scope + "/logit")

    def loss(self, nn: Any, logits: Any, features: dict, options: Optional[LossOptions]) -> Any:
        """The mean over the first pieces of the words of a record."""
        import tensorflow.compat.v1 as tf

        length = tf.shape(logits)[1]  # T'
        labels = features["label_ids"][:, -length:]  # int32 [B,T']
        counts = (labels > 0) & (features["word_starts"][:, -length:] > 0)
        ids = tf.maximum(labels - 1, 0)
        smoothing, class_weights = options or LossOptions()
        loss = nn.softmax_cross_entropy(logits, ids, smoothing)
        if class_weights is not None:
            loss *= tf.gather(tf.constant(class_weights, tf.float32), ids)
        counts = tf.cast(counts, tf.float32)
        loss, count = (tf.reduce_sum(x, axis=1, keepdims=True) for x in (loss * counts, counts))
        return (loss / tf.maximum(count, 1.0))[:, 0]

    def outputs(self, nn: Any, logits: Any, features: dict) -> dict:
        """`values`, int32 [B,T]: the tag of each word in the most probable legal sequence at its
        first piece, -1 elsewhere; `probabilities`, float32 [B,T]: of these tags."""
        import tensorflow.compat.v1 as tf

        # The network leaves out tokens that are padding in all examples of a batch.
        starts, length = features["word_starts"], tf.shape(logits)[1]
        tags = nn.best_path(
            logits,
            starts[:, -length:] > 0,
            features["sentence_edges"] > 0,
            *schemes.legal_transitions(self.task.class_names, self.options.learned_scheme),
        )
        probabilities = tf.gather(
            tf.nn.softmax(tf.cast(logits, tf.float32)), tf.maximum(tags, 0), axis=2, batch_dims=2
        )  # [B,T']
        padding = [[0, 0], [tf.shape(starts)[1] - length, 0]]
        # Restore T tokens by adding padding on the left.
        tags, probabilities = tf.pad(tags, padding), tf.pad(probabilities, padding)
        return {
            "values": tf.where(starts > 0, tags, -tf.ones_like(tags)),
            "probabilities": probabilities,
        }

    def join(self, outputs: dict, windows: Optional[np.ndarray]) -> contract.Predictions:
        """values: the `Tags` of each row, a list."""
        assert windows is not None, "sentences are split where they do not fit"
        ids, probabilities = (
            np.split(outputs[name], np.cumsum(windows)[:-1]) for name in ("values", "probabilities")
        )
        return contract.Predictions(
            [Tags(part[part >= 0], each[part >= 0]) for part, each in zip(ids, probabilities)],
            contract.mean_over_windows(outputs["loss"], windows),
        )

    def class_weights(self, text: str, rows: Optional[Sequence[Row]]) -> Optional[list]:
        """Labels are tags."""
        return weights_of(
            text,
            self.task,
            None if rows is None else collections.Counter(tag for row in rows for tag in row.label),
        )

    def outputs_in_words(self) -> str:
        labels = schemes.labels_of([self.task.class_names])
        more = ", ..." if len(labels) > contract.LABELS_SHOWN else ""
        listed = ", ".join(labels[: contract.LABELS_SHOWN])
        return f"entities {listed}{more}, scheme {self.options.scheme}"


class TaggingExport(contract.Export):
    """The tag of each word at its first piece, "" elsewhere: string [B,T]."""

    def outputs(self, outputs: dict, features: dict, threshold: float = THRESHOLD) -> dict:
        import tensorflow.compat.v1 as tf

        return {"tags": tf.gather(tf.constant(("", *self.task.class_names)), outputs["values"] + 1)}


class TaggingScorer(contract.Scorer):
    """A prediction is `Tags`. The gold labels are the rows."""

    default_metrics = ("f1", "precision", "recall", "accuracy")
    metrics = dict({name: _entity_metric(name) for name in default_metrics[:3]}, accuracy=_accuracy)

    def gold_labels(self, rows: Sequence[Row]) -> Sequence[Row]:
        return rows

    def _refuse_nan(self, values: Sequence[Tags]) -> None:
        """Raises UserError for tags of logits that are not finite, which alone look like others."""
        contract.refuse_nan(self.task, np.array([found.probabilities.sum() for found in values]))

    def decide(self, values: Any, threshold: float = THRESHOLD) -> Any:
        """Legal tags: n tuples."""
        return [
            schemes.repaired([self.task.class_names[id] for id in ids], self.options.learned_scheme)
            for ids, _ in values
        ]

    def evaluate(self, values: Any, gold_labels: Any, threshold: float = THRESHOLD) -> dict:
        _check_lengths(values, gold_labels)
        self._refuse_nan(values)
        decisions = self.decide(values)
        return {
            name: float(self.metrics[name](self.task, decisions, gold_labels, values))
            for name in self.task.metrics
        }

    def constant_prediction(
        self, values: Any, gold_labels: Any, threshold: float = THRESHOLD
    ) -> Optional[str]:
        """One tag for all words."""
        found, true = (
            set().union(*tags) for tags in (self.decide(values), [row.label for row in gold_labels])
        )
        return f"every word is '{found.pop()}'" if len(found) == 1 < len(true) else None

    def table(
        self, values: Any, gold_labels: Any, threshold: float, plot_path: Optional[str] = None
    ) -> str:
        return entity_metrics.table(_counts(self.decide(values), gold_labels))

    def compare(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> Iterator[contract.Comparison]:
        """The entities of a sentence; the probability is that of the least probable tag, the error
        how many entities are missed or predicted wrongly."""
        for row, tags, found in zip(rows, self.decide(values), values):
            sentence = row.source
            predicted = tagged_words.entities_with_offsets(sentence, schemes.spans(tags))
            gold = (
                []
                if row.label is None
                else tagged_words.entities_with_offsets(sentence, schemes.spans(row.label))
                if sentence.entities is None
                else [tuple(entity) for entity in sentence.entities]
            )
            error = 0 if row.label is None else len(set(gold) ^ set(predicted))
            texts = [
                "; ".join(
                    f"{each.label}: {each.text}" for each in tagged_words.entities(sentence, spans)
                )
                for spans in (gold, predicted)
            ]
            yield contract.Comparison(
                texts[0], texts[1], float(np.min(found.probabilities)), float(error)
            )

    def prediction_files(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> list:
        """The rows of the file with one more column or key."""
        _check_lengths(values, [row for row in rows if row.pairs])
        self._refuse_nan(values)
        decided = iter(self.decide(values))
        spans = [schemes.spans(next(decided)) if row.pairs else None for row in rows]
        places = MappedRows(lambda row: row.source.source, rows)
        tags = (
            None
            if found is None
            else schemes.tags_of(found, len(row.source.words), self.options.scheme)
            for row, found in zip(rows, spans)
        )
        if isinstance(next(iter(places)), tagged_words.JsonLine):
            return [PredictionFile("jsonl", None, tagged_json.json_lines(places, spans, tags))]
        return [PredictionFile("conll", None, tagged_columns.conll_lines(places, tags))]

    def results(self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD) -> list:
        self._refuse_nan(values)
        return [
            tagged_words.tagged(
                row.source, schemes.spans(tags), self.options.scheme, found.probabilities
            )
            for row, tags, found in zip(rows, self.decide(values), values)
        ]


# ---- from the command line to a task


def _own_columns(settings: TaggerSettings) -> dict:
    return dict(
        text_a=(settings.word_column,),
        text_b=(),
        id=None,
        label=(settings.tag_column,) if settings.tag_column else (),
    )


def _with_settings(task: Task, settings: TaggerSettings) -> Task:
    task = task.with_options(sentence_column=settings.sentence_column)
    if settings.scheme is None:  # that of the task, or of the model
        return task
    return task.with_options(scheme=settings.scheme, is_scheme_given=True)


TAGGING = contract.TaskType(
    "tagging",
    TaggingReader,
    TaggingHead,
    TaggingScorer,
    TaggingOptions(),
    has_labels=True,
    verb="tag",
    program="xlnet tag",
    selecting_flag="task_name",
    own_columns=_own_columns,
    with_settings=_with_settings,
    export=TaggingExport,
)


def _check_lengths(values: Sequence[Tags], rows: Sequence[Row]) -> None:
    """Raises ValueError unless each row has as many tags as words."""
    if [len(found.ids) for found in values] != [len(row.source.words) for row in rows]:
        raise ValueError("the numbers of tags are not those of the words of rows")
