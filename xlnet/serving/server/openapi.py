"""The API of a server in OpenAPI 3.1, made of the declarations that check its requests."""

from __future__ import annotations

import dataclasses
from typing import Any

import xlnet
from xlnet.serving.server.model_directory import PARAMETERS_OF, ServedModel, limits_of
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


def describe(model: ServedModel, name: str) -> dict[str, Any]:
    """The OpenAPI document of a served model under this name."""
    requests = [_request(model, signature) for signature in model.names]
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


def _request(model: ServedModel, signature: str) -> dict[str, Any]:
    """The schema of a request of a signature."""
    texts: dict[str, Any] = {}
    for name, count in model.inputs(signature).items():
        texts[name] = {"type": "string"}
        if count is not None:
            texts[name] = {
                "type": "array",
                "items": {"type": "string"},
                "minItems": count,
                "maxItems": count,
            }
    example: dict[str, Any] = {
        "type": "object",
        "properties": texts,
        "required": list(texts),
        "additionalProperties": False,
    }
    if len(texts) == 1:  # the text itself will do
        example = {"oneOf": [example, *texts.values()]}
    properties: dict[str, Any] = {
        "signature_name": {"const": signature},
        "instances": {"type": "array", "items": example, "minItems": 1},
    }
    if signature in PARAMETERS_OF:
        properties["parameters"] = {
            "type": "object",
            "properties": parameters(signature),
            "additionalProperties": False,
        }
    if signature == "generate":
        properties["stream"] = {"type": "boolean", "default": False}
    required = ["instances"] if signature == model.default else ["signature_name", "instances"]
    return {
        "title": signature,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def parameters(signature: str) -> dict[str, Any]:
    """The schemas of a signature's parameters, by name."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(PARAMETERS_OF[signature]):
        limits = field.metadata
        kind = _TYPES[setting_type(field)]
        default = default_of(field)
        schema: dict[str, Any] = {"description": limits["help"], "default": default}
        schema["type"] = [kind, "null"] if default is None else kind
        if field.name in ("stop", "targets"):  # a list of texts, or one
            schema["type"] = ["string", "array", "null"]
        if field.name == "pieces":
            schema["type"] = ["string", "integer"]
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
    if signature == "attention":
        found["layers"] = {"type": "array", "items": {"type": "integer", "minimum": 1}}
    return found
