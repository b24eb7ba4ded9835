"""What `generation` and `joint_generation` share: texts, their parts, and how they are chosen."""

from __future__ import annotations

from typing import NamedTuple, Optional, Protocol

import numpy as np


class GeneratedText(NamedTuple):
    """A generated text.

    Attributes:
      text: without the prompt.
      log_probability: of all its tokens, the end of the document included [nats].
      tokens: their number.
      ended: by "stop", "document" (the model wrote <eod>) or "length".
    """

    text: str
    log_probability: float
    tokens: int
    ended: str


class TextChunk(NamedTuple):
    """More of text `number`; the last part has all of it as `whole`. probability: of the token that
    gave it; None: of beams, whose parts are complete texts."""

    number: int
    text: str
    whole: Optional[GeneratedText] = None
    probability: Optional[float] = None


# What a step takes: log probabilities [b,V] of the next token of each text, at first of the prompt
# alone, and whether it is the last step. What it gives: the parts that are complete, and the texts
# that continue, (row of the log probabilities, token) each.
Step = tuple[list[TextChunk], list[tuple[int, int]]]


class Search(Protocol):
    """How the texts of a prompt are chosen."""

    def step(self, log_probabilities: np.ndarray, is_last: bool) -> Step: ...
