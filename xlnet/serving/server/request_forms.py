"""The forms of requests for predictions and of their answers: rows and columns of TensorFlow
Serving, and the Open Inference Protocol (KServe v2) of KServe's and Triton's clients.

All of them become the same rows: dicts of texts by the name of an input.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from xlnet import files
from xlnet.errors import UserError, did_you_mean
from xlnet.serving.batched_calls import Computed
from xlnet.serving.server.model_directory import JSON_TYPES, Call, Row, ServedModel
from xlnet.serving.settings import TEXTS, LimitSettings, stop_texts

KEYS = ("signature_name", "instances", "inputs", "parameters", "stream")  # of a request
SIGNATURE = "signature_name"  # in the parameters of an inference request of KServe


class Refused(UserError):
    """A request that is refused with an HTTP status."""

    def __init__(self, http_status: int, reason: str) -> None:
        super().__init__(reason)
        self.http_status = http_status


class PredictionRequest(NamedTuple):
    """What a body asks for.

    Attributes:
      call: the signature with its settings.
      rows: the examples.
      stream: whether the parts of a generated text are sent as they come.
      cost: as of `ServedModel.cost`.
      needs_own_graph: as of `ServedModel.needs_own_graph`.
      as_columns: whether the answers are lists by the name of an output.
      id: of a KServe request.
    """

    call: Call
    rows: list[Row]
    stream: bool
    cost: Optional[int]
    needs_own_graph: bool
    as_columns: bool = False
    id: Optional[str] = None


def decoded(body: bytes, encoding: str, limit: int) -> bytes:
    """A body without its Content-Encoding: gzip, deflate or none."""
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise Refused(415, f"Content-Encoding is {encoding!s:.80}, expected gzip, deflate or none")
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)  # the header says which of the two
    try:
        found = unpacking.decompress(body, limit + 1)
    except zlib.error as e:
        raise UserError(f"the body is not {encoding}: {e}") from None
    if len(found) > limit:
        raise Refused(413, f"the request has more than {limit} bytes unpacked (--max_body)")
    if not unpacking.eof:
        raise UserError(f"the body is not {encoding}: it is cut off")
    return found


def parsed(model: ServedModel, limits: LimitSettings, body: bytes) -> PredictionRequest:
    """A request in the form of TensorFlow Serving, within the limits."""
    asked = _json_object(body)
    for key in asked:
        if key not in KEYS:
            raise UserError(
                "no '{}' in a request{} (there are {})".format(
                    shortened(key), did_you_mean(key[:80], KEYS), ", ".join(KEYS)
                )
            )
    signature = asked.get(SIGNATURE, model.default)
    parameters, stream = asked.get("parameters", {}), asked.get("stream", False)
    as_columns = "inputs" in asked
    if not isinstance(signature, str):
        raise UserError(f"{SIGNATURE} is {json.dumps(signature)!s:.80}, expected a string")
    if not isinstance(parameters, dict):
        raise UserError(f"parameters is {json.dumps(parameters)!s:.80}, expected an object")
    if as_columns == ("instances" in asked):
        raise UserError(
            'expected {"signature_name": "...", "instances": [example, ...]}, or "inputs" with a '
            "list of values for each input"
        )
    if not isinstance(stream, bool):
        raise UserError(f"stream is {json.dumps(stream)!s:.80}, expected true or false")
    if as_columns:
        rows = _rows_of_columns(model, signature, asked["inputs"])
    else:
        rows = asked["instances"]
    if not (isinstance(rows, list) and rows):
        raise UserError(f"instances is {json.dumps(rows)!s:.80}, expected one example or more")
    return _checked(model, limits, signature, parameters, rows, stream, as_columns, None)


def parsed_inference(model: ServedModel, limits: LimitSettings, body: bytes) -> PredictionRequest:
    """A request of the Open Inference Protocol, within the limits: inputs of datatype BYTES and
    shape [n]; `parameters` may name the signature, and has its settings."""
    asked = _json_object(body)
    parameters, inputs = asked.get("parameters") or {}, asked.get("inputs")
    if not isinstance(parameters, dict):
        raise UserError(f"parameters is {json.dumps(parameters)!s:.80}, expected an object")
    parameters = dict(parameters)
    # Triton's client asks for numbers in bytes, if it can have them; it takes JSON as well.
    parameters.pop("binary_data_output", None)
    signature = parameters.pop(SIGNATURE, model.default)
    # Parameters of this protocol are no lists: several texts are JSON, as in a flag.
    for name in TEXTS:
        if isinstance(parameters.get(name), str):
            parameters[name] = list(stop_texts(parameters[name], f"parameters: {name}"))
    is_list = isinstance(inputs, list) and all(isinstance(each, dict) for each in inputs)
    if not is_list or not inputs or not isinstance(signature, str):
        raise UserError('expected {"inputs": [{"name": ..., "shape": [n], "data": [...]}, ...]}')
    columns: dict[str, Any] = {}
    for each in inputs:
        name, data, shape = each.get("name"), each.get("data"), each.get("shape")
        if each.get("datatype", "BYTES") != "BYTES" or not isinstance(data, list):
            raise UserError(f"input '{name!s:.80}': expected datatype BYTES and a list as data")
        is_shape = isinstance(shape, list) and all(type(size) is int for size in shape)
        if not is_shape or np.prod(shape, dtype=object) != len(data) or len(shape) > 2:
            raise UserError(
                f"input '{name!s:.80}': shape is {json.dumps(shape):.80}, expected that of "
                f"{len(data)} values"
            )
        if len(shape) == 2 and shape[1] > 1:
            data = [data[begin : begin + shape[1]] for begin in range(0, len(data), shape[1])]
        if str(name) in columns:
            raise UserError(f"input '{name!s:.80}' twice, expected each once")
        columns[str(name)] = data
    rows = _rows_of_columns(model, signature, columns)
    id = asked.get("id")
    id = id if isinstance(id, str) else None
    return _checked(model, limits, signature, parameters, rows, False, True, id)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        asked = files.parse_json(body, has_rows=True)
    except ValueError as e:
        raise UserError(f"not JSON: {e}") from None
    if not isinstance(asked, dict):
        raise UserError(f"expected a JSON object, found {JSON_TYPES[type(asked)]}")
    return asked


def shortened(text: str) -> str:
    """The beginning of a long text of a request, for an error."""
    return text if len(text) <= 80 else text[:80] + "..."


def _rows_of_columns(model: ServedModel, signature: str, columns: Any) -> list[Any]:
    """Rows of the lists of values of each input; of the only input its list will do."""
    names = list(model.inputs(model.signature(signature)))
    if not isinstance(columns, Mapping):
        if len(names) > 1:
            raise UserError(f"inputs: expected an object with {', '.join(names)}")
        columns = {names[0]: columns}
    lists = {
        name: values if isinstance(values, list) else [values] for name, values in columns.items()
    }
    sizes = {len(values) for values in lists.values()}
    if len(sizes) != 1 or 0 in sizes:
        raise UserError("inputs: expected as many values for each input, one or more")
    return [dict(zip(lists, values)) for values in zip(*lists.values())]


def _checked(
    model: ServedModel,
    limits: LimitSettings,
    signature: str,
    parameters: dict[str, Any],
    rows: list[Any],
    stream: bool,
    as_columns: bool,
    id: Optional[str],
) -> PredictionRequest:
    if len(rows) > limits.max_rows:
        raise Refused(
            413, f"{len(rows)} rows, at most {limits.max_rows} are answered at once (--max_rows)"
        )
    call = model.call(signature, parameters)
    checked = model.rows(call.signature, rows)
    for row in checked:
        for name, value in row.items():
            texts = [value] if isinstance(value, str) else value
            if any(len(text) > limits.max_characters for text in texts):
                raise Refused(
                    413,
                    f"'{name}' has more than {limits.max_characters} characters (--max_characters)",
                )
    if stream and (call.signature != "generate" or len(rows) != 1):
        raise UserError(
            f"stream: expected signature generate with one prompt, found {call.signature} with "
            f"{len(rows)}"
        )
    cost = model.cost(call, checked, limits.budget)
    needs_own_graph = model.needs_own_graph(call, checked)
    return PredictionRequest(call, checked, stream, cost, needs_own_graph, as_columns, id)


# ---- answers


def answer(
    asked: PredictionRequest, computed: Sequence[Computed], labels: Optional[Sequence[str]]
) -> dict[str, Any]:
    """The body of a response: the predictions, and of each how many tokens were read."""
    answers = [each.result for each in computed]
    if asked.as_columns:
        content: dict[str, Any] = {"outputs": _columns(answers)}
    else:
        content = {"predictions": answers}
    if labels and isinstance(answers[0], dict) and "probabilities" in answers[0]:
        content["labels"] = labels
    # Next to the predictions: an answer of one output is its value, and has no place for them.
    content["tokens_read"] = [each.tokens_read for each in computed]
    content["tokens"] = [each.tokens for each in computed]
    content["characters_read"] = [each.characters_read for each in computed]
    return content


def inference_answer(
    name: str, asked: PredictionRequest, computed: Sequence[Computed], has_arrays: bool
) -> dict[str, Any]:
    """The same in the form of the Open Inference Protocol; has_arrays: as of
    `ServedModel.has_arrays`. Any other list, of words or the like, is a JSON text."""
    columns = _columns([each.result for each in computed])
    if not isinstance(columns, dict):
        columns = {"output": columns}
    columns = dict(
        columns,
        tokens_read=[each.tokens_read for each in computed],
        tokens=[each.tokens for each in computed],
    )
    content: dict[str, Any] = {"model_name": name, "model_version": "1"}
    if asked.id is not None:
        content["id"] = asked.id
    content["outputs"] = [_tensor(output, values, has_arrays) for output, values in columns.items()]
    return content


def _columns(answers: Sequence[Any]) -> Any:
    """Answers by the name of an output; a list of values if there is one output."""
    if not isinstance(answers[0], dict):
        return list(answers)
    return {name: [each[name] for each in answers] for name in answers[0]}


_DATATYPES: dict[type, str] = {bool: "BOOL", int: "INT64", float: "FP32", str: "BYTES"}


def _tensor(name: str, values: list[Any], has_arrays: bool) -> dict[str, Any]:
    """An output of n examples, [n]; its lists as [n,k] if they are arrays of k values."""
    data = values
    shape = [len(values)]
    # Lists of one length are the rows of an array.
    are_lists = all(isinstance(each, list) for each in values)
    lengths = {len(each) for each in values} if are_lists else set()
    if has_arrays and len(lengths) == 1:
        data = [one for each in values for one in each]
        shape = [len(values), *lengths]
    # What has no data type of the protocol, or several of them, is a JSON text of each example.
    kinds = {type(one) for one in data}
    if len(kinds) != 1 or not kinds <= set(_DATATYPES):
        data = [json.dumps(each, ensure_ascii=False) for each in values]
        shape = [len(values)]
        kinds = {str}
    (kind,) = kinds
    return {"name": name, "datatype": _DATATYPES[kind], "shape": shape, "data": data}
