"""Evaluation of a model's alerts, every minute and after every estimate, and housekeeping."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from shiftgauge.monitor.alerts.rules import (
    AlertMessage,
    Finding,
    confirmation,
    limit_of,
    not_estimated,
    silence,
    window_findings,
)
from shiftgauge.monitor.db import queue
from shiftgauge.monitor.db.audit import LOCAL, record_change
from shiftgauge.monitor.db.erasure import expire_erasures, retention_cutoff
from shiftgauge.monitor.db.models import model_row
from shiftgauge.monitor.db.queue import Job, LostLease
from shiftgauge.monitor.db.schema import alerts, batches, keys, models, outbox, windows
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.db.windows import WindowView, list_windows
from shiftgauge.monitor.periods import DAY, HOUR, SECOND, iso, now_us
from shiftgauge.monitor.problems import unknown
from shiftgauge.monitor.settings import Settings, stored_settings
from shiftgauge.times import rows_per_window

EVERY = 60 * SECOND
#: An Idempotency-Key is remembered for so long; the hash of an erased id for so long.
KEY_LIFETIME, ERASED = 7 * DAY, DAY
#: Small batches are compacted when there are so many, or so many rows of them;
#: SHIFTGAUGE_COMPACT_BATCHES sets another number of batches.
COMPACT_FROM_BATCHES, COMPACT_FROM_ROWS = 500, 500_000


def evaluate_alerts(store: Store, job: Job) -> None:
    """Fire and resolve alerts, enqueue compaction and erasure where they are due, and run again in a minute."""
    now = now_us()
    with store.read() as connection:
        row = connection.execute(select(models).where(models.c.id == job.subject)).first()
        if row is not None:
            settings = stored_settings(row.settings)
            overdue = _overdue(connection, row.id, settings, now)
    if row is not None:
        current = _current_windows(store, row, settings)
        findings = [
            *(
                one
                for name, views in current.items()
                for one in window_findings(name, views, settings.limits)
            ),
            silence(settings.limits, row.last_row, row.created, now),
            not_estimated(settings.limits, overdue, now),
        ]
    with store.write() as connection:
        if row is not None:
            _resolve_obsolete(connection, row, settings, list(current), now)
            for finding in findings:
                if finding is not None:
                    _apply(connection, row, settings, finding, now)
            _post_suppressed(connection, row, settings, now)
            _housekeeping(connection, row, settings, now)
        if not queue.finish(connection, job, again=now + EVERY if row is not None else None):
            raise LostLease


@dataclass(frozen=True)
class OverdueWindow:
    """A closed window without an estimate."""

    name: str
    due: int
    reason: str | None


def _current_windows(store: Store, row: Any, settings: Settings) -> dict[str, list[WindowView]]:
    """Estimated windows by version, newest first; without versions that another one has replaced."""
    by_version: dict[str, list[WindowView]] = {}
    for window in reversed(list_windows(store, row.name, limit=50 + 4 * settings.limits.windows)):
        if window.state == "estimated":
            by_version.setdefault(window.version, []).append(window)
    newest = max((views[0].start for views in by_version.values()), default=0)
    return {
        version: views
        for version, views in by_version.items()
        if views[0].start == newest or views[0].end > newest
    }


def _overdue(connection: Connection, model_id: int, settings: Settings, now: int) -> list[OverdueWindow]:
    lateness = int(settings.lateness_minutes * 60 * SECOND)
    query = (
        select(windows)
        .where(windows.c.model_id == model_id, windows.c.state != "estimated")
        .order_by(windows.c.low)
        .limit(1000)
    )
    out = []
    for row in connection.execute(query):
        by_rows = rows_per_window(row.spec) is not None
        if by_rows and row.rows < row.end - row.start:
            continue
        due = row.high if by_rows else row.end + lateness
        if due < now:
            out.append(OverdueWindow(row.name, due, row.reason))
    return out


def _resolve_obsolete(
    connection: Connection, row: Any, settings: Settings, current: list[str], now: int
) -> None:
    """Resolve alerts that no rule speaks of any more; what exceeds a changed limit fires anew."""
    firing = select(alerts).where(alerts.c.model_id == row.id, alerts.c.resolved.is_(None))
    for alert in connection.execute(firing).all():
        limit = limit_of(settings.limits, alert.rule)
        if limit is None:
            _resolve(connection, row, settings, alert, "the limit was removed", now)
        elif limit != alert.limit:
            _resolve(connection, row, settings, alert, "the limit was changed", now)
        elif alert.version is not None and current and alert.version not in current:
            reason = f"another version has newer windows than {alert.version}"
            _resolve(connection, row, settings, alert, reason, now)


def _apply(connection: Connection, row: Any, settings: Settings, finding: Finding, now: int) -> None:
    """Fire, confirm or resolve, each once: an alert that fires already stays as it is."""
    which = [alerts.c.model_id == row.id, alerts.c.rule == finding.rule, alerts.c.resolved.is_(None)]
    which.append(
        alerts.c.version.is_(None) if finding.version is None else alerts.c.version == finding.version
    )
    alert = connection.execute(select(alerts).where(*which)).first()
    if finding.state == "resolve" and alert is not None:
        _resolve(connection, row, settings, alert, finding.message, now)
    elif finding.state == "fire" and alert is None:
        made = insert(alerts).values(
            model_id=row.id,
            version=finding.version,
            rule=finding.rule,
            limit=finding.limit,
            value=finding.value,
            message=finding.message,
            window=finding.window,
            fired=now,
            confirmed=finding.confirmed,
            **_mute(connection, row.id, finding),
        )
        alert = connection.execute(made.returning(alerts)).one()
        _post(connection, row, settings, alert, "fired", finding.message, now)
    elif alert is not None and finding.confirmed and not alert.confirmed:
        changed = update(alerts).where(alerts.c.id == alert.id).values(confirmed=True)
        alert = connection.execute(changed.returning(alerts)).one()
        _post(connection, row, settings, alert, "confirmed", finding.message, now)


def _mute(connection: Connection, model_id: int, finding: Finding) -> dict[str, Any]:
    """Until when the last alert of this rule was muted, and by whom: an alert that fires anew stays muted."""
    which = [alerts.c.model_id == model_id, alerts.c.rule == finding.rule]
    which.append(
        alerts.c.version.is_(None) if finding.version is None else alerts.c.version == finding.version
    )
    query = select(alerts.c.muted_until, alerts.c.muted_by).where(*which).order_by(alerts.c.id.desc())
    last = connection.execute(query.limit(1)).first()
    return {} if last is None else dict(last._mapping)


def _resolve(
    connection: Connection, row: Any, settings: Settings, alert: Any, resolution: str, now: int
) -> None:
    changed = update(alerts).where(alerts.c.id == alert.id).values(resolved=now, resolution=resolution)
    connection.execute(changed)
    _post(connection, row, settings, alert, "resolved", resolution, now)


def _post(
    connection: Connection, row: Any, settings: Settings, alert: Any, event: str, message: str, now: int
) -> None:
    """Put a message for each receiver into the outbox, in the transaction of the alert: both are kept, or neither.

    While the alert is muted, the message waits; if nobody was told that it fired, nor is anybody told that it resolved.
    """
    if alert.suppressed is not None or (alert.muted_until is not None and alert.muted_until > now):
        waits = event if alert.suppressed != "fired" else None if event == "resolved" else "fired"
        connection.execute(update(alerts).where(alerts.c.id == alert.id).values(suppressed=waits))
        return
    receivers = [*([] if settings.webhook is None else [None]), *(one.name for one in settings.notify)]
    if event != "resolved" and alert.confirmed is not None:
        message = f"{message} ({confirmation(alert.confirmed)})"
    columns = ("version", "rule", "limit", "value", "window", "confirmed")
    body = AlertMessage(
        event=event,
        alert=alert.id,
        model=row.name,
        message=message,
        time=str(iso(now)),
        **{name: getattr(alert, name) for name in columns},
    )
    kept = {
        "model_id": row.id,
        "alert_id": alert.id,
        "event": event,
        "body": body.model_dump_json(),
        "created": now,
        "due": now,
    }
    for receiver in receivers:
        made = insert(outbox).values(**kept, destination=receiver)
        number = connection.execute(made.returning(outbox.c.id)).scalar_one()
        queue.enqueue(connection, "deliver", [number], now)


def _post_suppressed(connection: Connection, row: Any, settings: Settings, now: int) -> None:
    """Post the messages whose mute has ended."""
    which = [alerts.c.model_id == row.id, alerts.c.suppressed.is_not(None), alerts.c.muted_until <= now]
    for waiting in connection.execute(select(alerts).where(*which).order_by(alerts.c.id)).all():
        sent = update(alerts).where(alerts.c.id == waiting.id).values(suppressed=None)
        alert = connection.execute(sent.returning(alerts)).one()
        message = alert.message if alert.resolved is None else alert.resolution
        _post(connection, row, settings, alert, waiting.suppressed, message, now)


def _housekeeping(connection: Connection, row: Any, settings: Settings, now: int) -> None:
    connection.execute(delete(keys).where(keys.c.model_id == row.id, keys.c.created < now - KEY_LIFETIME))
    if row.last_row is not None and row.last_row > now:  # the clock went back: silence counts from here
        connection.execute(update(models).where(models.c.id == row.id).values(last_row=now))
    loose = connection.execute(
        select(func.count(), func.coalesce(func.sum(batches.c.rows), 0)).where(
            batches.c.model_id == row.id, batches.c.compacted.is_(False)
        )
    ).one()
    if (
        loose[0] >= int(os.environ.get("SHIFTGAUGE_COMPACT_BATCHES", COMPACT_FROM_BATCHES))
        or loose[1] >= COMPACT_FROM_ROWS
    ):
        queue.enqueue(connection, "compact", [row.id], now)
    expire_erasures(connection, row.id, now - ERASED)
    # An hour's rows at a time: batches at the edge are rewritten once an hour, not every minute.
    before = retention_cutoff(settings, now)
    if before is not None and (row.erased_before is None or row.erased_before < before - HOUR):
        queue.enqueue(connection, "erase", [row.id], now)


def change_alert(
    store: Store,
    model: str,
    number: int,
    *,
    acknowledged: bool | None = None,
    muted_until: int | None = None,
    comment: str | None = None,
    who: str = LOCAL,
) -> None:
    """Acknowledge, mute or comment on an alert; what is None stays.

    Args:
        store: where.
        model: whose alert.
        number: of the alert.
        acknowledged: whether somebody has seen it.
        muted_until: no messages before this time, also if the alert resolves and fires again; a past time unmutes.
            What waited is sent then.
        comment: replaces the one before.
        who: the name that is shown beside it.
    """
    with store.write() as connection:
        row = model_row(connection, model)
        mine = alerts.c.model_id == row.id
        query = select(alerts).where(mine, alerts.c.id == number).with_for_update()
        alert = connection.execute(query).first()
        if alert is None:
            recent = select(alerts.c.id).where(mine).order_by(alerts.c.id.desc()).limit(5)
            known = [str(other) for other in connection.execute(recent).scalars()]
            raise unknown("alert", str(number), known)
        # The name beside each is that of who changed it: a form sends back what it showed, too.
        values: dict[str, Any] = {}
        if acknowledged is not None and acknowledged != (alert.acknowledged is not None):
            values |= {"acknowledged": now_us() if acknowledged else None, "acknowledged_by": who}
        if muted_until is not None:
            values |= {"muted_until": muted_until, "muted_by": who}
        if comment is not None and (comment or None) != alert.comment:
            values |= {"comment": comment or None, "comment_by": who}
        if values:
            connection.execute(update(alerts).where(alerts.c.id == number).values(**values))
        queue.enqueue(connection, "alerts", [row.id], now_us())
        until = iso(muted_until)
        record_change(
            connection,
            who,
            "alert",
            model,
            alert=number,
            acknowledged=acknowledged,
            muted_until=until,
            comment=comment,
        )
