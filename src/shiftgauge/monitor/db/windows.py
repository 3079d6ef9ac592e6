"""Windows: what was estimated for each, what turned out, and every revision of both."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Select, and_, func, select

from shiftgauge.monitor.db.models import model_row
from shiftgauge.monitor.db.schema import models, revisions, sources, versions, windows
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.periods import iso, rows_per_window
from shiftgauge.monitor.problems import unknown

MOST = 5000
#: An observed error that rests on fewer labels decides nothing, unless every row has one.
ENOUGH = 30


@dataclass(frozen=True)
class SegmentView:
    """The error within one segment of a window.

    Attributes:
        segment, value: such as `country` and `DE`; `(missing)` where rows have none.
        rows: how many.
        error, low, high: estimated, with simultaneous intervals.
        observed: by labels, or None.
        labels: how many labels that rests on.
    """

    segment: str
    value: str
    rows: int
    error: float
    low: float
    high: float
    observed: float | None = None
    labels: int = 0


@dataclass(frozen=True)
class WindowView:
    """A window as one revision shows it; numbers are None where they are not known.

    Attributes:
        name: such as `2026-03-05.v1`; stands in addresses.
        model, version: whose.
        spec: its length: `hour`, `day`, `week`, `1000 rows`.
        start, end: its span in microseconds since 1970; for windows by rows, the times of the first and last row.
        rows: as many as the revision was made from (of an open window: so far).
        state: `"open"`, `"waiting"` (closed, cannot be estimated: see `reason`), `"estimated"` or `"failed"`.
        reason: one line, for waiting and failed.
        revision: number of this revision, from 1; 0 where there is none yet.
        newest: number of the newest revision.
        created: when the revision was made.
        cause: what it was made for: `closed`, `late rows`, `labels`, `source`.
        method: whose estimate.
        error: the estimate, from scores and, where there are some, labels (see `evidence`).
        low, high, level: its range. Of `auto` the one that was measured to hold; a named method has only the
            interval of its sampling error (see `measured`).
        sampling: the part of the range that is sampling error, as a half-width; where labels have narrowed the range
            below that, its lower side.
        scores_error, scores_low, scores_high: the answer from scores alone, and its measured range at 90%, whatever
            the level: the unit of the adaptive range. A named method has no such range.
        adaptive_low, adaptive_high, adaptive_level: the adaptive range, which learns from past misses.
        shift: `none`, `label` or `other`; None where the method does not say.
        status: the doctor's: `ok`, `caution`, `stop`.
        source_error: of the source that was used.
        observed, observed_low, observed_high: the error by labels.
        observed_kind: `all rows` (every row is labelled), `requested` (labels of requested rows alone) or `sample`
            (as if drawn at random).
        labels: how many labels that rests on.
        warnings: sentences.
        segments: one per value of each watched segment.
        details: what the estimate says beyond that, as plain values.
    """

    name: str
    model: str
    version: str
    spec: str
    start: int
    end: int
    rows: int
    state: str
    reason: str | None
    revision: int
    newest: int
    created: int | None
    cause: str | None
    method: str | None
    error: float | None
    low: float | None
    high: float | None
    level: float | None
    sampling: float | None
    scores_error: float | None
    scores_low: float | None
    scores_high: float | None
    adaptive_low: float | None
    adaptive_high: float | None
    adaptive_level: float | None
    shift: str | None
    status: str | None
    source_error: float | None
    observed: float | None
    observed_low: float | None
    observed_high: float | None
    observed_kind: str | None
    labels: int
    warnings: tuple[str, ...]
    segments: tuple[SegmentView, ...]
    details: dict[str, Any]

    @property
    def measured(self) -> bool:
        """Whether the range is the one that was measured to hold, not sampling error alone."""
        return self.low is not None and self.scores_low is not None

    @property
    def evidence(self) -> dict[str, Any] | None:
        """What labels contributed to the estimate (`shiftgauge.results.LabelSummary`); None where it has none."""
        labels: dict[str, Any] | None = self.details.get("labels")
        return labels

    @property
    def has_enough_labels(self) -> bool:
        """Whether 30 rows, or all of them, are labelled; an observed error from fewer decides nothing."""
        return self.observed is not None and self.labels >= min(ENOUGH, self.rows)

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON: times in ISO 8601, ranges as objects."""
        return {
            "window": self.name,
            "model": self.model,
            "version": self.version,
            "length": self.spec,
            "start": iso(self.start),
            "end": iso(self.end),
            "rows": self.rows,
            "state": self.state,
            "reason": self.reason,
            "revision": self.revision,
            "created": iso(self.created),
            "cause": self.cause,
            "method": self.method,
            "error": self.error,
            "range": _range(self.low, self.high, self.level, self.details.get("range")),
            "labels": self.evidence,
            "sampling": self.sampling,
            "adaptive_range": _range(self.adaptive_low, self.adaptive_high, self.adaptive_level),
            "shift": self.shift,
            "status": self.status,
            "source_error": self.source_error,
            "observed": None
            if self.observed is None
            else {
                "error": self.observed,
                "low": self.observed_low,
                "high": self.observed_high,
                "kind": self.observed_kind,
                "labels": self.labels,
            },
            "warnings": list(self.warnings),
            "segments": [vars(s) for s in self.segments],
        }


