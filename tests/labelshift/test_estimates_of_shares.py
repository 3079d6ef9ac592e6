"""What the estimates of label shares rest on: sizes, penalties, and a likelihood that never falls."""

from __future__ import annotations

import numpy as np
import pytest
from array_shares import label_shares

import shiftgauge as sg
from shiftgauge.labelshift import rlls, shrink
from shiftgauge.labelshift.regularised import penalty


def test_shrinking_divides_each_noise_by_its_own_size():
    q, h, variance = np.array([0.6, 0.4]), np.array([0.5, 0.5]), np.array([0.05, 0.05])
    few, many = 50.0, 1_000.0
    for n_source, n_target in ((few, many), (many, few)):
        noise = 2 * 0.6 * 0.4 / n_source + 0.1 / n_target
        moved, kept = shrink(q, h, variance, n_source, n_target)
        assert kept == pytest.approx(1.0 - noise / 0.02)
        np.testing.assert_allclose(moved, h + kept * (q - h))


@pytest.mark.parametrize("method", ["cott", "scot"])
def test_a_method_tells_the_shrinkage_which_size_is_whose(method):
    rng = np.random.default_rng(3)
    z, z_t = 3.0 * rng.normal(size=(150, 3)), 3.0 * rng.normal(size=(4000, 3)) + [1.0, 0.0, 0.0]
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    found = sg.estimate(sg.Source(z, y), sg.Target(z_t), method, marginal="shrunk", calibration="none")
    q = np.bincount(y, minlength=3) / 150
    p = np.exp(z_t) / np.exp(z_t).sum(1, keepdims=True)
    rows = p if method == "scot" else np.eye(3)[z_t.argmax(1)]
    noise = (q * (1 - q)).sum() / 150 + rows.var(axis=0).sum() / 4000
    kept = 1.0 - noise / np.square(rows.mean(axis=0) - q).sum()
    assert found.details["shrinkage_kept"] == pytest.approx(kept, rel=1e-6)


@pytest.mark.parametrize("seed", [6, 16, 56, 107, 209])
def test_more_passes_never_lower_the_likelihood(seed):
    """A step that overshoots is not taken."""
    rng = np.random.default_rng(seed)
    k = rng.integers(2, 7)
    p = rng.dirichlet(np.ones(k) * rng.choice([0.05, 0.2, 1, 5]), size=rng.integers(5, 60))
    prior = rng.dirichlet(np.ones(k) * 2)
    value = [
        np.log((p / prior) @ label_shares(p, prior, max_passes=n).shares).mean() for n in range(1, 60, 2)
    ]
    assert np.diff(value).min() >= -1e-12
    assert value[-1] > value[0]


def test_the_penalty_of_rlls_is_the_authors():
    """A hundredth of 3 [2 log(2K/0.05) / (3n) + sqrt(2 log(2K/0.05) / n)]: by hand for K = 10, n = 1,000."""
    assert penalty(10, 1000.0) == pytest.approx(0.03 * (11.98293 / 3000 + (11.98293 / 1000) ** 0.5), rel=1e-6)
    assert penalty(10, 4000.0) < penalty(10, 1000.0) < penalty(100, 1000.0)


def test_rlls_uses_the_penalty_of_the_source_s_size():
    C, h = np.array([[0.26, 0.24], [0.24, 0.26]]), np.array([0.505, 0.495])
    for n in (20.0, 5_000.0):
        np.testing.assert_array_equal(rlls(C, h, n), rlls(C, h, n, rho=penalty(2, n)))
    # A confusion that hardly tells the classes apart: few rows are not believed, many are.
    np.testing.assert_allclose(rlls(C, h, 20.0), [0.5, 0.5])
    np.testing.assert_allclose(rlls(C, h, 5_000.0), np.linalg.solve(C, h) * C.sum(0))


def test_mlls_of_few_rows_and_thousands_of_classes_is_certified():
    """The bound on the log-likelihood is computed again from all classes: max_c mean_i p_ic / (prior_c f_i) - 1."""
    rng = np.random.default_rng(0)
    n, k = 120, 2_000
    z = 2.0 * rng.normal(size=(n, k))
    z[np.arange(n), rng.integers(0, k, n)] += 6.0
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    prior = rng.dirichlet(np.full(k, 5.0))
    found = label_shares(p, prior)
    ratio = p / prior
    gap = (ratio / (ratio @ found.shares)[:, None]).mean(axis=0).max() - 1.0
    assert gap <= 1e-9
    assert found.gap == pytest.approx(gap, abs=1e-11)
    assert found.shares.sum() == pytest.approx(1.0, abs=1e-12)
    assert found.passes < 100
