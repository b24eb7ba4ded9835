"""The task type tagging: a tag for each word of a sentence, such as those that mark entities."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Optional

import numpy as np

from xlnet.corpus.tokenizer import is_unspaced
from xlnet.settings.finetuning import TaggerSettings
from xlnet.support.errors import wrong
from xlnet.tasks.features import encoding
from xlnet.tasks.files.row_store import MappedRows, store_rows
from xlnet.tasks.output.prediction_files import PredictionFile
from xlnet.tasks.output.results import Entity, Tagged
from xlnet.tasks.tagging import files, schemes, scores, windows, words
from xlnet.tasks.tagging.schemes import TagSpan
from xlnet.tasks.tagging.words import Sentence
from xlnet.tasks.task import InlineExample, Row, Task
from xlnet.tasks.types import contract
from xlnet.tasks.types.contract import THRESHOLD, LossOptions

_DEFAULT_SCHEME = "bio2"


class Tags(NamedTuple):
    """The predictions for a sentence of W words."""

    ids: np.ndarray  # int32 [W], of the tags
    probabilities: (
        np.ndarray
    )  # float32 [W], of each tag alone, without regard to the others


@dataclasses.dataclass(frozen=True)
class TaggingOptions:
    """Options of files and of the output layer."""

    scheme: str = ""  # of the files; "": not declared
    learned: str = _DEFAULT_SCHEME  # of the task's labels
    comment: Optional[str] = None  # how comments in columns begin; None: there are none
    is_spaced: bool = True  # put spaces between the words of files without any
    # Whether the train file has texts, which say where the spaces are; columns do not.
    knows_spaces: bool = True


class TaggingReader(contract.Reader):
    """Sentences. The labels of a task are all tags of the learned scheme; the label of a row is its
    tags in that scheme, its source the `Sentence`."""

    unit = "sentences"
    own_forms = ()

    def from_train_file(self, path: str) -> Task:
        """The task with the tags, and whether there are spaces between words."""
        scheme = self.options.scheme or _DEFAULT_SCHEME
        task = self.task.with_options(scheme=scheme, learned=schemes.learned(scheme))
        sentences = store_rows(files.SentenceReader(task, need_tags=True).read(path))
        labels = schemes.labels_of(MappedRows(lambda one: one.tags, sentences), scheme)
        if set(labels) <= {schemes.OUTSIDE}:
            raise wrong(path, "no tag but O", "some entities", "--tag_column")
        # Whether there are spaces between words, as in most scripts.
        unspaced = count = 0
        for sentence in sentences:
            unspaced += sum(map(is_unspaced, sentence.words))
            count += len(sentence.words)
        task = dataclasses.replace(
            task, labels=schemes.all_tags(labels, task.options.learned)
        )
        return task.with_options(
            is_spaced=unspaced <= count - unspaced,
            knows_spaces=all(sentence.text for sentence in sentences),
        )

    def from_model(self, stored: dict) -> Task:
        options = stored["kind_options"]
        return (
            super()
            .from_model(stored)
            .with_options(
                # A file may have another scheme than the one that the model has learned.
                scheme=self.options.scheme or options["scheme"],
                learned=schemes.learned(options["scheme"]),
                is_spaced=options["is_spaced"],
                knows_spaces=options["knows_spaces"],
            )
        )

    def read(self, path: str, need_labels: bool) -> Sequence[Row]:
        labels = schemes.labels_of([self.task.class_names], self.options.learned)
        reader = files.SentenceReader(self.task, need_labels, labels)
        sentences = enumerate(reader.read(path))
        rows = store_rows(self._row(str(i), sentence) for i, sentence in sentences)
        if not need_labels:
            files.check_columns(path, rows[0].source, self.task.class_names)
        return rows

    def _row(self, id: str, sentence: Sentence) -> Row:
        tags = sentence.tags
        if tags is not None:
            spans = schemes.spans(tags, self.options.scheme)
            tags = schemes.tags_of(spans, len(tags), self.options.learned)
        text = (" " if self.options.is_spaced else "").join(sentence.words)
        return Row(id, ((text, None),), tags, source=sentence)

    def examples(self, rows: Sequence[Row]) -> Collection:
        ids = {tag: id for id, tag in enumerate(self.task.class_names)}

        def example(row: Row) -> Any:
            tags = None if row.label is None else [ids[tag] for tag in row.label]
            return windows.TaggedExample(
                row.source.words, self._space_marks(row.source), tags
            )

        return MappedRows(example, rows)

    def _space_marks(self, sentence: Sentence) -> list[int]:
        """1 for each word that is tokenized as after a space, else 0.

        Training and prediction must agree, or the network sees subword tokens that it has not
        learned. The spaces of a text count if the model learned from texts. A model that learned
        from columns, which do not have them, gives all words the same mark. So does a sentence of
        columns, and the first word of any sentence, which has nothing before it.
        """
        usual = int(self.options.is_spaced)
        if not sentence.text or not self.options.knows_spaces:
            return [usual] * len(sentence.words)
        return [
            usual,
            *(int(sentence.text[start - 1].isspace()) for start in sentence.starts[1:]),
        ]

    @property
    def record_options(self) -> tuple:
        return self.options.is_spaced, self.options.knows_spaces

    def encode(self, examples: list, tokenizer: Any, layout: encoding.Layout) -> tuple:
        return windows.arrays_of(examples, tokenizer, layout)

    def row(self, id: str, asked: InlineExample) -> tuple:
        try:
            return self._row(id, words.of_call(asked.text_a)), None
        except ValueError as e:
            return None, str(e)


class TaggingHead(contract.Head):
    """A softmax over the tags at the first piece of each word."""

    def features(self, length: int) -> tuple:
        return windows.features(length)

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """[B,T',L], of the last T' tokens."""
        return nn.dense(nn.sequence, len(self.task.class_names), nn.scope + "/logit")

    def loss(
        self, nn: Any, logits: Any, features: dict, options: Optional[LossOptions]
    ) -> Any:
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
        loss = tf.reduce_sum(loss * counts, axis=1, keepdims=True)
        count = tf.reduce_sum(counts, axis=1, keepdims=True)
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
            *schemes.legal_transitions(self.task.class_names, self.options.learned),
        )
        probabilities = tf.nn.softmax(tf.cast(logits, tf.float32))
        probabilities = tf.gather(
            probabilities, tf.maximum(tags, 0), axis=2, batch_dims=2
        )
        # Restore T tokens by adding padding on the left.
        padding = [[0, 0], [tf.shape(starts)[1] - length, 0]]
        tags, probabilities = tf.pad(tags, padding), tf.pad(probabilities, padding)
        return {
            "values": tf.where(starts > 0, tags, -tf.ones_like(tags)),
            "probabilities": probabilities,
        }

    def join(
        self, outputs: dict, windows: Optional[np.ndarray]
    ) -> contract.Predictions:
        """values: the `Tags` of each row, a list."""
        assert windows is not None, "sentences are split where they do not fit"
        ends = np.cumsum(windows)[:-1]
        values = []
        for ids, each in zip(
            np.split(outputs["values"], ends), np.split(outputs["probabilities"], ends)
        ):
            values.append(Tags(ids[ids >= 0], each[ids >= 0]))
        return contract.Predictions(
            values, contract.mean_over_windows(outputs["loss"], windows)
        )

    def outputs_in_words(self) -> str:
        labels = schemes.labels_of([self.task.class_names], self.options.learned)
        more = ", ..." if len(labels) > contract.LABELS_SHOWN else ""
        listed = ", ".join(labels[: contract.LABELS_SHOWN])
        return f"entities {listed}{more}, scheme {self.options.scheme}"

    def named_outputs(
        self, outputs: dict, features: dict, threshold: float = THRESHOLD
    ) -> dict:
        """The tag of each word at its first piece, "" elsewhere: string [B,T]."""
        import tensorflow.compat.v1 as tf

        tags = tf.constant(("", *self.task.class_names))
        return {"tags": tf.gather(tags, outputs["values"] + 1)}


class TaggingScorer(contract.Scorer):
    """A prediction is `Tags`. The gold labels are the rows."""

    # `evaluate` computes them
    metrics: ClassVar[Any] = dict.fromkeys(("f1", "precision", "recall", "accuracy"))

    def gold_labels(self, rows: Sequence[Row]) -> Sequence[Row]:
        return rows

    def decide(self, values: Any, threshold: float = THRESHOLD) -> Any:
        """The entities of each sentence, spans of words."""
        return [
            schemes.spans(
                [self.task.class_names[id] for id in ids], self.options.learned
            )
            for ids, _ in values
        ]

    def _check(self, values: Sequence[Tags]) -> None:
        """Raises UserError for tags of logits that are not finite, which alone look like others."""
        contract.refuse_nan(
            self.task, np.array([found.probabilities.sum() for found in values])
        )

    def _tags(self, spans: Sequence[TagSpan], row: Row) -> tuple[str, ...]:
        """The tags of a row's words in the scheme of the files."""
        return schemes.tags_of(spans, len(row.source.words), self.options.scheme)

    def _gold(self, row: Row) -> list[TagSpan]:
        """The entities of a row; those of a text are where its file has them, even inside of
        words."""
        if row.source.entities is not None:
            return list(row.source.entities)
        return row.source.located(schemes.spans(row.label, self.options.learned))

    def _counts(self, spans: Sequence, rows: Sequence[Row]) -> dict[str, scores.Counts]:
        found = (row.source.located(each) for row, each in zip(rows, spans))
        return scores.by_label(found, map(self._gold, rows))

    def evaluate(
        self, values: Any, gold_labels: Any, threshold: float = THRESHOLD
    ) -> dict:
        self._check(values)
        spans = self.decide(values)
        total = scores.total(self._counts(spans, gold_labels))
        # The tags are compared as the file has them.
        tags = (self._tags(each, row) for each, row in zip(spans, gold_labels))
        found = {
            "f1": total.f1,
            "precision": total.precision,
            "recall": total.recall,
            "accuracy": scores.accuracy(tags, (row.source.tags for row in gold_labels)),
        }
        return {name: float(found[name]) for name in self.task.metrics}

    def table(self, values: Any, gold_labels: Any, threshold: float) -> str:
        return scores.table(self._counts(self.decide(values), gold_labels))

    def compare(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> Iterator[contract.Comparison]:
        """The entities of a sentence; the probability is that of the least probable tag, the error
        how many entities are missed or predicted wrongly."""
        for row, spans, found in zip(rows, self.decide(values), values):
            predicted = row.source.located(spans)
            gold = [] if row.label is None else self._gold(row)
            error = 0 if row.label is None else len(set(gold) ^ set(predicted))
            yield contract.Comparison(
                _in_words(row.source, gold),
                _in_words(row.source, predicted),
                float(np.min(found.probabilities)),
                float(error),
            )

    def prediction_files(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> list:
        """The rows of the file with one more column or key."""
        self._check(values)

        def lines() -> Iterator[str]:
            for row, spans in zip(rows, self.decide(values)):
                yield from files.predicted_lines(
                    row.source, spans, self._tags(spans, row)
                )

        extension = "conll" if rows[0].source.lines else "jsonl"
        return [PredictionFile(extension, None, lines())]

    def results(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> list:
        """An entity has the mean probability of its words' tags."""
        self._check(values)
        found = []
        for row, spans, tags in zip(rows, self.decide(values), values):
            entities = []
            for (first, last, label), (start, end, _) in zip(
                spans, row.source.located(spans)
            ):
                score = float(sum(tags.probabilities[first:last]) / (last - first))
                text = row.source.text_at(start, end)
                entities.append(Entity(label, text, start, end, score))
            found.append(
                Tagged(row.source.words, self._tags(spans, row), tuple(entities))
            )
        return found


def _in_words(sentence: Sentence, entities: Sequence[TagSpan]) -> str:
    """Labels and texts of entities."""
    return "; ".join(
        f"{label}: {sentence.text_at(*place)}" for *place, label in entities
    )


# ---- from the command line to a task


def _own_columns(settings: TaggerSettings) -> dict:
    return dict(
        text_a=(settings.word_column,),
        text_b=(),
        id=None,
        label=(settings.tag_column,) if settings.tag_column else (),
    )


def _with_settings(task: Task, settings: TaggerSettings) -> Task:
    scheme = settings.scheme or task.options.scheme
    return task.with_options(comment=settings.comment, scheme=scheme)


TAGGING = contract.TaskType(
    "tagging",
    default_metrics=("f1", "precision", "recall", "accuracy"),
    loss_options=("label_smoothing", "class_weights"),
    options=TaggingOptions(),
    reader=TaggingReader,
    head=TaggingHead,
    scorer=TaggingScorer,
    has_labels=True,
    verb="tag",
    program="xlnet tag",
    selecting_flag="task_name",
    own_columns=_own_columns,
    with_settings=_with_settings,
)