def _range(
    low: float | None, high: float | None, level: float | None, kind: str | None = None
) -> dict[str, Any] | None:
    if low is None or high is None:
        return None
    return {"low": low, "high": high, "level": level} | ({} if kind is None else {"kind": kind})


def list_windows(
    store: Store,
    model: str,
    *,
    version: str | None = None,
    since: int | None = None,
    until: int | None = None,
    as_of: int | None = None,
    limit: int = 500,
) -> list[WindowView]:
    """The windows of a model in order of time, each as its newest revision shows it.

    Args:
        store: where.
        model, version: whose; all versions where none is named.
        since, until: only windows with rows from and before these times.
        as_of: as they were shown at this moment; those not estimated by then are left out.
        limit: the newest so many.
    """
    with store.read() as connection:
        model_record = model_row(connection, model)
        which = [windows.c.model_id == model_record.id]
        if version is not None:
            which.append(windows.c.version_id == _version_id(connection, model_record.id, version))
        if since is not None:
            which.append(windows.c.high >= since)
        if until is not None:
            which.append(windows.c.low < until)
        if as_of is not None:
            which.append(revisions.c.id.is_not(None))
        newest = _viewed(as_of).where(*which).order_by(windows.c.low.desc(), windows.c.id.desc())
        rows = connection.execute(newest.limit(min(limit, MOST))).all()
    views = [_window_view(row) for row in reversed(rows)]
    return views if as_of is None else [replace(view, state="estimated", reason=None) for view in views]


def get_window(store: Store, model: str, name: str, revision: int | None = None) -> WindowView:
    """One window as a revision (the newest, by default) shows it."""
    with store.read() as connection:
        model_record = model_row(connection, model)
        which = (windows.c.model_id == model_record.id, windows.c.name == name)
        row = connection.execute(_viewed(None, revision).where(*which)).first()
        if row is None:
            names = (
                select(windows.c.name)
                .where(windows.c.model_id == model_record.id)
                .order_by(windows.c.id.desc())
            )
            raise unknown("window", name, list(connection.execute(names.limit(1000)).scalars()))
        if revision is not None and row.revision != revision:
            raise unknown("revision", str(revision), [str(i + 1) for i in range(row.newest)])
    return _window_view(row)


def list_revisions(store: Store, model: str, name: str) -> list[WindowView]:
    """Every revision of a window, oldest first."""
    which = (models.c.name == model, windows.c.name == name)
    with store.read() as connection:
        query = _viewed(revision=revisions.c.revision).where(*which).order_by(revisions.c.revision)
        rows = connection.execute(query).all()
    if not rows:
        get_window(store, model, name)  # says which of the two is not known
    return [_window_view(row) for row in rows if row.revision is not None]


