"""The parts of the label budget by hand: variances written out, the best allotment by trying all, files gone wrong."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

import shiftgauge as sg
from shiftgauge.inference import budget, with_labels
from shiftgauge.inference.label_plans import Plan, assign_strata, row_numbers
from shiftgauge.inference.labelled import difference_estimate
from shiftgauge.inference.strata import LEAST, LEAST_PROBABILITY, Strata, plain_labels, student

from .conftest import scores


@pytest.fixture(scope="module")
def planned():
    z, y = scores(np.random.default_rng(2), 1400)
    source, target = sg.Source(logits=z[:600], labels=y[:600]), sg.Target(logits=z[600:])
    return source, target, y[600:], budget(source, target, margin=0.05)


@pytest.fixture
def strata():
    return Strata(
        np.array([9, 14, 8]), np.array([0.1, 0.5, 0.3]), np.array([1.0, 0.7, 1.6]), np.array([1.2, 0.6, 3.0])
    )


def expected_variance(strata, taken):
    """(N_h / N)^2 (1/n - 1/N_h) times the expected variance of n values and two pseudo-rows, one right, one wrong."""
    total = 0.0
    for N, e, size, square, n in zip(
        strata.counts, strata.error, strata.size, strata.square, taken, strict=True
    ):
        s2 = square * e * (1 - e)
        pseudo = size**2 * (0.5 + 2 * n / (n + 2) * (0.5 - e) ** 2)
        padded = s2 * n / (n + 2) + pseudo / (n + 1)
        total += (N / strata.counts.sum()) ** 2 * (1 / n - 1 / N) * padded
    return total


def test_half_widths_are_students_times_the_root_of_the_variance(strata):
    taken = np.array([5, 9, 8])  # the last to its last row
    df = (5 - 1) + (9 - 1)
    assert student(0.9, taken, strata.counts) == pytest.approx(stats.t.ppf(0.95, df))
    width = stats.t.ppf(0.95, df) * np.sqrt(expected_variance(strata, taken))
    assert strata.half_width(taken, 0.9) == pytest.approx(width)
    assert strata.half_width(strata.counts, 0.9) == 0.0


def test_no_other_allotment_leaves_less(strata):
    """Against every allotment of as many labels, at least five in each stratum."""
    choices = [range(LEAST, n + 1) for n in strata.counts]
    for labels in (16, 20, 26):
        bought = strata.buying(labels)
        assert bought.sum() == labels
        best = min(expected_variance(strata, t) for t in product(*choices) if sum(t) == labels)
        assert expected_variance(strata, bought) == pytest.approx(best, rel=1e-9)


def test_no_fewer_labels_reach_the_margin(strata):
    for margin in (0.05, 0.12, 0.2):
        taken = strata.reaching(margin, 0.9)
        assert strata.half_width(taken, 0.9) <= margin
        if taken.sum() > strata.least.sum():
            assert strata.half_width(strata.buying(int(taken.sum()) - 1), 0.9) > margin
    np.testing.assert_array_equal(strata.reaching(0.9, 0.9), strata.least)


def test_strata_hold_the_moments_of_their_rows():
    rng = np.random.default_rng(0)
    stratum, doubt, mass = rng.integers(3, size=40), rng.random(40), rng.random(40)
    mass[stratum == 2] = 0.0
    mass /= mass.sum()
    found, w = Strata.of(stratum, doubt, mass), 40 * mass
    for h in range(2):
        mine = stratum == h
        assert found.error[h] == pytest.approx(np.average(doubt[mine], weights=w[mine] ** 2))
        assert found.size[h] == pytest.approx(w[mine].mean())
        assert found.square[h] == pytest.approx((w[mine] ** 2).mean())
    assert found.error[2] == LEAST_PROBABILITY  # nothing is known of rows without mass
    np.testing.assert_array_equal(found.least, [min(LEAST, n) for n in found.counts[:2]] + [0])
    assert found.buying(int(found.counts[:2].sum()))[2] == 0


@pytest.mark.parametrize("error", [0.05, 0.3])
def test_plain_sampling_asks_for_the_rule_of_three_and_for_students_interval(error):
    n, margin, level = 500, 0.06, 0.95
    mass = np.full(n, 1 / n)
    found = plain_labels(error, margin, level, mass)

    def width(m):
        pseudo = (0.5 + 2 * m / (m + 2) * (0.5 - error) ** 2) / (m + 1)
        padded = error * (1 - error) * m / (m + 2) + pseudo
        return stats.t.ppf(0.975, m - 1) * np.sqrt((1 / m - 1 / n) * padded)

    enough = next(m for m in range(LEAST, n + 1) if width(m) <= margin)
    three = next(m for m in range(n) if (1 - m / n) ** (n * margin) <= 1 - level + 1e-12)
    assert found == max(enough, three)
    assert plain_labels(error, 0.0, level, mass) == n
    half = np.r_[np.zeros(100), np.full(400, 1 / 400)]
    assert plain_labels(error, 1e-6, level, half) == 400  # rows without mass are left alone


def test_rows_are_cut_into_strata_of_equal_weight():
    """The sum of n mass sqrt(doubt) is about the same in each; few rows make one stratum."""
    rng = np.random.default_rng(1)
    doubt, mass = rng.random(2000), rng.random(2000) + 0.1
    mass /= mass.sum()
    found = assign_strata(doubt, mass)
    weight = 2000 * mass * np.sqrt(np.clip(doubt, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY))
    sums = np.bincount(found, weight)
    assert len(sums) == 5
    assert sums.max() < 1.05 * sums.min()
    assert set(assign_strata(doubt[:49], np.full(49, 1 / 49)).tolist()) == {0}
    assert len(set(assign_strata(doubt[:50], np.full(50, 1 / 50)).tolist())) == 5


def test_the_difference_estimator_by_hand():
    """Two strata of three and two rows, unequal masses, doubts relied on by 0.8."""
    stratum, mass = np.array([0, 0, 0, 1, 1]), np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    doubt = np.array([0.1, 0.2, 0.4, 0.6, 0.8])
    rows, wrong, lam = np.array([0, 2, 3, 4]), np.array([0.0, 1.0, 1.0, 0.0]), np.full(4, 0.8)
    plan = Plan(rows, stratum, np.ones(4), doubt, mass, 0.1, 0.9, 0.3, 4)
    value, variance = difference_estimate(plan, rows, wrong, lam, np.array([2, 2]), np.array([3, 2]))
    w, total, spread = 5 * mass, 0.0, 0.0
    for h, mine in ((0, [0, 2]), (1, [3, 4])):
        e = dict(zip(rows.tolist(), wrong.tolist(), strict=True))
        N = int((stratum == h).sum())
        rest = [w[i] * (e[i] - 0.8 * doubt[i]) for i in mine]
        total += N / 5 * (0.8 * np.mean((w * doubt)[stratum == h]) + np.mean(rest))
        size, middle = np.mean(w[mine]), 0.8 * np.mean(doubt[mine])
        padded = [*rest, -size * middle, size * (1 - middle)]
        spread += (N / 5) ** 2 * (1 - 2 / N) * np.var(padded, ddof=1) / 2
    assert value == pytest.approx(total)
    assert variance == pytest.approx(spread)


def test_labels_that_come_back_are_told_as_they_are(planned):
    _, target, y, plan = planned
    labels = {int(row): int(y[row]) for row in plan.rows}
    found = with_labels(plan, target, labels)
    assert found.warnings == ()
    assert found.interval.kind == "design"
    assert found.observed_errors == sum(target.predictions[row] != label for row, label in labels.items())
    some = dict(list(labels.items())[:-3])
    part = with_labels(plan, target, some, level=0.8)
    assert part.warnings[0].startswith(f"3 of {len(labels)} picks were never labelled")
    assert part.interval.level == 0.8
    assert with_labels(plan, target, labels, weight="fitted").interval.kind == "design, asymptotic"
    # Doubts relied on far too much: the unbiased estimate leaves [0, 1], which is said and not mended.
    wild = with_labels(plan, target, labels, weight=-4000.0)
    assert not 0.0 <= wild.error <= 1.0
    assert any("lies outside [0, 1]" in text for text in wild.warnings)
    assert 0.0 <= wild.interval.low <= wild.interval.high <= 1.0


def test_what_is_no_plan_or_no_weight_is_refused(planned):
    _, target, y, plan = planned
    labels = {int(row): int(y[row]) for row in plan.rows}
    for bad in ((object(), target), (plan, object())):
        with pytest.raises(sg.InputError, match="wanted the plan"):
            with_labels(*bad, labels)
    for weight in ("fit", None, np.nan, "1"):
        with pytest.raises(sg.InputError, match="wanted a number"):
            with_labels(plan, target, labels, weight=weight)
    one = {row: label for row, label in labels.items() if plan.stratum[row] != 0}
    first = [row for row in labels if plan.stratum[row] == 0]
    with pytest.raises(sg.InputError, match="stratum 0 has 1 labels"):
        with_labels(plan, target, one | {first[0]: labels[first[0]]})
    with_labels(plan, target, one | {row: labels[row] for row in first[:2]})  # two will do


def test_picks_are_sorted_and_read_back_whatever_their_order(planned):
    source, target, _, plan = planned
    assert (np.diff(plan.rows) > 0).all()
    table = plan.table()
    order = np.random.default_rng(0).permutation(len(plan.rows))
    again = Plan.from_table({name: values[order] for name, values in table.items()}, source, target)
    np.testing.assert_array_equal(again.rows, plan.rows)
    np.testing.assert_allclose(again.inclusion, plan.inclusion)
    np.testing.assert_array_equal(again.allocation, plan.allocation)
    assert plan.allocation.sum() == len(plan.rows)
    share = plan.allocation / np.bincount(plan.stratum)
    np.testing.assert_allclose(plan.inclusion, share[plan.stratum[plan.rows]])


@pytest.mark.parametrize(
    ("column", "change", "line"),
    [
        ("stratum", np.nan, "row {row} has no stratum"),
        ("stratum", 9.0, "the stratum of row {row}"),
        ("inclusion_probability", np.nan, "the inclusion_probability of row {row}"),
        ("inclusion_probability", np.inf, "the inclusion_probability of row {row}"),
        ("inclusion_probability", -np.inf, "the inclusion_probability of row {row}"),
        ("error_probability", 2.0, "the error_probability of row {row}"),
    ],
)
def test_a_changed_cell_is_named_by_its_row(planned, column, change, line):
    source, target, _, plan = planned
    table = {name: np.array(values, dtype=float) for name, values in plan.table().items()}
    table[column][3] = change
    with pytest.raises(sg.InputError, match=line.format(row=plan.rows[3])):
        Plan.from_table(table, source, target)


def test_a_lost_stratum_and_no_rows_are_refused(planned):
    source, target, _, plan = planned
    table = plan.table()
    kept = table["stratum"] != 2
    with pytest.raises(sg.InputError, match="no row of stratum 2 is left"):
        Plan.from_table({name: values[kept] for name, values in table.items()}, source, target)
    last = table["stratum"] != 4
    with pytest.raises(sg.InputError, match="no row of stratum 4 is left"):
        Plan.from_table({name: values[last] for name, values in table.items()}, source, target)
    with pytest.raises(sg.InputError, match="no rows"):
        Plan.from_table({name: values[:0] for name, values in table.items()}, source, target)


def test_just_so_many_labels(planned):
    source, target, _, _ = planned
    plan = budget(source, target, count=100)
    assert len(plan.rows) == plan.allocation.sum() == 100


@pytest.mark.parametrize("bad", [-1, 2**62, 1.5, "x"])
def test_row_numbers_are_whole_and_not_negative(bad):
    with pytest.raises(sg.InputError):
        row_numbers([0, bad], "picks")
    assert row_numbers([2**40, 0], "picks").tolist() == [2**40, 0]
