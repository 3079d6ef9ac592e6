"""What users see of models, alerts, webhook messages and reports: typed records for the API and the pages."""

from __future__ import annotations

import json
import math
import threading
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pydantic import Field, Json, computed_field
from sqlalchemy import Connection, Select, Table, case, func, select

from shiftgauge.binomial import wilson
from shiftgauge.monitor.alerts.rules import AlertMessage, confirmation
from shiftgauge.monitor.db.models import format_of, model_row
from shiftgauge.monitor.db.schema import (
    alerts,
    models,
    outbox,
    reports,
    revisions,
    sources,
    versions,
    windows,
)
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.db.windows import WindowView, get_window, latest_windows
from shiftgauge.monitor.problems import ApiProblem
from shiftgauge.monitor.records import Record, Time
from shiftgauge.monitor.settings import Settings, stored_settings
from shiftgauge.reports import Report
from shiftgauge.results import percent
from shiftgauge.times import rows_per_window

#: A limit that is offered lies above the source's error by half of it, and by so much at most...
MOST_RISE = 0.05
#: ... but not within the source's own sampling interval at this level: z of 90%, both sides.
Z = 1.645


class VersionView(Record):
    """A version of a model."""

    name: str
    rows: int = Field(description="ever accepted")
    kind: str | None = Field(description="logits or probs; null before the first row")
    k: int | None = Field(description="number of classes; null where it is not known yet")
    classes: tuple[str, ...] | None = Field(description="their names; null where they are numbered")
    source_rows: int | None = Field(description="of its labelled source; null where there is none yet")
    source_error: float | None
    source_created: Time | None


class ModelView(Record):
    """A model at a glance."""

    name: str
    created: Time
    state: str = Field(
        description="the most urgent of alert, waiting (windows wait, see reason), empty (no rows yet), "
        "collecting (no window has closed), no-limits (the error has no limit) and ok"
    )
    reason: str | None
    versions: tuple[VersionView, ...] = Field(description="newest first")
    rows: int = Field(description="ever accepted")
    last_row: Time | None = Field(description="when the last row arrived")
    firing: int = Field(description="number of alerts that fire")
    waiting: int = Field(description="number of closed windows without an estimate")
    latest: WindowView | None = Field(description="the newest estimated window")


class SuggestedLimits(Record):
    """Limits that follow from the error on the newest source; PUT `limits` into the settings to accept them."""

    limits: dict[str, float]
    source_error: float
    error: float = Field(description="the error at which an alert would fire")
    reason: str


def suggest_limits(model: ModelView) -> SuggestedLimits | None:
    """Limits for a model whose error has none; None before it has a source.

    The rise is half of the source's error and at most 5 points, but reaches at least to the end of the source's
    sampling interval (Wilson, 90%): below that, the source itself could have been beyond the limit by chance.
    """
    newest = next((version for version in model.versions if version.source_rows), None)
    if newest is None or newest.source_error is None or newest.source_rows is None:
        return None
    error, rows = newest.source_error, newest.source_rows
    _, high = wilson(error, rows, Z)
    wanted = min(error / 2.0, MOST_RISE)
    rise = math.ceil(1000.0 * max(wanted, high - error) - 1e-9) / 1000.0
    reason = (
        f"the source has an error of {percent(error)} ({rows:,} rows, 90% interval up to {percent(high)})"
    )
    return SuggestedLimits(limits={"rise": rise}, source_error=error, error=error + rise, reason=reason)


def list_models(store: Store, names: list[str] | None = None) -> list[ModelView]:
    """All models, or those named, by name."""
    with store.read() as connection:
        wanted = select(models).order_by(models.c.name)
        if names is not None:
            wanted = wanted.where(models.c.name.in_(names))
        rows = connection.execute(wanted).all()
        ids = [row.id for row in rows]
        latest = latest_windows(connection, ids)
        by_model = _version_views(connection, ids)
        count = select(alerts.c.model_id, func.count()).where(alerts.c.resolved.is_(None))
        firing = {row[0]: row[1] for row in connection.execute(count.group_by(alerts.c.model_id))}
        waits = windows.c.model_id.in_(ids), windows.c.state.in_(["waiting", "failed"])
        waiting: dict[int, list[str]] = {}
        reasons = select(windows.c.model_id, windows.c.reason).where(*waits).order_by(windows.c.low)
        for model_id, reason in connection.execute(reasons):
            waiting.setdefault(model_id, []).append(reason)
    return [
        _model_view(row, by_model[row.id], latest.get(row.id), firing.get(row.id, 0), waiting.get(row.id, []))
        for row in rows
    ]


def get_model(store: Store, name: str) -> ModelView:
    """One model; raises a problem (404) where there is none."""
    with store.read() as connection:
        model_row(connection, name)
    return list_models(store, [name])[0]


def _version_views(connection: Connection, ids: list[int]) -> dict[int, tuple[VersionView, ...]]:
    joined = versions.outerjoin(sources, versions.c.source_id == sources.c.id)
    columns = (
        versions,
        sources.c.rows.label("source_rows"),
        sources.c.error.label("source_error"),
        sources.c.created.label("source_created"),
    )
    query = (
        select(*columns)
        .select_from(joined)
        .where(versions.c.model_id.in_(ids))
        .order_by(versions.c.id.desc())
    )
    out: dict[int, tuple[VersionView, ...]] = dict.fromkeys(ids, ())
    for row in connection.execute(query):
        names = ("name", "rows", "kind", "k", "source_rows", "source_error", "source_created")
        view = VersionView(classes=format_of(row).classes, **{name: getattr(row, name) for name in names})
        out[row.model_id] = (*out[row.model_id], view)
    return out


