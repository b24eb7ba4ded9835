"""Where a sentence ends: a small rule for running text, without a model.

A sentence ends behind

- `. ! ? …` and the full stops of Arabic, Urdu, Hindi, Armenian, Amharic and Khmer, closing quotes
  and brackets included, if a space follows and then nothing in lower case;
- the full-width `。 ！ ？ ｡ ．` of Chinese and Japanese, closing quotes and brackets included, and
  `! ?` right before one of their characters.

It goes on

- behind a title or the like that stands before a name (`_BEFORE_NAMES`: Mr. Dr. vs. ...), and
  before a digit behind No. Fig. Jan. and the like (`_BEFORE_DIGITS`);
- behind an initial (H. G. Wells) and a word with a full stop inside (U.S., e.g., p.m.);
- behind the number that it begins with (1. II. of a heading or a list);
- before punctuation that nothing begins with (a comma, a dash, a full stop).

The mark of the end of a paragraph, <eop>, belongs to the paragraph's last sentence.

Where it is in doubt it does not cut: two sentences joined harm less than half a sentence. The
abbreviations are those of English, and some of German, French and Spanish.
"""

from __future__ import annotations

import re

import regex

from xlnet.tokenization.character_classes import HAN_OR_KANA

EOP = "<eop>"
_BEFORE_NAMES = frozenset(
    "Mr Mrs Ms Messrs Mx Mme Mlle Dr Drs Prof Rev Hon St Ste Mt Ft Gen Col Maj Capt Cpt Cmdr Lt "
    "Sgt Cpl Pvt Adm Gov Sen Rep Pres Supt Det Insp Atty Jr Sr Sra Srta Dra Hr Fr Dept Univ Assn "
    "Bros Co Corp Inc Ltd vs cf viz ca approx al".split())
_BEFORE_DIGITS = frozenset(
    "no nos nr vol vols fig figs eq sec ch chap p pp art jan feb mar apr jun jul aug sept sep oct "
    "nov dec".split())
_STOPS = ".!?…؟۔।॥።։။"
_WIDE_STOPS = "。！？｡．"
_WIDE_CLOSERS = "”’」』）〕】》〉"
# It begins with a set of characters: so `re` runs through what stands between stops three times as
# fast as with two alternatives. What follows need not be there for a match: so each run of stops
# is looked at once, however long.
_STOP = re.compile(
    r"[%s%s](?:(?<=[%s])(?P<more>[%s]*)[\"'”’»)\]}]*(?=\s+(?P<next>\S))?|[!?%s]*[%s]*)"
    % (_STOPS, _WIDE_STOPS, _STOPS, _STOPS, _WIDE_STOPS, _WIDE_CLOSERS))
_NEXT = re.compile(r"\s+(\S)")
_WIDE_LETTER = regex.compile("[%s]" % HAN_OR_KANA)
_NEVER_FIRST = frozenset(",;:.!?…%)]}»-–—，、；：" + _WIDE_STOPS + _WIDE_CLOSERS)
_OPENERS = "([{\"'“‘«_"
_NUMBER = re.compile(r"[\s(]*(?:\d{1,3}|[IVXLCDM]{1,7}|[A-Za-z])\.\Z")
_DOTTED = re.compile(r"(?:[^\W\d]{1,3}\.)+[^\W\d]{1,3}")
_LONGEST_WORD = 16           # an abbreviation or a number is shorter


def split_sentences(text: str) -> list[str]:
    """Returns the sentences of a text, stripped, none of them blank.

    One after the other they are the text: only spaces between sentences are lost.
    """
    return [sentence for sentence, _ in sentences_and_joints(text)]


def sentences_and_joints(text: str) -> list[tuple[str, bool]]:
    """Returns (sentence, whether no space stands between it and the one before) of each."""
    found: list[tuple[str, bool]] = []
    before = " "
    for begin, end in _bounds(text):
        sentence = text[begin:end].strip()
        if sentence == EOP and found:
            found[-1] = (found[-1][0] + sentence, found[-1][1])
        elif sentence:
            found.append((sentence, not (before.isspace() or text[begin].isspace())))
        before = text[end - 1:end] or before
    return found


def _bounds(text):
    """Yields (begin, end) of each sentence, the spaces around it included."""
    begin, quotes, counted = 0, 0, 0
    for match in _STOP.finditer(text):
        more, following = match.groups()
        stop, end = match.start(), match.end()
        if '"' in text[end:end + 2]:
            quotes += text.count('"', counted, end)
            counted = end
            if quotes % 2:
                end = _behind_quote(text, end)
                following = _NEXT.match(text, end)
                following = following and following[1]
        if _ends_wide(text, stop, end) if more is None else \
                _ends(text, begin, stop, end, text[stop] + more, following):
            yield begin, end
            begin = end
    yield begin, len(text)


def _behind_quote(text, end):
    """Where a sentence ends if a quotation is open: behind its straight quote, if one follows.

    That is `."` or, in text taken apart like WikiText, `. " `; the latter opens one as often.
    """
    if text.startswith('"', end):
        return end + 1
    return end + 2 if text[end:end + 3] in (' " ', ' "') else end


def _ends_wide(text, begin, end):
    """Whether a sentence ends with the full-width stop at `begin`, and goes up to `end`."""
    following = text[end:end + 1]
    is_decimal = text[begin] == "．" and text[begin - 1:begin].isdigit() and following.isdigit()
    return not is_decimal and following not in _NEVER_FIRST


def _ends(text, first, begin, end, stops, following):
    """Whether a sentence from `first` on ends with the `stops` at `begin`, and goes up to `end`.

    Args:
      following: what stands behind the spaces that follow, None if no space does.
    """
    if following is None:
        return text[end - 1] in "!?" and _WIDE_LETTER.match(text, end) is not None
    if following.islower() or following in _NEVER_FIRST:
        return False
    return stops != "." or not _is_abbreviation(text, first, begin, following)


def _is_abbreviation(text, first, stop, following):
    """Whether the full stop at `stop`, in a sentence from `first` on, belongs to its word."""
    is_number = stop - first < _LONGEST_WORD and _NUMBER.match(text, first, stop + 1) is not None
    before = text[max(first, stop - _LONGEST_WORD):stop].replace("-", " ").replace("—", " ")
    if is_number or not before or before[-1].isspace():
        return is_number
    word = before.split()[-1].lstrip(_OPENERS)
    if len(word) == 1 and word.isupper():
        return word != "I"
    return (word in _BEFORE_NAMES or word.isupper() and word.capitalize() in _BEFORE_NAMES
            or following.isdigit() and word.lower() in _BEFORE_DIGITS
            or "." in word and _DOTTED.fullmatch(word) is not None)
