"""Alerts: what fired, what resolved, and which messages could not be delivered."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from shiftgauge.monitor.service.models import model_row
from shiftgauge.monitor.spans import iso
from shiftgauge.monitor.store import Store
from shiftgauge.monitor.store.schema import alerts, models, outbox


def confirmation(confirmed: bool) -> str:
    """What to say of an alert about an error.

    >>> confirmation(False)
    'not confirmed: label some rows'
    """
    return "confirmed" if confirmed else "not confirmed: label some rows"


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
        found = connection.execute(wanted.order_by(alerts.c.id.desc()).limit(limit)).all()
    return [
        AlertView(**{name: getattr(row, name) for name in AlertView.__dataclass_fields__}) for row in found
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
        found = connection.execute(wanted.order_by(outbox.c.id.desc()).limit(limit)).all()
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
        for row in found
    ]
