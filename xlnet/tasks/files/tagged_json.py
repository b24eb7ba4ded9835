"""Sentences of JSON: objects with a text and its entities, or with tokens and their tags."""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional

from xlnet.tasks.files import schemes
from xlnet.tasks.files.row_errors import RowErrors
from xlnet.tasks.files.tagged_words import (
    ADDED,
    TEXT_KEY,
    JsonLine,
    TaggedSentence,
    checked_words,
    find_words,
    of_text,
    shown,
)
from xlnet.tokenization.tokenizer import is_text

SCHEME = "bio2"  # of the tags that entities become

# Keys of JSON objects if columns have numbers; the first one that exists is used.
_TEXTS = (TEXT_KEY, "tokens", "words")
_ENTITIES = ("entities", "spans", "ents", "label", "labels")  # of a text
_TAGS = ("ner_tags", "tags", "labels", "ner")  # of tokens
_PARTS = (
    ("start", "start_offset"),
    ("end", "end_offset"),
    ("label", "type", "labels"),
)  # of an entity; Label Studio: a list of one label


class ObjectReader:
    """Makes sentences of objects; arguments as in `tagged_files.read`.

    notes: examples and entities that are not used as they are.
    """

    def __init__(self, word_column: str, tag_column: Optional[str], need_tags: bool):
        self._text_keys = _TEXTS if word_column.isdecimal() else (word_column,)
        self._tag_keys = () if tag_column is None or tag_column.isdecimal() else (tag_column,)
        self._need_tags = need_tags
        self.notes = RowErrors()

    def sentence(self, value: Any, place: str) -> Optional[TaggedSentence]:
        """None for an example that an annotator rejected; raises ValueError for an error."""
        if isinstance(value, ValueError):
            raise value
        if isinstance(value, list) and list(map(type, value)) == [str, dict]:
            value = dict(value[1], text=value[0])  # spaCy: [text, {"entities": ...}]
        if not isinstance(value, dict):
            raise ValueError(f"expected a JSON object, found {type(value).__name__}")
        if self._need_tags and value.get("answer") in ("reject", "ignore"):  # Prodigy
            self.notes.add(place, "an example whose answer is reject or ignore is left out")
            return None
        key = next((key for key in self._text_keys if value.get(key) is not None), None)
        if key is None and {"annotations", "data"} <= value.keys():
            raise ValueError(
                "Label Studio's complete JSON; expected its export JSON-MIN, or CoNLL2003"
            )
        if key is None:
            raise ValueError(
                "no '{}' (keys: {})".format(
                    "' or '".join(self._text_keys), ", ".join(value) or "none"
                )
            )
        line = json.dumps(value, ensure_ascii=False)
        if not is_text(line):
            raise ValueError("an escape such as \\ud83d that is half a character")
        if isinstance(value[key], list):
            tag_key = self._tag_key(value, _TAGS)
            words = checked_words(value[key], f"'{key}' has")
            tags = None if tag_key is None else self._checked_tags(words, value[tag_key], tag_key)
            return TaggedSentence(
                words, None, tags, (place,) * len(words), JsonLine(line, "", (), ())
            )
        text = value[key]
        if not isinstance(text, str) or not text.strip():
            raise ValueError(
                "'{}' is {}, expected a text".format(
                    key, "empty" if isinstance(text, str) else "not a text"
                )
            )
        made = of_text(text, place, line, key)
        tag_key = self._tag_key(value, _ENTITIES)
        if tag_key is None:
            return made
        entities = _checked_entities(text, value[tag_key], tag_key)
        return made._replace(entities=entities, tags=self._tags(made.source, entities, place))

    def _tag_key(self, value, names):
        """The key of the entities or tags, None if it does not exist and is not needed."""
        key = next((key for key in self._tag_keys or names if value.get(key) is not None), None)
        if key is None and self._need_tags:
            raise ValueError(f"no '{(self._tag_keys or names)[0]}'")
        return key

    def _checked_tags(self, words, tags, key):
        """The tags of tokens; None if they are numbers and not needed."""
        if not isinstance(tags, list) or len(tags) != len(words):
            raise ValueError(
                f"'{key}' has {len(tags) if isinstance(tags, list) else shown(tags)}, "
                f"expected a tag for each of {len(words)} words"
            )
        wrong = [tag for tag in tags if not isinstance(tag, str)]
        if wrong and self._need_tags:
            raise ValueError(
                f"'{key}' has {shown(wrong[0])}, expected tags such as B-PER; in datasets, "
                f"features['{key}'].feature.names has the names of numbers"
            )
        return None if wrong else tuple(tags)

    def _tags(self, source, entities, place):
        """The tags of a text's words; an entity has all words that it overlaps."""
        # Of "Mr. Smith's", an entity "Smith" at 4 to 9 has the word at 4 alone. Ends and starts of
        # words are sorted, so the words that it overlaps are found by bisection.
        spans, free = [], 0
        for start, end, label in entities:
            first = bisect.bisect_right(source.ends, start)
            last = bisect.bisect_left(source.starts, end)
            if (source.starts[first], source.ends[last - 1]) != (start, end):
                self.notes.add(
                    place,
                    "an entity begins or ends inside of a word: the complete "
                    "word is tagged, so it is counted as wrong in an evaluation",
                )
            if first < free:
                self.notes.add(
                    place, "an entity shares a word with the one before and is not learned"
                )
                continue
            spans.append((first, last, label))
            free = last
        return schemes.tags_of(spans, len(source.starts), SCHEME)


