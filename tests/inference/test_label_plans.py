"""The label budget: unbiased whatever the shift, intervals that hold, every stratum sampled."""

from __future__ import annotations

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.errors import InputError
from shiftgauge.inference import Plan, budget, with_labels
from shiftgauge.inference.label_plans import assign_strata
from shiftgauge.inference.labelled import as_mapping
from shiftgauge.inference.strata import plain_labels, student


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(3000, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    crooked = z[1000:] + np.array([2.0, 0.0, 0.0])  # the model is wrong here in a way that no score shows
    source = sg.Source(logits=z[:1000], labels=y[:1000])
    return source, sg.Target(logits=crooked), y[1000:]


def answers(source, target, truth, seeds, **options):
    out = []
    pair = sg.Pair(source, target)
    for seed in seeds:
        plan = budget(pair, count=120, seed=seed)
        got = with_labels(plan, target, {int(i): int(truth[i]) for i in plan.rows}, **options)
        out.append((got.error, got.interval.low, got.interval.high))
    return np.array(out)


@pytest.mark.slow
def test_unbiased_and_covering_under_a_shift_the_scores_do_not_show(data):
    source, target, truth = data
    error = np.mean(target.predictions != truth)
    found = answers(source, target, truth, range(150))
    standard_error = found[:, 0].std() / np.sqrt(len(found))
    assert abs(found[:, 0].mean() - error) < 3.5 * standard_error
    assert np.mean((found[:, 1] <= error) & (error <= found[:, 2])) >= 0.91


@pytest.mark.slow
def test_any_fixed_weight_is_unbiased_and_a_wrong_formula_would_not_be(data):
    source, target, truth = data
    error = np.mean(target.predictions != truth)
    for weight in (0.0, 0.5):
        found = answers(source, target, truth, range(60), weight=weight)
        assert abs(found[:, 0].mean() - error) < 3.5 * found[:, 0].std() / np.sqrt(60)


@pytest.mark.slow
def test_forgetting_the_inclusion_probabilities_would_be_seen():
    rng = np.random.default_rng(4)
    z = 6 * rng.normal(size=(4000, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    source, target, truth = sg.Source(logits=z[:1000], labels=y[:1000]), sg.Target(logits=z[1000:]), y[1000:]
    error = np.mean(target.predictions != truth)
    plans = [budget(source, target, count=200, seed=seed) for seed in range(40)]
    naive = np.mean([np.mean(target.predictions[p.rows] != truth[p.rows]) for p in plans])
    ours = answers(source, target, truth, range(40))[:, 0]
    assert naive - error > 5 * 0.35 / np.sqrt(200 * 40)
    assert abs(ours.mean() - error) < 3.5 * ours.std() / np.sqrt(40)


def test_with_no_errors_seen_the_interval_is_still_open(data):
    source, target, _ = data
    plan = budget(source, target, count=100)
    got = with_labels(plan, target, {int(i): int(target.predictions[i]) for i in plan.rows}, weight=0.0)
    assert got.observed_errors == 0
    assert got.error == 0.0
    assert got.interval.high >= 3.0 / 100  # rule of three


def test_zero_error_truth_is_covered():
    rng = np.random.default_rng(1)
    z = 2 * rng.normal(size=(1500, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    source, target = sg.Source(logits=z[:500], labels=y[:500]), sg.Target(logits=z[500:])
    truth = target.predictions.copy()
    rare = rng.random(1000) < 0.01
    truth[rare] = (truth[rare] + 1) % 3
    error = np.mean(rare)
    found = answers(source, target, truth, range(80), weight=0.0)
    assert np.mean((found[:, 1] <= error) & (error <= found[:, 2])) >= 0.92


@pytest.mark.slow
def test_every_stratum_is_sampled_at_the_written_probability(data):
    source, target, _ = data
    plan = budget(source, target, margin=0.05)
    counts, picked = np.bincount(plan.stratum), np.bincount(plan.stratum[plan.rows])
    assert (picked >= 5).all()
    np.testing.assert_allclose(plan.inclusion, (picked / counts)[plan.stratum[plan.rows]])
    hits = np.zeros(target.n)
    for seed in range(200):
        hits[budget(source, target, margin=0.05, seed=seed).rows] += 1
    expected = (picked / counts)[plan.stratum]
    assert np.abs(hits / 200 - expected).max() < 6 * np.sqrt(0.25 / 200)


def test_the_margin_is_reached_when_scot_is_right():
    rng = np.random.default_rng(2)
    z = 2 * rng.normal(size=(9000, 4))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    source, target = sg.Source(logits=z[:3000], labels=y[:3000]), sg.Target(logits=z[3000:])
    plan = budget(source, target, margin=0.03)
    got = with_labels(plan, target, {int(i): int(y[3000 + i]) for i in plan.rows})
    assert (got.interval.high - got.interval.low) / 2 < 0.036
    assert len(plan.rows) < plan.plain
    assert got.saved > 0


def test_missing_and_strange_labels(data):
    source, target, truth = data
    plan = budget(source, target, count=100)
    some = {int(i): int(truth[i]) for i in plan.rows}
    dropped = int(plan.rows[0])
    del some[dropped]
    got = with_labels(plan, target, some)
    assert got.missing == (dropped,)
    assert any("never labelled" in w for w in got.warnings)
    other = next(i for i in range(target.n) if i not in set(plan.rows.tolist()))
    with pytest.raises(InputError, match="not picked"):
        with_labels(plan, target, {**some, other: 0})
    with pytest.raises(InputError, match=r"did you mean 0\.02"):
        budget(source, target, margin=2)


def bought(plan, truth):
    return {int(i): int(truth[i]) for i in plan.rows}


@pytest.mark.parametrize("count", [25, 500, 1700, 1999, 2000])
def test_just_so_many_labels_are_planned(data, count):
    source, target, truth = data
    plan = budget(source, target, count=count)
    assert len(plan.rows) == len(set(plan.rows.tolist())) == plan.allocation.sum() == count
    if count == target.n:
        assert plan.margin == 0.0
        assert "+-0% at" in repr(plan)
        got = with_labels(plan, target, bought(plan, truth))
        assert got.error == pytest.approx(np.mean(target.predictions != truth))
        assert got.interval.low == got.interval.high
        assert got.saved == 0


@pytest.mark.parametrize("margin", [0.03, 0.01, 0.007, 0.003, 0.0004])
def test_the_margin_asked_is_reached_and_not_overshot(data, margin):
    source, target, _ = data
    plan = budget(source, target, margin=margin)
    assert plan.margin <= margin
    assert budget(source, target, count=len(plan.rows)).margin == plan.margin
    assert budget(source, target, count=len(plan.rows) - 1).margin > margin
    # the textbook's margin, with a normal quantile and no pseudo-rows, is smaller still
    counts = np.bincount(plan.stratum)
    e = np.bincount(plan.stratum, plan.error_probability) / counts
    variance = (counts / target.n) ** 2 * e * (1 - e) * (1 / plan.allocation - 1 / counts)
    assert 1.96 * np.sqrt(variance.sum()) <= margin
    shown = float(repr(plan).split("+-")[1].split("%")[0]) / 100
    assert plan.margin <= shown + 1e-9


@pytest.mark.parametrize("kind", ["lognormal", "some rows have none"])
def test_weights_are_counted_in_strata_margin_and_estimate(kind):
    rng = np.random.default_rng(5)
    z = 2 * rng.normal(size=(2500, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    weights = rng.lognormal(0, 1.5, 1500) if kind == "lognormal" else (rng.random(1500) < 0.3) * 1.0
    source, target = sg.Source(logits=z[:1000], labels=y[:1000]), sg.Target(logits=z[1000:], weights=weights)
    truth = y[1000:]
    error = target.share(target.predictions != truth)
    pair = sg.Pair(source, target)
    assert (weights[budget(pair, margin=0.04).rows] > 0).all()
    found = np.array(
        [
            (got.error, got.interval.low, got.interval.high)
            for plan in (budget(pair, margin=0.04, seed=seed) for seed in range(120))
            for got in [with_labels(plan, target, bought(plan, truth))]
        ]
    )
    assert abs(found[:, 0].mean() - error) < 3.5 * found[:, 0].std() / np.sqrt(120)
    assert np.mean((found[:, 1] <= error) & (error <= found[:, 2])) >= 0.88  # 0.95 less 3.5 standard errors
    # Ignoring the weights, the lognormal ones gave +-9.2% here. 15%: these 1,500 rows are one draw of labels.
    assert np.mean(found[:, 2] - found[:, 1]) / 2 < 1.15 * 0.04
    assert 1.96 * found[:, 0].std() < 1.15 * 0.04


def test_all_labels_of_a_weighted_target_give_its_error():
    rng = np.random.default_rng(6)
    z = rng.normal(size=(200, 3))
    y = rng.integers(3, size=200)
    target = sg.Target(logits=z, weights=rng.lognormal(0, 2, 200))
    plan = budget(sg.Source(logits=z, labels=y), target, count=200)
    got = with_labels(plan, target, bought(plan, y))
    assert got.error == pytest.approx(target.share(target.predictions != y), rel=1e-9)
    assert got.interval.high - got.interval.low == pytest.approx(0.0, abs=1e-12)


def test_plain_sampling_needs_what_the_closed_forms_say():
    many = np.full(1_000_000, 1e-6)
    assert plain_labels(0.25, 0.01, 0.95, many) == pytest.approx(1.96**2 * 0.25 * 0.75 / 0.01**2, rel=0.01)
    assert plain_labels(0.01, 0.004, 0.95, many) == pytest.approx(1.96**2 * 0.01 * 0.99 / 0.004**2, rel=0.1)
    assert plain_labels(0.0, 0.03, 0.95, many) == 100  # the rule of three
    assert plain_labels(0.0, 0.0, 0.95, many) == len(many)
    uneven = np.repeat([1.9, 0.1], 500_000) / 1e6
    kish = 1e6 * (uneven @ uneven)
    assert plain_labels(0.25, 0.02, 0.95, uneven) == pytest.approx(
        kish * plain_labels(0.25, 0.02, 0.95, many), rel=0.01
    )


def test_one_stratum_without_doubts_saves_nothing_against_itself():
    """With an error far below 5%, labels were once said to be saved that no plan had saved."""
    rng = np.random.default_rng(7)
    mass = np.full(4000, 1 / 4000)
    truth = (rng.random(4000) < 0.01).astype(int)
    target = sg.Target(probs=np.tile([0.9, 0.1], (4000, 1)))
    rows = np.sort(rng.choice(4000, 800, replace=False))
    whole = np.zeros(4000, dtype=np.intp)
    plan = Plan(rows, whole, np.full(800, 0.2), np.full(4000, 0.1), mass, 0.01, 0.95, 0.1, 0)
    got = with_labels(plan, target, bought(plan, truth), weight=0.0)
    assert 0 < got.observed_errors < 20
    assert abs(got.saved) <= 2


def test_more_labels_than_plain_sampling_are_called_that(data):
    source, target, _ = data
    plan = budget(source, target, count=100)
    got = with_labels(plan, target, {int(i): int(target.predictions[i]) for i in plan.rows}, weight=0.0)
    assert got.saved < 0
    assert f"{-got.saved} more labels than plain sampling would have needed" in repr(got)
    assert got.to_dict()["labels_saved"] == got.saved


def test_what_the_interval_is_for_is_said(data):
    source, target, truth = data
    plan = budget(source, target, count=150)
    fixed = with_labels(plan, target, bought(plan, truth), level=0.8)
    assert "at 80.0%" in repr(fixed)
    assert "just these target rows" in repr(fixed)
    assert "asymptotic" not in repr(fixed)
    assert "asymptotic" in repr(with_labels(plan, target, bought(plan, truth), weight="fitted"))


@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_target_labelled_to_the_last_row_has_no_doubt_left(data, n):
    source, target, truth = data
    few = sg.Target(logits=target.scores[:n])
    plan = budget(source, few)
    assert (len(plan.rows), plan.margin) == (n, 0.0)
    got = with_labels(plan, few, bought(plan, truth))
    error = np.mean(few.predictions != truth[:n])
    assert (got.error, got.interval.low, got.interval.high) == (pytest.approx(error),) * 3


def test_a_heavy_row_is_a_stratum_of_its_own():
    rng = np.random.default_rng(8)
    z = rng.normal(size=(300, 3))
    y = rng.integers(3, size=300)
    target = sg.Target(logits=z, weights=np.append(np.ones(299), 400.0))
    plan = budget(sg.Source(logits=z, labels=y), target, count=60)
    assert 299 in plan.rows
    assert np.bincount(plan.stratum).min() == 1
    assert with_labels(plan, target, bought(plan, y)).labels == 60


def test_the_picks_say_all_that_the_labels_need(data):
    source, target, truth = data
    plan = budget(source, target, margin=0.045, seed=3)
    back = np.random.default_rng(0).permutation(len(plan.rows))
    table = {name: np.asarray(values)[back] for name, values in plan.table().items()}
    again = Plan.from_table(table, source, target)
    assert again.to_dict() == plan.to_dict()
    labels = bought(plan, truth)
    assert with_labels(again, target, labels) == with_labels(plan, target, labels)
    wider = with_labels(Plan.from_table(table, source, target, level=0.99), target, labels)
    assert wider == with_labels(plan, target, labels, level=0.99)


def test_picks_that_were_struck_out_still_count_as_picked(data):
    source, target, truth = data
    plan = budget(source, target, count=150)
    table = {name: np.asarray(values)[10:] for name, values in plan.table().items()}
    labels = {int(i): int(truth[i]) for i in table["row"]}
    got = with_labels(Plan.from_table(table, source, target), target, labels)
    whole = with_labels(plan, target, labels)
    assert (got.error, got.interval, got.warnings) == (whole.error, whole.interval, whole.warnings)
    assert (got.labels, got.picks) == (140, 150)
    assert "10 of 150 picks were never labelled" in got.warnings[0]


def test_picks_of_another_plan_are_refused(data):
    source, target, _ = data
    table = budget(source, target, count=150).table()
    differ = "target, calibration or marginal differ"
    for other, options in (
        (target, {"marginal": "bbse"}),
        (target, {"calibration": "none"}),
        (sg.Target(logits=target.scores[::-1].copy()), {}),
        (sg.Target(logits=target.scores[:-1]), {}),
        (sg.Target(logits=target.scores[:900]), {}),
    ):
        with pytest.raises(InputError, match=differ):
            Plan.from_table(table, source, other, **options)
    for name, wrong in (("stratum", 9), ("inclusion_probability", 0.9), ("error_probability", 0.999)):
        values = np.array(table[name])
        values[4] = wrong
        with pytest.raises(InputError, match=rf"the {name} of row \d+ .*{differ}"):
            Plan.from_table({**table, name: values}, source, target)
    plan = budget(source, target, count=150)
    extra = next(
        i for i in np.flatnonzero(plan.stratum == 0) if i not in plan.rows
    )  # labelled beyond the plan
    like = int(np.argmax(table["stratum"] == 0))
    more = {name: np.append(values, values[like]) for name, values in table.items()}
    more["row"][-1], more["error_probability"][-1] = extra, plan.error_probability[extra]
    with pytest.raises(InputError, match="the inclusion_probability of row"):
        Plan.from_table(more, source, target)
    with pytest.raises(InputError, match="no column 'stratum'"):
        Plan.from_table({"row": table["row"]}, source, target)
    with pytest.raises(InputError, match="no row of stratum"):
        Plan.from_table({k: v[table["stratum"] < 4] for k, v in table.items()}, source, target)


def test_the_plan_in_json_lists_its_picks(data):
    source, target, _ = data
    plan = budget(source, target, count=100)
    said = plan.to_dict()
    assert said["rows"] == plan.rows.tolist()
    assert said["stratum"] == plan.stratum[plan.rows].tolist()
    assert said["inclusion_probability"] == plan.inclusion.tolist()
    assert sum(1 / p for p in said["inclusion_probability"]) == pytest.approx(target.n)


def test_a_label_that_is_no_class_is_named_by_its_row(data):
    source, target, truth = data
    plan = budget(source, target, count=100)
    row = int(plan.rows[7])
    for wrong, words in ((9, "is 9, outside"), ("cat", "arrived as names such as 'cat'"), (0.5, "is 0.5")):
        with pytest.raises(InputError, match=f"row {row} {words}"):
            with_labels(plan, target, {**bought(plan, truth), row: wrong})
    got = with_labels(plan, target, {**bought(plan, truth), row: None})
    assert got.missing == (row,)


def test_rows_that_come_back_twice_or_in_halves():
    assert as_mapping([3, 5.0, 8], [1, None, float("nan")]) == {3: 1}
    for rows, words in (([3, 5, 3], "row 3 stands there twice"), ([3, 5.5, 6], r"5\.5"), ([3, -1, 6], "-1")):
        with pytest.raises(InputError, match=words):
            as_mapping(rows, [1, 1, 1])


def test_rounding_errors_do_not_move_rows_between_strata():
    rng = np.random.default_rng(9)
    doubt = rng.choice(rng.beta(0.5, 2, 40), 2000)  # many rows alike
    mass = np.full(2000, 1 / 2000)
    noisy = np.clip(doubt + 1e-14 * rng.normal(size=2000), 0, 1)
    np.testing.assert_array_equal(assign_strata(doubt, mass), assign_strata(noisy, mass))


def test_strata_that_are_all_labelled_tell_nothing_of_the_noise_elsewhere():
    counts = np.array([100, 50, 900])
    assert student(0.95, np.array([100, 50, 5]), counts) == pytest.approx(2.776, abs=1e-3)  # 4 degrees
    assert student(0.95, np.array([0, 50, 5]), counts) == pytest.approx(2.776, abs=1e-3)


def test_row_numbers_begin_at_zero():
    from shiftgauge.inference.label_plans import row_numbers

    assert row_numbers(["0", 2.0, 7], "picks").tolist() == [0, 2, 7]
    with pytest.raises(sg.InputError, match="'row' is -1"):
        row_numbers([-1], "picks")
