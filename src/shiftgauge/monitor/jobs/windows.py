"""Jobs on a window: estimate it anew, or only look at the labels that came; each keeps a new revision."""

from __future__ import annotations

import json
import zlib
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, insert, select, update

from shiftgauge.errors import InputError
from shiftgauge.monitor.clock import now_us
from shiftgauge.monitor.ingest.book import LabelBook
from shiftgauge.monitor.ingest.forms import form_of
from shiftgauge.monitor.jobs.answers import Answer, answer
from shiftgauge.monitor.jobs.learning import adaptive_range, history
from shiftgauge.monitor.jobs.reading import window_rows
from shiftgauge.monitor.jobs.realised import Realised, by_segment, realised, truth_of
from shiftgauge.monitor.service.requests import Design, design_of
from shiftgauge.monitor.settings import Settings, from_stored
from shiftgauge.monitor.spans import HOUR, SECOND, rows_in
from shiftgauge.monitor.store import Store, queue
from shiftgauge.monitor.store.payloads import Rows
from shiftgauge.monitor.store.queue import Job
from shiftgauge.monitor.store.schema import models, reports, revisions, sources, versions, windows
from shiftgauge.samples import Source

NO_SOURCE = "no source yet: PUT the labelled validation scores of version {version!r}"
KEPT = [
    "method",
    "error",
    "low",
    "high",
    "level",
    "sampling",
    "band_low",
    "band_high",
    "shift",
    "status",
    "source_id",
    "rows",
    "seq",
]


class LostLease(Exception):  # noqa: N818 (nothing is wrong: another worker has taken over)
    """The job is no longer ours; nothing of it may be kept."""


class Seen:
    """A window and all that is known of it, at one moment."""

    def __init__(
        self, store: Store, connection: Connection, window_id: int, labels: dict[int, LabelBook]
    ) -> None:
        self.window = connection.execute(select(windows).where(windows.c.id == window_id)).one()
        self.model = connection.execute(select(models).where(models.c.id == self.window.model_id)).one()
        version = select(versions).where(versions.c.id == self.window.version_id)
        self.version = connection.execute(version).one()
        self.settings: Settings = from_stored(json.loads(self.model.settings))
        self.source = connection.execute(
            select(sources).where(sources.c.id == self.version.source_id)
        ).first()
        self.rows: Rows | None = window_rows(store, connection, self.window)
        book = labels.setdefault(self.model.id, LabelBook())
        book.follow(store, connection, self.model.id)
        self.truth = None if self.rows is None else truth_of(self.rows, book, form_of(self.version))
        self.design: Design | None = design_of(connection, window_id)
        newest = select(revisions).where(
            revisions.c.window_id == window_id, revisions.c.revision == self.window.revision
        )
        self.last = connection.execute(newest).first()

    def closes(self) -> int:
        """When a window by time has ended and late rows had their time; 0 for a window by number of rows."""
        if rows_in(self.window.spec) is not None:
            return 0
        return int(self.window.end + self.settings.lateness_minutes * 60 * SECOND)

    def realised(self) -> Realised:
        """What the labels say."""
        assert self.rows is not None
        assert self.truth is not None
        return realised(self.rows, self.truth, self.settings.level, self.design, self.version.kind)


def estimate_window(store: Store, job: Job, labels: dict[int, LabelBook]) -> None:
    """Estimate a window from all its rows, and keep the answer as its next revision."""
    seen = store.read_rows(lambda connection: Seen(store, connection, job.subject, labels))
    if seen.rows is None:
        return _end(store, job)
    closes = seen.closes()
    if seen.last is None and closes > now_us():  # the clock went back since it was asked for
        return _end(store, job, again=closes)
    if seen.source is None:
        return _wait(store, job, seen.version)
    same = seen.last is not None and (seen.last.seq, seen.last.source_id) == (seen.window.seq, seen.source.id)
    if same:  # asked for twice
        return look_at_labels(store, job, labels)
    about = {
        "source": f"{seen.model.name} {seen.version.name} source",
        "target": f"{seen.model.name} {seen.window.name}",
        "made": "",
    }
    try:
        found = answer(_source(store, seen.source.object), seen.rows, seen.version.kind, seen.settings, about)
    except InputError as problem:
        return _end(store, job, "failed", str(problem))
    cause = "closed" if seen.last is None else "source" if job.cause == "source" else "late rows"
    _keep(store, job, seen, found, cause)


def look_at_labels(store: Store, job: Job, labels: dict[int, LabelBook]) -> None:
    """Compare a window's estimate with the labels that came; a new revision where they say something new.

    The labels of one hour are one revision, which is brought up to date: labels that trickle in would make thousands.
    """
    seen = store.read_rows(lambda connection: Seen(store, connection, job.subject, labels))
    if seen.rows is None or seen.last is None:  # not estimated yet: its estimate will look at the labels
        return _end(store, job)
    found = seen.realised()
    if found.error is None and seen.last.realised_kind == "design":
        return _end(
            store, job
        )  # labels of requested rows were erased, too few remain: what was published stays
    assert seen.truth is not None
    held = (seen.last.realised, seen.last.realised_low, seen.last.realised_high, seen.last.labels)
    if held == (found.error, found.low, found.high, found.labels):
        return _end(store, job)
    kept = {name: getattr(seen.last, name) for name in KEPT}
    kept |= {
        name: getattr(seen.last, name)
        for name in ("adaptive_low", "adaptive_high", "adaptive_level", "details")
    }
    own = [text for text in json.loads(seen.last.warnings) if not text.startswith(LABELS)]
    segments = by_segment(json.loads(seen.last.segments), seen.rows, seen.truth)
    again = seen.last.cause == "labels" and seen.last.created // HOUR == now_us() // HOUR
    with store.write() as connection:
        _insert(connection, seen, "labels", kept, found, own, segments, again=again)
        _finish(connection, job, seen.model.id)


#: How warnings about labels begin, so that the next revision can tell them from the estimate's own.
LABELS = "labels: "


def _keep(store: Store, job: Job, seen: Seen, found: Answer, cause: str) -> None:
    assert seen.rows is not None
    assert seen.truth is not None
    assert seen.source is not None
    values = dict(found.values)
    with store.write() as connection:
        past = history(connection, seen.version.id, before=seen.window.low)
        low, high = adaptive_range(past, values, seen.settings.level)
        values |= {"adaptive_low": low, "adaptive_high": high, "adaptive_level": seen.settings.level}
        values |= {"source_id": seen.source.id, "seq": seen.window.seq, "rows": len(seen.rows.keys)}
        values["details"] = json.dumps(found.details)
        segments = by_segment(found.segments, seen.rows, seen.truth)
        number = _insert(connection, seen, cause, values, seen.realised(), found.warnings, segments)
        body = zlib.compress(json.dumps(found.report, allow_nan=False).encode())
        connection.execute(insert(reports).values(revision_id=number, body=body))
        _finish(connection, job, seen.model.id)


def _insert(
    connection: Connection,
    seen: Seen,
    cause: str,
    values: dict[str, Any],
    found: Realised,
    warnings: list[str],
    segments: list[dict[str, Any]],
    *,
    again: bool = False,
) -> int:
    """Keep a new revision, or with `again` the newest one anew; its id."""
    _check_newest(connection, seen)
    revision = seen.window.revision + (not again)
    kept = {
        "created": now_us(),
        "cause": cause,
        "realised": found.error,
        "realised_low": found.low,
        "realised_high": found.high,
        "realised_kind": found.kind,
        "labels": found.labels,
        "warnings": json.dumps([*warnings, *(LABELS + text for text in found.warnings)]),
        "segments": json.dumps(segments),
        **values,
    }
    made: Any = insert(revisions).values(window_id=seen.window.id, revision=revision, **kept)
    if again and seen.last is not None:
        made = update(revisions).where(revisions.c.id == seen.last.id).values(**kept)
    number = int(connection.execute(made.returning(revisions.c.id)).scalar_one())
    connection.execute(
        update(windows)
        .where(windows.c.id == seen.window.id)
        .values(revision=revision, state="estimated", reason=None)
    )
    return number


def _check_newest(connection: Connection, seen: Seen) -> None:
    """Raise where another job has changed the newest revision since we looked: this job is then done again."""
    window = select(windows.c.revision).where(windows.c.id == seen.window.id).with_for_update()
    number = connection.execute(window).scalar_one()
    newest = select(revisions.c.created).where(
        revisions.c.window_id == seen.window.id, revisions.c.revision == number
    )
    created = connection.execute(newest).scalar_one_or_none()  # after the lock: what others have committed
    if (number, created) != (seen.window.revision, seen.last and seen.last.created):
        raise RuntimeError(f"window {seen.window.name} got another revision meanwhile")


def _finish(connection: Connection, job: Job, model_id: int) -> None:
    if not queue.finish(connection, job):
        raise LostLease
    queue.ask(connection, "watch", [model_id], now_us())


def _wait(store: Store, job: Job, version: Any) -> None:
    """Say that the source is missing, unless it came while we looked: then the job is done once more.

    Who brings a source asks for the windows that wait. The version is locked, so that this window either waits by
    then, or sees the source here.
    """
    with store.write() as connection:
        held = select(versions.c.source_id).where(versions.c.id == version.id).with_for_update()
        came = connection.execute(held).scalar_one() is not None
        if not came:
            values = {"state": "waiting", "reason": NO_SOURCE.format(version=version.name)}
            connection.execute(update(windows).where(windows.c.id == job.subject).values(**values))
        if not queue.finish(connection, job, again=now_us() if came else None):
            raise LostLease


def _end(
    store: Store, job: Job, state: str | None = None, reason: str | None = None, again: int | None = None
) -> None:
    """Nothing to keep; a window that cannot be estimated says why."""
    with store.write() as connection:
        if state is not None:
            held = windows.c.id == job.subject
            connection.execute(update(windows).where(held).values(state=state, reason=reason))
        if not queue.finish(connection, job, again):
            raise LostLease


@lru_cache(maxsize=8)
def _source(store: Store, name: str) -> Source:
    from shiftgauge.monitor.service.models import read_source_bytes

    path = store.objects.path(name)
    return read_source_bytes(path.read_bytes(), path.suffix[1:])
