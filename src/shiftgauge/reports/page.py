"""The summary as one HTML page: no scripts, nothing loaded from elsewhere, every given text escaped."""

from __future__ import annotations

from importlib import resources
from typing import Any

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
        methods=_methods(),
    )


def percent(value: float | None) -> str:
    """A fraction as percent with one decimal; a dash for None.

    >>> percent(0.1234), percent(None)
    ('12.3%', '–')
    """
    return "–" if value is None else f"{100 * value:.1f}%"


def _escape(value: Any) -> Any:
    """The same values; names in texts cannot steer the terminal of whoever looks at the page's source."""
    if isinstance(value, dict):
        return {key: _escape(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_escape(one) for one in value]
    return printable(value) if isinstance(value, str) else value


def _methods() -> dict[str, tuple[str, str]]:
    return {name: (method.title, method.meaning) for name, method in METHODS.items()}
