"""The summary as one HTML page: no scripts, nothing loaded from elsewhere, every given text escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import resources
from typing import Any

from shiftgauge import results
from shiftgauge.errors import printable
from shiftgauge.methods import METHODS
from shiftgauge.plots.sample import most_changed
from shiftgauge.reports.figures import pictures

MARKS = {"ok": "✓", "caution": "!", "stop": "✕"}


def page(summary: dict[str, Any]) -> str:
    """Render the page."""
    from jinja2 import Environment, StrictUndefined

    here = resources.files("shiftgauge.reports")
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["pct"] = percent
    environment.filters["points"] = points
    environment.filters["num"] = lambda n: f"{n:,}"
    template = environment.from_string(here.joinpath("page.html.j2").read_text(encoding="utf-8"))
    escaped = _escape(summary)
    drawn = pictures(escaped)
    shown = most_changed(escaped["proportions"])
    return template.render(
        s=escaped,
        style=here.joinpath("page.css").read_text(encoding="utf-8"),
        svg={name: picture.svg for name, picture in drawn.items()},
        alt={name: picture.alt for name, picture in drawn.items()},
        shown=shown,
        marks=MARKS,
        gauge=gauge(escaped["answer"]),
        methods=_methods(),
    )


def gauge(answer: dict[str, Any]) -> dict[str, float]:
    """Where the answer, its range and the error on the source stand on a scale that begins at 0, in percent of it."""
    ends = answer["range"] or answer.get("interval")
    low, high = (answer["error"],) * 2 if ends is None else (ends["low"], ends["high"])
    end = min(1.0, math.ceil(12 * max(high, answer["error"], answer["source_error"], 0.04)) / 10)
    places = {"low": low, "width": high - low, "error": answer["error"], "source": answer["source_error"]}
    return {"end": end, **{name: round(100 * place / end, 2) for name, place in places.items()}}


def percent(value: float | None) -> str:
    """A fraction as percent with one decimal; a dash for None.

    >>> percent(0.1234), percent(None)
    ('12.3%', '–')
    """
    return "–" if value is None else f"{100 * value:.1f}%"


def points(value: float, ends: Mapping[str, Any] | None = None) -> str:
    """A difference in percentage points, with its range, which is given as plain values."""
    return results.points(value, None if ends is None else results.Interval(**ends))


def _escape(value: Any) -> Any:
    """The same values; names in texts cannot control the terminal that shows the page's source."""
    if isinstance(value, dict):
        return {key: _escape(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_escape(one) for one in value]
    return printable(value) if isinstance(value, str) else value


def _methods() -> dict[str, tuple[str, str]]:
    return {name: (method.title, method.meaning) for name, method in METHODS.items()}
