"""Validation: every array that enters shiftgauge is checked here, once.

Each function takes what the user gave and a word for where it came from (`"source"`, `"target"`),
and returns a plain numpy array or raises an `InputError` whose text says what arrived, what was
wanted and what to try. Rows and columns in messages count from 0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError
from shiftgauge.validation.arrays import as_array, coarseness
from shiftgauge.validation.labels import (
    IntArray,
    check_classes,
    check_labels,
    is_missing,
    missing_rows,
    places,
    whole_number,
)

__all__ = [
    "FloatArray",
    "IntArray",
    "as_array",
    "check_classes",
    "check_labels",
    "is_missing",
    "missing_rows",
    "whole_number",
]

FloatArray = npt.NDArray[np.floating[Any]]

#: How far a row of probabilities may sum from 1, by the precision it came in.
TOLERANCES = {2: 1e-2, 4: 1e-4, 8: 1e-6, 16: 1e-6}
#: No network writes a logit beyond this; squares and differences of what is below it stay finite.
LARGEST_LOGIT = 1e100
#: Weights below this fraction of the largest are treated as zero.
SMALLEST_WEIGHT = 1e-100
#: What an exact zero counts as where a logarithm is needed, unless the sample holds something smaller.
ZERO = 1e-12
#: Decimals that scores are looked at for: fewer are no rounding of probabilities, more are within tolerance.
DECIMALS = range(2, 8)
#: What to do with one column of probabilities.
BOTH_COLUMNS = "for two classes pass both columns, e.g. numpy.column_stack([1 - p, p])"
#: What is said of logits that look like probabilities.
LIKE_PROBABILITIES = (
    "{what}: every row is 0 or more and sums to 1, as probabilities do; pass probs= (--probs, "
    "kind='probs'), or insist=True (--insist) if they are logits all the same"
)
#: What is said where logits are insisted on and probabilities arrive.
IDLE_INSIST = (
    "{who}: insist=True (--insist) takes logits as such though they look like probabilities, and these are "
    "probabilities; leave it out"
)
#: About how many scores are looked at in one go: few enough for the cache, and no pass copies a large matrix.
CHUNK_SCORES = 1 << 16


@dataclass(frozen=True)
class Scores:
    """An (n, K) matrix that was checked.

    Attributes:
        values: the numbers, floating.
        correction: the largest |row sum - 1| (0 for logits).
        decimals: to how many the probabilities were rounded, where that alone explains the correction.
    """

    values: FloatArray
    correction: float = 0.0
    decimals: int | None = None


def chunks(n: int, k: int) -> Iterator[slice]:
    """Cut n rows of k scores into slices of about `CHUNK_SCORES` scores."""
    step = max(1, CHUNK_SCORES // max(1, k))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


def check_scores(
    values: Any, kind: str, where: str, tolerance: float | None = None, insist: bool = False
) -> Scores:
    """Check an (n, K) matrix of logits or probabilities.

    Args:
        values: what the user gave.
        kind: `"logits"` or `"probs"`.
        where: whose they are, for messages.
        tolerance: how far a row of probabilities may sum from 1; None goes by the precision, and accepts
            what rounding to a few decimals explains.
        insist: take logits as such though every row looks like probabilities.
    """
    what = f"{where} {kind}"
    array = _matrix(values, what)
    if tolerance is not None and not (isinstance(tolerance, int | float) and 0.0 <= tolerance < 1.0):
        raise InputError(f"tolerance {tolerance!r}: wanted a small number from 0 to 1, such as 1e-3")
    if kind == "logits":
        _check_logits(array, what, insist)
        return Scores(array)
    worst = max(float(_gaps(array, rows, what).max()) for rows in chunks(*array.shape))
    limit = tolerance
    if limit is None:
        limit = coarseness(values) or TOLERANCES[min(16, array.dtype.itemsize)]
    if worst <= limit:
        return Scores(array, worst)
    decimals = rounded_to(array) if tolerance is None else None
    explained = _rounding(array.shape[1], decimals)
    if worst <= explained * (1 + 1e-9) + 1e-9:
        return Scores(array, worst, decimals)
    raise InputError(_sum_message(array, what, max(limit, explained)))


def _matrix(values: Any, what: str) -> FloatArray:
    """Rows x classes of floating numbers, at least one of each."""
    array = _numeric(as_array(values, what))
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"{what}: arrived as {array.dtype.name} values; wanted numbers, one column per class"
        )
    if array.ndim != 2:
        hint = (
            f"; {BOTH_COLUMNS}"
            if array.ndim == 1
            else "; flatten all but the last axis, e.g. scores.reshape(-1, K)"
        )
        raise InputError(f"{what}: arrived with shape {array.shape}; wanted (rows, classes){hint}")
    if 0 in array.shape:
        raise InputError(
            f"{what}: arrived empty, with shape {array.shape}; wanted at least one row and class"
        )
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _numeric(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Objects that are all numbers or missing, as nullable columns of frames come, as numbers."""
    numbers = Real, Decimal
    if array.dtype != object or not all(
        isinstance(v, numbers) or is_missing(v) for v in array.ravel().tolist()
    ):
        return array
    plain = [np.nan if is_missing(v) else float(v) for v in array.ravel().tolist()]
    return np.array(plain, dtype=np.float64).reshape(array.shape)


