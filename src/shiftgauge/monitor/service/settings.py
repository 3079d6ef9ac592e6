"""Settings of a model, read and changed."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import insert, select, update

from shiftgauge.monitor.clock import now_us
from shiftgauge.monitor.problems import conflict
from shiftgauge.monitor.service.models import ensure_model, model_row
from shiftgauge.monitor.settings import Settings, from_stored
from shiftgauge.monitor.spans import next_boundary, rows_in
from shiftgauge.monitor.store import Store, queue
from shiftgauge.monitor.store.schema import models, specs, versions, windows


def get_settings(store: Store, model: str) -> Settings:
    """The settings of a model."""
    with store.read() as connection:
        return from_stored(json.loads(model_row(connection, model).settings))


def put_settings(store: Store, model: str, given: Any) -> Settings:
    """Change what was given, keep the rest; makes the model where it is new.

    A new window length holds from the next moment on at which windows of both lengths begin; windows by number
    of rows and windows by time cannot follow one another.
    """
    with store.write() as connection:
        row = ensure_model(connection, model)
        held = from_stored(json.loads(row.settings))
        new = held.changed(given)
        if new.window != held.window:
            _change_window(connection, row.id, held.window, new.window)
        connection.execute(
            update(models).where(models.c.id == row.id).values(settings=json.dumps(new.to_dict(secrets=True)))
        )
        if new.method != held.method:  # what one method refused, another may estimate
            failed = select(windows.c.id).where(windows.c.model_id == row.id, windows.c.state == "failed")
            queue.ask(connection, "estimate", connection.execute(failed).scalars().all(), now_us())
        queue.ask(connection, "watch", [row.id], now_us())
    return new


def _change_window(connection: Any, model_id: int, old: str, new: str) -> None:
    rows = connection.execute(
        select(versions.c.id).where(versions.c.model_id == model_id, versions.c.rows > 0)
    ).first()
    if rows is None:
        connection.execute(update(specs).where(specs.c.model_id == model_id).values(spec=new))
        return
    if rows_in(old) is not None or rows_in(new) is not None:
        raise conflict(
            f"window {new!r}: rows were already put into windows of {old!r}, and windows by number of rows and "
            "by time cannot follow one another; use another model's name"
        )
    since = next_boundary(old, new, now_us())
    connection.execute(insert(specs).values(model_id=model_id, since=since, spec=new))
