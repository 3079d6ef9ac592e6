"""The parts of an interval against closed forms: its ends, the rows it draws, the noise of labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import shiftgauge as sg
from shiftgauge.inference.resampling import Draws, Replicates, Resampling, bounds


def angle(share):
    return np.arcsin(np.sqrt(share))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("count", [20, 2000])
def test_the_ends_are_student_s_around_the_estimate_less_its_bias(level, count):
    rng = np.random.default_rng(count)
    values = np.clip(0.22 + 0.02 * rng.normal(size=count), 0, 1)
    off = angle(values) - angle(0.2)
    mean, spread = stats.describe(off).mean, np.sqrt(stats.describe(off).variance)
    reach = stats.t(count - 1).ppf((1 + level) / 2) * np.sqrt(spread**2 + mean**2)
    low, high = bounds(0.25, Draws(0.2, values, 0.0), level)
    assert low == pytest.approx(np.sin(angle(0.25) - mean - reach) ** 2)
    assert high == pytest.approx(np.sin(angle(0.25) - mean + reach) ** 2)


def test_without_bias_the_interval_is_the_textbook_s():
    values = 0.3 + 0.01 * stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    low, high = bounds(0.3, Draws(0.3, values, 0.0), 0.95)
    assert (low, high) == (pytest.approx(0.3 - 0.0196, abs=3e-4), pytest.approx(0.3 + 0.0196, abs=3e-4))
    drawn = Draws(0.3, values, 0.0)
    assert (drawn.bias, drawn.spread) == (pytest.approx(0.0, abs=1e-12), pytest.approx(0.01, rel=1e-3))


def side_of(target, groups):
    source = sg.Source(probs=[[0.7, 0.3]] * 10, labels=[0, 1] * 5)
    return Replicates(sg.Pair(source, target, "none"), Resampling(20, groups=groups)).target


def test_a_subsample_is_drawn_as_often_as_the_rows_that_it_stands_for():
    side = replace(side_of(sg.Target(probs=[[0.7, 0.3]] * 50), None), draws=5000)
    drawn = np.array([side.resample(np.random.default_rng(i)) for i in range(200)])
    assert (drawn.sum(axis=1) == 5000).all()
    assert drawn.var() == pytest.approx(100 * (1 - 1 / 50), rel=0.1)


def test_a_resample_is_whole_counts_of_rows_times_their_weights():
    sample = sg.Target(probs=[[0.7, 0.3]] * 120, weights=[0.0, 0.5, 3.0] * 40)
    side, weights = side_of(sample, None), sample.weights
    rng = np.random.default_rng(0)
    drawn = np.array([side.resample(rng) for _ in range(300)])
    heavy = weights > 0
    assert (drawn[:, ~heavy] == 0.0).all()
    counts = drawn[:, heavy] / weights[heavy]
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-12)
    # Each row is drawn once on average, and its variance is that of a multinomial, 1 - 1/n.
    assert counts.mean() == pytest.approx(1.0, abs=0.03)
    assert counts.var() == pytest.approx(1.0 - 1 / 120, abs=0.06)


def test_rows_of_a_group_are_drawn_together():
    groups = np.repeat(np.arange(30), 4)
    side = side_of(sg.Target(probs=[[0.7, 0.3]] * 120), groups)
    drawn = side.resample(np.random.default_rng(1)).reshape(30, 4)
    np.testing.assert_array_equal(drawn, np.repeat(drawn[:, :1], 4, axis=1))
    assert drawn[:, 0].sum() == 30


def test_the_noise_of_labels_is_that_of_the_effective_rows(pair):
    source, target, _ = pair
    weights = np.where(np.arange(target.n) % 2, 9.0, 1.0)
    heavy = sg.Target(logits=target.scores, weights=weights)
    found = sg.interval(source, heavy, "ac", replicates=20)
    kish = weights.sum() ** 2 / np.square(weights).sum()
    assert kish < 0.7 * target.n
    assert found.details["label_noise"] == pytest.approx(np.sqrt(found.error * (1 - found.error) / kish))
