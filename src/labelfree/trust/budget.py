"""The label budget: how many labels to buy, which rows, and one unbiased estimate when they come back."""

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
from labelfree.types import Source, Target

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Strata of SCOT's error probability, and the fewest labels bought in each.
STRATA, LEAST = 5, 5
#: Error probabilities are kept this far from 0 and 1 when labels are allotted: the model may be wrong.
DOUBT = 0.05


@dataclass(frozen=True)
class Plan:
    """Which rows to label.

    Attributes:
        rows: (m,) the rows picked, sorted.
        stratum: (n,) the stratum of every target row.
        inclusion: (m,) the probability with which each pick was picked: labels bought / rows in its stratum.
        doubt: (n,) SCOT's error probability of every target row.
        mass: (n,) the rows' masses.
        margin, level: what the plan is for: +- margin at the level.
        expected: the error that the plan expects.
        plain: how many labels plain random sampling would need for the same margin.
    """

    rows: Indices
    stratum: Indices
    inclusion: Array
    doubt: Array
    mass: Array
    margin: float
    level: float
    expected: float
    plain: int

    def table(self) -> dict[str, Any]:
        """Columns of equal length, one value per pick: what to send to those who label."""
        return {
            "row": self.rows,
            "stratum": self.stratum[self.rows],
            "inclusion_probability": self.inclusion,
            "error_probability": self.doubt[self.rows],
        }

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, strata by strata."""
        counts = np.bincount(self.stratum)
        picked = np.bincount(self.stratum[self.rows], minlength=len(counts))
        strata = [
            {
                "rows": int(counts[h]),
                "labels": int(picked[h]),
                "error_probability": float(self.doubt[self.stratum == h].mean()),
            }
            for h in range(len(counts))
        ]
        return {
            "labels": len(self.rows),
            "plain_labels": self.plain,
            "margin": self.margin,
            "level": self.level,
            "expected_error": self.expected,
            "strata": strata,
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """The plan as JSON."""
        return json.dumps({"schema": 1, **self.to_dict()}, indent=indent, allow_nan=False)

    def __repr__(self) -> str:
        return (
            f"label {len(self.rows)} rows for +-{percent(self.margin)} at {percent(self.level)} "
            f"(plain sampling: {self.plain}); expected error {percent(self.expected)}"
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>"


def budget(
    source: Source,
    target: Target,
    *,
    margin: float = 0.02,
    level: float = 0.95,
    labels: int | None = None,
    calibration: str = "temperature",
    marginal: Marginal = "source",
    seed: int = 0,
) -> Plan:
    """Plan which target rows to label so that the error is known to within +- margin.

    Rows are stratified by SCOT's error probability; every stratum is sampled, at random without replacement,
    with labels allotted by N_h sqrt(e_h (1 - e_h)) (Neyman), e_h the stratum's mean error probability kept
    away from 0 and 1. If SCOT is wrong the margin is wider than planned, but the estimate stays unbiased.

    Args:
        source: scores with labels.
        target: scores without.
        margin: the half-width wanted, a fraction.
        level: of the interval.
        labels: buy so many instead; the margin is then what they should reach.
        calibration, marginal: as for SCOT.
        seed: of the picks.

    Reference: Cochran, Sampling Techniques, 1977, chapter 5.
    """
    _door.check_fraction(margin, "margin", 0.02)
    _door.check_fraction(level, "level", 0.95)
    _door.check_count(seed, "seed", 0)
    scot = SCOT(calibration=calibration, marginal=marginal).fit(source)
    view = View(target.aligned(source.classes, source.k), scot.calibration_)
    doubt = view.doubt(view.soft_transport(scot.masses(view)).posterior)
    stratum = _strata(doubt)
    counts = np.bincount(stratum)
    e = np.clip(np.bincount(stratum, weights=doubt) / counts, DOUBT, 1.0 - DOUBT)
    spread = np.sqrt(e * (1.0 - e))
    z = _z(level)
    wanted = _needed(counts, spread, margin / z) if labels is None else _given(labels, counts)
    take = _allot(counts, spread, wanted)
    reached = z * float(np.sqrt((((counts / counts.sum()) * spread) ** 2 * (1 / take - 1 / counts)).sum()))
    rng = np.random.default_rng(seed)
    picks = [rng.permutation(np.flatnonzero(stratum == h))[:m] for h, m in enumerate(take)]
    rows = np.sort(np.concatenate(picks))
    error = float(view.mass @ doubt)
    aim = margin if labels is None else reached
    return Plan(
        rows=rows,
        stratum=stratum,
        inclusion=(take / counts)[stratum[rows]],
        doubt=doubt,
        mass=view.mass,
        margin=aim,
        level=level,
        expected=error,
        plain=plain_labels(error, aim, level, target.n),
    )


def plain_labels(error: float, margin: float, level: float, n: int) -> int:
    """How many rows plain sampling without replacement needs for +- margin: z^2 e (1-e) / margin^2, corrected."""
    e = float(np.clip(error, DOUBT, 1.0 - DOUBT))
    infinite = _z(level) ** 2 * e * (1.0 - e) / margin**2
    return int(min(n, np.ceil(infinite / (1.0 + infinite / n))))


def _strata(doubt: Array) -> Indices:
    """(n,) strata of about equal total doubt plus rows: the doubtful are fewer and cut finer."""
    n = len(doubt)
    if n < 2 * LEAST * STRATA:
        return np.zeros(n, dtype=np.intp)
    order = np.argsort(doubt, kind="stable")
    weight = np.cumsum(np.sqrt(np.clip(doubt[order], DOUBT, 1.0 - DOUBT)))
    cut = np.minimum((weight / weight[-1] * STRATA - 1e-9).astype(np.intp), STRATA - 1)
    out = np.empty(n, dtype=np.intp)
    out[order] = cut
    return np.asarray(np.unique(out, return_inverse=True)[1].reshape(-1), dtype=np.intp)


def _needed(counts: Indices, spread: Array, sd: float) -> int:
    """The fewest labels whose Neyman allotment reaches the standard deviation, with finite-population terms."""
    share = counts / counts.sum()
    total = float(share @ spread)
    return int(np.ceil(total**2 / (sd**2 + float((share * spread**2).sum()) / counts.sum())))


def _given(labels: int, counts: Indices) -> int:
    least = int(np.minimum(LEAST, counts).sum())
    if not least <= labels <= counts.sum():
        raise InputError(
            f"labels {labels}: wanted between {least} (every stratum is sampled) and {counts.sum()}, the target's rows"
        )
    return labels


def _allot(counts: Indices, spread: Array, wanted: int) -> Indices:
    """(H,) labels per stratum: Neyman, at least LEAST, at most all its rows."""
    low = np.minimum(LEAST, counts)
    ideal = wanted * (counts * spread) / (counts * spread).sum()
    take = np.clip(np.ceil(ideal - 1e-9).astype(np.intp), low, counts)
    while take.sum() > max(wanted, low.sum()):
        excess = np.where(take > low, take - ideal, -np.inf)
        take[int(np.argmax(excess))] -= 1
    return np.asarray(take, dtype=np.intp)


def _z(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2))


def as_mapping(rows: Any, labels: Any) -> Mapping[int, Any]:
    """Labels by row number, from two columns of equal length; missing labels (None, empty, NaN) are left out."""
    if len(rows) != len(labels):
        raise InputError(f"labels: {len(labels)} labels for {len(rows)} rows; wanted one each")
    out = {int(r): v for r, v in zip(rows, labels, strict=True) if v is not None and v == v and v != ""}
    return out
