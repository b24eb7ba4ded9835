"""The model of a model directory behind the server: its signatures, examples from and to JSON.

A fine-tuned model has `text`, what it was trained for, and `explain`, how much each word counts for
it; a pretrained one has `fill`, `generate` and `attention`; both have `vectors`. An example is a
dict: texts by name, or lists of texts (choices).
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import os
import pathlib
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from xlnet import files
from xlnet.errors import UserError
from xlnet.model_directory import model_files
from xlnet.serving import attention, explanation, factorization, filling, generation, vectors
from xlnet.serving.batched_calls import BatchedCall, Computed, compute_all
from xlnet.serving.joint_generation import is_alone
from xlnet.serving.model import Model
from xlnet.serving.prediction import prediction_call
from xlnet.serving.settings import (
    TEXTS,
    AttentionSettings,
    ExplanationSettings,
    FactorizationSettings,
    FillingSettings,
    GenerationSettings,
    from_keywords,
    stop_texts,
)
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import field_of
from xlnet.settings.finetuning import EXAMPLES_NAME
from xlnet.settings.training import BEST
from xlnet.tasks.features import encoding
from xlnet.tasks.output import results
from xlnet.tokenization.offsets import Aligner
from xlnet.tokenization.tokenizer import is_text

_log = logging.getLogger(__name__)

_MOST = 32  # texts in a batch
# Tokens in a call of the network: how long others wait for their turn, or for a processor. More of
# them use a processor no better.
_MOST_TOKENS_CPU, _MOST_TOKENS_GPU = 512, 8192
_MOST_OF = {"max_tokens": 2048, "beams": 256, "samples": 256, "most_tokens": 64}  # of a request
_MOST_PREDICTED = 1024  # beams x pieces of order=all, whose memory the vocabulary multiplies
_MOST_WORDS = 512  # of an example that is explained: each is left out in a prediction of its own
_MOST_WORDS_TOGETHER = 2048  # of all examples of a request
# Of a language model's graph, built before the first request: one for a long generation, one for
# what is asked meanwhile. Each takes seconds, in which a light request would wait.
_COPIES = 2
_KEPT = 256  # what a token of a text costs more for each beam or sample, whose keys are kept
_LABELS_SHOWN = 20
GOLD = "gold"  # the key of the label of an example
_EXAMPLES = 4  # of a signature, on the page
MOST_LAYERS = 4  # whose attention is returned at once
_LONG = 4  # windows of a text, estimated, from which on it is no part of a batch
_CHARACTERS = 4  # of a token, about
PARAMETERS_OF: dict[str, Any] = {  # the settings of the signatures with parameters
    "explain": ExplanationSettings,
    "fill": FillingSettings,
    "generate": GenerationSettings,
    "attention": AttentionSettings,
    "factorize": FactorizationSettings,
}
# Of `attention`, unless `most_tokens` says so: what is sent grows with its square.
MOST_TOKENS_SHOWN = 40
# The method of `explain`: gradients would keep what every layer computes.
SERVED_EXPLANATION = "leave_one_out"
_OF_LANGUAGE_MODELS = ("fill", "generate", "attention", "factorize")
# The texts of a signature as `Model.predict` takes them.
_ORDER = ("question", "context", "text_a", "choices", "text_b")

JSON_TYPES = {  # as errors name them
    list: "an array",
    dict: "an object",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}

PAGE = pathlib.Path(__file__).parent / "page"

Row = dict[str, Any]  # an example: str by name, or a list of str


class Call(NamedTuple):
    """A signature with the parameters of a request: its settings, and the layers of `attention`."""

    signature: str
    settings: Any = None
    layers: Sequence[int] = (1,)


class Example(NamedTuple):
    """An example for the page.

    Attributes:
      row: its texts.
      gold: its label in the data, as of `Reader.gold`; None: it has none.
      is_right: whether the model answers with this label; None where an answer is not just right or
        wrong, such as a score.
    """

    row: Row
    gold: Any
    is_right: Optional[bool]


class TooLarge(UserError):
    """A request that takes more memory than the budget."""

    http_status = 413


def limits_of(signature: str) -> dict[str, int]:
    """The largest values of a signature's parameters in a request."""
    names = {field.name for field in dataclasses.fields(PARAMETERS_OF[signature])}
    return {name: most for name, most in _MOST_OF.items() if name in names}


