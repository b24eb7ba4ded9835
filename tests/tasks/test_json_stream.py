"""JSON value after value, wherever the text is cut."""

import json

import pytest

from xlnet.tasks.json_stream import JsonStream

VALUES = {"a": [1, 12.5, -3e2, "x\"]}\\", [], {}], "é": None, "b": {"c": [True, {"d": "文"}]},
          "long": "y" * 300}


def pieces(text, size):
    return (text[i:i + size] for i in range(0, len(text), size))


def read(stream):
    """A value, entered as far as that goes."""
    if stream.peek() == "[":
        return [read(stream) for _ in stream.items()]
    if stream.peek() == "{":
        return {key: read(stream) for key in stream.keys()}
    return stream.value()


@pytest.mark.parametrize("indent", (None, 1))
def test_values_are_those_of_the_whole_text(indent):
    text = " %s\n" % json.dumps(VALUES, indent=indent, ensure_ascii=indent is None)
    for size in (*range(1, 20), 100, 1000):
        for how in (read, JsonStream.value):
            stream = JsonStream(pieces(text, size))
            assert how(stream) == VALUES and stream.peek() == "", size


@pytest.mark.parametrize("text", (
    "", "[", "[1", "[1,", "[1 2]", '{"a"', '{"a":', '{"a": 1', "{1: 2}", '{"a": 1,}', '["\n"]',
    "[tru]", '{"a" 1}'))
def test_what_is_no_json_is_refused(text):
    for size in (1, 2, 100):
        with pytest.raises(ValueError):
            read(JsonStream(pieces(text, size)))
