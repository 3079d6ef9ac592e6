"""Small numbers by hand, by loops and by scipy: the J test's parts, MLLS's certificate, RLLS's penalty."""

import numpy as np
import pytest
from array_shares import label_shares
from scipy import stats

from shiftgauge.labelshift import mlls
from shiftgauge.labelshift.cells import RunnerUps
from shiftgauge.labelshift.confusion import normalised
from shiftgauge.labelshift.counts import Counts, count, covariance, minimum, solved
from shiftgauge.labelshift.dirichlet import resample_to
from shiftgauge.labelshift.regularised import penalty
from shiftgauge.labelshift.shift_test import (
    chi_square_tail,
    explained_fraction,
    j_test_of_shares,
    p_value_and_reference,
    two_sample_statistic,
    unexplained,
)
from shiftgauge.labelshift.shrinkage import shrink
from shiftgauge.labelshift.simplex import on_simplex
from shiftgauge.rows import Block, Rows, run


@pytest.fixture
def counts():
    rng = np.random.default_rng(0)
    A = rng.dirichlet(np.ones(6), size=3).T
    return Counts(A, np.array([40.0, 90.0, 25.0]), rng.dirichlet(np.ones(6)), 130.0)


def test_the_covariance_is_the_formula(counts):
    """[diag(A pi) - A pi (A pi)'] / n_target + sum_c pi_c^2 [diag(A_c) - A_c A_c'] / n_c, one entry at a time."""
    pi = np.array([0.5, 0.2, 0.3])
    h = counts.A @ pi
    V = np.empty((5, 5))
    for i in range(5):
        for j in range(5):
            V[i, j] = ((h[i] if i == j else 0.0) - h[i] * h[j]) / 130.0
            for c, a in enumerate(counts.A.T):
                V[i, j] += pi[c] ** 2 * ((a[i] if i == j else 0.0) - a[i] * a[j]) / counts.n[c]
    np.testing.assert_allclose(covariance(counts, counts.A, pi), V, rtol=1e-12)


def test_j_is_the_distance_at_its_own_shares(counts):
    J, pi = minimum(counts)
    V = covariance(counts, counts.smoothed(), pi)
    gap = (counts.h - counts.A @ pi)[:-1]
    assert float(J) == pytest.approx(gap @ np.linalg.inv(V) @ gap, rel=1e-6)
    # One pseudo-row per label, spread like all rows of both samples.
    pooled = (counts.A @ counts.n + counts.h * 130.0) / (counts.n.sum() + 130.0)
    np.testing.assert_allclose(counts.smoothed()[:, 1], (counts.A[:, 1] * 90.0 + pooled) / 91.0)


def test_one_cell_tells_nothing():
    one = Counts(np.ones((1, 4)), np.full(4, 9.0), np.ones(1), 9.0)
    J, pi = minimum(one)
    assert J == 0.0
    np.testing.assert_array_equal(pi, np.full(4, 0.25))
    start = np.array([0.7, 0.1, 0.1, 0.1])
    np.testing.assert_array_equal(minimum(one, start)[1], start)


def test_an_empty_cell_is_held_by_a_positive_ridge():
    found = solved(np.diag([2.0, 0.0]), np.array([1.0, 1.0]))
    assert found[0] == pytest.approx(0.5)
    assert found[1] > 1e9


def test_without_labels_to_re_weight_the_difference_is_pearsons():
    """One label: two samples in cells, and nothing explains their difference."""
    rng = np.random.default_rng(1)
    left, right = rng.multinomial(400, np.ones(5) / 5), rng.multinomial(300, [0.3, 0.1, 0.2, 0.2, 0.2])
    cells = np.repeat(np.arange(5), left)
    found = j_test_of_shares(cells, np.zeros(400, dtype=int), np.full(400, 1 / 400), right / 300, 300.0, 1)
    theirs = stats.chi2_contingency([left, right], correction=False)
    assert found.difference == pytest.approx(theirs.statistic, rel=1e-6)
    assert found.difference_p == pytest.approx(theirs.pvalue, rel=1e-6)
    assert found.explained == pytest.approx(0.0, abs=1e-12)
    assert found.cells == 5


