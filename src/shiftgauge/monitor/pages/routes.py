"""Addresses of the pages that show: ask the service, render."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from shiftgauge.monitor.alerts.evaluate import change_alert
from shiftgauge.monitor.api.requests import AlertNumber, Body, Number, store_of
from shiftgauge.monitor.api.security import Admin, Caller, Reader
from shiftgauge.monitor.db.audit import list_changes
from shiftgauge.monitor.db.tokens import list_tokens
from shiftgauge.monitor.pages.format import model_path
from shiftgauge.monitor.pages.model_page import list_rows, model_values, sentence
from shiftgauge.monitor.pages.render import STATIC_KINDS, PageRoute, page, static_file_body
from shiftgauge.monitor.pages.settings_page import parse_form
from shiftgauge.monitor.pages.window_page import window_values
from shiftgauge.monitor.periods import HOUR, now_us
from shiftgauge.monitor.problems import ApiProblem
from shiftgauge.monitor.views import get_model, list_alerts, list_deliveries, list_models

router = APIRouter(route_class=PageRoute, include_in_schema=False)
#: A year; the address changes with the content.
FOREVER = "public, max-age=31536000, immutable"
MOST_CHANGES = 200


@router.get("/")
def all_models(request: Request, caller: Reader) -> Response:
    """Every model at a glance; where there is none, how to begin."""
    models = list_models(store_of(request), caller.models())
    if not models:
        base = str(request.base_url).rstrip("/")
        return page("empty.html.j2", base=base, locked=caller.token is not None)
    rows = list_rows(store_of(request), models)
    return page("models.html.j2", rows=rows, now=now_us(), sentence=sentence(models))


@router.get("/models/{model}")
def model_over_time(request: Request, model: str, caller: Reader) -> Response:
    """A model over time."""
    asked = dict(request.query_params)
    base = str(request.base_url).rstrip("/")
    values = model_values(store_of(request), model, asked)
    may_change = caller.may("admin", model)
    return page("model.html.j2", **values, now=now_us(), base=base, may_change=may_change)


@router.get("/models/{model}/windows/{window}")
def window_page(request: Request, model: str, window: str, caller: Reader) -> Response:
    """A window: the estimate, the observed error, every revision."""
    revision = request.query_params.get("revision")
    return page("window.html.j2", **window_values(store_of(request), model, window, revision))


@router.get("/alerts")
def all_alerts(request: Request, caller: Reader) -> Response:
    """Alerts of every model that the caller may see."""
    names = caller.models()
    return _alerts(request, names[0] if names else None, caller, alone=False)


@router.get("/models/{model}/alerts")
def model_alerts(request: Request, model: str, caller: Reader) -> Response:
    """Alerts of one model."""
    get_model(store_of(request), model)
    return _alerts(request, model, caller, alone=True)


@router.post("/models/{model}/alerts/{alert}")
def change_alert_page(
    request: Request, model: str, alert: AlertNumber, caller: Admin, body: Body
) -> Response:
    """Acknowledge, mute or comment on an alert, from the form beside it."""
    form = parse_form(body)
    hours = {"1": 1, "24": 24, "168": 168, "0": 0}.get(form.get("mute", ""))
    change_alert(
        store_of(request),
        model,
        alert,
        acknowledged={"yes": True, "no": False}.get(form.get("acknowledged", "")),
        muted_until=None if hours is None else now_us() + hours * HOUR,
        comment=form["comment"][:2000] if "comment" in form else None,
        who=caller.name,
    )
    return RedirectResponse(f"{model_path(model, 'alerts')}#alert-{alert}", 303)


def _alerts(request: Request, model: str | None, caller: Caller, *, alone: bool) -> Response:
    store = store_of(request)
    return page(
        "alerts.html.j2",
        model=model if alone else None,
        firing=list_alerts(store, model, firing=True),
        resolved=list_alerts(store, model, firing=False),
        undelivered=list_deliveries(store, model, undelivered=True),
        now=now_us(),
        may_change=caller.may("admin", model),
    )


@router.get("/audit")
def audit_log(request: Request, caller: Admin, before: Number = None) -> Response:
    """Who changed what; all tokens, for an admin of all models."""
    store = store_of(request)
    return page(
        "audit.html.j2",
        changes=list_changes(store, caller.models(), before, MOST_CHANGES),
        most=MOST_CHANGES,
        tokens=list_tokens(store) if caller.may("admin", None) else None,
        now=now_us(),
    )


@router.get("/docs")
def api_page(request: Request, caller: Reader) -> Response:
    """Every route of the API; the OpenAPI file is at /openapi.json."""
    schema = request.app.openapi()
    found = [
        {"method": method.upper(), "path": path, **route}
        for path, methods in schema["paths"].items()
        for method, route in methods.items()
    ]
    by_tag: dict[str, list[dict[str, Any]]] = {}
    for route in found:
        by_tag.setdefault(route["tags"][0], []).append(route)
    return page("api.html.j2", tags=by_tag, info=schema["info"])


@router.get("/static/{digest}/{name}")
def static_file(digest: str, name: str) -> Response:
    """Style and script."""
    body = static_file_body(name)
    if body is None:
        raise ApiProblem(404, "not-found", "there is no such file")
    return Response(body, headers={"content-type": STATIC_KINDS[name], "cache-control": FOREVER})
