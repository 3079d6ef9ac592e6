"""The paper's mild label shift: what is drawn, and how rows follow it."""

from __future__ import annotations

import numpy as np
import pytest

from shiftgauge.errors import InputError
from shiftgauge.labelshift import dirichlet_shares, resample_to


@pytest.mark.parametrize(("scale", "total"), [("text", 50.0), ("code", 200.0)])
def test_mean_and_spread_of_the_shares(scale, total):
    q = np.array([0.4, 0.3, 0.2, 0.1])
    draws = np.array([dirichlet_shares(q, 50.0, scale=scale, seed=s) for s in range(4000)])
    np.testing.assert_allclose(draws.mean(0), q, atol=4 * 0.07 / np.sqrt(4000))
    np.testing.assert_allclose(draws.var(0), q * (1 - q) / (total + 1), rtol=0.12)


def test_rows_follow_the_shares_without_replacement():
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=2000)
    shares = np.array([0.5, 0.3, 0.2, 0.0])
    rows = resample_to(labels, shares, seed=1)
    counts = np.bincount(labels, minlength=4)
    afford = np.floor(min(counts[:3] / shares[:3]))
    assert np.bincount(labels[rows], minlength=4).tolist() == np.floor(afford * shares).astype(int).tolist()
    assert len(set(rows.tolist())) == len(rows)
    assert not np.array_equal(rows, resample_to(labels, shares, seed=2))
    assert np.array_equal(rows, resample_to(labels, shares, seed=1))


def test_every_row_of_a_class_is_equally_likely():
    labels = np.repeat([0, 1], [10, 30])
    hits = np.zeros(40)
    for seed in range(2000):
        hits[resample_to(labels, np.array([0.5, 0.5]), seed=seed)] += 1
    assert (hits[:10] == 2000).all()
    np.testing.assert_allclose(hits[10:] / 2000, 1 / 3, atol=5 * np.sqrt(2 / 9 / 2000))


def test_bad_requests_are_refused():
    with pytest.raises(InputError, match="no rows"):
        resample_to(np.array([0, 0]), np.array([0.5, 0.5]))
    with pytest.raises(InputError, match="alpha"):
        dirichlet_shares(np.array([0.5, 0.5]), 0.0)
    with pytest.raises(InputError, match="'text'"):
        dirichlet_shares(np.array([0.5, 0.5]), scale="paper")
