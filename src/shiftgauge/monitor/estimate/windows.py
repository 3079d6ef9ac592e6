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
from shiftgauge.monitor.db.models import format_of, stored_source
from shiftgauge.monitor.db.queue import Job
from shiftgauge.monitor.db.rows import window_rows
from shiftgauge.monitor.db.schema import models, reports, revisions, versions, windows
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.estimate.adaptive_range import adaptive_range, history
from shiftgauge.monitor.estimate.answer import (
    LABEL_WARNING,
    WindowEstimate,
    estimate_rows,
    window_pair,
    with_labels,
)
from shiftgauge.monitor.estimate.labels import (
    ObservedError,
    WindowLabels,
    label_design,
    observed_by_segment,
    observed_error,
    requested_rows,
    true_classes,
    window_labels,
)
from shiftgauge.monitor.estimate.window_metrics import METRIC_WARNING, window_metrics
from shiftgauge.monitor.periods import HOUR, SECOND, now_us
from shiftgauge.monitor.settings import Settings, stored_settings
from shiftgauge.samples import Source
from shiftgauge.times import rows_per_window

NO_SOURCE = "no source yet: send the labelled validation scores of version {version!r}"
#: A window's labels make a new revision once there are so many times as many as before, once all requested rows or all
#: rows have one, or after an hour: labels that trickle in would make thousands.
MORE_LABELS = 1.25
#: Labels are combined with an estimate until more than this share of its rows was erased.
MOST_ERASED = 0.1
#: Columns of a revision that the next one begins with when labels come.
KEPT = (
    "error", "low", "high", "level", "sampling", "status", "method", "scores_error", "scores_low", "scores_high",
    "adaptive_low", "adaptive_high", "adaptive_level", "shift", "source_id", "seq",
)  # fmt: skip


class WindowSnapshot:
    """A window and all that is known of it, at one moment; `rows` is None where all were erased."""

    def __init__(self, connection: Connection, window_id: int, labels: dict[int, LatestLabels]) -> None:
        self.window = connection.execute(select(windows).where(windows.c.id == window_id)).one()
        self.model = connection.execute(select(models).where(models.c.id == self.window.model_id)).one()
        version = select(versions).where(versions.c.id == self.window.version_id)
        self.version = connection.execute(version).one()
        self.settings: Settings = stored_settings(self.model.settings)
        self.rows: Any = window_rows(connection, self.window)
        latest_labels = labels.setdefault(self.model.id, LatestLabels())
        latest_labels.follow(connection, self.model.id)
        newest = select(revisions).where(
            revisions.c.window_id == window_id, revisions.c.revision == self.window.revision
        )
        self.last = connection.execute(newest).first()
        if self.rows is not None:
            self.truth = true_classes(self.rows, latest_labels, format_of(self.version))
            self.design = label_design(connection, window_id)
            self.requested = requested_rows(self.rows, self.design)

    def closing_time(self) -> int:
        """When a window by time has ended and late rows had their time; 0 for a window by number of rows."""
        if rows_per_window(self.window.spec) is not None:
            return 0
        return int(self.window.end + self.settings.lateness_minutes * 60 * SECOND)

    def observed(self) -> ObservedError:
        """What the labels alone say, whoever asked for them."""
        return observed_error(self.rows, self.truth, self.settings.level, self.requested)

    @property
    def erased(self) -> bool:
        """Whether more than a few rows were erased since the estimate: an answer for the others is another one."""
        return self.last is not None and len(self.truth) < (1.0 - MOST_ERASED) * self.last.rows

    def evidence(self, method: str) -> WindowLabels | None:
        """The labels that combine with the estimate; a named method answers from scores alone."""
        if method != DEFAULT or self.erased:
            return None
        return window_labels(self.rows, self.truth, self.design, all_random=self.settings.labels_are_random)

    def complete(self) -> bool:
        """Whether all rows, or all requested ones, have a label."""
        labelled = self.truth >= 0
        return bool(labelled.all() or (self.requested.any() and labelled[self.requested].all()))


def estimate_window(store: Store, job: Job, labels: dict[int, LatestLabels]) -> None:
    """Estimate a window from all its rows, and keep the answer as its next revision."""
    with store.read() as connection:
        snapshot = WindowSnapshot(connection, job.subject, labels)
    if snapshot.rows is None:
        return queue.end(store, job)
    model, window, version, last = snapshot.model, snapshot.window, snapshot.version, snapshot.last
    closing_time = snapshot.closing_time()
    if last is None and closing_time > now_us():  # the clock went back since it was asked for
        return queue.end(store, job, again=closing_time)
    source_id = version.source_id
    if source_id is None:
        return _wait_for_source(store, job, version)
    if last is not None and (last.seq, last.source_id) == (window.seq, source_id):  # asked for twice
        return update_labels(store, job, labels)
    about = {
        "source": f"{model.name} {version.name} source",
        "target": f"{model.name} {window.name}",
        "made": "",
    }
    source, segments = _source(store, source_id)
    try:
        estimate = estimate_rows(source, snapshot.rows, version.kind, snapshot.settings, about, segments)
        estimate = _with_labels(snapshot, source, estimate)
    except InputError as problem:
        with store.write() as connection:
            _set_state(connection, job, "failed", str(problem))
            queue.finish(connection, job)
        return
    cause = "closed" if last is None else "source" if job.cause == "source" else "late rows"
    level = snapshot.settings.level
    with store.write() as connection:
        past = history(connection, version.id, before=window.low)
        low, high = adaptive_range(past, estimate.values, level)
        more = {"adaptive_low": low, "adaptive_high": high, "adaptive_level": level}
        more |= {"source_id": source_id, "seq": window.seq}
        estimate = replace(estimate, values=estimate.values | more)
        number = _insert(connection, snapshot, cause, estimate, snapshot.observed())
        body = zlib.compress(json.dumps(estimate.report, allow_nan=False).encode())
        connection.execute(insert(reports).values(revision_id=number, body=body))
        queue.finish(connection, job)
        queue.enqueue(connection, "alerts", [model.id], now_us())


