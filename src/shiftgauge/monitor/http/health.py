"""Alive, able to work, and numbers for Prometheus; and the list of calls."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import HTMLResponse, JSONResponse

from shiftgauge.monitor.http.asking import store_of
from shiftgauge.monitor.http.security import Reader
from shiftgauge.monitor.problems import MEDIA_TYPE, Problem

router = APIRouter(tags=["health"])
#: Whether the store can be written to is tried this often.
CHECK_SECONDS = 1.0


@router.get("/healthz")
def alive() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@router.get("/readyz")
def ready(request: Request) -> Response:
    """The database and the folder can be written to: rows would be kept now."""
    state = request.app.state
    try:
        if (
            time.monotonic() > getattr(state, "checked", 0.0) + CHECK_SECONDS
        ):  # it writes, and anybody may ask
            store_of(request).check_writable()
            state.checked = time.monotonic()
        if not state.committer.alive:
            raise Problem(503, "not-ready", "the committer has stopped; restart the server")
    except Problem as problem:
        return JSONResponse(problem.body(), problem.status, media_type=MEDIA_TYPE)
    return JSONResponse({"status": "ready"})


@router.get("/metrics")
def metrics(request: Request, caller: Reader) -> Response:
    """Numbers for Prometheus, of the models that the caller may see."""
    from prometheus_client import CONTENT_TYPE_LATEST

    from shiftgauge.monitor.metrics import exposition

    return Response(
        exposition(store_of(request), caller.models()), headers={"content-type": CONTENT_TYPE_LATEST}
    )


@router.get("/docs", include_in_schema=False)
def docs(request: Request, caller: Reader) -> HTMLResponse:
    """Every call on one page; the OpenAPI file is at /openapi.json. Nothing is fetched from elsewhere."""
    from jinja2 import Environment, PackageLoader

    calls: list[dict[str, Any]] = []
    schema = request.app.openapi()
    for path, methods in schema["paths"].items():
        for method, call in methods.items():
            calls.append({"method": method.upper(), "path": path, **call})
    jinja = Environment(loader=PackageLoader("shiftgauge.monitor", "http"), autoescape=True)
    page = jinja.get_template("docs.html.j2").render(calls=calls, info=schema["info"])
    policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
    return HTMLResponse(page, headers={"content-security-policy": policy})
