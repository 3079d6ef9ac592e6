"""Jobs on a window: estimate it anew, or combine its estimate with labels that came; each keeps a new revision."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, insert, select, update

from shiftgauge.errors import InputError
from shiftgauge.methods.registry import DEFAULT
from shiftgauge.monitor.db import queue
from shiftgauge.monitor.db.ids import LatestLabels
from shiftgauge.monitor.db.models import format_of, stored_segments, stored_source
from shiftgauge.monitor.db.queue import Job, LostLease
from shiftgauge.monitor.db.rows import window_rows
from shiftgauge.monitor.db.schema import models, reports, revisions, sources, versions, windows
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.estimate.adaptive_range import adaptive_range, history
from shiftgauge.monitor.estimate.answer import (
    LABEL_WARNING,
    WindowEstimate,
    estimate_rows,
    window_pair,
    with_labels,
)
from shiftgauge.monitor.estimate.evidence import (
    LabelDesign,
    WindowLabels,
    label_design,
    requested_rows,
    window_labels,
)
from shiftgauge.monitor.estimate.observed import (
    ObservedError,
    observed_by_segment,
    observed_error,
    true_classes,
)
from shiftgauge.monitor.estimate.window_metrics import METRIC_WARNING, window_metrics
from shiftgauge.monitor.periods import HOUR, SECOND, now_us
from shiftgauge.monitor.settings import Settings, stored_settings
from shiftgauge.samples import Source
from shiftgauge.times import rows_per_window

NO_SOURCE = "no source yet: PUT the labelled validation scores of version {version!r}"
#: A window's labels make a new revision once there are so many times as many as before, once all requested rows or all
#: rows have one, or after an hour: labels that trickle in would make thousands.
MORE_LABELS = 1.25
#: Labels are combined with an estimate until more than this share of its rows was erased.
MOST_ERASED = 0.1
#: Columns of a revision that the next one begins with when labels come.
KEPT = (
    "error",
    "low",
    "high",
    "level",
    "sampling",
    "status",
    "method",
    "scores_error",
    "scores_low",
    "scores_high",
    "adaptive_low",
    "adaptive_high",
    "adaptive_level",
    "shift",
    "source_id",
    "seq",
)


class WindowSnapshot:
    """A window and all that is known of it, at one moment."""

    def __init__(self, connection: Connection, window_id: int, labels: dict[int, LatestLabels]) -> None:
        self.window = connection.execute(select(windows).where(windows.c.id == window_id)).one()
        self.model = connection.execute(select(models).where(models.c.id == self.window.model_id)).one()
        version = select(versions).where(versions.c.id == self.window.version_id)
        self.version = connection.execute(version).one()
        self.settings: Settings = stored_settings(self.model.settings)
        self.source = _source_row(connection, self.version.source_id)
        self.rows: Any = window_rows(connection, self.window)
        latest_labels = labels.setdefault(self.model.id, LatestLabels())
        latest_labels.follow(connection, self.model.id)
        self.truth = (
            None if self.rows is None else true_classes(self.rows, latest_labels, format_of(self.version))
        )
        self.design: LabelDesign | None = label_design(connection, window_id)
        newest = select(revisions).where(
            revisions.c.window_id == window_id, revisions.c.revision == self.window.revision
        )
        self.last = connection.execute(newest).first()
        self.last_source = None if self.last is None else _source_row(connection, self.last.source_id)

    def closing_time(self) -> int:
        """When a window by time has ended and late rows had their time; 0 for a window by number of rows."""
        if rows_per_window(self.window.spec) is not None:
            return 0
        return int(self.window.end + self.settings.lateness_minutes * 60 * SECOND)

    def observed(self) -> ObservedError:
        """What the labels alone say, whoever asked for them."""
        assert self.rows is not None
        assert self.truth is not None
        requested = requested_rows(self.rows, self.design)
        return observed_error(self.rows, self.truth, self.settings.level, requested)

    @property
    def erased(self) -> bool:
        """Whether more than a few rows were erased since the estimate: an answer for the others is another one."""
        assert self.truth is not None
        return self.last is not None and len(self.truth) < (1.0 - MOST_ERASED) * self.last.rows

    def evidence(self, method: str) -> WindowLabels | None:
        """The labels that combine with the estimate; a named method answers from scores alone."""
        assert self.rows is not None
        assert self.truth is not None
        if method != DEFAULT or self.erased:
            return None
        return window_labels(self.rows, self.truth, self.design, all_random=self.settings.labels_are_random)

    def complete(self) -> bool:
        """Whether all rows, or all requested ones, have a label."""
        assert self.rows is not None
        assert self.truth is not None
        requested = requested_rows(self.rows, self.design)
        labelled = self.truth >= 0
        return bool(labelled.all() or (requested.any() and labelled[requested].all()))


def _source_row(connection: Connection, source_id: int | None) -> Any:
    return connection.execute(select(sources.c.id).where(sources.c.id == source_id)).first()


def estimate_window(store: Store, job: Job, labels: dict[int, LatestLabels]) -> None:
    """Estimate a window from all its rows, and keep the answer as its next revision."""
    with store.read() as connection:
        snapshot = WindowSnapshot(connection, job.subject, labels)
    if snapshot.rows is None:
        return _end_job(store, job)
    closing_time = snapshot.closing_time()
    if snapshot.last is None and closing_time > now_us():  # the clock went back since it was asked for
        return _end_job(store, job, again=closing_time)
    if snapshot.source is None:
        return _wait_for_source(store, job, snapshot.version)
    same = snapshot.last is not None and (snapshot.last.seq, snapshot.last.source_id) == (
        snapshot.window.seq,
        snapshot.source.id,
    )
    if same:  # asked for twice
        return update_labels(store, job, labels)
    about = {
        "source": f"{snapshot.model.name} {snapshot.version.name} source",
        "target": f"{snapshot.model.name} {snapshot.window.name}",
        "made": "",
    }
    try:
        estimate = estimate_rows(
            _source(store, snapshot.source.id),
            snapshot.rows,
            snapshot.version.kind,
            snapshot.settings,
            about,
            _source_segments(store, snapshot.source.id),
        )
        estimate = _with_labels(store, snapshot, snapshot.source, estimate)
    except InputError as problem:
        return _end_job(store, job, "failed", str(problem))
    cause = "closed" if snapshot.last is None else "source" if job.cause == "source" else "late rows"
    _keep(store, job, snapshot, estimate, cause)


def update_labels(store: Store, job: Job, labels: dict[int, LatestLabels]) -> None:
    """Combine a window's estimate with the labels that came, in a new revision."""
    with store.read() as connection:
        snapshot = WindowSnapshot(connection, job.subject, labels)
    last = snapshot.last
    if snapshot.rows is None or last is None:  # not estimated yet: its estimate will look at the labels
        return _end_job(store, job)
    observed, evidence = snapshot.observed(), snapshot.evidence(last.method)
    details = json.loads(last.details)
    if _says_nothing_new(snapshot, observed, evidence, details.get("labels")):
        return _end_job(store, job)
    now = now_us()
    due = min(last.created, now) + HOUR
    if now < due and observed.labels < MORE_LABELS * last.labels and not snapshot.complete():
        return _end_job(store, job, again=due)
    kept = WindowEstimate(
        values={name: getattr(last, name) for name in KEPT},
        warnings=[text for text in json.loads(last.warnings) if not text.startswith(LABEL_WARNING)],
        segments=json.loads(last.segments),
        details=details,
        report={},
        metrics=json.loads(last.metrics),
    )
    if snapshot.last_source is not None and not snapshot.erased:
        kept = _with_labels(store, snapshot, snapshot.last_source, kept)
    with store.write() as connection:
        _insert(connection, snapshot, "labels", kept, observed)
        _finish(connection, job, snapshot.model.id)