def _refuse_beyond(part: FloatArray, start: int, low: float, high: float, what: str, wanted: str) -> None:
    """Name the first number that is not in [low, high]; two passes without a copy where all are."""
    # As Python floats: a bound beyond the array's own range must not be cast to it. False where there is a NaN.
    if float(part.min()) >= low and float(part.max()) <= high:
        return
    finite = np.isfinite(part)
    bad = ~finite if not finite.all() else (part < low) | (part > high)
    row, column = np.argwhere(bad)[0]
    if not finite.all():
        wanted = "finite numbers; drop or repair such rows before estimating"
    value = part[row, column]
    raise InputError(f"{what}: row {start + row}, column {column} is {value:.6g}; wanted {wanted}")


def _check_logits(array: FloatArray, what: str, insist: bool) -> None:
    alike = not insist
    for rows in chunks(*array.shape):
        part = array[rows]
        wanted = f"logits of a sane size, within {LARGEST_LOGIT:g}"
        _refuse_beyond(part, rows.start, -LARGEST_LOGIT, LARGEST_LOGIT, what, wanted)
        alike = alike and like_probabilities(part)
    if alike:
        raise InputError(LIKE_PROBABILITIES.format(what=what))


def like_probabilities(part: FloatArray) -> bool:
    """Whether every row is 0 or more and sums to 1, or would but for rounding to a few decimals."""
    if part.shape[1] < 2 or part.min() < 0:
        return False
    gap = np.abs(part.sum(axis=1, dtype=np.float64) - 1.0).max()
    if gap <= TOLERANCES[2] or gap > 0.5:
        return bool(gap <= TOLERANCES[2])
    return bool(gap <= _rounding(part.shape[1], rounded_to(part)))


def _gaps(array: FloatArray, rows: slice, what: str) -> npt.NDArray[np.float64]:
    """How far each of these rows of probabilities sums from 1; refuses what are none."""
    part = array[rows]
    wanted = "probabilities, 0 or more; if these are logits, pass logits= (--logits)"
    _refuse_beyond(part, rows.start, 0.0, np.finfo(part.dtype).max, what, wanted)
    sums = part.sum(axis=1, dtype=np.float64)
    if not sums.all():
        row = int(np.argmin(sums))
        hint = f"; {BOTH_COLUMNS}" if part.shape[1] == 1 else ""
        raise InputError(
            f"{what}: row {rows.start + row} sums to 0; wanted probabilities that sum to 1{hint}"
        )
    return np.asarray(np.abs(sums - 1.0))


def _rounding(k: int, decimals: int | None) -> float:
    """How far k shares may sum from 1 by rounding alone: half the last decimal each."""
    return 0.0 if decimals is None else k * 0.5 * 10.0**-decimals


def rounded_to(array: FloatArray) -> int | None:
    """The number of decimals that all scores are rounded to; None where they are not, or it cannot be seen.

    >>> rounded_to(np.array([[0.333, 0.667], [0.5, 0.5]]))
    3
    """
    decimals, noise = DECIMALS.start, float(np.finfo(array.dtype).eps)
    for rows in chunks(*array.shape):
        part = np.asarray(array[rows], dtype=np.float64)
        while np.abs(part * 10.0**decimals - np.rint(part * 10.0**decimals)).max() > 10.0**decimals * noise:
            decimals += 1
            if decimals not in DECIMALS or 10.0**decimals * noise > 0.1:
                return None
    return decimals


def _sum_message(array: FloatArray, what: str, limit: float) -> str:
    """The first row that does not sum to 1, and what may be the matter."""
    for rows in chunks(*array.shape):
        gaps = _gaps(array, rows, what)
        if gaps.max() > limit:
            break
    index = rows.start + int(np.argmax(gaps > limit))
    row = array[index]
    total = float(row.sum(dtype=np.float64))
    text = f"{what}: row {index} sums to {total:.6g}; wanted 1 within {limit:g}; "
    if len(row) == 1:
        return text + BOTH_COLUMNS
    if abs(total - 100.0) < 1.0:
        return text + "are these percentages? then divide them by 100"
    if row.max() > 1.0:
        return text + "are these logits? then pass logits= (--logits)"
    if gaps.max() < 0.05:
        return (
            text
            + f"if they were rounded, pass a larger tolerance, such as {2 * gaps.max():.1g} (--tolerance)"
        )
    if total < 1.0:
        return text + "is there a column for every class? or are these logits?"
    return text + "are these logits, or a multi-label output (not supported: one label per row)?"