def test_a_difference_within_two_deviations_of_noise_needs_no_explanation():
    source = np.full(9, 1 / 9)
    told = []
    for step in np.linspace(0.0, 0.06, 60):
        h = source + step * np.r_[np.ones(4), -np.ones(4), 0.0] / 9 * 3
        one = Counts(source[:, None], np.array([2000.0]), h, 2000.0)
        V = (h + source) / 2 * (2 / 2000)
        excess = np.sum((h - source) ** 2 / V) - 8
        told.append(explained_fraction(one, np.ones(1)) is None)
        assert told[-1] == (excess <= 2 * np.sqrt(2 * 8))
    assert 5 < sum(told) < 55
    assert two_sample_statistic(one, np.ones(1)) > 0.0


def test_kish_counts_rows_by_their_weights():
    mass = np.array([0.1, 0.3, 0.2, 0.4])
    found, seen = count(np.array([0, 1, 0, 1]), np.array([0, 0, 2, 2]), mass, np.array([2.0, 2.0]), 7.0, 2, 3)
    np.testing.assert_array_equal(seen, [True, False, True])
    np.testing.assert_allclose(found.n, [0.4**2 / (0.1**2 + 0.3**2), 0.6**2 / (0.2**2 + 0.4**2)])
    np.testing.assert_allclose(found.A, [[0.25, 1 / 3], [0.75, 2 / 3]])
    np.testing.assert_allclose(found.h, [0.5, 0.5])


@pytest.mark.parametrize(
    ("rows", "n_t", "statistic", "reference"),
    [
        (400.0, 4000.0, 6.0, "chi-square"),
        (299.0, 4000.0, 6.0, "parametric bootstrap"),  # few rows of a class
        (400.0, 30.0, 6.0, "parametric bootstrap"),  # few rows in a cell
        (40.0, 30.0, 600.0, "chi-square"),  # hopeless whatever a bootstrap says
    ],
)
def test_where_counts_are_sparse_the_p_value_is_bootstrapped(rows, n_t, statistic, reference):
    A = np.array([[0.4, 0.1], [0.3, 0.2], [0.2, 0.3], [0.1, 0.4]])
    pi = np.array([0.5, 0.5])
    p, said = p_value_and_reference(Counts(A, np.array([rows, 5000.0]), A @ pi, n_t), statistic, pi, 2, 0)
    assert said == reference
    if said == "chi-square":
        assert p == pytest.approx(stats.chi2.sf(statistic, 2))


def test_the_tail_is_chi_squares():
    assert chi_square_tail(3.8, 1) == pytest.approx(stats.chi2.sf(3.8, 1))
    assert chi_square_tail(3.8, 0) == 1.0
    assert (
        p_value_and_reference(Counts(np.eye(2), np.ones(2), np.ones(2) / 2, 9.0), 0.0, np.ones(2) / 2, 0, 0)[
            0
        ]
        is None
    )


def test_what_re_weighting_leaves_unexplained():
    cells, labels = np.array([0, 0, 1, 2]), np.array([0, 0, 1, 1])
    mass, target, shares = (
        np.array([0.1, 0.3, 0.4, 0.2]),
        np.array([0.5, 0.3, 0.2]),
        np.array([0.7, 0.3, 0.0]),
    )
    expected = np.array([0.7, 0.3 * 0.4 / 0.6, 0.3 * 0.2 / 0.6])
    assert unexplained(cells, labels, mass, target, shares) == pytest.approx(
        np.abs(target - expected).sum() / 2
    )


def test_the_scale_of_a_quadratic_does_not_move_its_minimum():
    """Neither alone nor in a stack, where one problem may be a million times larger than the next."""
    rng = np.random.default_rng(2)  # classes that left come back
    W, y = rng.normal(size=(7, 12, 6)), rng.normal(size=(7, 12))
    N, b = np.swapaxes(W, 1, 2) @ W, np.einsum("mij,mi->mj", W, y)
    scale = 10.0 ** np.arange(-9, 12, 3)
    assert (on_simplex(N, b) == 0.0).any()
    found = on_simplex(N * scale[:, None, None], b * scale[:, None])
    np.testing.assert_allclose(found, on_simplex(N, b), atol=1e-7)


