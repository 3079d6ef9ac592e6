"""What is drawn, against other ways to the same numbers: points, lines, ranges, words."""

from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from shiftgauge.monitor.db.windows import MetricView, SegmentView, WindowView
from shiftgauge.monitor.pages import model_page as one_model
from shiftgauge.monitor.pages import model_page as ranges
from shiftgauge.monitor.pages import scale as spark
from shiftgauge.monitor.pages.chart import (
    MOST_POINTS,
    address_of,
    chart_data,
    metric_names,
    state_of,
    to_points,
)
from shiftgauge.monitor.pages.format import window_title
from shiftgauge.monitor.pages.scale import percent_scale
from shiftgauge.monitor.periods import DAY, HOUR, SECOND, WEEK, iso, period_at
from shiftgauge.monitor.problems import ApiProblem
from shiftgauge.monitor.settings import AlertLimits

LENGTH = {"hour": HOUR, "day": DAY, "week": WEEK}
BEGIN = 20_003 * DAY  # Monday, 7 October 2024


def window(i, spec="day", version="v1", **more):
    """The i-th window of a model, with numbers that differ from window to window."""
    at = period_at(spec, BEGIN + i * LENGTH[spec])
    error = 0.1 + 0.05 * np.sin(i)
    values = {
        "name": f"{at.name}.{version}",
        "model": "m",
        "version": version,
        "spec": spec,
        "start": at.start,
        "end": at.end,
        "rows": 100 + i % 7,
        "state": "estimated",
        "revision": 1,
        "newest": 1,
        "error": error,
        "low": error - 0.02,
        "high": error + 0.03,
        "level": 0.9,
        "adaptive_low": error - 0.05,
        "adaptive_high": error + 0.05,
        "shift": ("none", "label", "other")[i % 3],
        "status": ("ok", "caution", "stop")[i % 3],
        "observed": error + 0.01 if i % 2 else None,
        "observed_low": error if i % 2 else None,
        "observed_high": error + 0.02 if i % 2 else None,
        "labels": 50 if i % 2 else 0,
        "warnings": (),
        "segments": (),
        "details": {},
    }
    return WindowView(**{**values, **more})


@pytest.mark.parametrize("most", [0.001, 0.013, 0.05, 0.12, 0.2, 0.21, 0.5, 0.77, 1.0])
def test_a_scale_ends_at_the_next_round_percentage(most):
    top, step = percent_scale([most])
    assert most <= top <= max(2.1 * most, 0.021)
    assert 2 <= top / step <= 6.001
    assert top / step == pytest.approx(round(top / step))
    assert 1000 * step == pytest.approx(round(1000 * step))


def test_one_window_one_point_until_there_are_too_many():
    held = [window(i) for i in range(MOST_POINTS)]
    drawn = to_points(held)
    assert [p.windows for p in drawn] == [(w,) for w in held]
    assert [p.value for p in drawn] == pytest.approx([w.error for w in held])


@pytest.mark.parametrize("count", [MOST_POINTS + 1, 1234, 5000])
def test_many_windows_are_put_together_without_losing_one(count):
    """Means by rows and outermost ends, against numpy on the same windows."""
    held = [window(i, "hour") for i in range(count)]
    drawn = to_points(held)
    assert len(drawn) <= MOST_POINTS
    assert [w for p in drawn for w in p.windows] == held
    for p in drawn:
        errors, rows = [w.error for w in p.windows], [w.rows for w in p.windows]
        assert p.value == pytest.approx(np.average(errors, weights=rows))
        assert (p.low, p.high) == (min(w.low for w in p.windows), max(w.high for w in p.windows))
        assert p.rows == sum(rows)
        known = [w.observed for w in p.windows if w.observed is not None]
        assert p.observed == (pytest.approx(np.mean(known)) if known else None)
        assert p.status == ("stop" if any(w.status == "stop" for w in p.windows) else p.status)


def drawn_of(held, metric="error", **limits):
    return chart_data(to_points(held, metric), metric, AlertLimits(**limits), [])


