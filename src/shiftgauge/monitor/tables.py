"""Rows and sources in the forms that client and server exchange: Arrow tables and npz files."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError
from shiftgauge.io import column_names, read_groups
from shiftgauge.monitor.periods import SECOND, parse_time
from shiftgauge.samples import Source

#: How the columns of segments begin, in files and in tables of rows.
SEGMENT = "segment_"


def source_npz(source: Source, segments: Mapping[str, Sequence[str | None]] | None = None) -> bytes:
    """A source as an npz file, with the segments of its rows by name."""
    out = io.BytesIO()
    arrays: dict[str, Any] = {source.kind: source.scores, "labels": source.labels}
    if source.decided is not None:
        arrays["predictions"] = source.predictions
    if source.classes is not None:
        names = np.array([str(name) for name in source.classes])
        arrays = {name: v if name == source.kind else names[v] for name, v in arrays.items()}
        arrays["classes"] = names
    if source.weights is not None:
        arrays["weights"] = source.weights
    for name, values in (segments or {}).items():
        arrays[SEGMENT + name] = np.array([value or "" for value in values])
    np.savez(out, **arrays)
    return out.getvalue()


def read_segments(file: Path, rows: int, columns: Sequence[str] = ()) -> dict[str, list[str | None]]:
    """The segments of a file's rows, by name: of its columns `segment_NAME`, and of others that are named."""
    named = {name.removeprefix(SEGMENT): name for name in column_names(file) if name.startswith(SEGMENT)}
    named |= {name.removeprefix(SEGMENT): name for name in columns}
    found = read_groups(file, list(named.values()), rows) if named else {}
    return {name: [_segment(value) for value in found[column].tolist()] for name, column in named.items()}


def _segment(value: Any) -> str | None:
    return None if value is None or value != value else str(value)


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
        scores: (n, K).
        classes: K names, or None for numbered classes.
        times: (n,) microseconds since 1970.
        predictions: n class names or numbers; the argmax where they are None.
        segments: by name, n texts or None.
    """
    import pyarrow as pa

    scores = _storable(scores)
    columns: dict[str, Any] = {
        "id": pa.array(ids, pa.string()),
        "time": pa.array(np.asarray(times, dtype=np.int64)).cast(pa.timestamp("us", tz="UTC")),
        "version": pa.array([version] * len(scores), pa.string()),
    }
    if classes is None:
        columns[kind] = score_column(scores)
    else:
        prefix = {"logits": "logit_", "probs": "prob_"}[kind]
        columns |= {f"{prefix}{name}": pa.array(scores[:, j]) for j, name in enumerate(classes)}
    if predictions is not None:
        columns["prediction"] = pa.array(predictions, pa.string())
    if weights is not None:
        columns["weight"] = pa.array(np.asarray(weights, dtype=np.float64))
    for name, values in (segments or {}).items():
        columns[SEGMENT + name] = pa.array(values, pa.string())
    return pa.table(columns)


def class_value(value: Any) -> Any:
    """A class; its number if that came as a float, as pandas has it in a column with gaps.

    >>> class_value(1.0), class_value("1.0")
    (1, '1.0')
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


def score_column(scores: npt.NDArray[Any]) -> Any:
    """(n, K) scores as an Arrow column, in single or double precision."""
    import pyarrow as pa

    scores = _storable(scores)
    return pa.FixedSizeListArray.from_arrays(pa.array(scores.reshape(-1)), scores.shape[1])


def _storable(scores: Any) -> npt.NDArray[Any]:
    array = np.ascontiguousarray(scores)
    return array.astype(np.float32) if array.dtype.itemsize < 4 else array


def to_arrow_stream(table: Any, compression: str | None = None) -> bytes:
    """A table as an Arrow stream."""
    import pyarrow as pa

    out = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(out, table.schema, options=options) as writer:
        writer.write_table(table)
    body: bytes = out.getvalue().to_pybytes()
    return body
