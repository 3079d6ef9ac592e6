"""Models, their versions, sources and settings: reading and changing the tables."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field
from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from shiftgauge.errors import InputError
from shiftgauge.io import read_source
from shiftgauge.monitor.db import queue
from shiftgauge.monitor.db.audit import LOCAL, record_change
from shiftgauge.monitor.db.schema import models, sources, specs, versions, windows
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.periods import next_boundary, now_us
from shiftgauge.monitor.problems import check_name, conflict, invalid, unknown
from shiftgauge.monitor.records import Record
from shiftgauge.monitor.settings import Settings, check_notifications, stored_settings
from shiftgauge.monitor.tables import read_segments
from shiftgauge.samples import Source
from shiftgauge.times import rows_per_window


class SourceView(Record):
    """The labelled source of a version."""

    model: str
    version: str
    rows: int
    classes: tuple[str, ...] | None = Field(description="names; null where the classes are numbered")
    k: int = Field(description="number of classes")
    error: float
    changed: bool = Field(description="false if the version had this source already")


@dataclass(frozen=True)
class ScoreFormat:
    """What the rows of a version must look like; None where it is not known yet."""

    k: int | None = None
    classes: tuple[str, ...] | None = None
    kind: str | None = None

    def after_rows(self, kind: str, k: int, classes: tuple[str, ...] | None, version: str) -> ScoreFormat:
        """The form after rows of this shape; refuses rows that contradict it."""
        if self.kind is not None and kind != self.kind:
            raise invalid(
                f"rows of {kind}, but earlier rows of version {version!r} are {self.kind}; wanted those"
            )
        if self.k is not None and k != self.k:
            raise invalid(
                f"rows of {k} classes, but version {version!r} has {self.k}; wanted one score per class"
            )
        names = self.classes
        if classes is not None and names is not None and set(classes) != set(names):
            odd = next(name for name in classes if name not in names)
            raise invalid(
                f"class {odd[:60]!r} is not a class of version {version!r}; it has {', '.join(names[:8])[:200]}"
            )
        if classes is not None and names is None and self.k is not None:
            raise invalid(
                f"the scores name classes, but version {version!r} numbers them; wanted plain lists"
            )
        return replace(self, kind=kind, k=k, classes=names or classes)

    def index_of(self, labels: list[str]) -> npt.NDArray[np.int32]:
        """(n,) class indices of labels given as texts; -1 where a label is not a class."""
        if self.classes is not None:
            place = {name: j for j, name in enumerate(self.classes)}
            return np.array([place.get(text, -1) for text in labels], dtype=np.int32)
        k = self.k or 0
        return np.array([int(t) if t.isdecimal() and int(t) < k else -1 for t in labels], dtype=np.int32)

    def order(self, classes: tuple[str, ...] | None) -> npt.NDArray[np.intp] | None:
        """The columns in this form's order, or None where they are in it already."""
        if classes is None or self.classes is None or classes == self.classes:
            return None
        return np.array([classes.index(name) for name in self.classes], dtype=np.intp)


def format_of(row: Any) -> ScoreFormat:
    """The form that a row of the table `versions` holds."""
    return ScoreFormat(row.k, None if row.classes is None else tuple(json.loads(row.classes)), row.kind)


#: The versions of a model, at least one row for each model; built once, since every request of rows asks for it.
_FORMATS = (
    select(versions.c.name, versions.c.k, versions.c.classes, versions.c.kind)
    .select_from(models)
    .outerjoin(versions, versions.c.model_id == models.c.id)
    .where(models.c.name == bindparam("model"))
)


def version_formats(connection: Connection, model: str) -> dict[str, ScoreFormat]:
    """The forms of a model's versions, by name; raises a problem (404) where there is no such model."""
    rows = connection.execute(_FORMATS, {"model": model}).all()
    if not rows:
        model_row(connection, model)
    return {row.name: format_of(row) for row in rows if row.name is not None}


def model_row(connection: Connection, name: str) -> Any:
    """The row of the table; raises a problem (404) where there is none."""
    row = connection.execute(select(models).where(models.c.name == name)).first()
    if row is None:
        check_name(name, "model")
        raise unknown("model", name, list(connection.execute(select(models.c.name)).scalars()))
    return row


def ensure_model(connection: Connection, name: str) -> Any:
    """The model's row, made where there is none yet."""
    check_name(name, "model")
    query = select(models).where(models.c.name == name).with_for_update()
    if (record := connection.execute(query).first()) is not None:
        return record
    settings = Settings()
    new = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(models)
    made = new.values(
        name=name, created=now_us(), settings=json.dumps(settings.to_stored()), seq=0
    ).on_conflict_do_nothing(index_elements=["name"])
    row = connection.execute(made.returning(models)).first()
    if row is None:  # another process made it meanwhile: this insert waited for that one
        return connection.execute(query).one()
    connection.execute(insert(specs).values(model_id=row.id, since=0, spec=settings.window))
    queue.enqueue(connection, "alerts", [row.id], now_us())
    return row


