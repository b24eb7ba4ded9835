"""Killed programs go on to the same result. In full: `run.py --times=50`.

Here it is what needs no TensorFlow; runs that are killed are in `tests/engine/test_resume.py`.
"""

import dataclasses
import functools
import os
import time

from helpers import programs, trials


def small_preparation():
    program, = (each for each in programs.PROGRAMS if each.name == "data preparation")
    small = functools.partial(programs.make_sentences, sentences=500)
    return dataclasses.replace(program, make=small)


def test_data_preparation_goes_on(tmp_path):
    tried = trials.Kills(small_preparation(), tmp_path / "trials")
    assert [tried.trial(number) for number in range(2)] == [trials.SAME] * 2


def careless_program(folder, work):
    """Kills of a program that does `work` in its folder, and not what it should."""
    class Careless(trials.Kills):
        def _work(self, folder, addresses, index):
            work(folder)

    program = programs.Program("careless", "json", lambda folder: None, None, programs.files_of)
    return Careless(program, folder)


def test_what_is_wrong_is_seen(tmp_path):
    """A program that writes to the final name, and one whose second start makes something else."""
    def slow(folder):
        (folder / "x.json").write_text("{")
        time.sleep(0.5)
        (folder / "x.json").write_text("{}")

    tried = careless_program(tmp_path / "a", slow)
    found = [tried.trial(number) for number in range(4)]
    assert any(what.startswith("a final name held a partial file") for what in found)

    def random(folder):
        (folder / "x").write_text(str(os.urandom(4)))
    assert careless_program(tmp_path / "b", random).trial(1) == "another result"
