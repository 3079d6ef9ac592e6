"""`weight="fitted"`: each half's lambda comes from the other half and stays within 0 and 1.5."""

from __future__ import annotations

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.inference import budget, with_labels


@pytest.fixture(scope="module")
def planned():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(1600, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    target = sg.Target(logits=z[800:])
    return budget(sg.Source(logits=z[:800], labels=y[:800]), target, count=160, seed=1), target, y[800:]


def slope(f, wrong):
    return float(np.clip(np.polyfit(f, wrong, 1)[0], 0.0, 1.5))


def by_hand(plan, wrong, lam):
    """The estimate of the docstring, stratum by stratum."""
    total, n = 0.0, len(plan.stratum)
    for h in np.unique(plan.stratum):
        mine = plan.stratum[plan.rows] == h
        rest = np.mean(wrong[mine] - lam[mine] * plan.error_probability[plan.rows][mine])
        known = np.mean(lam[mine]) * np.mean(plan.error_probability[plan.stratum == h])
        total += np.mean(plan.stratum == h) * (rest + known)
    assert n
    return total


def returned(plan, target, wrong):
    """Labels that make just these picks wrong."""
    said = target.predictions[plan.rows]
    labels = np.where(wrong, (said + 1) % 3, said)
    return {int(row): int(label) for row, label in zip(plan.rows, labels, strict=True)}


def test_each_half_is_weighted_by_the_other(planned):
    plan, target, truth = planned
    wrong = (target.predictions != truth)[plan.rows].astype(float)
    f, even = plan.error_probability[plan.rows], np.arange(len(plan.rows)) % 2 == 0
    lam = np.where(even, slope(f[~even], wrong[~even]), slope(f[even], wrong[even]))
    assert abs(lam[0] - lam[1]) > 0.05  # otherwise this test could not tell the halves apart
    found = with_labels(plan, target, returned(plan, target, wrong == 1), weight="fitted")
    assert found.weight == pytest.approx(lam.mean())
    assert found.error == pytest.approx(by_hand(plan, wrong, lam))
    assert found.error != pytest.approx(by_hand(plan, wrong, lam[::-1]), abs=1e-6)


@pytest.mark.parametrize(("sign", "weight"), [(1, 1.5), (-1, 0.0)])
def test_the_fitted_weight_is_bounded(planned, sign, weight):
    """All doubtful rows wrong, or all sure ones: slopes of about +-2 are not followed so far."""
    plan, target, _ = planned
    f = sign * plan.error_probability[plan.rows]
    wrong = f > np.median(f)
    assert abs(np.polyfit(plan.error_probability[plan.rows], wrong, 1)[0]) > 1.5
    found = with_labels(plan, target, returned(plan, target, wrong), weight="fitted")
    assert found.weight == weight
