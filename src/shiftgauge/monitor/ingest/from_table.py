"""Predictions and labels in Arrow and Parquet: one column per thing.

Columns: `id`, `time` (a timestamp with a zone), `version`, the scores as one list column `probs` or `logits` or as
columns `prob_CLASS` or `logit_CLASS`, and, if wanted, `prediction`, `weight`, and `segment_NAME` for each segment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shiftgauge.errors import nearest
from shiftgauge.monitor.ingest.bodies import RequestLimits, too_large, unreadable_as_problem
from shiftgauge.monitor.ingest.from_json import label_text
from shiftgauge.monitor.ingest.rows import (
    PostedRows,
    check_ids,
    check_segments,
    check_times,
    decode_dictionary,
)
from shiftgauge.monitor.problems import LONGEST_VALUE, check_name, invalid

PLAIN = ("id", "time", "version", "probs", "logits", "prediction", "weight")
SCORE_PREFIXES = {"prob_": "probs", "logit_": "logits"}
SEGMENT = "segment_"


def rows_from_table(table: Any, limits: RequestLimits, now: int) -> PostedRows:
    """Rows from an Arrow table."""
    with unreadable_as_problem("a table of predictions"):
        return _rows_from_table(table, limits, now)


def _rows_from_table(table: Any, limits: RequestLimits, now: int) -> PostedRows:
    _check_names(table, PLAIN, (*SCORE_PREFIXES, SEGMENT))
    n = _rows(table)
    kind, scores, classes = _scores(table, limits)
    segments = {
        name.removeprefix(SEGMENT): _texts(table, name)
        for name in table.column_names
        if name.startswith(SEGMENT)
    }
    return PostedRows(
        ids=check_ids(_column(table, "id"), limits, n),
        times=check_times(_times(table), now),
        versions=_versions(table),
        kind=kind,
        scores=scores,
        classes=classes,
        predictions=_predictions(table),
        weights=_weights(table),
        segments=check_segments(segments, limits),
    )


def labels_from_table(table: Any, limits: RequestLimits) -> tuple[Any, list[str]]:
    """Ids and labels (as texts) from an Arrow table."""
    with unreadable_as_problem("a table of labels"):
        _check_names(table, ("id", "label"), ())
        ids = check_ids(_column(table, "id"), limits, _rows(table))
        values = decode_dictionary(_column(table, "label"), "label", LONGEST_VALUE).to_pylist()
        return ids, [label_text(value, i) for i, value in enumerate(values)]


def _check_names(table: Any, plain: tuple[str, ...], prefixes: tuple[str, ...]) -> None:
    names = table.column_names
    if len(set(names)) < len(names):
        raise invalid("two columns have the same name; wanted each once")
    for name in names:
        if name not in plain and not (prefixes and name.startswith(prefixes)):
            raise invalid(
                f"column {name[:60]!r} is not known{nearest(name, plain)}; "
                f"wanted {', '.join(plain)}{' and ' if prefixes else ''}{', '.join(p + '...' for p in prefixes)}"
            )


def _rows(table: Any) -> int:
    if table.num_rows == 0:
        raise invalid("the table has no rows; wanted at least one")
    return int(table.num_rows)


def _column(table: Any, name: str) -> Any:
    if name not in table.column_names:
        raise invalid(f"column {name!r} is missing; found {', '.join(table.column_names[:8])[:120]}")
    return table.column(name).combine_chunks()


def _times(table: Any) -> npt.NDArray[np.int64]:
    column = _column(table, "time")
    if not pa.types.is_timestamp(column.type):
        raise invalid(f"time: arrived as {str(column.type)[:60]}; wanted timestamps with a zone")
    if column.type.tz is None:
        raise invalid("time: the timestamps have no zone; wanted one, such as timestamp('us', tz='UTC')")
    _no_nulls(column, "time")
    try:
        micros = column.cast(pa.timestamp("us", tz="UTC"), safe=column.type.unit != "ns")
    except pa.ArrowException:
        raise invalid("time: a timestamp is too far away; wanted times since 1970") from None
    return np.asarray(micros.cast(pa.int64()).to_numpy(False), dtype=np.int64)


def _no_nulls(column: Any, name: str) -> None:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(False)))
        raise invalid(f"row {row}: its {name} is missing; wanted one in every row")


def _texts(table: Any, name: str) -> Any:
    column = decode_dictionary(_column(table, name), name, LONGEST_VALUE)
    if pa.types.is_large_string(column.type):
        column = column.cast(pa.string())
    if pa.types.is_null(column.type):
        column = pa.nulls(len(column), pa.string())
    if not pa.types.is_string(column.type):
        raise invalid(f"{name[:60]}: arrived as {str(column.type)[:60]}; wanted texts")
    return column


def _versions(table: Any) -> list[str]:
    column = _texts(table, "version")
    _no_nulls(column, "version")
    coded = column.dictionary_encode()
    names = [check_name(name, "version") for name in coded.dictionary.to_pylist()]
    if len(names) == 1:
        return names * len(column)
    return [names[i] for i in coded.indices.to_pylist()]


def _scores(table: Any, limits: RequestLimits) -> tuple[str, npt.NDArray[Any], tuple[str, ...] | None]:
    listed = [kind for kind in ("probs", "logits") if kind in table.column_names]
    named = {
        kind: [name for name in table.column_names if name.startswith(prefix)]
        for prefix, kind in SCORE_PREFIXES.items()
    }
    kinds = listed + [kind for kind, names in named.items() if names]
    if len(kinds) != 1:
        problem = "none" if not kinds else "more than one kind"
        raise invalid(
            f"scores: {problem} arrived; wanted probs, logits, or columns prob_CLASS or logit_CLASS"
        )
    kind = kinds[0]
    if listed:
        return kind, _listed(_column(table, kind), kind, limits), None
    columns = named[kind]
    prefix = next(p for p, word in SCORE_PREFIXES.items() if word == kind)
    scores = np.column_stack([_numbers(_column(table, name), name) for name in columns])
    return kind, scores, tuple(name.removeprefix(prefix) for name in columns)


def _listed(column: Any, kind: str, limits: RequestLimits) -> npt.NDArray[Any]:
    _no_nulls(column, kind)
    if pa.types.is_fixed_size_list(column.type):
        k = column.type.list_size
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        lengths = np.diff(np.asarray(column.offsets))
        k = int(lengths[0])
        if (lengths != k).any():
            row = int(np.argmax(lengths != k))
            raise invalid(f"row {row}: {lengths[row]} {kind}, but row 0 has {k}; wanted one per class")
    else:
        raise invalid(f"{kind}: arrived as {str(column.type)[:60]}; wanted lists of numbers")
    if not 0 < k <= limits.classes:
        raise too_large(f"{k:,} classes", limits.classes)
    return _numbers(column.flatten(), kind).reshape(len(column), k)


def _numbers(column: Any, name: str) -> npt.NDArray[Any]:
    if column.null_count:
        raise invalid(f"{name[:60]}: a number is missing; wanted one per class in every row")
    if pa.types.is_floating(column.type):
        return np.asarray(column.to_numpy(False))
    if pa.types.is_integer(column.type):
        return np.asarray(column.to_numpy(False), dtype=np.float64)
    raise invalid(f"{name[:60]}: arrived as {str(column.type)[:60]}; wanted numbers")


def _predictions(table: Any) -> list[Any] | None:
    if "prediction" not in table.column_names:
        return None
    values = decode_dictionary(_column(table, "prediction"), "prediction", LONGEST_VALUE).to_pylist()
    return [None if v is None else label_text(v, i) for i, v in enumerate(values)]


def _weights(table: Any) -> npt.NDArray[np.float64] | None:
    if "weight" not in table.column_names:
        return None
    column = _column(table, "weight")
    if pa.types.is_null(column.type):
        return None
    _no_nulls(column, "weight")
    weights = _numbers(column, "weight").astype(np.float64)
    bad = ~((weights >= 0) & (weights < 1e300))
    if bad.any():
        row = int(np.argmax(bad))
        raise invalid(f"row {row}: weight {weights[row]}; wanted a number, 0 or more")
    return weights
