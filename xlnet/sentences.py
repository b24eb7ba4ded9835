"""Where a sentence ends: a small rule for running text, without a model.

A sentence ends behind

- `. ! ? …` and the full stops of Arabic, Urdu, Hindi, Armenian, Amharic and Khmer, closing quotes
  and brackets included, if a blank follows and then nothing in lower case;
- the full-width `。 ！ ？ ｡ ．` of Chinese and Japanese, closing quotes and brackets included, and
  `! ?` right before one of their characters.

It goes on

- behind a title or the like that stands before a name (`_BEFORE_NAMES`: Mr. Dr. vs. ...), and
  before a digit behind No. Fig. Jan. and the like (`_BEFORE_DIGITS`);
- behind an initial (H. G. Wells) and a word with a full stop inside (U.S., e.g., p.m.);
- behind the number that it begins with (1. II. of a heading or a list);
- before punctuation that nothing begins with (a comma, a dash, a full stop).

Where it is in doubt it does not cut: two sentences joined harm less than half a sentence. The
abbreviations are those of English, and some of German, French and Spanish.
"""

import re

_BEFORE_NAMES = frozenset(
    "Mr Mrs Ms Messrs Mx Mme Mlle Dr Drs Prof Rev Hon St Ste Mt Ft Gen Col Maj Capt Cpt Cmdr Lt "
    "Sgt Cpl Pvt Adm Gov Sen Rep Pres Supt Det Insp Atty Jr Sr Sra Srta Dra Hr Fr Dept Univ Assn "
    "Bros Co Corp Inc Ltd vs cf viz ca approx al".split())
_BEFORE_DIGITS = frozenset(
    "no nos nr vol vols fig figs eq sec ch chap p pp art jan feb mar apr jun jul aug sept sep oct "
    "nov dec".split())
_WIDE_STOPS = "。！？｡．"
_WIDE_CLOSERS = "”’」』）〕】》〉"
# Nothing is asked of what follows: so each run of stops is looked at once, however long it is.
_STOP = re.compile(r"(?P<stop>[.!?…؟۔।॥։።។]+)[\"'”’»)\]}]*|(?P<wide>[%s][!?%s]*)[%s]*"
                   % (_WIDE_STOPS, _WIDE_STOPS, _WIDE_CLOSERS))
_NEXT = re.compile(r"\s+(\S)")
_WIDE_LETTER = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_NEVER_FIRST = frozenset(",;:.!?…%)]}»-–—，、；：" + _WIDE_STOPS + _WIDE_CLOSERS)
_LAST_WORD = re.compile(r"[^\s(\[{\"'“‘«_—–-]*\Z")
_NUMBER = re.compile(r"[\s(]*(?:\d{1,3}|[IVXLCDM]{1,7}|[A-Za-z])\.\Z")
_DOTTED = re.compile(r"(?:[^\W\d]{1,3}\.)+[^\W\d]{1,3}")
_LONGEST_WORD = 40           # an abbreviation is shorter


def split_sentences(text):
    """Returns the sentences of a text, stripped, none of them blank.

    One after the other they are the text: only blanks between sentences are lost.
    """
    sentences, begin, quotes, counted = [], 0, 0, 0
    for match in _STOP.finditer(text):
        end = match.end()
        quotes += text.count('"', counted, end)
        counted = end
        if quotes % 2:
            end = _behind_quote(text, end)
        if (_ends_wide if match["wide"] else _ends)(text, begin, match, end):
            sentences.append(text[begin:end].strip())
            begin = end
    sentences.append(text[begin:].strip())
    return [sentence for sentence in sentences if sentence]


def _behind_quote(text, end):
    """Where a sentence ends if a quotation is open: behind its straight quote, if one follows.

    That is `."` or, in text taken apart like WikiText, `. " `; the latter opens one as often.
    """
    if text.startswith('"', end):
        return end + 1
    return end + 2 if text[end:end + 3] in (' " ', ' "') else end


def _ends_wide(text, _, match, end):
    """Whether a sentence ends with the full-width stop that was matched, and goes up to `end`."""
    stop, following = match.start(), text[end:end + 1]
    is_decimal = text[stop] == "．" and text[stop - 1:stop].isdigit() and following.isdigit()
    return not is_decimal and following not in _NEVER_FIRST


def _ends(text, begin, match, end):
    """Whether a sentence that began at `begin` ends with the stop that was matched."""
    following = _NEXT.match(text, end)
    if not following:
        return text[end - 1] in "!?" and bool(_WIDE_LETTER.match(text, end))
    if following[1].islower() or following[1] in _NEVER_FIRST:
        return False
    return match["stop"] != "." or not _is_abbreviation(text, begin, match.start(), following[1])


def _is_abbreviation(text, begin, stop, following):
    """Whether the full stop at `stop` belongs to the word before it."""
    word = _LAST_WORD.search(text, max(begin, stop - _LONGEST_WORD), stop).group()
    if len(word) == 1 and word.isupper():
        return word != "I" or _NUMBER.match(text, begin, stop + 1) is not None
    return (word in _BEFORE_NAMES or _DOTTED.fullmatch(word) is not None
            or word.isupper() and word.capitalize() in _BEFORE_NAMES
            or following.isdigit() and word.lower() in _BEFORE_DIGITS
            or _NUMBER.match(text, begin, stop + 1) is not None)
