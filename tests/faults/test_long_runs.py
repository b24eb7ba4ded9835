"""What long runs are judged by; the runs themselves: `run.py long`."""

import numpy as np
from helpers import long_runs


def samples(mib, count=300):
    rng = np.random.default_rng(0)
    return [long_runs.Sample(10 * (i + 1), mib(i) + rng.normal(0, 2), 9, 20, 5 + rng.random())
            for i in range(count)]


def test_what_grows_is_seen():
    found = long_runs.slopes(samples(lambda i: 200 + 0.1 * i))
    assert long_runs.grows(found["mib"]) and 25 < found["mib"].growth < 28
    assert not any(long_runs.grows(found[name]) for name in ("files", "threads", "ms"))


def test_what_is_loaded_at_the_beginning_is_no_growth():
    found = long_runs.slopes(samples(lambda i: 200 if i > 25 else 8 * i))
    assert not long_runs.grows(found["mib"]) and abs(found["mib"].mean - 200) < 1


def test_a_process_is_watched():
    import subprocess
    import sys
    program = "import time\nfor i in (1, 2, 3): print('step %d/3' % i, flush=True); time.sleep(.1)"
    found = list(long_runs.watched(subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)))
    assert [sample.done for sample in found] == [1, 2, 3]
    assert all(sample.mib > 2 and sample.files >= 3 and sample.threads >= 1 for sample in found)
    assert found[-1].ms > 50