def _model_view(
    row: Any,
    version_views: tuple[VersionView, ...],
    latest: WindowView | None,
    firing: int,
    reasons: list[str],
) -> ModelView:
    """The record; `reasons` are those of the windows that wait, oldest first."""
    total = sum(v.rows for v in version_views)
    settings = stored_settings(row.settings)
    limits = settings.limits
    state, reason = "ok", None
    if firing:
        state, reason = "alert", f"{firing} alert{'s' * (firing > 1)} firing"
    elif reasons:
        state, reason = "waiting", reasons[-1]
    elif not total:
        state, reason = "empty", "no rows yet"
    elif latest is None:
        state, reason = "collecting", _first_closing(settings)
    elif not limits.on_error:
        state, reason = "no-limits", "no limits set" if limits.none else "no limit on the error set"
    return ModelView(
        name=row.name,
        created=row.created,
        state=state,
        reason=reason,
        versions=version_views,
        rows=total,
        last_row=row.last_row,
        firing=firing,
        waiting=len(reasons),
        latest=latest,
    )


def _first_closing(settings: Settings) -> str:
    """When the first window will be estimated."""
    if rows_per_window(settings.window) is not None:
        return f"the first window closes after {settings.window}"
    return f"the first window closes {settings.lateness_minutes:g} minutes after the {settings.window} ends"


class AlertView(Record):
    """An alert."""

    id: int
    model: str
    version: str | None = Field(description="null for rules about the whole model")
    rule: str = Field(
        description="error, rise, width, silence, not-estimated, or a metric such as f1 or recall:fraud"
    )
    limit: float | None
    value: float | None = Field(description="when it fired")
    message: str
    window: str | None = Field(description="the window that made it fire")
    fired: Time
    resolved: Time | None
    resolution: str | None
    confirmed: bool | None = Field(
        description="whether the whole range, or labels, lie beyond the limit too; null for other rules"
    )
    acknowledged: Time | None
    acknowledged_by: str | None = Field(description="the name of the token, as in the two below")
    muted_until: Time | None = Field(
        description="no messages before this; what fires until then and still fires is sent then"
    )
    muted_by: str | None
    comment: str | None
    comment_by: str | None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def firing(self) -> bool:
        """Whether it still fires."""
        return self.resolved is None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def confirmation(self) -> str | None:
        """Whether it is confirmed, in words; null for rules that are not about an error."""
        return None if self.confirmed is None else confirmation(self.confirmed)


class DeliveryView(Record):
    """A message to a webhook or a notification service."""

    id: int
    model: str
    alert_id: int
    destination: str | None = Field(description="the name of a notification service; null for the webhook")
    event: str = Field(description="fired, confirmed or resolved")
    state: str = Field(description="delivered, waiting (sent again when due) or given up")
    attempts: int
    problem: str | None = Field(description="what went wrong last")
    created: Time
    due: Time
    delivered: Time | None
    body: Json[AlertMessage]


def list_alerts(
    store: Store, model: str | None = None, *, firing: bool | None = None, limit: int = 200
) -> list[AlertView]:
    """Alerts, newest first; of one model, and only those that fire (or not), if said."""
    query = select(alerts)
    if firing is not None:
        query = query.where(alerts.c.resolved.is_(None) if firing else alerts.c.resolved.is_not(None))
    rows = _newest_rows(store, alerts, query, model, limit)
    return [AlertView.model_validate(row, from_attributes=True) for row in rows]


def list_deliveries(
    store: Store, model: str | None = None, *, undelivered: bool = False, limit: int = 200
) -> list[DeliveryView]:
    """Messages to webhooks and notification services, newest first."""
    query = select(outbox, _DELIVERY_STATE)
    if undelivered:
        query = query.where(outbox.c.delivered.is_(None))
    rows = _newest_rows(store, outbox, query, model, limit)
    return [DeliveryView.model_validate(row, from_attributes=True) for row in rows]


_DELIVERY_STATE = case(
    (outbox.c.delivered.is_not(None), "delivered"), (outbox.c.given_up, "given up"), else_="waiting"
).label("state")


def _newest_rows(
    store: Store, table: Table, query: Select[Any], model: str | None, limit: int
) -> Sequence[Any]:
    """The newest rows of a table of alerts or messages with the names of their models; of one model, if named."""
    query = query.add_columns(models.c.name.label("model")).join(models, models.c.id == table.c.model_id)
    with store.read() as connection:
        if model is not None:
            query = query.where(table.c.model_id == model_row(connection, model).id)
        return connection.execute(query.order_by(table.c.id.desc()).limit(limit)).all()


def get_report(
    store: Store, model: str, window: str, revision: int | None = None, format: str = "html"
) -> str:
    """The report as `html`, `md` or `json`: the newest up to that revision, since labels bring none of their own."""
    view = get_window(store, model, window, revision)
    with store.read() as connection:
        which = (windows.c.model_id == model_row(connection, model).id, windows.c.name == window)
        row = connection.execute(
            select(reports.c.body)
            .join(revisions, revisions.c.id == reports.c.revision_id)
            .join(windows, windows.c.id == revisions.c.window_id)
            .where(*which, revisions.c.revision <= view.revision)
            .order_by(revisions.c.revision.desc())
        ).first()
    if row is None:
        why = view.reason or "it has not been estimated yet"
        raise ApiProblem(404, "no-report", f"window {window!r} has no report: {why}")
    with _rendering:
        return _rendered(row.body, format)


_rendering = threading.Lock()


@lru_cache(maxsize=32)
def _rendered(body: bytes, format: str) -> str:
    """Drawn once for all who look at it: it takes a good part of a second."""
    return Report(json.loads(zlib.decompress(body))).render(format)
