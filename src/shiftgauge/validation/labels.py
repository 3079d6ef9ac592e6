"""Class names and labels: which column of the scores each row's label means."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError, nearest
from shiftgauge.validation.arrays import as_array

#: What rows without a value are called, wherever values are names: a group, a slice, a time.
MISSING = "(missing)"

IntArray = npt.NDArray[np.intp]
Names = tuple[Hashable, ...]


def check_classes(classes: Sequence[Hashable] | None, k: int, where: str) -> Names | None:
    """Check class names: one per column, in order, all different; texts or finite numbers."""
    if classes is None:
        return None
    if isinstance(classes, str):
        raise InputError(f"{where} classes: arrived as the text {classes!r}; wanted a list of {k} names")
    if isinstance(classes, Set | Mapping):
        kind = type(classes).__name__
        raise InputError(
            f"{where} classes: arrived as a {kind}, which says nothing of the columns' order; wanted a list"
        )
    try:
        names = tuple(_plain_name(c, where) for c in classes)
    except TypeError:
        raise InputError(f"{where} classes: arrived as {classes!r:.60}; wanted a list of {k} names") from None
    if len(names) != k:
        raise InputError(f"{where} classes: {len(names)} names for {k} columns of scores; wanted one each")
    if len(set(names)) != k:
        twice = next(c for c in names if names.count(c) > 1)
        raise InputError(
            f"{where} classes: {twice!r} stands for more than one column; wanted different names"
        )
    return names


def _plain_name(name: Hashable, where: str) -> Hashable:
    """A class name as a text or a number, so that it can be printed, saved and written as JSON."""
    given = name if isinstance(name, Decimal) else plain(name)
    if isinstance(given, str):
        if not _spellable(given):
            raise InputError(f"{where} classes: {given!r} is no valid text; wanted names that can be written")
        return given
    if isinstance(given, int) or (isinstance(given, float) and math.isfinite(given)):
        return given
    raise InputError(
        f"{where} classes: {given!r} is a {type(given).__name__}; wanted texts or finite numbers; "
        "try [str(c) for c in classes], and the same for the labels"
    )


def _spellable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def plain(value: Any) -> Any:
    """A numpy value as Python's own, a decimal number as a whole or a floating one, and bytes as text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def is_missing(value: Any) -> bool:
    """None, NaN, NaT, pandas' NA, or an empty text."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, Hashable) and bool(value != value or value == "")


def missing_rows(values: Any, what: str) -> npt.NDArray[np.bool_]:
    """(n,) True where a row has no label."""
    array = as_array(values, what).reshape(-1)
    if array.dtype.kind in "iub":
        return np.zeros(len(array), dtype=bool)
    if array.dtype.kind in "fmM":
        return np.asarray(array != array)
    return np.array([is_missing(plain(v)) for v in array.tolist()], dtype=bool)


def check_labels(values: Any, n: int, k: int, classes: Names | None, what: str) -> IntArray:
    """(n,) class indices, from one label per row: an index or, with `classes`, a name.

    Whole numbers beside class names that are no numbers are indices. A number, a truth value and its spelling
    mean the same where that is exact: 2, 2.0 and "2".
    """
    array = as_array(values, what)
    if array.ndim == 2 and 1 in array.shape and array.size == n:
        array = array.reshape(-1)
    if array.ndim != 1:
        raise InputError(
            f"{what}: arrived with shape {array.shape}; wanted one label per row, shape ({n},); "
            "multi-label targets are not supported, and one-hot rows become labels with .argmax(1)"
        )
    if len(array) != n:
        raise InputError(f"{what}: {len(array)} labels for {n} rows of scores; wanted one label per row")
    if classes is None and array.dtype.kind in "iu" and n and array.min() >= 0 and array.max() < k:
        return array.astype(np.intp)  # the usual case, without sorting
    distinct, first, place = _distinct(array)
    by_name = {} if classes is None else {name: j for j, name in enumerate(classes)}
    as_index = classes is None or are_indices(distinct, by_name)
    lookup = np.empty(len(distinct), dtype=np.intp)
    for u in np.argsort(first):  # so that the first wrong row is the one named
        value, row = distinct[u], int(first[u])
        if is_missing(value):
            wanted = "class name" if classes is not None else "class index"
            raise InputError(
                f"{what}: row {row} is missing; wanted a {wanted} in every row; "
                "rows without one are left out by drop_unlabelled=True (--drop-unlabelled)"
            )
        lookup[u] = _index(value, row, k, what) if as_index else _named(value, row, by_name, what)
    return np.asarray(lookup[place], dtype=np.intp)


def _distinct(array: npt.NDArray[Any]) -> tuple[list[Any], IntArray, IntArray]:
    """The distinct values, the first row of each, and (n,) which of them each row holds."""
    if array.dtype != object:
        values, first, place = np.unique(array, return_index=True, return_inverse=True)
        return [plain(v) for v in values.tolist()], first, place.reshape(-1)
    number: dict[Any, int] = {}
    first_rows: list[int] = []
    place = np.empty(len(array), dtype=np.intp)
    for row, value in enumerate(array.tolist()):
        key = None if is_missing(value) else plain(value) if isinstance(value, Hashable) else repr(value)
        if key not in number:
            number[key] = len(number)
            first_rows.append(row)
        place[row] = number[key]
    return list(number), np.array(first_rows, dtype=np.intp), place


def whole_number(value: Any) -> int | None:
    """The whole number that a value is, exactly; a truth value is 0 or 1."""
    if isinstance(value, bool | int):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else None


def are_indices(values: list[Any], names: Iterable[Hashable]) -> bool:
    """Whether labels beside class names are column numbers: whole numbers, where no class is called like one."""
    if any(not isinstance(name, str) or _is_number(name) for name in names):
        return False
    return all(is_missing(v) or (whole_number(v) is not None and not isinstance(v, bool)) for v in values)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _index(value: Any, row: int, k: int, what: str) -> int:
    whole = whole_number(value)
    if whole is None and isinstance(value, float):
        raise InputError(
            f"{what}: row {row} is {value:g}; wanted class indices 0 to {k - 1}; "
            "regression targets are not supported"
        )
    if whole is None:
        raise InputError(
            f"{what}: arrived as names such as {value!r}; wanted class indices 0 to {k - 1}, "
            "or the names of the classes too (classes), one per column of scores"
        )
    if not 0 <= whole < k:
        raise InputError(
            f"{what}: row {row} is {whole}, outside the {k} classes 0 to {k - 1}; "
            "is there a column of scores for every class, and do labels count from 0?"
        )
    return whole


def _named(value: Any, row: int, by_name: dict[Hashable, int], what: str) -> int:
    if value in by_name:
        return by_name[value]
    spelt = spellings(value)
    found = [j for name, j in by_name.items() if str(name) in spelt]
    if len(found) == 1:
        return found[0]
    shown = ", ".join(repr(c) for c in list(by_name)[:5]) + (", ..." if len(by_name) > 5 else "")
    hint = nearest(str(value), [str(c) for c in by_name])
    raise InputError(f"{what}: row {row} is {value!r}, which is not a class ({shown}){hint}")


def spellings(value: Any) -> list[str]:
    """How a value may be written as a class name, likeliest first.

    Texts are read as what they were before they were written as text: a column of whole numbers with a gap is
    written as "2.0" by most, and truth values as "True" or "TRUE".

    >>> spellings(2.0), spellings(True), spellings("2.0")
    (['2', '2.0'], ['True', 'true', '1'], ['2.0', '2'])
    """
    if isinstance(value, str):
        if value.lower() in ("true", "false"):
            return list(dict.fromkeys([value, *spellings(value.lower() == "true")]))
        return [value, value.split(".")[0]] if re.fullmatch(r"-?\d+\.0+", value) else [value]
    if isinstance(value, bool):
        return [str(value), str(value).lower(), str(int(value))]
    whole = whole_number(value)
    return [str(value)] if whole is None or isinstance(value, int) else [str(whole), str(value)]


def places(own: Names, wanted: Names) -> dict[Hashable, int]:
    """Which of our own names each wanted one is: the same, or else the same as written (2, "2")."""
    here: dict[Hashable, int] = {name: j for j, name in enumerate(own)}
    if all(name in here for name in wanted):
        return here
    written = {_shortest(name): j for j, name in enumerate(own)}
    if len(written) < len(own) or len({_shortest(name) for name in wanted}) < len(wanted):
        return here
    return {name: written[text] for name in wanted if (text := _shortest(name)) in written}


def _shortest(name: Hashable) -> str:
    return min(spellings(name), key=len)
