"""A certificate can fail: every kind of damage to a plan shows in its audit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shiftgauge.errors import InputError
from shiftgauge.rows import Block, Rows, run
from shiftgauge.transport import Problem, audit, exact, exact_transport, smoothed_transport, solve

from .oracles import cut_rows


def problem(weighted, n=4000, k=6):
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(k, 0.4), n)
    return Problem(p, rng.dirichlet(np.full(k, 6.0)), rng.random(n) if weighted else None)


def changed(array, at, value):
    out = array.copy()
    out[at] = value
    return out


def restated(given, plan):
    """The plan with costs and value that are right for what it does: only its masses can be wrong."""
    cost = 1 - given.probs[np.arange(given.n), plan.assigned]
    split_cost = 1 - given.probs[plan.split_rows, plan.split_classes]
    for row in np.unique(plan.split_rows):
        here = plan.split_rows == row
        cost[row] = plan.split_mass[here] @ split_cost[here] / plan.split_mass[here].sum()
    value = np.average(cost, weights=given.row_mass)
    certificate = replace(plan.certificate, primal=float(value))
    return replace(plan, cost=cost, split_cost=split_cost, certificate=certificate)


def class_violation(plan):
    """One whole row sits in another class."""
    row = next(r for r in range(len(plan.assigned)) if r not in plan.split_rows)
    return replace(plan, assigned=changed(plan.assigned, row, (plan.assigned[row] + 1) % len(plan.prices)))


def row_violation(plan):
    """A split row hands out more than it has, and another one as much less, in the same class."""
    cls, count = np.unique(plan.split_classes, return_counts=True)
    first, second = np.flatnonzero(plan.split_classes == cls[count.argmax()])[:2]
    moved = plan.split_mass[first] / 2
    mass = changed(plan.split_mass, first, plan.split_mass[first] - moved)
    return replace(plan, split_mass=changed(mass, second, mass[second] + moved))


def wrong_prices(plan):
    """One class is a little dearer than it should be."""
    return replace(plan, prices=plan.prices + 1e-3 * (np.arange(len(plan.prices)) == 1))


def worse_plan(plan):
    """Two rows swap their classes: all masses are kept, the cost is not."""
    rows = np.setdiff1d(np.arange(len(plan.assigned)), plan.split_rows)
    a, b = (rows[np.flatnonzero(plan.assigned[rows] == cls)[0]] for cls in (0, 1))
    assigned = changed(changed(plan.assigned, a, 1), b, 0)
    return replace(plan, assigned=assigned)


def wrong_cost(plan):
    """A row's cost is not what the plan makes it pay."""
    return replace(plan, cost=changed(plan.cost, 7, plan.cost[7] + 1e-6))


def wrong_part_cost(plan):
    """The cost of a split row's part is wrong."""
    return replace(plan, split_cost=changed(plan.split_cost, 0, plan.split_cost[0] + 1e-6))


def wrong_value(plan):
    """The value that the plan claims is not its cost."""
    return replace(plan, certificate=replace(plan.certificate, primal=plan.value - 1e-6))


OF_MASS = [class_violation, row_violation]
OF_COST = [wrong_cost, wrong_part_cost, wrong_value]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sound_plan_passes(weighted):
    given = problem(weighted)
    plan = solve(given)
    found = audit(given, plan)
    assert found.exact
    assert found.primal == pytest.approx(plan.certificate.primal, abs=1e-15)
    assert found.dual == pytest.approx(plan.certificate.dual, abs=1e-15)


def test_a_plan_without_split_rows_passes():
    given = Problem([[0.9, 0.1], [0.6, 0.4]], [1, 1])
    plan = solve(given)
    assert len(plan.split_rows) == 0
    assert audit(given, plan).exact


@pytest.mark.parametrize("damage", OF_MASS)
def test_damaged_masses_show_as_violation(damage):
    given = problem(weighted=False)
    found = audit(given, restated(given, damage(solve(given))))
    assert found.violation > 1e-7
    assert not found.exact


