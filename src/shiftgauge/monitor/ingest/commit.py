"""Commits: waiting requests go into one transaction, each accepted or refused as a whole, durable on return."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import bindparam, insert, select, update

from shiftgauge.monitor.db.ids import LatestLabels, SeenIds, position_slots
from shiftgauge.monitor.db.models import ScoreFormat, model_row, version_formats
from shiftgauge.monitor.db.schema import batches, keys, models, specs, versions
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.ingest.bodies import too_large
from shiftgauge.monitor.ingest.labels import ingest_labels, prepare_labels
from shiftgauge.monitor.ingest.prepare import Prepared, prepare
from shiftgauge.monitor.ingest.transaction import ModelTransaction, RowsOfPeriod, assign_periods
from shiftgauge.monitor.periods import iso, now_us
from shiftgauge.monitor.problems import ApiProblem, conflict, invalid

#: At most so many windows in one request: each is a row to write, and a job, while others wait.
MOST_WINDOWS = 10_000
_KEEP = insert(batches)
_COUNT = update(versions).where(versions.c.id == bindparam("version")).values(rows=bindparam("count"))
_MOVE = (
    update(models)
    .where(models.c.id == bindparam("model"))
    .values(seq=bindparam("to"), last_row=bindparam("at"))
)


@dataclass(frozen=True)
class IngestRequest:
    """Rows or labels of one model that want to be kept.

    Attributes:
        model: its name.
        rows: a checked table (see `ingest.rows`); and
        prepared: the same rows, prepared by version; or
        labels: a table of prepared labels.
        key: the Idempotency-Key, if any.
        fingerprint: a hash of the body.
    """

    model: str
    rows: Any = None
    prepared: list[Prepared] = field(default_factory=list)
    labels: Any = None
    key: str | None = None
    fingerprint: str = ""


def commit(
    store: Store, id_caches: dict[str, tuple[SeenIds, LatestLabels]], requests: list[IngestRequest]
) -> list[dict[str, Any] | Exception]:
    """Keep what can be kept; each request gets its response, or why it was refused."""
    transactions: dict[str, ModelTransaction] = {}
    out: list[dict[str, Any] | Exception] = []
    names = sorted({request.model for request in requests})  # in one order: no two wait for each other
    for name in names:
        if name not in id_caches:
            id_caches[name] = _read_ids(store, name)
    with store.write() as connection:
        for name in names:
            transactions[name] = ModelTransaction(connection, name, id_caches[name])
        for request in requests:
            try:
                out.append(_ingest(transactions[request.model], request, store.secret))
            except ApiProblem as problem:
                out.append(problem)
        for model in transactions.values():
            _write_counters(model)
    for model in transactions.values():  # only now is it durable, and only now are the ids known
        model.seen_ids.index.update(model.new_ids)
        model.labels.index.update(model.new_labels)
        model.seen_ids.seen = model.labels.seen = model.seq
    return out


def _read_ids(store: Store, name: str) -> tuple[SeenIds, LatestLabels]:
    """The ids and labels of a model, read while others may write: it takes as long as there are rows."""
    seen_ids, labels = SeenIds(), LatestLabels()
    with store.read() as connection:
        row = model_row(connection, name)
        newest = (
            select(specs.c.spec).where(specs.c.model_id == row.id).order_by(specs.c.since.desc()).limit(1)
        )
        seen_ids.follow(connection, row.id, connection.execute(newest).scalar_one())
        labels.follow(connection, row.id)
    return seen_ids, labels


def _ingest(model: ModelTransaction, request: IngestRequest, secret: bytes) -> dict[str, Any]:
    known = _answered(model, request)
    if known is not None:
        return known
    if request.labels is not None:
        response = ingest_labels(model, request.labels)
    else:
        response = _ingest_rows(model, _up_to_date(model, request, secret))
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


def _answered(model: ModelTransaction, request: IngestRequest) -> dict[str, Any] | None:
    """The response that this Idempotency-Key already got."""
    if request.key is None:
        return None
    row = model.connection.execute(
        select(keys).where(keys.c.model_id == model.id, keys.c.key == request.key)
    ).first()
    if row is None:
        return None
    if row.fingerprint != request.fingerprint:
        raise invalid("this Idempotency-Key came before with another body; wanted a new key for a new body")
    return {**json.loads(row.response), "replayed": True}


def _up_to_date(model: ModelTransaction, request: IngestRequest, secret: bytes) -> list[Prepared]:
    """The prepared rows; anew if a version has got another form since, from its first rows or a source."""
    formats = model.version_formats
    if all(formats.get(part.version, ScoreFormat()) == part.before for part in request.prepared):
        return request.prepared
    return prepare(request.rows, formats, secret)


def _ingest_rows(model: ModelTransaction, parts: list[Prepared]) -> dict[str, Any]:
    """Keep rows of one request: first look at all of them, then write, so that it is all or nothing."""
    stored = [_already_stored(model, part) for part in parts]
    new = [part.without(drop) for part, drop in zip(parts, stored, strict=True) if not drop.all()]
    for part, periods in zip(new, _assigned(model, new), strict=True):
        _insert_rows(model, part, periods)
    return {
        "accepted": sum(len(part) for part in new),
        "duplicates": sum(int(drop.sum()) for drop in stored),
    }


def _assigned(model: ModelTransaction, parts: list[Prepared]) -> list[list[RowsOfPeriod]]:
    """The windows that the rows of each part fall into; refuses too many: each is a row to write while others wait."""
    out: list[list[RowsOfPeriod]] = []
    left = MOST_WINDOWS
    for part in parts:
        first = model.counts.get(part.version, 0)
        periods = assign_periods(model.specs, part.times, np.arange(first, first + len(part)))
        out.append(list(islice(periods, left + 1)))
        left -= len(out[-1])
        if left < 0:
            raise too_large(f"rows of more than {MOST_WINDOWS:,} windows", MOST_WINDOWS)
    return out


def _already_stored(model: ModelTransaction, part: Prepared) -> npt.NDArray[np.bool_]:
    """(n,) which rows are stored already; refuses what contradicts."""
    if model.row.erased_before is not None and (part.times < model.row.erased_before).any():
        row = int(np.argmin(part.times))
        name, time = part.table.column("id")[row].as_py(), iso(int(part.times[row]))
        raise invalid(
            f"id {name!r}: its time {time} is before {iso(model.row.erased_before)}; "
            "rows before that were erased and are refused"
        )
    known = np.zeros(len(part), dtype=bool)
    for index in (model.seen_ids.index, model.new_ids):
        places = index.find(part.keys)
        here = (places >= 0) & (index.columns["version"][places] >= 0)
        differ = here & (index.columns["content"][places] != part.contents)
        if differ.any():
            rows = np.flatnonzero(differ)
            names = [part.table.column("id")[int(row)].as_py() for row in rows[:10]]
            raise conflict(
                f"{len(rows)} ids are stored with other content, such as {names[0]!r}; "
                "wanted the same row again, or a new id; nothing of this request was kept",
                ids=names,
            )
        known |= here
    return known


def _insert_rows(model: ModelTransaction, part: Prepared, periods: list[RowsOfPeriod]) -> None:
    version_id = _version(model, part)
    seq, first, n = model.next_seq(), model.counts[part.version], len(part)
    times = part.times
    kept = {
        "model_id": model.id,
        "version_id": version_id,
        "kind": "rows",
        "seq": seq,
        "rows": n,
        "first": first,
        "last": first + n - 1,
        "low": int(times.min()),
        "high": int(times.max()),
        **part.stored,
    }
    model.connection.execute(_KEEP, kept)
    model.counts[part.version] += n
    model.touched.add(part.version)
    where = position_slots(model.specs[-1][1], times, np.arange(first, first + n))
    model.new_ids.put(part.keys, content=part.contents, version=version_id, slot=where)
    model.assignment.add(part.version, version_id, times, periods, seq)


def _version(model: ModelTransaction, part: Prepared) -> int:
    """The version's id; its form is fixed by its first rows."""
    form = part.after
    values = {"k": form.k, "kind": form.kind, "classes": form.classes and json.dumps(form.classes)}
    version_id = model.versions.get(part.version)
    if version_id is None:
        made = insert(versions).values(model_id=model.id, name=part.version, created=now_us(), **values)
        version_id = int(model.connection.execute(made.returning(versions.c.id)).scalar_one())
        model.versions[part.version] = version_id
        model.counts[part.version] = 0
    elif form != model.version_formats[part.version]:
        model.connection.execute(update(versions).where(versions.c.id == version_id).values(**values))
    model.version_formats[part.version] = form
    return version_id


