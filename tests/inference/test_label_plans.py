"""Label plans: chances by simulation, the confidence sequence against an exact oracle, stopping times, bad input."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.inference.label_plans import confidence_sequence, expected_labels, spread_rows
from shiftgauge.methods.range import ErrorDistribution
from shiftgauge.rows import Rows

NAMES = ("ant", "bee", "cat")


def drawn(seed, n, k=3, scale=2.0):
    rng = np.random.default_rng(seed)
    z = scale * rng.normal(size=(n, k))
    return z, (z + rng.gumbel(size=z.shape)).argmax(1)


@pytest.fixture(scope="module")
def data():
    """A source and a target with class names and ids, the target's labels, and both without names."""
    z, y = drawn(0, 500)
    z_t, y_t = drawn(1, 603)
    names = np.array(NAMES)
    ids = np.array([f"r{i}" for i in range(603)])
    source = sg.Source(logits=z, labels=names[y], classes=NAMES)
    return (
        source,
        sg.Target(logits=z_t, classes=NAMES, ids=ids),
        names[y_t],
        sg.Target(logits=z_t, classes=NAMES),
    )


# -- which rows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "count"), [(10, 5), (11, 4), (7, 7), (9, 1), (13, 8)])
def test_every_row_has_the_same_chance(n, count):
    """Also where the rows cannot be cut into equal parts."""
    probability = np.repeat(np.random.default_rng(1).random(n), 1)
    rng = np.random.default_rng(0)
    hits, times = np.zeros(n), 4000
    for _ in range(times):
        rows = spread_rows(probability, count, rng)
        assert len(set(rows.tolist())) == count
        hits[rows] += 1
    share = count / n
    assert np.abs(hits / times - share).max() <= 4.5 * np.sqrt(share * (1 - share) / times)


def test_one_row_of_each_part_of_the_error_probabilities(data):
    source, target, _, _ = data
    f = 1.0 - sg.Pair(source, target).target_block.confidence
    plan = sg.label_plan(source, target, n=67)  # 603 = 9 * 67
    part = np.argsort(np.argsort(f))[plan.rows] // 9
    assert sorted(part) == list(range(67))
    assert list(part) != sorted(part)  # in random order: whoever stops early has a random sample
    assert plan.design == "spread"


def test_the_default_is_twenty_rows_or_all_there_are(data):
    source, target, _, _ = data
    assert len(sg.label_plan(source, target).rows) == 20
    few = sg.label_plan(source, target.take(np.arange(7)))
    assert sorted(few.rows) == list(range(7))
    assert few.expected_range.low == few.expected_range.high  # all rows labelled: no doubt is left
    one = sg.label_plan(source, target.take(np.arange(1)))
    assert one.rows.tolist() == [0]


def test_the_seed_decides(data):
    source, target = data[0], data[1].take(np.arange(60))
    for aim in ({}, {"decide": 0.3}):
        first, again, other = (sg.label_plan(source, target, seed=seed, **aim) for seed in (0, 0, 1))
        assert first.to_dict() == again.to_dict()
        assert first.rows.tolist() != other.rows.tolist()


def test_a_plan_is_the_same_whatever_the_order_of_columns_and_in_passes(data):
    source, target, _, _ = data
    order = [2, 0, 1]
    turned = sg.Target(logits=target.scores[:, order], classes=[NAMES[j] for j in order], ids=target.ids)
    passes = Rows.of(target).in_passes()
    plan = sg.label_plan(source, target)
    for other in (sg.label_plan(source, turned), sg.label_plan(source, passes)):
        assert other.rows.tolist() == plan.rows.tolist()
        assert other.ids.tolist() == plan.ids.tolist() == [f"r{row}" for row in plan.rows]
        assert other.predictions.tolist() == plan.predictions.tolist()
        assert other.error_probability == pytest.approx(plan.error_probability)


def test_the_table_is_what_those_who_label_need(data):
    source, target, _, nameless = data
    plan = sg.label_plan(source, target, n=5)
    table = plan.table()
    assert list(table) == ["id", "row", "prediction", "error_probability"]
    assert table["prediction"].tolist() == [NAMES[j] for j in target.predictions[plan.rows]]
    assert "id" not in sg.label_plan(source, nameless, n=5).table()
    assert "<table>" in plan._repr_html_()
    assert "label 5 rows: the range should shrink from" in repr(plan)


def test_the_expected_range_is_that_of_labels_which_agree(data):
    source, target, _, _ = data
    plans = [sg.label_plan(source, target, n=n) for n in (5, 20, 100, 300)]
    widths = [plan.expected_range.high - plan.expected_range.low for plan in plans]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] < plans[0].range.high - plans[0].range.low
    assert plans[0].range == sg.estimate(source, target).range


# -- labels that come back ----------------------------------------------------------------------------------


def test_labels_of_a_plan(data):
    source, target, truth, nameless = data
    plan = sg.label_plan(source, target, n=40)
    by_id = {f"r{row}": truth[row] for row in plan.rows}
    found = sg.estimate(source, target, labels=by_id, labels_chosen=plan)
    assert found.labels.n == 40
    assert found.to_dict() == sg.estimate(source, target, labels=by_id).to_dict()
    by_row = {int(row): truth[row] for row in plan.rows}
    plain = sg.label_plan(source, nameless, n=40)
    assert plain.rows.tolist() == plan.rows.tolist()
    assert sg.estimate(source, nameless, labels=by_row, labels_chosen=plain).error == found.error
    column = [truth[row] if row in plan.rows else None for row in range(target.n)]
    assert sg.estimate(source, nameless, labels=column, labels_chosen=plain).error == found.error
    pair = sg.Pair(source, target, labels=by_id, labels_chosen=plan)
    assert sg.estimate(pair).error == found.error
    passes = Rows.of(target).in_passes()
    assert sg.estimate(source, passes, labels=by_id, labels_chosen=plan).error == pytest.approx(found.error)


def test_a_plan_of_another_target_is_refused(data):
    source, target, truth, nameless = data
    plan = sg.label_plan(source, nameless, n=30)
    labels = {int(row): truth[row] for row in plan.rows}
    fewer = nameless.take(np.arange(600))
    with pytest.raises(sg.InputError, match="the plan is for 603 target rows, and 600 arrived"):
        sg.estimate(source, fewer, labels={0: "ant"}, labels_chosen=plan)
    turned = sg.Target(logits=nameless.scores[::-1], classes=NAMES)
    with pytest.raises(sg.InputError, match="the plan's rows have other scores"):
        sg.estimate(source, turned, labels=labels, labels_chosen=plan)
    other_ids = sg.Target(logits=target.scores, classes=NAMES, ids=target.ids[::-1])
    named = sg.label_plan(source, target, n=30)
    with pytest.raises(sg.InputError, match="other scores or ids"):
        sg.estimate(source, other_ids, labels={named.ids[0]: "ant"}, labels_chosen=named)
    unplanned = next(row for row in range(603) if row not in plan.rows)
    with pytest.raises(sg.InputError, match=f"row {unplanned} was not planned"):
        sg.estimate(source, nameless, labels={**labels, unplanned: "ant"}, labels_chosen=plan)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"until_width": 0.1, "decide": 0.2}, "until_width and decide both arrived; wanted one aim"),
        ({"n": 0}, "n 0: wanted 1"),
        ({"n": 604}, "n 604: wanted 603 or fewer"),
        ({"n": 2.5}, r"n 2\.5"),
        ({"until_width": 10}, r"until_width 10: .* did you mean 0\.1"),
        ({"decide": "high"}, "decide 'high'"),
        ({"level": 90}, "level is 90"),
        ({"seed": -1}, "seed -1"),
        ({"proportions": "equal"}, "proportions 'equal'"),
    ],
)
def test_bad_plans_get_one_line(data, options, line):
    with pytest.raises(sg.InputError, match=line) as caught:
        sg.label_plan(*data[:2], **options)
    assert "\n" not in str(caught.value)


# -- when to stop -------------------------------------------------------------------------------------------


def oracle(wrong, n, mass, level):
    """The numbers of errors among n rows that are left, by counting arrangements."""
    left = set(range(n + 1))
    for t in range(1, len(wrong) + 1):
        k = int(wrong[:t].sum())
        # Of C(n, D) arrangements of D errors, C(n - t, D - k) begin with these t draws.
        likelihood = [comb(n - t, d - k) / comb(n, d) if 0 <= d - k <= n - t else 0.0 for d in range(n + 1)]
        mean = float(np.dot(mass, likelihood))
        left &= {
            d for d in range(n + 1) if likelihood[d] > 0.0 and mean / likelihood[d] < 1.0 / (1.0 - level)
        }
    return min(left, default=None), max(left, default=None)


