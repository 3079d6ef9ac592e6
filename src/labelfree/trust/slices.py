"""Error per slice of the target, with intervals that hold for all slices at once."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree import _door
from labelfree.errors import InputError
from labelfree.estimators import SCOT
from labelfree.estimators.view import View
from labelfree.labelshift import Marginal
from labelfree.results import percent
from labelfree.trust.columns import is_missing
from labelfree.trust.intervals import FEWEST, check_resampling
from labelfree.trust.replicate import Replicator
from labelfree.trust.shift_test import check_samples
from labelfree.types import Source, Target

Array = npt.NDArray[np.float64]

#: Slices of fewer rows are flagged; of fewer effective rows, resampling shows nothing.
SMALL, FEW = 50, 5.0
#: What the intervals cover.
KIND = "simultaneous, sampling error only"
#: The slice of rows whose value is missing.
MISSING = "(missing)"
NOTE = "the label shares constrain the whole target, not each slice"


@dataclass(frozen=True)
class Slice:
    """One slice.

    Attributes:
        name: its value, or its values by column; `(missing)` where there is none.
        rows: how many target rows it has.
        share: its share of the target's mass.
        error: its estimated error.
        low, high: the interval.
        small: fewer than 50 rows.
        few: fewer than 5 effective rows (or 10 source rows), too few to resample: the interval is [0, 1].
    """

    name: str
    rows: int
    share: float
    error: float
    low: float
    high: float
    small: bool
    few: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The slice as plain values."""
        return dict(vars(self))


