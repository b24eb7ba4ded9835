"""scripts/compare_long_questions.py: only the first letter tells, and both ways run."""

import json
import random

import compare_long_questions as script
from helpers import command


def test_the_first_letter_says_which_name_is_the_answer():
    draw = random.Random(0)
    places = set()
    for number in range(300):
        row = script.made_up(draw, number)
        text, start = row["context"], row["answer_start"]
        assert len(text) == 1 + script.FILLED + script.LAST and text[start] == row["answer"]
        names = [i for i, letter in enumerate(text) if letter in script.NAMES]
        assert len(names) == 3 and names[0] > script.FILLED
        assert start == names[script.KEYS.index(text[0])]
        places.add(start)
    assert len(places) == script.LAST


def test_both_ways_are_compared(tmp_path):
    done = command.run("scripts/compare_long_questions.py", "--questions=40", "--train_steps=2",
                       "--out_dir=%s" % tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "dev.jsonl").read_text().splitlines()]
    assert len(rows) == 4
    table = done.stdout.splitlines()[-4:]
    assert [line.split(" | ")[0] for line in table] == [
        "| long_document", "| ---", "| sliding", "| memory"]
    assert all(0 <= float(cell) <= 100 for line in table[2:] for cell in line.split(" | ")[1:3])
