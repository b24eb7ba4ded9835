"""sentences: where they end, in many scripts, and that nothing is lost."""

import random

import pytest

from xlnet.corpus.sentences import split_sentences


def sentences_of(text):
    return [sentence for sentence, _ in split_sentences(text)]


@pytest.mark.parametrize(
    "text",
    [  # | where a sentence ends
        "One.| Two!| Three?| Four…| Five",
        "What?!| No...| Yes.",
        "He stopped ... and went on. . . .| Then he fell.",
        "“Stop!” he said.| “Why?”| He went.",
        '"It is," she said.| "Is it?"| (So it is.)| [It was.]| Good.',
        "Mr. Bennet met Mrs. Long, Dr. Grant vs. St. John and MR. COLLINS.| No. 5 won.",
        "Is it so?| No.| I will not.| See No. 12 and pp. 3, Fig. 4, Jan. 5.| This is no.| Art is "
        "art.| So",
        "H. G. Wells and J. K. Rowling.| So am I.| He lives in the U.S. and the U.K. at 5 "
        "p.m. or so.",
        "She has a Ph.D. in e.g. Latin.| It rose by 3.5.| See example.com.| Next.",
        "1. The first.| Then.",
        "II. THE STAR.| It fell.",
        "(a) One.| Two.",
        "I. A chapter.| So.",
        "It was 1945.| The war ended.| 50 came.",
        'a , b .| Then " c . "| H. americanus is " big . "| " Is it ?| No . "| So " it is . "',
        'He said: "Go.| Now."| "Why?"| He went.',
        "¿Qué?| ¡No!| Él vino.| Été.| Él dijo: «Sí.»| Fin.",
        "Он пришёл.| Она ушла?| Да! но нет.",
        "这是。|那是！|“好。”|他说：“不！”，走了。|「是？」|完．|３．１４是数．|了",
        '他说："好。"|我说："不。|是。"|走',
        "真的吗?|是!|好 ok!yes",
        "今日は。|元気？！|はい（そうです。）|では",
        "안녕하세요.| 네!| 갑니다.",
        "One.| Two. <eop>",
        "好。|是。<eop>",
        "One.| <eop> Two.",
        "<eop>",
        "آیا؟| نعم.| نہیں۔| ہاں",
        "यह है।| वह है॥| हाँ",
        "Այո։| Ոչ",
        "",
    ],
)
def test_sentences_end_where_marked(text):
    expected = [part.strip() for part in text.split("|") if part]
    assert sentences_of(text.replace("|", "")) == expected


def random_text(rng):
    pieces = [" ", "  ", "\n", "\u3000"]
    pieces += 'a Bc I Mr U.S . .. ! ? … " ” “ ) ( 1 ２ ． 。 ？ 字 」 - , é ।'.split()
    return "".join(rng.choices(pieces, k=rng.randrange(40)))


def test_only_blanks_are_lost():
    rng = random.Random(0)
    cuts = 0
    for _ in range(5000):
        text = random_text(rng)
        sentences = sentences_of(text)
        position = 0
        for sentence in sentences:
            assert sentence == sentence.strip() != ""
            found = text.find(sentence, position)
            assert found >= 0 and not text[position:found].strip(), text
            position = found + len(sentence)
        assert not text[position:].strip(), text
        cuts += len(sentences) > 1
    assert cuts > 1000
