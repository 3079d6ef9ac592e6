"""Label requests: which rows of a window to label, chosen at random so that their labels narrow its range."""

from __future__ import annotations

import threading
from dataclasses import dataclass
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
from shiftgauge.monitor.db.models import model_row, read_source_bytes
from shiftgauge.monitor.db.rows import check_types, numbers, window_rows
from shiftgauge.monitor.db.schema import models, plans, sources, versions, windows
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.db.windows import get_window
from shiftgauge.monitor.estimate.answer import target_of
from shiftgauge.monitor.estimate.evidence import LabelDesign, label_design
from shiftgauge.monitor.periods import now_us
from shiftgauge.monitor.problems import ApiProblem, conflict, invalid
from shiftgauge.monitor.records import Record
from shiftgauge.monitor.tables import to_arrow_stream

#: How many rows are picked unless another number is asked for.
LABELS = 20


class RequestView(Record):
    """A row to be labelled."""

    id: str
    window: str
    error_probability: float = Field(description="1 - confidence, calibrated on the source")


def list_requests(store: Store, model: str, window: str | None = None) -> list[RequestView]:
    """The rows that a window's plan picked and that have no label yet; by default of the newest estimated window."""
    name = window or _newest(store, model)
    get_window(store, model, name)

    with store.read() as connection:
        row = _window(connection, model, name)
        design = label_design(connection, row.id)
        if design is None:
            raise ApiProblem(
                404,
                "no-label-requests",
                f"no rows of window {name!r} were requested yet; POST to this address to pick some",
            )
        return _open(store, connection, row, design)


def request_labels(
    store: Store, model: str, window: str | None = None, labels: int | None = None, *, who: str = LOCAL
) -> list[RequestView]:
    """Pick rows of a window (by default the newest that is estimated) to be labelled, by `shiftgauge.label_plan`.

    Every row has the same chance, so what comes back is a random sample. A window has one plan.

    Args:
        store: where.
        model, window: whose rows.
        labels: how many to pick; 20 by default, or all rows if there are fewer.
        who: for the audit log.
    """
    name = window or _newest(store, model)
    get_window(store, model, name)
    again = conflict(f"rows of window {name!r} were already requested: GET this address to see them")

    with store.read() as connection:
        row = _window(connection, model, name)
        if label_design(connection, row.id) is not None:
            raise again
        model_record = model_row(connection, model)
        version = connection.execute(select(versions).where(versions.c.id == row.version_id)).one()
        source = connection.execute(select(sources).where(sources.c.id == version.source_id)).first()
        known = _PlanInputs(row, model_record, version, source, window_rows(connection, row))
    design = _plan(known, labels)
    with store.write() as connection:
        # Locked, so that of two who ask at once one is refused, and that what is erased meanwhile is not kept.
        connection.execute(select(models.c.id).where(models.c.id == known.model.id).with_for_update()).one()
        if label_design(connection, known.window.id) is not None:
            raise again
        gone = erased_since(connection, known.model.id, known.model.seq)
        table = design.table.filter(~np.isin(design.column("key"), gone))
        values = {"labels": table.num_rows, "rows": design.rows, "payload": to_arrow_stream(table)}
        record_change(connection, who, "label-requests", model, window=name, labels=table.num_rows)
        connection.execute(insert(plans).values(window_id=known.window.id, created=now_us(), **values))
    return list_requests(store, model, name)


@dataclass(frozen=True)
class _PlanInputs:
    """What a plan is made from, at one moment."""

    window: Any
    model: Any
    version: Any
    source: Any
    rows: Any


def _plan(known: _PlanInputs, labels: int | None) -> LabelDesign:
    if known.source is None or known.rows is None:
        name = known.window.name
        raise ApiProblem(
            409, "no-source", f"window {name!r} cannot be planned: it has no rows or no source yet"
        )
    count = known.rows.num_rows
    if labels is not None and labels > count:
        raise invalid(f"labels={labels}: wanted 1 to {count:,}, the window's rows")
    source = read_source_bytes(known.source.payload, known.source.ending)
    target = target_of(known.rows, known.version.kind, source.classes)
    try:
        plan = label_plan(source, target, labels or min(LABELS, count))
    except InputError as problem:
        raise invalid(str(problem)) from None
    columns = {"key": numbers(known.rows, "key")[plan.rows], "error_probability": plan.error_probability}
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


def _newest(store: Store, model: str) -> str:
    with store.read() as connection:
        query = select(windows.c.name).where(
            windows.c.model_id == model_row(connection, model).id, windows.c.state == "estimated"
        )
        value = connection.execute(query.order_by(windows.c.low.desc()).limit(1)).scalar()
    if value is None:
        raise ApiProblem(
            409, "no-window", f"model {model!r} has no estimated window yet; try again when one has closed"
        )
    return str(value)


def _window(connection: Connection, model: str, name: str) -> Any:
    query = select(windows).where(
        windows.c.model_id == model_row(connection, model).id, windows.c.name == name
    )
    return connection.execute(query).one()
