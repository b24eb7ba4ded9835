"""A model directory with the signatures of an export, computed by the object of `xlnet.load`.

Unlike an export it reads long texts in windows; a pretrained model also has `fill` and `generate`.
Shape letters: B examples, C choices.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from xlnet.errors import UserError
from xlnet.model_directory import model_files
from xlnet.serving.export import readme
from xlnet.serving.model import Model
from xlnet.serving.server.saved_model import Input, as_row, plain, refuse_parameters
from xlnet.serving.settings import FillingSettings, GenerationSettings, from_keywords, stop_texts
from xlnet.settings.devices import DeviceSettings
from xlnet.tasks.output import results

_log = logging.getLogger(__name__)

_TEXT = np.dtype(object)
_MOST = 32              # texts in a batch
_MOST_OF = {"max_tokens": 2048, "beams": 256, "samples": 256}      # of a request
_MOST_PREDICTED = 1024  # beams x pieces of order=all, whose memory the vocabulary multiplies
_OF_LANGUAGE_MODELS = ("fill", "generate")
# The texts of a signature as `Model.predict` takes them.
_ORDER = ("question", "context", "text_a", "choices", "text_b")


class Call(NamedTuple):
    """A signature with the parameters of a request: a settings object, or None."""
    signature: str
    settings: Any = None


class ModelDirectory:
    """A model directory with the attributes and methods of `saved_model.SavedModel`.

    Args:
      path, device, given: as of `xlnet.load`.
      budget: examples x tokens² computed together.
    """
    version = "1"
    alone = _OF_LANGUAGE_MODELS         # a long text would block the batches

    def __init__(self, path: str, budget: int, device: DeviceSettings, **given: Any):
        found = model_files.read(path, **given)
        tuned = found.tuned
        self._model = model = Model(found, device, min(
            max(budget // found.max_seq_length ** 2, 1), _MOST))
        self.path = path
        self.labels = list(model.labels) if model.labels else None
        self._inputs = {"text": tuned.task.reader.texts, "vectors": ("text_a",)} \
            if tuned else {"fill": ("text",), "generate": ("prompt",), "vectors": ("text_a",)}
        self.warm_up()
        self.about = readme.about(found) if tuned else \
            "A pretrained XLNet: %s" % ", ".join(self.names)
        self.default = self.names[0] if not tuned else "text"

    @property
    def names(self) -> list[str]:
        return sorted(self._inputs)

    def close(self) -> None:
        """Frees the memory of the weights."""
        self._model.close()

    def inputs(self, signature: str) -> dict[str, Input]:
        """As of `SavedModel`."""
        if signature not in self._inputs:
            raise UserError("no signature '%s' (there are %s)" % (
                signature, ", ".join(self.names)))
        return {name: Input(name, _TEXT, (len(self.labels or ()),) if name == "choices" else ())
                for name in sorted(self._inputs[signature])}

    def signature_def(self) -> dict[str, Any]:
        """All signatures as TensorFlow Serving describes them."""
        return {name: {"inputs": {key: {"dtype": "DT_STRING", "name": key, "tensor_shape": {
            "dim": [{"size": str(size)} for size in (-1, *kind.shape)]}}
            for key, kind in self.inputs(name).items()}, "outputs": {},
            "method_name": "tensorflow/serving/predict"} for name in self.names}

    def call(self, signature: str, parameters: Mapping[str, Any]) -> Call:
        """As of `SavedModel`; the parameters of `fill` and `generate` are their settings."""
        group: Any = {"fill": FillingSettings, "generate": GenerationSettings}.get(signature)
        if not group:
            refuse_parameters(signature, parameters)
            return Call(signature)
        stop = parameters.get("stop")
        if isinstance(stop, list):
            parameters = {**parameters, "stop": json.dumps(stop_texts(stop))}
        settings = from_keywords(group, parameters, "parameters")
        for name, most in _MOST_OF.items():
            if getattr(settings, name, 0) > most:
                raise UserError("parameters: %s is %d, expected at most %d" % (
                    name, getattr(settings, name), most))
        return Call(signature, settings)

    def example(self, signature: str) -> tuple[Call, dict[str, np.ndarray]]:
        """As of `SavedModel`."""
        shortest: dict[str, dict[str, Any]] = {
            "fill": {"pieces": "1"}, "generate": {"max_tokens": 1}}
        text = b"a ___" if signature == "fill" else b"a"
        return self.call(signature, shortest.get(signature, {})), {
            name: np.full([1, *kind.shape], text, object)
            for name, kind in self.inputs(signature).items()}

    def warm_up(self) -> None:
        """As of `SavedModel`; removes signatures that the pretrained model cannot have."""
        for signature in self.names:
            try:
                self.run(*self.example(signature))
            except UserError as e:
                if signature not in _OF_LANGUAGE_MODELS:
                    raise
                _log.info("note: no signature %s: %s", signature, e)
                del self._inputs[signature]

    def tokens(self, call: Call, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """As of `SavedModel`: 0, as the model itself makes batches within the budget; of `fill` and
        `generate` the tokens that are kept, times the root of the beams or samples."""
        texts, settings = next(iter(arrays.values())), call.settings
        if call.signature not in _OF_LANGUAGE_MODELS:
            return np.zeros(len(texts), int)
        copies = settings.samples if getattr(settings, "method", "beam") != "beam" \
            else settings.beams
        sizes = [self._kept(settings, text.decode(errors="replace")) for text in texts]
        return np.ceil(np.array(sizes) * copies ** .5).astype(int)

    def _kept(self, settings, text):
        """The tokens that the network keeps for a text, at most."""
        known = self._model.tokenizer.ids
        if isinstance(settings, GenerationSettings):
            return min(settings.context, len(known(text)) + settings.max_tokens)
        parts = settings.split(text)
        pieces = settings.pieces_range()[-1] * (len(parts) - 1)
        if settings.order == "all" and settings.beams * pieces > _MOST_PREDICTED:
            raise UserError("parameters: beams is %d, expected at most %d for %d pieces in all "
                            "orders" % (settings.beams, _MOST_PREDICTED // pieces, pieces))
        return min(settings.context, len(known(" ".join(parts)))) + pieces

    def run(self, call: Call, arrays: Mapping[str, np.ndarray]) -> list[Any]:
        """As of `SavedModel`; that of a bad example is its UserError."""
        found, form = self._found(call, _texts(arrays))
        return [one if isinstance(one, UserError) else as_row(form(one)) for one in found]

    def _found(self, call, texts):
        """(results, function from a result to an answer)"""
        model = self._model
        if call.signature == "vectors":
            return model.vectors(texts["text_a"], errors="return"), _vector
        if call.signature == "fill":
            return model.fill(texts["text"], errors="return",
                              **dataclasses.asdict(call.settings)), _filled
        if call.signature == "generate":
            return [model.stream(prompt, **_keywords(call.settings))
                    for prompt in texts["prompt"]], _written
        items = [texts[name] for name in _ORDER if name in texts]
        if model.verb == "rank":        # each document by itself
            items[1] = [[document] for document in items[1]]
        return model.predict(items[0] if len(items) == 1 else list(zip(*items)),
                             errors="return"), self._predicted

    def _predicted(self, result):
        return _short(results.served(result[0].score if self._model.verb == "rank" else result,
                                     self.labels))

    def stream(self, call: Call, arrays: Mapping[str, np.ndarray]) -> Iterator[dict[str, Any]]:
        """Yields the parts of a text as it is generated.

        Raises:
          UserError: another signature, or several prompts.
        """
        prompts = _texts(arrays).get("prompt", ())
        if call.signature != "generate" or len(prompts) != 1:
            raise UserError("expected signature generate with one prompt, found %s with %d" % (
                call.signature, len(prompts)))
        parts: Any = self._model.stream(prompts[0], **_keywords(call.settings))
        try:
            for part in parts:
                yield {"number": part.number, "text": part.text,
                       **({"ended": part.whole.ended} if part.whole else {})}
        finally:
            parts.close()


def _keywords(settings):
    """The arguments of `Model.stream` for `GenerationSettings`."""
    return {**dataclasses.asdict(settings), "stop": stop_texts(settings.stop)}


def _texts(arrays):
    """Lists of str by name, or lists of such lists (choices)."""
    try:
        return {name: np.vectorize(bytes.decode, otypes=[object])(values).tolist()
                for name, values in arrays.items()}
    except UnicodeDecodeError as e:
        raise UserError("not UTF-8: %s" % e) from None


def _short(value):
    """An answer with the fewest digits of its float32 numbers, as of an export."""
    if isinstance(value, dict):
        return {name: _short(each) for name, each in value.items()}
    return [_short(each) for each in value] if isinstance(value, list) else \
        float(str(np.float32(value))) if isinstance(value, float) else value


def _vector(vector):
    return {"vector": plain(vector)}


def _filled(fillings):
    return {"texts": [each.text for each in fillings], "words": [each.words for each in fillings],
            "probabilities": [each.probability for each in fillings]}


def _written(parts):
    """The outputs for the parts of texts; between parts other requests have their turn."""
    whole = {part.number: part.whole for part in parts if part.whole}
    found = [whole[number] for number in sorted(whole)]
    return {"texts": [one.text for one in found], "ended": [one.ended for one in found],
            "log_probabilities": [one.log_probability for one in found]}
