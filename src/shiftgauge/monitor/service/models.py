"""Models and their versions: what stands in the list, and the sources that estimates are made from."""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from shiftgauge.errors import InputError
from shiftgauge.monitor.clock import now_us
from shiftgauge.monitor.ingest.forms import form_of
from shiftgauge.monitor.names import check_name
from shiftgauge.monitor.problems import Problem, conflict, invalid, unknown
from shiftgauge.monitor.service.windows import WindowView, latest_windows
from shiftgauge.monitor.settings import Settings, from_stored
from shiftgauge.monitor.store import Store, queue
from shiftgauge.monitor.store.schema import alerts, models, sources, specs, versions, windows
from shiftgauge.samples import Source


@dataclass(frozen=True)
class VersionView:
    """A version of a model.

    Attributes:
        name: as given.
        rows: how many rows were ever accepted.
        kind: `"logits"` or `"probs"`, as its rows come; None before the first.
        k: how many classes; None where nobody has said yet.
        classes: their names, or None where they are numbered.
        source_rows, source_error: of its labelled source; None where there is none yet.
        source_created: when that came.
    """

    name: str
    rows: int
    kind: str | None
    k: int | None
    classes: tuple[str, ...] | None
    source_rows: int | None
    source_error: float | None
    source_created: int | None

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


@dataclass(frozen=True)
class ModelView:
    """A model at a glance.

    Attributes:
        name: as given.
        created: when it was made.
        state: the most urgent of `"alert"` (one is firing), `"waiting"` (windows wait, see `reason`), `"empty"`
            (no rows yet), `"collecting"` (rows, but no window has closed), `"no-limits"` (the error has no limit)
            and `"ok"` (within its limits).
        reason: why, in one line; None for ok.
        versions: newest first.
        rows: ever accepted.
        last_row: when the last one arrived; None before the first.
        firing: how many alerts are firing.
        waiting: how many closed windows have no estimate.
        latest: the newest estimated window of the version whose rows are newest, or None.
    """

    name: str
    created: int
    state: str
    reason: str | None
    versions: tuple[VersionView, ...]
    rows: int
    last_row: int | None
    firing: int
    waiting: int
    latest: WindowView | None

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        out = {**vars(self), "versions": [v.to_dict() for v in self.versions]}
        out["latest"] = self.latest.to_dict() if self.latest else None
        return out


def list_models(store: Store, names: list[str] | None = None) -> list[ModelView]:
    """All models, or those named, by name."""
    with store.read() as connection:
        wanted = select(models).order_by(models.c.name)
        if names is not None:
            wanted = wanted.where(models.c.name.in_(names))
        held = connection.execute(wanted).all()
        ids = [row.id for row in held]
        latest = latest_windows(connection, ids)
        by_model = _versions(connection, ids)
        firing = _count(connection, alerts, ids, alerts.c.resolved.is_(None))
        waiting = _count(connection, windows, ids, windows.c.state.in_(["waiting", "failed"]))
        reasons = _reasons(connection, ids)
    return [
        _view(
            row, by_model[row.id], latest.get(row.id), firing.get(row.id, 0), waiting.get(row.id, 0), reasons
        )
        for row in held
    ]


def get_model(store: Store, name: str) -> ModelView:
    """One model; raises a problem (404) where there is none."""
    found = list_models(store, [name])
    if not found:
        with store.read() as connection:
            raise unknown_model(connection, name)
    return found[0]


def model_row(connection: Connection, name: str) -> Any:
    """The row of the table; raises a problem (404) where there is none."""
    found = connection.execute(select(models).where(models.c.name == name)).first()
    if found is None:
        raise unknown_model(connection, name)
    return found


def unknown_model(connection: Connection, name: str) -> Problem:
    """404, with the names that are known."""
    check_name(name, "model")
    return unknown("model", name, list(connection.execute(select(models.c.name)).scalars()))


def ensure_model(connection: Connection, name: str) -> Any:
    """The model's row, made where there is none yet."""
    check_name(name, "model")
    held = select(models).where(models.c.name == name).with_for_update()
    if (found := connection.execute(held).first()) is not None:
        return found
    settings = Settings()
    new = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(models)
    made = new.values(
        name=name, created=now_us(), settings=json.dumps(settings.to_dict(secrets=True)), seq=0
    ).on_conflict_do_nothing(index_elements=["name"])
    row = connection.execute(made.returning(models)).first()
    if row is None:  # another process made it meanwhile: this insert waited for that one
        return connection.execute(held).one()
    connection.execute(insert(specs).values(model_id=row.id, since=0, spec=settings.window))
    queue.ask(connection, "watch", [row.id], now_us())
    return row