def test_a_part_below_zero_shows_as_violation():
    """Rows and classes get their masses, and all scores are equal: nothing else is wrong with this plan."""
    given = Problem(np.full((2, 2), 0.5), [1, 1])
    parts = {"split_rows": [0, 0, 1, 1], "split_classes": [0, 1, 0, 1]}
    parts = {name: np.array(value) for name, value in parts.items()}
    parts |= {"split_mass": np.array([0.75, -0.25, -0.25, 0.75]), "split_cost": np.full(4, 0.5)}
    found = audit(given, replace(solve(given), assigned=np.array([0, 1]), cost=np.full(2, 0.5), **parts))
    assert found.violation == 0.25
    assert found.gap == 0.0


def test_restating_a_sound_plan_changes_nothing():
    given = problem(weighted=True)
    assert audit(given, restated(given, solve(given))).exact


@pytest.mark.parametrize("damage", OF_COST)
def test_damaged_costs_show_as_violation(damage):
    given = problem(weighted=False)
    found = audit(given, damage(solve(given)))
    assert 0.9e-6 < found.violation < 1.1e-6
    assert not found.exact


def test_weighted_rows_in_another_class_show_as_violation():
    """Weights differ, so the class masses after a swap do too."""
    given = problem(weighted=True)
    assert audit(given, restated(given, worse_plan(solve(given)))).violation > 1e-7


@pytest.mark.parametrize("damage", [wrong_prices, worse_plan])
def test_damage_shows_as_gap(damage):
    given = problem(weighted=False)
    found = audit(given, restated(given, damage(solve(given))))
    assert found.gap > 1e-8
    assert found.violation <= 1e-12
    assert not found.exact


def test_the_dual_never_exceeds_what_a_plan_can_cost():
    """Any prices give a lower bound: no damage to them can make a plan look better than it is."""
    given = problem(weighted=True)
    plan = solve(given)
    rng = np.random.default_rng(0)
    for _ in range(50):
        prices = plan.prices + rng.normal(0.0, 0.1, given.k)
        assert audit(given, replace(plan, prices=prices)).dual <= plan.value + 1e-12


def test_a_plan_of_another_problem_is_refused():
    with pytest.raises(InputError, match="plan is of 4000 rows and 6 classes, the problem of 100 and 6"):
        audit(problem(False, n=100), solve(problem(False)))


def test_a_smoothed_plan_is_never_called_exact():
    given = problem(weighted=False, n=800)
    plan = run(smoothed_transport(Rows.of_block(Block(given.probs)), given.class_mass, np.zeros(6)))
    assert not plan.certificate.exact
    assert plan.certificate.to_dict()["exact"] is False


def of_the_wrong_class(u, cls, parts):
    """One whole row sits in another class."""
    row = next(r for r in range(len(cls)) if r not in {r for r, _ in parts})
    return u, changed(cls, row, (cls[row] + 1) % len(u)), parts


def of_wrong_prices(u, cls, parts):
    """One class is a little dearer than it should be: rows that go to their first best class go elsewhere."""
    return u + (np.arange(len(u)) == 1) * (1 << 40), cls, parts


def of_swapped_rows(u, cls, parts):
    """Two rows swap their classes: all masses are kept, the cost is not."""
    split = {r for r, _ in parts}
    a, b = (next(r for r in range(len(cls)) if cls[r] == j and r not in split) for j in (0, 1))
    return u, changed(changed(cls, a, 1), b, 0), parts


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("damage", [None, of_the_wrong_class, of_wrong_prices, of_swapped_rows])
def test_the_auditing_pass_does_not_believe_the_search(monkeypatch, weighted, damage):
    given = problem(weighted)
    search = exact.search

    def damaged(rows, u, wanted, plan=True):
        cls, parts = search(rows, u, wanted, plan)
        if damage is not None and plan:
            u[:], cls, parts = damage(u, cls, parts)
        return cls, parts

    monkeypatch.setattr(exact, "search", damaged)
    rows = cut_rows(given.probs, [1000, 2500], given.row_mass)
    found = run(exact_transport(rows, given.class_mass)).certificate
    assert found.exact == (damage is None)
    if damage is not None:
        assert max(found.gap, found.violation) > 1e-8
