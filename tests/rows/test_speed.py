"""Rows are read few times, with a compiled softmax that is numpy's, and with memory that does not grow with rows."""

import subprocess
import sys

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge import validation
from shiftgauge.calibration import Calibration, Identity, Temperature, Vector

#: Passes over ten classes that may be made in all, the test of shift included.
LIMITS = {"ac": 1, "atc-mc": 1, "scot": 6, "cot": 5, "cott": 6, "auto": 16}


def calibration(name, k):
    rng = np.random.default_rng(1)
    made = {
        "none": Identity(),
        "temperature": Temperature(1.37),
        "vector": Vector(rng.uniform(0.5, 2.0, k), rng.normal(size=k)),
    }[name]
    return Calibration(name, made, {})


def scores(k, dtype):
    """Logits of every size, ties among them, and rows that leave no class but one."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(700, k)) * np.geomspace(0.01, 60.0, 700)[:, None]
    z[::7] = np.round(z[::7])
    z[3], z[4, :], z[5, :] = 2.5, -6e4, 6e4
    z[4, k - 1] = 6e4
    return z.astype(dtype)


@pytest.fixture(autouse=True)
def _compiled(monkeypatch):
    """However few the rows are."""
    monkeypatch.setattr("shiftgauge.calibration.fit.COMPILED_FROM", 0)


@pytest.mark.parametrize("name", ["none", "temperature", "vector"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2, 10, 1000, 3001])
def test_the_compiled_softmax_is_the_one_of_numpy(name, dtype, k):
    target = sg.Target(logits=scores(k, dtype), insist=True)
    probs, largest = calibration(name, k).calibrate(target.scores, target.kind)
    wanted = calibration(name, k).probs(target.scores, target.kind)
    np.testing.assert_allclose(
        probs, wanted, rtol=1e-13, atol=1e-300
    )  # exponents near -700 double their rounding
    np.testing.assert_allclose(probs, wanted, rtol=0.0, atol=4e-15)
    np.testing.assert_array_equal(largest, validation.argmax(target.scores))


def test_logits_of_any_size():
    z = np.array(
        [[1e100, -1e100, 0.0], [-1e100, -1e100, -1e100], [0.0, -744.0, -746.0], [1e-300, 0.0, -1e-300]]
    )
    target = sg.Target(logits=z)
    probs, largest = calibration("none", 3).calibrate(target.scores, target.kind)
    np.testing.assert_allclose(
        probs, calibration("none", 3).probs(target.scores, target.kind), rtol=0.0, atol=1e-15
    )
    assert probs[2, 1] > 0.0 == probs[2, 2]  # as small as a double can be, and smaller
    assert largest.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("name", ["none", "temperature", "vector"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_probabilities_with_zeros(name, dtype):
    p = np.random.default_rng(0).dirichlet(np.full(5, 0.2), 400)
    p[::3, 1] = 0.0
    p = (p / p.sum(axis=1, keepdims=True)).astype(dtype)
    target = sg.Target(probs=p)
    probs, largest = calibration(name, 5).calibrate(target.scores, target.kind)
    np.testing.assert_allclose(
        probs, calibration(name, 5).probs(target.scores, target.kind), rtol=1e-13, atol=2e-15
    )
    np.testing.assert_array_equal(largest, validation.argmax(target.scores))


def test_a_row_is_the_same_wherever_it_is_cut():
    z = scores(10, np.float32)
    whole = calibration("temperature", 10).calibrate(z, "logits")[0]
    for lo, hi in [(0, 1), (1, 4), (5, 336), (336, 700)]:
        part = calibration("temperature", 10).calibrate(z[lo:hi], "logits")[0]
        np.testing.assert_array_equal(part, whole[lo:hi])


def network(n, k=10, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    logits = 1.5 * rng.standard_normal((n, k), np.float32)
    logits[np.arange(n), labels] += 3.0
    return logits, labels


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """More rows than are taken home as a whole."""
    file = tmp_path_factory.mktemp("speed") / "target.npy"
    np.save(file, network(450_000)[0])
    logits, labels = network(2_000, seed=1)
    return sg.Source(logits=logits, labels=labels), file


@pytest.mark.parametrize("method", LIMITS)
def test_passes_are_few_and_said(world, method):
    source, file = world
    scan = sg.scan(file, kind="logits")
    found = sg.estimate(source, scan, method)
    assert 0 < found.details["passes"] <= scan.passes <= LIMITS[method]


def test_methods_share_their_passes(world):
    source, file = world
    scan = sg.scan(file, kind="logits")
    sg.compare(source, scan, ["ac", "atc-mc", "cot", "cott", "scot"])
    assert scan.passes <= 7


def test_the_steps_of_a_pass_share_calibrated_rows(world, monkeypatch):
    source, file = world
    calibrate, made = Calibration.calibrate, []

    def counted(self, scores, kind):
        made.append(len(scores))
        return calibrate(self, scores, kind)

    scan = sg.scan(file, kind="logits")
    monkeypatch.setattr(Calibration, "calibrate", counted)
    sg.compare(source, scan, ["ac", "entropy", "atc-mc"])
    assert scan.passes == 1
    blocks = sum(-(-part.rows // part.layout.batch_rows) for part in scan.parts)
    assert len([rows for rows in made if rows != source.n]) == blocks


CHILD = """
import sys, threading, time
import numpy as np, shiftgauge as sg
from shiftgauge.rows import subsample as module
from numpy.lib.format import open_memmap
method, file, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
held = open_memmap(file, "w+", np.float16, (rows, 10))
rng = np.random.default_rng(0)
for lo in range(0, rows, 250_000):
    part = 1.5 * rng.standard_normal((250_000, 10), np.float32)
    part[np.arange(250_000), rng.integers(0, 10, 250_000)] += 3
    held[lo : lo + 250_000] = part
held.flush()
module.SUBSAMPLE_ENTRIES = 1 << 20  # the subsample grows up to its bound; here it has reached it
source = sg.Source(logits=np.array(held[:2000], np.float64), labels=rng.integers(0, 10, 2000))
del held

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

peak, over = [0], []
def watch():
    while not over:
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.005)

watcher = threading.Thread(target=watch)
watcher.start()
sg.estimate(source, sg.scan(file, kind="logits", threads=2), method)
over.append(1)
watcher.join()
print(peak[0] / 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("method", ["ac", "scot"])
def test_memory_does_not_grow_with_rows(tmp_path, method):
    """From 500,000 to 2,000,000 rows: as float64 the rows between are 114 MiB."""
    peaks = []
    for rows in (500_000, 2_000_000):
        command = [sys.executable, "-c", CHILD, method, str(tmp_path / f"{rows}.npy"), str(rows)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
        peaks.append(float(done.stdout.splitlines()[-1]))
    assert peaks[1] - peaks[0] < 40.0
