"""The bootstrap: against a plain slow bootstrap, against exact solvers, and by coverage."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.errors import InputError
from shiftgauge.inference import Resampling, bootstrap, interval
from shiftgauge.inference.resampling import Replicates
from shiftgauge.rows import run

from .conftest import scores


def test_replicates_are_the_estimates_of_resampled_data(pair):
    """Each replicate against the estimator run from scratch, with exact solvers, on the same weights."""
    source, target, _ = pair
    replicates = Replicates(sg.Pair(source, target), Resampling(20))
    seeds = np.random.SeedSequence(3).spawn(4)
    for method, tolerance in (("ac", 1e-5), ("scot", 1e-5), ("doc", 1e-5), ("atc-ne", 1e-3), ("cott", 4e-3)):
        estimator = sg.methods.METHODS[method]
        for seed in seeds:
            left, right = replicates.draw(seed)
            fast = estimator().fit_rows(left).estimate_rows(right).error
            weights = [run(rows.collect()).weights for rows in (left, right)]
            again = sg.Source(logits=source.scores, labels=source.labels, weights=weights[0])
            slow = estimator().fit(again).estimate(sg.Target(logits=target.scores, weights=weights[1])).error
            assert fast == pytest.approx(slow, abs=tolerance), method


def test_ac_interval_has_the_textbook_width():
    """Without calibration AC is a mean: its interval at 90% is +-1.645 sd / sqrt(n)."""
    rng = np.random.default_rng(5)
    z, y = scores(rng, 2000)
    target = sg.Target(logits=z[:1000])
    found = interval(
        sg.Source(logits=z[1000:], labels=y[1000:]), target, "ac", calibration="none", replicates=800
    )
    p = np.exp(z[:1000] - z[:1000].max(1, keepdims=True))
    doubt = 1 - (p / p.sum(1, keepdims=True)).max(1)
    half = 1.645 * doubt.std() / np.sqrt(1000)
    assert (found.interval.high - found.interval.low) / 2 == pytest.approx(half, rel=0.1)
    assert found.interval.kind == "sampling error only"


def test_groups_widen_the_interval():
    rng = np.random.default_rng(6)
    z, y = scores(rng, 600)
    copies = np.repeat(z[:100], 10, axis=0)
    source = sg.Source(logits=z[100:], labels=y[100:])
    options = {"calibration": "none", "replicates": 300}
    alone = interval(source, sg.Target(logits=copies), "ac", **options)
    grouped = interval(
        source, sg.Target(logits=copies), "ac", groups=np.repeat(np.arange(100), 10), **options
    )
    ratio = (grouped.interval.high - grouped.interval.low) / (alone.interval.high - alone.interval.low)
    assert ratio == pytest.approx(np.sqrt(10), rel=0.25)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"), [("scot", {"marginal": "shrunk"}), ("cott", {"marginal": "shrunk"})]
)
def test_coverage_without_shift(method, options):
    """60 small data sets: far from 95% would be seen (the benchmark runs thousands)."""
    rng = np.random.default_rng(7)
    truth = np.mean([np.mean(z.argmax(1) != y) for z, y in (scores(rng, 50_000) for _ in range(4))])
    held = []
    for number in range(60):
        z, y = scores(rng, 400)
        z_t, _ = scores(rng, 400)
        found = interval(
            sg.Source(logits=z, labels=y),
            sg.Target(logits=z_t),
            method,
            replicates=60,
            seed=number,
            **options,
        )
        held.append(found.interval.low <= truth <= found.interval.high)
    assert np.mean(held) >= 0.85


def test_the_bias_of_an_unshrunk_marginal_is_seen_and_corrected():
    """COT reads sampling noise as shift: the bootstrap must notice, and shift the interval."""
    rng = np.random.default_rng(8)
    z, y = scores(rng, 300, k=10)
    z_t, _ = scores(rng, 300, k=10)
    found = interval(sg.Source(logits=z, labels=y), sg.Target(logits=z_t), "cot", replicates=100)
    assert found.details["bootstrap_bias"] > 0.005
    middle = (found.interval.low + found.interval.high) / 2
    assert middle < found.error


#: Prints an answer with its interval, from memory and from files, on so many cores.
THREADED = """
import os, sys
import numpy as np
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
import shiftgauge as sg
rng = np.random.default_rng(0)
z = rng.normal(size=(30_000, 4)) * 2
y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
source, target = sg.Source(logits=z[:500], labels=y[:500]), sg.Target(logits=z[500:])
np.save(sys.argv[2], z[500:])
scanned = sg.scan(sys.argv[2], kind="logits", threads=int(sys.argv[1]))
for method in ("scot", "cott"):
    one = sg.interval(source, target, method, replicates=20, seed=1)
    other = sg.estimate(source, scanned, method)
    print(method, one.error.hex(), one.interval.low.hex(), one.interval.high.hex(), other.error.hex())
