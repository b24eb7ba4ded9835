"""Killed programs go on to the same result. In full: `run.py --times=50`, `--times=0 --at_calls`.

Here it is what needs no TensorFlow; runs that are killed are in `tests/engine/test_resume.py`.
"""

import dataclasses
import functools
import gc
import os
import signal
import time

import tensorflow.compat.v1 as tf
from helpers import programs, trials

from xlnet.support import files


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


def test_a_program_stands_still_before_its_call(tmp_path):
    def make():
        for name in "abc":
            files.size(__file__)  # of the library
            (tmp_path / name).mkdir(exist_ok=True)

    moment = trials.Call(1)  # the second one, before b, which is there already
    (tmp_path / "b").mkdir()
    child = trials.begin(lambda: (moment.prepare(), make()))
    with moment.awaited([child]):
        seen = sorted(each.name for each in tmp_path.iterdir())
    assert trials.end(child) == 0
    assert seen == ["a", "b"] and (tmp_path / "c").is_dir()


def test_a_copy_ends_no_session_of_this_process():
    """A session that is garbage here has threads that the copy lacks: to close it there crashes."""
    gc.disable()
    try:
        with tf.Graph().as_default():
            batches = tf.data.make_initializable_iterator(
                tf.data.Dataset.range(1000).prefetch(4)
            )
            session = tf.Session()
            session.run(batches.initializer)
            session.run(batches.get_next())
        session.cycle = session
        del session
        assert trials.end(trials.begin(gc.collect)) == 0
    finally:
        gc.enable()


def careless_program(folder, work):
    """Kills of a program that does `work` in its folder, and not what it should."""

    class Careless(trials.Kills):
        def _work(self, folder, addresses, index):
            work(folder)

    program = programs.Program(
        "careless", "json", lambda folder: None, None, programs.files_of
    )
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


def test_a_copy_gets_the_signal():
    child = trials.begin(signal.pause)
    time.sleep(0.2)
    os.kill(child, signal.SIGTERM)
    status = trials.end(child)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM
