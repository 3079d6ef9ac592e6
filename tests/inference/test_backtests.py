"""The backtest: made shifts are what they say, and the report is deterministic."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.errors import InputError
from shiftgauge.inference import backtest
from shiftgauge.inference.backtests import Trial, mean_miss, sureness_of
from shiftgauge.inference.columns import row_groups, row_times
from shiftgauge.inference.shifts import Shift, made_shifts

from .conftest import scores


@pytest.fixture(scope="module")
def source():
    z, y = scores(np.random.default_rng(0), 2000)
    return sg.Source(logits=z, labels=y)


def test_made_shifts_are_what_they_say(source):
    found = list(made_shifts(source, row_groups(np.arange(2000) % 2, 2000), seed=1))
    made = {(s.kind, s.strength): s for s in found if isinstance(s, Shift)}
    assert {kind for kind, _ in made} == {
        "none",
        "class proportions",
        "group",
        "sub-population",
        "lower confidence",
        "sharper scores",
        "noisier scores",
        "class confusion",
    }
    z = source.scores - source.scores.max(1, keepdims=True)
    sharp = made["sharper scores", "x 2.5"]
    np.testing.assert_allclose(sharp.logits, 2.5 * z[sharp.rows])
    low = made["lower confidence", "power 1.5"]
    p = np.exp(z)
    confidence = (p / p.sum(1, keepdims=True)).max(1)
    assert confidence[low.rows].mean() < confidence.mean() - 0.05
    assert (made["group", "group 1"].rows % 2 == 1).all()
    confused = np.bincount(made["class confusion", "share 0.8"].labels, minlength=4)
    assert np.sort(confused)[-2:].sum() / confused.sum() == pytest.approx(0.8, abs=0.01)
    for shift in made.values():
        assert np.array_equal(shift.labels, source.labels[shift.rows])


def test_truths_misses_and_recommendation(source):
    methods = ("ac", "scot", "label-shift")
    own = {"by": ["a", "b"] * 1000, "time": np.arange(2000)}
    found, again = (backtest(source, methods=methods, **own) for _ in range(2))
    assert found.to_json() == again.to_json()
    assert {t.kind for t in found.trials} >= {"time", "group", "new group", "class proportions"}
    table = {(row["kind"], row["method"]): row for row in found.table()}
    assert table["class proportions", "label-shift"]["mean_miss"] < 0.06
    assert table["class proportions", "scot"]["mean_miss"] > 0.08
    means = {m: np.mean([table[k, m]["mean_miss"] for k in ("group", "new group", "time")]) for m in methods}
    assert found.recommended == min(means, key=means.get)
    assert 0.0 < found.sureness <= 1.0
    assert [row["natural"] for row in found.table()] == [True] * 9 + [False] * (len(found.table()) - 9)


def test_made_shifts_recommend_nothing(source):
    found = backtest(source, methods=("ac", "scot"), repeats=1)
    assert (found.recommended, found.sureness) == (None, None)
    assert "no method is recommended" in repr(found)
    assert "--by" in found.recommendation
    assert "--time" in found.recommendation
    assert json.loads(found.to_json())["recommended"] is None
    assert not any(t.natural for t in found.trials)


def test_the_users_own_groups_decide_whatever_made_shifts_say():
    """One site leans towards class 0 and the model does not know: SCOT sees it there, and nowhere else."""
    z, y = plain(3000)
    site = np.random.default_rng(3).integers(3, size=3000)
    z[site == 2] += [3.0, 0.0, 0.0]
    found = backtest(sg.Source(logits=z, labels=y), methods=("ac", "scot"), by=site, repeats=1)
    natural, made = ([t for t in found.trials if t.natural is which] for which in (True, False))
    best, other = (min(("ac", "scot"), key=lambda name: mean_miss(part, name)) for part in (natural, made))
    assert best != other  # otherwise this test could not tell who decides
    assert found.recommended == best


def test_each_group_meets_the_others_as_if_it_were_new(source):
    site = np.repeat(["a", "b", "c"], [1000, 700, 300])
    found = backtest(source, methods="ac", by=site, repeats=1)
    new = {t.strength: t for t in found.trials if t.kind == "new group"}
    assert set(new) == {"group a", "group b", "group c"}
    for name, trial in new.items():
        mine = site == name[-1]
        known = sg.Source(logits=source.scores[~mine], labels=source.labels[~mine])
        target = sg.Target(logits=source.scores[mine])
        assert trial.truth == pytest.approx(np.mean(target.predictions != source.labels[mine]))
        assert trial.error == sg.estimate(known, target, "ac").error
        assert trial.split is None


def test_later_parts_meet_all_that_came_before(source):
    time = np.random.default_rng(0).permutation(2000)
    found = backtest(source, methods="ac", time=time, repeats=1)
    parts = {t.strength: t for t in found.trials if t.kind == "time"}
    assert list(parts) == ["later half", *(f"part {i} of 4, by those before it" for i in (2, 3, 4))]
    wrong = source.predictions != source.labels
    for i, trial in enumerate(list(parts.values())[1:], 1):
        asked = (time >= 500 * i) & (time < 500 * (i + 1))
        known = sg.Source(logits=source.scores[time < 500 * i], labels=source.labels[time < 500 * i])
        assert trial.truth == pytest.approx(wrong[asked].mean())
        assert trial.error == sg.estimate(known, sg.Target(logits=source.scores[asked]), "ac").error


def test_equal_times_are_not_torn_apart(source):
    found = backtest(source, methods="ac", time=np.repeat([2021, 2022], [1300, 700]), repeats=1)
    (half,) = [t for t in found.trials if t.strength == "later half"]
    assert half.truth == pytest.approx((source.predictions != source.labels)[1300:].mean())
    assert any(n.kind == "time" and "fewer than 60" in n.why for n in found.not_tried)


def test_of_very_many_groups_the_largest_are_tried():
    sizes = np.arange(60, 60 + 25)
    n = int(sizes.sum())
    found = backtest(small(n), methods="ac", by=np.repeat(np.arange(25), sizes), repeats=1)
    new = [t.strength for t in found.trials if t.kind == "new group"]
    assert sorted(new) == sorted(f"group {i}" for i in range(5, 25))
    assert any("5 smaller groups" in line for line in found.warnings)


def test_methods_are_fitted_once_for_all_made_targets(source, monkeypatch):
    class Counted(sg.methods.AC):
        name, fits = "counted", 0

        async def learn(self, source):
            Counted.fits += 1

    monkeypatch.setitem(sg.methods.METHODS, "counted", Counted)
    backtest(source, methods="counted", repeats=2)
    assert Counted.fits == 2


def test_intervals_are_checked_when_asked(source):
    found = backtest(source, methods=("ac",), repeats=1, replicates=30)
    none = next(row for row in found.table() if row["kind"] == "none")
    assert none["coverage"] is not None


def test_too_few_rows_and_scores_are_refused(source):
    with pytest.raises(InputError, match="at least 240"):
        backtest(sg.Source(logits=source.scores[:100], labels=source.labels[:100]))
    with pytest.raises(InputError, match="a score"):
        backtest(source, methods=("entropy",))


def plain(n, k=3, seed=0):
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(n, k))
    return z, (z + rng.gumbel(size=z.shape)).argmax(1)


def small(n, k=3):
    z, y = plain(n, k)
    return sg.Source(logits=z, labels=y)


def strengths(found):
    return {trial.strength for trial in found.trials if trial.kind in ("group", "new group")}


def test_what_was_not_tried_is_named():
    groups = ["large"] * 590 + ["small"] * 10
    found = backtest(small(600), methods=["ac"], by=groups, repeats=1)
    assert ("group", "group small") in {(n.kind, n.strength) for n in found.not_tried}
    assert any("not tried" in line and "group small" in line for line in found.warnings)
    assert "group large" in strengths(found)
    assert "group small" in repr(found)
    assert "group small" in {n["strength"] for n in json.loads(found.to_json())["not_tried"]}
    whole = backtest(small(2000), methods=["ac"], by=["a"] * 2000, repeats=1)
    assert [(n.kind, n.why) for n in whole.not_tried] == [
        ("new group", "there is no other group to learn from")
    ]
    assert not backtest(small(2000), methods=["ac"], repeats=1).not_tried


def test_every_kind_is_tried_or_said_not_to_be():
    found = backtest(small(300, 10), methods=["ac"])
    kinds = {"none", "class proportions", "sub-population", "lower confidence", "class confusion"}
    assert kinds <= {t.kind for t in found.trials} | {n.kind for n in found.not_tried}
    assert {"lower confidence", "class proportions"} <= {n.kind for n in found.not_tried}
    for n in found.not_tried:
        tried = {t.split for t in found.trials if (t.kind, t.strength) == (n.kind, n.strength)}
        assert len(tried) + n.splits == 2
    assert any("lower confidence" in line and "fewer than 60 rows" in line for line in found.warnings)


def test_two_classes_cannot_be_in_excess():
    found = backtest(small(800, 2), methods=["ac"], repeats=1)
    assert "class confusion" not in {t.kind for t in found.trials}
    assert any("class confusion" in line and "two classes" in line for line in found.warnings)
    z, _ = plain(800)
    perfect = backtest(sg.Source(logits=z, labels=z.argmax(1)), methods=["ac"], repeats=1)
    assert any("no class was taken for another" in n.why for n in perfect.not_tried)


def test_rows_that_weigh_nothing_are_no_target():
    z, y = plain(800)
    group = np.arange(800) % 2
    found = backtest(sg.Source(logits=z, labels=y, weights=group), methods=["ac"], by=group, repeats=1)
    assert ("group 0", "all rows weigh nothing") in {(n.strength, n.why) for n in found.not_tried}


def test_a_half_that_weighs_nothing_is_no_split():
    """One heavy row: whichever half it falls into, the other one has no mass to learn from or to ask about."""
    z, y = plain(400)
    found = backtest(sg.Source(logits=z, labels=y, weights=np.eye(1, 400)[0]), methods=["ac"], repeats=1)
    assert [(n.kind, n.why) for n in found.not_tried] == [("made shifts", "all rows weigh nothing")]
    assert not found.trials


def test_deployed_decisions_outlive_changed_scores():
    z, y = plain(1000)
    decided = np.where(z[:, 0] > z.max(1) - 1.0, 0, z.argmax(1))
    source = sg.Source(logits=z, labels=y, predictions=decided)
    made = [s for s in made_shifts(source, [], seed=0) if isinstance(s, Shift)]
    for shift in made:
        given, largest = decided[shift.rows], z[shift.rows].argmax(1)
        if shift.kind != "noisier scores":
            assert np.array_equal(shift.predictions, given)
            continue
        own = given != largest
        assert own.any()
        assert np.array_equal(shift.predictions[own], given[own])
        assert np.array_equal(shift.predictions[~own], shift.logits[~own].argmax(1))
    truth = {t.kind: t.truth for t in backtest(source, methods="ac", repeats=1).trials}
    assert truth["sharper scores"] == truth["none"]


def test_several_columns_of_groups():
    site, day = np.arange(1200) % 2, np.array(["mon", "tue", "wed"] * 400)
    source = small(1200)
    named = backtest(source, methods="ac", by={"site": site, "day": day}, repeats=1)
    expected = {"site=0", "site=1", "day=mon", "day=tue", "day=wed"}
    assert {s for s in strengths(named) if "=" in s} == expected
    listed = backtest(source, methods="ac", by=[site, day.tolist()], repeats=1)
    assert {s for s in strengths(listed) if "=" in s} == {
        s.replace("site", "column 0").replace("day", "column 1") for s in expected
    }
    with pytest.raises(InputError, match=r"groups day: arrived with shape \(3,\); wanted .* \(1200,\)"):
        backtest(source, by={"site": site, "day": day[:3]})
    with pytest.raises(InputError, match="groups: no columns"):
        backtest(source, by={})


@pytest.mark.parametrize(
    "values",
    [[1.0, np.nan], [None, "a"], ["", "a"], [float("nan"), None], np.array(["2022-01-01", "NaT"], "M8[D]")],
)
def test_rows_without_a_group_are_a_group(values):
    groups = np.array([values[i % 2] for i in range(1000)], dtype=getattr(values, "dtype", object))
    found = backtest(small(1000), methods="ac", by=groups, repeats=1)
    assert "group (missing)" in strengths(found)
    assert not any("fewer" in line for line in found.warnings)


DAYS = [datetime.date(2022, 1, 1) + datetime.timedelta(days=i) for i in range(1000)]
ZONE = datetime.timezone(datetime.timedelta(hours=5))
TIMES = {
    "integers": np.arange(1000),
    "objects": np.array(range(1000), dtype=object),
    "number text": [str(i) for i in range(1000)],
    "large": np.array([2**60 + i for i in range(1000)], dtype=object),
    "large text": [str(2**60 + i) for i in range(1000)],
    "floats": np.arange(1000) * 1e8,
    "dates": DAYS,
    "iso": [str(day) for day in DAYS],
    "datetime64": np.array(DAYS, dtype="datetime64[ns]"),
    "datetimes": [datetime.datetime(2022, 1, 1) + datetime.timedelta(minutes=i) for i in range(1000)],
    "zoned": [datetime.datetime(day.year, day.month, day.day, tzinfo=ZONE) for day in DAYS],
    "zones": [f"{day}T00:00:00+0{i % 5}:30" for i, day in enumerate(DAYS)],
    "utc": [f"{day} 12:00:00.123456789Z" for day in DAYS],
    "basic": [f"{day:%Y%m%d}T1200" for day in DAYS],
    "signs": [str(i) for i in range(-500, 500)],
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_times_sort_as_times(times):
    assert np.array_equal(row_times(times, 1000), np.arange(1000))


def test_zones_count():
    assert row_times(["2022-01-01T00:00-05:00", "2022-01-01T01:00+00", "2022-01-01T02:00Z"], 3).tolist() == [
        2,
        0,
        1,
    ]


def test_the_later_half_is_the_later_half():
    z, y = plain(1000)
    y[500:] = np.random.default_rng(1).integers(3, size=500)
    source = sg.Source(logits=z, labels=y)
    late = np.mean(z[500:].argmax(1) != y[500:])
    for times in (TIMES["objects"], TIMES["iso"], TIMES["number text"]):
        found = backtest(source, methods="ac", time=times, repeats=1)
        halves = [t.truth for t in found.trials if t.strength == "later half"]
        assert halves == [pytest.approx(late)]


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            ["01/31/2022"] * 240,
            "times: row 0 is '01/31/2022'; wanted a number or an ISO date; write dates as",
        ),
        (["2022-01-31"] * 239 + ["31 Jan 2022"], "times: row 239 is '31 Jan 2022'; wanted a number or"),
        (["2022-01-31"] * 239 + ["2022-13-31"], "times: row 239 is '2022-13-31'; wanted a number or"),
        (["2022-01-31-05"] * 240, "times: row 0 is '2022-01-31-05'; wanted a number or"),
        ([True, False] * 120, "times: row 0 is True; wanted a number or"),
        ([datetime.time(12)] * 240, "times: row 0 is '12:00:00'; wanted a number or"),
        ([1.0, 2.0, np.nan] * 80, "times: row 2 is missing; wanted a time in every row"),
        (["2022-01-31", ""] * 120, "times: row 1 is missing"),
        ([None, 3] * 120, "times: row 0 is missing"),
        (np.array(["2022-01-31", "NaT"] * 120, "M8[ns]"), "times: row 1 is missing"),
        ([5] * 240, "times: all 240 rows hold 5; wanted times that differ; try another column"),
        (
            ["2022-01-31", "7"] * 120,
            "row 1 is '7', a number, and row 0 is '2022-01-31', a date; wanted one sort",
        ),
        (["2022-01-31", "2022-01-31T00:00Z"] * 120, "row 1 is .* a date with a time zone, and row 0"),
    ],
)
def test_other_times_are_refused(values, line):
    with pytest.raises(InputError, match=line):
        backtest(small(240), time=values)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"methods": ["ac", "gde"]}, "gde needs a second model's predictions and cannot be backtested"),
        ({"methods": 5}, "methods arrived as 5; wanted names"),
        ({"methods": "acc"}, "did you mean 'ac'"),
        ({"repeats": "2"}, "repeats '2': wanted a whole number, 1 or more"),
        ({"repeats": 2.0}, "repeats 2.0: wanted a whole number"),
        ({"repeats": float("nan")}, "repeats nan: wanted a whole number"),
        ({"seed": None}, "seed None: wanted a whole number"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(wrong, line):
    with pytest.raises(InputError, match=line) as refused:
        backtest(small(240), **wrong)
    assert "--second" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_only_a_source_will_do():
    with pytest.raises(InputError, match=r"arrived ndarray; wanted shiftgauge\.Source"):
        backtest(np.zeros((300, 3)))


def test_one_method_is_no_contest():
    found = backtest(small(240), methods="ac", by=["a", "b"] * 120)
    assert found.sureness is None
    assert found.recommended == "ac"
    assert "recommended" not in repr(found)
    assert "best" not in repr(found)


def test_one_target_cannot_tell_how_sure():
    found = backtest(small(280), methods=("ac", "im"), by=["a"] * 280, repeats=1)
    assert found.sureness is None
    assert "one target cannot tell" in repr(found)
    assert json.loads(found.to_json())["sureness"] is None


def test_sureness_does_not_contradict_itself():
    """Methods that are as good as each other: seeds pick different ones, hardly any of them confidently."""
    sure = []
    for seed in range(8):
        z, y = plain(900, seed=seed)
        found = backtest(
            sg.Source(logits=z, labels=y), methods=("ac", "doc", "im"), by=np.arange(900) % 5, repeats=1
        )
        sure.append((found.recommended, found.sureness))
    assert len({name for name, _ in sure}) > 1
    assert sum(s > 0.95 for _, s in sure) <= 2


def test_sureness_of_a_clear_winner_and_of_none():
    rng = np.random.default_rng(0)

    def trials(misses):
        return [
            Trial(None, "new group", group, name, 0.2 + miss[i] + 0.001 * rng.normal(), 0.2, None)
            for i, group in enumerate("abcdef")
            for name, miss in misses.items()
        ]

    clear = trials({"good": [0.01] * 6, "bad": [0.1] * 6})
    assert sureness_of(clear, ["good", "bad"], "good", 0) > 0.98
    torn = trials({"good": [0.1, 0.01] * 3, "bad": [0.01, 0.1] * 3})
    assert 0.3 < sureness_of(torn, ["good", "bad"], "good", 0) < 0.7
    # One group alone decides against "bad": what another draw of six would say is open.
    uneven = trials({"good": [0.01] * 6, "bad": [0.4] + [0.01] * 5})
    assert 0.6 < sureness_of(uneven, ["good", "bad"], "good", 0) < 0.95
