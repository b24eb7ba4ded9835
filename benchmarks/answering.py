"""Times a model that answers to texts: start-up, first answer, further ones. Needs Python alone."""

import time

BATCHES = (1, 32)


class Clock:
    """Seconds since it was made: by the clock, and of the processors in this process."""

    def __init__(self):
        self._began = time.time(), time.process_time()

    def __call__(self):
        return time.time() - self._began[0], time.process_time() - self._began[1]


def measure(load, texts, seconds):
    """Times what `load()` returns, a function from a list of texts to a list of answers.

    Args:
      texts: at least as many as the largest batch has. seconds: of each batch size.

    Returns:
      dict from what was timed to its `Clock`, and the answers to `texts`.
    """
    clock = Clock()
    answer = load()
    found = {"import and load": clock()}
    clock = Clock()
    answer(texts[:1])
    found["first answer"] = clock()
    for size in BATCHES:
        answer(texts[:size])
        clock, done = Clock(), 0
        while clock()[0] < seconds:
            answer([texts[(done + i) % len(texts)] for i in range(size)])
            done += size
        found["an answer, in batches of %d" % size] = tuple(one / done for one in clock())
    return found, answer(texts)