def _says_nothing_new(
    snapshot: WindowSnapshot,
    observed: ObservedError,
    evidence: WindowLabels | None,
    before: dict[str, Any] | None,
) -> bool:
    """Whether the labels say what the newest revision says, or there are fewer: what was published outlives erasure."""
    last = snapshot.last
    assert last is not None
    if observed.labels < last.labels or len(evidence.classes if evidence else ()) < (before or {"n": 0})["n"]:
        return True
    same = (last.observed, last.observed_low, last.observed_high, last.labels) == (
        observed.error,
        observed.low,
        observed.high,
        observed.labels,
    )
    if evidence is None or before is None:
        return same and evidence is None and before is None
    return same and (before["n"], before["chosen"]) == (len(evidence.classes), evidence.chosen)


def _with_labels(
    store: Store, snapshot: WindowSnapshot, source: Any, estimate: WindowEstimate
) -> WindowEstimate:
    """The estimate combined with the labels that are evidence, and the metrics that the settings choose."""
    method, settings, kind = estimate.values["method"], snapshot.settings, snapshot.version.kind
    evidence, names = snapshot.evidence(method), settings.estimated_metrics()
    if evidence is None and not names:
        return replace(estimate, metrics=[])
    pair = window_pair(_source(store, source.id), snapshot.rows, kind, evidence)
    if evidence is not None:
        estimate = with_labels(estimate, pair, settings.level, evidence.warnings)
    assert snapshot.truth is not None
    made, about = window_metrics(pair, snapshot.rows, snapshot.truth, names, method, settings.level)
    warnings = [text for text in estimate.warnings if not text.startswith(METRIC_WARNING)]
    return replace(estimate, metrics=made, warnings=[*warnings, *about])


