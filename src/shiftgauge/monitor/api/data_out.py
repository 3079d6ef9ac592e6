"""Routes for results: models, windows, reports, label requests, alerts, settings; health and metrics."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import Field
from starlette.responses import HTMLResponse, PlainTextResponse

from shiftgauge.monitor.alerts.evaluate import change_alert
from shiftgauge.monitor.api.prometheus import exposition
from shiftgauge.monitor.api.requests import (
    PROBLEMS,
    AlertNumber,
    Body,
    Number,
    body_schema,
    limits_of,
    plain_body,
    query_time,
    read_record,
    run_in_reader,
    store_of,
)
from shiftgauge.monitor.api.security import Admin, Caller, Reader, Sender, require_scope
from shiftgauge.monitor.db.audit import ChangeView, list_changes
from shiftgauge.monitor.db.models import get_settings, put_settings
from shiftgauge.monitor.db.tokens import TokenView, forbidden, list_tokens
from shiftgauge.monitor.db.windows import WindowView, get_window, list_revisions, list_windows
from shiftgauge.monitor.estimate.adaptive_range import Coverage, coverage
from shiftgauge.monitor.estimate.label_requests import RequestView, list_requests, request_labels
from shiftgauge.monitor.ingest.bodies import read_json
from shiftgauge.monitor.problems import ApiProblem, invalid
from shiftgauge.monitor.records import Record
from shiftgauge.monitor.settings import Settings
from shiftgauge.monitor.views import (
    AlertView,
    DeliveryView,
    ModelView,
    SuggestedLimits,
    get_model,
    get_report,
    list_alerts,
    list_deliveries,
    list_models,
    suggest_limits,
)

router = APIRouter(prefix="/v1", tags=["results"], responses=PROBLEMS)
#: Whether the server runs, and numbers for Prometheus.
health = APIRouter(tags=["health"])
READ = [require_scope("read")]
#: The report is a page with its own style inside, and no script.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; sandbox"
)
Few = Annotated[int, Query(ge=1, le=5000)]

#: The JSON form of a report, as `shiftgauge report --json` writes it.
REPORT = {
    "title": "Report",
    "description": "`report` of the package's JSON Schema (data/schema.json)",
    "type": "object",
    "required": ["schema", "answer", "verdict", "comparison"],
    "properties": {
        "schema": {"type": "integer"},
        "answer": {"type": "object", "description": "`estimate` of that schema"},
        "verdict": {"type": "object", "description": "`level` and `reasons`"},
        "comparison": {"type": "object"},
        "drivers": {"type": "object", "nullable": True},
        "slices": {"type": "array", "items": {"type": "object"}},
    },
}


class TokenList(Record):
    """All tokens."""

    tokens: list[TokenView]


class ModelList(Record):
    """Models by name."""

    models: list[ModelView]


class ModelDetail(ModelView):
    """A model and the coverage of its adaptive range."""

    coverage: Coverage


class WindowList(Record):
    """Windows of a model, oldest first."""

    model: str
    windows: list[WindowView]


class RevisionList(Record):
    """All revisions of a window, oldest first."""

    model: str
    window: str
    revisions: list[WindowView]


class LabelRequests(Record):
    """Rows that were picked and have no label yet."""

    model: str
    rows: list[RequestView]


class AlertList(Record):
    """Alerts, newest first, and messages that could not be delivered yet."""

    alerts: list[AlertView]
    undelivered: list[DeliveryView]


@router.get("/tokens")
def get_tokens(request: Request, caller: Annotated[Caller, require_scope("admin")]) -> TokenList:
    """All tokens without their secrets; for an admin of all models."""
    if not caller.may("admin", None):
        raise forbidden("admin", None)
    return TokenList(tokens=list_tokens(store_of(request)))


@router.get("/models")
def get_models(request: Request, caller: Reader) -> ModelList:
    """All models that the caller may see."""
    return ModelList(models=list_models(store_of(request), caller.models()))


@router.get("/models/{model}", dependencies=READ)
def get_one_model(request: Request, model: str) -> ModelDetail:
    """A model: its state, versions, newest window, and the coverage of its adaptive range."""
    store = store_of(request)
    return ModelDetail(coverage=coverage(store, model), **dict(get_model(store, model)))


@router.get("/models/{model}/windows", dependencies=READ)
def get_windows(
    request: Request,
    model: str,
    version: str | None = None,
    since: str | None = None,
    until: str | None = None,
    as_of: str | None = None,
    limit: Few = 500,
) -> WindowList:
    """Estimates by window, oldest first; `as_of` shows them with what was known then."""
    windows_ = list_windows(
        store_of(request),
        model,
        version=version,
        since=query_time(since, "since"),
        until=query_time(until, "until"),
        as_of=query_time(as_of, "as_of"),
        limit=limit,
    )
    return WindowList(model=model, windows=windows_)


@router.get("/models/{model}/windows/{window}", dependencies=READ)
def get_one_window(request: Request, model: str, window: str, revision: Number = None) -> WindowView:
    """One window, as its newest revision or another one shows it."""
    return get_window(store_of(request), model, window, revision)


@router.get("/models/{model}/windows/{window}/revisions", dependencies=READ)
def get_revisions(request: Request, model: str, window: str) -> RevisionList:
    """Every revision of a window, oldest first."""
    windows_ = list_revisions(store_of(request), model, window)
    return RevisionList(model=model, window=window, revisions=windows_)


@router.get(
    "/models/{model}/windows/{window}/report",
    dependencies=READ,
    response_class=HTMLResponse,
    responses={200: {"content": {"text/markdown": {}, "application/json": {"schema": REPORT}}}},
)
def get_the_report(
    request: Request, model: str, window: str, format: str = "html", revision: Number = None
) -> Response:
    """The report of a window: `format=html`, `md` or `json`."""
    kinds = {
        "html": "text/html; charset=utf-8",
        "md": "text/markdown; charset=utf-8",
        "json": "application/json",
    }
    if format not in kinds:
        raise invalid(f"format={format[:40]!r}: wanted html, md or json")
    text = get_report(store_of(request), model, window, revision, format)
    return Response(text, media_type=kinds[format], headers={"content-security-policy": REPORT_POLICY})


@router.get("/models/{model}/label-requests", dependencies=[require_scope("ingest")])
def get_label_requests(request: Request, model: str, window: str | None = None) -> LabelRequests:
    """Which rows of a window were requested and have no label yet; by default of the newest estimated window."""
    rows = list_requests(store_of(request), model, window)
    return LabelRequests(model=model, rows=rows)


class LabelRequestBody(Record, strict=True):
    """The body of a label request: how many rows to pick."""

    window: str | None = None
    labels: int | None = Field(default=None, ge=1, le=1_000_000)


@router.post(
    "/models/{model}/label-requests",
    status_code=201,
    openapi_extra=body_schema(LabelRequestBody, example={"labels": 100}),
)
def post_label_requests(request: Request, model: str, caller: Sender, body: Body) -> LabelRequests:
    """Pick the rows of a window to label, once: so many `labels` (20 by default)."""
    wanted = read_record(request, body, LabelRequestBody)
    rows = request_labels(store_of(request), model, wanted.window, wanted.labels, who=caller.name)
    return LabelRequests(model=model, rows=rows)


@router.get("/models/{model}/settings", dependencies=READ)
def get_the_settings(request: Request, model: str) -> Settings:
    """The settings of a model, without secrets: that of the webhook, and the URLs of notification services."""
    return get_settings(store_of(request), model)


@router.get("/models/{model}/suggested-limits", dependencies=READ)
def get_suggested_limits(request: Request, model: str) -> SuggestedLimits:
    """Limits that follow from the error on the newest source, for a model that has none."""
    suggested = suggest_limits(get_model(store_of(request), model))
    if suggested is None:
        raise ApiProblem(404, "no-source", f"model {model!r} has no source yet: limits follow from its error")
    return suggested


@router.put(
    "/models/{model}/settings",
    openapi_extra=body_schema(Settings, example={"window": "day", "limits": {"error": 0.2, "windows": 2}}),
)
async def put_the_settings(request: Request, model: str, caller: Admin, body: Body) -> Settings:
    """Change what is given, keep the rest; makes the model where it is new."""

    def work() -> Settings:
        given = read_json(plain_body(request, body), limits_of(request))
        return put_settings(store_of(request), model, given, caller.name)

    return await run_in_reader(request, work)


@router.get("/models/{model}/alerts", dependencies=READ)
def get_alerts(request: Request, model: str, firing: bool | None = None, limit: Few = 200) -> AlertList:
    """Alerts of a model, newest first, and the messages that could not be delivered yet."""
    store = store_of(request)
    late = list_deliveries(store, model, undelivered=True, limit=limit)
    return AlertList(alerts=list_alerts(store, model, firing=firing, limit=limit), undelivered=late)


#: Whether the store can be written to is tried this often.
CHECK_SECONDS = 1.0


class AlertChange(Record, strict=True):
    """Acknowledge, mute or comment on an alert; what is left out stays."""

    acknowledged: bool | None = None
    muted_until: str | None = Field(
        default=None, description="a time; no messages before it; a past one unmutes"
    )
    comment: str | None = Field(default=None, max_length=2000)


@router.post(
    "/models/{model}/alerts/{alert}",
    openapi_extra=body_schema(
        AlertChange, example={"acknowledged": True, "muted_until": "2026-03-06T08:00:00Z", "comment": ""}
    ),
)
def post_alert(request: Request, model: str, alert: AlertNumber, caller: Admin, body: Body) -> AlertList:
    """Acknowledge, mute or comment on an alert; the alerts of the model."""
    change = read_record(request, body, AlertChange)
    change_alert(
        store_of(request),
        model,
        alert,
        acknowledged=change.acknowledged,
        muted_until=query_time(change.muted_until, "muted_until"),
        comment=change.comment,
        who=caller.name,
    )
    return get_alerts(request, model)


class ChangeList(Record):
    """The audit log, newest first."""

    changes: list[ChangeView]


@router.get("/audit")
def get_audit(request: Request, caller: Admin, before: Number = None, limit: Few = 200) -> ChangeList:
    """Who changed what: settings, sources, alerts, erasures, label requests, tokens; of the caller's models."""
    return ChangeList(changes=list_changes(store_of(request), caller.models(), before, limit))


class Status(Record):
    """Whether the server runs."""

    status: str


@health.get("/healthz", responses=PROBLEMS)
def alive() -> Status:
    """The process answers."""
    return Status(status="alive")


@health.get("/readyz", responses=PROBLEMS)
def ready(request: Request) -> Status:
    """The database and the folder can be written to: rows would be kept now."""
    state = request.app.state
    # The check writes, and anybody may ask.
    if time.monotonic() > getattr(state, "checked", 0.0) + CHECK_SECONDS:
        store_of(request).check_writable()
        state.checked = time.monotonic()
    if not state.committer.alive:
        raise ApiProblem(503, "not-ready", "the committer has stopped; restart the server")
    return Status(status="ready")


@health.get("/metrics", response_class=PlainTextResponse, responses=PROBLEMS)
def get_metrics(request: Request, caller: Reader) -> Response:
    """Numbers for Prometheus, of the models that the caller may see."""
    return Response(
        exposition(store_of(request), caller.models()), headers={"content-type": CONTENT_TYPE_LATEST}
    )
