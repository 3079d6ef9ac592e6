"""Files as requests to a monitor: a source, predictions or labels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge.errors import FileError, InputError
from shiftgauge.io import read_column, read_source, read_target
from shiftgauge.monitor.client.http import ARROW, address
from shiftgauge.monitor.periods import SECOND
from shiftgauge.monitor.tables import (
    class_value,
    read_segments,
    rows_table,
    source_npz,
    times_of,
    to_arrow_stream,
)


@dataclass(frozen=True)
class PushRequest:
    """A request: what to send where, and which numbers of the answer to show."""

    method: str
    url: str
    body: bytes
    kind: str
    shown: tuple[str, ...]


def source_request(file: Path, url: str, model: str, version: str, segments: Sequence[str]) -> PushRequest:
    """The labelled source, whatever form it came in, as npz."""
    source = read_source(file)
    body = source_npz(source, read_segments(file, source.n, segments))
    where = address(url, "models", model, "versions", version, "source")
    return PushRequest("PUT", where, body, "application/x-npz", ("rows", "error", "changed"))


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
        segments=read_segments(file, target.n, segments),
    )
    yield from _batched_requests(
        table, address(url, "models", model, "predictions"), batch, ("accepted", "duplicates")
    )


def label_requests(file: Path, url: str, model: str, id_column: str, batch: int) -> Iterator[PushRequest]:
    """Labels by id, in batches."""
    import pyarrow as pa

    ids = [str(value) for value in np.asarray(read_column(file, id_column)).tolist()]
    labels = [str(class_value(value)) for value in np.asarray(read_column(file, "label")).tolist()]
    table = pa.table({"id": pa.array(ids, pa.string()), "label": pa.array(labels, pa.string())})
    shown = ("accepted", "duplicates", "corrected", "unmatched")
    yield from _batched_requests(table, address(url, "models", model, "labels"), batch, shown)


def _batched_requests(table: Any, url: str, batch: int, shown: tuple[str, ...]) -> Iterator[PushRequest]:
    for start in range(0, table.num_rows, batch):
        yield PushRequest("POST", url, to_arrow_stream(table.slice(start, batch)), ARROW, shown)


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
