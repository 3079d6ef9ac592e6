"""One estimate from the rows' error probabilities and the labelled rows, unbiased by design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import InputError
from shiftgauge.inference.columns import is_missing
from shiftgauge.inference.label_plans import Plan, row_numbers
from shiftgauge.inference.strata import plain_labels, student
from shiftgauge.results import Interval, Result, percent, render
from shiftgauge.rows import Block, RowBuffer, Rows, run
from shiftgauge.samples import Target

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Kinds of interval: by the random picks alone, or good for many labels only.
DESIGN, ASYMPTOTIC = "design", "design, asymptotic"


@dataclass(frozen=True, repr=False)
class Labelled(Result):
    """The error by labels and error probabilities together.

    Attributes:
        error: the point estimate; never clipped, so that it stays unbiased.
        interval: for the error of just these target rows; kind `"design"` or `"design, asymptotic"`.
        labels: how many labels were used.
        picks: how many rows were picked to be labelled.
        missing: the picks that were never labelled, as far as their row numbers came back.
        weight: lambda, how much the error probabilities were relied on.
        saved: labels saved against plain sampling for the same half-width at the error found; negative if more
            were needed.
        observed_errors: labelled rows whose prediction was wrong.
        warnings: what the reader should know.
    """

    error: float
    interval: Interval
    labels: int
    picks: int
    missing: tuple[int, ...]
    weight: float
    saved: int
    observed_errors: int
    warnings: tuple[str, ...] = ()

    def content(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "error": self.error,
            "interval": self.interval.to_dict(),
            "labels": self.labels,
            "picks": self.picks,
            "missing": list(self.missing),
            "weight": self.weight,
            "labels_saved": self.saved,
            "observed_errors": self.observed_errors,
            "warnings": list(self.warnings),
        }

    def __repr__(self) -> str:
        i = self.interval
        lines = [
            f"error {percent(self.error)} [{percent(i.low)}, {percent(i.high)}] at {percent(i.level)} "
            f"from {self.labels:,} labels ({self.observed_errors:,} errors; {self._savings()})",
            "  the interval is for the error of just these target rows, over the random choice of the picks",
        ]
        if i.kind == ASYMPTOTIC:
            lines.append(
                f"  it is asymptotic: the weight, {self.weight:.2f}, was fitted to the labels, so its level "
                "holds only for many of them"
            )
        return render(lines, self.warnings)

    def _savings(self) -> str:
        if self.saved < 0:
            return f"{-self.saved:,} more labels than plain sampling would have needed"
        return f"{self.saved:,} labels saved against plain sampling"


def with_labels(
    plan: Plan,
    target: Target | Rows,
    labels: Mapping[int, Any],
    *,
    weight: float | str = 1.0,
    level: float | None = None,
) -> Labelled:
    """Combine the labels that came back with the error probabilities of the rows that have none.

    With f_i the plan's error probability, e_i = 1 where the label is not the prediction, and s_h the rows labelled
    in stratum h,

        error = lambda mean(f) + sum_h (N_h / N) mean over s_h of (e_i - lambda f_i):

    the prediction-powered difference estimator, Horvitz-Thompson by stratum. For a lambda fixed in advance it
    is unbiased over the random picks whatever the shift and however wrong f. (With row weights e_i and f_i
    count N mass_i times, and the error is the weighted one.) `weight="fitted"` splits the labelled rows, every
    other one of all strata together, and takes each half's lambda from the other half: the slope of e on f
    there, without row weights, kept within 0 and 1.5 (cross-fitting). Its interval is called asymptotic. The
    variance is sum_h (N_h / N)^2 (1 - n_h / N_h) s_h^2 / n_h with two pseudo-rows, one right and one wrong, in
    each s_h^2: with no errors seen the interval is still as wide as the rule of three asks. A stratum that is
    labelled to the last row adds none.

    Args:
        plan: what `budget` returned, or `Plan.from_table` made of the picks that were written to a file.
        target: the same target, with the predictions to be judged.
        labels: the true label by row number; picks left out, or with nothing (None, "", NaN), are reported
            as missing.
        weight: lambda, fixed in advance, or `"fitted"`.
        level: of the interval, by default the plan's; the two may differ.

    Reference: Angelopoulos et al., Prediction-Powered Inference, 2023; Cochran, 1977.
    """
    _check(plan, target, labels, weight)
    level = plan.level if level is None else level
    validation.check_fraction(level, "level", 0.95)
    rows, wrong, missing = _observed_errors(plan, target, labels)
    count = np.bincount(plan.stratum)
    have = _labelled(plan, rows, count)
    lam = _weights(weight, plan, rows, wrong)
    value, variance = difference_estimate(plan, rows, wrong, lam, have, count)
    half = student(level, have, count) * float(np.sqrt(variance))
    low, high = max(0.0, value - half), min(1.0, max(value + half, 0.0))
    picks = int(plan.allocation.sum())
    return Labelled(
        error=float(value),
        interval=Interval(
            float(level), float(min(low, high)), float(high), ASYMPTOTIC if weight == "fitted" else DESIGN
        ),
        labels=len(rows),
        picks=picks,
        missing=tuple(int(i) for i in missing),
        weight=float(lam.mean()),
        saved=plain_labels(value, half, level, plan.mass) - len(rows),
        observed_errors=int(wrong.sum()),
        warnings=_warnings(value, len(rows), picks),
    )


def _labelled(plan: Plan, rows: Indices, count: Indices) -> Indices:
    """(H,) how many rows of each stratum have a label; two are needed for a variance."""
    have = np.bincount(plan.stratum[rows], minlength=len(count))
    few = (have < np.minimum(2, count)) & (np.bincount(plan.stratum, plan.mass) > 0.0)
    if few.any():
        h = int(np.argmax(few))
        raise InputError(
            f"labels: stratum {h} has {have[h]} labels of {count[h]} rows; wanted at least 2 in each: "
            "label more of its picks"
        )
    return have


def difference_estimate(
    plan: Plan, rows: Indices, wrong: Array, lam: Array, have: Indices, count: Indices
) -> tuple[float, float]:
    """The difference estimator of `with_labels`, stratum by stratum, and its variance."""
    n = len(plan.stratum)
    scale, share = n * plan.mass, count / n
    value, variance = 0.0, 0.0
    for h in np.flatnonzero(have).tolist():
        mine = plan.stratum[rows] == h
        i = rows[mine]
        rest = scale[i] * (wrong[mine] - lam[mine] * plan.error_probability[i])
        known = float(np.mean(lam[mine])) * float(
            np.mean((scale * plan.error_probability)[plan.stratum == h])
        )
        value += share[h] * (known + rest.mean())
        size = float(scale[i].mean())
        middle = float(np.mean(lam[mine] * plan.error_probability[i]))
        padded = np.append(rest, [size * (0.0 - middle), size * (1.0 - middle)])
        variance += share[h] ** 2 * (1.0 - have[h] / count[h]) * float(padded.var(ddof=1)) / have[h]
    return value, variance


def as_mapping(rows: Any, labels: Any) -> Mapping[int, Any]:
    """Labels by row number, from two columns of equal length; missing labels (None, empty, NaN) are left out."""
    if len(rows) != len(labels):
        raise InputError(f"labels: {len(labels)} labels for {len(rows)} rows; wanted one each")
    numbers = row_numbers(rows, "labels").tolist()
    return {row: label for row, label in zip(numbers, labels, strict=True) if not is_missing(label)}


def _check(plan: Any, target: Any, labels: Any, weight: Any) -> None:
    if not isinstance(plan, Plan) or not isinstance(target, Target | Rows):
        raise InputError(
            f"with_labels: arrived {type(plan).__name__} and {type(target).__name__}; "
            "wanted the plan that shiftgauge.budget(...) made, and its shiftgauge.Target(...)"
        )
    if not isinstance(labels, Mapping):
        raise InputError(
            f"labels: arrived as {type(labels).__name__}; wanted a mapping from row number to label"
        )
    if not (weight == "fitted" or (isinstance(weight, Real) and np.isfinite(float(weight)))):
        raise InputError(f"weight {weight!r}: wanted a number such as 1.0, or 'fitted'")
    if target.n != len(plan.stratum):
        raise InputError(
            f"target: {target.n} rows, but the plan was made for {len(plan.stratum)}; wanted the same"
        )


def _observed_errors(
    plan: Plan, target: Target | Rows, labels: Mapping[int, Any]
) -> tuple[Indices, Array, Indices]:
    picked = set(plan.rows.tolist())
    others = [r for r in labels if r not in picked]
    if others:
        raise InputError(
            f"labels: row {others[0]} was not picked; wanted labels of picked rows only "
            "(others would bias the estimate)"
        )
    there = np.array([r in labels and not is_missing(labels[r]) for r in plan.rows.tolist()], dtype=bool)
    rows, missing = plan.rows[there], plan.rows[~there]
    if not len(rows):
        raise InputError("labels: none of the picked rows has a label; wanted at least two per stratum")
    truth = _classes([labels[r] for r in rows.tolist()], rows, target)
    return rows, (_predictions(target, rows) != truth).astype(np.float64), missing


def _predictions(target: Target | Rows, rows: Indices) -> Indices:
    """(m,) the predictions of some rows, by their sorted numbers."""
    if isinstance(target, Target):
        return target.predictions[rows]

    def read(block: Block) -> RowBuffer:
        first, last = np.searchsorted(rows, [block.start, block.start + len(block)])
        return RowBuffer.of(block.predictions[rows[first:last] - block.start])

    predictions: Indices = run(target.fold(read)).joined()[0]
    return predictions


def _classes(values: list[Any], rows: Indices, target: Target | Rows) -> Indices:
    """(m,) class indices; a label that is not a class is named with its row of the target."""
    try:
        return validation.check_labels(values, len(values), target.k, target.classes, "labels")
    except InputError:
        for row, value in zip(rows, values, strict=True):
            try:
                validation.check_labels([value], 1, target.k, target.classes, "labels")
            except InputError as problem:
                text = str(problem).removeprefix("labels: ").removeprefix("row 0 ")
                raise InputError(f"labels: row {row} {text}") from None
        raise


def _weights(weight: float | str, plan: Plan, rows: Indices, wrong: Array) -> Array:
    """(m,) lambda for each labelled row; fitted on the other half of the labels."""
    if weight != "fitted":
        return np.full(len(rows), float(weight))
    f = plan.error_probability[rows]
    half = np.arange(len(rows)) % 2 == 0
    out = np.empty(len(rows))
    for side in (half, ~half):
        other = ~side
        spread = float(np.var(f[other]))
        cov = float(np.mean((f[other] - f[other].mean()) * (wrong[other] - wrong[other].mean())))
        out[side] = np.clip(cov / spread, 0.0, 1.5) if spread > 0.0 else 0.0
    return out


def _warnings(value: float, labels: int, picks: int) -> tuple[str, ...]:
    out = []
    if labels < picks:
        out.append(
            f"{picks - labels} of {picks} picks were never labelled; the estimate takes them to be missing at random"
        )
    if not 0.0 <= value <= 1.0:
        out.append(f"the unbiased estimate {value:.4f} lies outside [0, 1] by chance; it is not clipped")
    return tuple(out)