class ServedModel:
    """A model loaded as by `xlnet.load`; `budget` examples x tokens² are computed together. Any
    number of threads may call it.

    Attributes:
      about: what it does, in a line.
      verb: the method of `xlnet.load` for the signature `text`; None: it has none.
      labels: names in the order of the probabilities; None: it has none.
      default: the signature of requests that name none.
      examples: of each signature, the `Example`s to begin with.
    """

    def __init__(self, path: str, budget: int, device: DeviceSettings, **given: Any):
        if os.path.exists(os.path.join(path, "saved_model.pb")):
            raise UserError(
                f"model_dir: {path} is a SavedModel, which TensorFlow Serving serves; "
                "expected the model directory that it was exported from"
            )
        # A batch of the longest texts is within the budget.
        found = model_files.read(path, **given)
        tuned = found.tuned
        self._model = model = Model(
            found,
            device,
            min(max(budget // found.max_seq_length**2, 1), _MOST),
            most_tokens=_MOST_TOKENS_GPU if _has_gpu(device) else _MOST_TOKENS_CPU,
        )
        self.path = path
        self.n_layer, self.n_head = model.n_layer, model.n_head
        self.labels = list(model.labels) if model.labels else None
        # The signatures with their inputs.
        self._inputs: dict[str, tuple[str, ...]] = {"vectors": ("text_a",)}
        if tuned:
            self._inputs["text"] = tuned.task.reader.texts
        else:
            self._inputs.update(
                fill=("text",), generate=("prompt",), attention=("text",), factorize=("text",)
            )
        self.verb = model.verb
        if self.verb in explanation.VERBS:
            self._inputs["explain"] = self._inputs["text"]
        self._aligner = Aligner(model.tokenizer)
        # Whether a long text has several windows, or loses some of its tokens.
        self._reads_all = tuned is not None and encoding.has_windows(tuned.layout)
        self._warm_up()
        # For people; tags are named by their types, without the B- and I- of words.
        self.about = _ABOUT[self.verb]
        if self.labels and self.verb in ("classify", "tag"):
            names = (
                self.labels
                if self.verb == "classify"
                else sorted({label.partition("-")[2] for label in self.labels} - {""})
            )
            self.about += ": {}{}".format(
                ", ".join(names[:_LABELS_SHOWN]), ", ..." * (len(names) > _LABELS_SHOWN)
            )
        self.default = "text" if tuned else self.names[0]
        self.examples = self._read_examples()

    @property
    def names(self) -> list[str]:
        return sorted(self._inputs, key=list(_SHOWN_FIRST).index)

    def close(self) -> None:
        """Frees the memory of the weights."""
        self._model.close()

    def _warm_up(self) -> None:
        # Computes an example of each signature, so that the first request does not wait for its
        # graph; removes those that a pretrained model cannot have.
        # One piece fills the blank where pieces are words, two where they are characters.
        settings: dict[str, dict[str, Any]] = {
            "fill": {"pieces": "1-2", "whole_words": False},
            "generate": {"max_tokens": 1},
        }
        for name in self.names:
            text = "a ___" if name == "fill" else "a"
            row = {
                key: [text] * count if count else text for key, count in self.inputs(name).items()
            }
            try:
                self.run(self.call(name, settings.get(name, {})), [row])
            except UserError as e:
                if name not in _OF_LANGUAGE_MODELS:
                    raise
                _log.info("note: no signature %s: %s", name, e)
                del self._inputs[name]
        if "generate" in self._inputs:
            self._model.inference.language_model().prepare(_COPIES)

    def _read_examples(self) -> dict[str, list[Example]]:
        """Those of the model directory, or of the page; of each signature one that the model gets
        right is the first."""
        # They are next to the settings, which `best/` has not.
        home = os.path.abspath(self.path)
        home = os.path.dirname(home) if os.path.basename(home) == BEST else home
        path = os.path.join(home, EXAMPLES_NAME)
        if os.path.exists(path):
            files.require_inside(path, home, "the model's")
        elif self.verb is None:  # English sentences; there are no labels that they could have
            path = str(PAGE / EXAMPLES_NAME)
        else:
            path = ""
        stored = files.read_json(path, "examples") if path else {}

        found: dict[str, list[Example]] = {}
        for name in self.names:
            rows = stored.get(name, [])
            if name == "explain":
                found[name] = found["text"]
                continue
            if name == "vectors" and not rows:  # the first texts of what it was trained for
                rows = [
                    {"text_a": example.row["text_a"]}
                    for example in found.get("text", [])
                    if "text_a" in example.row
                ]
            if not isinstance(rows, list):
                raise UserError(f"{path}: {name}: expected a list")
            golds = []
            texts = []
            for row in rows:
                golds.append(row.get(GOLD) if isinstance(row, dict) else None)
                texts.append(self._inline_example_of(name, row) if isinstance(row, dict) else row)
            try:
                texts = self.rows(name, texts)
            except UserError as e:
                raise UserError(f"{path}: {name}: {e}") from None
            examples = [self._example(name, *each) for each in zip(texts, golds)]
            # One that is answered right comes first; the others stay where they are, right or not.
            right = next((each for each in examples if each.is_right), None)
            if right:
                examples.remove(right)
                examples.insert(0, right)
            found[name] = examples[:_EXAMPLES]
        return found

    def _inline_example_of(self, signature: str, stored: Mapping[str, Any]) -> Row:
        """A stored example as a row of a request: without its label, and with an empty text for
        each choice that it has less than the model takes."""
        row = {name: value for name, value in stored.items() if name != GOLD}
        for name, count in self.inputs(signature).items():
            if count and isinstance(row.get(name), list):
                row[name] = row[name] + [""] * (count - len(row[name]))
        return row

    def _example(self, signature: str, row: Row, gold: Any) -> Example:
        """An example; if the data have its label, also whether the model predicts that label."""
        if gold is None:
            return Example(row, None, None)
        call = self.call(signature, {"top": 1} if signature == "fill" else {})
        (found,) = self.run(call, [row])
        if isinstance(found, UserError):
            return Example(row, gold, None)
        verb = "fill" if signature == "fill" else self.verb
        return Example(row, gold, _is_right(verb, row, found.result, gold, self.labels))

    # ---- what a request may have

    def inputs(self, signature: str) -> dict[str, Optional[int]]:
        """The inputs of a signature by name: the number of texts in a list, or None for a text."""
        if signature not in self._inputs:
            raise UserError(
                "no signature '{:.80}' (there are {})".format(signature, ", ".join(self.names))
            )
        return {
            name: len(self.labels or ()) if name == "choices" else None
            for name in sorted(self._inputs[signature])
        }

    def other_names(self, signature: str) -> dict[str, str]:
        """Further names of the inputs of a signature: those of the Python API, and of the columns
        in the data that the model was trained with."""
        inputs = self._inputs[signature]
        others = {"text_a": ["text"], "text_b": ["text_pair"], "text": ["text_a"]}
        others["prompt"] = ["text", "text_a"]
        tuned = self._model.inference.loaded.tuned
        if tuned:
            for name, own in (
                ("text_a", tuned.task.columns.text_a),
                ("text_b", tuned.task.columns.text_b),
            ):
                if len(own) == 1:  # of several columns one text is made
                    others[name].append(own[0])
        return {
            other: name for name in inputs for other in others.get(name, []) if other not in inputs
        }

    def signature(self, name: str) -> str:
        """The signature of this name, which a request may call serving_default."""
        name = self.default if name == "serving_default" else name
        self.inputs(name)
        return name

    def call(self, signature: str, parameters: Mapping[str, Any]) -> Call:
        """The first argument of `run` for a signature and the parameters of a request."""
        signature = self.signature(signature)
        if signature not in PARAMETERS_OF:
            if parameters:
                raise UserError(
                    "parameters: signature '{}' has none, found {}".format(
                        signature, ", ".join(map(str, parameters))
                    )
                )
            return Call(signature)
        layers, values = [1], dict(parameters)
        if signature == "attention":
            layers = values.pop("layers", layers)
            values.setdefault("most_tokens", MOST_TOKENS_SHOWN)
        settings: Any = from_keywords(
            PARAMETERS_OF[signature], values, "parameters", shown=_in_json
        )
        # What a loaded model may do is too much for a stranger's request.
        for name, most in limits_of(signature).items():
            value = getattr(settings, name)
            if value > most:
                aliases = field_of(PARAMETERS_OF[signature], name).metadata["aliases"]
                given_as = next((alias for alias in aliases if alias in parameters), name)
                raise UserError(f"parameters: {given_as} is {value}, expected at most {most}")
        tuned = self._model.inference.loaded.tuned
        if signature == "explain" and tuned:
            explanation.check_label(tuned, settings.label, "parameters")
        are_layers = isinstance(layers, list) and all(
            type(layer) is int and 1 <= layer <= self.n_layer for layer in layers
        )
        if signature == "attention" and not (are_layers and 1 <= len(layers) <= MOST_LAYERS):
            raise UserError(
                f"parameters: layers is {json.dumps(layers)!s:.80}, expected a list of 1 to "
                f"{MOST_LAYERS} layers, numbered from 1 to {self.n_layer}"
            )
        return Call(signature, settings, layers)

    def rows(self, signature: str, given: Sequence[Any]) -> list[Row]:
        """Examples in JSON, dicts or the value of the only input, as rows; UserError, with its
        number, for one that does not fit."""
        inputs, rows = self.inputs(signature), []
        for number, row in enumerate(given):
            if not isinstance(row, dict):
                if len(inputs) > 1:
                    raise UserError(
                        f"row {number} is {JSON_TYPES[type(row)]}, expected an object with "
                        + ", ".join(inputs)
                    )
                row = dict.fromkeys(inputs, row)
            other_names = self.other_names(signature)
            named: Row = {}
            given_as: dict[str, str] = {}  # the input -> its name in this request
            for name, value in row.items():
                own_name = str(other_names.get(name, name))
                if own_name in named:
                    raise UserError(
                        f"row {number} has {', '.join(each[:80] for each in row)}, expected each "
                        f"text once: {', '.join(inputs)}"
                    )
                named[own_name], given_as[own_name] = value, name
            if set(named) != set(inputs):
                raise UserError(
                    "row {} has {:.200}, expected {}".format(
                        number,
                        ", ".join(each[:80] for each in row) or "nothing",
                        ", ".join(inputs),
                    )
                )
            for name, count in inputs.items():
                said = _fault(given_as[name], named[name], count)
                if said:
                    raise UserError(f"row {number}: {said}")
            rows.append(named)
        return rows

    # ---- what it takes

    def size(self, row: Row) -> int:
        """About how many windows of the network a row is, in which batches count."""
        characters = sum(
            len(value) if isinstance(value, str) else max(map(len, value)) for value in row.values()
        )
        # What is cut costs no more than what is read of it.
        if not self._reads_all:
            return 1
        return 1 + characters // (_CHARACTERS * self._model.max_seq_length)

    def cost(self, call: Call, rows: Sequence[Row], budget: int) -> Optional[int]:
        """The memory of the largest row, tokens², of rows that are computed next to the batches:
        long texts, and those with settings. None: they go in batches. TooLarge for a row that is
        not within the budget."""
        settings = call.settings
        # The calls of long texts and of explanations keep nothing, and are within the budget.
        if settings is None:
            return 0 if max(map(self.size, rows)) > _LONG else None
        if call.signature == "explain":
            self._check_explained(settings, rows)
            return 0
        # Each beam, or sample, has keys and values of its own. Fillings have beams alone, attention
        # has neither.
        name, copies = "beams", getattr(settings, "beams", 0)
        if getattr(settings, "method", "beam") != "beam":
            name, copies = "samples", settings.samples
        tokens = max(self._kept(settings, row) for row in rows)
        # The text is read once; then each beam or sample keeps keys and values of its own.
        cost = tokens * max(tokens, _KEPT * copies)
        if cost > budget:
            of_copies, most, as_many = "", math.isqrt(budget), "(most_tokens)"
            if copies:
                of_copies, as_many = f" with {name}={copies}", f"with as many {name}"
                most = min(most, budget // (_KEPT * copies))
            raise TooLarge(
                f"an example of up to {tokens} tokens{of_copies} takes {cost}, at most {budget} "
                f"are computed (--budget): {most} tokens {as_many}"
            )
        return cost

    def needs_own_graph(self, call: Call, rows: Sequence[Row]) -> bool:
        """Whether a request reads with a copy of the language model's graph (`LanguageModel`), not
        in the batch of generated texts."""
        if call.signature != "generate":
            return call.signature in _OF_LANGUAGE_MODELS
        tokenizer = self._model.tokenizer
        return any(is_alone(tokenizer.ids(row["prompt"]), call.settings) for row in rows)

    def _check_explained(self, settings: ExplanationSettings, rows: Sequence[Row]) -> None:
        if settings.method != SERVED_EXPLANATION:
            raise UserError(
                f"parameters: method is {settings.method}, expected {SERVED_EXPLANATION}; xlnet "
                "explain has the other one"
            )
        total = 0
        for row in rows:
            words = sum(len(explanation.words_of(text)) for text in row.values())
            total += words
            if words > _MOST_WORDS:
                raise TooLarge(f"an example has {words} words, at most {_MOST_WORDS} are explained")
        if total > _MOST_WORDS_TOGETHER:
            raise TooLarge(
                f"{len(rows)} examples have {total} words, at most {_MOST_WORDS_TOGETHER} are "
                "explained at once"
            )

    def _kept(self, settings: Any, row: Mapping[str, Any]) -> int:
        """The tokens that the network keeps for a text, at most."""
        known = self._model.tokenizer.ids
        text = row.get("text", row.get("prompt"))
        if isinstance(settings, (AttentionSettings, FactorizationSettings)):
            return settings.most_tokens
        if isinstance(settings, GenerationSettings):
            return min(settings.context, len(known(text)) + settings.max_tokens)
        # Of a filling: the known text and the pieces of all blanks, whose probabilities are [P,V].
        parts = settings.split(text)
        pieces = settings.pieces_range()[-1] * (len(parts) - 1)
        if settings.order == "all" and settings.beams * pieces > _MOST_PREDICTED:
            raise UserError(
                f"parameters: beams is {settings.beams}, expected at most "
                f"{_MOST_PREDICTED // pieces} for {pieces} pieces in all orders"
            )
        return min(settings.context, len(known(" ".join(parts)))) + pieces

    # ---- answers

    def has_arrays(self, signature: str) -> bool:
        """Whether a list in an answer has as many values for every example: one of each label, of
        each sample, or the numbers of a vector."""
        if signature == "text":
            return self.verb in ("classify", "choose")
        return signature in ("vectors", "generate")

    def run(self, call: Call, rows: Sequence[Row]) -> list[Union[Computed, UserError]]:
        """The answers to rows, for `json`, with the counts of their tokens; that of a bad row is
        its UserError."""
        batched, items, form = self._batched(call, rows)
        found: list[Union[Computed, UserError]] = []
        for row, one in zip(rows, compute_all(batched, items, "return")):
            if isinstance(one, Computed):
                answer = _short(form(one.result))
                # An answer of one output is its value, as of TensorFlow Serving.
                if isinstance(answer, dict) and len(answer) == 1:
                    (answer,) = answer.values()
                characters_read = self._characters_read(call, row, one)
                one = one._replace(result=answer, characters_read=characters_read)
            found.append(one)
        return found

    def _characters_read(
        self, call: Call, row: Row, computed: Computed
    ) -> Optional[dict[str, list[tuple[int, int]]]]:
        """As of `Computed`, of a text or pair whose end or middle was cut."""
        is_pair = set(row) <= {"text_a", "text_b"}
        if not is_pair or (computed.tokens_read or 0) >= (computed.tokens or 0):
            return None
        if self.verb == "tag" and call.signature == "text":
            return None  # of all of its words, some lose their ends
        inference = self._model.inference
        tuned = inference.loaded.tuned
        layout = vectors.layout_of(inference.loaded)
        if tuned and call.signature != "vectors":
            layout = tuned.layout
        # Positions in a text with the task's replacements are not those of the request.
        if tuned and any(tuned.task.published.replaced(text) != text for text in row.values()):
            return None
        aligned = self._aligner.encode([row[name] for name in sorted(row)])
        # The numbers of the tokens are cut as their ids are.
        numbers = [list(range(len(each.ids))) for each in aligned]
        windows = encoding.fit_to_length(
            numbers[0], numbers[1] if len(numbers) > 1 else None, layout
        )
        spans: dict[str, list[tuple[int, int]]] = {}
        for name, text, kept in zip(sorted(row), aligned, windows[0]):
            spans[name] = []
            last = -1
            for number in kept or []:
                start, end = int(text.starts[number]), int(text.ends[number])
                # Tokens that follow each other are one part, with the space between them.
                if spans[name] and number - 1 == last:
                    spans[name][-1] = (spans[name][-1][0], end)
                else:
                    spans[name].append((start, end))
                last = number
        return spans

    def _batched(
        self, call: Call, rows: Sequence[Row]
    ) -> tuple[BatchedCall, list[Any], Callable[[Any], Any]]:
        """(the call of the model, its items, function from a result to an answer)."""
        inference, settings = self._model.inference, _keywords(call.settings)
        texts = {name: [row[name] for row in rows] for name in rows[0]}
        if call.signature == "vectors":
            return vectors.vectors_call(inference), texts["text_a"], _vector
        if call.signature == "fill":
            return filling.filling_call(inference, **settings), texts["text"], _filled
        if call.signature == "generate":
            return generation.generation_call(inference, **settings), texts["prompt"], _written
        if call.signature == "attention":
            batched = attention.attention_call(inference, call.layers, call.settings)
            return batched, texts["text"], _attention
        if call.signature == "factorize":
            batched = factorization.factorization_call(inference, call.settings)
            return batched, texts["text"], _factorized
        columns = [texts[name] for name in _ORDER if name in texts]
        if self.verb == "rank" and call.signature == "text":  # each document by itself
            columns[1] = [[document] for document in columns[1]]
        items: list[Any] = columns[0] if len(columns) == 1 else list(zip(*columns))
        if call.signature == "explain":
            return explanation.explanation_call(inference, **settings), items, _explained
        return prediction_call(inference), items, self._predicted

    def _predicted(self, result: Any) -> dict[str, Any]:
        return results.as_json(
            result[0].score if self._model.verb == "rank" else result, self.labels
        )

    def stream(self, call: Call, row: Row) -> Generator[dict[str, Any], None, None]:
        """Yields the parts of a generated text as they come."""
        parts: Any = self._model.stream(row["prompt"], **_keywords(call.settings))
        tokens = len(self._model.tokenizer.ids(row["prompt"]))
        counts = {"tokens_read": tokens, "tokens": tokens}
        try:
            for part in parts:
                yield {
                    "number": part.number,
                    "text": part.text,
                    **(
                        {}
                        if part.probability is None
                        else {"probability": _short(part.probability)}
                    ),
                    **({"ended": part.whole.ended, **counts} if part.whole else {}),
                }
        finally:
            parts.close()


def _has_gpu(device: DeviceSettings) -> bool:
    import tensorflow.compat.v1 as tf

    return device.device != "cpu" and bool(tf.config.list_physical_devices("GPU"))


_ABOUT = {  # by the method of `xlnet.load`
    "classify": "Assigns labels to a text",
    "score": "Gives a text a score",
    "choose": "Chooses the right one of several answers",
    "rank": "Tells how relevant a document is for a query",
    "answer": "Answers a question from a text",
    "tag": "Finds entities in a text",
    None: "A pretrained language model",
}
_SHOWN_FIRST = ("text", "explain", "fill", "factorize", "generate", "attention", "vectors")


def _is_right(
    verb: Optional[str], row: Row, answer: Any, gold: Any, labels: Optional[Sequence[str]]
) -> Optional[bool]:
    """Whether an answer of `ServedModel.run` is the label of the data; None: there is no such."""
    if verb == "fill":
        return bool(answer["words"]) and answer["words"][0] == [gold]
    if verb == "classify" and "is_label" in answer:
        chosen = [name for name, is_label in zip(labels or (), answer["is_label"]) if is_label]
        return sorted(chosen) == sorted(gold)
    if verb == "classify":
        return answer["label"] == gold
    if verb == "choose":
        return row["choices"][int(np.argmax(answer["probabilities"]))] == gold
    if verb == "answer":
        return answer["answer"] in gold if gold else not answer["answer"]
    if verb == "tag":
        return answer["tags"] == list(gold)
    return None


def _in_json(value: object) -> str:
    """A value as a request has it."""
    return json.dumps(value, ensure_ascii=False)


def _keywords(settings: Any) -> dict[str, Any]:
    """The keyword arguments of a call for its settings; None: it has none."""
    if settings is None:
        return {}
    return {
        name: list(stop_texts(value)) if name in TEXTS and value else value
        for name, value in dataclasses.asdict(settings).items()
    }


def _fault(name: str, value: Any, count: Optional[int]) -> Optional[str]:
    """What is wrong with an input, a text or a list of `count` texts."""
    if count is None:
        if not isinstance(value, str):
            return f"'{name}' is {JSON_TYPES[type(value)]}, expected a string"
        texts = [value]
    else:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            return f"'{name}' is not an array of strings"
        if len(value) != count:
            return f"'{name}' has {len(value)} values, expected {count}"
        texts = value
    if not all(map(is_text, texts)):
        return f"'{name}' has half a character: an escape like \\ud800 by itself"
    return None


def _short(value: Any) -> Any:
    """An answer with the fewest digits of its float32 numbers, as of an export."""
    if isinstance(value, dict):
        return {name: _short(each) for name, each in value.items()}
    return (
        [_short(each) for each in value]
        if isinstance(value, (list, tuple))
        else float(str(np.float32(value)))
        if isinstance(value, float)
        else value
    )


def _vector(vector: np.ndarray) -> dict[str, Any]:
    return {"vector": vector.tolist()}


def _explained(found: explanation.Explanation) -> dict[str, Any]:
    return {
        "words": found.words,
        "weights": found.weights.tolist(),
        "first_words": found.first_words,
        "output": found.output,
        "value": found.value,
    }


def _attention(found: attention.Attention) -> dict[str, Any]:
    return {
        "pieces": found.pieces,
        "layers": found.layers,
        "places": None if found.places is None else found.places.tolist(),
        "streams": {
            name: np.round(values.astype(float), 4).tolist()
            for name, values in found.streams.items()
        },
        "sees": {name: (~hidden).tolist() for name, hidden in found.hidden.items()},
    }


def _factorized(found: factorization.Factorization) -> dict[str, Any]:
    # Of a known token, which is not predicted, the numbers are null and the lists empty.
    is_known = found.likelier < 0
    return {
        "pieces": found.pieces,
        "order": found.order,
        "known": found.known,
        "candidates": found.candidates,
        "probabilities": [np.exp(each).tolist() for each in found.candidate_log_probabilities],
        "log_probabilities": [
            None if known else float(value)
            for known, value in zip(is_known, found.log_probabilities)
        ],
        "likelier": [
            None if known else int(count) for known, count in zip(is_known, found.likelier)
        ],
        "sees": {
            "content": (~found.content_hides).tolist(),
            "query": (~found.query_hides).tolist(),
        },
        "query_attention": np.round(found.query_attention, 4).tolist(),
    }


def _filled(fillings: Sequence[filling.Filling]) -> dict[str, Any]:
    return {
        "texts": [each.text for each in fillings],
        "words": [each.words for each in fillings],
        "probabilities": [each.probability for each in fillings],
    }


def _written(texts: Any) -> dict[str, Any]:
    """The outputs for a generated text, or several."""
    found = texts if isinstance(texts, list) else [texts]
    return {
        "texts": [one.text for one in found],
        "ended": [one.ended for one in found],
        "log_probabilities": [one.log_probability for one in found],
    }
