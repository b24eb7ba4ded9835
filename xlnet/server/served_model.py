"""The model of a model directory behind the server: its signatures, instances from and to JSON.

A fine-tuned model has `text`, what it was trained for, and `explain`, how much each word counts for
it; a pretrained one has `fill`, `factorize`, `generate` and `attention`; both have `vectors`. An
instance is a dict: texts by name, or lists of texts (choices).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.corpus.offsets import align
from xlnet.corpus.tokenizer import is_text
from xlnet.inference.load import open_model
from xlnet.inference.prediction import EXPLAINED
from xlnet.inference.settings import BLANK, BLANKS, LoadSettings
from xlnet.server import limits
from xlnet.server.turns import Turns
from xlnet.support.errors import UserError, wrong
from xlnet.tasks.task import InlineExample

_OF_OBJECTIVE = {  # the signatures of pretrained models
    "permutation": ("fill", "factorize", "generate", "attention"),
    "causal": ("generate", "attention"),
}
_SQUARE = ("factorize", "attention")  # whose answers have a number for each two tokens

Row = dict[str, Any]  # an instance: str by name, or a list of str


class Call(NamedTuple):
    """What a request asks for.

    Attributes:
      signature: its name.
      parameters: those of the request.
      method: the `Method` of the model that computes it, with the parameters as its settings.
    """

    signature: str
    parameters: dict[str, Any]
    method: Any

    @property
    def keeps_tokens(self) -> bool:
        """Whether a request keeps tokens on the device."""
        return self.signature in _OF_OBJECTIVE["permutation"]

    def batch(self, rows: Sequence[Row]) -> str | None:
        """What a request with these rows is computed together with, a name that equal calls share;
        None: it is computed alone, as the model computes one at a time, or the request has many or
        long texts."""
        if self.method.at_once == 1 or len(rows) > limits.MAX_BATCH:
            return None
        if max(len(str(row)) for row in rows) > limits.MAX_SHORT:
            return None
        return json.dumps([self.signature, self.parameters], sort_keys=True)


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
    characters_unknown: dict[str, list[tuple[int, int]]] | None


class ServedModel:
    """A model loaded as by `xlnet.load`. Any number of threads may call it.

    Attributes:
      labels: names in the order of the probabilities; None: it has none.
      inputs: those of each signature, in the order in which they are shown, by name: the number of
        texts in a list, or None for a text.
      default: the signature of requests that name none.
      turns: of the network.
    """

    def __init__(self, settings: LoadSettings):
        has_gpu = settings.device != "cpu" and tf.config.list_physical_devices("GPU")
        most = limits.CALL_TOKENS_GPU if has_gpu else limits.CALL_TOKENS_CPU
        self._model = model = open_model(settings, limits.MAX_BATCH, most)
        self.turns = Turns()
        model.session.call = self.turns.call
        self.labels = list(model.labels) if model.labels else None
        loaded = model.loaded
        self.inputs: dict[str, dict[str, int | None]] = {}
        if loaded.tuned:
            texts = self.inputs["text"] = dict.fromkeys(sorted(loaded.tuned.task.texts))
            if "choices" in texts:
                texts["choices"] = len(self.labels or ())
            if model.verb in EXPLAINED:
                self.inputs["explain"] = texts
        else:
            for signature in _OF_OBJECTIVE.get(loaded.objective, ()):
                name = "prompt" if signature == "generate" else "text"
                self.inputs[signature] = {name: None}
        self.inputs["vectors"] = {"text_a": None}
        self.default = next(iter(self.inputs))
        self._warm_up()

    def _warm_up(self) -> None:
        """Builds all graphs, so that no request waits for them."""
        # One piece fills a blank where pieces are words, two where they are characters.
        parameters = {"fill": {"most_pieces": 2}, "generate": {"max_tokens": 1}}
        for name, inputs in self.inputs.items():
            text = "a " + BLANK if name == "fill" else "a"
            row: Row = {}
            for key, count in inputs.items():
                row[key] = [text] * count if count else text
            call = self.call(name, parameters.get(name, {}))
            (found,) = self.run(call, [row])
            if isinstance(found, UserError):
                raise found
        if "generate" in self.inputs:
            self._model.language_model().prepare(limits.READING)

    def describe(self) -> dict[str, Any]:
        """What it is and what it takes, for `json`."""
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
        """A signature with the parameters of a request, checked."""
        if signature not in self.inputs:
            expected = "one of " + ", ".join(self.inputs)
            raise wrong("signature_name", f"{signature!r:.80}", expected)
        if parameters and signature in ("text", "vectors"):
            found = ", ".join(parameters)[:80]
            raise wrong("parameters", found, f"none for {signature}")
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
        except (UserError, TypeError) as e:  # TypeError: an unknown name
            raise UserError(f"parameters: {e}") from None

    def rows(self, call: Call, instances: Sequence[Any]) -> list[Row]:
        """Instances in JSON, dicts or the value of the only input, as rows, checked."""
        inputs = self.inputs[call.signature]
        rows = []
        for number, row in enumerate(instances):
            where = f"instance {number}"
            if not isinstance(row, dict) and len(inputs) == 1:
                row = dict.fromkeys(inputs, row)
            if not isinstance(row, dict) or set(row) != set(inputs):
                expected = f"an object with {', '.join(inputs)}"
                raise wrong(where, json.dumps(row)[:200], expected)
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
        """Raises UserError, which begins with `where`, unless this is a text for a signature."""
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
        """The answer to each row; that of a bad one is its UserError."""
        items: list[Any] = []
        for row in rows:
            if call.signature in ("text", "explain"):
                items.append(_example_of(row))
            else:
                items += row.values()  # other signatures have a single input
        answers: list[Any] = []
        for row, found in zip(rows, call.method.results(items)):
            if isinstance(found, UserError):
                answers.append(found)
                continue
            result = found.result
            # `text` names its results as an exported model does; a score is a plain number.
            if call.signature == "text" and hasattr(result, "named"):
                result = result.named()
            unknown = self._unknown(call, row)
            read, total = int(found.tokens_read), int(found.tokens)
            answers.append(Answer(_plain(result), total, read, *unknown))
        return answers

    def stream(self, call: Call, row: Row) -> Iterator[dict[str, Any]]:
        """Yields the parts of a generated text as they come; its last one says what was read."""
        for part in call.method.stream(row["prompt"]):
            shown: dict[str, Any] = {"text": part.text}
            if part.probability is not None:
                shown["probability"] = _plain(part.probability)
            if part.whole:
                shown["ended"] = part.whole.ended
                unknown = self._unknown(call, row)
                shown["unknown_tokens"], shown["characters_unknown"] = unknown
            yield shown

    def _unknown(self, call: Call, row: Row) -> tuple[int, dict[str, Any] | None]:
        """`unknown_tokens` and `characters_unknown` of a row."""
        # The texts as the network reads them: a task may replace parts, or read one several times.
        tuned, tokenizer = self._model.loaded.tuned, self._model.tokenizer
        published = self._model.published
        if call.signature == "fill":  # blanks are no tokens
            blanks = BLANKS.sub(lambda found: " " * len(found[0]), row["text"])
            row = {"text": blanks}
        if tuned and call.signature in ("text", "explain"):
            pairs = tuned.task.row(_example_of(row)).pairs
            texts = [text for pair in pairs for text in pair if text is not None]
        else:
            texts = list(map(published.replaced, row.values()))
        ids, _ = tokenizer.encode_to_array(texts)
        count = int(np.count_nonzero(ids == tokenizer.unk_id))
        if not count:
            return 0, None
        parts = {}
        for name, given in sorted(row.items()):
            if not isinstance(given, str):
                continue
            if published.replaced(given) != given:
                return count, None
            aligned = align(tokenizer, given)
            spans = np.stack([aligned.starts, aligned.ends], axis=1)
            unknown = spans[aligned.ids == tokenizer.unk_id]
            parts[name] = list(map(tuple, unknown.tolist()))
        return count, parts


def _example_of(row: Row) -> InlineExample:
    """The example of a row for a task."""
    first = row["context"] if "context" in row else row["text_a"]
    second = row.get("question", row.get("text_b"))
    return InlineExample(first, second, tuple(row.get("choices", ())))


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
