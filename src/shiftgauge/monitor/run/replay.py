"""Replays: a labelled history enters the monitor window by window, as if it happened then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shiftgauge import validation
from shiftgauge.errors import InputError
from shiftgauge.io import ReadOptions, open_source, read_checked, read_column
from shiftgauge.monitor.db.models import get_settings, put_settings, put_source
from shiftgauge.monitor.db.rows import numbers
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.estimate.adaptive_range import coverage
from shiftgauge.monitor.ingest.bodies import NO_LIMITS
from shiftgauge.monitor.ingest.commit import Committer, submit_labels, submit_rows
from shiftgauge.monitor.ingest.rows import check_rows
from shiftgauge.monitor.ingest.transaction import PAUSE, assign_periods
from shiftgauge.monitor.periods import DAY, SECOND, simulated_time
from shiftgauge.monitor.run.worker import Worker
from shiftgauge.monitor.tables import rows_table, source_npz, times_of
from shiftgauge.samples import Source


@dataclass(frozen=True)
class History:
    """Rows in order of time, with the labels that came later.

    Attributes:
        rows: a checked table (see `ingest.rows`).
        labels: n texts, None where no label ever came.
        delay: how long after its row a label came, in microseconds.
    """

    rows: Any
    labels: Sequence[str | None]
    delay: int


def replay_history(
    store: Store,
    model: str,
    history: History,
    say: Callable[[str], None] | None = None,
    *,
    to_the_end: bool = False,
) -> int:
    """Replay a history window by window; how many windows there were.

    At the end of each window its rows arrive, with the labels whose delay has passed; then the worker does what
    is due. With `to_the_end`, the labels that are still to come arrive once their delay has passed too.
    """
    settings = get_settings(store, model)
    lateness = int(settings.lateness_minutes * 60 * SECOND)
    committer, worker = Committer(store), Worker(store, replaying=True)
    times = numbers(history.rows, "time")
    parts = list(assign_periods([(0, settings.window)], times, np.arange(len(times))))
    waiting = np.array([label is not None for label in history.labels])
    try:
        for number, (_, span, mine) in enumerate(parts):
            if say is not None:
                say(f"{span.name} ({number + 1} of {len(parts)})")
            moment = int(times[mine].max()) + SECOND if span.end < times[0] else span.end
            with simulated_time(moment):
                submit_rows(committer, model, history.rows.take(pa.array(mine))).result()
                due = waiting & (times + history.delay <= moment)
                _labels(committer, model, history, due)
                waiting &= ~due
            with simulated_time(moment + lateness + PAUSE):
                worker.drain()
        if to_the_end and waiting.any():
            with simulated_time(max(moment, int(times.max()) + history.delay)):
                _labels(committer, model, history, waiting)
            with simulated_time(max(moment, int(times.max()) + history.delay) + PAUSE):
                worker.drain()
    finally:
        committer.close()
    return len(parts)


def _labels(committer: Committer, model: str, history: History, which: npt.NDArray[np.bool_]) -> None:
    places = np.flatnonzero(which)
    if len(places):
        labels = pa.array([str(history.labels[i]) for i in places.tolist()])
        ids = history.rows.column("id").take(pa.array(places))
        submit_labels(committer, model, pa.table({"id": ids, "label": labels})).result()


@dataclass(frozen=True)
class Replay:
    """What was replayed: windows, rows, and how often the adaptive range covered the observed error."""

    model: str
    windows: int
    rows: int
    labelled: int
    covered: int
    level: float


def replay(
    store: Store,
    file: str | Path,
    time: str,
    *,
    source: str | Path | None = None,
    model: str = "replay",
    version: str = "v1",
    settings: dict[str, Any] | None = None,
    first: float = 0.2,
    delay_days: float = 0.0,
    form: ReadOptions | None = None,
    say: Callable[[str], None] | None = None,
) -> Replay:
    """Replay a labelled file.

    Args:
        store: an empty one, or one without this model.
        time: the column of times (ISO 8601 with a zone, timestamps, or seconds since 1970).
        source: labelled scores from before; without it, the first rows of the file are used.
        settings: of the model, such as `{"window": "day"}`.
        first: the share of rows, by time, that become the source where none is given.
        delay_days: how late the labels come.
        form: how to read the file.
        say: called with each window's name.
    """
    target, labels = read_checked(file, form)
    if labels is None:
        raise InputError(f"{file}: holds no labels; a replay needs them for the observed error")
    times = times_of(read_column(file, time), time, str(file))
    order = np.argsort(times, kind="stable")
    names = None if target.classes is None else tuple(str(c) for c in target.classes)
    truth = validation.check_labels(labels, target.n, target.k, target.classes, "labels")
    text = np.array(names if names is not None else [str(j) for j in range(target.k)], dtype=object)
    begin = 0 if source is not None else max(1, int(first * len(order)))
    rest = order[begin:]
    if source is not None:
        known = open_source(source, form or ReadOptions())
    else:
        head = order[:begin]
        scores: dict[str, Any] = {target.kind: target.scores[head]}
        known = Source(
            **scores,
            labels=truth[head] if names is None else text[truth[head]],
            classes=names,
            predictions=target.predictions[head] if names is None else text[target.predictions[head]],
            weights=None if target.weights is None else target.weights[head],
        )
    if not len(rest):
        raise InputError(f"{file}: no rows are left after the source; wanted more, or a smaller --first")
    with simulated_time(int(times[rest[0]])):
        put_source(store, model, version, source_npz(known), "npz")
        put_settings(store, model, settings or {})
    posted = rows_table(
        target.kind,
        target.scores[rest],
        names,
        ids=[f"row-{i}" for i in rest],
        times=times[rest],
        version=version,
        predictions=[text[j] for j in target.predictions[rest]],
        weights=None if target.weights is None else target.weights[rest],
    )
    rows = check_rows(posted, NO_LIMITS, int(times.max()))
    history = History(rows, [text[j] for j in truth[rest]], int(delay_days * DAY))
    count = replay_history(store, model, history, say, to_the_end=True)
    adaptive = coverage(store, model)
    return Replay(model, count, len(rest), adaptive.windows, adaptive.covered, adaptive.level)
