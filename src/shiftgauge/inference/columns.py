"""Columns beside the scores: groups that rows belong to, and times that they come from."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import InputError
from shiftgauge.times import moment, shown_time
from shiftgauge.validation.labels import MISSING, plain

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Groups:
    """One column of groups: the groups' names, and (n,) the number of each row's group among them."""

    names: tuple[str, ...]
    number: Indices

    def of(self, rows: Indices) -> Groups:
        """The same groups on some of the rows."""
        return Groups(self.names, self.number[rows])

    def rows(self) -> Iterator[tuple[str, Indices]]:
        """Each group with its rows."""
        counts = np.bincount(self.number, minlength=len(self.names))
        parts = np.split(np.argsort(self.number, kind="stable"), np.cumsum(counts)[:-1])
        return zip(self.names, parts, strict=True)


def row_groups(groups: Any, n: int) -> list[Groups]:
    """The columns of groups: one array, a mapping from names to arrays, or a sequence of arrays.

    Rows whose group is None, NaN or empty make up the group "(missing)".
    """
    if groups is None:
        return []
    return [_grouped(values, n, name) for name, values in _columns(groups).items()]


def _columns(groups: Any) -> dict[str, Any]:
    if isinstance(groups, Mapping):
        columns = {str(name): values for name, values in groups.items()}
    elif isinstance(groups, list | tuple) and groups and all(np.ndim(part) for part in groups):
        columns = {f"column {number}": values for number, values in enumerate(groups)}
    else:
        columns = {"": groups}
    if not columns:
        raise InputError("groups: no columns arrived; wanted at least one, with one value per row")
    return columns


def _grouped(values: Any, n: int, name: str) -> Groups:
    array = one_per_row(values, n, f"groups {name}".strip())
    found, number = np.unique(as_texts(array), return_inverse=True)
    names = tuple(f"{name}={text}" if name else f"group {text}" for text in found.tolist())
    return Groups(names, np.asarray(number.reshape(-1), dtype=np.intp))


def row_times(values: Any, n: int, what: str = "times") -> Indices:
    """(n,) the rank of each row in time: of numbers, or of ISO 8601 dates with or without a time and a zone.

    >>> row_times(["2022-01-31", "2022-01-04T12:00", "2021-12-31"], 3).tolist()
    [2, 1, 0]
    """
    array = one_per_row(values, n, what)
    read: dict[Any, tuple[str, Any]] = {}
    rows = [_plain(v) for v in array.tolist()]
    for row, value in enumerate(rows):
        if is_missing(value):
            raise InputError(
                f"{what}: row {row} is missing; wanted a time in every row; drop or fill such rows"
            )
        read[value] = read[value] if value in read else moment(value, row, what)
        sort, first = read[value][0], read[rows[0]][0]
        if sort != first:
            raise InputError(
                f"{what}: row {row} is {shown_time(value)}, {sort}, and row 0 is {shown_time(rows[0])}, {first}; "
                "wanted one sort of time; write all rows alike"
            )
    order = {time: rank for rank, time in enumerate(sorted({time for _, time in read.values()}))}
    if len(order) < 2:
        raise InputError(
            f"{what}: all {n} rows hold {shown_time(rows[0])}; wanted times that differ; try another column"
        )
    return np.array([order[read[value][1]] for value in rows], dtype=np.intp)


def one_per_row(values: Any, n: int, what: str, row: str = "row") -> npt.NDArray[Any]:
    """(n,) the values, dates as texts."""
    array = validation.as_array(values, what)
    if array.shape != (n,):
        raise InputError(f"{what}: arrived with shape {array.shape}; wanted one value per {row}, ({n},)")
    return np.datetime_as_string(array) if array.dtype.kind == "M" else array


def as_texts(array: npt.NDArray[Any]) -> npt.NDArray[np.str_]:
    """(n,) the values as texts, `(missing)` where there is none."""
    if array.dtype != object:  # read each value once
        distinct, place = np.unique(array, return_inverse=True)
        return np.array([_text(value) for value in distinct.tolist()])[place.reshape(-1)]
    return np.array([_text(value) for value in array.tolist()])


def _text(value: Any) -> str:
    return MISSING if is_missing(value) else str(_plain(value))


def is_missing(value: Any) -> bool:
    """None, NaN, NaT, or a text that says so or nothing."""
    return validation.is_missing(value) or (
        isinstance(value, str) and value.strip() in ("", "nan", "NaN", "NaT")
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.datetime64) or not isinstance(value, Hashable):
        return str(value)
    return plain(value)


def slice_numbers(by: Any, n: int, what: str = "by", row: str = "target row") -> tuple[list[str], Indices]:
    """The slices' names in order, and each row's number among them."""
    columns = dict(by) if isinstance(by, Mapping) else {"": by}
    if not columns:
        raise InputError(f"{what}: no columns arrived; wanted at least one, with one value per {row}")
    names, number = [""], np.zeros(n, dtype=np.intp)
    for column, values in columns.items():
        own, place = _distinct(one_per_row(values, n, f"{what} {column}".rstrip(), row))
        titles = [f"{column}={name}" for name in own] if column != "" else own
        used, number = np.unique(number * len(own) + place, return_inverse=True)
        number = np.asarray(number.reshape(-1), dtype=np.intp)
        names = [", ".join(filter(None, (names[u // len(own)], titles[u % len(own)]))) for u in used.tolist()]
    return names, number


def _distinct(array: npt.NDArray[Any]) -> tuple[list[str], Indices]:
    """The values of one column as texts in order, and (n,) which of them each row holds."""
    if array.dtype.kind == "m":  # times print as they are written
        array = array.astype(str)
    names, number = np.unique(as_texts(array), return_inverse=True)
    order = names_in_order(names.tolist())
    return names[order].tolist(), np.asarray(np.argsort(order)[number.reshape(-1)], dtype=np.intp)


def names_in_order(names: list[str]) -> Indices:
    """Where each name comes: numbers by size if all are numbers, otherwise texts; missing ones last."""
    numbers = {name: _number(name) for name in names if name != MISSING}
    texts = any(number is None for number in numbers.values())

    def key(i: int) -> tuple[bool, float, str]:
        number = numbers.get(names[i])
        return names[i] == MISSING, 0.0 if texts or number is None else number, names[i]

    return np.array(sorted(range(len(names)), key=key), dtype=np.intp)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
