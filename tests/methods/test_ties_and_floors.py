"""COTT's tie mass against linear programming; SCOT's mass on probabilities of exactly zero."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

import shiftgauge as sg


def test_cott_says_where_ties_decide():
    """One-hot scores: every row costs 0 or 1, and which right-looking rows pay is a matter of chance."""
    rng = np.random.default_rng(0)
    labels = rng.integers(5, size=600)
    decided = np.where(rng.random(600) < 0.2, rng.integers(5, size=600), labels)
    hard = np.eye(5)[decided]
    source, target = sg.Source(probs=hard[:300], labels=labels[:300]), sg.Target(probs=hard[300:])
    found = sg.estimate(source, target, method="cott")
    assert found.details["tie_mass"] > 0.2
    assert any("rows tie" in line for line in found.warnings)
    soft = np.log(0.8 * hard + 0.04) + rng.normal(scale=0.3, size=hard.shape)
    plain = sg.estimate(
        sg.Source(logits=soft[:300], labels=labels[:300]), sg.Target(logits=soft[300:]), method="cott"
    )
    assert not any("rows tie" in line for line in plain.warnings)


def test_ties_of_the_source_widen_the_threshold():
    """Four equal source rows: two pay 0.3 and two 0.7, whichever they are, so the cut may lie at either."""
    source = sg.Source(probs=[[0.7, 0.3]] * 4, labels=[0, 0, 1, 1])
    between = sg.Target(probs=[[0.55, 0.45], [0.55, 0.45]])  # each pays 0.45 or 0.55
    beyond = sg.Target(probs=[[0.9, 0.1], [0.2, 0.8]])  # 0.1 and 0.2, below the cut whatever the plan
    assert sg.estimate(source, between, "cott", calibration="none").details["tie_mass"] == pytest.approx(1.0)
    assert sg.estimate(source, beyond, "cott", calibration="none").details["tie_mass"] == 0.0


def possible_costs(probs, q):
    """(n, 2) the least and the greatest cost that each row pays in some optimal plan, by linear programming."""
    n, k = probs.shape
    cost = (1.0 - probs).ravel() / n
    rows = np.kron(np.eye(n), np.ones(k))
    columns = np.kron(np.ones(n), np.eye(k)) / n
    equal, right = np.vstack([rows, columns]), np.append(np.ones(n), q)
    best = linprog(cost, A_eq=equal, b_eq=right).fun
    out = np.empty((n, 2))
    for i in range(n):
        used = []
        for j in range(k):
            aim = np.zeros(n * k)
            aim[i * k + j] = -1.0
            most = linprog(aim, A_eq=equal, b_eq=right, A_ub=[cost], b_ub=[best + 1e-10])
            if -most.fun > 1e-6:
                used.append(1.0 - probs[i, j])
        out[i] = min(used), max(used)
    return out


@pytest.mark.parametrize("seed", range(6))
def test_the_tie_mass_holds_every_row_that_an_optimal_plan_can_move(seed):
    """Rounded scores: whichever threshold an optimal source plan gives, rows that straddle it are counted."""
    rng = np.random.default_rng(seed)
    k, n = 3, 9
    probs, probs_t = (np.round(rng.dirichlet(np.ones(k), n) * 5) / 5 + 1e-3 for _ in range(2))
    probs, probs_t = (p / p.sum(1, keepdims=True) for p in (probs, probs_t))
    labels = np.where(rng.random(n) < 0.6, probs.argmax(1), rng.integers(k, size=n))
    source, target = sg.Source(probs=probs, labels=labels), sg.Target(probs=probs_t)
    found = sg.estimate(source, target, "cott", calibration="none").details
    q = np.bincount(labels, minlength=k) / n
    threshold = found["threshold"]
    low, high = possible_costs(probs_t, q).T
    straddle = (low < threshold - 1e-9) & (high >= threshold - 1e-9)
    assert found["tie_mass"] >= straddle.mean() - 1e-9


def test_mass_on_impossible_labels_is_measured_and_said():
    source = sg.Source(probs=[[0.9, 0.1], [0.2, 0.8]], labels=[0, 1])
    rounded = sg.Target(probs=[[1.0, 0.0], [1.0, 0.0], [0.7, 0.3]])
    found = sg.estimate(source, rounded, "scot", calibration="none")
    # Half the mass must go to class 1, and the last row alone holds but a third of it.
    assert found.details["floor_mass"] == pytest.approx(0.5 - 1 / 3, abs=0.01)
    (warning,) = [w for w in found.warnings if "exactly zero" in w]
    assert warning.startswith(f"{100 * found.details['floor_mass']:.3g}% of the mass")
    exact = sg.Target(probs=[[0.99, 0.01], [0.99, 0.01], [0.7, 0.3]])
    unhurt = sg.estimate(source, exact, "scot", calibration="none")
    assert unhurt.details["floor_mass"] == 0.0
    assert not any("exactly zero" in w for w in unhurt.warnings)
