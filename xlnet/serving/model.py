"""A trained model as a Python object: what `xlnet.load` returns.

Shape letters: n texts, m records, T tokens, D d_model, L labels, k layers.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Optional, Protocol, Union, overload

import numpy as np
from tqdm import tqdm

from xlnet.engine.predictor import in_order as in_order_of_records
from xlnet.errors import UserError, did_you_mean
from xlnet.finetuning.model import TaskModel
from xlnet.model_directory.model_files import LoadedModel
from xlnet.model_directory.task_settings import FineTunedTask, Padding
from xlnet.serving import (
    attention,
    explanation,
    factorization,
    filling,
    generation,
    session,
    vectors,
)
from xlnet.serving.attention import Attention
from xlnet.serving.factorization import Factorization
from xlnet.serving.language_model import LanguageModel
from xlnet.serving.settings import (
    AttentionSettings,
    ErrorSettings,
    ExplanationSettings,
    FactorizationSettings,
    FillingSettings,
    GenerationSettings,
    PredictSettings,
    VectorSettings,
    from_keywords,
    stop_texts,
)
from xlnet.serving.texts import METHODS, as_text, in_order, listed, pair, several, together
from xlnet.settings.devices import DeviceSettings
from xlnet.tasks.features import encoding
from xlnet.tasks.output import results
from xlnet.tasks.task import Asked, Row
from xlnet.tokenization.tokenizer import Tokenizer

_log = logging.getLogger(__name__)

# A text, or a pair of texts: a tuple, or {"text": ..., "text_pair": ...}.
Text = Union[str, tuple[str, str], Mapping[str, str]]


class Column(Protocol):
    """An array of NumPy, or a column of a table such as a Series of pandas."""

    def tolist(self) -> list[Any]: ...


# Several items: a list or a column. Any other sequence, such as a tuple, is one item.
Many = Union[list[str], list[tuple[str, str]], list[dict[str, str]], list[Text], Column]
Words = Union[str, tuple[str, ...]]  # a text, or its words
Texts = Union[Text, Many]
Several = Union[list[str], Column]
Class = Union[results.Label, results.Labels]

Stop = Union[None, str, Sequence[str]]

_BATCHES_AT_ONCE = 8  # texts of about equal length are batched out of so many batches
_SECONDS_WITHOUT_BAR = 2  # short calls have no progress bar


class Job(NamedTuple):
    """What is done with each item, in two steps: errors of the first are those of its item."""

    prepare: Callable[[Any], Any]  # from an item to what `compute` takes
    compute: Callable[[list], Sequence[Any]]  # from a list of these to their results
    at_once: int  # items that `compute` takes, at most


class Model:
    """A trained model: one session, restored once, which any number of threads may call.

    Every method takes one text or a list of them (or a NumPy array of str), and returns one result
    or a list (or array) of results in the same order. A pair of texts is a tuple. Texts go through
    the network in batches of about equal length. Results are those of the prediction files.

    Attributes:
      task: name of the task that it was trained for; None: it is only pretrained.
      verb: name of the method for this task; None: only pretrained.
      labels: names of its labels; None: it has none.
      n_layer: number of layers.
      n_head: number of heads of each layer.
      tokenizer: the `Tokenizer` of its vocabulary.
      max_seq_length: tokens of a text, special ones included.
      cut: how many texts were longer and lost some of it.

    Methods raise UserError for a wrong argument or text, and for what the model was not trained
    for. Where they have `errors`, "raise" refuses all texts because of a bad one; with "return" the
    result is a list in which a bad text has its UserError.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        device: DeviceSettings,
        batch_size: int,
        shows_progress: bool = False,
    ):
        self._loaded = loaded
        self._batch_size, self._shows_progress = batch_size, shows_progress
        self._at_once = _BATCHES_AT_ONCE * batch_size
        tuned = loaded.tuned
        self.task: Optional[str] = tuned.task.name if tuned else None
        self.verb: Optional[str] = tuned.task.type.verb if tuned else None
        self.labels: Optional[tuple[str, ...]] = tuned.task.labels if tuned else None
        self.tokenizer: Tokenizer = loaded.tokenizer
        self.n_layer: int = loaded.config.n_layer
        self.n_head: int = loaded.config.n_head
        self.cut = 0
        self._lock = threading.Lock()
        self.max_seq_length: int = loaded.max_seq_length
        self._restored: Optional[session.Restored] = session.Restored(loaded.prefix, device)
        self._speaks: Optional[LanguageModel] = None
        # The part that is used first is built now: its first result does not wait.
        try:
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

    def __reduce_ex__(self, protocol: object) -> Any:
        """A model is neither pickled nor copied: it lives in its process."""
        raise UserError(
            "a model cannot be pickled or copied: pass its path "
            f"'{os.path.dirname(self._loaded.prefix)}' and load it in "
            "each process"
        )

    def __repr__(self) -> str:
        tuned = self._loaded.tuned
        what = (
            "pretrained"
            if tuned is None
            else f"{self.task}, {self.verb}(): {tuned.task.head.words()}"
        )
        return f"<xlnet model {self._loaded.prefix}: {what}>"

    def close(self) -> None:
        """Frees the memory of the weights; no method can be called any more."""
        restored, self._restored = self._restored, None
        if restored:
            restored.close()

    # ---- lists of texts

    def predict(self, texts: Any, threshold: Optional[float] = None, errors: str = "raise") -> Any:
        """What the model was trained for, for any task type.

        Args:
          texts: one item or a list of them. An item is what the method `verb` takes for one text: a
            text, a pair, or a tuple of its arguments, such as (question, context).
          threshold: as of `classify` and `answer`.
          errors: "raise", or "return".

        Returns:
          The result of `verb` for one item, a list of such results for a list.

        Examples:
          >>> model.predict(["It rains.", "It does not."])[0].label
          'weather'
        """
        return self._all(self._predicting(threshold=threshold), texts, errors)

    def pipe(
        self, texts: Iterable[Any], verb: str = "predict", errors: str = "raise", **settings: Any
    ) -> Iterator[Any]:
        """Yields the results of `predict`, `vectors`, `fill` or `generate` for texts, in order.

        Args:
          texts: a list, an array or a generator, which is read as far as results are asked for,
            and some batches ahead.
          verb: name of one of these methods.
          errors: "raise", or "return".
          settings: those of this method.

        Examples:
          >>> for answer in model.pipe(open("texts.txt")):
          ...     print(answer.label)
        """
        if verb not in tuple(_PIPED):
            raise UserError(
                "verb is {!r}, expected one of {}{}".format(
                    verb, ", ".join(_PIPED), did_you_mean(str(verb), _PIPED)
                )
            )
        texts = in_order(texts)
        from_keywords(ErrorSettings, {"errors": errors})
        return _pipe(_PIPED[verb](self, **settings), texts, errors, self._shows_progress)

    def _all(self, job: Job, texts: Any, errors: str = "raise") -> Any:
        """The results of a list; of one item its result."""
        from_keywords(ErrorSettings, {"errors": errors})
        items, is_one = listed(texts)
        with _bar(len(items), self._shows_progress and not is_one) as progress:
            found = _results(job, items, errors, progress.update)
        return found[0] if is_one else found

    # ---- text in, numbers out: any model

    @overload
    def encode(self, texts: Text) -> np.ndarray: ...

    @overload
    def encode(self, texts: Many) -> list[np.ndarray]: ...

    def encode(self, texts: Texts) -> Any:
        """The ids that the network sees: pieces of the text(s), <sep>, <cls>; int32 [T] of one
        text, a list of n such arrays of several.

        Examples:
          >>> [model.tokenizer.id_to_piece(id) for id in model.encode("It rains.")]
          ['▁It', '▁rain', 's', '.', '<sep>', '<cls>']
        """

        def compute(examples):
            arrays, lengths = self._laid_out(examples)
            return [row[len(row) - length :] for row, length in zip(arrays["input_ids"], lengths)]

        return self._all(Job(_example, compute, self._at_once), texts)

    @overload
    def vectors(
        self,
        texts: Text,
        layers: Union[int, Sequence[int]] = ...,
        pooling: str = ...,
        normalize: bool = ...,
        errors: Literal["raise"] = ...,
    ) -> np.ndarray: ...

    @overload
    def vectors(
        self,
        texts: Many,
        layers: Union[int, Sequence[int]] = ...,
        *,
        pooling: Literal["none"],
        normalize: bool = ...,
        errors: Literal["raise"] = ...,
    ) -> list[np.ndarray]: ...

    @overload
    def vectors(
        self,
        texts: Many,
        layers: Union[int, Sequence[int]] = ...,
        pooling: Literal["mean", "first", "last"] = ...,
        normalize: bool = ...,
        errors: Literal["raise"] = ...,
    ) -> np.ndarray: ...

    @overload
    def vectors(
        self,
        texts: Texts,
        layers: Union[int, Sequence[int]] = ...,
        pooling: str = ...,
        normalize: bool = ...,
        errors: str = ...,
    ) -> Any: ...

    def vectors(
        self,
        texts: Texts,
        layers: Union[int, Sequence[int]] = -1,
        pooling: str = "mean",
        normalize: bool = False,
        errors: str = "raise",
    ) -> Any:
        """The hidden states of the network for texts, before any output layer.

        Args:
          layers: one or several. 0 are the embeddings, 1 to n_layer the layers; -1 is the last one.
          pooling: "mean" over the tokens of a text, <sep> and <cls> included, padding excluded;
            "first" token; "last" one, which is <cls>; "none": all tokens.
          normalize: scales each vector to length 1.
          errors: "raise", or "return".

        Returns:
          float32 [D] of one text, [n,D] of several; with several layers [k,D], [n,k,D]. With "none"
          [T,D] or [k,T,D] of one text, a list of n such arrays of several, T as in `encode`.

        Examples:
          >>> model.vectors(["It rains.", "It does not."]).shape
          (2, 768)
        """
        found = self._all(
            self._vectorizing(layers=layers, pooling=pooling, normalize=normalize), texts, errors
        )
        if not isinstance(found, list) or pooling == "none" or errors == "return":
            return found
        return (
            np.stack(found)
            if found
            else np.zeros((0, *np.shape(layers), self._loaded.config.d_model), np.float32)
        )

    def _vectorizing(self, layers: Union[int, Sequence[int]] = -1, **settings: Any) -> Job:
        chosen = from_keywords(VectorSettings, settings)
        wanted = vectors.wanted(layers, chosen.pooling, self.n_layer)

        def compute(examples):
            arrays, lengths = self._laid_out(examples)
            found: list[Any] = [None] * len(lengths)
            for numbers, batch in session.batches_by_length(
                arrays, self.max_seq_length, Padding("left", (), 8), self._batch_size
            ):
                for number, values in zip(
                    numbers, np.stack(self._vectors_part()(wanted, batch), axis=1)
                ):  # [k,D], [k,T',D]
                    # Batches are padded on the left: a text's own tokens are the last ones.
                    if chosen.pooling == "none":
                        values = values[:, values.shape[1] - lengths[number] :]
                    found[number] = values
            if chosen.normalize:
                found = [
                    each / np.maximum(np.linalg.norm(each, axis=-1, keepdims=True), 1e-12)
                    for each in found
                ]
            return [layer for (layer,) in found] if np.ndim(layers) == 0 else found

        return Job(_example, compute, self._at_once)

    def _laid_out(self, examples):
        """(arrays [n,T] of texts or pairs, int [n]: their tokens)."""
        arrays, _ = encoding.arrays_of(
            examples, self.tokenizer, encoding.Layout(self.max_seq_length)
        )
        self._note_cut(arrays)
        return (
            {name: arrays[name] for name in session.IDS},
            (1 - arrays["input_mask"]).sum(axis=1).astype(int),
        )

    def _vectors_part(self):
        loaded = self._loaded
        return self._open().part("vectors", lambda: vectors.build(loaded.config, loaded.network))

    # ---- what it was trained for

    @overload
    def classify(self, texts: Text, threshold: Optional[float] = ...) -> Class: ...

    @overload
    def classify(self, texts: Many, threshold: Optional[float] = ...) -> list[Class]: ...

    def classify(self, texts: Texts, threshold: Optional[float] = None) -> Any:
        """The label of each text, or pair, with the probabilities of all: `results.Label`, or
        `results.Labels` of a model for any number of labels.

        Args:
          threshold: least probability for the second of two labels, or for each of any number; the
            model's own if not given.

        Examples:
          >>> model.classify("It rains.").label
          'weather'
          >>> [one.label for one in model.classify(["It rains.", "He scored."])]
          ['weather', 'sports']
        """
        return self._all(self._predicting("classify", threshold=threshold), texts)

    def probabilities(self, texts: Texts) -> np.ndarray:
        """The same as numbers: float32 [L] of one text, [n,L] of several, in the order of
        `labels`.

        Examples:
          >>> model.probabilities(["It rains.", "He scored."]).shape
          (2, 4)
        """
        items, is_one = listed(texts)
        found = [list(one.probabilities.values()) for one in self.classify(items)]
        array = np.array(found, np.float32).reshape(len(found), len(self.labels or ()))
        return array[0] if is_one else array

    @overload
    def score(self, texts: Text) -> float: ...

    @overload
    def score(self, texts: Many) -> np.ndarray: ...

    def score(self, texts: Texts) -> Any:
        """The score of each text, or pair: a float of one, float32 [n] of several.

        Examples:
          >>> model.score(("A girl sings.", "A child makes music."))
          3.8
        """
        found = self._all(self._predicting("score"), texts)
        return np.array(found, np.float32) if isinstance(found, list) else found

    @overload
    def choose(
        self, text: str, choices: Sequence[str], question: Optional[str] = ...
    ) -> results.Choice: ...

    @overload
    def choose(
        self,
        text: Several,
        choices: Sequence[Sequence[str]],
        question: Union[None, str, Sequence[str]] = ...,
    ) -> list[results.Choice]: ...

    def choose(
        self,
        text: Union[str, Sequence[str], Column],
        choices: Sequence[Any],
        question: Union[None, str, Sequence[str]] = None,
    ) -> Any:
        """The right one of several choices for a text, or for a text and a question on it:
        `results.Choice`.

        Args:
          choices: those of one text; of several texts a list of such lists.
          question: one for all texts, or as many as there are.

        Examples:
          >>> model.choose("Ann has a cat. It is black.", ["red", "black"],
          ...              question="The cat is _.").number
          1
        """
        job = self._predicting("choose")
        if isinstance(text, str):
            return self._all(job, (text, choices, question))
        questions: Any = question
        if question is None or isinstance(question, str):
            questions = [question] * len(several("text", text))
        return self._all(job, together(text=text, choices=choices, question=questions))

    @overload
    def rank(self, query: str, documents: Sequence[str]) -> list[results.Ranked]: ...

    @overload
    def rank(
        self, query: Several, documents: Sequence[Sequence[str]]
    ) -> list[list[results.Ranked]]: ...

    def rank(self, query: Union[str, Sequence[str], Column], documents: Sequence[Any]) -> Any:
        """The documents of a query, best first: a list of `results.Ranked`.

        Args:
          documents: those of one query; of several queries a list of such lists.

        Examples:
          >>> model.rank("cheap flights", ["Trains", "Flights at low prices"])[0].number
          1
        """
        return self._all(
            self._predicting("rank"),
            (query, documents)
            if isinstance(query, str)
            else together(query=query, documents=documents),
        )

    @overload
    def answer(
        self,
        question: str,
        context: str,
        threshold: Optional[float] = ...,
        top_k: Optional[int] = ...,
    ) -> results.Answer: ...

    @overload
    def answer(
        self,
        question: Several,
        context: Union[str, Sequence[str]],
        threshold: Optional[float] = ...,
        top_k: Optional[int] = ...,
    ) -> list[results.Answer]: ...

    def answer(
        self,
        question: Union[str, Sequence[str], Column],
        context: Union[str, Sequence[str]],
        threshold: Optional[float] = None,
        top_k: Optional[int] = None,
    ) -> Any:
        """The span of a text that answers a question: `results.Answer`.

        Args:
          context: one text for all questions, or one for each.
          threshold: probability that there is no answer above which none is given; the model's own
            if not given.
          top_k: number of best spans in the result, at most those of the beam: start_n_top *
            end_n_top of each window; n_best_size if not given.

        Examples:
          >>> model.answer("Where did she live?", "She lived in London.").text
          'London'
        """
        job = self._predicting("answer", threshold=threshold, top_k=top_k)
        if isinstance(question, str):
            return self._all(job, (question, context))
        if isinstance(context, str):
            context = [context] * len(several("question", question))
        return self._all(job, together(question=question, context=context))

    @overload
    def tag(self, texts: Words) -> results.Tagged: ...

    @overload
    def tag(
        self, texts: Union[list[str], list[tuple[str, ...]], list[Words], Column]
    ) -> list[results.Tagged]: ...

    def tag(self, texts: Any) -> Any:
        """The words of each text with their tags and the entities: `results.Tagged`. A tuple of str
        is the words of one text.

        Examples:
          >>> [(e.label, e.text) for e in model.tag("She lived in London.").entities]
          [('LOC', 'London')]
        """
        return self._all(self._predicting("tag"), texts)

    def explain(self, texts: Texts, errors: str = "raise", **settings: Any) -> Any:
        """How much each word of a text, or pair, counts for its prediction: `Explanation`. For
        models that classify, score or rank; a document is explained with its query, as the pair
        (query, document).

        Args:
          errors: "raise", or "return".
          settings: those of `settings.ExplanationSettings`.
        """
        tuned, chosen = self._tuned(None), from_keywords(ExplanationSettings, settings, "explain")
        explanation.check(tuned, chosen.label, chosen.method)
        # The first row is the text itself, the others are without one of its words.
        values_of = functools.partial(self._values, tuned, texts=1)

        def compute(rows):
            (row,) = rows
            if chosen.method == "leave_one_out":
                return [explanation.leave_one_out(row, chosen.label, tuned, values_of)]
            part = self._open().part("explanation", lambda: explanation.build(self._loaded, tuned))
            return [
                explanation.integrated_gradients(
                    row,
                    chosen.label,
                    chosen.steps,
                    self._batch_size,
                    tuned,
                    self.tokenizer,
                    part,
                    values_of,
                )
            ]

        return self._all(
            Job(lambda item: _row(tuned, 0, Asked(*pair(item)), None), compute, 1), texts, errors
        )

    # ---- what it was pretrained for

    @overload
    def fill(
        self, texts: str, errors: Literal["raise"] = ..., **settings: Any
    ) -> list[filling.Filling]: ...

    @overload
    def fill(
        self, texts: Several, errors: Literal["raise"] = ..., **settings: Any
    ) -> list[list[filling.Filling]]: ...

    @overload
    def fill(
        self, texts: Union[str, Sequence[str], Column], errors: str = ..., **settings: Any
    ) -> Any: ...

    def fill(
        self, texts: Union[str, Sequence[str], Column], errors: str = "raise", **settings: Any
    ) -> Any:
        """The likeliest fillings of the blanks in a text, the likeliest first: a list of
        `filling.Filling`.

        Args:
          errors: "raise", or "return".
          settings: those of `settings.FillingSettings`; `targets` as a list of words.

        Examples:
          >>> model.fill("The sky is ___.", top=3)[0].text
          'The sky is blue.'
        """
        return self._all(self._filling(**settings), texts, errors)

    def _filling(self, **settings: Any) -> Job:
        chosen = from_keywords(FillingSettings, settings, "fill")
        model = self._language_model()
        filling.check_model(model)

        def prepare(item):
            return filling.Blanks(self.tokenizer, as_text(item), chosen)

        def compute(items):
            for blanks in items:
                self._count_cut(int(blanks.is_cut), 1, chosen.context)
            return [filling.fill(model, blanks, chosen) for blanks in items]

        return Job(prepare, compute, 1)

    @overload
    def generate(
        self,
        prompts: Union[str, Sequence[str], Column],
        stop: Stop = ...,
        errors: str = ...,
        *,
        samples: int,
        **settings: Any,
    ) -> Any: ...

    @overload
    def generate(
        self, prompts: str, stop: Stop = ..., errors: Literal["raise"] = ..., **settings: Any
    ) -> generation.Written: ...

    @overload
    def generate(
        self, prompts: Several, stop: Stop = ..., errors: Literal["raise"] = ..., **settings: Any
    ) -> list[generation.Written]: ...

    @overload
    def generate(
        self,
        prompts: Union[str, Sequence[str], Column],
        stop: Stop = ...,
        errors: str = ...,
        **settings: Any,
    ) -> Any: ...

    def generate(
        self,
        prompts: Union[str, Sequence[str], Column],
        stop: Stop = None,
        errors: str = "raise",
        **settings: Any,
    ) -> Any:
        """Text that continues a prompt: `generation.Written`; a list of them if `samples` is above
        1. Several prompts are batched: with a seed each gets the text that it gets alone.

        Args:
          stop: a text, or several, before which a text ends.
          errors: "raise", or "return".
          settings: the others of `settings.GenerationSettings`.

        Examples:
          >>> model.generate("The default value is", stop=".", max_tokens=20, seed=1).text
          ' None'
        """
        return self._all(self._generating(stop, **settings), prompts, errors)

    def _generating(self, stop: Stop = None, **settings: Any) -> Job:
        chosen, model = _generation(stop, settings), self._language_model()

        def compute(prompts):
            found = generation.write_all(model, self.tokenizer, prompts, chosen)
            return found if chosen.samples > 1 else [one for (one,) in found]

        # A batch of the network has a row for each beam or sample of each prompt.
        copies = chosen.beams if chosen.method == "beam" else chosen.samples
        return Job(as_text, compute, max(self._batch_size // copies, 1))

    def stream(self, prompt: str, stop: Stop = None, **settings: Any) -> Iterator[generation.Part]:
        """Yields the text of `generate` as it comes: `generation.Part`s. Other calls may come
        between two parts, and another prompt's parts, too.

        Examples:
          >>> for part in model.stream("The default value is", max_tokens=20):
          ...     print(part.text, end="", flush=True)
        """
        chosen = _generation(stop, settings)
        return generation.write(self._language_model(), self.tokenizer, as_text(prompt), chosen)

    def attention(
        self,
        text: Text,
        layers: Sequence[int],
        order: str = "random",
        seed: int = 0,
        most_tokens: int = 512,
    ) -> Attention:
        """What each head attends to in a text, in both streams. A fine-tuned model has the content
        stream alone, in which every token sees all; its text may be a pair.

        Args:
          layers: numbers from 1 on.
          order: factorization order, "random", "left_to_right" or "none".
          seed: of a random order.
          most_tokens: a longer text is refused.

        Examples:
          >>> model.attention("It rains.", layers=[1]).streams["content"].shape
          (1, 12, 6, 6)
        """
        chosen = from_keywords(
            AttentionSettings, {"order": order, "seed": seed, "most_tokens": most_tokens}
        )
        tuned = self._loaded.tuned
        if tuned:
            row = _row(tuned, 0, Asked(*pair(text)), None)
            return attention.of_fine_tuned(
                tuned,
                self.tokenizer,
                row,
                layers,
                self.n_layer,
                chosen,
                self._open().part("attention", lambda: attention.build(self._loaded, tuned)),
            )
        return attention.attention(
            self._language_model(), self.tokenizer, as_text(text), layers, chosen
        )

    def factorize(self, text: Text, **settings: Any) -> Factorization:
        """What a pretrained model predicts for each token of a text, by its query stream, in one
        factorization order, and what both streams see there.

        Args:
          text: of at most `most_tokens` tokens.
          settings: those of `settings.FactorizationSettings`: order, seed, known, top, most_tokens.

        Examples:
          >>> model.factorize("It rains.", order="right_to_left").candidates[0]
          ['\u2581It', '\u2581He', '\u2581She', '\u2581There', '\u2581But']
        """
        chosen = from_keywords(FactorizationSettings, settings)
        return factorization.factorize(
            self._language_model(), self.tokenizer, as_text(text), chosen
        )

    def _language_model(self):
        restored = self._open()
        # One for all threads: it has the lock of the network.
        with self._lock:
            if self._speaks is None:
                self._speaks = LanguageModel(self._loaded, restored)
            return self._speaks

    # ---- how

    def _predicting(self, verb: Optional[str] = None, **settings: Any) -> Job:
        # Settings of this call, or those that the model was trained with.
        tuned = self._tuned(verb)
        chosen = from_keywords(PredictSettings, settings)
        if chosen.threshold is not None and not tuned.task.scorer.has_threshold:
            raise UserError(
                "threshold: the task {} has {}, for which there is no threshold".format(
                    tuned.task.name,
                    f"{len(tuned.task.labels)} labels, of which the likeliest one is predicted"
                    if tuned.task.labels
                    else "no labels",
                )
            )
        least = tuned.settings.predict_threshold if chosen.threshold is None else chosen.threshold
        method, numbers = METHODS[tuned.task.type.verb], itertools.count()
        # Of answers to questions: another number of best spans than in the prediction files.
        scorer = tuned.task.scorer
        if chosen.top_k is not None:
            if not hasattr(tuned.task.options, "n_best_size"):
                raise UserError(
                    f"top_k: the model was trained for {tuned.task.type.name}, which has "
                    "no best spans"
                )
            scorer = tuned.task.with_options(n_best_size=chosen.top_k).scorer

        # An item may be several rows, as the documents of a query; all rows together are batched.
        def prepare(item):
            asked = method.rows(item)
            return [
                _row(tuned, next(numbers), one, len(asked) > 1 and f"document {number}: ")
                for number, one in enumerate(asked)
            ]

        # An item of 1,000 documents is computed in as many steps as 1,000 texts are.
        def compute(items):
            rows = [row for mine in items for row in mine]
            found: list[Any] = []
            for begin in range(0, len(rows), self._at_once):
                some = rows[begin : begin + self._at_once]
                found += scorer.results(some, self._values(tuned, some), least)
            results = iter(found)
            return [method.result([next(results) for _ in mine]) for mine in items]

        return Job(prepare, compute, self._at_once)

    def _tuned(self, verb: Optional[str]) -> FineTunedTask:
        tuned = self._loaded.tuned
        if tuned is None:
            raise UserError(
                "%s: the model is pretrained alone, expected one that was fine-tuned; "
                "it has encode, vectors, fill and generate" % (verb or "predict")
            )
        if verb not in (None, tuned.task.type.verb):
            raise UserError(
                f"{verb}: the model was trained for {tuned.task.type.name} "
                f"({tuned.task.name}), its method is {tuned.task.type.verb}"
            )
        return tuned

    def _values(self, tuned: FineTunedTask, rows: list[Row], texts: Optional[int] = None) -> Any:
        """The `contract.Predictions.values` for some rows, as `--do_predict` computes them; `cut`
        counts so many of their texts, or all."""
        # Rows to records: a long text may be several. Their outputs come in the order of lengths,
        # are put in that of the records, and the records of a row are joined.
        task, reader = tuned.task, tuned.task.reader
        how = tuned.layout
        records, windows = reader.encode(list(reader.examples(rows)), self.tokenizer, how)
        self._note_cut(records, texts)
        part = self._task_part(tuned)
        joined = in_order_of_records(
            [
                dict(part({name: name for name in part.names}, batch), index=numbers)
                for numbers, batch in session.batches_by_length(
                    records, how.max_seq_length, tuned.padding, self._batch_size
                )
            ]
        )
        joined["loss"] = np.zeros(len(records["input_ids"]), np.float32)  # without labels
        return task.head.join(joined, windows if encoding.has_windows(how) else None).values

    def _task_part(self, tuned):
        def build():
            inputs = session.placeholders(tuned)
            model = TaskModel(self._loaded.config, tuned, self._loaded.network)
            return inputs, model.outputs(inputs)

        return self._open().part("task", build)

    def _open(self) -> session.Restored:
        if self._restored is None:
            raise UserError("the model is closed")
        self._restored.check_process()
        return self._restored

    def _note_cut(self, records, texts=None):
        # The feature is taken out: the network does not know it.
        is_cut = records.pop(encoding.CUT, np.zeros(len(records["input_ids"]), bool))[:texts]
        self._count_cut(int(np.count_nonzero(is_cut)), len(is_cut), self.max_seq_length)

    def _count_cut(self, cut, count, length):
        with self._lock:
            is_first, self.cut = cut and not self.cut, self.cut + cut
        if is_first:
            _log.warning(
                "note: %d text(s) of %d are cut to %d tokens; from now on they are "
                "counted in `cut` alone",
                cut,
                count,
                length,
            )


def _example(item):
    return encoding.Example((pair(item),), 0)


def _generation(stop, settings):
    """`GenerationSettings`; a `stop` that is a str is a text, not JSON."""
    texts = stop_texts([stop] if isinstance(stop, str) else stop)
    return from_keywords(GenerationSettings, dict(settings, stop=texts or None), "generate")


def _row(tuned, number, asked, place):
    row, fault = tuned.task.reader.row(str(number), asked)
    if fault:
        raise UserError((place or "") + fault)
    return row


# ---- lists of items: results in the order of the items, errors item by item


def _bar(total: Optional[int], is_wanted: bool) -> tqdm:
    """A progress bar on standard error, for work of some seconds and only on a terminal."""
    return tqdm(
        total=total,
        unit=" texts",
        leave=False,
        delay=_SECONDS_WITHOUT_BAR,
        disable=None if is_wanted else True,
    )


def _results(job: Job, items: Sequence[Any], errors: str, update: Callable[[int], object]) -> list:
    """The results of items, in their order; `update` is called with the number of items that are
    done since the last call. A bad item is a UserError with its number, from 0 on, or with
    errors="return" the result of the item."""
    # All items are checked before the first one is computed.
    found: list[Any] = []
    for number, item in enumerate(items):
        try:
            found.append(job.prepare(item))
        except UserError as e:
            if errors == "raise":
                raise _numbered(number, e) from None
            found.append(e)
    # Bad items are left out of the batches; the results of the others go where their items are.
    good = [number for number, each in enumerate(found) if not isinstance(each, UserError)]
    update(len(items) - len(good))
    for begin in range(0, len(good), job.at_once):
        some = good[begin : begin + job.at_once]
        for number, result in zip(some, job.compute([found[number] for number in some])):
            found[number] = result
        update(len(some))
    return found


def _pipe(job: Job, items: Iterable[Any], errors: str, shows_bar: bool) -> Iterator[Any]:
    """Yields what `_results` returns, and reads as many items at a time as the job takes."""
    # If `items` raises, the results of the items before it are yielded first.
    total = len(items) if isinstance(items, Sequence) else None
    iterator, first = iter(items), 0
    failure: Optional[Exception] = None
    with _bar(total, shows_bar) as progress:
        while failure is None:
            some: list[Any] = []
            try:
                for item in itertools.islice(iterator, job.at_once):
                    some.append(item)  # one by one: what was read before a failure is kept
            except Exception as e:
                failure = e
            if not some:
                break
            for number, result in enumerate(_results(job, some, "return", progress.update), first):
                if errors == "raise" and isinstance(result, UserError):
                    raise _numbered(number, result)
                yield result
            first += len(some)
    if failure is not None:
        raise failure


def _numbered(number, error):
    return UserError(f"text {number}: {error}")


# The methods of `Model.pipe`, as functions from the model and their settings.
_PIPED: dict[str, Callable[..., Job]] = {
    "predict": Model._predicting,
    "vectors": Model._vectorizing,
    "fill": Model._filling,
    "generate": Model._generating,
}
