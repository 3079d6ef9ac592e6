"""Label requests: which rows of a window to label, and the design that makes their labels count rightly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, insert, select

from labelfree.errors import InputError
from labelfree.monitor.clock import now_us
from labelfree.monitor.problems import Problem, conflict, invalid
from labelfree.monitor.service.models import model_row, read_source_bytes
from labelfree.monitor.service.windows import get_window
from labelfree.monitor.settings import from_stored
from labelfree.monitor.store import Store
from labelfree.monitor.store.index import Keys
from labelfree.monitor.store.payloads import Rows, stream
from labelfree.monitor.store.schema import plans, sources, versions, windows
from labelfree.trust import Plan, budget


@dataclass(frozen=True)
class RequestView:
    """A row to be labelled.

    Attributes:
        id: of the row.
        window: whose.
        stratum: of the design.
        inclusion_probability: with which it was picked.
        error_probability: how likely it is wrong, by SCOT.
    """

    id: str
    window: str
    stratum: int
    inclusion_probability: float
    error_probability: float


@dataclass(frozen=True)
class Design:
    """A plan as it was kept: every row it knew, by id hash, with its stratum, and which were picked."""

    table: Any
    margin: float
    level: float

    def placed(self, keys: Keys) -> tuple[Plan | None, npt.NDArray[np.intp]]:
        """The plan over its own rows, and where these stand among `keys`; None if some are not there."""
        order = np.argsort(keys, kind="stable")
        mine = self.table.column("key").to_numpy()
        spots = np.searchsorted(keys, mine, sorter=order)
        place = order[np.minimum(spots, len(keys) - 1)]
        if len(keys) == 0 or (keys[place] != mine).any():
            return None, place
        inclusion = self.table.column("inclusion").to_numpy()
        picked = np.flatnonzero(~np.isnan(inclusion))
        doubt = self.table.column("doubt").to_numpy()
        mass = self.table.column("mass").to_numpy()
        plan = Plan(
            rows=picked,
            stratum=self.table.column("stratum").to_numpy().astype(np.intp),
            inclusion=inclusion[picked],
            doubt=doubt,
            mass=mass,
            margin=self.margin,
            level=self.level,
            expected=float(mass @ doubt),
            plain=0,
        )
        return plan, place


def design_of(connection: Connection, window_id: int) -> Design | None:
    """The newest plan of a window, or None."""
    import pyarrow as pa

    held = select(plans).where(plans.c.window_id == window_id).order_by(plans.c.id.desc())
    found = connection.execute(held.limit(1)).first()
    if found is None:
        return None
    table = pa.ipc.open_stream(pa.py_buffer(found.payload)).read_all()
    return Design(table, found.margin, float(table.schema.metadata[b"level"]))


def list_requests(
    store: Store,
    model: str,
    window: str | None = None,
    *,
    labels: int | None = None,
    margin: float | None = None,
) -> list[RequestView]:
    """The rows to be labelled of a window (by default the newest that is estimated) and have no label yet.

    The first call picks them, by the label budget: so many `labels`, or as many as give the error to within
    +- `margin` (2 points by default). Later calls give the same rows; a window has one design.
    """
    name = window or _newest(store, model)
    view = get_window(store, model, name)
    with store.read() as connection:
        row = _window(connection, model, name)
        design = design_of(connection, row.id)
    if design is None:
        design = _ask(store, model, name, labels, margin)
    elif labels is not None or margin is not None:
        raise conflict(
            f"rows of window {name!r} were already asked for; a second choice would bias the estimate: "
            "leave out labels and margin to see them"
        )
    held = _unlabelled(store, model, design)
    return [RequestView(window=view.name, **row) for row in held]


def _ask(store: Store, model: str, name: str, labels: int | None, margin: float | None) -> Design:
    from labelfree.monitor.jobs.answers import target_of
    from labelfree.monitor.jobs.reading import window_rows

    with store.read() as connection:
        row = _window(connection, model, name)
        settings = from_stored(json.loads(model_row(connection, model).settings))
        version = connection.execute(select(versions).where(versions.c.id == row.version_id)).one()
        source = connection.execute(select(sources).where(sources.c.id == version.source_id)).first()
        rows = window_rows(store, connection, row)
    if source is None or rows is None:
        raise Problem(409, "no-source", f"window {name!r} cannot be planned: it has no rows or no source yet")
    path = store.objects.path(source.object)
    try:
        plan = budget(
            read_source_bytes(path.read_bytes(), path.suffix[1:]),
            target_of(rows, version.kind),
            margin=0.02 if margin is None else margin,
            count=labels,
            level=settings.level,
        )
    except InputError as problem:  # what the library calls count is labels= in the address
        raise invalid(str(problem).replace("count ", "labels=", 1)) from None
    table = _table(plan, rows)
    with store.write() as connection:
        if (held := design_of(connection, row.id)) is not None:  # two asked at once: one design
            return held
        values = {"labels": len(plan.rows), "margin": plan.margin, "payload": stream(table)}
        connection.execute(insert(plans).values(window_id=row.id, created=now_us(), **values))
    return Design(table, plan.margin, plan.level)


def _table(plan: Plan, rows: Rows) -> Any:
    import pyarrow as pa

    inclusion = np.full(len(rows.keys), np.nan)
    inclusion[plan.rows] = plan.inclusion
    picked = ~np.isnan(inclusion)
    ids = [text if mine else None for text, mine in zip(rows.ids.to_pylist(), picked.tolist(), strict=True)]
    columns = {
        "key": rows.keys,
        "id": pa.array(ids, pa.string()),
        "stratum": plan.stratum.astype(np.int32),
        "doubt": plan.doubt,
        "mass": plan.mass,
        "inclusion": inclusion,
    }
    return pa.table(columns).replace_schema_metadata({"level": str(plan.level)})


def _unlabelled(store: Store, model: str, design: Design) -> list[dict[str, Any]]:
    from labelfree.monitor.ingest.book import LabelBook

    book = LabelBook()
    with store.read() as connection:
        book.follow(store, connection, model_row(connection, model).id)
    inclusion = design.table.column("inclusion").to_numpy()
    picked = np.flatnonzero(~np.isnan(inclusion))
    open_ = picked[book.find(design.table.column("key").to_numpy()[picked]) < 0]
    return [
        {
            "id": design.table.column("id")[int(i)].as_py(),
            "stratum": int(design.table.column("stratum")[int(i)].as_py()),
            "inclusion_probability": float(inclusion[i]),
            "error_probability": float(design.table.column("doubt")[int(i)].as_py()),
        }
        for i in open_
        if design.table.column("id")[int(i)].is_valid  # one that was erased cannot be labelled any more
    ]


def _newest(store: Store, model: str) -> str:
    with store.read() as connection:
        held = select(windows.c.name).where(
            windows.c.model_id == model_row(connection, model).id, windows.c.state == "estimated"
        )
        found = connection.execute(held.order_by(windows.c.low.desc()).limit(1)).scalar()
    if found is None:
        raise Problem(
            409, "no-window", f"model {model!r} has no estimated window yet; try again when one has closed"
        )
    return str(found)


def _window(connection: Connection, model: str, name: str) -> Any:
    held = select(windows).where(
        windows.c.model_id == model_row(connection, model).id, windows.c.name == name
    )
    return connection.execute(held).one()