"""


@pytest.mark.slow
def test_same_seed_same_answer_whatever_the_threads(tmp_path):
    """One core and one thread of every library, against several."""
    said = {}
    for threads in ("1", "4"):
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
        words = [sys.executable, "-c", THREADED, threads, str(tmp_path / "target.npy")]
        done = subprocess.run(
            words,
            env={**os.environ, **dict.fromkeys(names, threads)},
            capture_output=True,
            text=True,
            check=True,
        )
        said[threads] = done.stdout
    assert said["1"].count("\n") == 2
    assert said["1"] == said["4"]


def test_same_seed_same_answer(pair):
    source, target, _ = pair
    estimator = sg.methods.METHODS["scot"](marginal="shrunk")
    a = bootstrap(sg.Pair(source, target), estimator, Resampling(20, seed=1))
    b = bootstrap(sg.Pair(source, target), estimator, Resampling(20, seed=1))
    c = bootstrap(sg.Pair(source, target), estimator, Resampling(20, seed=2))
    assert np.array_equal(a.values, b.values)
    assert not np.array_equal(a.values, c.values)


def test_bad_requests_are_refused(pair):
    source, target, _ = pair
    with pytest.raises(InputError, match=r"did you mean 0\.95"):
        interval(source, target, level=95)
    with pytest.raises(InputError, match="wanted 20 or more"):
        interval(source, target, replicates=5)
    with pytest.raises(InputError, match="a score"):
        interval(source, target, "entropy")
    holes = np.arange(target.n).astype(float)
    holes[7] = np.nan
    with pytest.raises(InputError, match="groups: row 7 is missing"):
        interval(source, target, groups=holes)
    with pytest.raises(InputError, match="one value per row"):
        interval(source, target, "ac", groups=[1, 2])


@pytest.mark.slow
def test_a_large_bias_is_said_at_every_level():
    """COT with 10 classes and 300 rows: a bias of half a standard deviation or more, whatever the width."""
    rng = np.random.default_rng(8)
    z, y = scores(rng, 300, k=10)
    z_t, _ = scores(rng, 300, k=10)
    pair = sg.Pair(sg.Source(logits=z, labels=y), sg.Target(logits=z_t))
    for level in (0.8, 0.95, 0.99):
        found = interval(pair, method="cot", level=level, replicates=200)
        assert found.details["bootstrap_bias"] > 0.5 * found.details["bootstrap_sd"]
        assert any("biased by about" in warning for warning in found.warnings)


def test_the_bias_is_measured_against_the_marginal_of_the_replicates_world():
    """The shrunken marginal gives in to the target: under shift that bias must be seen, and be negative."""
    rng = np.random.default_rng(9)
    seen = []
    for seed in range(12):
        z, y = scores(rng, 500, k=10)
        z_t = 0.85 * scores(rng, 500, k=10)[0] + np.where(np.arange(10) < 3, 0.8, 0.0)
        source, target = sg.Source(logits=z, labels=y), sg.Target(logits=z_t)
        drawn = bootstrap(
            sg.Pair(source, target), sg.methods.SCOT(marginal="shrunk"), Resampling(60, seed=seed)
        )
        seen.append(drawn.values.mean() - drawn.centre)
    assert np.mean(seen) < -0.0005


@pytest.mark.parametrize(
    ("n_source", "n_target", "says"), [(3, 200, "3 source rows"), (200, 1, "1 target row ")]
)
def test_a_handful_of_rows_has_no_interval(n_source, n_target, says):
    rng = np.random.default_rng(10)
    z, y = scores(rng, 400)
    source = sg.Source(logits=z[:n_source], labels=y[:n_source])
    found = interval(source, sg.Target(logits=z[-n_target:]), "ac", calibration="none")
    assert found.interval is None
    assert any(says in warning for warning in found.warnings)


def test_few_groups_have_no_interval():
    rng = np.random.default_rng(11)
    z, y = scores(rng, 400)
    source, target = sg.Source(logits=z[:200], labels=y[:200]), sg.Target(logits=z[200:])
    found = interval(source, target, "ac", groups=np.arange(200) % 3)
    assert found.interval is None
    assert any("3 target groups" in warning for warning in found.warnings)


def test_the_answer_says_what_its_interval_covers(pair):
    source, target, _ = pair
    found = interval(source, target, "auto", replicates=20)
    assert "90% interval by the bootstrap, sampling error only: [" in repr(found)
    notes = "\n".join(found.notes())
    assert "90% range: measured" in notes
    assert "chose" in notes
