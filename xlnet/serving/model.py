"""A trained model as a Python object: what `xlnet.load` returns.

Shape letters: n texts, m records, T tokens, D d_model, L labels, k layers.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Optional, Protocol, Union, overload

import numpy as np

from xlnet.errors import UserError, did_you_mean
from xlnet.model_directory.model_files import LoadedModel
from xlnet.serving import (
    attention,
    batched_calls,
    explanation,
    factorization,
    filling,
    generation,
    vectors,
)
from xlnet.serving.attention import Attention
from xlnet.serving.batched_calls import BatchedCall, Computed, compute_all, progress_bar
from xlnet.serving.factorization import Factorization
from xlnet.serving.generation import Stop
from xlnet.serving.inference import Inference
from xlnet.serving.prediction import prediction_call
from xlnet.serving.settings import (
    AttentionSettings,
    ErrorSettings,
    FactorizationSettings,
    GenerationSettings,
    from_keywords,
)
from xlnet.serving.texts import METHODS, as_text, iterate_items, list_items, require_list, zip_lists
from xlnet.settings.devices import DeviceSettings
from xlnet.tasks.output import results
from xlnet.tokenization.tokenizer import Tokenizer

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


class Model:
    """A trained model: one session, restored once, which any number of threads may call.

    Every method takes one text or a list of them (or a NumPy array of str), and returns one result
    or a list (or array) of results in the same order. A pair of texts is a tuple, of a model of
    questions (question, context). Texts go through the network in batches of about equal length.
    Results are those of the prediction files.

    Attributes:
      task: name of the task that it was trained for; None: it is only pretrained.
      verb: name of the method for this task; None: only pretrained.
      labels: names of its labels; None: it has none.
      n_layer: number of layers.
      n_head: number of heads of each layer.
      tokenizer: the `Tokenizer` of its vocabulary.
      max_seq_length: tokens of a text, special ones included.
      inference: its session and files, for the functions of this package.
      cut: how many texts were longer and lost some of it; results say of how many tokens.

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
        most_tokens: Optional[int] = None,
    ) -> None:
        tuned = loaded.tuned
        self._shows_progress = shows_progress
        self.task: Optional[str] = tuned.task.name if tuned else None
        self.verb: Optional[str] = tuned.task.type.verb if tuned else None
        self.labels: Optional[tuple[str, ...]] = tuned.task.labels if tuned else None
        self.tokenizer: Tokenizer = loaded.tokenizer
        self.n_layer: int = loaded.config.n_layer
        self.n_head: int = loaded.config.n_head
        self.max_seq_length: int = loaded.max_seq_length
        self.inference = Inference(loaded, device, batch_size, most_tokens)
        # The part that is used first is built now: its first result does not wait.
        try:
            if tuned:
                self.inference.task_subgraph(tuned)
            else:
                vectors.subgraph(self.inference)
        except BaseException:
            self.close()
            raise

    @property
    def cut(self) -> int:
        """How many texts were longer than the network reads, and lost some of it."""
        return self.inference.cut

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> Any:
        """A model is neither pickled nor copied: it lives in its process."""
        raise UserError(
            "a model cannot be pickled or copied: pass its path "
            f"'{os.path.dirname(self.inference.loaded.prefix)}' and load it in each process"
        )

    def __repr__(self) -> str:
        tuned = self.inference.loaded.tuned
        what = (
            "pretrained"
            if tuned is None
            else f"{self.task}, {self.verb}(): {tuned.task.head.outputs_in_words()}"
        )
        return f"<xlnet model {self.inference.loaded.prefix}: {what}>"

    def close(self) -> None:
        """Frees the memory of the weights; no method can be called any more."""
        self.inference.close()

    # ---- lists of texts

    def predict(self, texts: Any, threshold: Optional[float] = None, errors: str = "raise") -> Any:
        """The predictions for which the model was trained, of any task type.

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
        return self._all(prediction_call(self.inference, threshold=threshold), texts, errors)

    def pipe(
        self, texts: Iterable[Any], verb: str = "predict", errors: str = "raise", **settings: Any
    ) -> Iterator[Any]:
        """Yields the results of a method for texts, in order.

        Args:
          texts: a list, an array or a generator, which is read as far as results are asked for,
            and some batches ahead.
          verb: name of the method: "predict" or that of the model's task, such as "classify";
            "vectors", "explain", "fill" or "generate".
          errors: "raise", or "return".
          settings: those of this method.

        Examples:
          >>> for answer in model.pipe(open("texts.txt")):
          ...     print(answer.label)
        """
        if verb not in _CALLS:
            raise UserError(
                "verb is {!r}, expected one of {}{}".format(
                    verb, ", ".join(_CALLS), did_you_mean(str(verb), list(_CALLS))
                )
            )
        texts = iterate_items(texts)
        from_keywords(ErrorSettings, {"errors": errors})
        call = _CALLS[verb](self.inference, **settings)
        return batched_calls.pipe(call, texts, errors, self._shows_progress)

    def _all(self, call: BatchedCall, texts: Any, errors: str = "raise") -> Any:
        """The results of a list; of one item its result."""
        from_keywords(ErrorSettings, {"errors": errors})
        items, is_one = list_items(texts)
        with progress_bar(len(items), self._shows_progress and not is_one) as progress:
            found = compute_all(call, items, errors, progress.update)
        results = [each.public() if isinstance(each, Computed) else each for each in found]
        return results[0] if is_one else results

    # ---- text in, numbers out: any model

    @overload
    def encode(self, texts: Text) -> np.ndarray: ...

    @overload
    def encode(self, texts: Many) -> list[np.ndarray]: ...

    def encode(self, texts: Texts) -> Any:
        """The ids that the network sees: pieces of the text(s), <sep>, <cls>; int32 [T] of one
        text, a list of n such arrays of several. A long text is cut as the model's task cuts it; if
        that reads all of it in several parts, its end is cut.

        Examples:
          >>> [model.tokenizer.id_to_piece(id) for id in model.encode("It rains.")]
          ['▁It', '▁rain', 's', '.', '<sep>', '<cls>']
        """

        return self._all(vectors.encoding_call(self.inference), texts)

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
        """The hidden states of the network for texts, before any output layer; a text is read as by
        `encode`.

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
            vectors.vectors_call(
                self.inference, layers=layers, pooling=pooling, normalize=normalize
            ),
            texts,
            errors,
        )
        if not isinstance(found, list) or pooling == "none" or errors == "return":
            return found
        return (
            np.stack(found)
            if found
            else np.zeros((0, *np.shape(layers), self.inference.loaded.config.d_model), np.float32)
        )

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
        return self._all(prediction_call(self.inference, "classify", threshold=threshold), texts)

    def probabilities(self, texts: Texts) -> np.ndarray:
        """The same as numbers: float32 [L] of one text, [n,L] of several, in the order of
        `labels`.

        Examples:
          >>> model.probabilities(["It rains.", "He scored."]).shape
          (2, 4)
        """
        items, is_one = list_items(texts)
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
        found = self._all(prediction_call(self.inference, "score"), texts)
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
        job = prediction_call(self.inference, "choose")
        if isinstance(text, str):
            return self._all(job, (text, choices, question))
        questions: Any = question
        if question is None or isinstance(question, str):
            questions = [question] * len(require_list("text", text))
        return self._all(job, zip_lists(text=text, choices=choices, question=questions))

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
            prediction_call(self.inference, "rank"),
            (query, documents)
            if isinstance(query, str)
            else zip_lists(query=query, documents=documents),
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
        job = prediction_call(self.inference, "answer", threshold=threshold, top_k=top_k)
        if isinstance(question, str):
            return self._all(job, (question, context))
        if isinstance(context, str):
            context = [context] * len(require_list("question", question))
        return self._all(job, zip_lists(question=question, context=context))

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
        return self._all(prediction_call(self.inference, "tag"), texts)

    def explain(self, texts: Texts, errors: str = "raise", **settings: Any) -> Any:
        """How much each word of a text, or pair, counts for its prediction: `Explanation`. For
        models that classify, score or rank; a document is explained with its query, as the pair
        (query, document).

        Args:
          errors: "raise", or "return".
          settings: those of `settings.ExplanationSettings`.
        """
        return self._all(explanation.explanation_call(self.inference, **settings), texts, errors)

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
        return self._all(filling.filling_call(self.inference, **settings), texts, errors)

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
    ) -> generation.GeneratedText: ...

    @overload
    def generate(
        self, prompts: Several, stop: Stop = ..., errors: Literal["raise"] = ..., **settings: Any
    ) -> list[generation.GeneratedText]: ...

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
        """Text that continues a prompt: a `generation.GeneratedText`; with `samples` above 1 a list
        of them. Several prompts are batched: with a seed each gets the text that it gets alone.

        Args:
          stop: a text, or several, before which a text ends.
          errors: "raise", or "return".
          settings: the others of `settings.GenerationSettings`.

        Examples:
          >>> model.generate("The default value is", stop=".", max_tokens=20, seed=1).text
          ' None'
        """
        return self._all(
            generation.generation_call(self.inference, stop, **settings), prompts, errors
        )

    def stream(
        self, prompt: str, stop: Stop = None, **settings: Any
    ) -> Iterator[generation.TextChunk]:
        """Yields the text of `generate` as it comes: `generation.TextChunk`s. Other calls may come
        between two chunks, and another prompt's chunks, too.

        Examples:
          >>> for part in model.stream("The default value is", max_tokens=20):
          ...     print(part.text, end="", flush=True)
        """
        chosen = from_keywords(GenerationSettings, dict(settings, stop=stop))
        model = self.inference.language_model()
        return generation.write(model, self.tokenizer, as_text(prompt), chosen)

    def attention(
        self,
        text: Text,
        layers: Sequence[int],
        order: Optional[str] = None,
        seed: int = 0,
        most_tokens: int = 512,
    ) -> Attention:
        """The attention probabilities of each head for a text, in both streams. A fine-tuned model
        has only the content stream, in which every token sees all tokens; its text may be a pair,
        and is refused if the model cuts it.

        Args:
          layers: numbers from 1 on.
          order: factorization order, "random", "left_to_right", "none", or the numbers of the
            tokens as in "2,1,3". None: "random"; "left_to_right" of a causal model and "none" of a
            fine-tuned one, which have no other.
          seed: of a random order.
          most_tokens: a longer text is refused.

        Examples:
          >>> model.attention("It rains.", layers=[1]).streams["content"].shape
          (1, 12, 6, 6)
        """
        chosen = from_keywords(
            AttentionSettings, {"order": order, "seed": seed, "most_tokens": most_tokens}
        )
        return attention.attention_of(self.inference, text, layers, chosen)

    def factorize(self, text: Text, **settings: Any) -> Factorization:
        """The predictions of a pretrained model for each token of a text, by its query stream in
        one factorization order, and the masks of both streams.

        Args:
          text: of at most `most_tokens` tokens.
          settings: those of `settings.FactorizationSettings`: order, seed, known, top, most_tokens.

        Examples:
          >>> model.factorize("It rains.", order="right_to_left").candidates[0]
          ['\u2581It', '\u2581He', '\u2581She', '\u2581There', '\u2581But']
        """
        chosen = from_keywords(FactorizationSettings, settings)
        return factorization.factorize_with(self.inference, text, chosen)


# The calls of `Model.pipe` by the method's name, as functions of the model and the settings.
_CALLS: dict[str, Callable[..., BatchedCall]] = {
    "predict": prediction_call,
    "vectors": vectors.vectors_call,
    "explain": explanation.explanation_call,
    "fill": filling.filling_call,
    "generate": generation.generation_call,
    **{verb: functools.partial(prediction_call, verb=verb) for verb in METHODS},
}
