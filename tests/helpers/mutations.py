"""Damage to a file: the same seed damages the same bytes."""

import json
import random

KINDS = (
    "flipped",
    "cut",
    "emptied",
    "doubled",
    "swapped",
    "overwritten",
    "removed",
    "other value",
)


def mutate(kind, content, other, rng):
    """The bytes of a file after damage of a kind.

    Args:
      other: the bytes of the same file of another version. rng: a `random.Random`.
    """
    return _MUTATE[kind](content, other, rng)


def _flipped(content, other, rng):
    """One to three bits, often in the first bytes, where formats have their marks."""
    spoiled = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 3))):
        reach = min(len(spoiled), 200) if rng.random() < 0.3 else len(spoiled)
        spoiled[rng.randrange(reach)] ^= 1 << rng.randrange(8)
    return bytes(spoiled)


def _cut(content, other, rng):
    return content[: rng.randrange(len(content))]


def _doubled(content, other, rng):
    return content + content


def _overwritten(content, other, rng):
    """Replaces some bytes by random ones."""
    place = rng.randrange(len(content))
    more = bytes(rng.randrange(256) for _ in range(rng.choice((1, 4, 40))))
    return (content[:place] + more + content[place + len(more) :])[: len(content)]


def _removed(content, other, rng):
    begin, end = sorted((rng.randrange(len(content)), rng.randrange(len(content))))
    return content[:begin] + content[end:]


_STRANGE = (
    None,
    True,
    -1,
    0,
    10**30,
    1e308,
    float("nan"),
    "",
    "../x",
    "\x00",
    "\ud800",
    [],
    {},
    [[]],
    {"": {}},
    "x" * 1000,
    [1] * 100,
)


def _other_value(content, other, rng):
    """JSON with another value, or without a key; other files are unchanged."""
    try:
        value = json.loads(content)
    except ValueError:
        return content
    holders = [each for each in _holders(value) if len(each)]
    if not holders:
        return content
    holder = rng.choice(holders)
    key = (
        rng.choice(list(holder))
        if isinstance(holder, dict)
        else rng.randrange(len(holder))
    )
    if isinstance(holder, dict) and rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = rng.choice(_STRANGE)
    return json.dumps(value).encode()


def _holders(value):
    if isinstance(value, (dict, list)):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _holders(inner)


_MUTATE = {
    "flipped": _flipped,
    "cut": _cut,
    "emptied": lambda content, other, rng: b"",
    "doubled": _doubled,
    "swapped": lambda content, other, rng: other,
    "overwritten": _overwritten,
    "removed": _removed,
    "other value": _other_value,
}
assert tuple(_MUTATE) == KINDS


def rng_of(*of):
    """A `random.Random` seeded by these values."""
    return random.Random(repr(of))
