"""The commit: many requests in one transaction, each accepted whole or refused whole, durable when it returns."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, bindparam, insert, select, update

from shiftgauge.monitor.clock import now_us
from shiftgauge.monitor.ingest.book import Book, LabelBook, slots
from shiftgauge.monitor.ingest.forms import Form, form_of
from shiftgauge.monitor.ingest.labels import Labels, take_labels
from shiftgauge.monitor.ingest.prepare import Prepared
from shiftgauge.monitor.ingest.spread import MOST_WINDOWS, Spread, count_windows
from shiftgauge.monitor.problems import Problem, conflict, invalid
from shiftgauge.monitor.spans import iso
from shiftgauge.monitor.store import Store
from shiftgauge.monitor.store.index import Index, Keys
from shiftgauge.monitor.store.schema import batches, keys, models, specs, versions
from shiftgauge.monitor.wire.bodies import too_large

# Statements of every commit, built once: to build them takes longer than to run them.
_MODEL = select(models).where(models.c.name == bindparam("called")).with_for_update()
_VERSIONS = select(versions).where(versions.c.model_id == bindparam("model"))
_SPECS = select(specs).where(specs.c.model_id == bindparam("model")).order_by(specs.c.since)
_KEEP = insert(batches)
_COUNT = update(versions).where(versions.c.id == bindparam("version")).values(rows=bindparam("count"))
_MOVE = (
    update(models)
    .where(models.c.id == bindparam("model"))
    .values(seq=bindparam("to"), last_row=bindparam("at"))
)


class Stale(Exception):  # noqa: N818 (not an error: the request is prepared again)
    """The version's form changed since the rows were prepared."""


@dataclass(frozen=True)
class Request:
    """Rows or labels of one model that want to be kept.

    Attributes:
        model: its name.
        rows: prepared rows, by version.
        labels: or labels.
        key: the Idempotency-Key, if any.
        fingerprint: a hash of the body.
    """

    model: str
    rows: list[Prepared] = field(default_factory=list)
    labels: Labels | None = None
    key: str | None = None
    fingerprint: str = ""


class Held:
    """One model within the transaction: its row (locked), versions, window lengths, and books."""

    def __init__(
        self, store: Store, connection: Connection, name: str, books: tuple[Book, LabelBook]
    ) -> None:
        self.row = connection.execute(_MODEL, {"called": name}).one()
        self.store, self.connection = store, connection
        self.id: int = self.row.id
        self.seq: int = self.row.seq
        held = connection.execute(_VERSIONS, {"model": self.id}).all()
        self.versions: dict[str, int] = {row.name: row.id for row in held}
        self.forms: dict[str, Form] = {row.name: form_of(row) for row in held}
        self.counts: dict[str, int] = {row.name: row.rows for row in held}
        self.specs = [(row.since, row.spec) for row in connection.execute(_SPECS, {"model": self.id})]
        # The books hold only what is committed. What this transaction brings stands beside them until it is durable:
        # where it is rolled back, the books are still right.
        self.book, self._label_book = books
        self.book.follow(store, connection, self.id, self.specs[-1][1])
        self.fresh = Index(self.book.index.types)
        self.accepted: list[tuple[Any, ...]] = []
        self.label_book_read = False
        self.fresh_labels = Index(self._label_book.index.types)
        self.accepted_labels: list[tuple[Keys, list[str]]] = []
        self.spread = Spread(self.specs, json.loads(self.row.settings), now_us())
        self.touched: set[str] = set()

    @property
    def labels(self) -> LabelBook:
        """The labels committed so far; read at most once, so that none of this transaction gets in."""
        if not self.label_book_read:
            self._label_book.follow(self.store, self.connection, self.id)
            self.label_book_read = True
        return self._label_book

    def next_seq(self) -> int:
        """The number of the next commit."""
        self.seq += 1
        return self.seq


def commit(
    store: Store, books: dict[str, tuple[Book, LabelBook]], requests: list[Request]
) -> list[dict[str, Any] | Exception]:
    """Keep what can be kept; each request gets its response, or why it was refused."""
    held: dict[str, Held] = {}
    out: list[dict[str, Any] | Exception] = []
    with store.write() as connection:
        for name in sorted(
            {request.model for request in requests}
        ):  # in one order: no two wait for each other
            held[name] = Held(store, connection, name, books.setdefault(name, (Book(), LabelBook())))
        for request in requests:
            try:
                out.append(_take(held[request.model], request))
            except (Problem, Stale) as problem:
                out.append(problem)
        for model in held.values():
            _close(model)
    for model in held.values():  # only now is it durable, and only now do the books say so
        for values in model.accepted:
            model.book.put(*values)
        model.book.seen = model.seq
        for pair in model.accepted_labels:
            model.labels.put(*pair)
        if model.label_book_read:
            model.labels.seen = model.seq
    return out


