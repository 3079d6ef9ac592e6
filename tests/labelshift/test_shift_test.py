"""The J test: false alarms under label shift, power against other shift, the share explained."""

from __future__ import annotations

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.inference import shift_test
from shiftgauge.labelshift import confidence_cells, j_test


def sample(rng, n, shares, sharpness=1.7):
    k = len(shares)
    y = rng.choice(k, size=n, p=shares)
    z = rng.normal(size=(n, k))
    z[np.arange(n), y] += sharpness
    return sharpness * z, y


def run(rng, n, k, change=None):
    z, y = sample(rng, n, np.full(k, 1 / k))
    z_t, _ = sample(rng, n, rng.dirichlet(np.full(k, 5.0)))
    if change is not None:
        z_t = change(z_t)
    return shift_test(sg.Source(logits=z, labels=y), sg.Target(logits=z_t), calibration="none")


def test_false_alarms_under_pure_label_shift_are_near_the_level():
    """120 sets of 2,000 + 2,000 rows: 5% expected; 2 sd of the simulation are 4 points."""
    p = [run(np.random.default_rng(s), 2000, 3).test.p_value for s in range(120)]
    assert 0.005 <= np.mean(np.array(p) <= 0.05) <= 0.10
    assert 0.35 <= np.mean(np.array(p) <= 0.5) <= 0.65


def test_a_chi_square_that_ignores_source_noise_would_cry_wolf():
    from scipy.stats import chi2

    wolf = []
    for s in range(60):
        rng = np.random.default_rng(s)
        z, y = sample(rng, 2000, np.full(3, 1 / 3))
        z_t, _ = sample(rng, 2000, rng.dirichlet(np.full(3, 5.0)))
        left, right, c = confidence_cells((z.argmax(1), z_t.argmax(1)), (z.max(1), z_t.max(1)), 3)
        mass = np.full(2000, 1 / 2000)
        A = np.array([np.bincount(left[y == j], minlength=c) / (y == j).sum() for j in range(3)]).T
        found = j_test(left, y, mass, right, mass, c, 3)
        expected = A @ found.shares
        naive = 2000 * np.sum((np.bincount(right, minlength=c) / 2000 - expected) ** 2 / expected)
        wolf.append(chi2.sf(naive, c - 3) <= 0.05)
    assert np.mean(wolf) > 0.2


def test_parametric_bootstrap_where_counts_are_sparse():
    found = [run(np.random.default_rng(s), 300, 6) for s in range(25)]
    assert {f.test.reference for f in found} == {"parametric bootstrap"}
    assert np.mean([f.test.p_value <= 0.05 for f in found]) <= 0.2


def test_power_against_noise_in_the_scores():
    rng = np.random.default_rng(0)
    found = run(rng, 2000, 3, lambda z: z + 2.0 * rng.normal(size=z.shape))
    assert found.kind == "other"
    assert found.test.p_value < 1e-3


def test_label_shift_is_recognised_and_explained():
    found = run(np.random.default_rng(1), 4000, 3)
    assert found.kind == "label"
    assert found.test.explained > 0.95


def test_demo_corruptions_are_seen_and_the_clean_target_is_not():
    from importlib import resources

    with resources.files("shiftgauge").joinpath("data/demo.npz").open("rb") as file:
        held = dict(np.load(file, allow_pickle=False))
    source = sg.Source(logits=held["val_logits"], labels=held["val_labels"])
    for name in held["shifts"].tolist():
        found = shift_test(source, sg.Target(logits=held[f"{name}_logits"]))
        assert found.kind == ("none" if name == "clean" else "other"), name


def test_shares_are_found_and_bounds_reported():
    rng = np.random.default_rng(2)
    z, y = sample(rng, 5000, np.full(3, 1 / 3))
    z_t, y_t = sample(rng, 5000, np.array([0.6, 0.3, 0.1]))
    found = shift_test(sg.Source(logits=z, labels=y), sg.Target(logits=z_t), calibration="none")
    assert np.abs(found.test.shares - np.bincount(y_t) / 5000).max() < 0.03
    h, q = np.bincount(z_t.argmax(1)) / 5000, np.bincount(y) / 5000
    assert found.pseudo_label_shift == pytest.approx(np.abs(h - q).sum() / 2)
    assert found.cot_bound == pytest.approx(found.scot_bound / 2)
    assert '"kind": "label"' in found.to_json()