def argmax(scores: FloatArray) -> IntArray:
    """(n,) the first largest score of every row."""
    out = np.empty(len(scores), dtype=np.intp)
    for rows in chunks(*scores.shape):
        np.argmax(scores[rows], axis=1, out=out[rows])
    return out


def decided_share(scores: FloatArray, predictions: IntArray) -> float:
    """The share of rows whose decision is not the largest score; a class that ties with it is the largest too."""
    below = 0
    for rows in chunks(*scores.shape):
        part = scores[rows]
        below += int((part[np.arange(len(part)), predictions[rows]] < part.max(axis=1)).sum())
    return below / len(scores)


def above_threshold(
    scores: FloatArray, kind: str, classes: tuple[Hashable, ...] | None, threshold: Any, where: str
) -> IntArray:
    """(n,) of two classes: the second, or the one named, where its probability reaches the threshold."""
    k = scores.shape[1]
    if k != 2:
        raise InputError(f"{where} threshold: arrived with {k} classes; it is for two; pass predictions=")
    names = classes if classes is not None else (0, 1)
    chosen = dict(threshold) if isinstance(threshold, Mapping) else {names[1]: threshold}
    place = places(names, tuple(chosen))
    if len(chosen) != 1 or next(iter(chosen)) not in place:
        wanted = f"one of the two classes, {names[0]!r} or {names[1]!r}"
        raise InputError(f"{where} threshold {threshold!r}: wanted {wanted}")
    ((name, least),) = chosen.items()
    check_fraction(least, f"{where} threshold", 0.9)
    j = place[name]
    out = np.empty(len(scores), dtype=np.intp)
    for rows in chunks(*scores.shape):
        part = np.asarray(scores[rows], dtype=np.float64)
        if kind == "probs":
            reached = part[:, j] >= least * part.sum(axis=1)
        else:
            reached = part[:, j] - part[:, 1 - j] >= np.log(least) - np.log1p(-least)
        out[rows] = np.where(reached, j, 1 - j)
    return out


def check_ids(values: Any, n: int, where: str) -> npt.NDArray[Any]:
    """(n,) what each row is known by: texts, numbers or dates, copied."""
    array = as_array(values, f"{where} ids")
    if array.shape != (n,):
        raise InputError(f"{where} ids: arrived with shape {array.shape}; wanted one per row, shape ({n},)")
    held: npt.NDArray[Any] = array.copy()
    held.flags.writeable = False
    return held


def check_fraction(value: Any, what: str, such_as: float) -> None:
    """A fraction strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or value != value:
        raise InputError(f"{what} {value!r}: wanted a number between 0 and 1, such as {such_as:g}")
    if not 0.0 < value < 1.0:
        hint = f"; did you mean {value / 100:g}?" if 1.0 <= value < 100.0 else ""
        raise InputError(f"{what} {value:g}: wanted a fraction between 0 and 1, such as {such_as:g}{hint}")


def check_count(value: Any, what: str, least: int, advice: str = "", most: float = math.inf) -> None:
    """A whole number, large enough and not beyond what can be done."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{what} {value!r}: wanted a whole number, {least} or more")
    if value < least:
        raise InputError(f"{what} {value}: wanted {least} or more{advice}")
    if value > most:
        raise InputError(f"{what} {value}: wanted {most:,} or fewer{advice}")


def check_weights(values: Any, n: int, where: str) -> tuple[npt.NDArray[np.float64] | None, int]:
    """Check one non-negative weight per row, not all zero; also how many are too small beside the others to count.

    Only proportions matter, so the largest becomes 1 and sums cannot overflow; what is below `SMALLEST_WEIGHT`
    then counts as 0, and squares cannot underflow.
    """
    if values is None:
        return None, 0
    what = f"{where} weights"
    array = _numeric(as_array(values, what))
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
    shares = array / array.max()
    lost = (array > 0) & (shares < SMALLEST_WEIGHT)
    shares[lost] = 0.0
    return shares, int(lost.sum())


def check_label_shares(
    values: Any, k: int, classes: tuple[Hashable, ...] | None, what: str = "marginal"
) -> npt.NDArray[np.float64]:
    """Check a label marginal: one non-negative mass per class (or a mapping from names), summing to 1."""
    names = classes if classes is not None else tuple(range(k))
    if isinstance(values, dict):
        place = places(names, tuple(values))
        unknown = [c for c in values if c not in place]
        values = {names[place[c]]: mass for c, mass in values.items() if c in place}
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
