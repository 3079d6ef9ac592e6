"""Answers that must not depend on rounding, on the order of classes, or on how rows are counted."""

import json

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import shiftgauge as sg


def reordered(order, probs, labels=None, **columns):
    """The arguments of a sample with its classes in another order."""
    place = np.argsort(order)
    given = {"probs": np.ascontiguousarray(np.asarray(probs)[:, order]), **columns}
    if labels is not None:
        given["labels"] = place[labels]
    if "predictions" in columns:
        given["predictions"] = place[columns["predictions"]]
    return given


def orders(k, count=4):
    return [np.random.default_rng(seed).permutation(k) for seed in range(count)]


def one_hot(n=60, k=7, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    predictions = np.where(rng.random(n) < 0.8, labels, rng.integers(0, k, n))
    return np.eye(k)[predictions], labels, np.eye(k)[rng.integers(0, k, 5)]


def test_cbpe_does_not_depend_on_the_order_of_classes():
    probs, labels, new = one_hot()
    found = [
        sg.estimate(
            sg.Source(**reordered(order, probs, labels)), sg.Target(**reordered(order, new)), "cbpe"
        ).error
        for order in orders(7)
    ]
    assert found == pytest.approx([np.mean(probs.argmax(axis=1) != labels)] * 4, abs=1e-9)


@pytest.mark.parametrize("votes", [1, 3, 10])
def test_cbpe_takes_whole_weights_for_repeated_rows(votes):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 5, 90)
    sharp = np.full((90, 5), 0.4)
    sharp[np.arange(90), labels] = 3.0
    probs = np.array([rng.multinomial(votes, rng.dirichlet(row)) for row in sharp]) / votes
    new = np.array([rng.multinomial(votes, rng.dirichlet(np.ones(5))) for _ in range(40)]) / votes
    weights = rng.integers(1, 5, 90)
    target = sg.Target(probs=new)
    weighted = sg.estimate(sg.Source(probs=probs, labels=labels, weights=weights), target, "cbpe")
    rows = np.repeat(np.arange(90), weights)
    repeated = sg.estimate(sg.Source(probs=probs[rows], labels=labels[rows]), target, "cbpe")
    assert weighted.error == pytest.approx(repeated.error, abs=1e-9)
    assert weighted.details["beyond_source"] == pytest.approx(repeated.details["beyond_source"], abs=1e-9)


def test_a_weighted_error_is_at_most_one():
    """Masses that sum to 1 + 2e-16, every row wrong."""
    weights = np.random.default_rng(3).random(11)
    source, target = (
        sg.Source(probs=[[0.6, 0.4]] * 11, labels=[1] * 11, weights=weights),
        sg.Target(probs=[[0.6, 0.4]] * 4),
    )
    assert source.error == 1.0
    found = sg.estimate(source, target, "cbpe")
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.details["sampling_error"] == 0.0
    assert "-0.0%" not in str(sg.doctor(source, target))


def test_replicates_of_the_shift_test_may_have_all_rows_in_one_cell():
    logits = [
        [1, 0],
        [1, 2],
        [2, 1],
        [0, 1],
        [1, 2],
        [0, 1],
        [1, 1],
        [2, 0],
        [2, 2],
        [0, 0],
        [1, 1],
        [0, 0],
        [2, 0],
    ]
    weights = [1, 1e-3, 0.5, 0.5, 0, 2, 0.5, 2, 2, 0, 0.5, 2, 2]
    source = sg.Source(logits, [0] * 13, weights=weights, predictions=[0] * 12 + [1], insist=True)
    new = [[0, 1], [1, 1], [0, 2], [2, 2], [1, 0], [2, 2], [1, 0], [2, 1], [0, 2], [0, 2], [0, 0], [0, 1]]
    target = sg.Target(new, predictions=[0] * 12, insist=True)
    for method in ("label-shift", "auto"):
        assert 0.0 <= sg.estimate(source, target, method).error <= 1.0


def test_cot_of_many_rows_with_a_single_label_in_the_source():
    """Every row goes to that class, so that no price has to move."""
    logits = np.random.default_rng(0).normal(size=(430_000, 10)).astype(np.float32)
    source = sg.Source(logits[:50], np.zeros(50, int))
    p = np.exp(logits.astype(np.float64))
    found = sg.estimate(source, sg.Target(logits), "cot", calibration="none").error
    assert found == pytest.approx(1.0 - np.mean(p[:, 0] / p.sum(axis=1)), abs=1e-9)