def put_source(
    store: Store, model: str, version: str, body: bytes, ending: str, who: str = LOCAL
) -> SourceView:
    """Take the labelled validation scores of a version; its windows that waited for them are estimated.

    A second, different source replaces the first for windows estimated from then on; the first is kept.

    Args:
        model, version: made where they are new.
        body: a file of scores with labels.
        ending: its kind: `npz`, `parquet` or `arrow`.
    """
    check_name(model, "model")
    check_name(version, "version")
    source, _ = read_source_bytes(body, ending)
    digest = hashlib.sha256(body).hexdigest()
    names = None if source.classes is None else tuple(str(c) for c in source.classes)
    about: dict[str, Any] = {"rows": source.n, "error": source.error}
    view = SourceView(model=model, version=version, classes=names, k=source.k, changed=False, **about)
    with store.write() as connection:
        row = ensure_model(connection, model)
        version_row = _ensure_version(connection, row.id, version)
        _check_form(version_row, source.k, names)
        last = select(sources.c.sha256).where(sources.c.id == version_row.source_id)
        if connection.execute(last).scalar() == digest:
            return view
        made = insert(sources).values(
            version_id=version_row.id,
            created=now_us(),
            sha256=digest,
            ending=ending,
            payload=body,
            **about,
        )
        source_id = connection.execute(made.returning(sources.c.id)).scalar_one()
        values = {"source_id": source_id, "k": source.k, "classes": names and json.dumps(names)}
        connection.execute(update(versions).where(versions.c.id == version_row.id).values(**values))
        record_change(connection, who, "source", model, version=version, sha256=digest, rows=source.n)
        wait = select(windows.c.id).where(
            windows.c.version_id == version_row.id, windows.c.state.in_(["waiting", "failed"])
        )
        queue.enqueue(connection, "estimate", connection.execute(wait).scalars().all(), now_us(), "source")
    return view.model_copy(update={"changed": True})


#: The segments of a source's rows, by name.
Segments = dict[str, list[str | None]]


def stored_source(store: Store, source_id: int) -> tuple[Source, Segments]:
    """A source that was stored."""
    with store.read() as connection:
        row = connection.execute(select(sources).where(sources.c.id == source_id)).one()
    return read_source_bytes(row.payload, row.ending)


def read_source_bytes(body: bytes, ending: str) -> tuple[Source, Segments]:
    """A `Source` from a file's bytes, with its segments; class names are texts."""
    with _as_file(body, ending) as file:
        source = read_source(file)
        segments = read_segments(file, source.n)
    if source.classes is not None and len({str(c) for c in source.classes}) != source.k:
        raise invalid("source classes: two names are the same as texts; wanted different ones")
    return source, segments


@contextmanager
def _as_file(body: bytes, ending: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"source.{ending}"
        file.write_bytes(body)
        try:
            yield file
        except InputError as problem:
            raise invalid(str(problem).replace(f"{folder}/", "")) from None
        except (MemoryError, OverflowError):
            raise invalid("source: its arrays claim to be larger than they can be") from None


def _ensure_version(connection: Connection, model_id: int, name: str) -> Any:
    query = select(versions).where(versions.c.model_id == model_id, versions.c.name == name)
    row = connection.execute(query).first()
    if row is None:
        made = insert(versions).values(model_id=model_id, name=name, created=now_us())
        row = connection.execute(made.returning(versions)).one()
    return row


def _check_form(row: Any, k: int, names: tuple[str, ...] | None) -> None:
    """Refuse a source that contradicts the rows that are already there."""
    form, version = format_of(row), row.name
    if form.k is None or not row.rows:
        return
    if form.k != k or (form.classes is not None and names is not None and set(form.classes) != set(names)):
        raise conflict(
            f"the source has {k} classes ({', '.join(names[:5]) if names else 'numbered'}), but the "
            f"{row.rows:,} rows of version {version!r} have {form.k}"
            f"{' (' + ', '.join(form.classes[:5]) + ')' if form.classes else ''}; use another version's name"
        )
    if form.classes is not None and form.classes != names:
        raise conflict(
            f"the source's classes stand in another order, or have no names, than those of the {row.rows:,} rows "
            f"of version {version!r}; wanted {', '.join(form.classes[:8])[:200]} in this order"
        )


def get_settings(store: Store, model: str) -> Settings:
    """The settings of a model."""
    with store.read() as connection:
        return stored_settings(model_row(connection, model).settings)


def put_settings(store: Store, model: str, given: Any, who: str = LOCAL) -> Settings:
    """Change what was given, keep the rest; makes the model where it is new.

    A new window length holds from the next moment on at which windows of both lengths begin; windows by number
    of rows and windows by time cannot follow one another.
    """
    check_notifications(given)
    with store.write() as connection:
        row = ensure_model(connection, model)
        old = stored_settings(row.settings)
        new = old.changed(given)
        if new.window != old.window:
            _change_window(connection, row.id, old.window, new.window)
        connection.execute(
            update(models).where(models.c.id == row.id).values(settings=json.dumps(new.to_stored()))
        )
        names = [name for name in Settings.model_fields if getattr(new, name) != getattr(old, name)]
        record_change(connection, who, "settings", model, changed=", ".join(names))
        if new.method != old.method:  # what one method refused, another may estimate
            failed = select(windows.c.id).where(windows.c.model_id == row.id, windows.c.state == "failed")
            queue.enqueue(connection, "estimate", connection.execute(failed).scalars().all(), now_us())
        queue.enqueue(connection, "alerts", [row.id], now_us())
    return new


def _change_window(connection: Any, model_id: int, old: str, new: str) -> None:
    rows = connection.execute(
        select(versions.c.id).where(versions.c.model_id == model_id, versions.c.rows > 0)
    ).first()
    if rows is None:
        connection.execute(update(specs).where(specs.c.model_id == model_id).values(spec=new))
        return
    if rows_per_window(old) is not None or rows_per_window(new) is not None:
        words = (
            f"window {new!r}: rows were already put into windows of {old!r}, and windows by number of rows and "
            "by time cannot follow one another; use another model's name"
        )
        raise conflict(words, fields={"window": words})
    since = next_boundary(old, new, now_us())
    connection.execute(insert(specs).values(model_id=model_id, since=since, spec=new))
