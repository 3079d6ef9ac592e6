"""The plan's parts: in one order whatever the order they came in, row by row, and what ties could change."""

import numpy as np
import pytest
from shiftgauge.transport._audit import split_parts
from shiftgauge.transport._forest import cancel_cycles
from shiftgauge.transport.solution import cost_range

from shiftgauge.errors import InputError
from shiftgauge.transport import Problem, solve
from shiftgauge.transport.problem import masses
from shiftgauge.transport.smoothing import smoothed
from shiftgauge.transport.streamed import KEPT, SAMPLE, sample_step


def random_parts(seed):
    rng = np.random.default_rng(seed)
    return {
        (int(r), int(c)): int(rng.integers(1, 50)) for r in range(6) for c in range(5) if rng.random() < 0.7
    }


@pytest.mark.parametrize("seed", range(5))
def test_the_order_in_which_parts_come_does_not_matter(seed):
    parts = random_parts(seed)
    keys = list(parts)
    np.random.default_rng(seed).shuffle(keys)
    assert cancel_cycles({tuple(key): parts[tuple(key)] for key in keys}) == cancel_cycles(parts)
    assert len(cancel_cycles(parts)) <= 6 + 5 - 1


def test_split_rows_are_sorted_and_sit_in_the_class_of_their_largest_part():
    assigned = np.full(5, -1, dtype=np.intp)
    found = split_parts(assigned, {(3, 2): 4, (1, 0): 9, (3, 0): 4, (0, 1): 7, (3, 1): 2})
    assert assigned.tolist() == [1, 0, -1, 0, -1]  # of equal parts the class of lowest index
    assert found.rows.tolist() == [3, 3, 3]
    assert found.classes.tolist() == [0, 1, 2]
    assert found.mass.tolist() == [4.0, 2.0, 4.0]


@pytest.mark.parametrize("weighted", [False, True])
def test_pieces_are_the_whole_plan_row_by_row(weighted):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), 31)
    row_mass = rng.random(31) if weighted else None
    problem = Problem(probs, [1.0, 2.0, 3.0, 4.0], row_mass)
    plan = solve(problem)
    row, cls, mass, cost = plan.pieces()
    assert (np.diff(row) >= 0).all()
    own = np.full(31, 1 / 31) if row_mass is None else row_mass / row_mass.sum()
    np.testing.assert_allclose(np.bincount(row, mass, 31), own, atol=1e-12)
    np.testing.assert_allclose(np.bincount(cls, mass, 4), [0.1, 0.2, 0.3, 0.4], atol=1e-12)
    np.testing.assert_allclose(cost, 1 - probs[row, cls], atol=1e-12)
    assert mass @ cost == pytest.approx(plan.value, abs=1e-12)
    np.testing.assert_allclose(np.bincount(row, mass * cost, 31) / own, plan.cost, atol=1e-12)
    assert len(plan.split_rows) > 0


def test_ties_range_over_classes_that_have_mass():
    """Row by row, the classes within rounding of the best of p - u; a class without mass is never one of them."""
    probs = np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.1, 0.2, 0.7]])
    prices, mass = np.array([0.2, 0.0, 0.0]), np.array([0.5, 0.5, 0.0])
    low, high = cost_range(probs, prices, mass)
    np.testing.assert_allclose(low, [0.5, 0.6, 0.8])
    np.testing.assert_allclose(high, [0.7, 0.6, 0.8])


def test_masses_are_shares_of_any_size():
    for scale in (1e-308, 1.0, 1e308):
        np.testing.assert_allclose(masses([scale, 0.0, scale / 2], 3, "m", "rows"), [2 / 3, 0.0, 1 / 3])


@pytest.mark.parametrize("bad", [[0.0, 1.0, 2.0], [0.0, np.nan], [np.inf, 0.0], 1.0])
def test_prices_of_another_shape_or_without_end_are_refused(bad):
    with pytest.raises(InputError, match="prices has shape"):
        solve(Problem([[0.9, 0.1], [0.6, 0.4]], [1, 1]), prices=bad)


def test_the_least_of_smoothed_prices_is_zero():
    rng = np.random.default_rng(0)
    probs, rows = rng.dirichlet(np.ones(3), 60), np.full(60, 1 / 60)
    for mass in ([0.2, 0.3, 0.5], [0.6, 0.4, 0.0]):
        found = smoothed(probs, np.array(mass), rows, np.zeros(3))
        assert found.prices[np.array(mass) > 0].min() == 0.0


def test_whole_halves_of_float16_are_taken_and_what_is_no_share_is_not():
    half = np.array([[0.5, 0.5], [1.0, 0.0]], dtype=np.float16)
    assert solve(Problem(half, [1, 1])).value == pytest.approx(0.25)
    for bad in (-0.5, 1.5, np.nan):
        with pytest.raises(InputError, match=r"probs\[1, 0\]"):
            Problem(np.array([[0.5, 0.5], [bad, 0.0]], dtype=np.float16), [1, 1])
    assert Problem(np.array([[1, 0], [0, 1]]), [1, 1]).probs.dtype == np.float64
    with pytest.raises(InputError, match="holds complex"):
        Problem(np.array([[1j, 0]]), [1, 1])


def test_a_sample_holds_no_more_numbers_than_it_should():
    n, k = 10 * KEPT, 3
    step = sample_step(n, k)
    assert step == int(np.ceil(n * k / SAMPLE))
    assert sample_step(KEPT // 4, 4) == 1
