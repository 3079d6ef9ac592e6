"""Posted predictions and labels: JSON, Arrow and Parquet become one checked Arrow table.

A checked table of predictions has the columns `id` (text), `time` (int64, microseconds since 1970), `version` (text,
dictionary-encoded), `scores` (a fixed-size list of floats) and, where they were posted, `prediction` (text or null,
dictionary-encoded), `weight` (double) and `segment_NAME` (text or null). The metadata of its schema are `kind`
(`logits` or `probs`) and `classes` (a JSON list of names, or null). A checked table of labels has the columns `id` and
`label`, both texts.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute
from pydantic import Field

from shiftgauge.errors import nearest
from shiftgauge.monitor.ingest.bodies import (
    ARROW,
    JSON,
    PARQUET,
    RequestLimits,
    read_json,
    read_table,
    too_large,
    unreadable_as_problem,
)
from shiftgauge.monitor.periods import HOUR, SECOND, iso, parse_time
from shiftgauge.monitor.problems import LONGEST_VALUE, ApiProblem, check_name, invalid
from shiftgauge.monitor.records import Record
from shiftgauge.monitor.tables import SEGMENT, class_value, score_column

#: How far a row's clock may be ahead of ours.
MAX_CLOCK_SKEW = HOUR
Scores = list[float] | dict[str, float]


class PredictionRow(Record):
    """One prediction: `probs` or `logits`, as a list, or by the names of the classes."""

    id: str
    time: str = Field(description="ISO 8601 with a zone", json_schema_extra={"format": "date-time"})
    version: str
    probs: Scores | None = None
    logits: Scores | None = None
    prediction: str | int | None = Field(
        default=None, description="the deployed decision, a class or its number; the largest score without it"
    )
    weight: float | None = Field(default=None, ge=0)
    segments: dict[str, str | None] | None = None


class Predictions(Record):
    """Predictions as JSON."""

    rows: list[PredictionRow]


class LabelRow(Record):
    """The label of one row: a class or its number."""

    id: str
    label: str | int


class LabelsBody(Record):
    """Labels as JSON."""

    labels: list[LabelRow]


#: Keys of a row in JSON, and plain columns of a table.
KEYS = tuple(PredictionRow.model_fields)
COLUMNS = ("id", "time", "version", "probs", "logits", "prediction", "weight")
SCORE_PREFIXES = {"prob_": "probs", "logit_": "logits"}


def read_rows(body: bytes, kind: str, limits: RequestLimits, now: int) -> Any:
    """The checked table of a body of predictions."""
    if kind == JSON:
        table = _rows_from_json(read_json(body, limits), limits)
    else:
        table = read_table(body, _check_kind(kind, "predictions"), limits)
    return check_rows(table, limits, now)


def read_labels(body: bytes, kind: str, limits: RequestLimits) -> Any:
    """The checked table of a body of labels."""
    if kind == JSON:
        table = _labels_from_json(read_json(body, limits), limits)
    else:
        table = read_table(body, _check_kind(kind, "labels"), limits)
    with unreadable_as_problem("a table of labels"):
        _check_names(table, ("id", "label"), ())
        labels = _class_names(table, "label")
        _check_complete(labels, "label")
        return pa.table({"id": _ids(table, limits), "label": labels.dictionary_decode()})


def _check_kind(kind: str, what: str) -> str:
    if kind not in (ARROW, PARQUET):
        raise ApiProblem(415, "unknown-media-type", f"{what} as {kind}: wanted {JSON}, {ARROW} or {PARQUET}")
    return kind


def check_rows(table: Any, limits: RequestLimits, now: int) -> Any:
    """The checked table of a posted one.

    Args:
        table: `id`, `time` (timestamps with a zone), `version`, the scores as one list column `probs` or `logits` or as
            columns `prob_CLASS` or `logit_CLASS`, and, if wanted, `prediction`, `weight` and `segment_NAME`.
        limits: how much one request may bring.
        now: the time; rows may not be from the future.
    """
    with unreadable_as_problem("a table of predictions"):
        _check_names(table, COLUMNS, (*SCORE_PREFIXES, SEGMENT))
        kind, scores, classes = _scores(table, limits)
        columns = {
            "id": _ids(table, limits),
            "time": _times(table, now),
            "version": _versions(table),
            "scores": score_column(scores),
        }
        if "prediction" in table.column_names:
            columns["prediction"] = _class_names(table, "prediction")
        if (weights := _weights(table)) is not None:
            columns["weight"] = weights
        columns |= _segments(table, limits)
        return pa.table(columns, metadata={"kind": kind, "classes": json.dumps(classes)})


def _rows_from_json(value: Any, limits: RequestLimits) -> Any:
    """`{"rows": [{"id": ..., "time": ..., "version": ..., "probs": [...]}, ...]}` or the list itself, as a table."""
    rows = _objects(value, "rows", KEYS, limits)
    kinds = {kind for row in rows for kind in ("probs", "logits") if kind in row}
    if len(kinds) != 1:
        arrived = "both probs and logits" if kinds else "neither probs nor logits"
        raise invalid(f"rows: {arrived} arrived; wanted one of them, the same in every row")
    kind = kinds.pop()
    columns = {
        "id": _text_array([row.get("id") for row in rows], "id"),
        "time": _json_times([row.get("time") for row in rows]),
        "version": _text_array([row.get("version") for row in rows], "version"),
        **_json_scores([row.get(kind) for row in rows], kind, limits),
        **_json_segments([row.get("segments") for row in rows], limits),
    }
    predictions = [row.get("prediction") for row in rows]
    if any(value is not None for value in predictions):
        columns["prediction"] = _class_array(predictions, missing=True)
    weights = [row.get("weight") for row in rows]
    if any(weight is not None for weight in weights):
        columns["weight"] = _json_weights(weights)
    return pa.table(columns)


def _labels_from_json(value: Any, limits: RequestLimits) -> Any:
    """`{"labels": [{"id": ..., "label": ...}, ...]}` or the list itself, as a table."""
    rows = _objects(value, "labels", tuple(LabelRow.model_fields), limits)
    ids = _text_array([row.get("id") for row in rows], "id")
    return pa.table({"id": ids, "label": _class_array([row.get("label") for row in rows])})


def _objects(value: Any, name: str, known: tuple[str, ...], limits: RequestLimits) -> list[dict[str, Any]]:
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


def _text_array(values: list[Any], name: str, *, missing: bool = False) -> Any:
    """An Arrow array of texts from JSON; lone surrogates are not Unicode."""
    for i, value in enumerate(values):
        if not isinstance(value, str) and not (missing and value is None):
            raise invalid(f"row {i}: {name} {str(value)[:60]!r}; wanted a text in every row")
    try:
        return pa.array(values, pa.string())
    except (UnicodeEncodeError, pa.ArrowException):
        raise invalid(f"{name}: a text holds characters that are not Unicode") from None


def _class_array(values: list[Any], *, missing: bool = False) -> Any:
    """An Arrow array of class names from JSON; numbers of classes become digits."""
    texts = [None if missing and value is None else _class_text(value, i) for i, value in enumerate(values)]
    return _text_array(texts, "label", missing=missing)


def _class_text(value: Any, row: int) -> str:
    """A class as a text: its name, or its number in digits."""
    value = class_value(value)
    known = isinstance(value, str | int) and not isinstance(value, bool)
    text = str(value) if known and (isinstance(value, str) or abs(value) < 1 << 31) else ""
    if not 1 <= len(text) <= LONGEST_VALUE:
        raise invalid(f"row {row}: label {str(value)[:40]!r}; wanted the name or the number of a class")
    return text


def _json_times(values: list[Any]) -> Any:
    """Timestamps; Arrow reads the usual forms of ISO 8601, Python the others and what is wrong with them."""
    kind = pa.timestamp("us", tz="UTC")
    try:
        return pa.array(values, pa.string()).cast(kind)
    except (pa.ArrowException, UnicodeEncodeError):
        return pa.array([parse_time(value, i) for i, value in enumerate(values)], kind)


def _json_scores(values: list[Any], kind: str, limits: RequestLimits) -> dict[str, Any]:
    """The scores as one list column, or as a column for each class where they are named."""
    names: list[str] | None = None
    if isinstance(values[0], dict):
        names = list(values[0])
        for i, value in enumerate(values):
            if not isinstance(value, dict) or value.keys() != values[0].keys():
                raise invalid(f"row {i}: its {kind} name other classes than those of row 0; wanted the same")
        values = [[value[name] for name in names] for value in values]
    k = len(values[0]) if isinstance(values[0], list) else 0
    for i, value in enumerate(values):
        if not isinstance(value, list) or len(value) != k or not k:
            raise invalid(
                f"row {i}: {kind} {str(value)[:40]!r}; wanted a list of numbers, one per class, in every row"
            )
    if k > limits.classes:
        raise too_large(f"{k:,} classes", limits.classes)
    if not set(map(type, chain.from_iterable(values))) <= {int, float}:
        at, odd = next((i, x) for i, row in enumerate(values) for x in row if type(x) not in (int, float))
        raise invalid(f"row {at}: its {kind} hold {str(odd)[:40]!r}; wanted numbers")
    try:
        scores = np.fromiter(chain.from_iterable(values), np.float64, len(values) * k).reshape(-1, k)
    except OverflowError:
        raise invalid(f"{kind}: a number is too large; wanted finite numbers") from None
    if names is None:
        return {kind: score_column(scores)}
    prefix = next(prefix for prefix, word in SCORE_PREFIXES.items() if word == kind)
    return {f"{prefix}{name}": pa.array(scores[:, j]) for j, name in enumerate(names)}


def _json_weights(values: list[Any]) -> Any:
    for i, value in enumerate(values):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise invalid(f"row {i}: weight {str(value)[:40]!r}; wanted a number, 0 or more")
    try:
        return pa.array([1.0 if value is None else float(value) for value in values])
    except OverflowError:
        raise invalid("weight: a number is too large; wanted finite numbers") from None


def _json_segments(values: list[Any], limits: RequestLimits) -> dict[str, Any]:
    names: dict[str, None] = {}
    for i, value in enumerate(values):
        if value is None:
            continue
        if not isinstance(value, dict) or not all(v is None or isinstance(v, str) for v in value.values()):
            raise invalid(f"row {i}: segments {str(value)[:60]!r}; wanted an object of texts")
        names.update(dict.fromkeys(value))
        if len(names) > limits.segments:
            raise too_large(f"{len(names)} segments", limits.segments)
    return {
        SEGMENT + name: _text_array([(v or {}).get(name) for v in values], name, missing=True)
        for name in names
    }


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
    if table.num_rows == 0:
        raise invalid("the table has no rows; wanted at least one")


def _column(table: Any, name: str) -> Any:
    if name not in table.column_names:
        raise invalid(f"column {name!r} is missing; the table has {', '.join(table.column_names[:8])[:120]}")
    return table.column(name).combine_chunks()


def _decoded(column: Any, name: str, longest: int) -> Any:
    """A column without its dictionary, once no text in there is too long to be repeated."""
    if not pa.types.is_dictionary(column.type):
        return column
    words = column.dictionary
    if pa.types.is_string(words.type) or pa.types.is_large_string(words.type):
        most = compute.max(compute.utf8_length(words)).as_py() or 0
        if most > longest:
            raise invalid(f"{name[:60]}: a text of {most} characters; wanted at most {longest}")
    return column.dictionary_decode()


def _texts(table: Any, name: str, longest: int, *, digits: bool = False) -> Any:
    """A column of texts; with `digits`, whole numbers become texts."""
    column = _decoded(_column(table, name), name, longest)
    if pa.types.is_large_string(column.type) or (digits and pa.types.is_integer(column.type)):
        column = column.cast(pa.string())
    if pa.types.is_null(column.type):
        column = pa.nulls(len(column), pa.string())
    if not pa.types.is_string(column.type):
        raise invalid(f"{name[:60]}: arrived as {str(column.type)[:60]}; wanted texts")
    return column


def _check_complete(column: Any, name: str) -> None:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(False)))
        raise invalid(f"row {row}: its {name} is missing; wanted one in every row")


def _ids(table: Any, limits: RequestLimits) -> Any:
    ids = _texts(table, "id", limits.text, digits=True)
    _check_complete(ids, "id")
    lengths = compute.utf8_length(ids).to_numpy(False)
    bad = (lengths == 0) | (lengths > limits.text)
    if bad.any():
        row = int(np.argmax(bad))
        raise invalid(f"row {row}: an id of {lengths[row]} characters; wanted 1 to {limits.text}")
    return ids


def _times(table: Any, now: int) -> npt.NDArray[np.int64]:
    """(n,) microseconds, from 1970 to an hour from now."""
    column = _column(table, "time")
    if not pa.types.is_timestamp(column.type):
        raise invalid(f"time: arrived as {str(column.type)[:60]}; wanted timestamps with a zone")
    if column.type.tz is None:
        raise invalid("time: the timestamps have no zone; wanted one, such as timestamp('us', tz='UTC')")
    _check_complete(column, "time")
    try:
        micros = column.cast(pa.timestamp("us", tz="UTC"), safe=column.type.unit != "ns")
    except pa.ArrowException:
        raise invalid("time: a timestamp is too far away; wanted times since 1970") from None
    times = np.asarray(micros.cast(pa.int64()).to_numpy(False), dtype=np.int64)
    bad = (times > now + MAX_CLOCK_SKEW) | (times < 0)
    if bad.any():
        row = int(np.argmax(bad))
        at = iso(int(times[row])) if 0 <= times[row] < 253_402_300_800 * SECOND else f"{times[row]} us"
        if times[row] < 0:
            raise invalid(f"row {row}: its time {at} is before 1970; wanted times since 1970")
        raise invalid(f"row {row}: its time {at} is in the future; it is {iso(now)} now: is its clock right?")
    return times


def _versions(table: Any) -> Any:
    column = _texts(table, "version", LONGEST_VALUE)
    _check_complete(column, "version")
    encoded = column.dictionary_encode()
    for name in encoded.dictionary.to_pylist():
        check_name(name, "version")
    return encoded


def _scores(table: Any, limits: RequestLimits) -> tuple[str, npt.NDArray[Any], list[str] | None]:
    """`logits` or `probs`, the (n, K) scores, and the names of the classes where the columns have names."""
    listed = [kind for kind in ("probs", "logits") if kind in table.column_names]
    named = {
        kind: [name for name in table.column_names if name.startswith(prefix)]
        for prefix, kind in SCORE_PREFIXES.items()
    }
    kinds = listed + [kind for kind, names in named.items() if names]
    if len(kinds) != 1:
        arrived = "none" if not kinds else "more than one kind"
        raise invalid(
            f"scores: {arrived} arrived; wanted probs, logits, or columns prob_CLASS or logit_CLASS"
        )
    kind = kinds[0]
    if listed:
        return kind, _listed(_column(table, kind), kind, limits), None
    scores = np.column_stack([_numbers(_column(table, name), name) for name in named[kind]])
    return kind, scores, [name.partition("_")[2] for name in named[kind]]


def _listed(column: Any, kind: str, limits: RequestLimits) -> npt.NDArray[Any]:
    _check_complete(column, kind)
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


def _class_names(table: Any, name: str) -> Any:
    """A column of classes as texts, dictionary-encoded: each class is checked once."""
    column = _decoded(_column(table, name), name, LONGEST_VALUE)
    if pa.types.is_nested(column.type):
        raise invalid(f"{name}: arrived as {str(column.type)[:60]}; wanted names or numbers of classes")
    column = column.dictionary_encode()
    values = column.dictionary.to_pylist()
    names = [_class_text(value, column.indices.index(code).as_py()) for code, value in enumerate(values)]
    return pa.DictionaryArray.from_arrays(column.indices, pa.array(names, pa.string()))


def _weights(table: Any) -> npt.NDArray[np.float64] | None:
    if "weight" not in table.column_names:
        return None
    column = _column(table, "weight")
    if pa.types.is_null(column.type):
        return None
    _check_complete(column, "weight")
    weights = _numbers(column, "weight").astype(np.float64)
    bad = ~((weights >= 0) & (weights < 1e300))
    if bad.any():
        row = int(np.argmax(bad))
        raise invalid(f"row {row}: weight {weights[row]}; wanted a number, 0 or more")
    return weights


def _segments(table: Any, limits: RequestLimits) -> dict[str, Any]:
    names = [name for name in table.column_names if name.startswith(SEGMENT)]
    if len(names) > limits.segments:
        raise too_large(f"{len(names)} segments", limits.segments)
    out = {}
    for name in names:
        check_name(name.removeprefix(SEGMENT), "segment")
        values = _texts(table, name, LONGEST_VALUE)
        lengths = compute.utf8_length(values).fill_null(0).to_numpy(False)
        if lengths.max() > LONGEST_VALUE:
            row = int(np.argmax(lengths))
            raise invalid(
                f"row {row}: segment {name.removeprefix(SEGMENT)!r} has {lengths[row]} characters; "
                f"wanted at most {LONGEST_VALUE}"
            )
        out[name] = values
    return out
