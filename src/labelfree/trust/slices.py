"""Error per slice of the target, with intervals that hold for all slices at once."""

from __future__ import annotations

import html
import json
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
from labelfree.trust.intervals import check_resampling
from labelfree.trust.replicate import Replicator
from labelfree.types import Source, Target

Array = npt.NDArray[np.float64]

#: Slices of fewer rows are flagged.
SMALL = 50
NOTE = "the label shares constrain the whole target, not each slice"


@dataclass(frozen=True)
class Slice:
    """One slice: its name, rows, share of the target's mass, error, and interval."""

    name: str
    rows: int
    share: float
    error: float
    low: float
    high: float
    small: bool

    def to_dict(self) -> dict[str, Any]:
        """The slice as plain values."""
        return dict(vars(self))


@dataclass(frozen=True)
class Slices:
    """Every slice of one target.

    Attributes:
        error: SCOT's error of the whole; the slices' errors average to it by their shares.
        slices: in order of their names.
        level: the intervals' simultaneous level, sampling error only.
        note: what the reader must know.
    """

    error: float
    slices: tuple[Slice, ...]
    level: float
    note: str = NOTE

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "error": self.error,
            "slices": [s.to_dict() for s in self.slices],
            "level": self.level,
            "kind": "simultaneous, sampling error only",
            "note": self.note,
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Everything as JSON."""
        return json.dumps({"schema": 1, **self.to_dict()}, indent=indent, allow_nan=False)

    def __repr__(self) -> str:
        lines = [f"error {percent(self.error)}; {len(self.slices)} slices"]
        lines += [
            f"  {s.name:<20} {percent(s.error):>6} [{percent(s.low)}, {percent(s.high)}]  {s.rows} rows"
            f"{'  (small)' if s.small else ''}"
            for s in self.slices
        ]
        return "\n".join([*lines, f"  ! {self.note}"])

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
    max_g |e*_g - e_g| / s_g, slice g gets e_g -+ t* s_g.

    Args:
        source: scores with labels.
        target: scores without.
        groups: (n_target,) the slice of each row, or a mapping from column names to such arrays: slices are
            then the combinations that occur.
        calibration, marginal: as for SCOT.
        level, replicates, seed: of the intervals.

    >>> import numpy as np, labelfree as lf
    >>> rng = np.random.default_rng(0); z = rng.normal(size=(600, 3)) * 2
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(1)
    >>> found = slices(lf.Source(logits=z[:300], labels=y[:300]), lf.Target(logits=z[300:]), ["a", "b"] * 150)
    >>> [s.name for s in found.slices]
    ['a', 'b']
    """
    check_resampling(level, replicates, seed)
    names, number = slice_numbers(groups, target.n)
    options = {"calibration": calibration, "marginal": marginal}
    aligned = target.aligned(source.classes, source.k)
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
    centre = np.clip(drawn[0], 0.0, 1.0)
    half = _max_t(drawn[1:], centre, level)
    parts = tuple(
        Slice(
            name=names[g],
            rows=int(rows[g]),
            share=float(mass[g]),
            error=float(centre[g]),
            low=float(max(0.0, centre[g] - half[g])),
            high=float(min(1.0, centre[g] + half[g])),
            small=bool(rows[g] < SMALL),
        )
        for g in range(len(names))
    )
    return Slices(error=float(mass @ centre), slices=parts, level=level)


def _max_t(drawn: Array, centre: Array, level: float) -> Array:
    """(G,) half-widths t* s_g."""
    spread = np.maximum(np.nanstd(drawn, axis=0, ddof=1), 1e-12)
    t = np.nanmax(np.abs(drawn - centre) / spread, axis=1)
    return np.asarray(np.quantile(t, level) * spread)


def slice_numbers(groups: Any, n: int) -> tuple[list[str], npt.NDArray[np.intp]]:
    """The slices' names in order, and each row's number among them."""
    columns = dict(groups) if isinstance(groups, Mapping) else {"": groups}
    if not columns:
        raise InputError("groups: no columns arrived; wanted at least one, with one value per target row")
    texts = []
    for column, values in columns.items():
        array = _door.as_array(values, f"groups {column}".strip())
        if array.shape != (n,):
            raise InputError(
                f"groups {column}: arrived with shape {array.shape}; wanted one value per target row, ({n},)"
            )
        label = f"{column}=" if column else ""
        texts.append(np.array([f"{label}{value}" for value in array.tolist()]))
    joined = (
        texts[0] if len(texts) == 1 else np.array([", ".join(parts) for parts in zip(*texts, strict=True)])
    )
    names, number = np.unique(joined, return_inverse=True)
    return names.tolist(), np.asarray(number.reshape(-1), dtype=np.intp)
