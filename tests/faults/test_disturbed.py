"""Killed programs go on to the same result. In full: `run.py --times=50`, `--times=0 --at_calls`.

Here it is what needs no TensorFlow; runs that are killed are in `tests/engine/test_resume.py`.
"""

import dataclasses
import functools

from helpers import programs, trials


def small_preparation():
    (program,) = (each for each in programs.PROGRAMS if each.name == "data preparation")
    small = functools.partial(programs.make_sentences, sentences=500)
    return dataclasses.replace(program, make=small)


def assert_goes_on(tried, numbers):
    assert [tried.trial(number) for number in numbers] == [trials.SAME] * len(numbers)


def test_data_preparation_goes_on(tmp_path):
    assert_goes_on(trials.Kills(small_preparation(), tmp_path / "trials"), range(2))


def test_at_calls_about_files(tmp_path):
    tried = trials.Kills(small_preparation(), tmp_path / "trials", at_calls=True)
    assert len(tried.places) > 100
    assert_goes_on(tried, range(0, len(tried.places), len(tried.places) // 3))
