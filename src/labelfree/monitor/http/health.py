"""Alive, able to work, and numbers for Prometheus; and the list of calls."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy import text
from starlette.responses import HTMLResponse, JSONResponse

from labelfree.monitor.http.asking import store_of
from labelfree.monitor.http.security import Reader
from labelfree.monitor.problems import MEDIA_TYPE, Problem

router = APIRouter(tags=["health"])


@router.get("/healthz")
def alive() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@router.get("/readyz")
def ready(request: Request) -> Response:
    """The database answers and can be written to: rows would be kept now."""
    try:
        with store_of(request).write() as connection:
            connection.execute(text("SELECT 1"))
        if not request.app.state.committer.alive:
            raise Problem(503, "not-ready", "the committer has stopped; restart the server")
    except Problem as problem:
        return JSONResponse(problem.body(), problem.status, media_type=MEDIA_TYPE)
    return JSONResponse({"status": "ready"})


@router.get("/metrics")
def metrics(request: Request, caller: Reader) -> Response:
    """Numbers for Prometheus, of the models that the caller may see."""
    from prometheus_client import CONTENT_TYPE_LATEST

    from labelfree.monitor.metrics import exposition

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
    jinja = Environment(loader=PackageLoader("labelfree.monitor", "http"), autoescape=True)
    page = jinja.get_template("docs.html.j2").render(calls=calls, info=schema["info"])
    policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
    return HTMLResponse(page, headers={"content-security-policy": policy})