@dataclass(frozen=True)
class Slices:
    """Every slice of one target.

    Attributes:
        error: SCOT's error of the whole; the slices' errors average to it by their shares.
        slices: in order of their names; numbers in order of size, missing ones last.
        level: the intervals' simultaneous level, sampling error only.
        note: what the reader must know.
        warnings: what SCOT warns of on this source and target.
    """

    error: float
    slices: tuple[Slice, ...]
    level: float
    note: str = NOTE
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "error": self.error,
            "slices": [s.to_dict() for s in self.slices],
            "level": self.level,
            "kind": KIND,
            "note": self.note,
            "warnings": list(self.warnings),
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Everything as JSON."""
        return json.dumps({"schema": 1, **self.to_dict()}, indent=indent, allow_nan=False)

    def __repr__(self) -> str:
        lines = [f"error {percent(self.error)}; {len(self.slices)} slices"]
        lines += [
            f"  {s.name:<20} {percent(s.error):>6} [{percent(s.low)}, {percent(s.high)}]  {s.rows} rows"
            f"{'  (too few rows for an interval)' if s.few else '  (small)' if s.small else ''}"
            for s in self.slices
        ]
        return "\n".join([*lines, *(f"  ! {text}" for text in (*self.warnings, self.note))])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


def slices(
    source: Source,
    target: Target,
    groups: Any,
    *,
    calibration: str = "temperature",
    marginal: Marginal = "source",
    level: float = 0.95,
    replicates: int = 200,
    seed: int = 0,
) -> Slices:
    """Estimate the error of each slice of the target from SCOT's posteriors.

    The error of a slice is the mean of 1 - r_{i, y^_i} over its rows. Intervals are simultaneous (bootstrap
    max-t): with s_g the bootstrap deviation of slice g and t* the `level` quantile over replicates of
    max_g |e*_g - e_g| / s_g, slice g gets e_g -+ t* s_g. A slice of fewer than 5 effective rows gets [0, 1]:
    one row resampled is the same row.

    Args:
        source: scores with labels.
        target: scores without.
        groups: (n_target,) the slice of each row, or a mapping from column names to such arrays: slices are
            then the combinations that occur. Missing values (None, NaN, empty texts) are a slice too.
        calibration, marginal: as for SCOT.
        level, replicates, seed: of the intervals.

    >>> import numpy as np, labelfree as lf
    >>> rng = np.random.default_rng(0); z = rng.normal(size=(600, 3)) * 2
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(1)
    >>> found = slices(lf.Source(logits=z[:300], labels=y[:300]), lf.Target(logits=z[300:]), ["a", "b"] * 150)
    >>> [s.name for s in found.slices]
    ['a', 'b']
    """
    check_samples("slices", source, target)
    check_resampling(level, replicates, seed)
    names, number = slice_numbers(groups, target.n)
    options = {"calibration": calibration, "marginal": marginal}
    aligned = target.aligned(source.classes, source.k)
    warnings = list(SCOT(**options).fit(source).estimate(aligned).warnings)
    work = Replicator(source, aligned, calibration)

    def read(left: View, right: View) -> Array:
        fitted = work.fitted(SCOT(**options), left)
        assert isinstance(fitted, SCOT)
        wrong = right.mass * right.doubt(right.soft_transport(fitted.masses(right)).posterior)
        share = np.bincount(number, weights=right.mass, minlength=len(names))
        total = np.bincount(number, weights=wrong, minlength=len(names))
        return np.asarray(np.divide(total, share, out=np.full(len(names), np.nan), where=share > 0.0))

    drawn = np.array(work.run(read, replicates, seed))
    mass = np.bincount(number, weights=aligned.mass, minlength=len(names))
    rows = np.bincount(number, minlength=len(names))
    weighty = np.flatnonzero(mass > 0.0)
    if len(weighty) < len(names):
        without = ", ".join(names[g] for g in np.flatnonzero(mass == 0.0)[:5])
        warnings.append(f"slices whose rows all weigh 0 are left out: {without}")
    squares = np.bincount(number, weights=aligned.mass**2, minlength=len(names))
    enough = weighty[mass[weighty] ** 2 >= FEW * squares[weighty] * (1.0 - 1e-9)]
    centre = np.clip(np.where(mass > 0.0, drawn[0], 0.0), 0.0, 1.0)
    if source.n < FEWEST:
        enough = enough[:0]
        warnings.append(
            f"no intervals: {source.n} source rows cannot show how far chance goes; wanted at least {FEWEST}"
        )
    half = np.full(len(names), np.inf)
    half[enough] = _max_t(drawn[1:, enough], centre[enough], level)
    parts = tuple(
        Slice(
            name=names[g],
            rows=int(rows[g]),
            share=float(mass[g]),
            error=float(centre[g]),
            low=float(max(0.0, centre[g] - half[g])),
            high=float(min(1.0, centre[g] + half[g])),
            small=bool(rows[g] < SMALL),
            few=bool(np.isinf(half[g])),
        )
        for g in weighty
    )
    return Slices(error=float(mass @ centre), slices=parts, level=level, warnings=tuple(warnings))


def _max_t(drawn: Array, centre: Array, level: float) -> Array:
    """(G,) half-widths t* s_g; a slice that a replicate did not draw has no say in it."""
    if not len(centre):
        return centre
    spread = np.maximum(np.nanstd(drawn, axis=0, ddof=1), 1e-12)
    t = np.nan_to_num(np.abs(drawn - centre) / spread).max(axis=1)
    return np.asarray(np.quantile(t, level) * spread)


def slice_numbers(groups: Any, n: int) -> tuple[list[str], npt.NDArray[np.intp]]:
    """The slices' names in order, and each row's number among them."""
    columns = dict(groups) if isinstance(groups, Mapping) else {"": groups}
    if not columns:
        raise InputError("groups: no columns arrived; wanted at least one, with one value per target row")
    names, number = [""], np.zeros(n, dtype=np.intp)
    for column, values in columns.items():
        own, place = _column(values, f"groups {column}".rstrip(), n)
        titles = [f"{column}={name}" for name in own] if column != "" else own
        used, number = np.unique(number * len(own) + place, return_inverse=True)
        number = np.asarray(number.reshape(-1), dtype=np.intp)
        names = [", ".join(filter(None, (names[u // len(own)], titles[u % len(own)]))) for u in used.tolist()]
    return names, number


def _column(values: Any, what: str, n: int) -> tuple[list[str], npt.NDArray[np.intp]]:
    """The values of one column as texts in order, and (n,) which of them each row holds."""
    array = _door.as_array(values, what)
    if array.shape != (n,):
        raise InputError(f"{what}: arrived with shape {array.shape}; wanted one value per target row, ({n},)")
    if array.dtype.kind in "mM":  # times print as they are written
        array = array.astype(str)
    if array.dtype != object:
        distinct, place = np.unique(array, return_inverse=True)
        texts = np.array([_text(value) for value in distinct.tolist()])[place.reshape(-1)]
    else:
        texts = np.array([_text(value) for value in array.tolist()])
    names, number = np.unique(texts, return_inverse=True)
    order = _order(names.tolist())
    return names[order].tolist(), np.asarray(np.argsort(order)[number.reshape(-1)], dtype=np.intp)


def _text(value: Any) -> str:
    """A value as a slice's name, never empty."""
    if is_missing(value):
        return MISSING
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _order(names: list[str]) -> npt.NDArray[np.intp]:
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
