"""What users see of models, alerts, webhook messages and reports: typed records, read from the tables."""

from __future__ import annotations

import json
import threading
import zlib
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, func, select

from shiftgauge.monitor.alerts.rules import confirmation
from shiftgauge.monitor.db.models import format_of, model_row, unknown_model
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
from shiftgauge.monitor.periods import iso
from shiftgauge.monitor.problems import ApiProblem
from shiftgauge.monitor.settings import from_stored
from shiftgauge.reports import Report

#: The rise over the source's error that is offered as a limit, in percentage points.
SUGGESTED = 5


@dataclass(frozen=True)
class VersionView:
    """A version of a model.

    Attributes:
        name: as given.
        rows: how many rows were ever accepted.
        kind: `"logits"` or `"probs"`, as its rows come; None before the first.
        k: how many classes; None where nobody has said yet.
        classes: their names, or None where they are numbered.
        source_rows, source_error: of its labelled source; None where there is none yet.
        source_created: when that came.
    """

    name: str
    rows: int
    kind: str | None
    k: int | None
    classes: tuple[str, ...] | None
    source_rows: int | None
    source_error: float | None
    source_created: int | None

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


@dataclass(frozen=True)
class ModelView:
    """A model at a glance.

    Attributes:
        name: as given.
        created: when it was made.
        state: the most urgent of `"alert"` (one is firing), `"waiting"` (windows wait, see `reason`), `"empty"`
            (no rows yet), `"collecting"` (rows, but no window has closed), `"no-limits"` (the error has no limit)
            and `"ok"` (within its limits).
        reason: why, in one line; None for ok.
        versions: newest first.
        rows: ever accepted.
        last_row: when the last one arrived; None before the first.
        firing: how many alerts are firing.
        waiting: how many closed windows have no estimate.
        latest: the newest estimated window of the version whose rows are newest, or None.
    """

    name: str
    created: int
    state: str
    reason: str | None
    versions: tuple[VersionView, ...]
    rows: int
    last_row: int | None
    firing: int
    waiting: int
    latest: WindowView | None

    def source_error(self, version: str | None = None) -> float | None:
        """The error of the newest source, of one version or of all."""
        named = [v for v in self.versions if version in (None, v.name)]
        return next((v.source_error for v in named if v.source_error is not None), None)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        out = {**vars(self), "versions": [v.to_dict() for v in self.versions]}
        out["latest"] = self.latest.to_dict() if self.latest else None
        return out


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
        firing = _count(connection, alerts, ids, alerts.c.resolved.is_(None))
        waiting = _count(connection, windows, ids, windows.c.state.in_(["waiting", "failed"]))
        reasons = _reasons(connection, ids)
    return [
        _model_view(
            row, by_model[row.id], latest.get(row.id), firing.get(row.id, 0), waiting.get(row.id, 0), reasons
        )
        for row in rows
    ]


def get_model(store: Store, name: str) -> ModelView:
    """One model; raises a problem (404) where there is none."""
    views = list_models(store, [name])
    if not views:
        with store.read() as connection:
            raise unknown_model(connection, name)
    return views[0]


def _version_views(connection: Connection, ids: list[int]) -> dict[int, tuple[VersionView, ...]]:
    joined = versions.outerjoin(sources, versions.c.source_id == sources.c.id)
    columns = (
        versions,
        sources.c.rows.label("source_rows"),
        sources.c.error,
        sources.c.created.label("came"),
    )
    query = (
        select(*columns)
        .select_from(joined)
        .where(versions.c.model_id.in_(ids))
        .order_by(versions.c.id.desc())
    )
    out: dict[int, tuple[VersionView, ...]] = dict.fromkeys(ids, ())
    for row in connection.execute(query):
        form = format_of(row)
        view = VersionView(
            row.name, row.rows, row.kind, row.k, form.classes, row.source_rows, row.error, row.came
        )
        out[row.model_id] = (*out[row.model_id], view)
    return out


def _count(connection: Connection, table: Any, ids: list[int], which: Any) -> dict[int, int]:
    query = select(table.c.model_id, func.count()).where(table.c.model_id.in_(ids), which)
    return {row[0]: row[1] for row in connection.execute(query.group_by(table.c.model_id))}


def _reasons(connection: Connection, ids: list[int]) -> dict[int, str]:
    """Why the newest window that waits does so, by model."""
    query = (
        select(windows.c.model_id, windows.c.reason)
        .where(windows.c.model_id.in_(ids), windows.c.state.in_(["waiting", "failed"]))
        .order_by(windows.c.low)
    )
    return {row.model_id: row.reason for row in connection.execute(query)}


