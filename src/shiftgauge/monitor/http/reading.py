"""Calls that ask: models, windows, reports, label requests, alerts, settings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool

from shiftgauge.monitor.http.asking import (
    body_schema,
    in_reader,
    limits_of,
    plain_body,
    read_body,
    store_of,
    time_in,
)
from shiftgauge.monitor.http.security import Caller, Reader, need
from shiftgauge.monitor.problems import invalid
from shiftgauge.monitor.service.alerts import list_alerts, list_deliveries
from shiftgauge.monitor.service.models import get_model, list_models
from shiftgauge.monitor.service.reports import get_report
from shiftgauge.monitor.service.requests import list_requests, request_labels
from shiftgauge.monitor.service.settings import get_settings, put_settings
from shiftgauge.monitor.service.tokens import forbidden, list_tokens
from shiftgauge.monitor.service.windows import coverage, get_window, list_revisions, list_windows
from shiftgauge.monitor.wire.bodies import read_json

router = APIRouter(prefix="/v1", tags=["answers out"])
READ = [need("read")]
#: The report is a page with its own style inside, and no script.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; sandbox"
)
Few = Annotated[int, Query(ge=1, le=5000)]
Number = Annotated[int | None, Query(ge=1, le=2**31 - 1)]


@router.get("/tokens")
def get_tokens(request: Request, caller: Annotated[Caller, need("admin")]) -> dict[str, Any]:
    """All tokens without their secrets; for an admin of all models."""
    if not caller.may("admin", None):
        raise forbidden("admin", None)
    return {"tokens": [token.to_dict() for token in list_tokens(store_of(request))]}


@router.get("/models")
def get_models(request: Request, caller: Reader) -> dict[str, Any]:
    """All models that the caller may see."""
    return {"models": [model.to_dict() for model in list_models(store_of(request), caller.models())]}


@router.get("/models/{model}", dependencies=READ)
def get_one_model(request: Request, model: str) -> dict[str, Any]:
    """A model: its state, versions, newest window, and the coverage of its adaptive range."""
    held = coverage(store_of(request), model)
    return {
        **get_model(store_of(request), model).to_dict(),
        "coverage": {**asdict(held), "share": held.share},
    }


@router.get("/models/{model}/windows", dependencies=READ)
def get_windows(
    request: Request,
    model: str,
    version: str | None = None,
    since: str | None = None,
    until: str | None = None,
    as_of: str | None = None,
    limit: Few = 500,
) -> dict[str, Any]:
    """Estimates by window, oldest first; `as_of` shows them with what was known then."""
    found = list_windows(
        store_of(request),
        model,
        version=version,
        since=time_in(since, "since"),
        until=time_in(until, "until"),
        as_of=time_in(as_of, "as_of"),
        limit=limit,
    )
    return {"model": model, "windows": [window.to_dict() for window in found]}


@router.get("/models/{model}/windows/{window}", dependencies=READ)
def get_one_window(request: Request, model: str, window: str, revision: Number = None) -> dict[str, Any]:
    """One window, as its newest revision or another one shows it."""
    return get_window(store_of(request), model, window, revision).to_dict()


@router.get("/models/{model}/windows/{window}/revisions", dependencies=READ)
def get_revisions(request: Request, model: str, window: str) -> dict[str, Any]:
    """Every revision of a window, oldest first."""
    found = list_revisions(store_of(request), model, window)
    return {"model": model, "window": window, "revisions": [view.to_dict() for view in found]}


@router.get("/models/{model}/windows/{window}/report", dependencies=READ)
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


@router.get("/models/{model}/label-requests", dependencies=[need("ingest")])
def get_label_requests(request: Request, model: str, window: str | None = None) -> dict[str, Any]:
    """Which rows of a window were requested and have no label yet; by default of the newest estimated window."""
    found = list_requests(store_of(request), model, window)
    return {"model": model, "rows": [asdict(row) for row in found]}


class Wanted(BaseModel):
    """The body of a label request; `labels`, or `margin`, or neither."""

    model_config = ConfigDict(extra="forbid", strict=True)
    window: str | None = None
    labels: int | None = Field(None, ge=1, le=1_000_000)
    margin: float | None = Field(None, gt=0, lt=1)


@router.post(
    "/models/{model}/label-requests",
    status_code=201,
    dependencies=[need("ingest")],
    openapi_extra=body_schema(example={"labels": 100}),
)
async def post_label_requests(request: Request, model: str) -> dict[str, Any]:
    """Pick the rows of a window to label, once: so many `labels`, or as many as give the error to +- `margin`."""
    body = await read_body(request)

    def work() -> dict[str, Any]:
        try:
            wanted = Wanted.model_validate(read_json(plain_body(request, body), limits_of(request)))
        except ValidationError as problem:
            first = problem.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the body"
            raise invalid(f"{where[:60]}: {first['msg'][:1].lower()}{first['msg'][1:]}") from None
        store, window = store_of(request), wanted.window
        found = request_labels(store, model, window, labels=wanted.labels, margin=wanted.margin)
        return {"model": model, "rows": [asdict(row) for row in found]}

    return await run_in_threadpool(work)


@router.get("/models/{model}/settings", dependencies=READ)
def get_the_settings(request: Request, model: str) -> dict[str, Any]:
    """The settings of a model, without the webhook's secret."""
    return get_settings(store_of(request), model).to_dict()


@router.put(
    "/models/{model}/settings",
    dependencies=[need("admin")],
    openapi_extra=body_schema(example={"window": "day", "limits": {"error": 0.2, "windows": 2}}),
)
async def put_the_settings(request: Request, model: str) -> dict[str, Any]:
    """Change what is given, keep the rest; makes the model where it is new."""
    body = await read_body(request)

    def work() -> dict[str, Any]:
        given = read_json(plain_body(request, body), limits_of(request))
        return put_settings(store_of(request), model, given).to_dict()

    return await in_reader(request, work)


@router.get("/models/{model}/alerts", dependencies=READ)
def get_alerts(request: Request, model: str, firing: bool | None = None, limit: Few = 200) -> dict[str, Any]:
    """Alerts of a model, newest first, and the messages that could not be delivered yet."""
    store = store_of(request)
    late = list_deliveries(store, model, undelivered=True, limit=limit)
    return {
        "alerts": [alert.to_dict() for alert in list_alerts(store, model, firing=firing, limit=limit)],
        "undelivered": [one.to_dict() for one in late],
    }
