"""The model of a model directory behind the server: its signatures, instances from and to JSON.

A fine-tuned model has `text`, what it was trained for, and, if that is to classify, score or rank,
`explain`, how much each word counts; a pretrained one has `generate` and `attention`, with a query
stream also `fill` and `factorize`; both have `vectors`. A row is an instance of a request once it
is checked: texts, or a list of texts (choices), by the names of the signature's inputs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.corpus.tokenizer import is_text
from xlnet.inference.load import open_model
from xlnet.inference.prediction import EXPLAINED
from xlnet.inference.settings import BLANK, BLANKS, LoadSettings
from xlnet.server import limits
from xlnet.server.turns import Turns
from xlnet.support.errors import UserError, wrong
from xlnet.tasks.fields import InlineExample

_PRETRAINED_SIGNATURES = {  # the signatures of pretrained models, besides `vectors`
    "permutation": ("fill", "factorize", "generate", "attention"),
    "causal": ("generate", "attention"),
}
_SQUARE = ("factorize", "attention")  # signatures with a number for each two tokens

Row = dict[str, Any]  # a checked instance: str or list[str] by name


class Call(NamedTuple):
    """A signature with the parameters of a request.

    Attributes:
      signature: the name of the signature.
      parameters: settings by name.
      method: the `inference.method.Method` that computes it, with the parameters as its settings.
    """

    signature: str
    parameters: dict[str, Any]
    method: Any

    @property
    def keeps_tokens(self) -> bool:
        """Whether computing it keeps tokens, those read and those generated, on the device between
        its calls of the network: those of a language model do."""
        # Those of a causal model are among them.
        return self.signature in _PRETRAINED_SIGNATURES["permutation"]

    def batch_name(self, rows: Sequence[Row]) -> str | None:
        """The name of the batch in which these rows are computed together with those of other
        requests, the same for equal calls; None: these rows are computed alone, as the method
        computes one row at a time, or there are many or long ones."""
        if self.method.at_once == 1 or len(rows) > limits.MAX_BATCH:
            return None
        # As a string, a row is about as long as its texts.
        if max(len(str(row)) for row in rows) > limits.MAX_SHORT:
            return None
        return json.dumps([self.signature, self.parameters], sort_keys=True)


class Answer(NamedTuple):
    """The answer to a row, of values that `json` can write.

    Attributes:
      prediction: the result of the method.
      tokens: the number of tokens of the row's texts, without special ones.
      tokens_read: how many of them the network reads; the others are cut.
      unknown_tokens: how many of `tokens` are not in the vocabulary.
    """

    prediction: Any
    tokens: int
    tokens_read: int
    unknown_tokens: int


class ServedModel:
    """A model loaded as by `xlnet.load`. Any number of threads may call it.

    Attributes:
      labels: names in the order of the probabilities; None: it has none.
      inputs: for each signature its inputs by name, in the order in which they are shown: None for
        a text, the number of texts for a list.
      default: the signature of requests that name none.
      turns: in which all calls of the network wait.
    """

    def __init__(self, settings: LoadSettings):
        has_gpu = settings.device != "cpu" and tf.config.list_physical_devices("GPU")
        most_tokens = limits.CALL_TOKENS_GPU if has_gpu else limits.CALL_TOKENS_CPU
        self._model = model = open_model(settings, limits.MAX_BATCH, most_tokens)
        self.turns = Turns()
        model.session.call_in_turn = self.turns.call  # for all methods of the model
        self.labels = list(model.labels) if model.labels else None
        loaded = model.loaded
        self.inputs: dict[str, dict[str, int | None]] = {}
        if loaded.tuned:
            texts = self.inputs["text"] = dict.fromkeys(sorted(loaded.tuned.task.texts))
            if "choices" in texts:  # a list of as many texts as there are labels
                texts["choices"] = len(self.labels or ())
            if model.verb in EXPLAINED:
                self.inputs["explain"] = texts
        else:  # with other objectives a model has `vectors` alone
            for signature in _PRETRAINED_SIGNATURES.get(loaded.objective, ()):
                name = "prompt" if signature == "generate" else "text"
                self.inputs[signature] = {name: None}
        self.inputs["vectors"] = {"text_a": None}
        self.default = next(iter(self.inputs))
        self._warm_up()

    def _warm_up(self) -> None:
        """Answers a row of each signature, which builds all graphs, so that no request waits for
        them."""
        # For `fill`: where the pieces of the vocabulary are characters, a blank after a space needs
        # two of them, the mark of the space and a character.
        parameters = {"fill": {"most_pieces": 2}, "generate": {"max_tokens": 1}}
        for name, inputs in self.inputs.items():
            text = "a " + BLANK if name == "fill" else "a"
            row: Row = {}
            for key, count in inputs.items():
                row[key] = [text] * count if count else text
            call = self.call(name, parameters.get(name, {}))
            (answer,) = self.run(call, [row])
            if isinstance(answer, UserError):
                raise answer
        # A copy of the language model's graph for each request that may keep tokens at once.
        if "generate" in self.inputs:
            self._model.language_model().build_copies(limits.MAX_KEEPING_TOKENS)

    def describe(self) -> dict[str, Any]:
        """What the model is and what it takes, for `json`."""
        loaded, verb = self._model.loaded, self._model.verb
        return {
            "model": {
                "layers": loaded.config.n_layer,
                "width": loaded.config.d_model,
                "vocabulary": loaded.config.n_token,
                "objective": None if verb else loaded.objective,
                "task": self._model.task,
                "checkpoint": os.path.basename(loaded.prefix),
            },
            "labels": self.labels,
            "verb": verb,
            "default_signature": self.default,
            "signatures": {name: list(self.inputs[name]) for name in self.inputs},
        }

    # ---- what a request may have

    def call(self, signature: str, parameters: dict[str, Any]) -> Call:
        """A signature with the parameters of a request; UserError if there is no such signature, or
        a parameter is unknown or not allowed."""
        if signature not in self.inputs:
            expected = "one of " + ", ".join(self.inputs)
            raise wrong("signature_name", f"{signature!r:.80}", expected)
        if parameters and signature in ("text", "vectors"):
            found = ", ".join(parameters)[:80]
            raise wrong("parameters", found, f"none for {signature}")
        # Other limits, and the types, are checked by the method.
        for name, most in limits.MAX_OF_PARAMETER.items():
            value = parameters.get(name, 0)
            size = len(value) if isinstance(value, list) else value
            if isinstance(size, (int, float)) and size > most:
                raise wrong(f"parameters: {name}", size, f"at most {most}")
        method_name = "predict" if signature == "text" else signature
        try:
            return Call(
                signature, parameters, self._model.method(method_name, **parameters)
            )
        except UserError as e:
            raise UserError(f"parameters: {e}") from None

    def check_instances(self, call: Call, instances: Sequence[Any]) -> list[Row]:
        """The instances of a request as rows; UserError, which has the number of the instance, if
        one is wrong. An instance is a dict or, of a signature with one input, its value."""
        inputs = self.inputs[call.signature]
        rows = []
        for number, row in enumerate(instances):
            where = f"instance {number}"
            if not isinstance(row, dict) and len(inputs) == 1:
                row = dict.fromkeys(inputs, row)  # by the only name
            if not isinstance(row, dict) or set(row) != set(inputs):
                expected = f"an object with {', '.join(inputs)}"
                raise wrong(where, json.dumps(row)[:200], expected)
            for name, count in inputs.items():  # count: None for a text, or of a list
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
        """Raises UserError, which begins with `where`, unless `text` is one that the signature
        takes."""
        most = limits.MAX_CHARACTERS
        if not isinstance(text, str) or not is_text(text) or len(text) > most:
            expected = f"a string of up to {most} characters"
            raise wrong(where, json.dumps(text)[:80], expected)
        if signature in _SQUARE:
            tokens = len(self._model.tokenizer.ids(text))
            if tokens > limits.MAX_SQUARE:
                raise wrong(where, f"{tokens} tokens", f"at most {limits.MAX_SQUARE}")

    # ---- answers

    def run(self, call: Call, rows: Sequence[Row]) -> list[Answer | UserError]:
        """The answer to each row, in their order; for a bad row its UserError."""
        items: list[Any] = []  # what the method takes for each row
        for row in rows:
            if call.signature in ("text", "explain"):
                items.append(_example_of(row))
            else:
                items += row.values()  # other signatures have a single input
        answers: list[Any] = []
        for row, computed in zip(rows, call.method.results(items)):
            if isinstance(computed, UserError):
                answers.append(computed)
                continue
            result = computed.result
            # `text` names its results as an exported model does; a score is a plain number.
            if call.signature == "text" and hasattr(result, "named"):
                result = result.named()
            tokens, read = int(computed.tokens), int(computed.tokens_read)
            unknown = self._unknown_tokens(call, row)
            answers.append(Answer(_json_value(result), tokens, read, unknown))
        return answers

    def stream(self, call: Call, row: Row) -> Iterator[dict[str, Any]]:
        """Yields the parts of a generated text as they are generated: {"text": ..., "probability":
        ...}, of a beam search the text alone. The last part also has how the text "ended", and the
        "unknown_tokens" of the prompt."""
        for chunk in call.method.stream(row["prompt"]):
            part: dict[str, Any] = {"text": chunk.text}
            if chunk.probability is not None:
                part["probability"] = _json_value(chunk.probability)
            if chunk.whole:  # the complete text, which only the last chunk has
                part["ended"] = chunk.whole.ended
                part["unknown_tokens"] = self._unknown_tokens(call, row)
            yield part

    def _unknown_tokens(self, call: Call, row: Row) -> int:
        """How many tokens of the texts of a row are not in the vocabulary."""
        tuned, tokenizer = self._model.loaded.tuned, self._model.tokenizer
        # Tokens are counted in the texts as the network reads them: a task may replace parts of a
        # text, or read it several times. Blanks are not tokens.
        texts = []
        if tuned and call.signature in ("text", "explain"):
            for pair in tuned.task.row(_example_of(row)).pairs:
                texts += [text for text in pair if text is not None]
        else:
            for text in row.values():
                if call.signature == "fill":
                    text = BLANKS.sub(" ", text)
                texts.append(self._model.published.replaced(text))
        ids, _ = tokenizer.encode_to_array(texts)
        return int(np.count_nonzero(ids == tokenizer.unk_id))


def _example_of(row: Row) -> InlineExample:
    """A row as an example of its task: texts are "context" and "question" in question answering,
    "text_a" and perhaps "text_b" in other tasks."""
    first = row["context"] if "context" in row else row["text_a"]
    second = row.get("question", row.get("text_b"))
    return InlineExample(first, second, tuple(row.get("choices", ())))


def _json_value(value: Any) -> Any:
    """A value that `json` can write: arrays as lists, NamedTuples as dicts, nan as None, and floats
    with the fewest digits that give the same float32."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _json_value(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(each) for each in value]
    if isinstance(value, float):
        return None if np.isnan(value) else float(str(np.float32(value)))
    return value
