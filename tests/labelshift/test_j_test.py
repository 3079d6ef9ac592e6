"""The J test against its own definition, written out with scipy: statistic, degrees of freedom, p-value."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from shiftgauge.labelshift import j_test, shift_test

CELLS, K = 6, 3
A = np.array(
    [[0.5, 0.1, 0.1], [0.2, 0.1, 0.1], [0.1, 0.5, 0.1], [0.1, 0.1, 0.1], [0.05, 0.1, 0.4], [0.05, 0.1, 0.2]]
)


def drawn(seed, shares, n=6_000, n_t=5_000, rows=A):
    rng = np.random.default_rng(seed)
    labels = rng.choice(K, n)
    cells = np.array([rng.choice(CELLS, p=A[:, c]) for c in labels])
    target = rng.choice(CELLS, n_t, p=rows @ shares)
    return cells, labels, target


def statistic(cells, labels, mass, target, mass_t, pi):
    """J at the shares pi, with V(pi) as the docstring of `j_test` has it, one pseudo-row per label within."""
    per = np.array([mass[labels == c].sum() for c in range(K)])
    n = np.array([mass[labels == c].sum() ** 2 / np.square(mass[labels == c]).sum() for c in range(K)])
    n_t = mass_t.sum() ** 2 / np.square(mass_t).sum()
    a = np.array(
        [[mass[(labels == c) & (cells == j)].sum() / per[c] for c in range(K)] for j in range(CELLS)]
    )
    h = np.array([mass_t[target == j].sum() for j in range(CELLS)])
    pooled = (a @ n + h * n_t) / (n.sum() + n_t)
    s = (a * n + pooled[:, None]) / (n + 1)
    mixed = s @ pi
    V = (np.diag(mixed) - np.outer(mixed, mixed)) / n_t
    for c in range(K):
        V += pi[c] ** 2 * (np.diag(s[:, c]) - np.outer(s[:, c], s[:, c])) / n[c]
    gap = (h - a @ pi)[:-1]
    return float(gap @ np.linalg.solve(V[:-1, :-1], gap))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_statistic_counts_rows_as_kish_does(weighted):
    cells, labels, target = drawn(0, np.array([0.5, 0.3, 0.2]))
    rng = np.random.default_rng(1)
    w = rng.choice([1.0, 9.0], len(cells)) if weighted else np.ones(len(cells))
    w_t = rng.choice([1.0, 4.0], len(target)) if weighted else np.ones(len(target))
    mass, mass_t = w / w.sum(), w_t / w_t.sum()
    found = j_test(cells, labels, mass, target, mass_t, CELLS, K)
    expected = statistic(cells, labels, mass, target, mass_t, found.shares)
    assert found.statistic == pytest.approx(expected, rel=1e-3)  # V is of the turn before
    assert found.reference == "chi-square"


def test_fitted_shares_cost_a_degree_each_and_one_held_at_zero_gives_its_back():
    mass = np.full(6_000, 1 / 6_000)
    mass_t = np.full(5_000, 1 / 5_000)
    cells, labels, target = drawn(0, np.array([0.5, 0.3, 0.2]))
    inside = j_test(cells, labels, mass, target, mass_t, CELLS, K)
    assert (inside.shares > 0).all()
    assert inside.df == CELLS - K
    assert inside.p_value == pytest.approx(chi2.sf(inside.statistic, CELLS - K))
    # A target that leans away from the last class beyond what any shares explain.
    away = np.clip(A[:, :1] * 1.4 - 0.4 * A[:, 2:], 0.001, None)
    target = np.random.default_rng(2).choice(CELLS, 5_000, p=(away / away.sum()).ravel())
    held = j_test(cells, labels, mass, target, mass_t, CELLS, K)
    zeros = int((held.shares == 0).sum())
    assert zeros >= 1
    assert held.df == CELLS - K + zeros


def test_the_bootstrap_is_double(monkeypatch):
    """J is compared with the replicates as if it were the quantile of the *second* draws that p says."""
    cells, labels, target = drawn(0, np.array([0.5, 0.3, 0.2]), n=60, n_t=200)
    mass, mass_t = np.full(60, 1 / 60), np.full(200, 1 / 200)
    seen = []
    real = shift_test.minimum

    def watched(counts, *start):
        value, pi = real(counts, *start)
        seen.append(np.atleast_1d(value))
        return value, pi

    monkeypatch.setattr(shift_test, "minimum", watched)
    found = j_test(cells, labels, mass, target, mass_t, CELLS, K, seed=3)
    assert found.reference == "parametric bootstrap"
    first, second = np.concatenate(seen[1::2]), np.concatenate(seen[2::2])
    assert len(first) == len(second) == shift_test.REPLICATES
    single = np.mean(first >= found.statistic)
    critical = np.quantile(second, 1 - single)
    assert found.p_value == pytest.approx((1 + np.sum(first >= critical)) / (1 + len(first)))
    assert abs(found.p_value - single) > 0.01  # otherwise this test could not tell one from two
    assert second.mean() > first.mean()  # noise on top of noise: what the second draw is there to see