def errors_by_order(method, probs, labels, new, decided, decided_new):
    """The method's answers under several orders of the classes; the decisions stay the same."""
    found = []
    for order in orders(probs.shape[1], 5):
        source = sg.Source(**reordered(order, probs, labels, predictions=decided))
        target = sg.Target(**reordered(order, new, predictions=decided_new))
        found.append(sg.estimate(source, target, method).error)
    return found


@pytest.mark.parametrize(("seed", "nearly"), [(0, 1e-1), (0, 1e-4), (0, 1e-6), (29, 1e-7)])
def test_label_shift_runs_to_convergence(seed, nearly):
    """Where scores hardly differ the likelihood is flat: a small gain is not the end of the way."""
    rng = np.random.default_rng(seed)
    p = 1 / 6 + nearly * (rng.dirichlet(np.full(6, 5.0), 220) - 1 / 6)
    labels = rng.integers(0, 6, 170)
    decided = p.argmax(axis=1)
    found = errors_by_order("label-shift", p[:170], labels, p[170:], decided[:170], decided[170:])
    assert found == pytest.approx([found[0]] * 5, abs=1e-8)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("voters", [2, 10])
def test_auto_does_not_depend_on_the_order_of_classes(voters, seed):
    """Few votes tie, and so do the runner-ups of most rows; decisions are fixed."""
    rng = np.random.default_rng(seed)
    p = np.array([rng.multinomial(voters, row) for row in rng.dirichlet(np.full(6, 0.5), 220)]) / voters
    labels = np.array([rng.choice(6, p=row) for row in 0.7 * p[:150] + 0.05])
    decided = np.where(rng.random(220) < 0.3, 0, (p + rng.random(p.shape) * 1e-3).argmax(axis=1))
    found = errors_by_order("auto", p[:150], labels, p[150:], decided[:150], decided[150:])
    assert found == pytest.approx([found[0]] * 5, abs=1e-9)


def test_of_two_thresholds_that_fit_equally_well_the_one_with_more_errors_counts():
    """Two of four source rows are wrong; a threshold at 0.6 takes one of them for an error, one at 0.8 three."""
    confidence = np.array([0.95, 0.8, 0.8, 0.6])
    source = sg.Source(probs=np.column_stack([confidence, 1 - confidence]), labels=[0, 0, 1, 1])
    for method in ("atc-mc", "atc-ne"):
        found = sg.estimate(source, sg.Target(probs=[[0.7, 0.3], [0.9, 0.1]]), method, calibration="none")
        assert found.error == 0.5


def test_cbpe_scatters_by_the_effective_rows_of_the_target():
    source = sg.Source(probs=[[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]], labels=[0, 0, 0, 1])
    probs, weights = [[0.8, 0.2]] * 4, np.array([3.0, 1.0, 1.0, 1.0])
    spread = np.sqrt(0.25 * 0.75)
    plain = sg.estimate(source, sg.Target(probs=probs), "cbpe")
    weighted = sg.estimate(source, sg.Target(probs=probs, weights=weights), "cbpe")
    assert plain.details["sampling_error"] == pytest.approx(spread / 2.0)
    assert weighted.details["sampling_error"] == pytest.approx(spread / np.sqrt(36.0 / 12.0))


@pytest.mark.parametrize(("n", "k"), [(12, 3000), (40, 1500)])
def test_transport_of_few_rows_to_many_classes(n, k):
    """Most classes have no mass; the assignment of n rows to n labels is scipy's."""
    rng = np.random.default_rng(0)
    labels = rng.choice(k, size=n, replace=False)
    p = rng.dirichlet(np.ones(k), size=n)
    source = sg.Source(probs=p, labels=labels)
    target = rng.dirichlet(np.ones(k), size=n)
    rows, columns = linear_sum_assignment(1.0 - target[:, labels])
    wanted = (1.0 - target[:, labels])[rows, columns].mean()
    found = sg.estimate(source, sg.Target(probs=target), "cot", calibration="none")
    assert found.error == pytest.approx(wanted, abs=1e-12)
    assert sg.estimate(source, sg.Target(probs=target)).error is not None
