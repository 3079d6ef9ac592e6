"""A labelled file as a history: how would the monitor have done, had it watched?"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge.errors import FileError, InputError
from shiftgauge.io import read_column, read_source, read_target
from shiftgauge.monitor.client.http import ARROW, address
from shiftgauge.monitor.periods import SECOND, parse_time
from shiftgauge.samples import Source


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


@dataclass(frozen=True)
class PushRequest:
    """A request: what to send where, and which numbers of the answer to show."""

    method: str
    url: str
    body: bytes
    kind: str
    shown: tuple[str, ...]


def source_request(file: Path, url: str, model: str, version: str) -> PushRequest:
    """The labelled source, whatever form it came in, as npz."""
    source = read_source(file)
    where = address(url, "models", model, "versions", version, "source")
    return PushRequest(
        "PUT", where, source_npz(source, source.classes), "application/x-npz", ("rows", "error", "changed")
    )


def row_requests(
    file: Path,
    url: str,
    model: str,
    version: str,
    id_column: str | None,
    time_column: str | None,
    segments: list[str],
    batch: int,
) -> Iterator[PushRequest]:
    """Predictions in batches; the same file gives the same ids and times, so that it may be sent again."""

    target = read_target(file)
    ids = _ids(file, id_column, target.n)
    times = _times(file, time_column, target.n)
    names = target.classes
    table = rows_table(
        target.kind,
        target.scores,
        names,
        ids=ids,
        times=times,
        version=version,
        predictions=[str(j if names is None else names[j]) for j in target.predictions.tolist()],
        # As they stand in the file: what `target` keeps are proportions among its rows.
        weights=None if target.weights is None else np.asarray(read_column(file, "weights"), np.float64),
        segments={name: _segment(read_column(file, name)) for name in segments},
    )
    yield from _batched_requests(
        table, address(url, "models", model, "predictions"), batch, ("accepted", "duplicates")
    )


def rows_table(
    kind: str,
    scores: Any,
    classes: Sequence[Any] | None,
    *,
    ids: Sequence[str],
    times: Any,
    version: str,
    predictions: Sequence[str] | None = None,
    weights: Any = None,
    segments: Mapping[str, Sequence[str | None]] | None = None,
) -> Any:
    """Predictions as the Arrow table that the monitor reads.

    Args:
        kind: `logits` or `probs`.
        scores: (n, K).
        classes: K names, or None for numbered classes.
        ids: n texts.
        times: (n,) microseconds since 1970.
        version: of the model.
        predictions: n class names or numbers; the argmax where they are None.
        weights: (n,), or None.
        segments: by name, n texts or None.
    """
    import pyarrow as pa

    scores = np.ascontiguousarray(scores)
    scores = scores.astype(np.float32) if scores.dtype.itemsize < 4 else scores
    columns: dict[str, Any] = {
        "id": pa.array(ids, pa.string()),
        "time": pa.array(np.asarray(times, dtype=np.int64)).cast(pa.timestamp("us", tz="UTC")),
        "version": pa.array([version] * len(scores), pa.string()),
    }
    if classes is None:
        columns[kind] = pa.FixedSizeListArray.from_arrays(pa.array(scores.reshape(-1)), scores.shape[1])
    else:
        prefix = {"logits": "logit_", "probs": "prob_"}[kind]
        columns |= {f"{prefix}{name}": pa.array(scores[:, j]) for j, name in enumerate(classes)}
    if predictions is not None:
        columns["prediction"] = pa.array(predictions, pa.string())
    if weights is not None:
        columns["weight"] = pa.array(np.asarray(weights, dtype=np.float64))
    for name, values in (segments or {}).items():
        columns[f"segment_{name}"] = pa.array(values, pa.string())
    return pa.table(columns)


def _segment(values: Any) -> list[str | None]:
    return [None if value is None else str(value) for value in np.asarray(values).tolist()]


def label_requests(file: Path, url: str, model: str, id_column: str, batch: int) -> Iterator[PushRequest]:
    """Labels by id, in batches."""
    import pyarrow as pa

    ids = [str(value) for value in np.asarray(read_column(file, id_column)).tolist()]
    labels = [str(value) for value in np.asarray(read_column(file, "label")).tolist()]
    table = pa.table({"id": pa.array(ids, pa.string()), "label": pa.array(labels, pa.string())})
    shown = ("accepted", "duplicates", "corrected", "unmatched")
    yield from _batched_requests(table, address(url, "models", model, "labels"), batch, shown)


def _batched_requests(table: Any, url: str, batch: int, shown: tuple[str, ...]) -> Iterator[PushRequest]:
    for start in range(0, table.num_rows, batch):
        yield PushRequest("POST", url, stream_of(table.slice(start, batch)), ARROW, shown)


def stream_of(table: Any) -> bytes:
    """A table as an Arrow stream."""
    import pyarrow as pa

    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue().to_pybytes())


def _ids(file: Path, column: str | None, n: int) -> list[str]:
    if column is not None:
        return [str(value) for value in np.asarray(read_column(file, column)).tolist()]
    if not file.is_file():
        raise InputError(f"{file}: is not a single file; pass the column of ids with --id")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:20]
    return [f"{digest}-{i}" for i in range(n)]


def _times(file: Path, column: str | None, n: int) -> Any:
    if column is None:
        try:
            modified = file.stat().st_mtime
        except OSError as problem:
            raise FileError(f"{file}: cannot be read ({problem.strerror})") from None
        return np.full(n, int(modified) * SECOND)
    return times_of(read_column(file, column), column, str(file))