def test_versions_side_by_side_share_a_place():
    held = sorted([window(i, version=v) for i in range(5) for v in ("v1", "v2")], key=lambda w: w.start)
    drawn = drawn_of(held)
    assert len(drawn["slots"]) == 5
    assert [version["name"] for version in drawn["versions"]] == ["v2", "v1"]
    assert drawn["slots"][0]["rows"] == sum(w.rows for w in held[:2])


def test_a_line_never_crosses_windows_that_are_missing():
    """It is cut before a hole, and where a window has no number; another version's windows do not cut it."""
    held = [window(i) for i in (0, 1, 2, 5, 6, 9)]
    held[1] = held[1].model_copy(update={"error": None, "state": "waiting", "reason": "no source yet"})
    held.insert(3, window(2, version="v2"))
    drawn = drawn_of(sorted(held, key=lambda w: w.start))
    one = next(version for version in drawn["versions"] if version["name"] == "v1")
    assert [one["value"][i] is None for i in range(6)] == [False, True, False, False, False, False]
    assert one["breaks"] == [3, 5]
    (two,) = [version for version in drawn["versions"] if version["name"] == "v2"]
    assert [value is not False for value in two["value"]] == [False, False, True, False, False, False]
    assert two["breaks"] == []


def test_what_is_drawn_are_the_numbers_of_the_windows():
    held = [window(i, source_error=0.08) for i in range(30)]
    drawn = drawn_of(held, error=0.2, rise=0.02)
    (version,) = drawn["versions"]
    assert version["value"] == [w.error for w in held]
    for name in ("low", "high", "adaptive_low", "adaptive_high", "observed", "observed_low", "observed_high"):
        assert version[name] == [getattr(w, name) for w in held]
    assert [slot["start"] * SECOND for slot in drawn["slots"]] == [w.start for w in held]
    assert {one["text"]: round(one["value"], 3) for one in drawn["levels"]} == {
        "source": 0.08,
        "rise limit": 0.1,
        "limit": 0.2,
    }


def test_another_metric_is_drawn_with_its_own_limit_and_source():
    about = {"metric": "recall", "class": "a b", "sampling": 0.02, "source": 0.9}
    held = [
        window(i, metrics=(MetricView(**about, value=0.8, low=0.7, high=0.9, observed=0.75, labels=i),))
        for i in range(3)
    ]
    held.append(window(3))
    drawn = drawn_of(held, "recall:a b", error=0.2, metrics={"recall:a b": 0.85})
    (version,) = drawn["versions"]
    assert version["value"] == [0.8, 0.8, 0.8, None]
    assert (version["low"][0], version["high"][0], version["observed"][0]) == (0.7, 0.9, 0.75)
    assert version["adaptive_low"] == [None] * 4
    assert [(one["text"], one["value"]) for one in drawn["levels"]] == [("source", 0.9), ("limit", 0.85)]
    assert state_of(to_points(held, "recall:a b")[3]) == "not estimated for this window"
    assert metric_names(held) == ["error", "recall:a b"]


def test_alerts_are_cut_to_what_is_shown():
    held = [window(i) for i in range(10)]
    start, end = held[0].start, held[-1].end
    spans = [(start - DAY, start + DAY), (start + DAY, None), (start - 9 * DAY, start - DAY), (end, None)]
    alerts = [SimpleNamespace(fired=fired, resolved=resolved) for fired, resolved in spans]
    drawn = chart_data(to_points(held), "error", AlertLimits(), alerts)
    assert [[at * SECOND for at in one] for one in drawn["alerts"]] == [
        [start, start + DAY],
        [start + DAY, end],
    ]


def test_a_link_to_windows_by_rows_holds_the_last_one_of_a_single_time():
    """It asks for windows that begin before `to`; the last one may begin and end at the same time."""
    held = [window(i, spec="day") for i in range(2 * MOST_POINTS)]
    last = held[-1].start
    held[-1] = held[-1].model_copy(update={"end": last})
    held = [w.model_copy(update={"spec": "100 rows"}) for w in held]
    query = dict(parse_qsl(urlsplit(address_of(to_points(held)[-1], "m")).query))
    assert ranges.read_range(query, None).until > last
    assert ranges.read_range({"to": drawn_of(held)["slots"][-1]["to"]}, None).until > last
    (only,) = to_points([held[-1], held[-1]])
    query = dict(parse_qsl(urlsplit(address_of(only, "m")).query))
    asked = ranges.read_range(query, None)
    assert asked.since <= last < asked.until


