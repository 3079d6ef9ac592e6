"""Ctrl-C during a pass over rows: whoever reads stops at the next block, and not at the end of the data."""

import subprocess
import sys

import pytest

#: Interrupts the main thread from within the first pass, and then counts what is still read.
CODE = """
import os, signal, sys, threading, time
import numpy as np, pyarrow as pa
import shiftgauge as sg
BLOCKS, TASKS = 60, sys.argv[1]
caught, read, ready = threading.Event(), [0], [False]
z = np.random.default_rng(0).normal(size=(60, 3))
batch = pa.RecordBatch.from_pydict({f"logit_{j}": np.tile(z[:, j], 3000) for j in range(3)})
def rows():
    for number in range(BLOCKS):
        if ready[0]:
            read[0] += 1
            if read[0] > 40:
                os._exit(3)  # it goes on and on
            if number == 2 and not caught.is_set():
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                caught.wait(0 if threading.current_thread() is threading.main_thread() else 60)
        yield batch
source = sg.Source(logits=z, labels=z.argmax(axis=1), classes=list("012"))
target = sg.scan(rows)
ready[0] = True
try:
    sg.compare(source, target, None if TASKS == "all" else [TASKS])
except KeyboardInterrupt:
    caught.set()
until = time.monotonic() + 120
while len(sys._current_frames()) > 1 and time.monotonic() < until:  # an interrupted join() counts a thread as ended
    time.sleep(0.01)
assert caught.is_set() and len(sys._current_frames()) == 1
print(read[0])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to threads")
@pytest.mark.parametrize("methods", ["all", "ac"])
def test_readers_stop_after_an_interrupt(methods):
    done = subprocess.run(
        [sys.executable, "-c", CODE, methods], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert 3 <= int(done.stdout) < 40  # of 60 in every pass
