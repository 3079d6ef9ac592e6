"""Windows: the estimate and the observed error of each, and every revision of both."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field, computed_field
from sqlalchemy import Connection, Select, and_, func, or_, select

from shiftgauge.monitor.db.models import model_row
from shiftgauge.monitor.db.schema import models, revisions, sources, versions, windows
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.problems import unknown
from shiftgauge.monitor.records import Record, Time
from shiftgauge.times import rows_per_window

MOST = 5000
#: An observed error that rests on fewer labels decides nothing, unless every row has one.
ENOUGH = 30


class WindowRange(Record):
    """A range of the error."""

    low: float
    high: float
    level: float | None
    kind: str | None = Field(
        default=None,
        description="what it covers; adaptive, or sampling error only (a named method's interval)",
    )


class LabelContribution(Record):
    """What labels contributed to the estimate, as `shiftgauge.results.LabelSummary` has it."""

    n: int = Field(description="labels that the estimate rests on")
    errors: int = Field(description="of these, rows whose prediction is wrong")
    error: float = Field(description="what the labels alone say")
    range: WindowRange
    scores_error: float = Field(description="what the scores alone said")
    scores_range: WindowRange
    chosen: str = Field(description="how the labelled rows were chosen: random or unknown")
    contradicts: bool = Field(description="whether labels and scores contradict each other")


class Observed(Record):
    """The error by labels."""

    error: float
    low: float | None
    high: float | None
    kind: str | None = Field(
        description="all rows (every row is labelled), requested (only such rows are), sample (as if drawn at random)"
    )
    labels: int


class SegmentView(Record):
    """The error within one value of a segment, such as `country` and `DE`; `(missing)` where rows have none."""

    segment: str
    value: str
    rows: int
    error: float
    low: float | None = Field(
        description="of auto, the range of this value alone; of a named method, an interval for all values at once; "
        "null where the value has too few rows"
    )
    high: float | None
    observed: float | None = None
    labels: int = 0


class MetricView(Record):
    """A metric of a window beside the error."""

    metric: str = Field(description="precision, recall, f1, roc_auc or class_error (wrong rows of the class)")
    of: str | None = Field(
        alias="class", description="null: of roc_auc all rows, of the others the mean over classes"
    )
    value: float | None = Field(description="the estimate; null where no row is expected behind it")
    low: float | None = Field(
        description="of its range; null for a named method, and where fewer than 5 rows are behind it"
    )
    high: float | None
    sampling: float | None = Field(description="half-width of its sampling error and label noise")
    source: float | None = Field(description="on the labelled source")
    observed: float | None = Field(description="by labels alone")
    labels: int = Field(description="labelled rows behind the observed value")

    @property
    def name(self) -> str:
        """As settings and rules of alerts name it."""
        return self.metric if self.of is None else f"{self.metric}:{self.of}"


def _hidden() -> Any:
    """A field that JSON shows within a range."""
    return Field(default=None, exclude=True)


class WindowView(Record):
    """A window as one revision shows it; numbers are null where they are not known.

    `low`, `high` and `level` are those of the range. For `auto` it was measured to hold; a named method has only the
    interval of its sampling error (see `measured`). `scores_error`, `scores_low` and `scores_high` are the answer from
    scores alone and its measured range at 90%, the unit of the adaptive range.
    """

    name: str = Field(serialization_alias="window", description="such as 2026-03-05.v1")
    model: str
    version: str
    spec: str = Field(serialization_alias="length", description="hour, day, week, or a number of rows")
    start: Time = Field(description="of windows by rows, the time of the first row")
    end: Time
    rows: int = Field(description="that the revision was made from; of an open window, so far")
    state: str = Field(description="open, waiting (closed, but see reason), estimated or failed")
    reason: str | None = None
    revision: int = Field(description="from 1; 0 where there is none yet")
    newest: int = Field(exclude=True)
    created: Time | None = Field(default=None, description="when the revision was made")
    cause: str | None = Field(default=None, description="closed, late rows, labels or source")
    method: str | None = None
    error: float | None = Field(default=None, description="the estimate, from scores and labels")
    low: float | None = _hidden()
    high: float | None = _hidden()
    level: float | None = _hidden()
    sampling: float | None = Field(
        default=None,
        description="half-width of the range's sampling part, or the lower side of a range that labels made narrower",
    )
    scores_error: float | None = _hidden()
    scores_low: float | None = _hidden()
    scores_high: float | None = _hidden()
    adaptive_low: float | None = _hidden()
    adaptive_high: float | None = _hidden()
    adaptive_level: float | None = _hidden()
    shift: str | None = Field(default=None, description="none, label or other")
    status: str | None = Field(default=None, description="the doctor's: ok, caution or stop")
    source_error: float | None = Field(default=None, description="of the source that was used")
    observed: float | None = _hidden()
    observed_low: float | None = _hidden()
    observed_high: float | None = _hidden()
    observed_kind: str | None = _hidden()
    labels: int = Field(default=0, exclude=True)
    warnings: tuple[str, ...] = ()
    segments: tuple[SegmentView, ...] = ()
    metrics: tuple[MetricView, ...] = ()
    details: dict[str, Any] = Field(default_factory=dict, exclude=True)

    @property
    def measured(self) -> bool:
        """Whether the range is the one that was measured to hold, not sampling error alone."""
        return self.low is not None and self.scores_low is not None

    @property
    def has_enough_labels(self) -> bool:
        """Whether 30 rows, or all of them, are labelled; an observed error from fewer decides nothing."""
        return self.observed is not None and self.labels >= min(ENOUGH, self.rows)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def range(self) -> WindowRange | None:
        """The range of the error."""
        return _range(self.low, self.high, self.level, self.details.get("range"))

    @computed_field(alias="labels")  # type: ignore[prop-decorator]
    @property
    def evidence(self) -> LabelContribution | None:
        """What labels contributed to the estimate; null where it rests on scores alone."""
        labels = self.details.get("labels")
        return None if labels is None else LabelContribution.model_validate(labels)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def adaptive_range(self) -> WindowRange | None:
        """The adaptive range, which learns from past differences to observed errors."""
        return _range(self.adaptive_low, self.adaptive_high, self.adaptive_level, "adaptive")

    @computed_field(alias="observed")  # type: ignore[prop-decorator]
    @property
    def by_labels(self) -> Observed | None:
        """The error by labels."""
        if self.observed is None:
            return None
        ends = {"low": self.observed_low, "high": self.observed_high}
        return Observed(error=self.observed, **ends, kind=self.observed_kind, labels=self.labels)


def _range(
    low: float | None, high: float | None, level: float | None, kind: str | None
) -> WindowRange | None:
    return None if low is None or high is None else WindowRange(low=low, high=high, level=level, kind=kind)


def list_windows(
    store: Store,
    model: str,
    *,
    version: str | None = None,
    since: int | None = None,
    until: int | None = None,
    as_of: int | None = None,
    estimated: bool = False,
    limit: int = 500,
) -> list[WindowView]:
    """The windows of a model in order of time, each as its newest revision shows it.

    Args:
        model, version: whose; all versions where none is named.
        since, until: only windows with rows from and before these times.
        as_of: as they were shown at this moment; those not estimated by then are left out.
        estimated: only windows with an estimate.
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
        if estimated:
            which.append(windows.c.revision > 0)
        if as_of is not None:
            which.append(revisions.c.id.is_not(None))
        newest = _viewed(as_of).where(*which).order_by(windows.c.low.desc(), windows.c.id.desc())
        rows = connection.execute(newest.limit(min(limit, MOST))).all()
    views = [_window_view(row) for row in reversed(rows)]
    if as_of is None:
        return views
    return [view.model_copy(update={"state": "estimated", "reason": None}) for view in views]


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