@pytest.mark.parametrize("k", [2, 7, 40])
def test_quadratic_on_the_simplex_against_nnls(k):
    """scipy's active set with the sum as a heavy row."""
    from scipy.optimize import nnls

    from shiftgauge.labelshift.simplex import on_simplex

    rng = np.random.default_rng(k)
    for _ in range(20):
        W, y = rng.normal(size=(2 * k, k)), rng.normal(size=2 * k)
        heavy = 1e5
        oracle = nnls(np.vstack([W, np.full((1, k), heavy)]), np.append(y, heavy), maxiter=100 * k)[0]
        found = on_simplex(W.T @ W, W.T @ y)
        assert found.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(found, oracle, atol=1e-6)


@pytest.mark.slow
def test_many_classes_end_soon_and_rarely_cry_wolf():
    """120 classes of 40 rows each: few replicates, read off a fitted distribution."""
    from shiftgauge.labelshift.shift_test import COUNTED, replicate_count

    assert replicate_count(4 * 120, 120) < COUNTED
    found = [run(np.random.default_rng(s), 4800, 120).test for s in range(2)]
    assert {f.reference for f in found} == {"parametric bootstrap"}
    assert min(f.p_value for f in found) > 0.001


def test_many_classes_get_fewer_bins():
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(600), 60)
    assert confidence_cells((y, y), (rng.random(len(y)), rng.random(len(y))), 600)[2] == 1200


def test_a_stack_of_quadratics_is_each_of_them():
    from shiftgauge.labelshift.simplex import on_simplex

    rng = np.random.default_rng(0)
    W, y = rng.normal(size=(30, 14, 7)), rng.normal(size=(30, 14))
    N, b = np.swapaxes(W, 1, 2) @ W, np.einsum("mij,mi->mj", W, y)
    alone = np.array([on_simplex(left, right) for left, right in zip(N, b, strict=True)])
    np.testing.assert_allclose(on_simplex(N, b), alone, atol=1e-9)


def test_a_stack_of_samples_is_fitted_as_each_of_them():
    from shiftgauge.labelshift.counts import Counts, minimum

    rng = np.random.default_rng(1)
    A = rng.dirichlet(np.ones(12), size=(5, 3)).swapaxes(1, 2)
    h = rng.dirichlet(np.ones(12), size=5)
    rows = np.array([200.0, 150.0, 300.0])
    J, pi = minimum(Counts(A, rows, h, 400.0))
    for number in range(5):
        alone, shares = minimum(Counts(A[number], rows, h[number], 400.0))
        assert J[number] == pytest.approx(float(alone), rel=1e-9)
        np.testing.assert_allclose(pi[number], shares, atol=1e-9)


@pytest.mark.parametrize(
    ("p_value", "explained", "kind"),
    [(None, None, "unknown"), (0.05, 0.9, "other"), (0.051, None, "none"), (0.051, 0.9, "label")],
)
def test_the_kind_of_shift_is_decided_in_one_place(p_value, explained, kind):
    from shiftgauge.labelshift import JTest

    test = JTest(1.0, 3, p_value, "chi-square", np.ones(2) / 2, explained, 1.0, 0.5, 5)
    assert test.kind() == kind
    assert test.kind(level=0.01) == (kind if kind != "other" else "label")


def test_the_order_of_classes_does_not_change_the_statistic():
    """Which cell is left out of the covariance, the last one, depends on the order of the classes."""
    rng = np.random.default_rng(2)
    y, y_t = rng.integers(4, size=300), rng.choice(4, 200, p=[0.1, 0.2, 0.3, 0.4])
    z, z_t = (2.0 * rng.normal(size=(len(labels), 4)) + 2.0 * np.eye(4)[labels] for labels in (y, y_t))
    plain = sg.shift_test(sg.Source(z, y), sg.Target(z_t)).test
    for order in ([3, 0, 1, 2], [2, 3, 0, 1], [1, 0, 3, 2]):
        turned = sg.Source(z[:, order], np.argsort(order)[y]), sg.Target(z_t[:, order])
        found = sg.shift_test(*turned).test
        assert found.statistic == pytest.approx(plain.statistic, rel=1e-6)
        assert found.p_value == plain.p_value