def _take(model: Held, request: Request) -> dict[str, Any]:
    known = _answered(model, request)
    if known is not None:
        return known
    response = (
        take_labels(model, request.labels) if request.labels is not None else _rows(model, request.rows)
    )
    if request.key is not None:
        model.connection.execute(
            insert(keys).values(
                model_id=model.id,
                key=request.key,
                fingerprint=request.fingerprint,
                response=json.dumps(response),
                created=now_us(),
            )
        )
    return response


def _answered(model: Held, request: Request) -> dict[str, Any] | None:
    """The response that this Idempotency-Key already got."""
    if request.key is None:
        return None
    found = model.connection.execute(
        select(keys).where(keys.c.model_id == model.id, keys.c.key == request.key)
    ).first()
    if found is None:
        return None
    if found.fingerprint != request.fingerprint:
        raise invalid("this Idempotency-Key came before with another body; wanted a new key for a new body")
    return {**json.loads(found.response), "replayed": True}


def _rows(model: Held, parts: list[Prepared]) -> dict[str, Any]:
    """Keep rows of one request: first look at all of them, then write, so that it is all or nothing."""
    checked = [_checked(model, part) for part in parts]
    new = [part.without(known) for part, known in checked if not known.all()]
    _check_windows(model, new)
    for part in new:
        _keep(model, part)
    return {
        "accepted": sum(len(part.rows.keys) for part in new),
        "duplicates": sum(int(known.sum()) for _, known in checked),
    }


def _check_windows(model: Held, parts: list[Prepared]) -> None:
    """Refuse rows of too many windows: every window is a row to write while others wait."""
    count = 0
    for part in parts:
        first, n = model.counts.get(part.version, 0), len(part.rows.keys)
        count += count_windows(model.specs, part.rows.times, np.arange(first, first + n))
    if count > MOST_WINDOWS:
        raise too_large(f"rows of {count:,} windows", MOST_WINDOWS)


def _checked(model: Held, part: Prepared) -> tuple[Prepared, npt.NDArray[np.bool_]]:
    """Which rows are known already; refuses what contradicts."""
    if model.forms.get(part.version, Form()) != part.before:
        raise Stale
    if model.row.forgotten is not None and (part.rows.times < model.row.forgotten).any():
        row = int(np.argmin(part.rows.times))
        raise invalid(
            f"row {row}: its time {iso(int(part.rows.times[row]))} is before {iso(model.row.forgotten)}; "
            "rows before that were forgotten, and are not taken any more"
        )
    known = np.zeros(len(part.rows.keys), dtype=bool)
    for index in (model.book.index, model.fresh):
        places = index.find(part.rows.keys)
        here = (places >= 0) & (index.columns["version"][places] >= 0)
        differ = here & (index.columns["content"][places] != part.contents)
        if differ.any():
            rows = np.flatnonzero(differ)
            names = [part.rows.ids[int(row)].as_py() for row in rows[:10]]
            raise conflict(
                f"{len(rows)} ids are held with other content, such as {names[0]!r}; "
                "wanted the same row again, or a new id; nothing of this request was kept",
                ids=names,
            )
        known |= here
    return part, known


def _keep(model: Held, part: Prepared) -> None:
    version_id = _version(model, part)
    seq, first, rows = model.next_seq(), model.counts[part.version], part.rows
    n = len(rows.keys)
    kept = {
        "model_id": model.id,
        "version_id": version_id,
        "kind": "rows",
        "seq": seq,
        "rows": n,
        "first": first,
        "last": first + n - 1,
        "low": int(rows.times.min()),
        "high": int(rows.times.max()),
        "received": now_us(),
        "payload": part.payload,
    }
    model.connection.execute(_KEEP, kept)
    model.counts[part.version] += n
    model.touched.add(part.version)
    numbers = np.arange(first, first + n)
    where = slots(model.specs[-1][1], rows.times, numbers)
    model.fresh.put(rows.keys, content=part.contents, version=version_id, slot=where)
    model.accepted.append((rows.keys, part.contents, version_id, where))
    model.spread.add(part.version, version_id, rows.times, numbers, seq)


def _version(model: Held, part: Prepared) -> int:
    """The version's id; its form is fixed by its first rows."""
    form = part.after
    values = {"k": form.k, "kind": form.kind, "classes": form.classes and json.dumps(form.classes)}
    found = model.versions.get(part.version)
    if found is None:
        made = insert(versions).values(model_id=model.id, name=part.version, created=now_us(), **values)
        found = int(model.connection.execute(made.returning(versions.c.id)).scalar_one())
        model.versions[part.version] = found
        model.counts[part.version] = 0
    elif form != model.forms[part.version]:
        model.connection.execute(update(versions).where(versions.c.id == found).values(**values))
    model.forms[part.version] = form
    return found


def _close(model: Held) -> None:
    """Windows, jobs and counters of everything that the transaction brought to one model."""
    if model.seq == model.row.seq:
        return
    for name in sorted(model.touched):
        model.connection.execute(_COUNT, {"version": model.versions[name], "count": model.counts[name]})
    model.spread.write(model.connection, model.id)
    at = now_us() if model.touched else model.row.last_row
    model.connection.execute(_MOVE, {"model": model.id, "to": model.seq, "at": at})
