"""The door: every array that enters labelfree is checked here, once.

Each function takes what the user gave and a word for where it came from (`"source"`, `"target"`),
and returns a plain numpy array or raises an `InputError` whose text says what arrived, what was
wanted and what to try. Rows and columns in messages count from 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree.errors import InputError, nearest

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.intp]

#: How far a row of probabilities may sum from 1, by the precision it came in.
TOLERANCES = {2: 1e-2, 4: 1e-4, 8: 1e-6, 16: 1e-6}
#: About how many scores are looked at in one go, so that no pass copies a large matrix.
CHUNK_SCORES = 1 << 20


def chunks(n: int, k: int) -> Iterator[slice]:
    """Cut n rows of k scores into slices of about `CHUNK_SCORES` scores."""
    step = max(1, CHUNK_SCORES // max(1, k))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


def as_array(values: Any, what: str) -> npt.NDArray[Any]:
    """Turn an array, a tensor or nested lists into a numpy array without copying where possible."""
    if hasattr(values, "detach") and hasattr(values, "cpu"):  # a torch tensor, on any device
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":  # numpy has no bfloat16
            values = values.float()
        values = values.numpy()
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        raise InputError(f"{what}: {int(values.mask.sum())} values are masked; drop or fill those rows first")
    try:
        array = np.asarray(values)
    except ValueError:  # ragged lists
        raise InputError(
            f"{what}: the rows have different lengths; wanted one number per class in every row"
        ) from None
    return array


def as_scores(values: Any, kind: str, where: str, tolerance: float | None) -> tuple[FloatArray, float]:
    """Check an (n, K) matrix of logits or probabilities; return it and the largest |row sum - 1|."""
    what = f"{where} {kind}"
    half = str(getattr(values, "dtype", "")) == "torch.bfloat16"
    array = as_array(values, what)
    if array.dtype == object or array.dtype.kind not in "fiub":
        raise InputError(
            f"{what}: arrived as {array.dtype.name} values; wanted numbers, one column per class"
        )
    if array.ndim != 2:
        hint = (
            "; for two classes pass both columns, e.g. numpy.column_stack([1 - p, p])"
            if array.ndim == 1
            else "; flatten all but the last axis, e.g. scores.reshape(-1, K)"
        )
        raise InputError(f"{what}: arrived with shape {array.shape}; wanted (rows, classes){hint}")
    n, k = array.shape
    if n == 0 or k == 0:
        raise InputError(
            f"{what}: arrived empty, with shape {array.shape}; wanted at least one row and class"
        )
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    if tolerance is not None and not (isinstance(tolerance, int | float) and 0.0 <= tolerance < 1.0):
        raise InputError(f"tolerance {tolerance!r}: wanted a small number from 0 to 1, such as 1e-3")
    if tolerance is None:
        tolerance = TOLERANCES[2] if half else TOLERANCES[min(16, array.dtype.itemsize)]
    worst = 0.0
    for rows in chunks(n, k):
        worst = max(worst, _check_chunk(array[rows], rows.start, kind, what, tolerance))
    return array, worst


def _check_chunk(part: FloatArray, start: int, kind: str, what: str, tolerance: float) -> float:
    finite = np.isfinite(part)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise InputError(
            f"{what}: row {start + row}, column {column} is {part[row, column]}; wanted finite numbers; "
            "drop or repair such rows before estimating"
        )
    if kind == "logits":
        return 0.0
    negative = part < 0
    if negative.any():
        row, column = np.argwhere(negative)[0]
        raise InputError(
            f"{what}: row {start + row}, column {column} is {part[row, column]:.6g}; "
            "wanted probabilities, 0 or more; if these are logits, pass logits= (--logits)"
        )
    sums = part.sum(axis=1, dtype=np.float64)
    if not sums.all():
        row = int(np.argmin(sums))
        raise InputError(f"{what}: row {start + row} sums to 0; wanted probabilities that sum to 1")
    off = np.abs(sums - 1.0)
    worst = float(off.max())
    if worst > tolerance:
        row = int(np.argmax(off > tolerance))
        raise InputError(_sum_message(part[row], float(sums[row]), start + row, what, tolerance, worst))
    return worst


def _sum_message(row: FloatArray, total: float, index: int, what: str, tolerance: float, worst: float) -> str:
    text = f"{what}: row {index} sums to {total:.6g}; wanted 1 within {tolerance:g}; "
    if len(row) == 1:
        return text + "for two classes pass both columns, e.g. numpy.column_stack([1 - p, p])"
    if abs(total - 100.0) < 1.0:
        return text + "are these percentages? then divide them by 100"
    if row.max() > 1.0:
        return text + "are these logits? then pass logits= (--logits)"
    if abs(total - 1.0) < 0.05:
        return text + f"if they were rounded, pass a tolerance of {2 * worst:.1g} or more (--tolerance)"
    return text + "are these logits, or a multi-label output (not supported: one label per row)?"


def check_fraction(value: Any, what: str, such_as: float) -> None:
    """A fraction strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or value != value:
        raise InputError(f"{what} {value!r}: wanted a number between 0 and 1, such as {such_as:g}")
    if not 0.0 < value < 1.0:
        hint = f"; did you mean {value / 100:g}?" if 1.0 <= value < 100.0 else ""
        raise InputError(f"{what} {value:g}: wanted a fraction between 0 and 1, such as {such_as:g}{hint}")


