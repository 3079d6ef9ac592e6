"""Label requests: which rows of a window to label, chosen at random so that their labels narrow its range."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field
from sqlalchemy import Connection, insert, select

from shiftgauge.errors import InputError
from shiftgauge.inference import label_plan
from shiftgauge.monitor.db.audit import LOCAL, record_change
from shiftgauge.monitor.db.erasure import erased_since
from shiftgauge.monitor.db.ids import LatestLabels
from shiftgauge.monitor.db.models import model_row, stored_source
from shiftgauge.monitor.db.rows import check_types, lock_model, numbers, window_rows
from shiftgauge.monitor.db.schema import models, plans, versions, windows
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.db.windows import get_window
from shiftgauge.monitor.estimate.answer import target_of
from shiftgauge.monitor.estimate.labels import LabelDesign, label_design
from shiftgauge.monitor.periods import now_us
from shiftgauge.monitor.problems import ApiProblem, conflict, invalid
from shiftgauge.monitor.records import Record
from shiftgauge.monitor.tables import to_arrow_stream
from shiftgauge.samples import Source

#: How many rows are picked unless another number is asked for.
LABELS = 20


class RequestView(Record):
    """A row to be labelled."""

    id: str
    window: str
    error_probability: float = Field(description="1 - confidence, calibrated on the source")


def list_requests(store: Store, model: str, window: str | None = None) -> list[RequestView]:
    """The rows that a window's plan picked and that have no label yet; by default of the newest estimated window."""
    row = _window(store, model, window)
    with store.read() as connection:
        design = label_design(connection, row.id)
        if design is None:
            raise ApiProblem(
                404,
                "no-label-requests",
                f"no rows of window {row.name!r} were requested yet; POST to this address to pick some",
            )
        return _open(store, connection, row, design)


def request_labels(
    store: Store, model: str, window: str | None = None, labels: int | None = None, *, who: str = LOCAL
) -> list[RequestView]:
    """Pick rows of a window (by default the newest that is estimated) to be labelled, by `shiftgauge.label_plan`.

    Every row has the same chance, so what comes back is a random sample. A window has one plan.

    Args:
        labels: how many to pick; 20 by default, or all rows if there are fewer.
    """
    row = _window(store, model, window)
    again = conflict(f"rows of window {row.name!r} were already requested: GET this address to see them")
    with store.read() as connection:
        if label_design(connection, row.id) is not None:
            raise again
        seq = connection.execute(select(models.c.seq).where(models.c.id == row.model_id)).scalar_one()
        version = connection.execute(select(versions).where(versions.c.id == row.version_id)).one()
        rows = window_rows(connection, row)
    if version.source_id is None or rows is None:
        raise ApiProblem(
            409, "no-source", f"window {row.name!r} cannot be planned: it has no rows or no source yet"
        )
    design = _plan(stored_source(store, version.source_id)[0], rows, version.kind, labels)
    with store.write() as connection:
        # Locked, so that of two who ask at once one is refused, and that what is erased meanwhile is not kept.
        lock_model(connection, row.model_id)
        if label_design(connection, row.id) is not None:
            raise again
        gone = erased_since(connection, row.model_id, seq)
        table = design.table.filter(~np.isin(design.column("key"), gone))
        values = {"rows": design.rows, "payload": to_arrow_stream(table)}
        record_change(connection, who, "label-requests", model, window=row.name, labels=table.num_rows)
        connection.execute(insert(plans).values(window_id=row.id, created=now_us(), **values))
    return list_requests(store, model, row.name)


def _plan(source: Source, rows: Any, kind: str, labels: int | None) -> LabelDesign:
    count = rows.num_rows
    if labels is not None and labels > count:
        raise invalid(f"labels={labels}: wanted 1 to {count:,}, the window's rows")
    try:
        plan = label_plan(source, target_of(rows, kind, source.classes), labels or min(LABELS, count))
    except InputError as problem:
        raise invalid(str(problem)) from None
    columns = {"key": numbers(rows, "key")[plan.rows], "error_probability": plan.error_probability}
    table = pa.table(columns)
    check_types(table)
    return LabelDesign(table, count)


@lru_cache(maxsize=64)
def _latest_labels(store: Store, model_id: int) -> tuple[threading.Lock, LatestLabels]:
    """The labels of a model, kept between requests: each reads only those that came since."""
    return threading.Lock(), LatestLabels()


def _open(store: Store, connection: Connection, window: Any, design: LabelDesign) -> list[RequestView]:
    """The picked rows without a label; their ids are looked up in the rows themselves, the plan has only hashes."""
    rows = window_rows(connection, window)
    if rows is None:
        return []
    keys, probability = design.column("key"), design.column("error_probability")
    lock, latest = _latest_labels(store, window.model_id)
    with lock:
        latest.follow(connection, window.model_id)
        known = latest.find(keys) >= 0
    ids = rows.column("id")
    place = {key: i for i, key in enumerate(numbers(rows, "key").tolist())}
    return [
        RequestView(id=ids[place[key]].as_py(), window=window.name, error_probability=float(probability[i]))
        for i, key in enumerate(keys.tolist())
        if key in place and not known[i]
    ]


def _window(store: Store, model: str, name: str | None) -> Any:
    """The row of a window of this name, or of the newest that is estimated."""
    with store.read() as connection:
        mine = select(windows).where(windows.c.model_id == model_row(connection, model).id)
        if name is None:
            newest = mine.where(windows.c.state == "estimated").order_by(windows.c.low.desc()).limit(1)
            row = connection.execute(newest).first()
        else:
            row = connection.execute(mine.where(windows.c.name == name)).first()
    if row is None and name is not None:
        get_window(store, model, name)  # says which names are known
    if row is None:
        raise ApiProblem(
            409, "no-window", f"model {model!r} has no estimated window yet; try again when one has closed"
        )
    return row
