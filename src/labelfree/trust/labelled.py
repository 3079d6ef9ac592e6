"""When labels come back: one estimate from SCOT's doubts and the labelled rows, unbiased by design."""

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
from labelfree.results import Interval, percent
from labelfree.trust.budget import Plan, plain_labels
from labelfree.types import Target

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Labelled:
    """The error by labels and doubts together.

    Attributes:
        error: the point estimate; never clipped, so that it stays unbiased.
        interval: for the error of just these target rows; kind `"design"` or `"design, asymptotic"`.
        labels: how many labels were used.
        missing: the picks that were never labelled.
        weight: lambda, how much the doubts were relied on.
        saved: labels saved against plain sampling for the same width.
        observed_errors: labelled rows whose prediction was wrong.
        warnings: what the reader should know.
    """

    error: float
    interval: Interval
    labels: int
    missing: tuple[int, ...]
    weight: float
    saved: int
    observed_errors: int
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "error": self.error,
            "interval": self.interval.to_dict(),
            "labels": self.labels,
            "missing": list(self.missing),
            "weight": self.weight,
            "labels_saved": self.saved,
            "observed_errors": self.observed_errors,
            "warnings": list(self.warnings),
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Everything as JSON."""
        return json.dumps({"schema": 1, **self.to_dict()}, indent=indent, allow_nan=False)

    def __repr__(self) -> str:
        i = self.interval
        lines = [
            f"error {percent(self.error)} [{percent(i.low)}, {percent(i.high)}] from {self.labels} labels "
            f"({self.observed_errors} errors; {self.saved} labels saved against plain sampling)"
        ]
        return "\n".join([*lines, *(f"  ! {w}" for w in self.warnings)])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


def with_labels(
    plan: Plan,
    target: Target,
    labels: Mapping[int, Any],
    *,
    weight: float | str = 1.0,
    level: float | None = None,
) -> Labelled:
    """Combine the labels that came back with the doubts of the rows that have none.

    With f_i SCOT's error probability, e_i = 1 where the label is not the prediction, and s_h the rows labelled
    in stratum h,

        error = lambda mean(f) + sum_h (N_h / N) mean over s_h of (e_i - lambda f_i):

    the prediction-powered difference estimator, Horvitz-Thompson by stratum. For a lambda fixed in advance it
    is unbiased over the random picks whatever the shift and however wrong f. `weight="fitted"` takes lambda
    from the other half of each stratum's labels (cross-fitting) and is called asymptotic. The variance is
    sum_h (N_h / N)^2 (1 - n_h / N_h) s_h^2 / n_h with two pseudo-rows, one right and one wrong, in each s_h^2:
    with no errors seen the interval is still as wide as the rule of three asks.

    Args:
        plan: what `budget` returned.
        target: the same target, with the predictions to be judged.
        labels: the true label by row number; picks left out are reported as missing.
        weight: lambda, fixed in advance, or `"fitted"`.
        level: by default the plan's.

    Reference: Angelopoulos et al., Prediction-Powered Inference, 2023; Cochran, 1977.
    """
    level = plan.level if level is None else level
    if not (weight == "fitted" or (isinstance(weight, int | float) and np.isfinite(weight))):
        raise InputError(f"weight {weight!r}: wanted a number such as 1.0, or 'fitted'")
    rows, wrong, missing = _judged(plan, target, labels)
    n = len(plan.stratum)
    scale = n * plan.mass
    count = np.bincount(plan.stratum)
    have = np.bincount(plan.stratum[rows], minlength=len(count))
    if (have < 2).any():
        h = int(np.argmax(have < 2))
        raise InputError(
            f"labels: stratum {h} has {have[h]} labels of {count[h]} rows; wanted at least 2 in each: "
            "label more of its picks"
        )
    lam = _weights(weight, plan, rows, wrong)
    share = count / n
    value, variance = 0.0, 0.0
    for h in range(len(count)):
        mine = plan.stratum[rows] == h
        i = rows[mine]
        rest = scale[i] * (wrong[mine] - lam[mine] * plan.doubt[i])
        known = float(np.mean(lam[mine])) * float(np.mean((scale * plan.doubt)[plan.stratum == h]))
        value += share[h] * (known + rest.mean())
        size = float(scale[i].mean())
        middle = float(np.mean(lam[mine] * plan.doubt[i]))
        padded = np.append(rest, [size * (0.0 - middle), size * (1.0 - middle)])
        variance += share[h] ** 2 * (1.0 - have[h] / count[h]) * float(padded.var(ddof=1)) / have[h]
    half = _t(level, len(rows) - len(count)) * float(np.sqrt(variance))
    kind = "design" if weight != "fitted" else "design, asymptotic"
    low, high = max(0.0, value - half), min(1.0, max(value + half, 0.0))
    plain = plain_labels(value, max(half, 1e-6), level, n)
    return Labelled(
        error=float(value),
        interval=Interval(level, float(min(low, high)), float(high), kind),
        labels=len(rows),
        missing=tuple(int(i) for i in missing),
        weight=float(lam.mean()),
        saved=plain - len(rows),
        observed_errors=int(wrong.sum()),
        warnings=_warnings(value, missing, len(plan.rows)),
    )


def _judged(
    plan: Plan, target: Target, labels: Mapping[int, Any]
) -> tuple[npt.NDArray[np.intp], Array, npt.NDArray[np.intp]]:
    if target.n != len(plan.stratum):
        raise InputError(
            f"target: {target.n} rows, but the plan was made for {len(plan.stratum)}; wanted the same"
        )
    picked = set(plan.rows.tolist())
    strange = [r for r in labels if r not in picked]
    if strange:
        raise InputError(
            f"labels: row {strange[0]} was not picked; wanted labels of picked rows only "
            "(others would bias the estimate)"
        )
    rows = np.array([r for r in plan.rows.tolist() if r in labels], dtype=np.intp)
    missing = np.array([r for r in plan.rows.tolist() if r not in labels], dtype=np.intp)
    if not len(rows):
        raise InputError("labels: none of the picked rows has a label; wanted at least two per stratum")
    truth = _door.as_labels([labels[r] for r in rows.tolist()], len(rows), target.k, target.classes, "labels")
    return rows, (target.predictions[rows] != truth).astype(np.float64), missing


def _weights(weight: float | str, plan: Plan, rows: npt.NDArray[np.intp], wrong: Array) -> Array:
    """(m,) lambda for each labelled row; fitted on the other half of the labels."""
    if weight != "fitted":
        return np.full(len(rows), float(weight))
    f = plan.doubt[rows]
    half = np.arange(len(rows)) % 2 == 0
    out = np.empty(len(rows))
    for side in (half, ~half):
        other = ~side
        spread = float(np.var(f[other]))
        cov = float(np.mean((f[other] - f[other].mean()) * (wrong[other] - wrong[other].mean())))
        out[side] = np.clip(cov / spread, 0.0, 1.5) if spread > 0.0 else 0.0
    return out


def _t(level: float, df: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(max(df, 1), 0.5 + level / 2))


def _warnings(value: float, missing: npt.NDArray[np.intp], picks: int) -> tuple[str, ...]:
    out = []
    if len(missing):
        out.append(
            f"{len(missing)} of {picks} picks were never labelled; the estimate takes them to be missing at random"
        )
    if not 0.0 <= value <= 1.0:
        out.append(f"the unbiased estimate {value:.4f} lies outside [0, 1] by chance; it is not clipped")
    return tuple(out)
