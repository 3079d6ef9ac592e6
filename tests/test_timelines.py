"""Estimates over time: each period is an estimate of its own rows, however the frame is made and sorted."""

import json
from importlib import resources

import jsonschema
import numpy as np
import pandas as pd
import polars as pl
import pytest

import shiftgauge as sg

NAMES = ["a", "b", "c"]
START = np.datetime64("2026-03-02T00:00")  # a Monday


def drawn(n, seed, sharpness=2.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    return rng.normal(size=(n, 3)) + sharpness * np.eye(3)[y], np.array(NAMES)[y]


@pytest.fixture(scope="module")
def source():
    logits, y = drawn(600, 0)
    return sg.Source(logits, y, classes=NAMES)


@pytest.fixture
def frame():
    """Two weeks of 140 rows, a week without, and a week of 140 harder rows; 12 rows a day and more."""
    (easy, y), (hard, z) = drawn(280, 1), drawn(140, 2, 0.7)
    weeks = np.repeat([0, 1, 3], 140)
    minutes = np.tile(np.arange(140) * 72, 3) + weeks * 7 * 24 * 60
    data = {f"logit_{name}": np.concatenate([easy, hard])[:, j] for j, name in enumerate(NAMES)}
    return pd.DataFrame(
        {**data, "date": START + minutes.astype("timedelta64[m]"), "y": np.concatenate([y, z])}
    )


def target_of(part):
    return sg.from_dataframe(part).target()


def test_each_period_is_the_estimate_of_its_rows(source, frame):
    found = sg.timeline(source, frame.sample(frac=1, random_state=0), time="date", every="week", truth="y")
    assert [(p.name, p.rows) for p in found.periods] == [
        ("2026-03-02", 140),
        ("2026-03-09", 140),
        ("2026-03-16", 0),
        ("2026-03-23", 140),
    ]
    for number, week in ((0, 0), (1, 1), (3, 2)):
        part = frame.iloc[140 * week : 140 * week + 140]
        alone = sg.estimate(source, target_of(part))
        period = found.periods[number]
        assert period.error == pytest.approx(alone.error, abs=1e-9)
        assert (period.low, period.high) == pytest.approx((alone.range.low, alone.range.high), abs=1e-9)
        scores = part[[f"logit_{name}" for name in NAMES]].to_numpy()
        assert period.observed == pytest.approx(np.mean(np.array(NAMES)[scores.argmax(1)] != part["y"]))
        assert (period.observed_rows, period.labels) == (140, 0)
    assert found.periods[2].estimate is None
    assert found.periods[2].note == "no rows"
    assert found.periods[3].error > 1.5 * found.periods[0].error
    assert found.source_error == source.error


def test_labels_are_evidence_and_truth_is_not(source, frame):
    frame["few"] = frame["y"].where(np.arange(420) % 7 == 0, None)
    found = sg.timeline(source, frame, time="date", labels="few")
    part = frame.iloc[280:].reset_index(drop=True)
    known = {row: label for row, label in enumerate(part["few"]) if label is not None}
    alone = sg.estimate(source, target_of(part), labels=known)
    period = found.periods[3]
    assert (period.error, period.labels) == (pytest.approx(alone.error, abs=1e-9), 20)
    assert period.observed is None  # 20 of 140 rows are too few to show
    scores_alone = sg.timeline(source, frame, time="date", truth="few").periods[3]
    assert scores_alone.error == pytest.approx(sg.estimate(source, target_of(part)).error, abs=1e-9)
    everything = sg.timeline(source, frame, time="date", labels="y").periods[3]
    assert everything.observed == pytest.approx(everything.error)
    unknown = sg.timeline(source, frame, time="date", labels="few", labels_chosen="unknown").periods[3]
    assert unknown.estimate.labels.chosen == "unknown"


def test_labels_by_id(source, frame):
    frame["id"] = [f"r{i}" for i in range(420)]
    picks = {f"r{i}": frame["y"][i] for i in range(280, 310)}
    found = sg.timeline(source, frame.iloc[::-1], time="date", labels=picks, ids="id")
    assert [p.labels for p in found.periods] == [0, 0, 0, 30]
    assert found.periods[3].observed_rows == 30


def test_frames_of_any_make_give_the_same(source, frame):
    table = pl.from_pandas(frame)
    texts = frame.assign(date=frame["date"].dt.strftime("%Y-%m-%dT%H:%M"))
    unix = frame.assign(date=frame["date"].astype("datetime64[s]").astype("int64"))
    given = sg.timeline(source, target_of(frame), time=frame["date"])
    want = sg.timeline(source, frame, time="date").to_pandas()
    for other in (table, texts, unix):
        pd.testing.assert_frame_equal(sg.timeline(source, other, time="date").to_pandas(), want)
    pd.testing.assert_frame_equal(given.to_pandas(), want)


def test_a_zone_moves_the_border_of_a_day(source, frame):
    frame["date"] = (START + np.arange(420) * np.timedelta64(10, "m")).astype("datetime64[us]")
    frame["date"] = frame["date"].dt.tz_localize("UTC")
    rows = [p.rows for p in sg.timeline(source, frame, time="date", every="day").periods]
    assert rows == [144, 144, 132]
    east = sg.timeline(source, frame, time="date", every="day", zone="Asia/Tokyo")  # 9 hours ahead
    assert [(p.name, p.rows) for p in east.periods][:2] == [("2026-03-02", 90), ("2026-03-03", 144)]
    with pytest.raises(sg.InputError, match="have no time zone"):
        sg.timeline(
            source, frame.assign(date=frame["date"].dt.tz_localize(None)), time="date", zone="Asia/Tokyo"
        )


def test_months_and_rows(source, frame):
    months = sg.timeline(source, frame, time="date", every="month")
    assert [(p.name, p.end, p.rows) for p in months.periods] == [("2026-03", "2026-04", 420)]
    by_rows = sg.timeline(source, frame.iloc[::-1], time="date", every=200)
    assert [(p.name, p.rows) for p in by_rows.periods] == [
        ("rows 0-199", 200),
        ("rows 200-399", 200),
        ("rows 400-419", 20),
    ]
    assert by_rows.periods[0].start.startswith("2026-03-02")
    assert by_rows.periods[2].note == "few rows"
    assert by_rows.every == "200 rows"
    in_order = sg.timeline(source, frame, every="200 rows")
    assert [p.error for p in in_order.periods] == pytest.approx([p.error for p in by_rows.periods], abs=1e-9)
    assert in_order.periods[0].start is None


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (
            lambda f: f.assign(date=f["date"].where(f.index != 5)),
            {},
            "time: 1 row has no time, the first is row 5",
        ),
        (lambda f: f, {"time": "day"}, "no column 'day'"),
        (lambda f: f, {"time": None}, "no times arrived for periods of 'week'"),
        (lambda f: f, {"every": "fortnight"}, "'fortnight' is not a length of time"),
        (lambda f: f, {"every": 0}, "every"),
        (lambda f: f.assign(date="soon"), {}, "row 0 is 'soon'; wanted a number or an ISO date"),
        (
            lambda f: f.assign(date=f["date"].where(f.index != 0, np.datetime64("1970-01-01"))),
            {"every": "hour"},
            "wanted at most 10,000",
        ),
        (lambda f: f, {"every": "90 rows", "zone": "UTC"}, "leave it out"),
        (lambda f: f, {"truth": ["a"]}, "truth: arrived with shape"),
        (lambda f: f.assign(y="z"), {"truth": "y"}, "'z'"),
    ],
)
def test_bad_input_gets_one_line(source, frame, change, options, said):
    with pytest.raises(sg.ShiftgaugeError, match=said) as caught:
        sg.timeline(source, change(frame), **{"time": "date", **options})
    assert "\n" not in str(caught.value)


