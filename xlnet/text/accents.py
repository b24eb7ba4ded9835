"""Whether a text may lose its accents: what the vocabulary of English does to other languages."""

from __future__ import annotations

import collections
import unicodedata
from collections.abc import Sequence

from xlnet.errors import UserError
from xlnet.tokenization.tokenizer import clean_text

_MOST_CHANGED = 0.01  # fraction of the letters that stripping accents changes in English
_ENOUGH_LETTERS = 1_000_000  # after so many letters it is checked, before a large text is all read
_LONGEST_EXAMPLE = 20  # [characters]


class StrippedLetters:
    """The letters of a text that lose something where accents are stripped.

    English loses an accent in some names; German loses its umlauts, Japanese its voicing marks,
    Thai its tones, Korean its syllables. So the language is declared where many letters change.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        """languages: the values of --language."""
        self._languages = languages
        self._letters, self._changed = 0, 0
        self._example = ""
        self._changes: dict[str, bool] = {}  # of each character that occurred

    def add(self, sentences: Sequence[str]) -> None:
        """Counts the letters of some sentences; raises as `check` does as soon as they are many."""
        for character, count in collections.Counter("".join(sentences)).items():
            if unicodedata.category(character)[0] not in "LM":
                continue
            if character not in self._changes:
                self._changes[character] = _is_changed(character)
            self._letters += count
            self._changed += count * self._changes[character]
        if self._changed and not self._example:
            self._example = next(
                (
                    word
                    for sentence in sentences
                    for word in sentence.split()
                    if any(map(self._changes.get, word))
                ),
                "",
            )[:_LONGEST_EXAMPLE]
        if self._letters > _ENOUGH_LETTERS:
            self.check()

    def check(self) -> None:
        """Raises UserError if stripping changes more letters than in English."""
        if self._changed > _MOST_CHANGED * self._letters:
            raise UserError(
                "language is not given, and as English the text would lose accents in "
                f"{100 * self._changed / self._letters:.1f} % of its letters ({self._example} "
                f"becomes {clean_text(self._example)}); give --language, one of "
                f"{', '.join(self._languages)}; all but english keep them, and other is any other "
                "language with an alphabet"
            )


def _is_changed(character: str) -> bool:
    """Whether stripping accents changes a letter, other than to its compatible form, which most
    normalizations of SentencePiece give, too: Ａ is A in either case."""
    return clean_text(character) != unicodedata.normalize("NFKC", character)
