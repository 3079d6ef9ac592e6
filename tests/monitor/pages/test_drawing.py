"""What is drawn, against other ways to the same numbers: ticks, points, runs, ranges, words."""

import numpy as np
import pytest

from shiftgauge.monitor.db.windows import SegmentView, WindowView
from shiftgauge.monitor.pages import model_page as one_model
from shiftgauge.monitor.pages import model_page as ranges
from shiftgauge.monitor.pages import scale as spark
from shiftgauge.monitor.pages.chart import HEIGHT, MOST_POINTS, TOP, chart, runs, to_points
from shiftgauge.monitor.pages.format import window_title
from shiftgauge.monitor.pages.scale import PercentScale, TimeScale, percent_scale
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


@pytest.mark.parametrize("spec", ["hour", "day", "week"])
@pytest.mark.parametrize("count", [1, 2, 24, 60, 168, 500, 3000])
def test_ticks_are_round_apart_and_inside(spec, count):
    held = [window(i, spec) for i in (0, count - 1)]
    times = TimeScale(held[0].start, held[1].end)
    ticks = times.ticks()
    assert len(ticks) <= 17
    assert [t.at for t in ticks] == sorted({t.at for t in ticks})
    assert all(0 <= tick.at <= 100 for tick in ticks)
    if times.end - times.start >= DAY:
        assert ticks
    for tick in ticks:
        seconds = (times.start + tick.at / 100 * (times.end - times.start)) / SECOND
        # Places are kept to a thousandth of a percent: that is the precision of the way back.
        slack = (times.end - times.start) / SECOND * 1e-5 + 1
        assert min(seconds % 3600, 3600 - seconds % 3600) <= slack


@pytest.mark.parametrize("most", [0.001, 0.013, 0.05, 0.12, 0.2, 0.21, 0.5, 0.77, 1.0])
def test_shares_begin_at_nothing_and_hold_everything(most):
    scale = percent_scale([most], TOP, HEIGHT)
    assert most <= scale.most <= max(2.1 * most, 0.021)
    ticks = scale.ticks()
    assert (ticks[0].text, ticks[0].at) == ("0%", TOP + HEIGHT)
    assert ticks[-1].at == pytest.approx(TOP)
    assert 3 <= len(ticks) <= 7
    assert [float(t.text[:-1]) for t in ticks] == pytest.approx(
        [100 * scale.most * i / (len(ticks) - 1) for i in range(len(ticks))]
    )


def test_one_window_one_point_until_there_are_too_many():
    held = [window(i) for i in range(MOST_POINTS)]
    drawn = to_points(held)
    assert [p.windows for p in drawn] == [(w,) for w in held]
    assert [p.error for p in drawn] == pytest.approx([w.error for w in held])


@pytest.mark.parametrize("count", [MOST_POINTS + 1, 1234, 5000])
def test_many_windows_are_put_together_without_losing_one(count):
    """Means by rows and outermost ends, against numpy on the same windows."""
    held = [window(i, "hour") for i in range(count)]
    drawn = to_points(held)
    assert len(drawn) <= MOST_POINTS
    assert [w for p in drawn for w in p.windows] == held
    for p in drawn:
        errors, rows = [w.error for w in p.windows], [w.rows for w in p.windows]
        assert p.error == pytest.approx(np.average(errors, weights=rows))
        assert (p.low, p.high) == (min(w.low for w in p.windows), max(w.high for w in p.windows))
        assert p.rows == sum(rows)
        known = [w.observed for w in p.windows if w.observed is not None]
        assert p.observed == (pytest.approx(np.mean(known)) if known else None)
        assert p.status == ("stop" if any(w.status == "stop" for w in p.windows) else p.status)


def test_versions_side_by_side_share_a_place():
    held = sorted([window(i, version=v) for i in range(5) for v in ("v1", "v2")], key=lambda w: w.start)
    drawn = chart(to_points(held), AlertLimits(), None, [], "m")
    assert len(drawn.hotspots) == 5
    assert len(drawn.lines) == 2
    assert [dict(group)["version"] for group in drawn.hotspots[0].groups] == ["v1", "v2"]