def neighbours(store: Store, model: str, name: str) -> tuple[str | None, str | None]:
    """The names of the windows of the same version before and after one; windows by rows may share one time."""
    low, number = windows.c.low, windows.c.id
    with store.read() as connection:
        here = (models.c.name == model, windows.c.name == name)
        joined = select(windows).join(models, models.c.id == windows.c.model_id)
        w = connection.execute(joined.where(*here)).one()
        same = select(windows.c.name).where(
            windows.c.model_id == w.model_id, windows.c.version_id == w.version_id
        )
        before = same.where(or_(low < w.low, and_(low == w.low, number < w.id)))
        after = same.where(or_(low > w.low, and_(low == w.low, number > w.id)))
        return (
            connection.execute(before.order_by(low.desc(), number.desc()).limit(1)).scalar(),
            connection.execute(after.order_by(low, number).limit(1)).scalar(),
        )


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
        for row in connection.execute(query.where(windows.c.state == "estimated").order_by(windows.c.id))
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
    same = ("model_id", "name", "spec", "start", "end", "state", "reason")
    return (
        select(
            *(windows.c[name] for name in same),
            windows.c.low.label("first_time"),
            windows.c.high.label("last_time"),
            windows.c.rows.label("rows_now"),
            windows.c.revision.label("newest"),
            models.c.name.label("model"),
            versions.c.name.label("version"),
            sources.c.error.label("source_error"),
            revisions.c.rows.label("rows_then"),
            *(column for column in revisions.c if column.name not in ("id", "window_id", "rows", "seq")),
        )
        .select_from(windows)
        .join(models, models.c.id == windows.c.model_id)
        .join(versions, versions.c.id == windows.c.version_id)
        .outerjoin(revisions, and_(revisions.c.window_id == windows.c.id, revisions.c.revision == at))
        .outerjoin(sources, sources.c.id == revisions.c.source_id)
    )


def _window_view(row: Any) -> WindowView:
    by_rows = rows_per_window(row.spec) is not None
    values = {name: value for name, value in row._mapping.items() if name in WindowView.model_fields}
    values |= {name: json.loads(values[name] or "[]") for name in ("warnings", "segments", "metrics")}
    values |= {
        "start": row.first_time if by_rows else row.start,
        "end": row.last_time if by_rows else row.end,
        "rows": row.rows_now if row.revision is None else row.rows_then,
        "revision": row.revision or 0,
        "labels": row.labels or 0,
        "details": json.loads(row.details or "{}"),
    }
    return WindowView(**values)


def _version_id(connection: Connection, model_id: int, name: str) -> int:
    rows = connection.execute(select(versions).where(versions.c.model_id == model_id)).all()
    for row in rows:
        if row.name == name:
            return int(row.id)
    raise unknown("version", name, [row.name for row in rows])
