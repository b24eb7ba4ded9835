"""What a training program sets up: one heap for all threads."""

import ctypes
import re
import subprocess
import sys

import pytest
from helpers.paths import ROOT

from xlnet.engine import train_step

# Eight threads hold memory at once; then the C library lists its heaps on stderr.
PROGRAM = """
import ctypes, threading
from xlnet.engine import train_step
train_step.share_one_heap()
all_hold = threading.Barrier(9)
def hold():
    held = bytearray(100000)
    all_hold.wait()
    all_hold.wait()
for _ in range(8):
    threading.Thread(target=hold).start()
all_hold.wait()
ctypes.CDLL(None).malloc_stats()
all_hold.wait()
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_stats"),
                    reason="the C library does not list its heaps")
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.slow
def test_threads_share_a_heap(shared):
    program = PROGRAM if shared else re.sub(".*train_step.*\n", "", PROGRAM)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    heaps = done.stderr.count("Arena ")
    assert heaps == 1 if shared else heaps > 1


@pytest.mark.parametrize("cores, heaps", ((1, 1), (31, 1), (63, 1), (64, 2), (256, 8)))
def test_many_cores_have_several(cores, heaps):
    assert train_step.heaps_for(cores) == heaps