def test_it_prints_in_80_columns_and_fits_the_schema(source, frame):
    found = sg.timeline(source, frame, time="date", labels="y")
    lines = repr(found).splitlines()
    assert lines[0] == f"4 periods (week), 420 rows; source error {100 * source.error:.1f}%"
    assert max(map(len, lines)) <= 80
    schema = json.loads(resources.files("shiftgauge").joinpath("data/schema.json").read_text())
    jsonschema.validate(json.loads(found.to_json()), schema)
    assert list(found.to_pandas().index) == [p.name for p in found.periods]
    assert "<table>" in found._repr_html_()


def test_the_figure_shows_what_there_is(source, frame):
    ax = sg.timeline(source, frame, time="date", truth="y").plot().axes[0]
    drawn_lines = {line.get_label(): line.get_ydata() for line in ax.lines}
    assert np.isnan(drawn_lines["estimated error"]).tolist() == [False, False, True, False]
    assert "observed error" in drawn_lines
    assert "observed error" not in {
        line.get_label() for line in sg.timeline(source, frame, time="date").plot().axes[0].lines
    }


def test_a_period_whose_rows_all_weigh_nothing_has_no_estimate(source):
    logits, y = drawn(200, 4)
    target = sg.Target(logits, classes=NAMES, weights=np.repeat([1.0, 0.0], 100))
    found = sg.timeline(source, target, every=100, truth=y)
    first, last = found.periods
    assert (first.rows, last.rows, last.error, last.observed) == (100, 100, None, None)
    assert (first.note, last.note) == ("", "all rows weigh 0")
    assert first.observed is not None
    schema = json.loads(resources.files("shiftgauge").joinpath("data/schema.json").read_text())
    jsonschema.validate(json.loads(found.to_json()), schema)


def test_a_score_is_printed(source, frame):
    found = sg.timeline(source, frame, time="date", method="entropy")
    lines = [line for line in repr(found).splitlines() if line.startswith("  2026")]
    for period, line in zip(found.periods, lines, strict=True):
        if period.estimate is not None:
            assert f"  score {period.estimate.score:.4g}" in line


@pytest.mark.parametrize(
    ("parts", "names"), [((1,), "rows 140-279"), ((0, 1, 2), "rows 0-139, rows 140-279 and 1 more")]
)
def test_periods_with_warnings_of_their_own_are_named(source, frame, parts, names):
    """Where every row has the same scores, the range is wide."""
    frame = pd.concat([frame.iloc[:280], frame.iloc[:280]])
    for part in parts:
        frame.iloc[140 * part : 140 * part + 140, :3] = 0.0
    found = sg.timeline(source, frame, every="140 rows")
    said = f"{len(parts)} of 4 periods have warnings of their own, which the JSON has: {names}"
    assert found.warnings == (said,)
    own = [at for at, period in enumerate(found.to_dict()["periods"]) if period["estimate"]["warnings"]]
    assert tuple(own) == parts
