"""Label requests: which rows of a window to label, and the design that makes their labels count rightly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field
from sqlalchemy import Connection, insert, select

from shiftgauge.errors import InputError
from shiftgauge.inference import Plan, budget
from shiftgauge.monitor.db.audit import LOCAL, record_change
from shiftgauge.monitor.db.erasure import erased_since
from shiftgauge.monitor.db.ids import Keys, LatestLabels
from shiftgauge.monitor.db.models import model_row, read_source_bytes
from shiftgauge.monitor.db.rows import from_arrow_stream, numbers, to_arrow_stream, window_rows
from shiftgauge.monitor.db.schema import models, plans, sources, versions, windows
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.db.windows import get_window
from shiftgauge.monitor.estimate.answer import target_of
from shiftgauge.monitor.periods import now_us
from shiftgauge.monitor.problems import ApiProblem, conflict, invalid
from shiftgauge.monitor.records import Record
from shiftgauge.monitor.settings import from_stored


class RequestView(Record):
    """A row to be labelled."""

    id: str
    window: str
    stratum: int = Field(description="of the sampling design")
    inclusion_probability: float
    error_probability: float = Field(description="how likely it is wrong, by SCOT")


@dataclass(frozen=True)
class LabelDesign:
    """A plan as it was kept: every row it knew by the keyed hash of its id, its stratum, and which were picked."""

    table: Any
    margin: float
    level: float

    def column(self, name: str) -> npt.NDArray[Any]:
        """(n,) a column of the table."""
        return np.asarray(self.table.column(name).to_numpy())

    def placed(self, keys: Keys) -> tuple[Plan | None, npt.NDArray[np.intp]]:
        """The plan over those of its rows that are still there, and where these stand among `keys`.

        Whoever erases a row does not know which rows were picked. So within a stratum the remaining picks are a
        random choice of the remaining rows, and the plan is one for these. None if no picked row remains.
        """
        order = np.argsort(keys, kind="stable")
        mine = self.column("key")
        spots = np.searchsorted(keys, mine, sorter=order)
        place = order[np.minimum(spots, len(keys) - 1)] if len(keys) else np.zeros(len(mine), dtype=np.intp)
        there = keys[place] == mine if len(keys) else np.zeros(len(mine), dtype=bool)
        place = place[there]
        picked = np.flatnonzero(~np.isnan(self.column("inclusion")[there]))
        mass = self.column("mass")[there]
        if not len(picked) or mass.sum() <= 0.0:
            return None, place
        _, stratum = np.unique(self.column("stratum")[there], return_inverse=True)
        stratum = stratum.reshape(-1).astype(np.intp)
        labels, counts = np.bincount(stratum[picked], minlength=stratum.max() + 1), np.bincount(stratum)
        probability, mass = self.column("error_probability")[there], mass / mass.sum()
        plan = Plan(
            rows=picked,
            stratum=stratum,
            inclusion=(labels / counts)[stratum[picked]],
            error_probability=probability,
            mass=mass,
            margin=self.margin,
            level=self.level,
            expected=float(mass @ probability),
            plain=0,
        )
        return plan, place


def label_design(connection: Connection, window_id: int) -> LabelDesign | None:
    """The newest plan of a window, or None."""
    query = select(plans).where(plans.c.window_id == window_id).order_by(plans.c.id.desc())
    row = connection.execute(query.limit(1)).first()
    if row is None:
        return None
    table = from_arrow_stream(row.payload)
    return LabelDesign(table, row.margin, float(table.schema.metadata[b"level"]))


def list_requests(store: Store, model: str, window: str | None = None) -> list[RequestView]:
    """The rows that a window's plan picked and that have no label yet; by default of the newest estimated window."""
    name = window or _newest(store, model)
    get_window(store, model, name)

    def work(connection: Connection) -> list[RequestView]:
        row = _window(connection, model, name)
        design = label_design(connection, row.id)
        if design is None:
            raise ApiProblem(
                404,
                "no-label-requests",
                f"no rows of window {name!r} were requested yet; POST to this address to pick some",
            )
        return _open(store, connection, row, design)

    return store.read_rows(work)


