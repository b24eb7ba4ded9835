"""The model of a model directory behind the server: its signatures, instances from and to JSON.

A fine-tuned model has `text`, what it was trained for, and `explain`, how much each word counts for
it; a pretrained one has `fill`, `factorize`, `generate` and `attention`; both have `vectors`. An
instance is a dict: texts by name, or lists of texts (choices).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from xlnet.corpus.tokenizer import is_text
from xlnet.inference import explanation, inference
from xlnet.inference.inference import Computed
from xlnet.inference.model import Model
from xlnet.inference.settings import BLANK
from xlnet.runs import model_files
from xlnet.server import limits
from xlnet.server.turns import Turns
from xlnet.settings.devices import DeviceSettings
from xlnet.support.errors import UserError, wrong
from xlnet.tasks.task import InlineExample

_OF_OBJECTIVE = {  # the signatures of pretrained models, with the input of each
    "permutation": {
        "fill": "text",
        "factorize": "text",
        "generate": "prompt",
        "attention": "text",
    },
    "causal": {"generate": "prompt", "attention": "text"},
}
_SQUARE = ("factorize", "attention")  # whose answers have a number for each two tokens

Row = dict[str, Any]  # an instance: str by name, or a list of str


class Call(NamedTuple):
    """A signature with the parameters of a request, and the call of the model that they are."""

    signature: str
    parameters: dict[str, Any]
    of_model: inference.Call


class Answer(NamedTuple):
    """The answer to an instance, for `json`.

    Attributes:
      tokens: of its texts, without special ones.
      tokens_read: how many of them the network reads; the others are cut.
      unknown_tokens: how many of `tokens` the vocabulary does not know.
      characters_unknown: the [start, end] of these in each text; None: there are none, or they are
        not those of the request, as the task replaces parts of texts.
    """

    prediction: Any
    tokens: int
    tokens_read: int
    unknown_tokens: int
    characters_unknown: Optional[dict[str, list[tuple[int, int]]]]


class ServedModel:
    """A model loaded as by `xlnet.load`. Any number of threads may call it.

    Attributes:
      verb: the method of `xlnet.load` for the signature `text`; None: it has none.
      labels: names in the order of the probabilities; None: it has none.
      names: of its signatures.
      default: the signature of requests that name none.
      turns: of the network.
    """

    def __init__(self, path: str, device: DeviceSettings, **given: Any):
        found = model_files.read(path, **given)
        most_tokens = limits.CALL_TOKENS_CPU
        if _has_gpu(device):
            most_tokens = limits.CALL_TOKENS_GPU
        self._model = model = Model(found, device, limits.MAX_BATCH, most_tokens)
        self.turns = Turns()
        model.session.call = self.turns.call
        self._loaded, self._tuned = found, found.tuned
        self.path, self.verb = path, model.verb
        self.labels = list(model.labels) if model.labels else None
        # The signatures with their inputs, in the order that they are shown.
        self._inputs: dict[str, tuple[str, ...]] = {}
        if self._tuned:
            self._inputs["text"] = self._tuned.task.reader.texts
            if self.verb in explanation.VERBS:
                self._inputs["explain"] = self._inputs["text"]
        else:
            for name, text in _OF_OBJECTIVE.get(found.objective, {}).items():
                self._inputs[name] = (text,)
        self._inputs["vectors"] = ("text_a",)
        self.names = list(self._inputs)
        self.default = self.names[0]
        self._warm_up()

    def close(self) -> None:
        """Frees the memory of the weights."""
        self._model.close()

    def _warm_up(self) -> None:
        """Builds all graphs, so that no request waits for them."""
        # One piece fills a blank where pieces are words, two where they are characters.
        parameters = {"fill": {"most_pieces": 2}, "generate": {"max_tokens": 1}}
        for name in self.names:
            row: Row = {}
            for key, count in self.inputs(name).items():
                text = "a " + BLANK if name == "fill" else "a"
                row[key] = [text] * count if count else text
            call = self.call(name, parameters.get(name, {}))
            (found,) = self.run(call, [row])
            if isinstance(found, UserError):
                raise found
        if "generate" in self.names:
            self._model.language_model().prepare(limits.READING)

    def describe(self) -> dict[str, Any]:
        """What it is and what it takes, for `json`."""
        config = self._loaded.config
        return {
            "model": {
                "layers": config.n_layer,
                "width": config.d_model,
                "vocabulary": config.n_token,
                "objective": None if self._tuned else self._loaded.objective,
                "task": self._tuned.task.name if self._tuned else None,
                "checkpoint": os.path.basename(self._loaded.prefix),
            },
            "labels": self.labels,
            "verb": self.verb,
            "default_signature": self.default,
            "signatures": {name: list(self.inputs(name)) for name in self.names},
        }

    # ---- what a request may have

    def inputs(self, signature: str) -> dict[str, Optional[int]]:
        """The inputs of a signature by name: the number of texts in a list, or None for a text."""
        found: dict[str, Optional[int]] = {}
        for name in sorted(self._inputs[signature]):
            found[name] = len(self.labels or ()) if name == "choices" else None
        return found

    def call(self, signature: str, parameters: dict[str, Any]) -> Call:
        """A signature with the parameters of a request, checked."""
        if signature not in self._inputs:
            expected = "one of " + ", ".join(self._inputs)
            raise wrong("signature_name", f"{signature!r:.80}", expected)
        if parameters and signature in ("text", "vectors"):
            found = ", ".join(parameters)[:80]
            raise wrong("parameters", found, f"none for {signature}")
        for name, most in limits.MAX_OF_PARAMETER.items():
            value = parameters.get(name, 0)
            size = len(value) if isinstance(value, list) else value
            if isinstance(size, (int, float)) and size > most:
                raise wrong(f"parameters: {name}", size, f"at most {most}")
        verb = "predict" if signature == "text" else signature
        try:
            return Call(signature, parameters, self._model.call(verb, **parameters))
        except (UserError, TypeError) as e:  # TypeError: an unknown name
            raise UserError(f"parameters: {e}") from None

    def rows(self, call: Call, instances: Sequence[Any]) -> list[Row]:
        """Instances in JSON, dicts or the value of the only input, as rows, checked."""
        inputs = self.inputs(call.signature)
        expected = ", ".join(inputs)
        rows: list[Row] = []
        for number, row in enumerate(instances):
            where = f"instance {number}"
            if not isinstance(row, dict) and len(inputs) == 1:
                row = dict.fromkeys(inputs, row)
            if not isinstance(row, dict):
                raise wrong(where, json.dumps(row)[:80], f"an object with {expected}")
            if set(row) != set(inputs):
                raise wrong(where, ", ".join(row)[:200] or "nothing", expected)
            for name, count in inputs.items():
                texts = [row[name]] if count is None else row[name]
                if not isinstance(texts, list) or len(texts) != (count or 1):
                    shown = json.dumps(row[name])[:80]
                    expected = f"an array of {count} strings"
                    raise wrong(f"{where}: {name}", shown, expected)
                for text in texts:
                    self._check_text(f"{where}: {name}", text, call.signature)
            rows.append(row)
        return rows

    def _check_text(self, where: str, text: Any, signature: str) -> None:
        most = limits.MAX_CHARACTERS
        if not isinstance(text, str) or not is_text(text) or len(text) > most:
            expected = f"a string of up to {most} characters"
            raise wrong(where, json.dumps(text)[:80], expected)
        if signature in _SQUARE:
            tokens = len(self._model.tokenizer.ids(text))
            if tokens > limits.MAX_SQUARE:
                raise wrong(where, f"{tokens} tokens", f"at most {limits.MAX_SQUARE}")

    def batch(self, call: Call, rows: Sequence[Row]) -> Optional[str]:
        """What a request is computed together with: the name of its call, if the model computes
        several at once, and it has few and short texts."""
        if call.of_model.at_once == 1 or len(rows) > limits.MAX_BATCH:
            return None
        if max(len(str(row)) for row in rows) > limits.MAX_SHORT:
            return None
        return json.dumps([call.signature, call.parameters], sort_keys=True)

    def keeps_tokens(self, call: Call) -> bool:
        """Whether a request keeps tokens on the device."""
        return call.signature in _OF_OBJECTIVE["permutation"]

    # ---- answers

    def run(self, call: Call, rows: Sequence[Row]) -> list[Union[Answer, UserError]]:
        """The answer to each row; that of a bad one is its UserError."""
        items: list[Any] = []
        for row in rows:
            if call.signature in ("text", "explain"):
                first = row["context"] if "context" in row else row["text_a"]
                second = row.get("question", row.get("text_b"))
                items.append(
                    InlineExample(first, second, tuple(row.get("choices", ())))
                )
            else:
                items += row.values()  # the only one
        answers: list[Any] = []
        for row, found in zip(rows, call.of_model.results(items)):
            if isinstance(found, UserError):
                answers.append(found)
            else:
                answers.append(self._answer(call, row, found))
        return answers

    def stream(self, call: Call, row: Row) -> Iterator[dict[str, Any]]:
        """Yields the parts of a generated text as they come; its last one says what was read."""
        for part in self._model.stream(row["prompt"], **call.parameters):
            shown: dict[str, Any] = {"text": part.text}
            if part.probability is not None:
                shown["probability"] = _plain(part.probability)
            if part.whole:
                shown["ended"] = part.whole.ended
                unknown = self._model.unknown_parts(row["prompt"])
                shown["unknown_tokens"] = len(unknown)
                shown["characters_unknown"] = {"prompt": unknown} if unknown else None
            yield shown

    def _answer(self, call: Call, row: Row, found: Computed) -> Answer:
        prediction = found.result
        # By the names of an exported model; a score stands for itself.
        if call.signature == "text" and hasattr(prediction, "named"):
            prediction = prediction.named(self.labels)
        return Answer(
            _plain(prediction),
            found.tokens,
            found.tokens_read,
            found.unknown_tokens,
            self._unknown(row, found.unknown_tokens),
        )

    def _unknown(
        self, row: Row, count: Optional[int]
    ) -> Optional[dict[str, list[tuple[int, int]]]]:
        """The `characters_unknown` of a row with so many unknown tokens."""
        if not count:
            return None
        parts = {}
        for name, text in sorted(row.items()):
            if isinstance(text, str):
                if self._tuned and self._tuned.task.published.replaced(text) != text:
                    return None
                no_blanks = text.replace(BLANK, " " * len(BLANK))
                parts[name] = self._model.unknown_parts(no_blanks)
        return parts


def _has_gpu(device: DeviceSettings) -> bool:
    import tensorflow.compat.v1 as tf

    return device.device != "cpu" and bool(tf.config.list_physical_devices("GPU"))


def _plain(value: Any) -> Any:
    """A value for `json`: arrays as lists, results by the names of their attributes, nan as null,
    and the fewest digits of float32."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return None if np.isnan(value) else float(str(np.float32(value)))
    return value
