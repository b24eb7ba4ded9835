"""Sentences of JSON and Parquet: objects with a text and its entities, or tokens and their tags."""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, Optional

from xlnet import encodings
from xlnet.tasks.files import forms, schemes
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


# ---- values of a file


def parquet_objects(
    path: str, opened: Callable[[], IO[bytes]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (place, object) of the rows of a Parquet file. Numbers of classes become their names
    where the file has them, as `datasets` of Hugging Face writes it."""
    stored = forms.parquet_file(path, opened)
    names = _class_names(stored.schema_arrow.metadata or {})
    for place, value in forms.parquet_objects(path, stored):
        for key, known in names.items():
            numbers = value.get(key)
            if isinstance(numbers, list) and all(
                type(one) is int and 0 <= one < len(known) for one in numbers
            ):
                value[key] = [known[one] for one in numbers]
        yield place, value


def _class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """The names of the classes of each column with lists of class numbers."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        columns = dict(features.items())
    except (KeyError, TypeError, AttributeError, ValueError):
        return {}  # written by another program
    found = {}
    for key, feature in columns.items():
        # A list of classes is {"feature": {"names": [...]}}, in old versions in a list.
        inner = feature.get("feature") if isinstance(feature, dict) else None
        if isinstance(feature, list) and len(feature) == 1:
            inner = feature[0]
        names = inner.get("names") if isinstance(inner, dict) else None
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            found[key] = names
    return found


# ---- an object to a sentence


class ObjectReader:
    """Makes sentences of objects.

    Attributes:
      notes: examples and entities that are not used as they are.
    """

    def __init__(
        self,
        word_column: str,
        tag_column: Optional[str],
        need_tags: bool,
    ):
        """
        Args:
          word_column: the key of the text or the tokens; a number: one of the usual keys.
          tag_column: the same of the entities or tags; None: one of the usual keys.
          need_tags: whether an object without them is an error.
        """
        self._text_keys = _TEXTS if word_column.isdecimal() else (word_column,)
        self._tag_keys = () if tag_column is None or tag_column.isdecimal() else (tag_column,)
        self._need_tags = need_tags
        self.notes = RowErrors()

    def sentence(self, value: Any, place: str) -> Optional[TaggedSentence]:
        """The sentence of an object; None for an empty line.

        Raises:
          ValueError: the object has no text, or bad entities or tags.
        """
        if value is forms.EMPTY_LINE and self._need_tags:
            self.notes.add(place, "an empty line is left out")
            return None
        if value is forms.EMPTY_LINE:  # predictions are aligned with the lines
            return skipped({}, place)
        if isinstance(value, ValueError):
            raise value
        if isinstance(value, list) and len(value) == 2:
            text, more = value
            if isinstance(text, str) and isinstance(more, dict):
                value = dict(more, text=text)  # spaCy: [text, {"entities": ...}]
        if not isinstance(value, dict):
            raise ValueError(f"expected a JSON object, found {type(value).__name__}")
        line = json.dumps(value, ensure_ascii=False)
        value = {encodings.composed(name): each for name, each in value.items()}
        if ADDED in value and not self._need_tags:
            self.notes.add(place, f"the key '{ADDED}' is replaced by the prediction")
        key = next((key for key in self._text_keys if value.get(key) is not None), None)
        if key is None and {"annotations", "data"} <= value.keys():
            raise ValueError(
                "Label Studio's complete JSON; expected its export JSON-MIN, or CoNLL2003"
            )
        if key is None:
            raise ValueError(
                "no '{}' (keys: {}); --word_column names it".format(
                    "' or '".join(self._text_keys), ", ".join(value) or "none"
                )
            )
        if not is_text(line):
            raise ValueError("an escape such as \\ud83d that is half a character")
        if isinstance(value[key], list):
            return self._of_tokens(value, key, place, line)
        return self._of_text(value, key, place, line)

    def _of_tokens(self, value: dict, key: str, place: str, line: str) -> TaggedSentence:
        """The sentence of an object with tokens and, perhaps, a tag for each."""
        words = checked_words(value[key], f"'{key}' has")
        tag_key = self._tag_key(value, _TAGS)
        tags = None
        if tag_key is not None:
            tags = self._checked_tags(words, value[tag_key], tag_key)
        return TaggedSentence(words, None, tags, (place,) * len(words), JsonLine(line, "", (), ()))

    def _of_text(self, value: dict, key: str, place: str, line: str) -> TaggedSentence:
        """The sentence of an object with a text and, perhaps, its entities."""
        text = value[key]
        if not isinstance(text, str):
            raise ValueError(f"'{key}' is not a text, expected a text")
        if not text.strip():
            raise ValueError(f"'{key}' is empty, expected a text")
        made = of_text(text, place, line, key)
        tag_key = self._tag_key(value, _ENTITIES)
        if tag_key is None:
            return made
        try:
            entities = _checked_entities(text, value[tag_key], tag_key)
        except ValueError:
            if self._need_tags:
                raise
            return made
        assert isinstance(made.source, JsonLine)
        return made._replace(entities=entities, tags=self._tags(made.source, entities, place))

    def _tag_key(self, value: dict, names: Sequence[str]) -> Optional[str]:
        """The key of the entities or tags, None if it does not exist and is not needed."""
        keys = self._tag_keys or names
        key = next((key for key in keys if value.get(key) is not None), None)
        if key is None and self._need_tags:
            raise ValueError(f"no '{keys[0]}'")
        return key

    def _checked_tags(self, words: Sequence[str], tags: Any, key: str) -> Optional[tuple[str, ...]]:
        """The tags of tokens; None if they are wrong and not needed."""
        error = _error_of_tags(words, tags, key)
        if error and self._need_tags:
            raise ValueError(error)
        return None if error else tuple(tags)

    def _tags(
        self, source: JsonLine, entities: Sequence[schemes.TagSpan], place: str
    ) -> tuple[str, ...]:
        """The tags of a text's words; an entity has all words that it overlaps."""
        # Starts and ends of words are sorted, so the words that an entity overlaps are found by
        # bisection. Example: in "Mr. Smith's" an entity from 4 to 9 overlaps only the word at 4.
        spans = []
        free = 0  # the first word that belongs to no entity yet
        for start, end, label in entities:
            first = bisect.bisect_right(source.ends, start)
            last = bisect.bisect_left(source.starts, end)
            if (source.starts[first], source.ends[last - 1]) != (start, end):
                self.notes.add(
                    place,
                    "an entity begins or ends inside of a word: the complete word is tagged, so it "
                    "is counted as wrong in an evaluation",
                )
            if first < free:
                self.notes.add(
                    place, "an entity shares a word with the one before and is not learned"
                )
                continue
            spans.append((first, last, label))
            free = last
        return schemes.tags_of(spans, len(source.starts), SCHEME)


def _error_of_tags(words: Sequence[str], tags: Any, key: str) -> Optional[str]:
    """What is wrong with the tags of tokens; None: nothing."""
    if not isinstance(tags, list) or len(tags) != len(words):
        found = len(tags) if isinstance(tags, list) else shown(tags)
        return f"'{key}' has {found}, expected a tag for each of {len(words)} words"
    wrong = [tag for tag in tags if not isinstance(tag, str)]
    if wrong:
        return (
            f"'{key}' has {shown(wrong[0])}, expected tags such as B-PER; in datasets, "
            f"features['{key}'].feature.names has the names of numbers"
        )
    return None


def _checked_entities(text: str, entities: Any, key: str) -> tuple[schemes.TagSpan, ...]:
    """Sorted (start, end, label), without spaces at their ends; raises ValueError for an error."""
    if not isinstance(entities, list):
        raise ValueError(f"'{key}' is not a list")
    found = []
    for entity in entities:
        parts = _entity_parts(entity)
        is_entity = (
            isinstance(parts, list)
            and [type(part) for part in parts] == [int, int, str]
            and parts[2]
            and 0 <= parts[0] < parts[1] <= len(text)
        )
        if not is_entity:
            raise ValueError(
                f"'{key}' has {shown(entity)}, expected [start, end, label] with 0 <= "
                f"start < end <= {len(text)}"
            )
        start, end, label = parts
        part = text[start:end]
        if not any(find_words(part)):
            raise ValueError(f"'{key}' has {shown(entity)}, which is not a word")
        # Label Studio writes the text of an entity, too.
        said = entity.get("text") if isinstance(entity, dict) else None
        if isinstance(said, str) and said.split() != part.split():
            raise ValueError(
                f"'{key}' has {shown(entity)}, but there the text is {shown(part)}; start and end "
                "count characters, of which an emoji is one"
            )
        start += len(part) - len(part.lstrip())
        end -= len(part) - len(part.rstrip())
        found.append((start, end, label))
    found.sort()
    for one, other in zip(found, found[1:]):
        if other[0] < one[1]:
            raise ValueError(f"'{key}': {shown(one)} and {shown(other)} overlap")
    return tuple(found)


def _entity_parts(entity: Any) -> Any:
    """[start, end, label] of an entity, or what is there instead."""
    if isinstance(entity, dict):
        parts = []
        for names in _PARTS:  # the first of these keys that the entity has
            known = [entity[name] for name in names if name in entity]
            parts.append(known[0] if known else None)
        entity = parts
    if not isinstance(entity, list) or len(entity) != len(_PARTS):
        return entity
    start, end, label = entity
    if isinstance(label, list) and len(label) == 1:  # Label Studio
        return [start, end, label[0]]
    return [start, end, label]


# ---- predictions


def skipped(value: Any, place: str) -> TaggedSentence:
    """A sentence without words in place of an object with an error; it keeps the keys of the
    object, if it has some."""
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