def request_labels(
    store: Store,
    model: str,
    window: str | None = None,
    *,
    labels: int | None = None,
    margin: float | None = None,
    who: str = LOCAL,
) -> list[RequestView]:
    """Pick the rows of a window (by default the newest that is estimated) to be labelled, by the label budget.

    Args:
        store: where.
        model, window: whose rows.
        labels: how many to pick; or
        margin: pick as many as give the error to within +- margin (2 points by default).
        who: for the audit log.

    A window has one plan: a second choice would bias the estimate.
    """
    name = window or _newest(store, model)
    get_window(store, model, name)
    again = conflict(
        f"rows of window {name!r} were already requested; a second choice would bias the estimate: "
        "GET this address to see them"
    )

    def work(connection: Connection) -> _PlanInputs:
        row = _window(connection, model, name)
        if label_design(connection, row.id) is not None:
            raise again
        model_record = model_row(connection, model)
        version = connection.execute(select(versions).where(versions.c.id == row.version_id)).one()
        source = connection.execute(select(sources).where(sources.c.id == version.source_id)).first()
        return _PlanInputs(row, model_record, version, source, window_rows(store, connection, row))

    known = store.read_rows(work)
    design, plan = _plan(store, known, labels, margin)
    with store.write() as connection:
        # Locked, so that of two who ask at once one is refused, and that what is erased meanwhile is not kept.
        connection.execute(select(models.c.id).where(models.c.id == known.model.id).with_for_update()).one()
        if label_design(connection, known.window.id) is not None:
            raise again
        gone = erased_since(connection, known.model.id, known.model.seq)
        table = design.table.filter(~np.isin(design.column("key"), gone))
        values = {"labels": len(plan.rows), "margin": plan.margin, "payload": to_arrow_stream(table)}
        record_change(connection, who, "label-requests", model, window=name, labels=len(plan.rows))
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


def _plan(
    store: Store, known: _PlanInputs, labels: int | None, margin: float | None
) -> tuple[LabelDesign, Plan]:
    if known.source is None or known.rows is None:
        name = known.window.name
        raise ApiProblem(
            409, "no-source", f"window {name!r} cannot be planned: it has no rows or no source yet"
        )
    settings = from_stored(json.loads(known.model.settings))
    path = store.objects.path(known.source.object)
    try:
        plan = budget(
            read_source_bytes(path.read_bytes(), path.suffix[1:]),
            target_of(known.rows, known.version.kind),
            margin=0.02 if margin is None else margin,
            count=labels,
            level=settings.level,
        )
    except InputError as problem:  # what the library calls count is labels here
        raise invalid(str(problem).replace("count ", "labels=", 1)) from None
    return LabelDesign(_table(plan, known.rows), plan.margin, plan.level), plan


def _table(plan: Plan, rows: Any) -> Any:
    inclusion = np.full(rows.num_rows, np.nan)
    inclusion[plan.rows] = plan.inclusion
    columns = {
        "key": numbers(rows, "key"),
        "stratum": plan.stratum.astype(np.int32),
        "error_probability": plan.error_probability,
        "mass": plan.mass,
        "inclusion": inclusion,
    }
    return pa.table(columns).replace_schema_metadata({"level": str(plan.level)})


def _open(store: Store, connection: Connection, window: Any, design: LabelDesign) -> list[RequestView]:
    """The picked rows without a label; their ids are looked up in the rows themselves, the plan has only hashes."""
    rows = window_rows(store, connection, window)
    if rows is None:
        return []
    latest = LatestLabels()
    latest.follow(store, connection, window.model_id)
    keys, inclusion = design.column("key"), design.column("inclusion")
    ids = rows.column("id")
    stratum, probability = design.column("stratum"), design.column("error_probability")
    place = {key: i for i, key in enumerate(numbers(rows, "key").tolist())}
    open_ = ~np.isnan(inclusion) & (latest.find(keys) < 0)
    return [
        RequestView(
            id=ids[place[key]].as_py(),
            window=window.name,
            stratum=int(stratum[i]),
            inclusion_probability=float(inclusion[i]),
            error_probability=float(probability[i]),
        )
        for i, key in zip(np.flatnonzero(open_).tolist(), keys[open_].tolist(), strict=True)
        if key in place
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