def _keep(store: Store, job: Job, snapshot: WindowSnapshot, estimate: WindowEstimate, cause: str) -> None:
    assert snapshot.source is not None
    level = snapshot.settings.level
    with store.write() as connection:
        past = history(connection, snapshot.version.id, before=snapshot.window.low)
        low, high = adaptive_range(past, estimate.values, level)
        values = estimate.values | {"adaptive_low": low, "adaptive_high": high, "adaptive_level": level}
        values |= {"source_id": snapshot.source.id, "seq": snapshot.window.seq}
        number = _insert(connection, snapshot, cause, replace(estimate, values=values), snapshot.observed())
        body = zlib.compress(json.dumps(estimate.report, allow_nan=False).encode())
        connection.execute(insert(reports).values(revision_id=number, body=body))
        _finish(connection, job, snapshot.model.id)


def _insert(
    connection: Connection,
    snapshot: WindowSnapshot,
    cause: str,
    estimate: WindowEstimate,
    observed: ObservedError,
) -> int:
    """Keep a new revision; its id."""
    assert snapshot.truth is not None
    _check_newest_revision(connection, snapshot)
    revision = snapshot.window.revision + 1
    segments = observed_by_segment(estimate.segments, snapshot.rows, snapshot.truth)
    warnings = [*estimate.warnings, *(LABEL_WARNING + text for text in observed.warnings)]
    made = insert(revisions).values(
        window_id=snapshot.window.id,
        revision=revision,
        created=now_us(),
        cause=cause,
        rows=snapshot.rows.num_rows,
        observed=observed.error,
        observed_low=observed.low,
        observed_high=observed.high,
        observed_kind=observed.kind,
        labels=observed.labels,
        warnings=json.dumps(warnings),
        segments=json.dumps(segments),
        metrics=json.dumps(estimate.metrics, allow_nan=False),
        details=json.dumps(estimate.details),
        **estimate.values,
    )
    number = int(connection.execute(made.returning(revisions.c.id)).scalar_one())
    connection.execute(
        update(windows)
        .where(windows.c.id == snapshot.window.id)
        .values(revision=revision, state="estimated", reason=None)
    )
    return number


def _check_newest_revision(connection: Connection, snapshot: WindowSnapshot) -> None:
    """Raise where another job has changed the newest revision since we looked: this job is then done again."""
    window = select(windows.c.revision).where(windows.c.id == snapshot.window.id).with_for_update()
    number = connection.execute(window).scalar_one()
    newest = select(revisions.c.created).where(
        revisions.c.window_id == snapshot.window.id, revisions.c.revision == number
    )
    created = connection.execute(newest).scalar_one_or_none()  # after the lock: what others have committed
    if (number, created) != (snapshot.window.revision, snapshot.last and snapshot.last.created):
        raise RuntimeError(f"window {snapshot.window.name} got another revision meanwhile")


def _finish(connection: Connection, job: Job, model_id: int) -> None:
    if not queue.finish(connection, job):
        raise LostLease
    queue.enqueue(connection, "alerts", [model_id], now_us())


def _wait_for_source(store: Store, job: Job, version: Any) -> None:
    """Say that the source is missing, unless it came while we looked: then the job is done once more.

    Who brings a source asks for the windows that wait. The version is locked, so that this window either waits by
    then, or sees the source here.
    """
    with store.write() as connection:
        query = select(versions.c.source_id).where(versions.c.id == version.id).with_for_update()
        came = connection.execute(query).scalar_one() is not None
        if not came:
            values = {"state": "waiting", "reason": NO_SOURCE.format(version=version.name)}
            connection.execute(update(windows).where(windows.c.id == job.subject).values(**values))
        if not queue.finish(connection, job, again=now_us() if came else None):
            raise LostLease


def _end_job(
    store: Store, job: Job, state: str | None = None, reason: str | None = None, again: int | None = None
) -> None:
    """Nothing to keep; a window that cannot be estimated says why."""
    with store.write() as connection:
        if state is not None:
            which = windows.c.id == job.subject
            connection.execute(update(windows).where(which).values(state=state, reason=reason))
        if not queue.finish(connection, job, again):
            raise LostLease


@lru_cache(maxsize=8)
def _source(store: Store, source_id: int) -> Source:
    return stored_source(store, source_id)


@lru_cache(maxsize=8)
def _source_segments(store: Store, source_id: int) -> dict[str, list[str | None]]:
    return stored_segments(store, source_id)