def _model_view(
    row: Any,
    version_views: tuple[VersionView, ...],
    latest: WindowView | None,
    firing: int,
    waiting: int,
    reasons: dict[int, str],
) -> ModelView:
    total = sum(v.rows for v in version_views)
    limits = from_stored(json.loads(row.settings)).limits
    state, reason = "ok", None
    if firing:
        state, reason = "alert", f"{firing} alert{'s' * (firing > 1)} firing"
    elif waiting and row.id in reasons:
        state, reason = "waiting", reasons[row.id]
    elif not total:
        state, reason = "empty", "no rows yet"
    elif latest is None:
        state, reason = "collecting", "no window has closed yet"
    elif not limits.on_error:
        state, reason = "no-limits", "no limits set" if limits.none else "no limit on the error set"
    return ModelView(
        row.name, row.created, state, reason, version_views, total, row.last_row, firing, waiting, latest
    )


@dataclass(frozen=True)
class AlertView:
    """An alert.

    Attributes:
        id: its number.
        model, version: whose; version is None for rules about the whole model.
        rule: `error`, `rise`, `width`, `silence` or `not-estimated`.
        segment: always None today: limits are on whole windows.
        limit, value: what was allowed, and what was found when it fired.
        message: one sentence.
        window: the name of the window that made it fire, or None.
        fired, resolved: times; resolved is None while it fires.
        resolution: one sentence, or None.
        confirmed: whether the range's lower end or labels exceed the limit too; None for rules that are not about
            an error.
    """

    id: int
    model: str
    version: str | None
    rule: str
    segment: str | None
    limit: float | None
    value: float | None
    message: str
    window: str | None
    fired: int
    resolved: int | None
    resolution: str | None
    confirmed: bool | None

    @property
    def firing(self) -> bool:
        """Whether it still fires."""
        return self.resolved is None

    @property
    def confirmation(self) -> str | None:
        """Whether it is confirmed, in words; None for rules that are not about an error."""
        return None if self.confirmed is None else confirmation(self.confirmed)

    def to_dict(self) -> dict[str, Any]:
        """As plain values; times in ISO 8601."""
        times = {"fired": iso(self.fired), "resolved": iso(self.resolved)}
        return {**vars(self), **times, "firing": self.firing, "confirmation": self.confirmation}


@dataclass(frozen=True)
class DeliveryView:
    """A message to a webhook.

    Attributes:
        id: its number.
        model, alert_id: whose.
        event: `fired`, `confirmed` or `resolved`.
        state: `delivered`, `waiting` (will be tried at `due`) or `given up`.
        attempts: how often it was tried.
        problem: what went wrong last, or None.
        created, due, delivered: times.
        body: the message, as plain values.
    """

    id: int
    model: str
    alert_id: int
    event: str
    state: str
    attempts: int
    problem: str | None
    created: int
    due: int
    delivered: int | None
    body: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As plain values; times in ISO 8601."""
        times = {name: iso(getattr(self, name)) for name in ("created", "due", "delivered")}
        return {**vars(self), **times}


def list_alerts(
    store: Store, model: str | None = None, *, firing: bool | None = None, limit: int = 200
) -> list[AlertView]:
    """Alerts, newest first; of one model, and only those that fire (or not), if said."""
    wanted = select(alerts, models.c.name.label("model")).join(models, models.c.id == alerts.c.model_id)
    if firing is not None:
        wanted = wanted.where(alerts.c.resolved.is_(None) if firing else alerts.c.resolved.is_not(None))
    with store.read() as connection:
        if model is not None:
            wanted = wanted.where(alerts.c.model_id == model_row(connection, model).id)
        rows = connection.execute(wanted.order_by(alerts.c.id.desc()).limit(limit)).all()
    return [
        AlertView(**{name: getattr(row, name) for name in AlertView.__dataclass_fields__}) for row in rows
    ]


def list_deliveries(
    store: Store, model: str | None = None, *, undelivered: bool = False, limit: int = 200
) -> list[DeliveryView]:
    """Messages to webhooks, newest first."""
    wanted = select(outbox, models.c.name.label("model")).join(models, models.c.id == outbox.c.model_id)
    if undelivered:
        wanted = wanted.where(outbox.c.delivered.is_(None))
    with store.read() as connection:
        if model is not None:
            wanted = wanted.where(outbox.c.model_id == model_row(connection, model).id)
        rows = connection.execute(wanted.order_by(outbox.c.id.desc()).limit(limit)).all()
    return [
        DeliveryView(
            row.id,
            row.model,
            row.alert_id,
            row.event,
            "delivered" if row.delivered is not None else "given up" if row.given_up else "waiting",
            row.attempts,
            row.problem,
            row.created,
            row.due,
            row.delivered,
            json.loads(row.body),
        )
        for row in rows
    ]


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
