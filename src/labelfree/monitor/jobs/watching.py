"""The watch over a model, every minute and after every estimate: alerts, and the house in order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from labelfree.monitor.clock import now_us
from labelfree.monitor.jobs.rules import Finding, not_estimated, silence, window_findings
from labelfree.monitor.jobs.windows import LostLease
from labelfree.monitor.service.windows import WindowView, list_windows
from labelfree.monitor.settings import Settings, from_stored
from labelfree.monitor.spans import DAY, HOUR, SECOND, iso, rows_in
from labelfree.monitor.store import Store, queue
from labelfree.monitor.store.queue import Job
from labelfree.monitor.store.schema import alerts, batches, keys, models, outbox, windows

EVERY = 60 * SECOND
#: An Idempotency-Key is remembered for so long.
REMEMBERED = 7 * DAY
#: Unsettled batches are put together into a file when there are so many, or so many rows of them.
MANY, MANY_ROWS = 500, 500_000


def watch(store: Store, job: Job) -> None:
    """Fire and resolve alerts, ask for settling and forgetting where they are due, and come again in a minute."""
    now = now_us()
    with store.read() as connection:
        row = connection.execute(select(models).where(models.c.id == job.subject)).first()
        if row is None:
            findings, settings = [], Settings()
        else:
            settings = from_stored(json.loads(row.settings))
            overdue = _overdue(connection, row.id, settings, now)
    if row is not None:
        findings = _findings(store, row, settings, overdue, now)
    with store.write() as connection:
        if row is not None:
            for finding in findings:
                _apply(connection, row, settings, finding, now)
            _house(connection, row, settings, now)
        if not queue.finish(connection, job, again=now + EVERY if row is not None else None):
            raise LostLease


@dataclass(frozen=True)
class Overdue:
    """A closed window without an estimate."""

    name: str
    due: int
    reason: str | None


def _findings(store: Store, row: Any, settings: Settings, overdue: list[Overdue], now: int) -> list[Finding]:
    held = list_windows(store, row.name, limit=50 + 4 * settings.limits.windows)
    by_version: dict[str, list[WindowView]] = {}
    for window in reversed(held):
        if window.state == "estimated":
            by_version.setdefault(window.version, []).append(window)
    out: list[Finding] = []
    newest = max((views[0].start for views in by_version.values()), default=0)
    for version, views in by_version.items():
        found = window_findings(version, views, settings.limits)
        if views[0].start < newest and views[0].end <= newest:
            found = [_superseded(finding) for finding in found]
        out += found
    more = (
        silence(settings.limits, row.last_row, row.created, now),
        not_estimated(settings.limits, overdue, now),
    )
    return out + [finding for finding in more if finding is not None]


def _superseded(finding: Finding) -> Finding:
    """A version that gets no rows any more has nothing to shout about."""
    return Finding(
        finding.rule,
        finding.version,
        "resolve",
        finding.limit,
        finding.value,
        f"another version has newer windows than {finding.version}",
        finding.window,
    )


def _overdue(connection: Connection, model_id: int, settings: Settings, now: int) -> list[Overdue]:
    lateness = int(settings.lateness_minutes * 60 * SECOND)
    held = (
        select(windows)
        .where(windows.c.model_id == model_id, windows.c.state != "estimated")
        .order_by(windows.c.low)
        .limit(1000)
    )
    out = []
    for row in connection.execute(held):
        by_rows = rows_in(row.spec) is not None
        if by_rows and row.rows < row.end - row.start:
            continue
        due = row.high if by_rows else row.end + lateness
        if due < now:
            out.append(Overdue(row.name, due, row.reason))
    return out


def _apply(connection: Connection, row: Any, settings: Settings, finding: Finding, now: int) -> None:
    """Fire, or resolve, once: an alert that fires already stays as it is."""
    which = [alerts.c.model_id == row.id, alerts.c.rule == finding.rule, alerts.c.resolved.is_(None)]
    which.append(
        alerts.c.version.is_(None) if finding.version is None else alerts.c.version == finding.version
    )
    held = connection.execute(select(alerts).where(*which)).first()
    if finding.state == "fire" and held is None:
        made = insert(alerts).values(
            model_id=row.id,
            version=finding.version,
            rule=finding.rule,
            limit=finding.limit,
            value=finding.value,
            message=finding.message,
            window=finding.window,
            fired=now,
        )
        number = connection.execute(made.returning(alerts.c.id)).scalar_one()
        _post(connection, row, settings, number, "fired", finding, now)
    if finding.state == "resolve" and held is not None:
        connection.execute(
            update(alerts).where(alerts.c.id == held.id).values(resolved=now, resolution=finding.message)
        )
        _post(connection, row, settings, held.id, "resolved", finding, now)


def _post(
    connection: Connection,
    row: Any,
    settings: Settings,
    alert_id: int,
    event: str,
    finding: Finding,
    now: int,
) -> None:
    """Put a message into the outbox, in the transaction that fires: it is sent if and only if it fired."""
    if settings.webhook is None:
        return
    body = {
        "event": event,
        "alert": alert_id,
        "model": row.name,
        "version": finding.version,
        "rule": finding.rule,
        "limit": finding.limit,
        "value": finding.value,
        "window": finding.window,
        "message": finding.message,
        "time": iso(now),
    }
    made = insert(outbox).values(
        model_id=row.id, alert_id=alert_id, event=event, body=json.dumps(body), created=now, due=now
    )
    number = connection.execute(made.returning(outbox.c.id)).scalar_one()
    queue.ask(connection, "deliver", [number], now)


def _house(connection: Connection, row: Any, settings: Settings, now: int) -> None:
    connection.execute(delete(keys).where(keys.c.model_id == row.id, keys.c.created < now - REMEMBERED))
    loose = connection.execute(
        select(func.count(), func.coalesce(func.sum(batches.c.rows), 0)).where(
            batches.c.model_id == row.id, batches.c.object.is_(None)
        )
    ).one()
    if loose[0] >= MANY or loose[1] >= MANY_ROWS:
        queue.ask(connection, "settle", [row.id], now)
    if settings.retention_days is not None:
        # An hour's rows at a time: files at the edge are rewritten once an hour, not every minute.
        before = now - int(settings.retention_days * DAY)
        old = select(batches.c.id).where(
            batches.c.model_id == row.id, batches.c.kind == "rows", batches.c.low < before - HOUR
        )
        if connection.execute(old.limit(1)).first() is not None:
            queue.ask(connection, "forget", [row.id], now)