def test_resampled_rows_are_sorted_and_as_many_as_the_scarcest_class_affords():
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [50, 31, 200]))
    shares = np.array([0.5, 0.3, 0.2])
    rows = resample_to(labels, shares, seed=3)
    assert (np.diff(rows) > 0).all()
    afford = 100  # 50 / 0.5, less than 31 / 0.3
    np.testing.assert_array_equal(np.bincount(labels[rows]), [50, 30, 20])
    assert len(rows) == afford


def test_shrinking_is_the_formula():
    q, h, var = np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.3, 0.4]), np.array([0.2, 0.1, 0.3])
    noise = (0.25 + 0.21 + 0.16) / 50 + 0.6 / 80
    moved, s = shrink(q, h, var, 50, 80)
    assert s == pytest.approx(1 - noise / 0.08)
    np.testing.assert_allclose(moved, h + s * (q - h))
    assert shrink(q, q, var, 50, 80)[1] == 0.0
    assert shrink(q, h, 100 * var, 50, 80)[1] == 0.0


def test_the_penalty_is_the_authors():
    log = 2 * np.log(2 * 10 / 0.05)
    assert penalty(10, 1000) == pytest.approx(0.01 * (log / 1000 + 3 * np.sqrt(log / 1000)))


def test_masses_that_are_all_negative_fall_back():
    fallback = np.array([0.25, 0.75])
    np.testing.assert_array_equal(normalised(np.array([-1.0, 0.0]), fallback), fallback)
    np.testing.assert_allclose(normalised(np.array([-1.0, 2.0]), fallback), [0.0, 1.0])


def overlapping():
    """Two classes that hardly differ: plain EM crawls."""
    rng = np.random.default_rng(0)
    p = 0.5 + 0.08 * rng.normal(size=400)
    p = np.clip(np.c_[p, 1 - p], 0.01, 0.99)
    return p / p.sum(axis=1, keepdims=True), np.array([0.5, 0.5])


def test_mlls_counts_every_reading():
    rng = np.random.default_rng(3)
    rows = Rows.of_block(Block(rng.dirichlet(np.full(5, 0.3), 60)))
    found = run(mlls(rows, rng.dirichlet(np.ones(5))))
    assert found.passes == rows.passes


def test_mlls_takes_a_third_of_the_passes_of_em():
    p, prior = overlapping()
    found = label_shares(p, prior, tol=1e-6)
    ratio, pi, plain = p / prior, prior.copy(), 0
    while True:
        D = (1 / (ratio @ pi)) @ ratio / len(p)
        plain += 1
        if D.max() - 1 <= 1e-6:
            break
        pi = pi * D
    assert found.passes < plain / 3
    np.testing.assert_allclose(found.shares, pi, atol=1e-2)


def test_mlls_certifies_where_it_was_stopped():
    """With one pass the certificate is max D - 1 at the prior, and bounds what is missing of the maximum."""
    p, prior = overlapping()
    first, best = label_shares(p, prior, max_passes=1), label_shares(p, prior)
    np.testing.assert_allclose(first.shares, prior, rtol=1e-12)
    assert first.passes == 1
    D = (p / prior / (p / prior @ prior)[:, None]).mean(axis=0)
    assert first.gap == pytest.approx(D.max() - 1)
    missing = np.log(p / prior @ best.shares).mean() - np.log(p / prior @ prior).mean()
    assert 0.0 < missing <= first.gap
    assert label_shares(p, prior, max_passes=4).passes <= 9


def test_runners_up_that_are_rare_share_a_cell():
    rng = np.random.default_rng(0)
    first = rng.integers(4, size=300)
    second = (first + 1 + (rng.random(300) < 0.2) + (rng.random(300) < 0.05)) % 4
    cells = RunnerUps.of(first, second, 4, least=20)
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    often = sorted({pair for pair in pairs if pairs.count(pair) >= 20})
    assert 4 <= len(often) < len(set(pairs))
    assert cells.count == len(often) + 4
    expected = [often.index(pair) if pair in often else len(often) + pair[0] for pair in pairs]
    np.testing.assert_array_equal(cells.cell(first, second), expected)
