"""Pages from templates: every given text is escaped; style and script are files of our own, named by their content."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from shiftgauge._version import __version__
from shiftgauge.monitor.pages import words
from shiftgauge.monitor.problems import Problem

#: Forms of our own pages must be able to say where they come from; other sites still learn nothing.
HEADERS = {"referrer-policy": "same-origin"}
KINDS = {"style.css": "text/css; charset=utf-8", "pages.js": "text/javascript; charset=utf-8"}


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates, with the words they use."""
    out = Environment(
        loader=PackageLoader("shiftgauge.monitor.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = (
        "percent",
        "reach",
        "headline",
        "half_width",
        "number",
        "counted",
        "stamp",
        "moment",
        "span",
        "model_path",
        "ago",
    )
    out.globals |= {name: getattr(words, name) for name in names}
    out.filters["number"] = words.number
    constants = ("STATES", "WINDOW_STATES", "VERDICTS", "SHIFTS", "KINDS", "CAUSES", "RULES")
    out.globals |= {name.lower(): getattr(words, name) for name in constants}
    out.globals |= {"static": address, "shiftgauge": __version__}
    return out


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A rendered page."""
    text = environment().get_template(template).render(**values)
    return HTMLResponse(text, status, headers=HEADERS)


@lru_cache(maxsize=8)
def static(name: str) -> bytes | None:
    """A static file, or None; the style is the report's own with ours behind it: one language for both."""
    if name not in KINDS:
        return None
    here = resources.files("shiftgauge.monitor.pages").joinpath("static")
    body = here.joinpath(name).read_bytes()
    if name == "style.css":
        body = resources.files("shiftgauge.reports").joinpath("page.css").read_bytes() + body
    return body


@lru_cache(maxsize=8)
def address(name: str) -> str:
    """A static file's address; it changes with the content, so that browsers may keep it for ever."""
    digest = hashlib.sha256(static(name) or b"").hexdigest()[:12]
    return f"/static/{digest}/{name}"


def problem_page(problem: Problem) -> HTMLResponse:
    """A problem as a page that a person can read."""
    out = page("problem.html.j2", problem.status, problem=problem.body())
    if problem.status == 401:
        out.headers["www-authenticate"] = 'Basic realm="shiftgauge", charset="UTF-8"'
    if problem.status == 503:
        out.headers["retry-after"] = "1"
    return out
