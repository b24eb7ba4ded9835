"""A trained model as a Python object: what `xlnet.load` returns.

Shape letters: n texts, m records, T tokens, D d_model, L labels, k layers.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Optional, Union

import numpy as np

from xlnet import errors, files
from xlnet.engine import checkpoint
from xlnet.errors import UserError
from xlnet.models import layout
from xlnet.serving import attention, batches, filling, generation, session, vectors
from xlnet.serving.attention import Attention
from xlnet.serving.language_model import LanguageModel
from xlnet.serving.loaded import LoadedModel, TunedFor
from xlnet.serving.settings import FillingSettings, GenerationSettings, from_keywords, stop_texts
from xlnet.settings.devices import DeviceSettings
from xlnet.tasks.features import encoding
from xlnet.tasks.output import results
from xlnet.tasks.types import ranking
from xlnet.tasks.types.task import Asked, Row
from xlnet.tokenization.tokenizer import Tokenizer, is_text

_log = logging.getLogger(__name__)

Text = Union[str, tuple[str, str]]          # a text, or a pair of texts
Texts = Union[Text, Sequence[Text], np.ndarray]

Stop = Union[None, str, Sequence[str]]

_ROWS_AT_ONCE = 1000     # that are encoded before the network sees the first one
MAX_SEQ_LENGTH = 512    # of a model that is pretrained alone: that of its pretraining [tokens]


class Model:
    """A trained model: one session, restored once, which any number of threads may ask.

    Every method takes one text or a list of them (or a NumPy array of str), and returns one answer
    or a list (or array) of answers in the same order. A pair of texts is a tuple. Texts go through
    the network in batches of about equal length. Answers are those of the prediction files.

    Attributes:
      task: name of the task that it was trained for; None: it is pretrained alone.
      verb: name of the method that asks it what it was trained for; None: pretrained alone.
      labels: names of its labels; None: it has none.
      n_layer, n_head: numbers of layers, and of the heads of each.
      tokenizer: the `Tokenizer` of its vocabulary.
      max_seq_length: tokens of a text, special ones included.
      cut: how many texts were longer and lost some of it.

    Methods raise UserError for a text that no program would take, and for what the model was not
    trained for.
    """

    def __init__(self, loaded: LoadedModel, device: DeviceSettings, batch_size: int):
        if type(batch_size) is not int or batch_size < 1:
            raise UserError("batch_size is %r, expected an integer from 1 on" % (batch_size,))
        self._loaded = loaded
        self._batch_size = batch_size
        tuned = loaded.tuned
        self.task: Optional[str] = tuned.task.name if tuned else None
        self.verb: Optional[str] = tuned.task.type.verb if tuned else None
        self.labels: Optional[tuple[str, ...]] = tuned.task.labels if tuned else None
        self.tokenizer: Tokenizer = loaded.tokenizer
        self.n_layer: int = loaded.config.n_layer
        self.n_head: int = loaded.config.n_head
        self.cut = 0
        self._lock = threading.Lock()
        self.max_seq_length: int = tuned.settings.max_seq_length if tuned else MAX_SEQ_LENGTH
        self._restored: Optional[session.Restored] = session.Restored(loaded.prefix, device)
        self._speaks: Optional[LanguageModel] = None
        try:        # what is asked for first is built now, so that its first answer does not wait
            if tuned:
                self._task_part(tuned)
            else:
                self._vectors_part()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        tuned = self._loaded.tuned
        what = "pretrained" if tuned is None else "%s, %s(): %s" % (
            self.task, self.verb, tuned.task.head.words())
        return "<xlnet model %s: %s>" % (self._loaded.prefix, what)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What answers depend on, as JSON has it."""
        prefix, network = self._loaded.prefix, self._loaded.network
        return {"model": [os.path.abspath(prefix), files.sha256(prefix + ".index")],
                "architecture": self._loaded.config.to_dict(),
                "vocabulary": self.tokenizer.sha256,
                "cleaning": [self.tokenizer.uncased, self.tokenizer.keep_accents],
                "max_seq_length": self.max_seq_length, "clamp_len": network.clamp_len,
                "precision": network.run_config(is_training=False).precision}

    def close(self) -> None:
        """Frees the memory of the weights; nothing can be asked any more."""
        if self._restored:
            self._restored.close()
            self._restored = None

    # ---- text in, numbers out: any model

    def encode(self, texts: Texts) -> Any:
        """The ids that the network sees: pieces of the text(s), <sep>, <cls>; int32 [T] of one
        text, a list of n such arrays of several."""
        items, is_one = _listed(texts)
        arrays, lengths = self._laid_out(items, self.max_seq_length)
        ids = [row[len(row) - length:] for row, length in zip(arrays["input_ids"], lengths)]
        return ids[0] if is_one else ids

    def vectors(self, texts: Texts, layers: Union[int, Sequence[int]] = -1,
                pooling: str = "mean", normalize: bool = False) -> Any:
        """What the network makes of texts, before any output layer.

        Args:
          layers: one or several. 0 are the embeddings, 1 to n_layer the layers; -1 is the last one.
          pooling: "mean" over the tokens of a text, <sep> and <cls> among them, padding not;
            "first" token; "last" one, which is <cls>; "none": all tokens.
          normalize: scales each vector to length 1.

        Returns:
          float32 [D] of one text, [n,D] of several; with several layers [k,D], [n,k,D]. With "none"
          [T,D] or [k,T,D] of one text, a list of n such arrays of several, T as in `encode`.
        """
        wanted = vectors.wanted(layers, pooling, self._loaded.config.n_layer)
        items, is_one = _listed(texts)
        found = []
        for begin in range(0, len(items), _ROWS_AT_ONCE):
            arrays, lengths = self._laid_out(items[begin:begin + _ROWS_AT_ONCE],
                                             self.max_seq_length)
            found += self._vectors_of(arrays, lengths, wanted, pooling)
        if normalize:
            found = [each / np.maximum(np.linalg.norm(each, axis=-1, keepdims=True), 1e-12)
                     for each in found]
        if np.ndim(layers) == 0:
            found = [layer for layer, in found]
        if is_one or pooling == "none":
            return found[0] if is_one else found
        return np.stack(found) if found else np.zeros(
            (0, *np.shape(layers), self._loaded.config.d_model), np.float32)

    def similarity(self, texts: Texts, others: Optional[Texts] = None, **how: Any) -> Any:
        """The cosine similarity of texts to others, or, without others, to each other.

        Args:
          how: `layers` (one) and `pooling` (but "none") as of `vectors`.

        Returns:
          float32 [n,m] of n texts and m others; one text, or one other, has no such axis.
        """
        found = self.vectors(texts, normalize=True, **how)
        return found @ (found if others is None else self.vectors(others, normalize=True, **how)).T

    def _vectors_of(self, arrays, lengths, wanted, pooling):
        """n arrays [k,D], or [k,T,D] of each text's own tokens."""
        shape = batches.Shape(self.max_seq_length, "left", session.IDS, 8)
        found: list[Any] = [None] * len(lengths)
        for numbers, batch in batches.by_length(arrays, shape, self._batch_size):
            for number, values in zip(numbers, np.stack(
                    self._run(self._vectors_part(), wanted, batch), axis=1)):     # [k,D], [k,T',D]
                found[number] = values if pooling != "none" else \
                    values[:, values.shape[1] - lengths[number]:]
        return found

    def _laid_out(self, items, length):
        """(arrays [n,T] of texts or pairs, int [n]: their tokens)."""
        examples = [encoding.Example((_pair(item),), 0) for item in items]
        arrays, _ = encoding.arrays_of(examples, self.tokenizer, encoding.Layout(length)) \
            if examples else ({name: np.zeros((0, length)) for name in session.IDS}, None)
        self._note_cut(arrays)
        return ({name: arrays[name] for name in session.IDS},
                (1 - arrays["input_mask"]).sum(axis=1).astype(int))

    def _vectors_part(self):
        loaded = self._loaded
        return self._open().part("vectors", lambda: vectors.build(loaded.config, loaded.network))

    def embeddings(self) -> np.ndarray:
        """The vector of each piece of the vocabulary, float32 [V,D]."""
        self._open()
        name = "model/transformer/word_embedding/lookup_table"
        prefix = self._loaded.prefix
        table, = checkpoint.arrays(prefix, [checkpoint.weights(prefix)[name]])
        return table

    # ---- what it was trained for

    def classify(self, texts: Texts, threshold: Optional[float] = None) -> Any:
        """The label of each text, or pair, with the probabilities of all: `results.Label`, or
        `results.Labels` of a model that gives any number of them.

        Args:
          threshold: least probability for the second of two labels, or for each of any number; the
            model's own if not given.
        """
        items, is_one = _listed(texts)
        found = self._results("classify", [Asked(*_pair(item)) for item in items], threshold)
        return found[0] if is_one else found

    def probabilities(self, texts: Texts) -> np.ndarray:
        """The same as numbers: float32 [L] of one text, [n,L] of several, in the order of
        `labels`."""
        items, is_one = _listed(texts)
        found = [list(one.probabilities.values())
                 for one in self._results("classify", [Asked(*_pair(item)) for item in items])]
        array = np.array(found, np.float32).reshape(len(found), len(self.labels or ()))
        return array[0] if is_one else array

    def score(self, texts: Texts) -> Any:
        """The score of each text, or pair: a float of one, float32 [n] of several."""
        items, is_one = _listed(texts)
        found = self._results("score", [Asked(*_pair(item)) for item in items])
        return found[0] if is_one else np.array(found, np.float32)

    def choose(self, text: Union[str, Sequence[str]], choices: Sequence[Any],
               question: Union[None, str, Sequence[str]] = None) -> Any:
        """The right one of several answers to a text, or to a text and a question on it:
        `results.Choice`.

        Args:
          choices: the answers to one text; of several texts a list of such lists. question: one
            for all texts, or as many as there are.
        """
        is_one = isinstance(text, str)
        texts, listed = ([text], [choices]) if is_one else (text, choices)
        questions = [question] * len(texts) if question is None or isinstance(question, str) \
            else question
        found = self._results("choose", [
            Asked(_str(one), None if asked is None else _str(asked), tuple(map(_str, each)))
            for one, each, asked in _together(texts, listed, questions)])
        return found[0] if is_one else found

    def rank(self, query: Union[str, Sequence[str]], documents: Sequence[Any]) -> Any:
        """The documents of a query, best first: a list of `results.Ranked`.

        Args:
          documents: those of one query; of several queries a list of such lists.
        """
        is_one = isinstance(query, str)
        pairs = _together([query], [documents]) if is_one else _together(query, documents)
        sizes = [len(each) for _, each in pairs]
        scores = self._results("rank", [Asked(_str(one), _str(document))
                                        for one, each in pairs for document in each])
        parts = np.split(np.array(scores), np.cumsum(sizes)[:-1]) if sizes else []
        found = [[results.Ranked(int(index), float(part[index])) for index in ranking.best_first(
            part, np.arange(len(part)))] for part in parts]
        return found[0] if is_one else found

    def answer(self, question: Union[str, Sequence[str]], context: Union[str, Sequence[str]],
               threshold: Optional[float] = None) -> Any:
        """Where a text answers a question: `results.Answer`.

        Args:
          context: one text for all questions, or one for each.
          threshold: probability that there is no answer above which none is given; the model's own
            if not given.
        """
        is_one = isinstance(question, str)
        questions = [question] if is_one else question
        contexts = [context] * len(questions) if isinstance(context, str) else context
        found = self._results("answer", [Asked(_str(text), _str(asked))
                                         for asked, text in _together(questions, contexts)],
                              threshold)
        return found[0] if is_one else found

    def tag(self, texts: Any) -> Any:
        """The words of each text with their tags and the entities that these mean:
        `results.Tagged`. A tuple of str is the words of one text."""
        items, is_one = _listed(texts)
        found = self._results("tag", [
            Asked(tuple(map(_str, item)) if isinstance(item, (list, tuple, np.ndarray))
                  else _str(item)) for item in items])
        return found[0] if is_one else found

    # ---- what it was pretrained for

    def fill(self, texts: Union[str, Sequence[str]], **settings: Any) -> Any:
        """The likeliest fillings of the blanks in a text, the likeliest first: a list of
        `filling.Filling`.

        Args:
          settings: those of `settings.FillingSettings`.
        """
        chosen = from_keywords(FillingSettings, settings, "fill")
        items, is_one = _listed(texts)
        found = [filling.fill(self._language_model(), self.tokenizer, _str(item), chosen)
                 for item in items]
        return found[0] if is_one else found

    def generate(self, prompts: Union[str, Sequence[str]], stop: Stop = None,
                 **settings: Any) -> Any:
        """How a text goes on: `generation.Written`; a list of them if `samples` is above 1.

        Args:
          stop: a text, or several, before which writing ends.
          settings: the others of `settings.GenerationSettings`.
        """
        items, is_one = _listed(prompts)
        found = []
        for item in items:
            whole = {part.number: part.whole for part in self.stream(item, stop, **settings)
                     if part.whole}
            several = [whole[number] for number in sorted(whole)]
            found.append(several if settings.get("samples", 1) > 1 else several[0])
        return found[0] if is_one else found

    def stream(self, prompt: str, stop: Stop = None,
               **settings: Any) -> Iterator[generation.Part]:
        """Yields what `generate` returns as it is written: `generation.Part`s.

        Until its end, or its `close`, whoever else asks the language model waits; the thread that
        reads it is refused then, as it would wait for itself.
        """
        chosen = from_keywords(GenerationSettings, settings, "generate")
        return generation.write(self._language_model(), self.tokenizer, _str(prompt), chosen,
                                stop_texts([stop] if isinstance(stop, str) else stop))

    def attention(self, text: str, layers: Sequence[int], order: str = "random", seed: int = 0,
                  most_tokens: int = 40) -> Attention:
        """What each head attends to in a text, in both streams; arguments as of
        `attention.attention`."""
        return attention.attention(self._language_model(), self.tokenizer, _str(text),
                                   layers=layers, order=order, seed=seed, most_tokens=most_tokens)

    def _language_model(self):
        restored = self._open()
        with self._lock:
            if self._speaks is None:
                self._speaks = LanguageModel(self._loaded, restored)
            return self._speaks

    # ---- how

    def _results(self, verb: str, asked: Sequence[Asked],
                 threshold: Optional[float] = None) -> list:
        """What the task type says of each row that is asked about."""
        tuned = self._tuned(verb)
        threshold = tuned.settings.predict_threshold if threshold is None else threshold
        if not 0 <= threshold <= 1:
            raise UserError("threshold is %s, expected 0 <= threshold <= 1" % threshold)
        rows = [_row(tuned, number, one) for number, one in enumerate(asked)]
        found: list[Any] = []
        for begin in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows[begin:begin + _ROWS_AT_ONCE]
            found += tuned.task.scorer.results(part, self._values(tuned, part), threshold)
        return found

    def _tuned(self, verb: str) -> TunedFor:
        tuned = self._loaded.tuned
        if tuned is None:
            raise UserError("%s: the model is pretrained alone, expected one that was fine-tuned; "
                            "it has encode, vectors, fill and generate" % verb)
        if tuned.task.type.verb != verb:
            raise UserError("%s: the model was trained for %s (%s), its method is %s" % (
                verb, tuned.task.type.name, tuned.task.name, tuned.task.type.verb))
        return tuned

    def _values(self, tuned: TunedFor, rows: list[Row]) -> Any:
        """The `contract.Predictions.values` for some rows."""
        task, reader = tuned.task, tuned.task.reader
        how = layout.of_records(tuned.settings, task)
        records, windows = reader.encode(list(reader.examples(rows)), self.tokenizer, how)
        self._note_cut(records)
        padding = layout.of_padding(tuned.settings, task)
        shape = batches.Shape(how.max_seq_length, padding.side,
                              (*session.IDS, *padding.token_features), padding.multiple)
        part, numbers, outputs = self._task_part(tuned), [], []
        for some, batch in batches.by_length(records, shape, self._batch_size):
            numbers.append(some)
            outputs.append(self._run(part, {name: name for name in part.names}, batch))
        joined = batches.in_order(numbers, outputs)
        joined["loss"] = np.zeros(len(records["input_ids"]), np.float32)    # without labels
        return task.head.join(joined, windows if encoding.has_windows(how) else None).values

    def _task_part(self, tuned):
        def build():
            inputs = session.placeholders(tuned)
            return inputs, self._loaded.task_model().predictions(inputs)
        return self._open().part("task", build)

    def _open(self) -> session.Restored:
        if self._restored is None:
            raise UserError("the model is closed")
        return self._restored

    def _run(self, part, names, batch):
        with errors.explained():
            return part(names, batch)

    def _note_cut(self, records):
        cut = int(np.count_nonzero(records.pop(encoding.CUT, False)))
        with self._lock:
            is_first, self.cut = cut and not self.cut, self.cut + cut
        if is_first:
            _log.warning("note: %d text(s) of %d are cut to %d tokens; from now on they are "
                         "counted in `cut` alone", cut, len(records["input_ids"]),
                         self.max_seq_length)


