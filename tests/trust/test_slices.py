"""Slices: they average to the total, and their intervals hold together."""

from __future__ import annotations

import numpy as np
import pytest

import labelfree as lf
from labelfree.errors import InputError
from labelfree.trust import slices

from .conftest import scores


def test_slices_average_to_the_total(pair):
    source, target, _ = pair
    group = np.random.default_rng(0).choice(["a", "b", "c"], size=target.n, p=[0.5, 0.48, 0.02])
    found = slices(source, target, group, replicates=30)
    assert [s.name for s in found.slices] == ["a", "b", "c"]
    assert sum(s.share * s.error for s in found.slices) == pytest.approx(found.error, abs=1e-9)
    assert found.error == pytest.approx(lf.estimate(source, target, method="scot").error, abs=1e-6)
    assert [s.small for s in found.slices] == [False, False, True]
    assert all(s.low <= s.error <= s.high for s in found.slices)


def test_columns_are_combined(pair):
    source, target, _ = pair
    n = target.n
    found = slices(
        source, target, {"site": ["x", "y"] * (n // 2), "day": [1] * (n // 2) + [2] * (n // 2)}, replicates=20
    )
    assert [s.name for s in found.slices] == [
        "site=x, day=1",
        "site=x, day=2",
        "site=y, day=1",
        "site=y, day=2",
    ]


def test_intervals_hold_for_all_slices_at_once():
    rng = np.random.default_rng(3)
    z, y = scores(rng, 60_000)
    truth = [np.mean((z.argmax(1) != y)[z[:, 0] > 0]), np.mean((z.argmax(1) != y)[z[:, 0] <= 0])]
    held = []
    for number in range(40):
        z_s, y_s = scores(rng, 800)
        z_t, _ = scores(rng, 800)
        group = np.where(z_t[:, 0] > 0, "high", "low")
        found = slices(
            lf.Source(logits=z_s, labels=y_s),
            lf.Target(logits=z_t),
            group,
            marginal="shrunk",
            replicates=60,
            seed=number,
        )
        held.append(all(s.low <= t <= s.high for s, t in zip(found.slices, truth, strict=True)))
    assert np.mean(held) >= 0.85


def test_wrong_lengths_are_refused(pair):
    source, target, _ = pair
    with pytest.raises(InputError, match="one value per target row"):
        slices(source, target, ["a", "b"])