def test_a_single_window_can_be_drawn():
    assert len(drawn_of([window(0)])["slots"]) == 1


def test_a_window_without_an_estimate_says_why():
    ends = {"error": None, "low": None, "high": None}
    (one,) = to_points([window(0, state="waiting", reason="no source yet", **ends)])
    assert state_of(one) == "waiting: no source yet"


def test_segments_of_versions_side_by_side_are_one_line():
    """Each place in time counts once, and the largest value stands first."""

    def parts(i, version):
        values = {"small": 10, "large": 90}
        return tuple(
            SegmentView(segment="camera", value=v, rows=n, error=0.1 + i / 100, low=0.0, high=0.3)
            for v, n in values.items()
        )

    held = [window(i, version=v, segments=parts(i, v)) for i in range(4) for v in ("v1", "v2")]
    ((name, drawn),) = one_model._segments(held)
    assert name == "camera"
    assert [part.value for part in drawn] == ["large", "small"]
    assert drawn[0].spark.line.count("L") == 3
    assert drawn[0].newest.error == pytest.approx(0.13)


def test_a_sparkline_holds_the_whole_range_and_the_limit():
    held = [window(i, high=0.62) for i in range(5)]
    drawn = spark.sparkline([(w, w) for w in held], limit=0.3)
    heights = [float(pair.split()[1]) for pair in drawn.range_area.strip("MZ").split("L")]
    assert min(heights) >= spark.SPARK_MARGIN
    assert min(heights) < drawn.limit < drawn.last[1] < spark.SPARK_HEIGHT - spark.SPARK_MARGIN
    assert drawn.most == "80%"


def test_a_sparkline_ends_at_the_newest_number():
    held = [window(i) for i in range(80)]
    drawn = spark.sparkline([(w, w) for w in held])
    assert drawn.line.count("L") == spark.SPARK_WINDOWS - 1
    assert drawn.words.endswith(f"now {100 * held[-1].error:.1f}%")
    assert spark.sparkline([]) is None


def test_days_in_an_address_are_whole_days_in_utc():
    asked = ranges.read_range({"from": "2026-03-01", "to": "2026-03-31"}, None)
    assert (iso(asked.since), iso(asked.until)) == ("2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z")
    asked = ranges.read_range({"from": "2026-03-01T10:00:00 02:00", "to": "2026-03-01T12:00:00Z"}, None)
    assert (iso(asked.since), iso(asked.until)) == ("2026-03-01T08:00:00Z", "2026-03-01T12:00:00Z")


def test_presets_count_back_from_the_newest_window():
    newest = window(0)
    assert ranges.read_range({"range": "30d"}, newest).since == newest.end - 30 * DAY
    assert ranges.read_range({}, newest).name == "90d"
    assert ranges.read_range({}, window(0, "hour")).name == "7d"
    assert ranges.read_range({"range": "all"}, newest).since is None
    assert ranges.read_range({}, newest.model_copy(update={"spec": "500 rows"})).limit == ranges.NEWEST


@pytest.mark.parametrize(
    "text", ["1e9", "2026-02-30", "\x00", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00+23:59"]
)
def test_times_that_cannot_be_read_are_said(text):
    with pytest.raises(ApiProblem, match="wanted a day such as"):
        ranges.read_range({"to": text}, None)


def test_windows_say_when_they_were_and_in_which_zone():
    assert window_title(window(0)) == "Mon 7 Oct 2024 (UTC)"
    assert window_title(window(14, "hour")) == "7 Oct 2024, 14:00 to 15:00 UTC"
    assert window_title(window(0, "week")) == "week of 7 Oct 2024 to 13 Oct 2024 (UTC)"
    assert window_title(window(0, spec="day")) != window_title(
        window(0).model_copy(update={"spec": "1000 rows"})
    )