@pytest.mark.parametrize("seed", range(8))
def test_the_confidence_sequence_is_exact(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 60))
    wrong = (rng.random(n) < rng.random()).astype(float)
    prior = ErrorDistribution(float(rng.random()), 0.05, 0.1)
    edges = np.clip((np.arange(n + 2) - 0.5) / n, 0.0, 1.0)
    mass = np.diff(prior.cdf(edges))
    mass = 0.9 * mass / mass.sum() + 0.1 / (n + 1)
    for t in (0, 1, n // 2, n - 1, n):
        low, high = oracle(wrong[:t], n, mass, 0.8)
        found = confidence_sequence(wrong[:t], n, prior, 0.8)
        if low is not None:
            assert found == pytest.approx((low / n, high / n))
        assert 0.0 <= found[0] <= found[1] <= 1.0
    everything = confidence_sequence(wrong, n, prior, 0.999)
    assert everything == pytest.approx((wrong.mean(), wrong.mean()))


@pytest.mark.parametrize("around", [(0.2, 0.03, 0.03), (0.7, 0.01, 0.01), (0.0, 0.001, 0.001)])
def test_it_holds_at_all_times_together_whatever_the_prior(around):
    """120 orders of 100 rows of which 20 are errors: the truth is outside at some time in at most 20%, as promised."""
    prior, truth = ErrorDistribution(*around), np.repeat([1.0, 0.0], [20, 80])
    rng = np.random.default_rng(0)
    times, held = 120, 0
    for _ in range(times):
        # The interval only shrinks: if it holds at the last look before the end, it held at all before.
        low, high = confidence_sequence(rng.permutation(truth)[:99], 100, prior, 0.8)
        held += low <= 0.2 <= high
    assert held / times >= 0.8 - 2.5 * np.sqrt(0.8 * 0.2 / times)


def test_the_interval_only_shrinks():
    wrong = (np.random.default_rng(2).random(300) < 0.3).astype(float)
    prior = ErrorDistribution(0.25, 0.05, 0.05)
    ends = np.array([confidence_sequence(wrong[:t], 300, prior, 0.9) for t in range(0, 301, 10)])
    assert (np.diff(ends[:, 0]) >= -1e-12).all()
    assert (np.diff(ends[:, 1]) <= 1e-12).all()


@pytest.mark.parametrize("around", [(0.21, 0.02, 0.02), (0.9, 0.01, 0.01)])
def test_many_rows_are_looked_at_on_a_grid(around):
    """1,203 rows: the interval holds the exact one and is hardly wider; it is never empty, and exact in the end."""
    prior, n = ErrorDistribution(*around), 1203
    wrong = np.random.default_rng(3).permutation(np.repeat([1.0, 0.0], [241, n - 241]))
    looks = (1, 50, 400, n - 13, n - 1)
    for t in looks:
        low, high = confidence_sequence(wrong[:t], n, prior, 0.9, most=301)
        exact = confidence_sequence(wrong[:t], n, prior, 0.9, most=n + 1)
        assert low <= exact[0] + 1e-12
        assert exact[1] - 1e-12 <= high
        assert (low, high) == pytest.approx(exact, abs=2.5 / 300)
    assert confidence_sequence(wrong, n, prior, 0.999, most=301) == pytest.approx((241 / n, 241 / n))


def stopping_time(truth, prior, level, until_width, decide, rng):
    wrong, n = rng.permutation(truth), len(truth)
    for t in range(1, n):
        low, high = confidence_sequence(wrong[:t], n, prior, level)
        if (until_width is not None and high - low <= until_width) or (
            decide is not None and (low > decide or high < decide)
        ):
            return t
    return n


@pytest.mark.parametrize("aim", [{"until_width": 0.3, "decide": None}, {"until_width": None, "decide": 0.35}])
def test_the_expected_number_of_labels_is_the_median_stopping_time(aim):
    prior, n = ErrorDistribution(0.15, 0.04, 0.06), 60
    rng = np.random.default_rng(4)
    times = []
    for _ in range(40):
        errors = round(n * prior.quantile(float(rng.random())))
        times.append(stopping_time(np.repeat([1.0, 0.0], [errors, n - errors]), prior, 0.9, rng=rng, **aim))
    found = expected_labels(prior, n, 0.9, aim["until_width"], aim["decide"], np.random.default_rng(0))
    low, high = np.quantile(times, [0.33, 0.67])  # looks are a few labels apart, and both are simulated
    assert 0.85 * low - 2 <= found <= 1.15 * high + 2


@pytest.mark.parametrize("n", [1, 2, 3, 40, 2500])
def test_aims_of_samples_of_any_size(n):
    z, y = drawn(5, 200)
    z_t, _ = drawn(6, n)
    source, target = sg.Source(logits=z, labels=y), sg.Target(logits=z_t)
    for aim in ({"until_width": 0.2}, {"decide": 0.3}):
        plan = sg.label_plan(source, target, **aim)
        assert 1 <= plan.expected_labels <= n
        assert sorted(plan.rows) == list(range(n))


def test_progress_until_the_aim(data):
    source, target, truth, _ = data
    plan = sg.label_plan(source, target, until_width=0.25)
    assert plan.design == "random"
    assert "until the range is 25 points wide: about" in plan.sentence()
    wrong = np.array([target.predictions[row] != NAMES.index(truth[row]) for row in plan.rows], dtype=float)
    for t in (0, 1, 30, 200, 603):
        labels = {plan.ids[i]: truth[plan.rows[i]] for i in range(t)}
        found = plan.progress(labels)
        low, high = confidence_sequence(wrong[:t], 603, plan.prior, 0.9)
        assert (found.labels, found.errors) == (t, int(wrong[:t].sum()))
        assert (found.range.low, found.range.high) == (low, high)
        assert found.done == (high - low <= 0.25)
        assert found.warnings == ()
        assert found.sentence().startswith("stop: " if found.done else "go on: ")
    assert found.range.low == found.range.high == pytest.approx(wrong.mean())
    assert found.to_dict()["done"] is True


@pytest.mark.parametrize(("decide", "decision"), [(0.03, "above"), (0.7, "below")])
def test_progress_decides(data, decide, decision):
    source, target, truth, _ = data
    plan = sg.label_plan(source, target, decide=decide)
    assert plan.progress({}).decision is None
    found = plan.progress({plan.ids[i]: truth[plan.rows[i]] for i in range(100)})
    assert (found.decision, found.done) == (decision, True)
    assert f"stop: the error is {decision} {100 * decide:.1f}%" in repr(found)
    assert plan.expected_labels <= 100


def test_progress_without_labels_says_so(data):
    """A gap before the first label is another matter, and has its own warning."""
    source, target, truth, _ = data
    plan = sg.label_plan(source, target, decide=0.2)
    assert repr(plan.progress({})) == "go on: 0 of 603 planned rows are labelled"
    assert plan.progress({}).to_dict()["planned"] == 603
    late = plan.progress({plan.ids[1]: truth[plan.rows[1]]})
    assert late.sentence().startswith("go on: 0 labels, 0 errors")
    assert len(late.warnings) == 1


def test_labels_after_a_gap_are_not_used(data):
    source, target, truth, _ = data
    plan = sg.label_plan(source, target, decide=0.2)
    in_order = {plan.ids[i]: truth[plan.rows[i]] for i in (0, 1, 2, 5, 6)}
    found = plan.progress(in_order)
    assert found.labels == 3
    (said,) = found.warnings
    assert f"2 labels come after row {str(plan.ids[3])!r}, which has none" in said
    missing = plan.progress({**in_order, plan.ids[3]: None})
    assert missing.labels == 3


def test_progress_refuses_what_it_cannot_use(data):
    source, target, _, _ = data
    plan = sg.label_plan(source, target, n=30, decide=0.2)
    assert len(plan.rows) == 30
    outside = next(i for i in target.ids.tolist() if i not in plan.ids)
    for labels, line in (
        ({outside: "ant"}, f"labels: '{outside}' is not a row of the plan"),
        ({plan.ids[0]: "dog"}, "'dog', which is not a class"),
        (["ant"] * 30, "progress: labels arrived as list; wanted a mapping"),
    ):
        with pytest.raises(sg.InputError, match=line):
            plan.progress(labels)
    with pytest.raises(sg.InputError, match="this plan has no aim at which to stop"):
        sg.label_plan(source, target).progress({})
