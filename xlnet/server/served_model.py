"""The model of a model directory behind the server: its signatures, instances from and to JSON.

A fine-tuned model has `text`, what it was trained for, and `explain`, how much each word counts for
it; a pretrained one has `fill`, `factorize`, `generate` and `attention`; both have `vectors`. An
instance is a dict: texts by name, or lists of texts (choices).
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from xlnet.corpus.tokenizer import is_text
from xlnet.inference import explanation, vectors
from xlnet.inference.model import Model
from xlnet.inference.settings import (
    BLANK,
    AttentionSettings,
    ExplanationSettings,
    FactorizationSettings,
    FillingSettings,
    GenerationSettings,
    from_keywords,
)
from xlnet.inference.texts import count_unknown
from xlnet.runs import model_files
from xlnet.server import limits
from xlnet.settings.devices import DeviceSettings
from xlnet.support.errors import UserError, wrong
from xlnet.tasks.features import encoding
from xlnet.tasks.output import results

_log = logging.getLogger(__name__)

PARAMETERS: dict[str, Any] = {  # the settings of the signatures with parameters
    "explain": ExplanationSettings,
    "fill": FillingSettings,
    "generate": GenerationSettings,
    "attention": AttentionSettings,
    "factorize": FactorizationSettings,
}
_OF_LANGUAGE_MODELS = {  # the input of each
    "fill": "text",
    "factorize": "text",
    "generate": "prompt",
    "attention": "text",
}
_NAMES = (
    "text",
    "explain",
    *_OF_LANGUAGE_MODELS,
    "vectors",
)  # in the order that they are shown
_ORDER = (
    "question",
    "context",
    "text_a",
    "choices",
    "text_b",
)  # of the texts in `Model.predict`
_TOKENS_SHOWN = 40  # of `attention`, unless `most_tokens` says so
_LABELS_SHOWN = 20
_ABOUT = {  # by the method of `xlnet.load`
    "classify": "Assigns labels to a text",
    "score": "Gives a text a score",
    "choose": "Chooses the right one of several answers",
    "rank": "Tells how relevant a document is for a query",
    "answer": "Answers a question from a text",
    "tag": "Finds entities in a text",
    None: "A pretrained language model",
}

Row = dict[str, Any]  # an instance: str by name, or a list of str
Spans = dict[
    str, list[tuple[int, int]]
]  # (start, end) of parts of each text [characters]


class Call(NamedTuple):
    """A signature with the parameters of a request, and the settings that they are."""

    signature: str
    parameters: dict[str, Any] = {}
    settings: Any = None


class Reading(NamedTuple):
    """What the model reads of an instance.

    Attributes:
      tokens: of its texts, without special ones.
      tokens_read: how many of them the network reads; the others are cut.
      unknown_tokens: how many of `tokens` the vocabulary does not know.
      characters_read: the parts that are read, of an instance that is cut; None: all, or unknown.
      characters_unknown: the parts that are unknown tokens; None: none.
    """

    tokens: int
    tokens_read: int
    unknown_tokens: int
    characters_read: Optional[Spans]
    characters_unknown: Optional[Spans]


class Answer(NamedTuple):
    """The answer to an instance, for `json`, and what was read of it."""

    prediction: Any
    reading: Reading


class ServedModel:
    """A model loaded as by `xlnet.load`. Any number of threads may call it.

    Attributes:
      verb: the method of `xlnet.load` for the signature `text`; None: it has none.
      labels: names in the order of the probabilities; None: it has none.
      names: of its signatures.
      default: the signature of requests that name none.
    """

    def __init__(self, path: str, device: DeviceSettings, **given: Any):
        if os.path.exists(os.path.join(path, "saved_model.pb")):
            raise wrong(
                "model_dir",
                f"the SavedModel {path}",
                "the directory it was exported from",
            )
        found = model_files.read(path, **given)
        most_tokens = (
            limits.CALL_TOKENS_GPU if _has_gpu(device) else limits.CALL_TOKENS_CPU
        )
        self._model = model = Model(
            found, device, limits.MAX_BATCH, most_tokens=most_tokens
        )
        self._loaded, self._tuned = found, found.tuned
        self.path = path
        self.verb = model.verb
        self.labels = list(model.labels) if model.labels else None
        # The signatures with their inputs.
        self._inputs: dict[str, tuple[str, ...]] = {"vectors": ("text_a",)}
        if self._tuned:
            self._inputs["text"] = self._tuned.task.reader.texts
            if self.verb in explanation.VERBS:
                self._inputs["explain"] = self._inputs["text"]
        else:
            for name, text in _OF_LANGUAGE_MODELS.items():
                self._inputs[name] = (text,)
        self._warm_up()
        self.names = [name for name in _NAMES if name in self._inputs]
        self.default = self.names[0]

    def close(self) -> None:
        """Frees the memory of the weights."""
        self._model.close()

    def _warm_up(self) -> None:
        """Builds all graphs, so that no request waits for them; removes the signatures that a
        pretrained model cannot have."""
        # One piece fills a blank where pieces are words, two where they are characters.
        filling = {"pieces": "1-2", "whole_words": False}
        parameters: dict[str, Any] = {"fill": filling, "generate": {"max_tokens": 1}}
        for name in list(self._inputs):
            row: Row = {}
            for key, count in self.inputs(name).items():
                text = "a " + BLANK if name == "fill" else "a"
                row[key] = [text] * count if count else text
            try:
                (found,) = self._predictions(
                    self.call(name, parameters.get(name, {})), [row]
                )
            except UserError as e:
                found = e
            if isinstance(found, UserError):
                if name not in _OF_LANGUAGE_MODELS:
                    raise found
                _log.info("note: no signature %s: %s", name, found)
                del self._inputs[name]
        if "generate" in self._inputs:
            copies = (
                limits.SEARCHING + limits.READING + 1
            )  # one for the batch of all prompts
            self._model.inference.language_model().prepare(copies)

    def describe(self) -> dict[str, Any]:
        """What it is and what it takes, for `json`."""
        config = self._loaded.config
        about = _ABOUT[self.verb]
        if self.labels and self.verb == "classify":
            rest = ", ..." if len(self.labels) > _LABELS_SHOWN else ""
            about += ": " + ", ".join(self.labels[:_LABELS_SHOWN]) + rest
        return {
            "about": about,
            "model": {
                "layers": config.n_layer,
                "heads": config.n_head,
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
        signature = self.default if signature == "serving_default" else signature
        if signature not in self._inputs:
            raise wrong(
                "signature_name",
                f"'{signature:.80}'",
                "one of " + ", ".join(self.names),
            )
        if signature not in PARAMETERS:
            if parameters:
                raise wrong(
                    "parameters", ", ".join(parameters)[:80], f"none for {signature}"
                )
            return Call(signature)
        given = dict(parameters)
        layers = given.pop("layers", [1]) if signature == "attention" else None
        if signature == "attention":
            given.setdefault("most_tokens", _TOKENS_SHOWN)
        settings = from_keywords(
            PARAMETERS[signature], given, "parameters", shown=_in_json
        )
        for name, most in limits.MAX_OF_PARAMETER.items():
            if getattr(settings, name, 0) > most:
                raise wrong(
                    f"parameters: {name}", getattr(settings, name), f"at most {most}"
                )
        if isinstance(settings, ExplanationSettings) and self._tuned:
            explanation.check_label(self._tuned, settings.label, "parameters")
        if layers is not None:
            numbers = range(1, self._loaded.config.n_layer + 1)
            is_list = isinstance(layers, list) and 1 <= len(layers) <= limits.MAX_LAYERS
            if not is_list or not all(
                type(layer) is int and layer in numbers for layer in layers
            ):
                expected = f"1 to {limits.MAX_LAYERS} numbers from 1 to {numbers[-1]}"
                raise wrong(
                    "parameters: layers", _in_json(layers)[:80], "a list of " + expected
                )
            given["layers"] = layers
        return Call(signature, given, settings)

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
                raise wrong(where, _in_json(row)[:80], f"an object with {expected}")
            if set(row) != set(inputs):
                raise wrong(where, ", ".join(row)[:200] or "nothing", expected)
            for name, count in inputs.items():
                _check_text(f"{where}: {name}", row[name], count)
            if isinstance(call.settings, FillingSettings):
                pieces = call.settings.pieces_range()[-1] * row["text"].count(BLANK)
                if call.settings.beams * pieces > limits.MAX_PREDICTED:
                    found = (
                        f"{pieces} pieces of blanks with beams={call.settings.beams}"
                    )
                    raise wrong(
                        f"{where}: text",
                        found,
                        f"a product up to {limits.MAX_PREDICTED}",
                    )
            rows.append(row)
        return rows

    def is_short(self, call: Call, rows: Sequence[Row]) -> bool:
        """Whether a request is computed in a batch with others: it has few and short texts, and no
        parameters."""
        if call.settings is not None or len(rows) > limits.MAX_BATCH:
            return False
        return max(len(str(row)) for row in rows) <= limits.MAX_SHORT

    def has_own_graph(self, call: Call) -> bool:
        """Whether a request keeps tokens on the device with a graph of its own, not in the batch of
        all prompts."""
        if isinstance(call.settings, GenerationSettings):
            return call.settings.beams > 1
        return call.signature in _OF_LANGUAGE_MODELS

    # ---- answers

    def run(self, call: Call, rows: Sequence[Row]) -> list[Union[Answer, UserError]]:
        """The answer to each row; that of a bad one is its UserError."""
        answers: list[Any] = []
        for row in rows:
            try:
                answers.append(self._read(call, row))
            except UserError as e:
                answers.append(e)
        good = [
            number for number, each in enumerate(answers) if isinstance(each, Reading)
        ]
        if not good:
            return answers
        tokens = sum(answers[number].tokens_read for number in good)
        if call.signature == "explain" and tokens > limits.MAX_EXPLAINED:
            raise wrong(
                "instances", f"{tokens} tokens", f"at most {limits.MAX_EXPLAINED}"
            )
        predictions = self._predictions(call, [rows[number] for number in good])
        for number, prediction in zip(good, predictions):
            if isinstance(prediction, UserError):
                answers[number] = prediction
                continue
            # Results of several texts, such as choices, are counted where they are encoded.
            reading = answers[number]
            counted = prediction[0] if call.signature == "fill" else prediction
            if getattr(counted, "tokens_read", None) is not None:
                reading = reading._replace(
                    tokens=counted.tokens, tokens_read=counted.tokens_read
                )
            answers[number] = Answer(_plain(self._form(call, prediction)), reading)
        return answers

    def stream(self, call: Call, row: Row) -> Generator[dict[str, Any], None, None]:
        """Yields the parts of a generated text as they come; its last one says what was read."""
        reading = self._read(call, row)
        parts: Any = self._model.stream(row["prompt"], **call.parameters)
        try:
            for part in parts:
                shown = {"text": part.text}
                if part.probability is not None:
                    shown["probability"] = _plain(part.probability)
                if part.whole:
                    shown.update(reading._asdict(), ended=part.whole.ended)
                yield shown
        finally:
            parts.close()

    def _read(self, call: Call, row: Row) -> Reading:
        """What is read of a row; UserError if the vocabulary knows nothing of its texts."""
        tokenizer = self._model.tokenizer
        texts = {
            name: text for name, text in sorted(row.items()) if isinstance(text, str)
        }
        if call.signature == "fill":
            texts["text"] = row["text"].replace("_", " ")
        # As the task changes them; then positions in a text are not those of the request.
        replaced = self._tuned.task.published.replaced if self._tuned else str
        changed = [replaced(text) for text in texts.values()]
        is_changed = changed != list(texts.values())
        has_text = any(text.strip() for text in changed)
        unknown = count_unknown(tokenizer, changed) if has_text else 0
        ids = tokenizer.encode_lines(changed)
        tokens = tokens_read = sum(map(len, ids))
        layout = self._layout(call)
        if layout and set(texts) <= {"text_a", "text_b"}:
            second = ids[1] if len(ids) > 1 else None
            ((first, second),) = encoding.fit_to_length(ids[0], second, layout)
            tokens_read = len(first) + len(second or ())
        read: Optional[Spans] = None
        unknown_parts: Optional[Spans] = None
        aligner = self._model.inference.aligner
        if layout and tokens_read < tokens and not is_changed:
            parts = explanation.characters_read(changed, aligner, layout)
            read = dict(zip(texts, parts))
        if unknown and not is_changed:
            unknown_parts = {}
            for name, text in zip(texts, aligner.encode(changed)):
                is_unknown = text.ids == tokenizer.unk_id
                starts, ends = text.starts[is_unknown], text.ends[is_unknown]
                unknown_parts[name] = list(zip(starts.tolist(), ends.tolist()))
        return Reading(tokens, tokens_read, unknown, read, unknown_parts)

    def _layout(self, call: Call) -> Optional[encoding.Layout]:
        """How a text is cut; None: all of it is read, or it is not known what."""
        if call.signature not in ("text", "explain", "vectors"):
            return None
        # All words to tag are read, of some without their ends; texts meet all choices.
        if call.signature == "text" and self.verb in ("tag", "choose"):
            return None
        layout = vectors.layout_of(self._loaded)
        if self._tuned and call.signature != "vectors":
            layout = self._tuned.layout
        return None if encoding.has_windows(layout) else layout

    def _predictions(self, call: Call, rows: Sequence[Row]) -> list[Any]:
        """The results of the model for rows; of a bad one its UserError."""
        model, parameters = self._model, call.parameters
        texts: dict[str, list[Any]] = {
            name: [row[name] for row in rows] for name in rows[0]
        }
        if call.signature == "vectors":
            return list(model.vectors(texts["text_a"], errors="return"))
        if call.signature == "fill":
            return model.fill(texts["text"], errors="return", **parameters)
        if call.signature == "generate":
            return model.generate(texts["prompt"], errors="return", **parameters)
        if call.signature in ("attention", "factorize"):
            method = (
                model.attention if call.signature == "attention" else model.factorize
            )
            found: list[Any] = []
            for text in texts["text"]:
                try:
                    found.append(method(text, **parameters))
                except UserError as e:
                    found.append(e)
            return found
        columns = [texts[name] for name in _ORDER if name in texts]
        if self.verb == "rank" and call.signature == "text":  # each document by itself
            columns[1] = [[document] for document in columns[1]]
        items: list[Any] = columns[0] if len(columns) == 1 else list(zip(*columns))
        if call.signature == "explain":
            return model.explain(items, errors="return", **parameters)
        return model.predict(items, errors="return")

    def _form(self, call: Call, result: Any) -> Any:
        """What is sent of a result of the model; `_plain` makes it fit for `json`."""
        if call.signature == "explain":
            names = ("words", "weights", "first_words", "output", "value")
            return {name: getattr(result, name) for name in names}
        if call.signature == "fill":
            return {
                "texts": [each.text for each in result],
                "words": [each.words for each in result],
                "probabilities": [each.probability for each in result],
            }
        if call.signature == "generate":
            return {
                "texts": [result.text],
                "ended": [result.ended],
                "log_probabilities": [result.log_probability],
            }
        if call.signature == "attention":
            return {
                "pieces": result.pieces,
                "layers": result.layers,
                "places": result.places,
                "streams": {
                    name: np.round(each, 4) for name, each in result.streams.items()
                },
                "sees": {name: ~hidden for name, hidden in result.hidden.items()},
            }
        if call.signature == "factorize":
            # Of a known token, which is not predicted, the numbers are null and the lists empty.
            likelier = result.likelier.tolist()
            return {
                "pieces": result.pieces,
                "order": result.order,
                "known": result.known,
                "candidates": result.candidates,
                "probabilities": [
                    np.exp(each) for each in result.candidate_log_probabilities
                ],
                "log_probabilities": result.log_probabilities,
                "likelier": [None if count < 0 else count for count in likelier],
                "sees": {
                    "content": ~result.content_hides,
                    "query": ~result.query_hides,
                },
                "query_attention": np.round(result.query_attention, 4),
            }
        if call.signature == "text" and self.verb == "rank":
            return result[0].score
        if call.signature == "vectors" or self.verb == "score":
            return result
        return results.as_json(result, self.labels)


def _has_gpu(device: DeviceSettings) -> bool:
    import tensorflow.compat.v1 as tf

    return device.device != "cpu" and bool(tf.config.list_physical_devices("GPU"))


def _in_json(value: object) -> str:
    """A value as a request has it."""
    return json.dumps(value, ensure_ascii=False)


def _check_text(where: str, value: Any, count: Optional[int]) -> None:
    """Checks an input: a text, or a list of `count` texts."""
    texts = [value] if count is None else value
    is_list = isinstance(texts, list) and len(texts) == (count or 1)
    if not is_list or not all(isinstance(text, str) for text in texts):
        expected = "a string" if count is None else f"an array of {count} strings"
        raise wrong(where, _in_json(value)[:80], expected)
    for text in texts:
        if not is_text(text):
            raise wrong(where, "half a character, as \\ud800 by itself", "whole ones")
        if len(text) > limits.MAX_CHARACTERS:
            raise wrong(
                where, f"{len(text)} characters", f"at most {limits.MAX_CHARACTERS}"
            )


def _plain(value: Any) -> Any:
    """A value for `json`: arrays as lists, nan as null, and the fewest digits of float32."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return None if np.isnan(value) else float(str(np.float32(value)))
    return value
