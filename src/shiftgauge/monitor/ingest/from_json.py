"""Predictions and labels in JSON: a list of objects, one per row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import nearest
from shiftgauge.monitor.ingest.bodies import RequestLimits, too_large
from shiftgauge.monitor.ingest.rows import (
    KNOWN,
    PostedRows,
    check_ids,
    check_segments,
    check_times,
    texts_array,
)
from shiftgauge.monitor.periods import parse_time
from shiftgauge.monitor.problems import check_name, invalid


def rows_from_json(value: Any, limits: RequestLimits, now: int) -> PostedRows:
    """Rows from `{"rows": [{"id": ..., "time": ..., "version": ..., "probs": [...]}, ...]}` or the list itself."""
    rows = _list(value, "rows", KNOWN, limits)
    kinds = {kind for row in rows for kind in ("probs", "logits") if kind in row}
    if len(kinds) != 1:
        problem = "both probs and logits" if kinds else "neither probs nor logits"
        raise invalid(f"rows: {problem} arrived; wanted one of them, the same in every row")
    kind = kinds.pop()
    scores, classes = _scores([row.get(kind) for row in rows], kind, limits)
    return PostedRows(
        ids=check_ids([row.get("id") for row in rows], limits, len(rows)),
        times=check_times(
            np.array([parse_time(row.get("time"), i) for i, row in enumerate(rows)], dtype=np.int64), now
        ),
        versions=[check_name(row.get("version"), f"row {i}: version") for i, row in enumerate(rows)],
        kind=kind,
        scores=scores,
        classes=classes,
        predictions=_predictions([row.get("prediction") for row in rows]),
        weights=_weights([row.get("weight") for row in rows]),
        segments=check_segments(_segments([row.get("segments") for row in rows], limits), limits),
    )


def labels_from_json(value: Any, limits: RequestLimits) -> tuple[Any, list[str]]:
    """Ids and labels (as texts) from `{"labels": [{"id": ..., "label": ...}, ...]}` or the list itself."""
    rows = _list(value, "labels", ("id", "label"), limits)
    ids = check_ids([row.get("id") for row in rows], limits, len(rows))
    return ids, [label_text(row.get("label"), i) for i, row in enumerate(rows)]


def label_text(value: Any, row: int) -> str:
    """A label as a text: a class's name, or its number in digits."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise invalid(f"row {row}: label {str(value)[:40]!r}; wanted the name or the number of a class")
    text = str(value) if isinstance(value, str) or abs(value) < 1 << 31 else ""
    if not 1 <= len(text) <= 200:
        raise invalid(f"row {row}: label {str(value)[:40]!r}; wanted the name or the number of a class")
    return text


def _list(value: Any, name: str, known: tuple[str, ...], limits: RequestLimits) -> list[dict[str, Any]]:
    rows = value.get(name) if isinstance(value, dict) else value
    if not isinstance(rows, list) or not rows:
        raise invalid(f"the body holds no rows; wanted {{{name!r}: [...]}} or a list with at least one row")
    if len(rows) > limits.rows:
        raise too_large(f"{len(rows):,} rows", limits.rows)
    allowed = set(known)
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise invalid(
                f"row {i}: arrived as {type(row).__name__}; wanted an object with {', '.join(known)}"
            )
        if not row.keys() <= allowed:
            odd = next(key for key in row if key not in allowed)
            raise invalid(
                f"row {i}: {odd[:60]!r} is not known{nearest(odd, known)}; wanted {', '.join(known)}"
            )
    return rows


def _scores(
    values: list[Any], kind: str, limits: RequestLimits
) -> tuple[npt.NDArray[np.float64], tuple[str, ...] | None]:
    names: tuple[str, ...] | None = None
    if isinstance(values[0], dict):
        names = tuple(values[0])
        wrong = next(
            (i for i, v in enumerate(values) if not isinstance(v, dict) or v.keys() != values[0].keys()), None
        )
        if wrong is not None:
            raise invalid(f"row {wrong}: its {kind} name other classes than those of row 0; wanted the same")
        values = [[value[name] for name in names] for value in values]
    k = len(values[0]) if isinstance(values[0], list) else 0
    for i, value in enumerate(values):
        if not isinstance(value, list) or len(value) != k or not k:
            raise invalid(
                f"row {i}: {kind} {str(value)[:40]!r}; wanted a list of numbers, one per class, in every row"
            )
        if not all(type(x) is float or type(x) is int for x in value):
            raise invalid(f"row {i}: its {kind} hold {_first_non_number(value)!r}; wanted numbers")
    if k > limits.classes:
        raise too_large(f"{k:,} classes", limits.classes)
    try:
        return np.array(values, dtype=np.float64), names
    except OverflowError:
        raise invalid(f"{kind}: a number is too large; wanted finite numbers") from None


def _first_non_number(values: list[Any]) -> str:
    return str(next(x for x in values if type(x) is not float and type(x) is not int))[:40]


def _predictions(values: list[Any]) -> list[Any] | None:
    if all(v is None for v in values):
        return None
    return [None if v is None else label_text(v, i) for i, v in enumerate(values)]


def _weights(values: list[Any]) -> npt.NDArray[np.float64] | None:
    if all(v is None for v in values):
        return None
    for i, v in enumerate(values):
        if v is not None and (isinstance(v, bool) or not isinstance(v, int | float) or not 0 <= v < 1e300):
            raise invalid(f"row {i}: weight {str(v)[:40]!r}; wanted a number, 0 or more")
    return np.array([1.0 if v is None else v for v in values], dtype=np.float64)


def _segments(values: list[Any], limits: RequestLimits) -> dict[str, Any]:
    names: dict[str, None] = {}
    for i, value in enumerate(values):
        if value is None:
            continue
        if not isinstance(value, dict) or not all(v is None or isinstance(v, str) for v in value.values()):
            raise invalid(f"row {i}: segments {str(value)[:60]!r}; wanted an object of texts")
        names.update(dict.fromkeys(value))
        if len(names) > limits.segments:
            raise too_large(f"{len(names)} segments", limits.segments)
    return {name: texts_array([None if v is None else v.get(name) for v in values], name) for name in names}
