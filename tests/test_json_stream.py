"""JSON item after item, wherever the text is cut."""

import json

import pytest

from xlnet import json_stream

VALUES = [
    {"a": [1, 12.5, -3e2, 'x"]}\\', [], {}]},
    None,
    "é😀",
    [True, {"d": "文"}],
    "y" * 300,
    "\\\\ud83d",
    "[{" * 999 + '"\\',
    "[" * 1999,
]


def pieces(text, size):
    return (text[i : i + size] for i in range(0, len(text), size))


@pytest.mark.parametrize("how", (dict(), dict(indent=1), dict(ensure_ascii=False)))
def test_values_are_those_of_the_complete_text(how):
    for prefix, value in (("item", VALUES), ("data.item", {"b": {"data": 1}, "data": VALUES})):
        text = f" {json.dumps(value, **how)}\n"
        for size in (*range(1, 20), 100, 1000, 9999):
            assert list(json_stream.items(pieces(text, size), prefix)) == VALUES, size


@pytest.mark.parametrize(
    "text",
    (
        "",
        "[",
        "[1",
        "[1,",
        "[1 2]",
        '{"a"',
        '{"a":',
        '{"a": 1',
        "{1: 2}",
        '{"a": 1,}',
        '["\n"]',
        "[tru]",
        '{"a" 1}',
        "[1] 2",
        "[" * 9999,
        r'["\ud83d"]',
        r'["\ude00"]',
        r'["\ud83d\ud83d\ude00"]',
        r'["%s\\\ud83d\n"]' % ("x" * 90),
        '["\udcff"]',
    ),
)
def test_what_is_not_json_is_refused(text):
    """Half characters, too, which ijson would read as question marks."""
    for size in (*range(1, 9), 100):
        with pytest.raises(ValueError):
            list(json_stream.items(pieces(text, size), "item"))
