"""A labelled file as a history: how would the monitor have done, had it watched?"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge.errors import InputError
from shiftgauge.io import ReadOptions, open_source, read_checked, read_column
from shiftgauge.monitor.clock import pretend
from shiftgauge.monitor.play import History, play
from shiftgauge.monitor.service.models import put_source
from shiftgauge.monitor.service.settings import put_settings
from shiftgauge.monitor.spans import DAY, SECOND
from shiftgauge.monitor.store import Store
from shiftgauge.monitor.wire.rows import Raw, parse_time
from shiftgauge.samples import Source, Target


@dataclass(frozen=True)
class Replay:
    """What was replayed: windows, rows, and how often the adaptive range held the truth."""

    model: str
    windows: int
    rows: int
    judged: int
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
    """Let a labelled file happen again.

    Args:
        store: an empty one, or one without this model.
        file: scores with labels.
        time: the column of times (ISO 8601 with a zone, timestamps, or seconds since 1970).
        source: labelled scores from before; without it, the first rows of the file are taken.
        model, version: names.
        settings: of the model, such as `{"window": "day"}`.
        first: the share of rows, by time, that become the source where none is given.
        delay_days: how late the labels come.
        form: how to read the file.
        say: called with each window's name.
    """
    target, labels = read_checked(file, form)
    if labels is None:
        raise InputError(f"{file}: holds no labels; a replay needs them to say what turned out")
    times = times_of(read_column(file, time), time, str(file))
    order = np.argsort(times, kind="stable")
    names = None if target.classes is None else tuple(str(c) for c in target.classes)
    truth = _indices(labels, target)
    begin = 0 if source is not None else max(1, int(first * len(order)))
    rest = order[begin:]
    if source is not None:
        known = open_source(source, form or ReadOptions())
    else:
        head = order[:begin]
        known = Source(**{target.kind: target.scores[head]}, labels=truth[head])  # type: ignore[arg-type]
    if not len(rest):
        raise InputError(f"{file}: no rows are left after the source; wanted more, or a smaller --first")
    text = np.array(names if names is not None else [str(j) for j in range(target.k)], dtype=object)
    with pretend(int(times[rest[0]])):
        put_source(
            store, model, version, source_npz(known, names if source is None else known.classes), "npz"
        )
        put_settings(store, model, settings or {})
    rows = _arriving(target, rest, times, version, text, names)
    history = History(rows, [text[j] for j in truth[rest]], int(delay_days * DAY))
    count = play(store, model, history, say, to_the_end=True)
    from shiftgauge.monitor.service.windows import coverage

    held = coverage(store, model)
    return Replay(model, count, len(rest), held.windows, held.covered, held.level)


def _arriving(
    target: Target, rest: Any, times: Any, version: str, text: Any, names: tuple[str, ...] | None
) -> Raw:
    """The rows numbered `rest`, as a caller would have posted them."""
    import pyarrow as pa

    return Raw(
        ids=pa.array([f"row-{i}" for i in rest]),
        times=times[rest],
        versions=[version] * len(rest),
        kind=target.kind,
        scores=np.ascontiguousarray(target.scores[rest]),
        classes=names,
        predictions=[text[j] for j in target.predictions[rest]],
        weights=None if target.weights is None else target.weights[rest],
    )


def _indices(labels: Any, target: Any) -> Any:
    from shiftgauge import validation

    return validation.check_labels(labels, target.n, target.k, target.classes, "labels")


def source_npz(source: Source, names: Any) -> bytes:
    """A source as an npz file."""
    out = io.BytesIO()
    arrays: dict[str, Any] = {source.kind: source.scores, "labels": source.labels}
    if names is not None:
        arrays["classes"] = np.array([str(name) for name in names])
        arrays["labels"] = arrays["classes"][source.labels]
    if source.weights is not None:
        arrays["weights"] = source.weights
    np.savez(out, **arrays)
    return out.getvalue()


def times_of(values: Any, name: str, file: str) -> Any:
    """(n,) microseconds since 1970 of a column of times."""
    array = np.asarray(values)
    if array.dtype.kind == "M":
        return array.astype("datetime64[us]").astype(np.int64)
    if array.dtype.kind in "iuf":
        return (array * SECOND).astype(np.int64)
    try:
        return np.array(
            [parse_time(_text(value), i) for i, value in enumerate(array.tolist())], dtype=np.int64
        )
    except Exception as problem:
        raise InputError(f"{file}: column {name!r}: {problem}") from None


def _text(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value
