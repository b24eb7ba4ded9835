"""Killed programs go on to the same result. In full: `run.py kills --times=50`.

Here it is what needs no TensorFlow; runs that are killed are in `tests/engine/test_resume.py`.
"""

import dataclasses
import functools
import os
import signal

from helpers import kills


def test_data_preparation_goes_on(tmp_path):
    program, = (each for each in kills.PROGRAMS if each.name == "data preparation")
    small = functools.partial(kills.make_sentences, sentences=500)
    trials = kills.Trials(dataclasses.replace(program, make=small), tmp_path / "kills")
    assert [trials.kill(number) for number in range(2)] == ["the same result"] * 2


def test_what_is_wrong_is_seen(tmp_path):
    """A program that writes to the final name, and one whose second start makes something else."""
    def make(folder):
        pass

    def arguments(inputs, folder):
        return "unused", str(folder)

    class Careless(kills.Trials):
        def _run(self, folder, **kill):
            (folder / "x.json").write_text("{" if kill else '{"seed": %d}' % os.getpid())
            return 0

    program = kills.Program("careless", "json", make, arguments, kills.files_of)
    assert "a final name held a partial file" in Careless(program, tmp_path / "a").kill(0)

    class Random(Careless):
        def _run(self, folder, **kill):
            (folder / "x").write_text(str(os.urandom(4)))
            return 0
    assert Random(program, tmp_path / "b").kill(1) == "another result"


def test_a_copy_gets_the_signal():
    status = kills.run(signal.pause, kill_after=0.2, number=signal.SIGTERM)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM
