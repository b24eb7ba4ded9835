"""Where a sentence ends: a small rule for running text, without a model.

A sentence ends behind

- `. ! ? …` and the full stops of Arabic, Urdu, Hindi, Armenian, Amharic and Khmer, closing quotes
  and brackets included, before a space and then anything but a lower-case letter;
- the full-width `。 ！ ？ ｡ ．` of Chinese and Japanese, closing quotes and brackets included, and
  `! ?` right before one of their characters.

It does not end

- behind a title or the like before a name (`_BEFORE_NAMES`: Mr. Dr. vs. ...), and between No. Fig.
  Jan. and the like (`_BEFORE_DIGITS`) and a digit;
- behind an initial (H. G. Wells) or a word with a full stop inside (U.S., e.g., p.m.);
- behind a number at its beginning (1. II. of a heading or a list);
- before punctuation that cannot begin a sentence (a comma, a dash, a full stop);
- before the mark of the end of a paragraph, <eop>, at the end of the text.

In doubt the rule does not cut: two sentences joined harm less than half a sentence. The
abbreviations are those of English, and some of German, French and Spanish.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import regex

EOP = "<eop>"
_BEFORE_NAMES = frozenset(
    "Mr Mrs Ms Messrs Mx Mme Mlle Dr Drs Prof Rev Hon St Ste Mt Ft Gen Col Maj Capt Cpt Cmdr Lt "
    "Sgt Cpl Pvt Adm Gov Sen Rep Pres Supt Det Insp Atty Jr Sr Sra Srta Dra Hr Fr Dept Univ Assn "
    "Bros Co Corp Inc Ltd vs cf viz ca approx al".split()
)
_BEFORE_DIGITS = frozenset(
    "no nos nr vol vols fig figs eq sec ch chap p pp art jan feb mar apr jun jul aug sept sep oct "
    "nov dec".split()
)
_STOPS = ".!?…؟۔।॥።։။"
_WIDE_STOPS = "。！？｡．"
_WIDE_CLOSERS = "”’」』）〕】》〉"
# The pattern begins with a single set of characters: `re` then skips other text three times as fast
# as with two alternatives. Everything behind the first terminator is optional, so that a run of
# terminators is matched once, however long it is.
_STOP = re.compile(
    rf"[{_STOPS}{_WIDE_STOPS}](?:(?<=[{_STOPS}])(?P<more>[{_STOPS}]*)[\"'”’»)\]}}]*(?=\s+(?P<next>\S))?|[!?{_WIDE_STOPS}]*[{_WIDE_CLOSERS}]*)"
)
_NEXT = re.compile(r"\s+(\S)")
# Characters of Chinese and Japanese words. `tokenizer` has its own ranges, of characters that can
# begin a syllable, on which stored runs depend; CMRC's scorer has those of its authors.
_WIDE_LETTER = regex.compile(
    r"[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\u30fc]"
)
_NEVER_FIRST = frozenset(",;:.!?…%)]}»-–—，、；：" + _WIDE_STOPS + _WIDE_CLOSERS)
_OPENERS = "([{\"'“‘«_"
_NUMBER = re.compile(r"[\s(]*(?:\d{1,3}|[IVXLCDM]{1,7}|[A-Za-z])\.\Z")
_DOTTED = re.compile(r"(?:[^\W\d]{1,3}\.)+[^\W\d]{1,3}")
_LONGEST_WORD = 16  # an abbreviation or a number is shorter


def split_sentences(text: str) -> list[tuple[str, bool]]:
    """Returns (sentence, is_joined) for each sentence of running text.

    Spaces around sentences are lost; `is_joined` says that there was none between the sentence and
    the one before, as in Chinese. A mark <eop> that follows a sentence belongs to it.
    """
    sentences: list[tuple[str, bool]] = []
    last = 0  # where the last of them begins
    for begin, end in _bounds(text):
        sentence = text[begin:end].strip()
        if sentence == EOP and sentences:
            _, is_joined = sentences.pop()
            sentences.append((text[last:end].strip(), is_joined))
        elif sentence:
            # A space may be at the end of the sentence before, or at the beginning of this one.
            has_space = any(map(str.isspace, text[begin - 1 : begin + 1]))
            sentences.append((sentence, begin > 0 and not has_space))
            last = begin
    return sentences


def _bounds(text: str) -> Iterator[tuple[int, int]]:
    """Yields (begin, end) of each sentence, with the spaces before it; the last sentence may be
    spaces alone, or empty."""
    begin = 0
    quotes, counted = 0, 0  # the straight quotes in text[:counted]
    for match in _STOP.finditer(text):
        # The terminators after the first one, None for full-width ones; the first character behind
        # the spaces that follow, None if no space follows.
        more, following = match.groups()
        # With closing quotes and brackets, but behind full-width stops without straight quotes.
        stop, end = match.start(), match.end()
        # After an odd number of straight quotes the text is inside of a quotation.
        if '"' in text[end : end + 2]:
            quotes += text.count('"', counted, end)
            counted = end
            # Then the sentence ends behind the quote that closes the quotation: `。"`, or `. " ` in
            # tokenized text such as WikiText, where `. " ` opens a quotation just as often. The
            # match itself has that of `."`.
            if quotes % 2:
                if text.startswith('"', end):
                    end += 1
                elif text[end : end + 3] in (' " ', ' "'):  # the latter ends the text
                    end += 2
                next_match = _NEXT.match(text, end)
                following = next_match[1] if next_match else None
        if more is not None:
            stops = text[stop] + more
            is_end = _ends_sentence(text, begin, stop, end, stops, following)
        else:  # full-width
            after = text[end : end + 1]
            is_decimal = (  # 3．5
                text[stop] == "．"
                and text[stop - 1 : stop].isdigit()
                and after.isdigit()
            )
            is_end = not is_decimal and after not in _NEVER_FIRST
        if is_end:
            yield begin, end
            begin = end
    yield begin, len(text)


def _ends_sentence(
    text: str, first: int, stop: int, end: int, stops: str, following: str | None
) -> bool:
    """Whether sentence terminators that are not full-width end a sentence.

    Args:
      text: that has the sentence.
      first: where the sentence begins.
      stop: where the terminators begin.
      end: where they end, with closing quotes and brackets.
      stops: the terminators.
      following: the first character behind the spaces that follow; None if no space follows.
    """
    if following is None:  # without a space only ! and ? before Chinese or Japanese
        return text[end - 1] in "!?" and _WIDE_LETTER.match(text, end) is not None
    if following.islower() or following in _NEVER_FIRST:
        return False
    return stops != "." or not _is_abbreviation(text, first, stop, following)


def _is_abbreviation(text: str, first: int, stop: int, following: str) -> bool:
    """Whether a full stop belongs to the word or number before it, and so ends no sentence.

    Args:
      text: that has the sentence.
      first: where the sentence begins.
      stop: where the full stop is.
      following: the first character behind it that is no space.
    """
    # A number, or a single letter, that is all of the sentence, as in a list.
    if stop - first < _LONGEST_WORD and _NUMBER.match(text, first, stop + 1):
        return True
    before = text[max(first, stop - _LONGEST_WORD) : stop]
    before = before.replace("-", " ").replace("—", " ")
    if not before or before[-1].isspace():  # a full stop by itself
        return False
    word = before.split()[-1].lstrip(_OPENERS)
    if len(word) == 1 and word.isupper():  # an initial
        return word != "I"
    if word in _BEFORE_NAMES or (word.isupper() and word.capitalize() in _BEFORE_NAMES):
        return True
    if following.isdigit() and word.lower() in _BEFORE_DIGITS:
        return True
    return _DOTTED.fullmatch(word) is not None  # U.S