# ---- what was given, as rows

def _listed(texts):
    """(list of texts, whether it was one). A tuple is one: a pair, or the words of one text."""
    if hasattr(texts, "tolist"):                    # arrays, and columns of tables
        texts = texts.tolist()
    return (texts, False) if isinstance(texts, list) else ([texts], True)


def _pair(item):
    """(text, second text or None)."""
    if isinstance(item, (tuple, list)):
        if len(item) != 2:
            raise UserError("found %d texts together, expected one text or a pair" % len(item))
        return _str(item[0]), _str(item[1])
    return _str(item), None


def _str(text):
    if not isinstance(text, str):
        raise UserError("found %s, expected a text: str" % type(text).__name__)
    if not is_text(text):
        raise UserError("found %r, expected a text: it has code points that are no characters"
                        % text[:40])
    return str(text)                                # not NumPy's


def _together(*lists):
    """Tuples of what belongs together."""
    sizes = list(map(len, lists))
    if len(set(sizes)) != 1:
        raise UserError("found lists of %s, expected as many of each"
                        % " and ".join(map(str, sizes)))
    return list(zip(*lists))


def _row(tuned, number, asked):
    row, fault = tuned.task.reader.row(str(number), asked)
    if fault:
        raise UserError("text %d: %s" % (number, fault))
    return row
