"""Evaluation of a model's alerts, every minute and after every estimate, and housekeeping."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, or_, select, update

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
from shiftgauge.monitor.db.queue import Job
from shiftgauge.monitor.db.schema import alerts, batches, jobs, keys, models, outbox, windows
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
        row = connection.execute(select(models).where(models.c.id == job.subject)).one()
        settings = stored_settings(row.settings)
        overdue = _overdue(connection, row.id, settings, now)
    limits = settings.limits
    current = _current_windows(store, row.name, limits.windows)
    findings = [
        *(finding for name, views in current.items() for finding in window_findings(name, views, limits)),
        silence(limits, row.last_row, row.created, now),
        not_estimated(limits, overdue, now),
    ]
    with store.write() as connection:
        model = ModelAlerts(connection, row, settings, now)
        model.resolve_obsolete(list(current))
        for finding in findings:
            if finding is not None:
                model.apply(finding)
        model.post_suppressed()
        _housekeeping(connection, row, settings, now)
        queue.finish(connection, job, again=now + EVERY)


@dataclass(frozen=True)
class OverdueWindow:
    """A closed window without an estimate."""

    name: str
    due: int
    reason: str | None


def _current_windows(store: Store, model: str, in_a_row: int) -> dict[str, list[WindowView]]:
    """Estimated windows by version, newest first; without versions that another one has replaced.

    Of versions side by side one is estimated first: another one whose newest window ends where that one begins is not
    replaced, its next window is still to come.
    """
    by_version: dict[str, list[WindowView]] = {}
    for window in reversed(list_windows(store, model, estimated=True, limit=50 + 4 * in_a_row)):
        if window.state == "estimated":
            by_version.setdefault(window.version, []).append(window)
    newest = max((views[0].start for views in by_version.values()), default=0)
    return {version: views for version, views in by_version.items() if views[0].end >= newest}


def _overdue(connection: Connection, model_id: int, settings: Settings, now: int) -> list[OverdueWindow]:
    lateness = int(settings.lateness_minutes * 60 * SECOND)
    asked = and_(jobs.c.kind == "estimate", jobs.c.subject == windows.c.id)
    query = (
        select(windows, jobs.c.due)
        .outerjoin(jobs, asked)
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
        if row.state == "open" and row.due is not None:  # its rows may have come long after it ended
            due = max(due, row.due)
        if due < now:
            out.append(OverdueWindow(row.name, due, row.reason))
    return out


class ModelAlerts:
    """The alerts of a model within a transaction."""

    def __init__(self, connection: Connection, row: Any, settings: Settings, now: int) -> None:
        self.connection, self.row, self.settings, self.now = connection, row, settings, now

    def resolve_obsolete(self, current: list[str]) -> None:
        """Resolve alerts that no rule speaks of any more; what exceeds a changed limit fires anew."""
        firing = select(alerts).where(alerts.c.model_id == self.row.id, alerts.c.resolved.is_(None))
        for alert in self.connection.execute(firing).all():
            limit = limit_of(self.settings.limits, alert.rule)
            if limit is None:
                self._resolve(alert, "the limit was removed")
            elif limit != alert.limit:
                self._resolve(alert, "the limit was changed")
            elif alert.version is not None and current and alert.version not in current:
                self._resolve(alert, f"another version has newer windows than {alert.version}")

    def apply(self, finding: Finding) -> None:
        """Fire, confirm or resolve, each once: an alert that fires already stays as it is."""
        newest = select(alerts).where(same_rule(self.row.id, finding)).order_by(alerts.c.id.desc()).limit(1)
        last = self.connection.execute(newest).first()
        alert = None if last is None or last.resolved is not None else last
        if finding.state == "resolve" and alert is not None:
            self._resolve(alert, finding.message)
        elif finding.state == "fire" and alert is None:
            values = {name: value for name, value in vars(finding).items() if name != "state"}
            if last is not None:  # an alert that fires anew stays muted
                values |= {"muted_until": last.muted_until, "muted_by": last.muted_by}
            made = insert(alerts).values(model_id=self.row.id, fired=self.now, **values)
            alert = self.connection.execute(made.returning(alerts)).one()
            self._post(alert, "fired", finding.message)
        elif alert is not None and finding.confirmed and not alert.confirmed:
            self._post(self._change(alert, confirmed=True), "confirmed", finding.message)

    def post_suppressed(self) -> None:
        """Post the messages whose mute has ended."""
        mine = alerts.c.model_id == self.row.id
        query = select(alerts).where(mine, alerts.c.suppressed.is_not(None), alerts.c.muted_until <= self.now)
        for waiting in self.connection.execute(query.order_by(alerts.c.id)).all():
            alert = self._change(waiting, suppressed=None)
            message = alert.message if alert.resolved is None else alert.resolution
            self._post(alert, waiting.suppressed, message)

    def _change(self, alert: Any, **values: Any) -> Any:
        changed = update(alerts).where(alerts.c.id == alert.id).values(**values)
        return self.connection.execute(changed.returning(alerts)).one()

    def _resolve(self, alert: Any, resolution: str) -> None:
        self._post(self._change(alert, resolved=self.now, resolution=resolution), "resolved", resolution)

    def _post(self, alert: Any, event: str, message: str) -> None:
        """Put a message for each receiver into the outbox, in the transaction of the alert: both are kept, or neither.

        While the alert is muted, the message waits; if nobody was told that it fired, nor is anybody told that it
        resolved.
        """
        if alert.suppressed is not None or (alert.muted_until is not None and alert.muted_until > self.now):
            waits = event if alert.suppressed != "fired" else None if event == "resolved" else "fired"
            self._change(alert, suppressed=waits)
            return
        if event != "resolved" and alert.confirmed is not None:
            message = f"{message} ({confirmation(alert.confirmed)})"
        columns = ("version", "rule", "limit", "value", "window", "confirmed")
        body = AlertMessage(
            event=event,
            alert=alert.id,
            model=self.row.name,
            message=message,
            time=str(iso(self.now)),
            **{name: getattr(alert, name) for name in columns},
        ).model_dump_json()
        receivers = [one.name for one in self.settings.notify]
        for receiver in [*([] if self.settings.webhook is None else [None]), *receivers]:
            made = insert(outbox).values(
                model_id=self.row.id,
                alert_id=alert.id,
                destination=receiver,
                event=event,
                body=body,
                created=self.now,
                due=self.now,
            )
            number = self.connection.execute(made.returning(outbox.c.id)).scalar_one()
            queue.enqueue(self.connection, "deliver", [number], self.now)


def same_rule(model_id: int, alert: Any) -> ColumnElement[bool]:
    """The alerts of this model with the rule and version of an alert."""
    return and_(alerts.c.model_id == model_id, alerts.c.rule == alert.rule, alerts.c.version == alert.version)


def _housekeeping(connection: Connection, row: Any, settings: Settings, now: int) -> None:
    connection.execute(delete(keys).where(keys.c.model_id == row.id, keys.c.created < now - KEY_LIFETIME))
    if row.last_row is not None and row.last_row > now:  # the clock went back: silence counts from here
        connection.execute(update(models).where(models.c.id == row.id).values(last_row=now))
    loose = select(func.count(), func.coalesce(func.sum(batches.c.rows), 0)).where(
        batches.c.model_id == row.id, batches.c.compacted.is_(False)
    )
    count, rows = connection.execute(loose).one()
    most = int(os.environ.get("SHIFTGAUGE_COMPACT_BATCHES", COMPACT_FROM_BATCHES))
    if count >= most or rows >= COMPACT_FROM_ROWS:
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
        acknowledged: whether somebody has seen it.
        muted_until: no messages of its rule before this time, also if it resolves and fires again; a past time
            unmutes. What waited, of older alerts of this rule too, is sent then.
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
        if comment is not None and (comment or None) != alert.comment:
            values |= {"comment": comment or None, "comment_by": who}
        if values:
            connection.execute(update(alerts).where(alerts.c.id == number).values(**values))
        if muted_until is not None:
            later_or_waiting = or_(alerts.c.id >= number, alerts.c.suppressed.is_not(None))
            mute = update(alerts).where(same_rule(row.id, alert), later_or_waiting)
            connection.execute(mute.values(muted_until=muted_until, muted_by=who))
        queue.enqueue(connection, "alerts", [row.id], now_us())
        detail = {"acknowledged": acknowledged, "muted_until": iso(muted_until), "comment": comment}
        record_change(connection, who, "alert", model, alert=number, **detail)
