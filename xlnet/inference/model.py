"""A trained model as a Python object: what `xlnet.load` returns.

Shape letters: n texts, T tokens, D d_model, L labels, k layers.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Optional, Union

import numpy as np
from tqdm import tqdm

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.inference import attention, factorization, vectors
from xlnet.inference.attention import Attention
from xlnet.inference.explanation import explanation_call
from xlnet.inference.factorization import Factorization
from xlnet.inference.filling import filling_call
from xlnet.inference.generation import TextChunk, batch_of, generation_call
from xlnet.inference.inference import Call, Inference
from xlnet.inference.prediction import prediction_call
from xlnet.inference.settings import (
    AttentionSettings,
    ErrorSettings,
    FactorizationSettings,
    GenerationSettings,
    from_keywords,
)
from xlnet.inference.texts import (
    VERBS,
    as_text,
    iterate_items,
    list_items,
    require_list,
    zip_lists,
)
from xlnet.runs.model_files import LoadedModel
from xlnet.settings.devices import DeviceSettings
from xlnet.support.errors import NotFinite, UserError, did_you_mean, wrong

_Stop = Union[None, str, Sequence[str]]
_SECONDS_WITHOUT_BAR = 2  # short calls have no progress bar


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
                self.inference.predictor()
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
        what = "pretrained"
        if tuned:
            what = f"{self.task}, {self.verb}(): {tuned.task.head.outputs_in_words()}"
        return f"<xlnet model {self.inference.loaded.prefix}: {what}>"

    def close(self) -> None:
        """Frees the memory of the weights; no method can be called any more."""
        self.inference.close()

    # ---- lists of texts

    def predict(
        self, texts: Any, threshold: Optional[float] = None, errors: str = "raise"
    ) -> Any:
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
        return self._all(
            prediction_call(self.inference, threshold=threshold), texts, errors
        )

    def pipe(
        self,
        texts: Iterable[Any],
        verb: str = "predict",
        errors: str = "raise",
        **settings: Any,
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
        found = iterate_items(texts)
        from_keywords(ErrorSettings, {"errors": errors})
        call = self._call(verb, settings)
        return self._piped(call, found, errors)

    def _piped(self, call: Call, items: Iterable[Any], errors: str) -> Iterator[Any]:
        # If `items` raises, the results of the items before it are yielded first.
        total = len(items) if isinstance(items, Sequence) else None
        iterator, first = iter(items), 0
        failure: Optional[Exception] = None
        with self._progress(total) as progress:
            while failure is None:
                some: list[Any] = []
                try:
                    for item in itertools.islice(iterator, call.at_once):
                        some.append(
                            item
                        )  # one by one: what was read before a failure is kept
                except Exception as e:
                    failure = e
                if not some:
                    break
                for number, found in enumerate(
                    _results(call, some, "return", progress.update)
                ):
                    if isinstance(found, UserError) and errors == "raise":
                        raise _numbered(first + number, found)
                    yield found
                first += len(some)
        if failure is not None:
            raise failure

    def _progress(self, total: Optional[int], is_one: bool = False) -> tqdm:
        """A progress bar on standard error, for work of some seconds and only on a terminal."""
        return tqdm(
            total=total,
            unit=" texts",
            leave=False,
            delay=_SECONDS_WITHOUT_BAR,
            disable=None if self._shows_progress and not is_one else True,
        )

    def _call(self, verb: str, settings: dict[str, Any]) -> Call:
        """The call of a method of this name."""
        calls: dict[str, Callable[..., Call]] = {
            "predict": prediction_call,
            "vectors": vectors.vectors_call,
            "explain": explanation_call,
            "fill": filling_call,
            "generate": generation_call,
        }
        if verb in calls:
            return calls[verb](self.inference, **settings)
        if verb in VERBS:
            return prediction_call(self.inference, verb, **settings)
        names = (*calls, *VERBS)
        raise wrong(
            "verb", repr(verb), ", ".join(names) + did_you_mean(str(verb), names)
        )

    def _all(self, call: Call, texts: Any, errors: str = "raise") -> Any:
        """The results of a list; of one item its result."""
        from_keywords(ErrorSettings, {"errors": errors})
        items, is_one = list_items(texts)
        with self._progress(len(items), is_one) as progress:
            results = _results(call, items, errors, progress.update)
        return results[0] if is_one else results

    # ---- text in, numbers out: any model

    def encode(self, texts: Any) -> Any:
        """The ids that the network sees: pieces of the text(s), <sep>, <cls>; int32 [T] of one
        text, a list of n such arrays of several. A long text is cut as the model's task cuts it; if
        that reads all of it in several parts, its end is cut.

        Examples:
          >>> [model.tokenizer.id_to_piece(id) for id in model.encode("It rains.")]
          ['▁It', '▁rain', 's', '.', '<sep>', '<cls>']
        """
        return self._all(vectors.encoding_call(self.inference), texts)

    def vectors(
        self,
        texts: Any,
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
        call = vectors.vectors_call(
            self.inference, layers=layers, pooling=pooling, normalize=normalize
        )
        found = self._all(call, texts, errors)
        if not isinstance(found, list) or pooling == "none" or errors == "return":
            return found
        if not found:
            d_model = self.inference.loaded.config.d_model
            return np.zeros((0, *np.shape(layers), d_model), np.float32)
        return np.stack(found)

    # ---- what it was trained for

    def classify(self, texts: Any, threshold: Optional[float] = None) -> Any:
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
        return self._all(
            prediction_call(self.inference, "classify", threshold=threshold), texts
        )

    def probabilities(self, texts: Any) -> np.ndarray:
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

    def score(self, texts: Any) -> Any:
        """The score of each text, or pair: a float of one, float32 [n] of several.

        Examples:
          >>> model.score(("A girl sings.", "A child makes music."))
          3.8
        """
        found = self._all(prediction_call(self.inference, "score"), texts)
        return np.array(found, np.float32) if isinstance(found, list) else found

    def choose(
        self,
        text: Any,
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
        call = prediction_call(self.inference, "choose")
        if isinstance(text, str):
            return self._all(call, (text, choices, question))
        questions: Any = question
        if question is None or isinstance(question, str):
            questions = [question] * len(require_list("text", text))
        return self._all(
            call, zip_lists(text=text, choices=choices, question=questions)
        )

    def rank(self, query: Any, documents: Sequence[Any]) -> Any:
        """The documents of a query, best first: a list of `results.Ranked`.

        Args:
          documents: those of one query; of several queries a list of such lists.

        Examples:
          >>> model.rank("cheap flights", ["Trains", "Flights at low prices"])[0].number
          1
        """
        call = prediction_call(self.inference, "rank")
        if isinstance(query, str):
            return self._all(call, (query, documents))
        return self._all(call, zip_lists(query=query, documents=documents))

    def answer(
        self,
        question: Any,
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
        call = prediction_call(
            self.inference, "answer", threshold=threshold, top_k=top_k
        )
        if isinstance(question, str):
            return self._all(call, (question, context))
        if isinstance(context, str):
            context = [context] * len(require_list("question", question))
        return self._all(call, zip_lists(question=question, context=context))

    def tag(self, texts: Any) -> Any:
        """The words of each text with their tags and the entities: `results.Tagged`. A tuple of str
        is the words of one text.

        Examples:
          >>> [(e.label, e.text) for e in model.tag("She lived in London.").entities]
          [('LOC', 'London')]
        """
        return self._all(prediction_call(self.inference, "tag"), texts)

    def explain(self, texts: Any, errors: str = "raise", **settings: Any) -> Any:
        """How much each word of a text, or pair, counts for its prediction: `Explanation`. For
        models that classify, score or rank; a document is explained with its query, as the pair
        (query, document).

        Args:
          errors: "raise", or "return".
          settings: those of `settings.ExplanationSettings`.
        """
        return self._all(explanation_call(self.inference, **settings), texts, errors)

    # ---- what it was pretrained for

    def fill(self, texts: Any, errors: str = "raise", **settings: Any) -> Any:
        """The likeliest fillings of the blanks in a text, the likeliest first: a list of
        `filling.Filling`.

        Args:
          errors: "raise", or "return".
          settings: those of `settings.FillingSettings`.

        Examples:
          >>> model.fill("The sky is ___.", top=3)[0].text
          'The sky is blue.'
        """
        return self._all(filling_call(self.inference, **settings), texts, errors)

    def generate(
        self,
        prompts: Any,
        stop: _Stop = None,
        errors: str = "raise",
        **settings: Any,
    ) -> Any:
        """Text that continues a prompt: a `generation.GeneratedText`. Several prompts are batched:
        with a seed each gets the text that it gets alone.

        Args:
          stop: a text, or several, before which a text ends.
          errors: "raise", or "return".
          settings: the others of `settings.GenerationSettings`.

        Examples:
          >>> model.generate("The default value is", stop=".", max_tokens=20, seed=1).text
          ' None'
        """
        return self._all(
            generation_call(self.inference, stop, **settings), prompts, errors
        )

    def stream(
        self, prompt: str, stop: _Stop = None, **settings: Any
    ) -> Iterator[TextChunk]:
        """Yields the text of `generate` as it comes: `generation.TextChunk`s. Other calls may come
        between two chunks, and another prompt's chunks, too.

        Examples:
          >>> for part in model.stream("The default value is", max_tokens=20):
          ...     print(part.text, end="", flush=True)
        """
        chosen = from_keywords(GenerationSettings, dict(settings, stop=stop))
        return batch_of(self.inference).stream(as_text(prompt), chosen)

    def attention(
        self,
        text: Any,
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
            AttentionSettings,
            {"order": order, "seed": seed, "most_tokens": most_tokens},
        )
        return attention.attention_of(self.inference, text, layers, chosen)

    def factorize(self, text: Any, **settings: Any) -> Factorization:
        """The predictions of a pretrained model for each token of a text, by its query stream in
        one factorization order, and the masks of both streams. `print` shows it as a table.

        Args:
          text: of at most `most_tokens` tokens.
          settings: those of `settings.FactorizationSettings`: order, seed, known, top, most_tokens.

        Examples:
          >>> model.factorize("It rains.", order="right_to_left").candidates[0]
          ['\u2581It', '\u2581He', '\u2581She', '\u2581There', '\u2581But']
        """
        chosen = from_keywords(FactorizationSettings, settings)
        return factorization.factorize(self.inference, text, chosen)


def _results(
    call: Call, items: Sequence[Any], errors: str, update: Callable[[int], object]
) -> list[Any]:
    """The results of items, in their order; `update` is called with the number of items that are
    done since the last call.

    Raises:
      UserError: an item is bad; it has its number, from 0 on. With errors="return" the error is the
        result of the item.
    """
    # All items are checked before the first one is computed.
    found: list[Any] = []
    for number, item in enumerate(items):
        try:
            found.append(call.prepare(item))
        except UserError as e:
            if errors == "raise":
                raise _numbered(number, e) from None
            found.append(e)
    # Bad items are left out of the batches; the results of the others go where their items are.
    good = [
        number for number, each in enumerate(found) if not isinstance(each, UserError)
    ]
    update(len(items) - len(good))
    for begin in range(0, len(good), call.at_once):
        some = good[begin : begin + call.at_once]
        for number, result in zip(
            some, _computed(call, [found[number] for number in some])
        ):
            if errors == "raise" and isinstance(result, UserError):
                raise _numbered(number, result)
            found[number] = result
        update(len(some))
    return found


def _computed(call: Call, prepared: list[Any]) -> Sequence[Any]:
    """What `compute` returns of some items; of one whose outputs are not finite, its error."""
    try:
        return call.compute(prepared)
    except NotFinite as e:
        if len(prepared) == 1:
            return [UserError(str(e))]
    # The error does not say whose outputs they are, so each item is computed by itself.
    return [_computed(call, [one])[0] for one in prepared]


def _numbered(number: int, error: UserError) -> UserError:
    return UserError(f"text {number}: {error}")
