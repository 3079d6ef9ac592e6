"""Rendering of pages from templates, and the static files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from functools import lru_cache
from importlib import resources
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse

from shiftgauge._version import __version__
from shiftgauge.monitor.pages import format as formatting
from shiftgauge.monitor.periods import during_window, window_date
from shiftgauge.monitor.problems import ApiProblem
from shiftgauge.reports.page import points

#: Forms of our own pages must be able to say where they come from; other sites still learn nothing.
HEADERS = {"referrer-policy": "same-origin"}
_CSS, _JS = "text/css; charset=utf-8", "text/javascript; charset=utf-8"
STATIC_KINDS = {"style.css": _CSS, "pages.js": _JS, "uPlot.min.css": _CSS, "uPlot.iife.min.js": _JS}


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
        "format_range",
        "range_or_reason",
        "range_name",
        "half_width",
        "number",
        "pluralize",
        "format_time",
        "window_title",
        "rule_title",
        "with_code",
        "metric_title",
        "model_path",
        "format_age",
    )
    constants = ("WINDOW_STATES", "VERDICTS", "SHIFTS", "KINDS", "CAUSES")
    out.globals |= {name.lower(): getattr(formatting, name) for name in (*names, *constants)}
    out.filters["points"] = points
    out.globals |= {"static": static_address, "shiftgauge": __version__}
    out.globals |= {"window_date": window_date, "during_window": during_window}
    return out


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A rendered page."""
    text = environment().get_template(template).render(**values)
    return HTMLResponse(text, status, headers=HEADERS)


@lru_cache(maxsize=8)
def static_file_body(name: str) -> bytes | None:
    """A static file, or None; the style sheet is the report's followed by ours."""
    if name not in STATIC_KINDS:
        return None
    here = resources.files("shiftgauge.monitor.pages").joinpath("static")
    body = here.joinpath(name).read_bytes()
    if name == "style.css":
        body = resources.files("shiftgauge.reports").joinpath("page.css").read_bytes() + body
    return body


@lru_cache(maxsize=8)
def static_address(name: str) -> str:
    """A static file's address; it changes with the content, so that browsers may keep it for ever."""
    digest = hashlib.sha256(static_file_body(name) or b"").hexdigest()[:12]
    return f"/static/{digest}/{name}"


def problem_page(problem: ApiProblem) -> HTMLResponse:
    """A problem as a page that a person can read."""
    out = page("problem.html.j2", problem.status, problem=problem.body())
    out.headers.update(problem.headers())
    return out


class PageRoute(APIRoute):
    """Answers problems with a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of FastAPI, with problems caught."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await inner(request)
            except ApiProblem as problem:
                return await run_in_threadpool(problem_page, problem)

        return handle