def check_count(value: Any, what: str, least: int, advice: str = "") -> None:
    """A whole number, large enough."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{what} {value!r}: wanted a whole number, {least} or more")
    if value < least:
        raise InputError(f"{what} {value}: wanted {least} or more{advice}")


def as_classes(classes: Sequence[Hashable] | None, k: int, where: str) -> tuple[Hashable, ...] | None:
    """Check class names: one per column, all different."""
    if classes is None:
        return None
    if isinstance(classes, str):
        raise InputError(f"{where} classes: arrived as the text {classes!r}; wanted a list of {k} names")
    try:
        names = tuple(_plain_name(c) for c in classes)
        different = len(set(names))
    except TypeError:
        raise InputError(f"{where} classes: arrived as {classes!r:.60}; wanted a list of {k} names") from None
    if len(names) != k:
        raise InputError(f"{where} classes: {len(names)} names for {k} columns of scores; wanted one each")
    if different != k:
        twice = next(c for c in names if names.count(c) > 1)
        raise InputError(
            f"{where} classes: {twice!r} stands for more than one column; wanted different names"
        )
    return names


def _plain_name(name: Hashable) -> Hashable:
    """A class name as a text or a number, so that it can be printed and written."""
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, bytes):
        return name.decode("utf-8", "backslashreplace")
    hash(name)
    return name


def as_labels(values: Any, n: int, k: int, classes: tuple[Hashable, ...] | None, what: str) -> IntArray:
    """Check one label per row, as class indices or, with `classes`, as names; return indices."""
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
    if classes is not None:
        return _named(array, classes, what)
    return _indexed(array, k, what)


def _indexed(array: npt.NDArray[Any], k: int, what: str) -> IntArray:
    if array.dtype.kind == "f":
        missing = ~np.isfinite(array)
        if missing.any():
            raise InputError(
                f"{what}: row {int(np.argmax(missing))} is missing; wanted a class index in every row"
            )
        broken = array != np.floor(array)
        if broken.any():
            row = int(np.argmax(broken))
            raise InputError(
                f"{what}: row {row} is {array[row]:g}; wanted class indices 0 to {k - 1}; "
                "regression targets are not supported"
            )
    elif array.dtype.kind not in "iub":
        first = array[0].item() if isinstance(array[0], np.generic) else array[0]
        raise InputError(
            f"{what}: arrived as names such as {first!r}; wanted class indices 0 to {k - 1}, "
            "or the names of the classes too (classes), one per column of scores"
        )
    outside = (array < 0) | (array >= k)
    if outside.any():
        row = int(np.argmax(outside))
        raise InputError(
            f"{what}: row {row} is {array[row]:g}, outside the {k} classes 0 to {k - 1}; "
            "is there a column of scores for every class, and do labels count from 0?"
        )
    return array.astype(np.intp)


def _named(array: npt.NDArray[Any], classes: tuple[Hashable, ...], what: str) -> IntArray:
    place = {name: j for j, name in enumerate(classes)}
    if array.dtype == object:
        return np.array([_place(v, i, place, what) for i, v in enumerate(array.tolist())], dtype=np.intp)
    values, first, inverse = np.unique(array, return_index=True, return_inverse=True)
    for u in np.argsort(first):  # so that the first wrong row is the one named
        _place(values[u].item(), int(first[u]), place, what)
    lookup = np.array([_place(v, 0, place, what) for v in values.tolist()], dtype=np.intp)
    return np.asarray(lookup[inverse.reshape(-1)], dtype=np.intp)


def is_missing(value: Any) -> bool:
    """None, NaN, NaT, or an empty text."""
    return bool(
        value is None or type(value).__name__ in ("NAType", "NaTType") or value != value or value == ""
    )


def _place(value: Any, row: int, place: dict[Hashable, int], what: str) -> int:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    missing = is_missing(value)
    if not missing and isinstance(value, Hashable) and value in place:
        return place[value]
    if missing:
        raise InputError(f"{what}: row {row} is missing; wanted a class name in every row")
    shown = ", ".join(repr(c) for c in list(place)[:5]) + (", ..." if len(place) > 5 else "")
    hint = nearest(str(value), [str(c) for c in place])
    if str(value) in map(str, place):
        hint = f"; {value!r} and the class differ in type: use the same for both"
    if isinstance(value, int) and all(isinstance(c, str) for c in place):
        hint = (
            "; where the classes have names, labels are names: give names, or leave out those of the classes"
        )
    raise InputError(f"{what}: row {row} is {value!r}, which is not a class ({shown}){hint}")


def as_weights(values: Any, n: int, where: str) -> npt.NDArray[np.float64] | None:
    """Check one non-negative weight per row, not all zero."""
    if values is None:
        return None
    what = f"{where} weights"
    array = as_array(values, what)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what}: arrived as {array.dtype.name} values; wanted one number per row")
    if array.shape != (n,):
        raise InputError(f"{what}: arrived with shape {array.shape}; wanted one per row, shape ({n},)")
    array = array.astype(np.float64)
    bad = ~np.isfinite(array) | (array < 0)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"{what}: row {row} is {array[row]:g}; wanted finite weights, 0 or more")
    if not array.max() > 0:
        raise InputError(f"{what}: they sum to zero; wanted at least one row with a positive weight")
    return np.asarray(array / array.max())  # only proportions matter, and sums cannot overflow


def as_marginal(
    values: Any, k: int, classes: tuple[Hashable, ...] | None, what: str = "marginal"
) -> npt.NDArray[np.float64]:
    """Check a label marginal: one non-negative mass per class (or a mapping from names), summing to 1."""
    names = classes if classes is not None else tuple(range(k))
    if isinstance(values, dict):
        unknown = [c for c in values if c not in names]
        missing = [c for c in names if c not in values]
        if unknown or missing:
            wrong = f"{unknown[0]!r} is not a class" if unknown else f"class {missing[0]!r} has no mass"
            raise InputError(f"{what}: {wrong}; wanted one mass for each of the {k} classes")
        values = [values[c] for c in names]
    array = as_array(values, what)
    if array.dtype.kind not in "fiub" or array.shape != (k,):
        raise InputError(
            f"{what}: arrived with shape {array.shape} of {array.dtype.name}; wanted one mass per class, ({k},)"
        )
    array = array.astype(np.float64)
    bad = ~np.isfinite(array) | (array < 0)
    if bad.any():
        j = int(np.argmax(bad))
        raise InputError(f"{what}: the mass of class {names[j]!r} is {array[j]:g}; wanted shares from 0 to 1")
    total = float(array.sum())
    if abs(total - 1.0) > 1e-6:
        raise InputError(
            f"{what}: the masses sum to {total:.6g}; wanted shares that sum to 1; divide by their sum"
        )
    return np.asarray(array / total, dtype=np.float64)
