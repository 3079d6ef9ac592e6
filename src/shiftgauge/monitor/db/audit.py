"""The audit log: who changed what and when, written in the transaction of the change."""

from __future__ import annotations

import json

from pydantic import Field
from sqlalchemy import Connection, insert, select

from shiftgauge.monitor.db.schema import audit
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.periods import now_us
from shiftgauge.monitor.records import Record, Time

#: Who changes something on the command line, or over HTTP while no tokens exist.
LOCAL = "(no token)"


class ChangeView(Record):
    """A change that somebody made."""

    id: int
    time: Time
    who: str = Field(description="the name of the token")
    action: str = Field(
        description="settings, source, erase, label-requests, alert, create-token or revoke-token"
    )
    model: str | None
    detail: dict[str, str | int | float | bool | None] = Field(description="names and numbers, by action")


def record_change(
    connection: Connection, who: str, action: str, model: str | None, **detail: str | float | bool | None
) -> None:
    """Write a change to the log; `detail` must not hold ids of rows or secrets."""
    values = {"time": now_us(), "who": who, "action": action, "model": model, "detail": json.dumps(detail)}
    connection.execute(insert(audit).values(**values))


def list_changes(
    store: Store, models: list[str] | None = None, before: int | None = None, limit: int = 200
) -> list[ChangeView]:
    """Changes, newest first; only of these models, and only those with a smaller number than `before`."""
    query = select(audit)
    if models is not None:
        query = query.where(audit.c.model.in_(models))
    if before is not None:
        query = query.where(audit.c.id < before)
    with store.read() as connection:
        rows = connection.execute(query.order_by(audit.c.id.desc()).limit(limit)).all()
    return [ChangeView(**{**row._mapping, "detail": json.loads(row.detail)}) for row in rows]
