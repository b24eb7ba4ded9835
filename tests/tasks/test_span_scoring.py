"""Exact match and F1 as the official scripts have them."""

import numpy as np
import pytest

from xlnet.tasks.metrics import span_metrics
from xlnet.tasks.metrics.span_metrics import RULES, score, segments

# (prediction, answer, exact match, F1) by hand from the rules of SQuAD's script.
WORDS = (
    ("The Normans", "normans", 1, 1),  # articles, case
    ("10th and 11th centuries", "in the 10th and 11th centuries", 0, 8 / 9),
    ("U.S.", "US", 1, 1),  # punctuation goes, words join
    ("well-known", "well known", 0, 0),
    ("a cat, a dog", "cat dog", 1, 1),
    ("to be or not to be", "to be", 0, 2 * 2 / (6 + 2)),  # words count as often as they stand
    ("Zürich", "zürich", 1, 1),
    ("Zürich", "Zurich", 0, 0),  # accents are letters
    ("“Ann”", "Ann", 0, 0),  # only ASCII's punctuation goes
    ("ΟΔΟΣ", "οδος", 1, 1),
    ("anthem", "them", 0, 0),  # an article is a whole word
    ("", "cat", 0, 0),
)


@pytest.mark.parametrize("rule", ("squad1.1", "squad2.0"))
@pytest.mark.parametrize("prediction, answer, exact, f1", WORDS)
def test_words(rule, prediction, answer, exact, f1):
    assert RULES[rule].exact(prediction, answer) == exact
    assert RULES[rule].f1(prediction, answer) == pytest.approx(f1)


def test_the_two_versions_part_where_no_word_is_left():
    assert RULES["squad2.0"].f1("The", "a") == 1.0
    assert RULES["squad1.1"].f1("The", "a") == 0.0


def test_the_best_of_several_answers_counts_and_none_wants_the_empty_text():
    scores = score("squad2.0", ["in 1998", "", "x", ""], [["1997", "1998"], [], [], ["the"]])
    np.testing.assert_allclose(scores.exact, [0, 1, 0, 1])
    np.testing.assert_allclose(scores.f1, [2 / 3, 1, 0, 1])
    # An answer of no words is none, yet its question has one.
    assert scores.has_answer.tolist() == [True, False, False, True]
    assert span_metrics.summary(scores) == pytest.approx(
        {
            "exact": 50.0,
            "f1": 200 / 3,
            "HasAns_exact": 50.0,
            "HasAns_f1": 250 / 3,
            "NoAns_exact": 50.0,
            "NoAns_f1": 50.0,
        }
    )
    assert "NoAns_f1" not in span_metrics.summary(score("squad1.1", ["a"], [["b"]]))


# Segments as CMRC's script makes them with NLTK 3.10's words; “ and " stand for its `` and ''.
SEGMENTS = (
    ("全长364.6公里，由NEXON开发。", ["全", "长", "364.6", "公", "里", "由", "nexon", "开", "发"]),
    ("1,903年（U.S. Army）", ["1,903", "年", "u.s.", "army"]),  # a point in the middle stays
    ("面积46,600m²", ["面", "积", "46,600m²"]),
    ("Trust... the Seer", ["trust", "...", "the", "seer"]),
    ('("Ann")don\'t', ["(", "“", "ann", '"', ")", "do", "n't"]),
    ("A-B：C", ["abc"]),
    ("", []),
)


@pytest.mark.parametrize("text, expected", SEGMENTS)
def test_segments(text, expected):
    assert segments(text) == expected


def test_characters():
    rule = RULES["characters"]
    assert rule.exact("《广茂铁路》", "广茂铁路。") == 1
    assert rule.exact("Nexon", "NEXON") == 1
    # The longest run is 茂铁路: 3 of 4 and 3 of 5.
    assert rule.f1("广茂铁路", "三茂铁路线") == pytest.approx(2 * 3 / 9)
    assert rule.f1("上下", "下上") == pytest.approx(0.5)
    assert rule.f1("东", "西") == 0
    assert span_metrics.longest_common_run("abcde", "xbcdy") == 3
