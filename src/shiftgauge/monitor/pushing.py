"""Files as requests: the bodies that `shiftgauge push` sends."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge.errors import FileError, InputError
from shiftgauge.io import read_column, read_source, read_target
from shiftgauge.monitor.post import ARROW, address


@dataclass(frozen=True)
class Call:
    """A request: what to send where, and which numbers of the answer to show."""

    method: str
    url: str
    body: bytes
    kind: str
    shown: tuple[str, ...]


def source_call(file: Path, url: str, model: str, version: str) -> Call:
    """The labelled source, whatever form it came in, as npz."""
    from shiftgauge.monitor.replay import source_npz

    source = read_source(file)
    where = address(url, "models", model, "versions", version, "source")
    return Call(
        "PUT", where, source_npz(source, source.classes), "application/x-npz", ("rows", "error", "changed")
    )


def row_calls(
    file: Path,
    url: str,
    model: str,
    version: str,
    id_column: str | None,
    time_column: str | None,
    segments: list[str],
    batch: int,
) -> Iterator[Call]:
    """Predictions in batches; the same file gives the same ids and times, so that it may be sent again."""
    import pyarrow as pa

    target = read_target(file)
    ids = _ids(file, id_column, target.n)
    times = _times(file, time_column, target.n)
    scores = np.ascontiguousarray(target.scores)
    scores = scores.astype(np.float32) if scores.dtype.itemsize < 4 else scores
    columns: dict[str, Any] = {
        "id": pa.array(ids, pa.string()),
        "time": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
        "version": pa.array([version] * target.n, pa.string()),
    }
    if target.classes is None:
        columns[target.kind] = pa.FixedSizeListArray.from_arrays(pa.array(scores.reshape(-1)), target.k)
    else:
        prefix = {"logits": "logit_", "probs": "prob_"}[target.kind]
        columns |= {f"{prefix}{name}": pa.array(scores[:, j]) for j, name in enumerate(target.classes)}
    names = target.classes
    columns["prediction"] = pa.array(
        [str(j if names is None else names[j]) for j in target.predictions.tolist()]
    )
    if target.weights is not None:
        # As they stand in the file: what `target` keeps are proportions among its rows.
        columns["weight"] = pa.array(np.asarray(read_column(file, "weights"), dtype=np.float64))
    for name in segments:
        values = np.asarray(read_column(file, name)).tolist()
        columns[f"segment_{name}"] = pa.array([None if v is None else str(v) for v in values], pa.string())
    yield from _calls(
        pa.table(columns), address(url, "models", model, "predictions"), batch, ("accepted", "duplicates")
    )


def label_calls(file: Path, url: str, model: str, id_column: str, batch: int) -> Iterator[Call]:
    """Labels by id, in batches."""
    import pyarrow as pa

    ids = [str(value) for value in np.asarray(read_column(file, id_column)).tolist()]
    labels = [str(value) for value in np.asarray(read_column(file, "label")).tolist()]
    table = pa.table({"id": pa.array(ids, pa.string()), "label": pa.array(labels, pa.string())})
    shown = ("accepted", "duplicates", "corrected", "unmatched")
    yield from _calls(table, address(url, "models", model, "labels"), batch, shown)


def _calls(table: Any, url: str, batch: int, shown: tuple[str, ...]) -> Iterator[Call]:
    import pyarrow as pa

    for start in range(0, table.num_rows, batch):
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table.slice(start, batch))
        yield Call("POST", url, out.getvalue().to_pybytes(), ARROW, shown)


def _ids(file: Path, column: str | None, n: int) -> list[str]:
    if column is not None:
        return [str(value) for value in np.asarray(read_column(file, column)).tolist()]
    if not file.is_file():
        raise InputError(f"{file}: is no single file; pass the column of ids with --id")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:20]
    return [f"{digest}-{i}" for i in range(n)]


def _times(file: Path, column: str | None, n: int) -> Any:
    if column is None:
        try:
            stamp = file.stat().st_mtime
        except OSError as problem:
            raise FileError(f"{file}: cannot be read ({problem.strerror})") from None
        moment = datetime.fromtimestamp(int(stamp), timezone.utc).replace(tzinfo=None)
        return np.full(n, np.datetime64(moment, "us"))
    from shiftgauge.monitor.replay import times_of

    return times_of(read_column(file, column), column, str(file)).astype("datetime64[us]")