def _write_counters(model: ModelTransaction) -> None:
    """Windows, jobs and counters of everything that the transaction brought to one model."""
    if model.seq == model.row.seq:
        return
    counts = [
        {"version": model.versions[name], "count": model.counts[name]} for name in sorted(model.touched)
    ]
    if counts:
        model.connection.execute(_COUNT, counts)
    model.assignment.write(model.connection, model.id)
    at = now_us() if model.touched else model.row.last_row
    model.connection.execute(_MOVE, {"model": model.id, "to": model.seq, "at": at})


#: At most so many requests in one transaction, and so many waiting; beyond that callers get 503.
MAX_GROUP, MAX_WAITING = 64, 1000
PendingResponse = Future[dict[str, Any]]


class Committer:
    """Commits requests in the order they come."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.id_caches: dict[str, tuple[SeenIds, LatestLabels]] = {}
        self._queue: SimpleQueue[tuple[IngestRequest, PendingResponse] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
        self._thread.start()

    def submit(self, request: IngestRequest) -> PendingResponse:
        """The response, once the request is durable."""
        answer: PendingResponse = Future()
        if self._queue.qsize() >= MAX_WAITING:
            raise ApiProblem(503, "busy", "too many requests are waiting; try again in a second")
        self._queue.put((request, answer))
        return answer

    @property
    def alive(self) -> bool:
        """Whether requests are still being committed."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Commit what waits, then stop."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            group = [first]
            while len(group) < MAX_GROUP and not self._queue.empty():  # only this thread takes from the queue
                more = self._queue.get()
                if more is None:
                    self._queue.put(None)
                    break
                group.append(more)
            self._commit(group)

    def _commit(self, group: list[tuple[IngestRequest, PendingResponse]]) -> None:
        try:
            results = commit(self.store, self.id_caches, [request for request, _ in group])
        except Exception as problem:
            if len(group) > 1 and not isinstance(problem, ApiProblem):
                for one in group:  # whoever cannot be committed shall not take the others along
                    self._commit([one])
                return
            results = [problem] * len(group)
        for (_, answer), result in zip(group, results, strict=True):
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)


def submit_rows(
    committer: Committer, model: str, rows: Any, key: str | None = None, fingerprint: str = ""
) -> PendingResponse:
    """Prepare a checked table of rows and put it in line."""
    with committer.store.read() as connection:
        formats = version_formats(connection, model)
    prepared = prepare(rows, formats, committer.store.secret)
    return committer.submit(IngestRequest(model, rows, prepared, key=key, fingerprint=fingerprint))


def submit_labels(
    committer: Committer, model: str, labels: Any, key: str | None = None, fingerprint: str = ""
) -> PendingResponse:
    """Put labels in line."""
    with committer.store.read() as connection:
        model_row(connection, model)
    prepared = prepare_labels(labels, committer.store.secret)
    return committer.submit(IngestRequest(model, labels=prepared, key=key, fingerprint=fingerprint))