def newest_observed(store: Store, model: str, version: str) -> WindowView | None:
    """The newest window of a version that labels have judged, however many came after it."""
    which = (models.c.name == model, versions.c.name == version, revisions.c.observed.is_not(None))
    with store.read() as connection:
        row = connection.execute(_viewed().where(*which).order_by(windows.c.low.desc()).limit(1)).first()
    return None if row is None else _window_view(row)


def latest_windows(connection: Connection, model_ids: list[int]) -> dict[int, WindowView]:
    """The newest estimated window of each model."""
    last = (
        select(windows.c.model_id, func.max(windows.c.low).label("low"))
        .where(windows.c.model_id.in_(model_ids), windows.c.state == "estimated")
        .group_by(windows.c.model_id)
        .subquery()
    )
    query = _viewed().join(last, and_(windows.c.model_id == last.c.model_id, windows.c.low == last.c.low))
    return {
        row.model_id: _window_view(row)
        for row in connection.execute(query.where(windows.c.state == "estimated"))
    }


def _viewed(as_of: int | None = None, revision: Any = None) -> Select[Any]:
    """Windows, each with one of its revisions: the newest, that of a moment, that of a number; or with all."""
    at: Any = windows.c.revision
    if revision is not None:
        at = revision
    if as_of is not None:
        inner = revisions.alias()
        at = (
            select(func.max(inner.c.revision))
            .where(inner.c.window_id == windows.c.id, inner.c.created <= as_of)
            .scalar_subquery()
        )
    shown = [
        column
        for column in revisions.c
        if column.name not in ("id", "window_id", "rows", "low", "high", "seq")
    ]
    return (
        select(
            windows.c.model_id,
            windows.c.name,
            windows.c.spec,
            windows.c.start,
            windows.c.end,
            windows.c.low.label("first_time"),
            windows.c.high.label("last_time"),
            windows.c.rows.label("rows_now"),
            windows.c.state,
            windows.c.reason,
            windows.c.revision.label("newest"),
            models.c.name.label("model"),
            versions.c.name.label("version"),
            sources.c.error.label("source_error"),
            revisions.c.rows.label("rows_then"),
            revisions.c.low,
            revisions.c.high,
            *shown,
        )
        .select_from(windows)
        .join(models, models.c.id == windows.c.model_id)
        .join(versions, versions.c.id == windows.c.version_id)
        .outerjoin(revisions, and_(revisions.c.window_id == windows.c.id, revisions.c.revision == at))
        .outerjoin(sources, sources.c.id == revisions.c.source_id)
    )


def _window_view(row: Any) -> WindowView:
    by_rows = rows_per_window(row.spec) is not None
    there = row.revision is not None
    same = (
        "model version name spec reason newest created cause method error low high level sampling scores_error "
        "scores_low scores_high adaptive_low adaptive_high adaptive_level shift status source_error observed "
        "observed_low observed_high observed_kind"
    )
    return WindowView(
        **{name: getattr(row, name) for name in same.split()},
        start=row.first_time if by_rows else row.start,
        end=row.last_time if by_rows else row.end,
        rows=row.rows_then if there else row.rows_now,
        state=row.state,
        revision=row.revision or 0,
        labels=row.labels or 0,
        warnings=tuple(json.loads(row.warnings or "[]")),
        segments=tuple(SegmentView(**s) for s in json.loads(row.segments or "[]")),
        details=json.loads(row.details or "{}"),
    )


def _version_id(connection: Connection, model_id: int, name: str) -> int:
    rows = connection.execute(select(versions).where(versions.c.model_id == model_id)).all()
    for row in rows:
        if row.name == name:
            return int(row.id)
    raise unknown("version", name, [row.name for row in rows])
