"""Where a sentence ends: a small rule for running text, without a model or a dictionary.

A sentence ends behind

- `. ! ? …` (and the full stops of Arabic, Urdu, Hindi, Armenian, Amharic, Khmer), closing quotes
  and brackets included, if a blank follows and the next word does not begin in lower case;
- `。 ！ ？ ｡ ．`, closing quotes and brackets included, blank or not, as in Chinese and Japanese.

It goes on

- behind an abbreviation that stands before a name or number (`_ABBREVIATIONS`: Mr. Dr. No. ...),
  an initial (H. G. Wells), a word with a full stop inside (U.S., e.g., p.m.);
- behind the number of a heading or list (1. II. at its beginning);
- before punctuation that nothing begins with (a comma, a dash, a full stop).

Where it is in doubt it does not cut: two sentences joined harm less than half a sentence.
"""

import re

_ABBREVIATIONS = frozenset(
    "mr mrs ms messrs mme mlle dr drs prof rev hon st ste mt ft gen col maj capt cpt cmdr lt sgt "
    "adm gov sen rep pres supt det insp atty sr jr dept univ assn bros co corp inc ltd no nos vol "
    "vols fig figs eq sec ch chap p pp art ed eds op cit approx ca cf vs viz al jan feb mar apr "
    "jun jul aug sept sep oct nov dec".split())
# What may end a name at a sentence's end as well: the next word then decides nothing.
_CLOSERS = "\"'”’»)\\]}"
_WIDE_CLOSERS = "”’」』）〕】》〉"
_END = re.compile(
    r"(?P<stop>[.!?…؟۔।॥։።។]+)[%s]*(?=\s+(?P<next>\S))"
    r"|(?P<wide>[。！？｡．!?]*[。！？｡．][。！？｡．!?]*)(?P<closed>[%s]*)" % (_CLOSERS, _WIDE_CLOSERS))
_NEVER_FIRST = frozenset(",;:.!?…%)]}»-–—，、；：。！？．｡…—）〕】》〉」』”’")
_LAST_WORD = re.compile(r"[^\s(\[{\"'“‘«_—–-]*\Z")
_NUMBER = re.compile(r"[\s(]*(?:\d{1,3}|[IVXLCDM]{1,7}|[A-Za-z])\.\Z")


def split_sentences(text):
    """Returns the sentences of a text, stripped, none of them blank.

    Joined they are the text: only blanks between sentences are lost.
    """
    sentences, begin, quotes, counted = [], 0, 0, 0
    for match in _END.finditer(text):
        end = match.end()
        if match.group("wide"):
            quotes += text.count('"', counted, end)
            counted = end
            if quotes % 2 and text.startswith('"', end):     # a straight quote that closes
                end += 1
            ends = _ends_wide(text, match.start("wide"), end)
        else:
            ends = _ends_stop(text, begin, match)
        if ends:
            sentences.append(text[begin:end])
            begin = end
    sentences.append(text[begin:])
    return [sentence for sentence in map(str.strip, sentences) if sentence]


def _ends_wide(text, stop, end):
    """Whether a full-width full stop at `stop` ends a sentence that would end before `end`."""
    is_decimal = text[stop] == "．" and text[stop - 1:stop].isdigit() and text[end:end + 1].isdigit()
    return not is_decimal and text[end:end + 1] not in _NEVER_FIRST


def _ends_stop(text, begin, match):
    """Whether a sentence that began at `begin` ends with the stop that was matched."""
    following = match.group("next")
    if following.islower() or following in _NEVER_FIRST:
        return False
    if match.group("stop") != ".":
        return True
    stop = match.start("stop")
    word = _LAST_WORD.search(text, max(begin, stop - 40), stop).group()
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    if is_initial or "." in word or word.lower() in _ABBREVIATIONS:
        return False
    return not _NUMBER.match(text, begin, stop + 1)
