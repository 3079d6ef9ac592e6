"""Numbers, times and states as people read them; all times in UTC."""

from __future__ import annotations

from urllib.parse import quote

from markupsafe import Markup

from shiftgauge.monitor.alerts.rules import metric_title
from shiftgauge.monitor.db.windows import WindowView
from shiftgauge.monitor.periods import DAY, HOUR, SECOND, day, from_us, iso, moment
from shiftgauge.monitor.settings import METRICS, split_metric
from shiftgauge.reports.page import percent
from shiftgauge.times import rows_per_window

#: A model's state: the class of its colour (as in the report), a mark, a word.
STATES = {
    "alert": ("stop", "✕", "alert"),
    "waiting": ("caution", "!", "waiting"),
    "empty": ("quiet", "○", "no rows yet"),
    "collecting": ("quiet", "○", "collecting"),
    "no-limits": ("quiet", "○", "no limits set"),
    "ok": ("ok", "✓", "estimate within limits"),
}
#: A window's state, likewise.
WINDOW_STATES = {
    "open": ("quiet", "○", "open"),
    "waiting": ("caution", "!", "waiting"),
    "failed": ("stop", "✕", "failed"),
    "estimated": ("ok", "✓", "estimated"),
}
VERDICTS = {"ok": "✓", "caution": "!", "stop": "✕"}
SHIFTS = {
    "none": "none found",
    "label": "class proportions",
    "other": "beyond class proportions",
    None: "not said",
}
KINDS = {
    "all rows": "every row is labelled",
    "sample": "as if the labelled rows were drawn at random",
    "requested": "from the rows that were asked for",
}
CAUSES = {
    "closed": "the window closed",
    "late rows": "rows came late",
    "labels": "labels came",
    "source": "the source changed",
}
RULES = {
    "rise": "rise over the source",
    "width": "wide range",
    "not-estimated": "not estimated",
}


def rule_title(rule: str) -> str:
    """What an alert is about.

    >>> rule_title("rise"), rule_title("recall:fraud"), rule_title("silence")
    ('rise over the source', 'recall of class fraud', 'silence')
    """
    return metric_title(rule) if split_metric(rule)[0] in METRICS else RULES.get(rule, rule)


def format_range(low: float | None, high: float | None) -> str:
    """Two ends of an interval; a dash where there is none.

    >>> format_range(0.1, 0.25)
    '10.0% to 25.0%'
    """
    return "–" if low is None or high is None else f"{percent(low)} to {percent(high)}"


def range_or_reason(low: float | None, high: float | None, measured: bool) -> str:
    """A range, or why it is missing: where windows have measured ranges, a number without one has too few rows.

    >>> range_or_reason(None, None, True), range_or_reason(None, None, False)
    ('too few rows', '–')
    """
    return "too few rows" if low is None and measured else format_range(low, high)


def range_name(window: WindowView) -> str:
    """What the range of a window is called, with its level.

    Only `auto` has a range that was measured to hold; a named method has its sampling error alone.
    """
    level = "" if window.level is None else f"{100 * window.level:.3g}% "
    return f"{level}range" if window.measured else f"{level}interval, sampling error only"


def half_width(value: float | None) -> str:
    """A half-width in percentage points; a dash for None.

    >>> half_width(0.0421)
    '±4.2 points'
    """
    return "–" if value is None else f"±{100 * value:.1f} points"


def number(value: int | None) -> str:
    """A count with its thousands apart; a dash for None."""
    return "–" if value is None else f"{value:,}"


def pluralize(count: int, noun: str) -> str:
    """A count with its noun.

    >>> pluralize(1, "window"), pluralize(2000, "alert")
    ('1 window', '2,000 alerts')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_time(us: int | None) -> Markup:
    """A time as an element: people read it to the minute, machines exactly."""
    if us is None:
        return Markup("–")
    return Markup('<time datetime="{}">{}</time>').format(iso(us), moment(us))


def format_age(us: int, now: int) -> str:
    """How long ago, in the largest unit that fits.

    >>> format_age(0, 90 * 60 * SECOND), format_age(5, 0)
    ('1 hour ago', 'just now')
    """
    for length, unit in ((DAY, "day"), (HOUR, "hour"), (60 * SECOND, "minute")):
        if now - us >= length:
            return f"{pluralize((now - us) // length, unit)} ago"
    return "just now"


def window_title(window: WindowView) -> str:
    """When a window was, and in which zone.

    A day reads `Thu 5 Mar 2026 (UTC)`, an hour `5 Mar 2026, 14:00 to 15:00 UTC`.
    """
    start, end = from_us(window.start), from_us(window.end)
    if window.spec == "day":
        return f"{start:%a} {day(start)} (UTC)"
    if window.spec == "hour":
        return f"{day(start)}, {start:%H:%M} to {end:%H:%M} UTC"
    if window.spec == "week":
        return f"week of {day(start)} to {day(from_us(window.end - DAY))} (UTC)"
    count = rows_per_window(window.spec)
    return f"{count or 0:,} rows, {moment(window.start)} to {moment(window.end)}"


def with_code(text: str) -> Markup:
    """A text with what stands between backticks as code.

    >>> with_code("`a<b` or c")
    Markup('<code>a&lt;b</code> or c')
    """
    parts = text.split("`")
    return Markup().join(
        Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts)
    )


def model_path(model: str, *parts: str) -> str:
    """The address of a model's page, or of one beneath it.

    >>> model_path("a", "windows", "2026-03-05.v1")
    '/models/a/windows/2026-03-05.v1'
    """
    return "/models/" + "/".join(quote(part, safe="") for part in (model, *parts))
