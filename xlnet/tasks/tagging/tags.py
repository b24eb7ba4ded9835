"""The task type tagging: a tag for each word of a sentence, such as those that mark entities.

Each word is encoded alone (`Tokenizer.encode_words`), so that a piece belongs to one word. A word
after a space has the mark of the space, "▁EU"; a word after another one, such as a Chinese
character, does not, so that it is the vocabulary's piece of running text, without a lone "▁". The
first word of a sentence has the mark in languages with spaces between words.

A sentence that does not fit becomes several windows of complete words. Each word belongs to one
window, in order; a window has as many words on both sides as fit, as context that is not tagged. A
word that alone does not fit loses its end.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Optional

import numpy as np

from xlnet.corpus.feature_spec import Feature
from xlnet.corpus.tokenizer import Tokenizer, is_unspaced
from xlnet.settings.finetuning import TaggerSettings
from xlnet.support.errors import wrong
from xlnet.tasks.features import encoding
from xlnet.tasks.files.row_store import MappedRows, store_rows
from xlnet.tasks.output.prediction_files import PredictionFile
from xlnet.tasks.output.results import Entity, Tagged
from xlnet.tasks.tagging import files, schemes
from xlnet.tasks.tagging.files import Sentence
from xlnet.tasks.tagging.schemes import TagSpan
from xlnet.tasks.task import InlineExample, Row, Task
from xlnet.tasks.types import contract
from xlnet.tasks.types.contract import THRESHOLD, LossOptions

_DEFAULT_SCHEME = "bio2"
# The fraction of a window, on each side of its own words, that is context: one in eight.
_CONTEXT_SHARE = 8


class Tags(NamedTuple):
    """The predictions for a sentence of W words."""

    ids: np.ndarray  # int32 [W], of the tags
    # float32 [W], of each tag alone, without regard to the others
    probabilities: np.ndarray


@dataclasses.dataclass(frozen=True)
class TaggingOptions:
    """Options of files and of the output layer."""

    scheme: str = ""  # of the files; "": not declared
    learned: str = _DEFAULT_SCHEME  # of the task's labels
    comment: Optional[str] = None  # how comments in columns begin; None: there are none
    is_spaced: bool = True  # put spaces between the words of files without any
    # Whether the train file has texts, which say where the spaces are; columns do not.
    knows_spaces: bool = True


class TaggedExample(NamedTuple):
    """A sentence of W words, as `json` can write it."""

    words: Sequence[str]
    after_space: Sequence[int]  # 1 if a word comes after a space
    tags: Optional[Sequence[int]]  # ids; None if they are not known


class WordWindow(NamedTuple):
    """Words [first, last) of a sentence, of which [own, own_end) are tagged."""

    first: int
    last: int
    own: int
    own_end: int


def windows_of(sizes: Sequence[int], room: int) -> list[WordWindow]:
    """The windows of a sentence, of the pieces of each word (at most `room`) and those that fit."""
    ends = np.cumsum([0, *sizes])  # ends[i]: pieces before word i
    count, context = len(sizes), room // _CONTEXT_SHARE
    if ends[-1] <= room:
        return [WordWindow(0, count, 0, count)]
    made, own = [], 0
    while own < count:
        # The window's own words are as many as fit next to context on both sides, at least one. If
        # the rest of the sentence fits it is taken completely, as it needs no context on the right.
        left = min(context, int(ends[own]))
        own_end = count
        if ends[-1] - ends[own] > room - left:
            limit = ends[own] + room - left - context
            own_end = max(int(np.searchsorted(ends, limit, "right")) - 1, own + 1)
        # Context: up to `left` pieces before them, then words after them and, if there are none,
        # more before them.
        first, last = own, own_end
        left = min(left, room - int(ends[own_end] - ends[own]))
        while first > 0 and ends[own] - ends[first - 1] <= left:
            first -= 1
        while last < count and ends[last + 1] - ends[first] <= room:
            last += 1
        while first > 0 and ends[last] - ends[first - 1] <= room:
            first -= 1
        made.append(WordWindow(first, last, own, own_end))
        own = own_end
    return made


def arrays_of(
    examples: Sequence[TaggedExample], tokenizer: Tokenizer, layout: encoding.Layout
) -> tuple:
    """(dict of arrays [m, ...], int [n], the windows of each sentence), as
    `feature_spec.finetuning_features` with those of `TaggingHead.features` lists them."""
    length = layout.max_seq_length
    room = length - 2  # without <sep> <cls>
    words: list[str] = []
    after_space: list[bool] = []
    examples = list(map(TaggedExample._make, examples))
    for example in examples:
        words += example.words
        after_space += map(bool, example.after_space)
    encoded = iter(tokenizer.encode_words(words, after_space))
    texts, labels, starts, edges, counts = [], [], [], [], []
    tokens_read, tokens = [], []
    for example in examples:
        complete = [next(encoded) for _ in example.words]
        pieces = [ids[:room] for ids in complete]
        sizes = list(map(len, pieces))
        parts = windows_of(sizes, room)
        counts.append(len(parts))
        tokens += [sum(map(len, complete))] * len(parts)
        tokens_read += [sum(sizes)] * len(parts)
        for part in parts:
            ids = list(itertools.chain.from_iterable(pieces[part.first : part.last]))
            texts.append((ids, None))
            # A word of the window's own has its tag at each piece, and a 1 at the first; context
            # and padding have 0.
            label, start = np.zeros((2, length), np.int32)
            place = room - len(ids)
            for i in range(part.first, part.last):
                if part.own <= i < part.own_end:
                    start[place] = 1
                    if example.tags:
                        label[place : place + sizes[i]] = example.tags[i] + 1
                place += sizes[i]
            labels.append(label)
            starts.append(start)
            edges.append((part.own == 0, part.own_end == len(pieces)))
    arrays = encoding.lay_out(texts, length, tokenizer.cls_id, tokenizer.sep_id)
    arrays["label_ids"] = np.array(labels)
    arrays["word_starts"] = np.array(starts)
    arrays["sentence_edges"] = np.array(edges, np.int32)
    arrays["is_real_example"] = np.ones(len(texts), np.int32)
    arrays[encoding.TOKENS_READ] = np.array(tokens_read)
    arrays[encoding.TOKENS] = np.array(tokens)
    return arrays, np.array(counts)


class TaggingReader(contract.Reader):
    """Sentences. The labels of a task are all tags of the learned scheme; the label of a row is its
    tags in that scheme, its source the `Sentence`."""

    unit = "sentences"
    own_forms = ()

    def from_train_file(self, path: str) -> Task:
        """The task with the tags, and whether there are spaces between words."""
        scheme = self.options.scheme or _DEFAULT_SCHEME
        task = self.task.with_options(scheme=scheme, learned=schemes.learned(scheme))
        sentences = store_rows(files.read(task, path, need_tags=True))
        labels = schemes.labels_of(MappedRows(lambda one: one.tags, sentences), scheme)
        if set(labels) <= {schemes.OUTSIDE}:
            raise wrong(path, "no tag but O", "some entities", "--label_column")
        # Whether there are spaces between words, as in most scripts.
        unspaced = count = 0
        for sentence in sentences:
            unspaced += sum(map(is_unspaced, sentence.words))
            count += len(sentence.words)
        tags = schemes.all_tags(labels, task.options.learned)
        return dataclasses.replace(task, labels=tags).with_options(
            is_spaced=unspaced <= count - unspaced,
            knows_spaces=all(sentence.text for sentence in sentences),
        )

    def from_model(self, stored: dict) -> Task:
        options = stored["kind_options"]
        task = super().from_model(stored)
        return task.with_options(
            # A file may have another scheme than the one that the model has learned.
            scheme=self.options.scheme or options["scheme"],
            learned=schemes.learned(options["scheme"]),
            is_spaced=options["is_spaced"],
            knows_spaces=options["knows_spaces"],
        )

    def read(self, path: str, need_labels: bool) -> Sequence[Row]:
        labels = schemes.labels_of([self.task.class_names], self.options.learned)
        sentences = enumerate(files.read(self.task, path, need_labels, labels))
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
            marks = self._space_marks(row.source)
            return TaggedExample(row.source.words, marks, tags)

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
        marks = [usual]
        for start in sentence.starts[1:]:
            marks.append(int(sentence.text[start - 1].isspace()))
        return marks

    @property
    def record_options(self) -> tuple:
        return self.options.is_spaced, self.options.knows_spaces

    def encode(self, examples: list, tokenizer: Any, layout: encoding.Layout) -> tuple:
        return arrays_of(examples, tokenizer, layout)

    def row(self, id: str, asked: InlineExample) -> tuple:
        try:
            return self._row(id, files.sentence_of(asked.text_a)), None
        except ValueError as e:
            return None, str(e)


class TaggingHead(contract.Head):
    """A softmax over the tags at the first piece of each word."""

    def features(self, length: int) -> tuple:
        """Those of a record of T = `length` tokens, in addition to the ids."""
        return (
            # At each piece of a word: its tag's id + 1.
            Feature("label_ids", (length,), "int"),
            # 1 at the first piece of each word to be tagged.
            Feature("word_starts", (length,), "int"),
            # 1 if the first, the last of these words is that of the sentence.
            Feature("sentence_edges", (2,), "int"),
        )

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
        ids = tf.maximum(tags, 0)
        probabilities = tf.gather(probabilities, ids, axis=2, batch_dims=2)
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
        all_ids = np.split(outputs["values"], ends)
        all_probabilities = np.split(outputs["probabilities"], ends)
        values = []
        for ids, probabilities in zip(all_ids, all_probabilities):
            values.append(Tags(ids[ids >= 0], probabilities[ids >= 0]))
        loss = contract.mean_over_windows(outputs["loss"], windows)
        return contract.Predictions(values, loss)

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
        """The entities of each sentence, spans of words. Raises NotFinite for tags of logits that
        are not finite, which alone look like others."""
        sums = np.array([found.probabilities.sum() for found in values])
        contract.refuse_nan(self.task, sums)
        names, entities = self.task.class_names, []
        for ids, _ in values:
            tags = [names[id] for id in ids]
            entities.append(schemes.spans(tags, self.options.learned))
        return entities

    def _tags(self, spans: Sequence[TagSpan], row: Row) -> tuple[str, ...]:
        """The tags of a row's words in the scheme of the files."""
        return schemes.tags_of(spans, len(row.source.words), self.options.scheme)

    def _gold(self, row: Row) -> list[TagSpan]:
        """The entities of a row; those of a text are where its file has them, even inside of
        words."""
        if row.source.entities is not None:
            return list(row.source.entities)
        return row.source.located(schemes.spans(row.label, self.options.learned))

    def _counts(
        self, spans: Sequence, rows: Sequence[Row]
    ) -> dict[str, schemes.Counts]:
        found = (row.source.located(each) for row, each in zip(rows, spans))
        return schemes.by_label(found, map(self._gold, rows))

    def evaluate(
        self, values: Any, gold_labels: Any, threshold: float = THRESHOLD
    ) -> dict:
        spans = self.decide(values)
        total = schemes.total(self._counts(spans, gold_labels))
        found = dict(zip(("precision", "recall", "f1"), total.ratios))
        # The tags are compared as the file has them.
        tags = (self._tags(each, row) for each, row in zip(spans, gold_labels))
        gold = (row.source.tags for row in gold_labels)
        found["accuracy"] = schemes.accuracy(tags, gold)
        return {name: float(found[name]) for name in self.task.metrics}

    def table(self, values: Any, gold_labels: Any, threshold: float) -> str:
        return schemes.table(self._counts(self.decide(values), gold_labels))

    def compare(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> Iterator[contract.Comparison]:
        """The entities of a sentence; the probability is that of the least probable tag, the error
        how many entities are missed or predicted wrongly."""
        for row, spans, found in zip(rows, self.decide(values), values):
            predicted, gold, error = row.source.located(spans), [], 0
            if row.label is not None:
                gold = self._gold(row)
                error = len(set(gold) ^ set(predicted))
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
        entities = self.decide(values)

        def lines() -> Iterator[str]:
            for row, spans in zip(rows, entities):
                tags = self._tags(spans, row)
                yield from files.predicted_lines(row.source, spans, tags)

        extension = "conll" if rows[0].source.lines else "jsonl"
        return [PredictionFile(extension, None, lines())]

    def results(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> list:
        """An entity has the mean probability of its words' tags."""
        results = []
        for row, spans, found in zip(rows, self.decide(values), values):
            entities = []
            places = row.source.located(spans)
            for (first, last, label), (start, end, _) in zip(spans, places):
                score = float(sum(found.probabilities[first:last]) / (last - first))
                text = row.source.text_at(start, end)
                entities.append(Entity(label, text, start, end, score))
            tags = self._tags(spans, row)
            results.append(Tagged(row.source.words, tags, tuple(entities)))
        return results


def _in_words(sentence: Sentence, entities: Sequence[TagSpan]) -> str:
    """Labels and texts of entities."""
    texts = []
    for start, end, label in entities:
        texts.append(f"{label}: {sentence.text_at(start, end)}")
    return "; ".join(texts)


# ---- from the command line to a task


def _own_columns(settings: TaggerSettings) -> dict:
    return dict(
        text_a=(settings.text_a_column,),
        text_b=(),
        id=None,
        label=(settings.label_column,) if settings.label_column else (),
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