def update_labels(store: Store, job: Job, labels: dict[int, LatestLabels]) -> None:
    """Combine a window's estimate with the labels that came, in a new revision."""
    with store.read() as connection:
        snapshot = WindowSnapshot(connection, job.subject, labels)
    last = snapshot.last
    if snapshot.rows is None or last is None:  # not estimated yet: its estimate will look at the labels
        return queue.end(store, job)
    observed, evidence = snapshot.observed(), snapshot.evidence(last.method)
    details = json.loads(last.details)
    if _says_nothing_new(last, observed, evidence, details.get("labels")):
        return queue.end(store, job)
    now = now_us()
    due = min(last.created, now) + HOUR
    if now < due and observed.labels < MORE_LABELS * last.labels and not snapshot.complete():
        return queue.end(store, job, again=due)
    estimate = WindowEstimate(
        values={name: getattr(last, name) for name in KEPT},
        warnings=[text for text in json.loads(last.warnings) if not text.startswith(LABEL_WARNING)],
        segments=json.loads(last.segments),
        details=details,
        report={},
        metrics=json.loads(last.metrics),
    )
    if not snapshot.erased:
        estimate = _with_labels(snapshot, _source(store, last.source_id)[0], estimate)
    with store.write() as connection:
        _insert(connection, snapshot, "labels", estimate, observed)
        queue.finish(connection, job)
        queue.enqueue(connection, "alerts", [snapshot.model.id], now_us())


def _says_nothing_new(
    last: Any, observed: ObservedError, evidence: WindowLabels | None, before: dict[str, Any] | None
) -> bool:
    """Whether the labels say what the newest revision says, or there are fewer: what was published outlives erasure."""
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


def _with_labels(snapshot: WindowSnapshot, source: Source, estimate: WindowEstimate) -> WindowEstimate:
    """The estimate combined with the labels that are evidence, and the metrics that the settings choose."""
    method, settings = estimate.values["method"], snapshot.settings
    evidence, names = snapshot.evidence(method), settings.estimated_metrics()
    if evidence is None and not names:
        return replace(estimate, metrics=[])
    pair = window_pair(source, snapshot.rows, snapshot.version.kind, evidence)
    if evidence is not None:
        estimate = with_labels(estimate, pair, settings.level, evidence.warnings)
    made, about = window_metrics(pair, snapshot.rows, snapshot.truth, names, method, settings.level)
    warnings = [text for text in estimate.warnings if not text.startswith(METRIC_WARNING)]
    return replace(estimate, metrics=made, warnings=[*warnings, *about])


def _insert(
    connection: Connection,
    snapshot: WindowSnapshot,
    cause: str,
    estimate: WindowEstimate,
    observed: ObservedError,
) -> int:
    """Keep a new revision; its id. Raises where another job made one since we looked: this job is then done again."""
    window = snapshot.window
    newest = select(windows.c.revision).where(windows.c.id == window.id).with_for_update()
    if connection.execute(newest).scalar_one() != window.revision:
        raise RuntimeError(f"window {window.name} got another revision meanwhile")
    revision = window.revision + 1
    segments = observed_by_segment(estimate.segments, snapshot.rows, snapshot.truth)
    warnings = [*estimate.warnings, *(LABEL_WARNING + text for text in observed.warnings)]
    made = insert(revisions).values(
        window_id=window.id,
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
    shown = {"revision": revision, "state": "estimated", "reason": None}
    connection.execute(update(windows).where(windows.c.id == window.id).values(**shown))
    return number


def _set_state(connection: Connection, job: Job, state: str, reason: str) -> None:
    """A window that cannot be estimated says why."""
    connection.execute(update(windows).where(windows.c.id == job.subject).values(state=state, reason=reason))


def _wait_for_source(store: Store, job: Job, version: Any) -> None:
    """Say that the source is missing, unless it came while we looked: then the job is done once more.

    Who brings a source asks for the windows that wait. The version is locked, so that this window either waits by
    then, or sees the source here.
    """
    with store.write() as connection:
        query = select(versions.c.source_id).where(versions.c.id == version.id).with_for_update()
        came = connection.execute(query).scalar_one() is not None
        if not came:
            _set_state(connection, job, "waiting", NO_SOURCE.format(version=version.name))
        queue.finish(connection, job, again=now_us() if came else None)


_source = lru_cache(maxsize=8)(stored_source)
