"""examples/find_duplicates: pairs of different texts, the most alike first."""

import contextlib

import numpy as np
from find_duplicates import find


class Model:
    """Gives the texts "one" to "four" vectors whose cosines are known."""

    def vectors(self, texts):
        of_text = {"one": [3, 0], "two": [3, 1], "three": [-3, 1], "four": [-3, -2]}
        return np.array([of_text[text] for text in texts], np.float32)


def test_pairs_of_different_texts_are_listed(tmp_path, monkeypatch, capsys):
    """Those with negative cosines, too: of few texts, zeros of no pair stood before them."""
    loaded = contextlib.nullcontext(Model())
    monkeypatch.setattr(find.xlnet, "load", lambda path: loaded)
    (tmp_path / "texts.tsv").write_text("text\none\ntwo\nthree\ntwo\nfour\n")
    find.main("a model", tmp_path / "texts.tsv")
    head, *pairs = capsys.readouterr().out.split("\n\n")
    assert head == "5 texts, 1 of them there before"
    expected = "one two,three four,two three,one four,one three".split(",")
    assert [" ".join(pair.split()[1:]) for pair in pairs] == expected
    cosines = [float(pair.split()[0]) for pair in pairs]
    assert cosines == sorted(cosines, reverse=True) and cosines[2] < 0
