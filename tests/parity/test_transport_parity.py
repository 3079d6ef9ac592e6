"""COT against other people's solvers: POT on the paper's n x n problem, POT on n x K, scipy's assignment."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import shiftgauge as sg
from shiftgauge.methods.threshold import threshold_at_share

ot = pytest.importorskip("ot")


def scores(n, k, seed):
    rng = np.random.default_rng(seed)
    labels = rng.choice(k, n, p=rng.dirichlet(np.full(k, 3.0)))
    z = 3.0 * rng.normal(size=(n, k)) + 2.0 * rng.normal(size=k)
    p = np.exp(z - z.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True), labels


def cot(p, labels):
    k = p.shape[1]
    source = sg.Source(probs=p, labels=labels)
    assert source.k == k
    return sg.estimate(source, sg.Target(probs=p), method="cot", calibration="none").error


@pytest.mark.parametrize(("n", "k", "seed"), [(30, 2, 0), (60, 4, 1), (120, 10, 2), (50, 60, 3)])
def test_the_papers_matching_of_rows_to_one_hot_labels(n, k, seed):
    """n x n, with the L-infinity distance between probabilities and one-hot labels as ground cost."""
    p, labels = scores(n, k, seed)
    ground = np.abs(p[:, None, :] - np.eye(k)[labels][None, :, :]).max(axis=2)
    assert cot(p, labels) == pytest.approx(ot.emd2([], [], ground), abs=1e-9)
    rows, columns = linear_sum_assignment(ground)
    assert cot(p, labels) == pytest.approx(ground[rows, columns].mean(), abs=1e-9)


@pytest.mark.parametrize(("n", "k", "seed"), [(200, 3, 0), (500, 10, 1), (300, 40, 2)])
def test_n_by_k(n, k, seed):
    p, labels = scores(n, k, seed)
    q = np.bincount(labels, minlength=k) / n
    assert cot(p, labels) == pytest.approx(ot.emd2(np.full(n, 1 / n), q, 1 - p), abs=1e-9)


def test_thresholding_the_paper_s_plan():
    """COTT from POT's n x n plan, where nothing ties."""
    p, labels = scores(80, 5, 4)
    shifted, _ = scores(80, 5, 5)
    source = sg.Source(probs=p, labels=labels)

    def costs(probs):
        ground = np.abs(probs[:, None, :] - np.eye(5)[labels][None, :, :]).max(axis=2)
        rows, columns = linear_sum_assignment(ground)
        return ground[rows, columns]

    errors = int(np.sum(p.argmax(1) != labels))
    threshold = np.sort(costs(p))[::-1][errors - 1]
    expected = np.mean(costs(shifted) >= threshold - 1e-12)
    found = sg.estimate(source, sg.Target(probs=shifted), method="cott", calibration="none")
    assert abs(found.error - expected) <= found.details["tie_mass"] + 1e-9
    assert found.details["tie_mass"] < 0.1


def optimal_plans(p, counts):
    """Every optimal assignment of rows to classes with the given counts, by trying them all."""
    n, k = p.shape
    every = np.array(list(itertools.product(range(k), repeat=n)))
    fits = every[(np.eye(k, dtype=int)[every].sum(axis=1) == counts).all(axis=1)]
    costs = 1 - p[np.arange(n), fits]
    return costs[costs.sum(axis=1) <= costs.sum(axis=1).min() + 1e-9]


@pytest.mark.parametrize("seed", range(60))
def test_tie_mass_covers_every_optimal_plan(seed):
    """COTT from each pair of an optimal plan of the source and one of the target, found by enumeration."""
    rng = np.random.default_rng(seed)
    kinds = np.array([[6, 3, 1], [4, 4, 2], [5, 3, 2], [8, 1, 1], [5, 5, 0]]) / 10
    p, shifted = (rng.permuted(kinds[rng.integers(0, 5, 6)], axis=1) for _ in "st")
    labels = rng.permutation([0, 0, 1, 1, 2, 2])
    found = sg.estimate(
        sg.Source(probs=p, labels=labels), sg.Target(probs=shifted), method="cott", calibration="none"
    )
    error = np.mean(p.argmax(1) != labels)
    cuts = {
        threshold_at_share(costs, np.full(6, 1 / 6), error).value for costs in optimal_plans(p, [2, 2, 2])
    }
    shares = [np.mean(costs >= cut - 1e-12) for costs in optimal_plans(shifted, [2, 2, 2]) for cut in cuts]
    assert min(shares) - 1e-9 <= found.error <= max(shares) + 1e-9
    assert max(shares) - min(shares) <= found.details["tie_mass"] + 1e-9


def test_soft_transport_against_sinkhorn():
    """SCOT's plan is entropic transport with regularisation 1: POT's Sinkhorn finds the same."""
    p, labels = scores(150, 6, 6)
    q = np.bincount(labels, minlength=6) / 150
    plan = ot.sinkhorn(np.full(150, 1 / 150), q, -np.log(p), reg=1.0, stopThr=1e-13, numItermax=100_000)
    expected = 1 - plan[np.arange(150), p.argmax(1)].sum()
    source = sg.Source(probs=p, labels=labels)
    found = sg.estimate(source, sg.Target(probs=p), method="scot", calibration="none").error
    assert found == pytest.approx(expected, abs=1e-9)
