"""The estimated error over time: one estimate per period of a frame, as a table and a figure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import plots, validation
from shiftgauge.adapters.frames import Columns, frame_column, from_dataframe
from shiftgauge.adapters.scores import index_ids
from shiftgauge.errors import InputError, Note
from shiftgauge.inference.columns import is_missing, one_per_row, row_times
from shiftgauge.inference.estimates import estimate
from shiftgauge.io.frames import as_table
from shiftgauge.io.values import parse_labels
from shiftgauge.methods import DEFAULT, Pair
from shiftgauge.methods.range import RANGE_LEVEL
from shiftgauge.results import Estimate, Table, percent, percent_range
from shiftgauge.rows import AnySource
from shiftgauge.samples import RawScores, Target, check_target
from shiftgauge.times import bin_edges, bin_starts, group_indices, rows_per_window
from shiftgauge.validation.target_labels import RANDOM

Indices = npt.NDArray[np.intp]

#: More periods than this are probably a wrong time, such as one in 1970.
MOST_PERIODS = 10_000
#: Periods of fewer rows are flagged, as slices are.
FEW_ROWS = 50
#: The observed error of fewer labelled rows is not shown, unless they are all rows of the period.
FEWEST_OBSERVED = 30


@dataclass(frozen=True)
class TimelinePeriod:
    """One period of a timeline.

    Attributes:
        name: its beginning, or the numbers of its rows in the order of time.
        start, end: its beginning, and that of the next period; of a number of rows the times of its first and last
            row, None without times.
        rows: how many rows it has.
        estimate: the answer for these rows; None if there are none, or all weigh 0.
        observed: the error by the labels of these rows; None without labels, or with too few.
        observed_rows: how many rows it rests on.
    """

    name: str
    start: str | None
    end: str | None
    rows: int
    estimate: Estimate | None
    observed: float | None = None
    observed_rows: int = 0

    @property
    def error(self) -> float | None:
        """The estimated error; None without rows."""
        return None if self.estimate is None else self.estimate.error

    @property
    def score(self) -> float | None:
        """The value of a method that gives a score; None for an error."""
        return None if self.estimate is None else self.estimate.score

    @property
    def low(self) -> float | None:
        """The lower end of the range; None without one."""
        return None if self._range is None else self._range.low

    @property
    def high(self) -> float | None:
        """The upper end of the range; None without one."""
        return None if self._range is None else self._range.high

    @property
    def _range(self) -> Any:
        return None if self.estimate is None else self.estimate.shown_range

    @property
    def grade(self) -> str | None:
        """How far to trust the estimate: `"ok"`, `"caution"` or `"stop"`; None for a method without a range."""
        return None if self.estimate is None else self.estimate.grade

    @property
    def labels(self) -> int:
        """How many labelled rows the estimate uses."""
        return 0 if self.estimate is None or self.estimate.labels is None else self.estimate.labels.n

    @property
    def note(self) -> str:
        """A remark about its rows, if it needs one."""
        if self.estimate is None:
            return "all rows weigh 0" if self.rows else "no rows"
        return "few rows" if self.rows < FEW_ROWS else ""

    def record(self) -> dict[str, Any]:
        """The row of a table."""
        names = ("start", "end", "rows", "error", "low", "high", "grade", "labels", "observed")
        record = {"period": self.name, **{name: getattr(self, name) for name in names}}
        return {**record, "observed_rows": self.observed_rows, "note": self.note}

    def to_dict(self) -> dict[str, Any]:
        """The period as plain values."""
        answer = None if self.estimate is None else self.estimate.content()
        return {**self.record(), "estimate": answer}


@dataclass(frozen=True, repr=False)
class Timeline(Table):
    """The estimates of all periods.

    Attributes:
        periods: in order of time, with those that have no rows.
        every: the length of a period.
        source_error: the error on the source.
        level: of the ranges.
        warnings: what concerns every period.
    """

    periods: tuple[TimelinePeriod, ...]
    every: str
    source_error: float
    level: float
    warnings: tuple[str, ...] = ()

    def content(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "every": self.every,
            "source_error": self.source_error,
            "level": self.level,
            "periods": [period.to_dict() for period in self.periods],
        }

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per period."""
        return [period.record() for period in self.periods]

    def numbers(self) -> dict[str, list[float | None]]:
        """Error, range and observed error as series with one value per period."""
        series = ("error", "low", "high", "observed", "rows", "labels")
        return {
            "source_error": [self.source_error],
            **{name: [getattr(period, name) for period in self.periods] for name in series},
        }

    def plot(self) -> Any:
        """A matplotlib figure: the estimates with their ranges, the observed errors, the source error."""
        return plots.timeline(self)

    def heading(self) -> str:
        """How many periods and rows there are, and the source error."""
        rows = sum(period.rows for period in self.periods)
        word = "period" if len(self.periods) == 1 else "periods"
        return (
            f"{len(self.periods):,} {word} ({self.every}), {rows:,} rows; "
            f"source error {percent(self.source_error)}"
        )

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """One row per period."""
        head = (
            "period",
            "rows",
            "error",
            f"{100 * self.level:g}% range",
            "grade",
            "labels",
            "observed",
            "",
        )
        return head, [self._cells(period) for period in self.periods]

    def _cells(self, period: TimelinePeriod) -> tuple[str, ...]:
        observed = "" if period.observed is None else percent(period.observed)
        ends = "" if period.low is None or period.high is None else percent_range(period.low, period.high)
        counted = period.estimate is not None and period.estimate.counted
        value = "" if period.error is None else percent(period.error)
        if period.score is not None:
            value = f"score {period.score:.4g}"
        return (
            period.name,
            f"{period.rows:,}",
            value,
            "labelled" if counted else ends,
            "" if counted else period.grade or "",
            f"{period.labels:,}" if period.labels else "",
            observed,
            period.note,
        )


