"""A trained model as a Python object: what `xlnet.load` returns.

Shape letters: n texts, T tokens, D d_model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from xlnet.inference.factorization import Attending, Factorizing
from xlnet.inference.filling import Filler
from xlnet.inference.generation import Generation, TextChunk
from xlnet.inference.method import Method, RestoredModel, require_list, several
from xlnet.inference.prediction import VERBS, Explaining, Prediction
from xlnet.inference.settings import plain
from xlnet.inference.vectors import Vectors
from xlnet.support.errors import UserError, wrong

# By the names of methods of `Model`; `VERBS` has those of tasks, which are all `Prediction`.
_METHODS: dict[str, Callable[..., Method]] = {
    "predict": Prediction,
    "vectors": Vectors,
    "explain": Explaining,
    "fill": Filler,
    "generate": Generation,
    "attention": Attending,
    "factorize": Factorizing,
}


class Model(RestoredModel):
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
      tokenizer: the `Tokenizer` of its vocabulary.
      max_seq_length: tokens of a text, special ones included.

    Methods raise UserError for a wrong argument or text, and for what the model was not trained
    for.
    """

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        training = f"{self.task}, {self.verb}()" if self.task else "pretrained"
        return f"<xlnet model {self.loaded.prefix}: {training}>"

    def close(self) -> None:
        """Frees the memory of the weights; no method can be called any more."""
        self.session.session.close()  # the `tf.Session` of the `RestoredSession`

    # ---- lists of texts

    def predict(self, texts: Any, threshold: float | None = None) -> Any:
        """The predictions for which the model was trained, of any task type.

        Args:
          texts: one item or a list of them. An item is what the method `verb` takes for one text: a
            text, a pair, or a tuple of its arguments, such as (question, context).
          threshold: as of `classify` and `answer`.

        Returns:
          The result of `verb` for one item, a list of such results for a list.

        Examples:
          >>> model.predict(["It rains.", "It does not."])[0].label
          'weather'
        """
        return self._call("predict", texts, threshold=threshold)

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
          errors: "raise" ends at a bad text; "return" gives its UserError as its result.
          settings: those of this method.

        Examples:
          >>> for answer in model.pipe(open("texts.txt")):
          ...     print(answer.label)
        """
        items = several(texts)
        if items is None:
            raise wrong("texts", f"{texts!r:.80}", "a list or a generator of texts")
        if errors not in ("raise", "return"):
            raise wrong("errors", repr(errors), "raise or return")
        return _results(self.method(verb, **settings), items, errors)

    def method(self, name: str, /, **settings: Any) -> Method:
        """The `Method` of this name, with its settings. UserError for a wrong setting, an unknown
        name, and a name in `VERBS` that is not the verb of the model's task."""
        if name in VERBS:
            return Prediction(self, name, **settings)
        if name not in _METHODS:
            raise wrong("verb", repr(name), ", ".join((*_METHODS, *VERBS)))
        return _METHODS[name](self, **settings)

    def _call(self, name: str, texts: Any, **settings: Any) -> Any:
        """Calls the method `name`: the result for one item, a list of results for several."""
        texts = plain(texts)
        # A tuple is one item: a pair of texts, or the arguments for one text.
        items = None if isinstance(texts, tuple) else several(texts)
        method = self.method(name, **settings)
        if items is None:
            return next(_results(method, [texts], "raise"))
        return list(_results(method, items, "raise"))

    def _call_by_parts(self, name: str, parts: dict[str, Any], **settings: Any) -> Any:
        """Calls the method `name`, whose item is a tuple, with the parts of one item or of several.

        Args:
          parts: by name, in the order of the tuple. If the first part is a text, they are those of
            one item. If it is a list of n, they are those of n items: each other part is then a
            list of n, or a text or None for all items. With the questions ["Who?", "Where?"] and
            the context "She lives here." the items are ("Who?", "She lives here.") and ("Where?",
            "She lives here.").

        Returns:
          The result for one item, a list of results for several.
        """
        first = next(iter(parts.values()))
        if first is None or isinstance(first, str):  # the method refuses None
            return self._call(name, tuple(parts.values()), **settings)
        lists: list[list] = []  # of each part its n values
        for part, values in parts.items():
            # Parts other than the first may have one value for all items.
            if lists and (values is None or isinstance(values, str)):
                values = [values] * len(lists[0])
            lists.append(require_list(part, values))
        sizes = list(map(len, lists))
        if len(set(sizes)) != 1:
            found = f"lists of {' and '.join(map(str, sizes))}"
            raise wrong(", ".join(parts), found, "as many of each")
        return self._call(name, list(zip(*lists)), **settings)

    # ---- text in, numbers out: any model

    def vectors(
        self,
        texts: Any,
        layer: int = -1,
        pooling: str = "mean",
    ) -> Any:
        """The hidden states of the network for texts, before any output layer. A text is read as by
        the model's task, <sep> and <cls> behind it; the end of a long text is cut, also where the
        task reads it in several windows.

        Args:
          layer: 0: the embeddings; 1 to n_layer: the output of this layer; negative numbers count
            from the end, -1 is the last layer.
          pooling: "mean" over the tokens of a text, <sep> and <cls> included, padding excluded;
            "first" token; "last" one, which is <cls>; "none": all tokens.

        Returns:
          float32 [D] of one text, [n,D] of several. With "none" [T,D] of one text, a list of n such
          arrays of several.

        Examples:
          >>> model.vectors(["It rains.", "It does not."]).shape
          (2, 768)
        """
        results = self._call("vectors", texts, layer=layer, pooling=pooling)
        # One text is not a list; an empty list, and arrays of different T, cannot be stacked.
        if not isinstance(results, list) or not results or pooling == "none":
            return results
        return np.stack(results)

    # ---- what it was trained for

    def classify(self, texts: Any, threshold: float | None = None) -> Any:
        """The label of each text, or pair, with the probabilities of all: `fields.Label`, or
        `fields.Labels` of a model for any number of labels.

        Args:
          threshold: least probability for the second of two labels, or for each of any number; the
            model's own if not given.

        Examples:
          >>> model.classify("It rains.").label
          'weather'
          >>> [one.label for one in model.classify(["It rains.", "He scored."])]
          ['weather', 'sports']
        """
        return self._call("classify", texts, threshold=threshold)

    def score(self, texts: Any) -> Any:
        """The number that a regression predicts for each text, or pair: a float of one, float32 [n]
        of several.

        Examples:
          >>> model.score(("A girl sings.", "A child makes music."))
          3.8
        """
        scores = self._call("score", texts)
        return np.array(scores, np.float32) if isinstance(scores, list) else scores

    def choose(
        self,
        text: Any,
        choices: Sequence[Any],
        question: None | str | Sequence[str] = None,
    ) -> Any:
        """The right one of several choices for a text, or for a text and a question on it:
        `fields.Choice`.

        Args:
          choices: those of one text; of several texts a list of such lists.
          question: one for all texts, or a list of one for each; None for a task without questions.

        Examples:
          >>> model.choose("Ann has a cat. It is black.", ["red", "black"],
          ...              question="The cat is _.").number
          1
        """
        parts = {"text": text, "choices": choices, "question": question}
        return self._call_by_parts("choose", parts)

    def rank(self, query: Any, documents: Sequence[Any]) -> Any:
        """The documents of a query, best first: a list of `fields.Ranked`.

        Args:
          documents: those of one query; of several queries a list of such lists.

        Examples:
          >>> model.rank("cheap flights", ["Trains", "Flights at low prices"])[0].number
          1
        """
        return self._call_by_parts("rank", {"query": query, "documents": documents})

    def answer(
        self,
        question: Any,
        context: str | Sequence[str],
        threshold: float | None = None,
    ) -> Any:
        """The span of a text that answers a question: `fields.Answer`.

        Args:
          context: one text for all questions, or one for each.
          threshold: probability that there is no answer above which none is given; the model's own
            if not given.

        Examples:
          >>> model.answer("Where did she live?", "She lived in London.").text
          'London'
        """
        parts = {"question": question, "context": context}
        return self._call_by_parts("answer", parts, threshold=threshold)

    def tag(self, texts: Any) -> Any:
        """The words of each text with their tags and the entities: `fields.Tagged`. A tuple of str
        is the words of one text.

        Examples:
          >>> [(e.label, e.text) for e in model.tag("She lived in London.").entities]
          [('LOC', 'London')]
        """
        return self._call("tag", texts)

    def explain(self, texts: Any) -> Any:
        """How much each word of a text, or pair, counts for its prediction: `Explanation`. For
        models that classify, score or rank; a document is explained with its query, as the pair
        (query, document).
        """
        return self._call("explain", texts)

    # ---- what it was pretrained for

    def fill(self, texts: Any, **settings: Any) -> Any:
        """The likeliest fillings of the blanks in a text, the likeliest first: a list of
        `filling.Filling`.

        Args:
          settings: those of `settings.FillingSettings`.

        Examples:
          >>> model.fill("The sky is ___.", top=3)[0].text
          'The sky is blue.'
        """
        return self._call("fill", texts, **settings)

    def generate(self, prompts: Any, **settings: Any) -> Any:
        """Text that continues a prompt: a `generation.GeneratedText`. Several prompts are batched:
        with a seed each gets the text that it gets alone.

        Args:
          settings: those of `settings.GenerationSettings`.

        Examples:
          >>> model.generate("The default value is", stop=".", max_tokens=20, seed=1).text
          ' None'
        """
        return self._call("generate", prompts, **settings)

    def stream(self, prompt: str, **settings: Any) -> Iterator[TextChunk]:
        """Yields the text of `generate` as it is generated: `generation.TextChunk`s. Between two
        chunks other methods may be called, and chunks of another prompt be taken.

        Examples:
          >>> for part in model.stream("The default value is", max_tokens=20):
          ...     print(part.text, end="", flush=True)
        """
        return Generation(self, **settings).stream(prompt)

    def attention(self, text: Any, layers: Sequence[int], **settings: Any) -> Any:
        """The attention probabilities of each head for a text, in both streams:
        `factorization.Attention`. Of a pretrained model.

        Args:
          layers: numbers from 1 on.
          settings: those of `settings.AttentionSettings`: order, seed.

        Examples:
          >>> model.attention("It rains.", layers=[1]).streams["content"].shape
          (1, 12, 6, 6)
        """
        return self._call("attention", text, layers=layers, **settings)

    def factorize(self, text: Any, **settings: Any) -> Any:
        """The predictions of a pretrained model for each token of a text, by its query stream in
        one factorization order, and the masks of both streams: `factorization.Factorization`.

        Args:
          text: of at most 512 tokens.
          settings: those of `settings.FactorizationSettings`: order, seed, known (so many tokens at
            the beginning of the order are read, but not predicted), top (candidates of a token).

        Examples:
          >>> model.factorize("It rains.", order="right_to_left").candidates[0]
          ['\u2581It', '\u2581He', '\u2581She', '\u2581There', '\u2581But']
        """
        return self._call("factorize", text, **settings)


def _results(method: Method, items: Iterable[Any], errors: str) -> Iterator[Any]:
    """Yields the result of each item, as methods of `Model` return it. At a bad item errors="raise"
    raises its UserError, "return" yields it."""
    for number, outcome in enumerate(method.results(items)):
        if not isinstance(outcome, UserError):
            yield outcome.result
        elif errors == "return":
            yield outcome
        else:
            raise UserError(f"text {number}: {outcome}")
