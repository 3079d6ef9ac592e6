"""What a backtest makes of its trials: kinds count the same, truths are weighted, coverage allows for labels."""

from __future__ import annotations

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.inference import backtest
from shiftgauge.inference.backtests import Trial, covers, mean_miss
from shiftgauge.results import Estimate, Interval

from .conftest import scores


def test_kinds_count_the_same_however_many_targets_they_have():
    kinds = [("rare", 0.30)] + [("common", 0.02)] * 9
    trials = [Trial(0, kind, str(i), "ac", 0.5 + miss, 0.5, None) for i, (kind, miss) in enumerate(kinds)]
    assert mean_miss(trials, "ac") == pytest.approx((0.30 + 0.02) / 2)


def test_the_truth_is_weighted_as_the_rows_are():
    z, y = scores(np.random.default_rng(5), 1200)
    right = (z.argmax(1) == y).astype(float)
    found = backtest(sg.Source(logits=z, labels=y, weights=right + 1e-9), methods="ac", repeats=1)
    unmoved = [t for t in found.trials if t.kind in ("none", "class proportions", "sub-population")]
    assert len(unmoved) > 4
    assert max(t.truth for t in unmoved) < 1e-6


@pytest.mark.parametrize(("truth", "held"), [(0.30, True), (0.35, True), (0.39, False)])
def test_coverage_allows_for_the_noise_of_labels(truth, held):
    """Interval 0.28 to 0.32, label noise 0.03: together they reach hypot(0.02, 1.96 x 0.03) = 0.062."""
    interval = Interval(0.95, 0.28, 0.32, "")
    assert covers(Estimate("ac", 0.3, 9, 9, interval=interval, details={"label_noise": 0.03}), truth) is held
    exact = Estimate("ac", 0.3, 9, 9, interval=interval, details={"label_noise": 0.0})
    assert covers(exact, truth) is (truth <= 0.32)
