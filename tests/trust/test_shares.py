"""Label shares with intervals: they hold the truth under label shift."""

from __future__ import annotations

import numpy as np
import pytest

import labelfree as lf
from labelfree.errors import InputError
from labelfree.trust import label_shares


def sample(rng, n, shares):
    y = rng.choice(3, size=n, p=shares)
    z = rng.normal(size=(n, 3))
    z[np.arange(n), y] += 1.8
    return 1.8 * z, y


@pytest.mark.parametrize(
    ("method", "options"), [("bbse", {}), ("rlls", {}), ("mlls", {}), ("mlls", {"bias_correction": True})]
)
def test_intervals_hold_the_true_shares(method, options):
    truth = np.array([0.55, 0.3, 0.15])
    held = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        z, y = sample(rng, 500, np.full(3, 1 / 3))
        z_t, _ = sample(rng, 500, truth)
        found = label_shares(
            lf.Source(logits=z, labels=y), lf.Target(logits=z_t), method, replicates=40, **options
        )
        assert found.shares.sum() == pytest.approx(1.0)
        held += [(found.low <= truth) & (truth <= found.high)]
    assert np.mean(held) >= 0.78  # 95% nominal; 36 correlated trials of 40 replicates


def test_bad_requests_are_refused(pair):
    source, target, _ = pair
    with pytest.raises(InputError, match="did you mean 'mlls'"):
        label_shares(source, target, "mls")
    with pytest.raises(InputError, match="bias correction belongs to mlls"):
        label_shares(source, target, "bbse", bias_correction=True)