def test_a_line_never_crosses_windows_that_are_missing():
    held = [window(i) for i in (0, 1, 2, 5, 6, 9)]
    held[1] = held[1].model_copy(update={"error": None, "state": "waiting", "reason": "no source yet"})
    parts = runs(to_points(held))
    assert [[p.windows[0].name for p in run] for run in parts] == [
        [held[0].name],
        [held[2].name],
        [held[3].name, held[4].name],
        [held[5].name],
    ]


def test_what_stands_in_the_picture_stands_at_its_number():
    """The path of the estimate, read back into percent, is the estimate."""
    held = [window(i) for i in range(30)]
    drawn = chart(to_points(held), AlertLimits(error=0.2, rise=0.02), 0.08, [], "m")
    top, bottom = drawn.y_ticks[-1], drawn.y_ticks[0]
    most = float(top.text[:-1]) / 100

    def share(y):
        return most * (bottom.at - y) / (bottom.at - top.at)

    spots = [tuple(map(float, spot.split())) for spot in drawn.lines[0].path[1:].split("L")]
    # Paths are kept to a tenth of a pixel.
    slack = most / HEIGHT
    assert [share(y) for _, y in spots[1:-1]] == pytest.approx([w.error for w in held], abs=slack)
    assert [share(m.y) for m in drawn.marks] == pytest.approx(
        [w.observed for w in held if w.observed], abs=slack
    )
    assert {level.text: round(share(level.y), 3) for level in drawn.levels} == {
        "source 8.0%": 0.08,
        "limit on the rise 10.0%": 0.1,
        "limit 20.0%": 0.2,
    }
    assert chart(to_points(held), AlertLimits(error=0.9), None, [], "m").outside == ("limit 90.0%",)


@pytest.mark.parametrize(("rise", "below"), [(0.08, True), (0.5, False), (0.02, False)])
def test_no_line_strikes_the_name_of_another_through(rise, below):
    """Two limits close together: the lower one's name stands below its line."""
    held = [window(i).model_copy(update={"high": 0.6}) for i in range(10)]
    drawn = chart(to_points(held), AlertLimits(error=0.16, rise=rise), 0.088, [], "m")
    (level,) = [one for one in drawn.levels if one.text == "limit 16.0%"]
    assert level.below == below


def test_a_single_window_and_one_without_an_estimate_can_be_drawn():
    for held in ([window(0)], [window(0, error=None, low=None, high=None, state="open")]):
        drawn = chart(to_points(held), AlertLimits(), None, [], "m")
        assert len(drawn.hotspots) == 1
        assert drawn.hotspots[0].groups[0]


def test_segments_of_versions_side_by_side_are_one_line():
    """Each place in time counts once, and the largest value stands first."""

    def parts(i, version):
        values = {"small": 10, "large": 90}
        return tuple(
            SegmentView(segment="camera", value=v, rows=n, error=0.1 + i / 100, low=0.0, high=0.3)
            for v, n in values.items()
        )

    held = [window(i, version=v, segments=parts(i, v)) for i in range(4) for v in ("v1", "v2")]
    ((name, newest, drawn),) = one_model._segments(held)
    assert (name, newest) == ("camera", held[-1].name)
    assert [part.value for part in drawn] == ["large", "small"]
    assert drawn[0].spark.line.count("L") == 3
    assert drawn[0].newest.error == pytest.approx(0.13)


def test_a_sparkline_ends_at_the_newest_number():
    held = [window(i) for i in range(80)]
    drawn = spark.of_windows(held)
    assert drawn.line.count("L") == spark.SPARK_WINDOWS - 1
    assert drawn.words.endswith(f"now {100 * held[-1].error:.1f}%")
    assert spark.of_windows([]) is None


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


def test_shares_are_cut_to_the_panel():
    assert PercentScale(0.5, 10, 100).at(0.9) == 10