def _checked_entities(text, entities, key):
    """Sorted (start, end, label), without spaces at their ends; raises ValueError for an error."""
    if not isinstance(entities, list):
        raise ValueError(f"'{key}' is not a list")
    found = []
    for entity in entities:
        parts = (
            [next((entity[name] for name in names if name in entity), None) for names in _PARTS]
            if isinstance(entity, dict)
            else entity
        )
        if (
            isinstance(parts, list)
            and parts
            and isinstance(parts[-1], list)
            and len(parts[-1]) == 1
        ):
            parts = [*parts[:-1], *parts[-1]]
        if not (
            isinstance(parts, list)
            and [type(part) for part in parts] == [int, int, str]
            and parts[2]
            and 0 <= parts[0] < parts[1] <= len(text)
        ):
            raise ValueError(
                f"'{key}' has {shown(entity)}, expected [start, end, label] with 0 <= "
                f"start < end <= {len(text)}"
            )
        start, end, label = parts
        part = text[start:end]
        if not any(find_words(part)):
            raise ValueError(f"'{key}' has {shown(entity)}, which is not a word")
        found.append(
            (start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip()), label)
        )
    found.sort()
    for one, other in zip(found, found[1:]):
        if other[0] < one[1]:
            raise ValueError(f"'{key}': {shown(one)} and {shown(other)} overlap")
    return tuple(found)


def skipped(value: Any, place: str) -> TaggedSentence:
    """What represents an object with an error: its keys, if it has some, and no words."""
    line = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else "{}"
    return TaggedSentence(
        (), None, None, (place,), JsonLine(line if is_text(line) else "{}", "", (), ())
    )


def json_lines(
    sources: Iterable[JsonLine],
    spans: Iterable[Optional[Sequence[schemes.TagSpan]]],
    tags: Iterable[Optional[Sequence[str]]],
) -> Iterator[str]:
    """Yields JSON lines with one key more: the entities of each text, [start, end, label], or the
    tags of its tokens; null where they are None, those of a skipped sentence."""
    for source, entities, column in zip(sources, spans, tags):
        value: dict[str, Any] = json.loads(source.line)
        if entities is None or column is None:
            value[ADDED] = None
        elif source.text:
            value[ADDED] = [
                [source.starts[first], source.ends[last - 1], label]
                for first, last, label in entities
            ]
        else:
            value[ADDED] = list(column)
        yield json.dumps(value, ensure_ascii=False) + "\n"