def timeline(
    source: AnySource,
    frame: Any,
    time: Any = None,
    every: str | int = "week",
    *,
    labels: Any = None,
    labels_chosen: Any = RANDOM,
    truth: Any = None,
    zone: str | None = None,
    probs: Columns | None = None,
    logits: Columns | None = None,
    weights: str | None = None,
    predictions: str | None = "prediction",
    ids: str | None = None,
    method: str = DEFAULT,
    calibration: str = "temperature",
    proportions: str = "unknown",
    level: float = RANGE_LEVEL,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Timeline:
    """Estimate the error of each period of a frame, with a range, and with labels where there are some.

    Args:
        source: scores with labels.
        frame: scores with times: anything that `shiftgauge.from_dataframe` reads (pandas, polars, pyarrow, DuckDB),
            rows in any order; or a `Target`.
        time: the column of times: dates, ISO 8601 texts or Unix times; or one time per row. Without it rows are
            taken in their order, and `every` is a number of rows.
        every: `"hour"`, `"day"`, `"week"` (from Monday), `"month"`, `"year"`, several such as `"6h"`, or a number of
            rows: `1000` or `"1000 rows"`.
        labels, labels_chosen: labels of some rows, which change the answer: the name of a column with missing
            values, or as in `shiftgauge.estimate`.
        truth: labels that are only compared with: the name of a column, or one entry per row, missing where there
            is none.
        zone: the time zone of the periods, such as `"Europe/Berlin"`, if times have a zone; by default UTC.
        probs, logits, weights, predictions, ids: columns of the frame, as in `shiftgauge.from_dataframe`.
        method, calibration, proportions, level, seed: as in `shiftgauge.estimate`.
        progress: called with each period as it begins.

    >>> import numpy as np, pyarrow as pa, shiftgauge as sg
    >>> rng = np.random.default_rng(0); y = rng.integers(2, size=1200); p = rng.beta(4 - 3 * y, 1 + 3 * y)
    >>> source = sg.Source(probs=np.column_stack([p, 1 - p])[:600], labels=y[:600], classes=["a", "b"])
    >>> days = np.datetime64("2026-03-02") + np.arange(600) // 40
    >>> frame = pa.table({"prob_a": p[600:], "prob_b": 1 - p[600:], "date": days})
    >>> [(period.name, period.rows) for period in sg.timeline(source, frame, time="date", every="week").periods]
    [('2026-03-02', 280), ('2026-03-09', 280), ('2026-03-16', 40)]
    """
    if isinstance(frame, Target | RawScores):
        target = check_target(frame, "timeline")
    else:
        options = {"probs": probs, "logits": logits, "weights": weights}
        target, time, labels, truth = _read_frame(
            frame, time, labels, truth, predictions=predictions, ids=ids, **options
        )
    length = _length(every)
    spans = _spans(time, length, target.n, zone)
    pair = Pair(
        source,
        target,
        calibration,
        seed=seed,
        labels=labels,
        labels_chosen=labels_chosen,
        function="timeline",
    )
    known = None if truth is None else _truth_classes(truth, target, pair.source_sample.classes)
    answers = {"method": method, "proportions": proportions, "level": level}
    periods = []
    for number, span in enumerate(spans):
        if progress is not None:
            progress(f"period {number + 1} of {len(spans)}, {span.name}")
        periods.append(_period(span, pair, target, known, answers))
    return Timeline(tuple(periods), length, pair.source_sample.error, level, _shared_warnings(periods))


def _read_frame(
    frame: Any, time: Any, labels: Any, truth: Any, **options: Any
) -> tuple[Target, Any, Any, Any]:
    """The target of a frame, and the columns that were named."""
    table = as_table(frame)
    collected = from_dataframe(table, labels=labels if isinstance(labels, str) else None, **options)
    target = collected.target(ids=index_ids(frame, table.num_rows) if collected.ids is None else None)
    columns = [frame_column(table, given) if isinstance(given, str) else given for given in (time, truth)]
    if isinstance(truth, str):
        columns[1] = parse_labels(columns[1], target.classes or ())
    return target, columns[0], collected.labels if isinstance(labels, str) else labels, columns[1]


@dataclass(frozen=True)
class _Span:
    """The rows of a period, and what it is called."""

    name: str
    start: str | None
    end: str | None
    rows: Indices


def _length(every: str | int) -> str:
    if isinstance(every, str):
        return every
    validation.check_count(every, "every", 1)
    return f"{every} rows"


def _spans(time: Any, length: str, n: int, zone: str | None) -> list[_Span]:
    """The periods with their rows, in order of time."""
    count = rows_per_window(length)
    if count is not None:
        if zone is not None:
            raise InputError(f"zone {zone!r} is for periods of time, and every is {length!r}; leave it out")
        return _spans_of_rows(time, count, n)
    if time is None:
        raise InputError(
            f"timeline: no times arrived for periods of {length!r}; wanted time= (--time COLUMN), or every= a number "
            "of rows such as '1000 rows'"
        )
    starts = bin_starts(_times(time, n), length, "time", zone)
    edges = bin_edges(starts, length, MOST_PERIODS, "time")
    names = np.datetime_as_string(edges).tolist()
    rows = dict(group_indices(np.searchsorted(edges, starts)))
    none = np.empty(0, np.intp)
    return [
        _Span(start, start, end, rows.get(i, none))
        for i, (start, end) in enumerate(itertools.pairwise(names))
    ]


def _times(time: Any, n: int) -> npt.NDArray[Any]:
    """(n,) the times, none missing."""
    times = one_per_row(time, n, "time")
    missing = np.flatnonzero([is_missing(value) for value in times.tolist()])
    if len(missing):
        rows = "1 row has" if len(missing) == 1 else f"{len(missing):,} rows have"
        raise InputError(
            f"time: {rows} no time, the first is row {missing[0]}; wanted one in every row; drop or fill such rows"
        )
    return times


def _spans_of_rows(time: Any, count: int, n: int) -> list[_Span]:
    """Periods of so many rows each, in order of time; the last may have fewer."""
    times = None if time is None else _times(time, n)
    order = np.arange(n) if times is None else np.argsort(row_times(times, n, "time"), kind="stable")
    spans = []
    for first in range(0, n, count):
        rows = order[first : first + count]
        start, end = (None if times is None else str(times[row]) for row in rows[[0, -1]])
        spans.append(_Span(f"rows {first}-{first + len(rows) - 1}", start, end, rows))
    return spans


def _truth_classes(truth: Any, target: Target, classes: tuple[Hashable, ...] | None) -> Indices:
    """(n,) the class of each row by the labels to compare with; -1 where there is none."""
    values = one_per_row(truth, target.n, "truth")
    rows = np.flatnonzero(~validation.missing_rows(values, "truth"))
    out = np.full(target.n, -1, np.intp)
    if len(rows):
        out[rows] = validation.check_labels(
            values[rows], len(rows), target.k, target.classes or classes, "truth"
        )
    return out


def _observed(target: Target, rows: Indices, truth: Indices) -> tuple[float | None, int]:
    """The error of these rows by the labels that they have, and how many have one."""
    labelled = rows[truth[rows] >= 0]
    if not len(labelled) or _weightless(target, labelled):
        return None, 0
    part = target.take(labelled)
    return part.share(part.predictions != truth[labelled]), len(labelled)


def _weightless(target: Target, rows: Indices) -> bool:
    return target.weights is not None and not target.weights[rows].any()


def _period(
    span: _Span, pair: Pair, target: Target, truth: Indices | None, answers: dict[str, Any]
) -> TimelinePeriod:
    rows = span.rows
    if not len(rows) or _weightless(target, rows):
        return TimelinePeriod(span.name, span.start, span.end, len(rows), None)
    labels = None if pair.labels is None else pair.labels.take(rows, target.n)
    found = estimate(pair.with_target(target.take(rows), labels), **answers)
    error, count = (None, 0) if truth is None else _observed(target, rows, truth)
    if not count and found.labels is not None:
        error, count = found.labels.error, found.labels.n
    if count < min(FEWEST_OBSERVED, len(rows)):
        error, count = None, 0
    return TimelinePeriod(span.name, span.start, span.end, len(rows), found, error, count)


def _shared_warnings(periods: Sequence[TimelinePeriod]) -> tuple[str, ...]:
    """The warnings of every period; where only some have others, the names of these periods."""
    found = [(period.name, period.estimate.warnings) for period in periods if period.estimate is not None]
    shared = [text for text in found[0][1] if all(text in one for _, one in found)]
    others = [
        name for name, one in found if any(text not in shared and not isinstance(text, Note) for text in one)
    ]
    if not others:
        return tuple(shared)
    names = ", ".join(others[:2]) + (f" and {len(others) - 2:,} more" if len(others) > 2 else "")
    which = f"{len(others)} of {len(found)} periods have warnings of their own, which the JSON has: {names}"
    return (*shared, Note(which))
