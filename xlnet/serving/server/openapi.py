"""The API of a server in OpenAPI 3.1, made of the declarations that check its requests.

A body that the server accepts fits the schema. One that fits it may still be refused for what no
schema says, such as columns of different lengths, or two parameters that contradict each other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Optional

import xlnet
from xlnet.serving.server.model_directory import (
    MOST_LAYERS,
    MOST_TOKENS_SHOWN,
    PARAMETERS_OF,
    SERVED_EXPLANATION,
    ServedModel,
    limits_of,
)
from xlnet.serving.server.request_forms import KEYS, SIGNATURE
from xlnet.serving.settings import LONGEST_TEXT, MOST_PIECES, MOST_TEXTS, LimitSettings
from xlnet.settings.fields import default_of, setting_type

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
_ERROR = {
    "description": "an error",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"error": {"type": "string"}},
                "required": ["error"],
            }
        }
    },
}


_TEXTS = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}}
# Parameters that have several forms.
_FORMS: dict[str, list[dict[str, Any]]] = {
    "stop": [
        {"type": "null"},
        {"type": "string", "minLength": 1},
        {**_TEXTS, "maxItems": MOST_TEXTS},
    ],
    "targets": [
        {"type": "null"},
        {"type": "string", "minLength": 1},
        {**_TEXTS, "minItems": 1, "maxItems": MOST_TEXTS},
    ],
    "pieces": [
        {"type": "string", "pattern": "^[0-9]+(-[0-9]+)?$"},
        {"type": "integer", "minimum": 1, "maximum": MOST_PIECES},
    ],
}


def describe(model: ServedModel, name: str, limits: LimitSettings) -> dict[str, Any]:
    """The OpenAPI document of a served model under this name."""
    requests = [_request(model, signature, limits) for signature in model.names]
    counts = {"type": "array", "items": {"type": ["integer", "null"]}}
    response = {
        "type": "object",
        "properties": {
            "predictions": {"type": "array"},
            "labels": {"type": "array", "items": {"type": "string"}},
            "tokens_read": {**counts, "description": "tokens of each example that were read"},
            "tokens": {**counts, "description": "of how many, without special tokens"},
            "characters_read": {
                "type": "array",
                "description": "of examples that were cut: by text, [start, end] of what was read",
                "items": {"type": ["object", "null"]},
            },
        },
    }
    predict = {
        "summary": "Predicts examples",
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"oneOf": requests}}},
        },
        "responses": {
            "200": {
                "description": "the answers, in the order of the examples",
                "content": {"application/json": {"schema": response}},
            },
            "default": _ERROR,
        },
    }
    path = f"/v1/models/{name}"
    paths: dict[str, Any] = {path + ":predict": {"post": predict}}
    for each, summary in (
        (path, "State, labels and signatures"),
        (path + "/metadata", "Inputs of the signatures"),
        ("/health", "Liveness"),
        ("/ready", "Readiness"),
        ("/metrics", "Metrics for Prometheus"),
    ):
        responses = {"200": {"description": "in order"}, "default": _ERROR}
        paths[each] = {"get": {"summary": summary, "responses": responses}}
    return {
        "openapi": "3.1.0",
        "info": {"title": name, "version": xlnet.__version__, "description": model.about},
        "paths": paths,
    }


def _request(model: ServedModel, signature: str, limits: LimitSettings) -> dict[str, Any]:
    """The schema of a request of a signature."""
    is_default = signature == model.default
    properties: dict[str, Any] = {
        SIGNATURE: {"enum": [signature, "serving_default"] if is_default else [signature]},
        "instances": {
            "type": "array",
            "items": _example(model, signature, limits),
            "minItems": 1,
            "maxItems": limits.max_rows,
        },
        "inputs": _columns(model, signature, limits),
        "parameters": {"type": "object", "maxProperties": 0},
        "stream": {"type": "boolean", "default": False},
    }
    if signature in PARAMETERS_OF:
        properties["parameters"] = parameters(signature, model.n_layer)
    if signature != "generate":
        properties["stream"]["const"] = False
    assert set(properties) == set(KEYS)
    return {
        "title": signature,
        "type": "object",
        "properties": properties,
        "required": [] if is_default else [SIGNATURE],
        "oneOf": [{"required": ["instances"]}, {"required": ["inputs"]}],
        "additionalProperties": False,
    }


def _text(count: Optional[int], limits: LimitSettings) -> dict[str, Any]:
    """The schema of the value of an input: a text, or a list of `count` texts."""
    text = {"type": "string", "maxLength": limits.max_characters}
    if count is None:
        return text
    return {"type": "array", "items": text, "minItems": count, "maxItems": count}


def _example(model: ServedModel, signature: str, limits: LimitSettings) -> dict[str, Any]:
    """The schema of an example: an object, or of the only input its value."""
    inputs = model.inputs(signature)
    values = {name: _text(count, limits) for name, count in inputs.items()}
    example = _object_of_inputs(model, signature, values)
    return {"oneOf": [example, *values.values()]} if len(values) == 1 else example


def _columns(model: ServedModel, signature: str, limits: LimitSettings) -> dict[str, Any]:
    """The schema of `inputs`, a list of values for each input; one text will do for a list of one.

    That all lists are equally long is not in it.
    """
    lists = {}
    for name, count in model.inputs(signature).items():
        value = _text(count, limits)
        values = {"type": "array", "items": value, "minItems": 1, "maxItems": limits.max_rows}
        lists[name] = values if count else {"oneOf": [values, value]}
    columns = _object_of_inputs(model, signature, lists)
    return {"oneOf": [columns, *lists.values()]} if len(lists) == 1 else columns


def _object_of_inputs(
    model: ServedModel, signature: str, values: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """The schema of an object that has each input once, by its own name or another one.

    values: the schemas of the inputs, by their own names.
    """
    properties: dict[str, Any] = dict(values)
    names = {name: [name] for name in values}
    for other, name in model.other_names(signature).items():
        properties[other] = {**values[name], "description": f"another name of {name}"}
        names[name].append(other)
    return {
        "type": "object",
        "properties": properties,
        "allOf": [
            {"oneOf": [{"required": [each]} for each in names_of_input]}
            for names_of_input in names.values()
        ],
        "additionalProperties": False,
    }


def parameters(signature: str, n_layer: int) -> dict[str, Any]:
    """The schema of a signature's parameters. How they depend on each other is not in it."""
    found: dict[str, Any] = {}
    of_other_libraries: dict[str, Any] = {}
    not_both = []
    for field in dataclasses.fields(PARAMETERS_OF[signature]):
        limits = field.metadata
        kind = _TYPES[setting_type(field)]
        default = default_of(field)
        schema: dict[str, Any] = {"description": limits["help"], "default": default}
        if field.name in _FORMS:
            schema["anyOf"] = _FORMS[field.name]
        else:
            schema["type"] = [kind, "null"] if default is None else kind
        for name, key in (
            ("minimum", "minimum"),
            ("maximum", "maximum"),
            ("above", "exclusiveMinimum"),
            ("below", "exclusiveMaximum"),
        ):
            if limits[name] is not None:
                schema[key] = limits[name]
        if limits["choices"]:
            schema["enum"] = list(limits["choices"])
        most = limits_of(signature).get(field.name)
        if most is not None:
            schema["maximum"] = min(most, schema.get("maximum", most))
        found[field.name] = schema
        for alias in limits["aliases"]:
            of_other_libraries[alias] = {**schema, "description": f"another name of {field.name}"}
            not_both.append({"not": {"required": [alias, field.name]}})
    if signature == "explain":
        found["method"]["enum"] = [SERVED_EXPLANATION]
    if signature == "attention":
        found["most_tokens"]["default"] = MOST_TOKENS_SHOWN
        found["layers"] = {
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": n_layer},
            "minItems": 1,
            "maxItems": MOST_LAYERS,
            "default": [1],
        }
    schema = {
        "type": "object",
        "properties": {**found, **of_other_libraries},
        "additionalProperties": False,
    }
    return {**schema, "allOf": not_both} if not_both else schema
