"""Playing a history: rows and late labels enter window by window, and are estimated, as if it were then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.monitor.clock import pretend
from shiftgauge.monitor.ingest.committer import Committer
from shiftgauge.monitor.ingest.spread import PAUSE, spans_of
from shiftgauge.monitor.service.ingest import submit_labels, take_rows
from shiftgauge.monitor.service.settings import get_settings
from shiftgauge.monitor.spans import SECOND
from shiftgauge.monitor.store import Store
from shiftgauge.monitor.wire.rows import Raw
from shiftgauge.monitor.worker import Worker


@dataclass(frozen=True)
class History:
    """Rows in order of time, with the labels that came later.

    Attributes:
        rows: the rows.
        labels: n texts, None where no label ever came.
        delay: how long after its row a label came, in microseconds.
    """

    rows: Raw
    labels: Sequence[str | None]
    delay: int


def play(
    store: Store,
    model: str,
    history: History,
    say: Callable[[str], None] | None = None,
    *,
    to_the_end: bool = False,
) -> int:
    """Let a history happen, window by window; how many windows there were.

    At the end of each window its rows arrive, with the labels whose delay has passed; then the worker does what
    is due. Played to the end, the labels that are still to come arrive once their delay has passed too.
    """
    settings = get_settings(store, model)
    lateness = int(settings.lateness_minutes * 60 * SECOND)
    committer, worker = Committer(store), Worker(store)
    times = history.rows.times
    parts = list(spans_of([(0, settings.window)], times, np.arange(len(times))))
    waiting = np.array([label is not None for label in history.labels])
    try:
        for number, (_, span, mine) in enumerate(parts):
            if say is not None:
                say(f"{span.name} ({number + 1} of {len(parts)})")
            moment = int(times[mine].max()) + SECOND if span.end < times[0] else span.end
            with pretend(moment):
                take_rows(committer, model, some(history.rows, mine))
                ripe = waiting & (times + history.delay <= moment)
                _labels(committer, model, history, ripe)
                waiting &= ~ripe
            with pretend(moment + lateness + PAUSE):
                worker.drain()
        if to_the_end and waiting.any():
            with pretend(max(moment, int(times.max()) + history.delay)):
                _labels(committer, model, history, waiting)
            with pretend(max(moment, int(times.max()) + history.delay) + PAUSE):
                worker.drain()
    finally:
        committer.close()
    return len(parts)


def _labels(committer: Committer, model: str, history: History, which: npt.NDArray[np.bool_]) -> None:
    import pyarrow as pa

    places = np.flatnonzero(which)
    if len(places):
        ids = history.rows.ids.take(pa.array(places))
        submit_labels(
            committer, model, ids, [str(history.labels[i]) for i in places.tolist()], None, ""
        ).result()


def some(rows: Raw, places: npt.NDArray[np.intp]) -> Raw:
    """Some of the rows."""
    import pyarrow as pa

    arrow = pa.array(places)
    return Raw(
        ids=rows.ids.take(arrow),
        times=rows.times[places],
        versions=[rows.versions[i] for i in places],
        kind=rows.kind,
        scores=rows.scores[places],
        classes=rows.classes,
        predictions=None if rows.predictions is None else [rows.predictions[i] for i in places],
        weights=None if rows.weights is None else rows.weights[places],
        segments={name: values.take(arrow) for name, values in rows.segments.items()},
    )


def texts(values: Any) -> list[str]:
    """Labels as the monitor keeps them."""
    return [str(value) for value in values]