def put_source(store: Store, model: str, version: str, body: bytes, ending: str) -> dict[str, Any]:
    """Take the labelled validation scores of a version; its windows that waited for them are estimated.

    A second, different source replaces the first for windows estimated from then on; the first is kept.

    Args:
        store: where.
        model, version: made where they are new.
        body: a file of scores with labels.
        ending: its kind: `npz`, `parquet`, `arrow` or `csv`.
    """
    check_name(model, "model")
    check_name(version, "version")
    source = read_source_bytes(body, ending)
    digest = hashlib.sha256(body).hexdigest()
    with store.write() as connection:
        row = ensure_model(connection, model)
        held = _ensure_version(connection, row.id, version)
        _check_form(held, source, version)
        last = connection.execute(select(sources).where(sources.c.id == held.source_id)).first()
        if last is not None and last.sha256 == digest:
            return _said(model, version, source, changed=False)
        name = store.objects.put("sources", held.id, ending, body)
        made = insert(sources).values(
            version_id=held.id,
            created=now_us(),
            object=name,
            sha256=digest,
            rows=source.n,
            error=source.error,
        )
        source_id = connection.execute(made.returning(sources.c.id)).scalar_one()
        names = None if source.classes is None else json.dumps([str(c) for c in source.classes])
        connection.execute(
            update(versions)
            .where(versions.c.id == held.id)
            .values(source_id=source_id, k=source.k, classes=names)
        )
        wait = select(windows.c.id).where(
            windows.c.version_id == held.id, windows.c.state.in_(["waiting", "failed"])
        )
        queue.ask(connection, "estimate", connection.execute(wait).scalars().all(), now_us(), "source")
    return _said(model, version, source, changed=True)


def read_source_bytes(body: bytes, ending: str) -> Source:
    """A `Source` from a file's bytes; class names are texts."""
    from shiftgauge.io import read_source

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"source.{ending}"
        file.write_bytes(body)
        try:
            source = read_source(file)
        except InputError as problem:
            raise invalid(str(problem).replace(f"{folder}/", "")) from None
        except (MemoryError, OverflowError):
            raise invalid("source: its arrays claim to be larger than they can be") from None
    if source.classes is not None and len({str(c) for c in source.classes}) != source.k:
        raise invalid("source classes: two names are the same as texts; wanted different ones")
    return source


def _ensure_version(connection: Connection, model_id: int, name: str) -> Any:
    held = select(versions).where(versions.c.model_id == model_id, versions.c.name == name)
    found = connection.execute(held).first()
    if found is None:
        connection.execute(insert(versions).values(model_id=model_id, name=name, created=now_us()))
        found = connection.execute(held).one()
    return found


def _check_form(held: Any, source: Source, version: str) -> None:
    """Refuse a source that contradicts the rows that are already there."""
    form = form_of(held)
    names = None if source.classes is None else tuple(str(c) for c in source.classes)
    if form.k is None or not held.rows:
        return
    if form.k != source.k or (
        form.classes is not None and names is not None and set(form.classes) != set(names)
    ):
        raise conflict(
            f"the source has {source.k} classes ({', '.join(names[:5]) if names else 'numbered'}), but the "
            f"{held.rows:,} rows of version {version!r} have {form.k}"
            f"{' (' + ', '.join(form.classes[:5]) + ')' if form.classes else ''}; use another version's name"
        )
    if form.classes is not None and form.classes != names:
        raise conflict(
            f"the source's classes stand in another order, or have no names, than those of the {held.rows:,} rows "
            f"of version {version!r}; wanted {', '.join(form.classes[:8])[:200]} in this order"
        )


def _said(model: str, version: str, source: Source, *, changed: bool) -> dict[str, Any]:
    return {
        "model": model,
        "version": version,
        "rows": source.n,
        "classes": None if source.classes is None else [str(c) for c in source.classes],
        "k": source.k,
        "error": source.error,
        "changed": changed,
    }


def _versions(connection: Connection, ids: list[int]) -> dict[int, tuple[VersionView, ...]]:
    joined = versions.outerjoin(sources, versions.c.source_id == sources.c.id)
    columns = (
        versions,
        sources.c.rows.label("source_rows"),
        sources.c.error,
        sources.c.created.label("came"),
    )
    found = (
        select(*columns)
        .select_from(joined)
        .where(versions.c.model_id.in_(ids))
        .order_by(versions.c.id.desc())
    )
    out: dict[int, tuple[VersionView, ...]] = dict.fromkeys(ids, ())
    for row in connection.execute(found):
        form = form_of(row)
        view = VersionView(
            row.name, row.rows, row.kind, row.k, form.classes, row.source_rows, row.error, row.came
        )
        out[row.model_id] = (*out[row.model_id], view)
    return out


def _count(connection: Connection, table: Any, ids: list[int], which: Any) -> dict[int, int]:
    found = select(table.c.model_id, func.count()).where(table.c.model_id.in_(ids), which)
    return {row[0]: row[1] for row in connection.execute(found.group_by(table.c.model_id))}


def _reasons(connection: Connection, ids: list[int]) -> dict[int, str]:
    """Why the newest window that waits does so, by model."""
    found = (
        select(windows.c.model_id, windows.c.reason)
        .where(windows.c.model_id.in_(ids), windows.c.state.in_(["waiting", "failed"]))
        .order_by(windows.c.low)
    )
    return {row.model_id: row.reason for row in connection.execute(found)}


def _view(
    row: Any,
    held: tuple[VersionView, ...],
    latest: WindowView | None,
    firing: int,
    waiting: int,
    reasons: dict[int, str],
) -> ModelView:
    total = sum(v.rows for v in held)
    limits = from_stored(json.loads(row.settings)).limits
    state, reason = "ok", None
    if firing:
        state, reason = "alert", f"{firing} alert{'s' * (firing > 1)} firing"
    elif waiting and row.id in reasons:
        state, reason = "waiting", reasons[row.id]
    elif not total:
        state, reason = "empty", "no rows yet"
    elif latest is None:
        state, reason = "collecting", "no window has closed yet"
    elif not limits.on_error:
        state, reason = "no-limits", "no limits set" if limits.none else "no limit on the error set"
    return ModelView(row.name, row.created, state, reason, held, total, row.last_row, firing, waiting, latest)
