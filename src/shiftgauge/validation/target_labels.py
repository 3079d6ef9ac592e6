"""Labels of some target rows: by row number or id, with missing ones left out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError, nearest
from shiftgauge.validation.arrays import as_array
from shiftgauge.validation.labels import IntArray, check_labels, is_missing, missing_rows, plain, whole_number

#: How the labelled rows were chosen, besides a plan.
RANDOM, UNKNOWN = "random", "unknown"
CHOSEN: Final = {
    RANDOM: "the labelled rows are a random sample of the target's rows",
    UNKNOWN: "it is not known why these rows have labels, as with complaints or chargebacks",
}


@dataclass(frozen=True, eq=False)
class TargetLabels:
    """Labels of some target rows, as evidence.

    Attributes:
        keys: (m,) the rows' ids or numbers.
        classes: (m,) their true classes, as column numbers.
        by_id: whether the keys are ids.
        chosen: how the rows were chosen: `"random"` or `"unknown"`.
    """

    keys: npt.NDArray[Any]
    classes: IntArray
    by_id: bool
    chosen: str = RANDOM

    def in_class_order(self, order: IntArray) -> TargetLabels:
        """The same labels where the columns stand in another order."""
        return replace(self, classes=np.argsort(order)[self.classes])

    def take(self, rows: npt.NDArray[Any], n: int) -> TargetLabels | None:
        """The labels of some of the n rows, by their new numbers."""
        numbers = np.arange(n)[rows]
        place = np.full(n, -1, dtype=np.intp)
        place[self.keys] = np.arange(len(self.keys))
        labelled = np.flatnonzero(place[numbers] >= 0)
        if not len(labelled):
            return None
        return replace(self, keys=labelled, classes=self.classes[place[numbers[labelled]]])

    def by_row(self, ids: npt.NDArray[Any]) -> TargetLabels:
        """The same labels by row number, where the ids of all rows are known."""
        numeric = self.keys.dtype.kind in "iu" and ids.dtype.kind in "iu"
        mine, all_ids = (self.keys, ids) if numeric else (self.keys.astype(str), ids.astype(str))
        order = np.argsort(all_ids, kind="stable")
        first = np.searchsorted(all_ids, mine, sorter=order)
        beyond = np.searchsorted(all_ids, mine, side="right", sorter=order)
        for key, count in zip(mine.tolist(), (beyond - first).tolist(), strict=True):
            if count != 1:
                rows = f"{count} rows have" if count else "no row has"
                raise InputError(
                    f"labels: {rows} the id {key!r} in the target's {len(ids):,} rows; wanted ids that one row each has"
                )
        return replace(self, keys=order[first], by_id=False)


def check_chosen(chosen: Any) -> None:
    """Refuse an unknown word for how the labelled rows were chosen."""
    if not isinstance(chosen, str) or chosen not in CHOSEN:
        raise InputError(
            f"labels_chosen {chosen!r} is not known; wanted one of {', '.join(CHOSEN)}, or the plan that chose the rows"
            f"{nearest(str(chosen), CHOSEN)}"
        )


def check_target_labels(
    labels: Any,
    n: int,
    k: int,
    classes: tuple[Hashable, ...] | None,
    has_ids: bool,
    chosen: str = RANDOM,
) -> TargetLabels | None:
    """Labels of some target rows, checked: class numbers, by id or by row number.

    Args:
        labels: `{row number or id: label}`, a pandas series of the labelled rows alone, by its index, or one entry per
            row with missing ones (None, NaN, NA, masked).
        n, k, classes: the target's rows and classes.
        has_ids: whether its rows have ids; then these are the keys of a mapping.
        chosen: how the labelled rows were chosen.

    Returns:
        None if every entry is missing.
    """
    check_chosen(chosen)
    if labels is None:
        return None
    by_id = False
    if hasattr(labels, "index") and hasattr(labels, "to_dict") and len(labels) != n:
        if not labels.index.is_unique:
            raise InputError("labels: the index of the series repeats a row; wanted one label per row")
        labels = labels.to_dict()  # a pandas series of the labelled rows alone
    if isinstance(labels, Mapping):
        by_id = has_ids
        there = {plain(key): plain(value) for key, value in labels.items() if not is_missing(value)}
        keys, values = list(there), list(there.values())
    else:
        values, keys = _present(labels, n)
    if not keys:
        return None
    numbers = _ids(keys) if by_id else _row_numbers(keys, n)
    return TargetLabels(numbers, _classes(values, keys, k, classes), by_id, chosen)


def _present(labels: Any, n: int) -> tuple[list[Any], list[int]]:
    """The labels that are there, and their row numbers."""
    if isinstance(labels, np.ma.MaskedArray):
        array = np.asarray(labels.data).reshape(-1)
        missing = np.ma.getmaskarray(labels).reshape(-1)
    else:
        array = as_array(labels, "labels").reshape(-1)
        missing = np.zeros(len(array), dtype=bool)
    if len(array) != n:
        raise InputError(
            f"labels: {len(array)} entries for {n} target rows; wanted one per row, missing where there is no label, "
            "or a mapping {row number or id: label}"
        )
    missing = missing | missing_rows(array, "labels")
    rows = np.flatnonzero(~missing)
    return array[rows].tolist(), rows.tolist()


def _row_numbers(keys: list[Any], n: int) -> IntArray:
    out = []
    for key in keys:
        whole = whole_number(key)
        if whole is None or not 0 <= whole < n:
            raise InputError(
                f"labels: {key!r} is not a row of the target; wanted row numbers from 0 to {n - 1} (the target's rows "
                "have no ids)"
            )
        out.append(whole)
    return _once(np.array(out, dtype=np.intp))


def _ids(keys: list[Any]) -> npt.NDArray[Any]:
    array = np.asarray(keys)
    return _once(array if array.dtype.kind in "iu" else np.array([str(key) for key in keys]))


def _once(keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
    values, count = np.unique(keys, return_counts=True)
    if (count > 1).any():
        twice = values[int(np.argmax(count))].item()
        raise InputError(f"labels: row {twice!r} has two labels; wanted one label per row")
    return keys


def _classes(values: list[Any], keys: list[Any], k: int, classes: tuple[Hashable, ...] | None) -> IntArray:
    """(m,) class numbers; a label that is not a class is named with its row or id."""
    try:
        return check_labels(values, len(values), k, classes, "labels")
    except InputError:
        for key, value in zip(keys, values, strict=True):
            try:
                check_labels([value], 1, k, classes, "labels")
            except InputError as problem:
                text = str(problem).removeprefix("labels: ").removeprefix("row 0 ")
                raise InputError(f"labels: row {key!r} {text}") from None
        raise
