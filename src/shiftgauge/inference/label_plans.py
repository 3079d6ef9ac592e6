"""The label budget: how many labels to buy, which rows, and what was bought when they come back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import InputError
from shiftgauge.inference.estimates import estimate
from shiftgauge.inference.pairs import SourceOrPair, to_pair
from shiftgauge.inference.strata import LEAST, LEAST_PROBABILITY, Strata, plain_labels
from shiftgauge.labelshift import Marginal
from shiftgauge.methods.pair import Pair, resolve_method
from shiftgauge.results import Result, percent, render
from shiftgauge.rows import Block, RowBuffer, Rows, run
from shiftgauge.samples import Target

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Strata of the rows' error probability.
STRATA = 5
#: How far what a file says may lie from what is computed again: spreadsheets round.
ROUNDED_LABELS, ROUNDED_PROBABILITY = 0.01, 1e-3


@dataclass(frozen=True, repr=False)
class Plan(Result):
    """Which rows to label.

    Attributes:
        rows: (m,) the rows picked, sorted.
        stratum: (n,) the stratum of every target row.
        inclusion: (m,) the probability with which each pick was picked: labels bought / rows in its stratum.
        error_probability: (n,) the error probability of every target row; its mean is the estimate.
        mass: (n,) the rows' masses.
        margin, level: the half-width that the plan should reach, +- margin at the level; 0 if all is labelled.
        expected: the error that the plan expects.
        plain: how many labels plain random sampling would need for the same margin.
        warnings: those of the answer that the plan rests on.
    """

    rows: Indices
    stratum: Indices
    inclusion: Array
    error_probability: Array
    mass: Array
    margin: float
    level: float
    expected: float
    plain: int
    warnings: tuple[str, ...] = ()

    @property
    def allocation(self) -> Indices:
        """(H,) how many rows of each stratum were picked, by the inclusion probabilities."""
        counts = np.bincount(self.stratum)
        mine = self.stratum[self.rows]
        out = np.zeros(len(counts), dtype=np.intp)
        out[mine] = np.rint(self.inclusion * counts[mine]).astype(np.intp)
        return out

    def table(self, ids: Any = None) -> dict[str, Any]:
        """Columns of equal length, one value per pick: what to send to those who label.

        With `ids`, (n,) what each target row is known by (`Target.ids`), the picks are named by them too.
        """
        return {
            **({} if ids is None else {"id": np.asarray(ids)[self.rows]}),
            "row": self.rows,
            "stratum": self.stratum[self.rows],
            "inclusion_probability": self.inclusion,
            "error_probability": self.error_probability[self.rows],
        }

    @classmethod
    def from_table(
        cls,
        table: Mapping[str, Any],
        source: SourceOrPair,
        target: Target | Rows | None = None,
        *,
        level: float = 0.95,
        calibration: str = "temperature",
        marginal: Marginal | None = None,
        what: str = "picks",
    ) -> Plan:
        """The plan that `table` was written from: picks are read, strata and error probabilities computed again.

        Margin, count and seed are not needed. Picks that are no longer in the table still count as picked.

        Args:
            table: the columns `row`, `stratum` and `inclusion_probability` of `Plan.table`, in any order;
                `error_probability` is compared where it is there.
            source, target, calibration, marginal: those of the plan; others are refused.
            level: of the interval; it need not be the plan's.
            what: a word for the table in messages.
        """
        validation.check_fraction(level, "level", 0.95)
        rows = row_numbers(_column(table, "row", what), what)
        pair = to_pair("budget", source, target, calibration)
        error_probability, mass = _error_probabilities(pair, marginal)
        stratum = assign_strata(error_probability, mass)
        allocation = _check_table(table, rows, stratum, error_probability, mass, what)
        rows.sort()
        return replace(
            _make_plan(rows, allocation, stratum, error_probability, mass, level),
            warnings=_warnings(pair, marginal),
        )

    def content(self) -> dict[str, Any]:
        """The plan as plain values, strata by strata, then pick by pick."""
        counts, allocation = np.bincount(self.stratum), self.allocation
        strata = [
            {
                "rows": int(counts[h]),
                "labels": int(allocation[h]),
                "error_probability": float(self.error_probability[self.stratum == h].mean()),
            }
            for h in range(len(counts))
        ]
        return {
            "labels": int(allocation.sum()),
            "plain_labels": self.plain,
            "margin": self.margin,
            "level": self.level,
            "expected_error": self.expected,
            "strata": strata,
            "rows": self.rows.tolist(),
            "stratum": self.stratum[self.rows].tolist(),
            "inclusion_probability": self.inclusion.tolist(),
        }

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """One row per stratum."""
        rows = [
            (str(h), f"{s['rows']:,}", f"{s['labels']:,}", percent(s["error_probability"]))
            for h, s in enumerate(self.content()["strata"])
        ]
        return ("stratum", "rows", "labels", "error probability"), rows

    def __repr__(self) -> str:
        line = (
            f"label {self.allocation.sum():,} rows for +-{at_most(self.margin)} at {percent(self.level)}; "
            f"plain sampling would need {self.plain:,}; expected error {percent(self.expected)}"
        )
        return render([line], self.warnings)


def budget(
    source: SourceOrPair,
    target: Target | Rows | None = None,
    *,
    margin: float = 0.02,
    level: float = 0.95,
    count: int | None = None,
    calibration: str = "temperature",
    marginal: Marginal | None = None,
    seed: int = 0,
) -> Plan:
    """Plan which target rows to label so that the error is known to within +- margin.

    Rows are stratified by the error probability of the posterior behind the estimate, `auto`'s, or SCOT's if a
    marginal is given (times the row's weight, if there are weights). Every stratum is sampled, at random without
    replacement. Each label is bought where it takes most off the variance that `with_labels` will report: Neyman's
    allocation in whole numbers, with no stratum overdrawn. If the estimate is wrong the margin is wider than planned,
    but the estimate stays unbiased.

    Args:
        source: scores with labels; or a `Pair`, and no target.
        target: scores without.
        margin: the half-width wanted, a fraction; the plan reaches it or a smaller one.
        level: of the interval.
        count: buy so many labels instead; the margin is then what they should reach.
        calibration: as for every method.
        marginal: the target's label shares, for SCOT.
        seed: of the picks.

    References: Cochran, Sampling Techniques, 1977, chapter 5; Wright, The Equivalence of Neyman Optimum
    Allocation for Sampling and Equal Proportions for Apportioning the U.S. House of Representatives, 2012.
    """
    validation.check_fraction(margin, "margin", 0.02)
    validation.check_fraction(level, "level", 0.95)
    validation.check_count(seed, "seed", 0)
    if count is not None:
        validation.check_count(count, "count", 1)
    pair = to_pair("budget", source, target, calibration)
    probability, mass = _error_probabilities(pair, marginal)
    stratum = assign_strata(probability, mass)
    strata = Strata.of(stratum, probability, mass)
    allocation = strata.reaching(margin, level) if count is None else strata.buying(int(count))
    rng = np.random.default_rng(int(seed))
    picks = [rng.permutation(np.flatnonzero(stratum == h))[:m] for h, m in enumerate(allocation)]
    plan = _make_plan(np.sort(np.concatenate(picks)), allocation, stratum, probability, mass, level)
    return replace(plan, warnings=_warnings(pair, marginal))


def row_numbers(values: Any, what: str) -> Indices:
    """(m,) row numbers, whole and each only once."""
    seen: dict[int, None] = {}
    for value in values:
        try:
            row = int(value)
            whole = row == float(value)
        except (TypeError, ValueError, OverflowError) as problem:
            raise InputError(
                f"{what}: 'row' must hold the row numbers that the plan wrote ({problem})"
            ) from None
        if not whole or not 0 <= row < 2**62:
            raise InputError(
                f"{what}: 'row' is {value} in one line; wanted the row numbers that the plan wrote"
            )
        if row in seen:
            raise InputError(f"{what}: row {row} stands there twice; wanted each row once")
        seen[row] = None
    return np.array(list(seen), dtype=np.intp)


def at_most(margin: float) -> str:
    """A half-width in percent, rounded up so that no more is promised than is reached.

    >>> at_most(0.0301), at_most(0.03), at_most(0.000412), at_most(0.0)
    ('3.1%', '3.0%', '0.042%', '0%')
    """
    if margin <= 0.0:
        return "0%"
    digits = max(1, 1 - math.floor(math.log10(100 * margin)))
    return f"{math.ceil(100 * margin * 10**digits - 1e-6) / 10**digits:.{digits}f}%"


def _error_probabilities(pair: Pair, marginal: Marginal | None) -> tuple[Array, Array]:
    """(n,) each: the error probability of every target row, whose mean is the estimate, and the rows' masses."""
    name, options = resolve_method(None, marginal)
    posterior = pair.posterior(name, **options)

    def read(block: Block) -> RowBuffer:
        return RowBuffer.of(block.error_probability(posterior(block)), block.mass)

    probability, mass = run(pair.target.fold(read)).joined()
    return probability, mass / mass.sum()


def _warnings(pair: Pair, marginal: Marginal | None) -> tuple[str, ...]:
    name, options = resolve_method(None, marginal)
    return estimate(pair, method=name, **options).warnings


def assign_strata(error_probability: Array, mass: Array) -> Indices:
    """(n,) strata of about equal total w sqrt(error probability): probable errors and heavy rows are cut finer.

    Rows without mass come last, in a stratum of their own.
    """
    out = np.full(len(error_probability), STRATA, dtype=np.intp)
    heavy = np.flatnonzero(mass > 0.0)
    # Rounded, so that the last bits, which differ between machines, do not decide where a row goes.
    f = np.round(error_probability[heavy], 9)
    size = np.round(
        len(error_probability)
        * mass[heavy]
        * np.sqrt(np.clip(f, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)),
        12,
    )
    order = np.lexsort((f, size))
    total = np.cumsum(size[order])
    parts = STRATA if len(heavy) >= 2 * LEAST * STRATA else 1
    out[heavy[order]] = np.minimum((total / total[-1] * parts - 1e-9).astype(np.intp), parts - 1)
    return np.asarray(np.unique(out, return_inverse=True)[1].reshape(-1), dtype=np.intp)


def _make_plan(
    rows: Indices, allocation: Indices, stratum: Indices, error_probability: Array, mass: Array, level: float
) -> Plan:
    """The plan to label these rows, sorted; `allocation` of each stratum were picked."""
    strata = Strata.of(stratum, error_probability, mass)
    margin = min(1.0, strata.half_width(allocation, level))  # the interval ends at 0 and 1
    error = float(mass @ error_probability)
    cautious = min(max(error, LEAST_PROBABILITY), 1.0 - LEAST_PROBABILITY)  # as in the strata
    return Plan(
        rows=rows,
        stratum=stratum,
        inclusion=(allocation / strata.counts)[stratum[rows]],
        error_probability=error_probability,
        mass=mass,
        margin=margin,
        level=float(level),
        expected=error,
        plain=plain_labels(cautious, margin, level, mass),
    )


def _column(table: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in table:
        raise InputError(
            f"{what}: no column {name!r}; wanted row, stratum and inclusion_probability as the plan wrote them"
        )
    return table[name]


def _numbers(table: Mapping[str, Any], name: str, rows: Indices, what: str) -> Array:
    column = _column(table, name, what)
    try:
        values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(f"{what}: {name!r} must hold the numbers that the plan wrote ({problem})") from None
    if values.shape != rows.shape:
        raise InputError(f"{what}: {name!r} has shape {values.shape} for {len(rows)} rows; wanted one each")
    return values


def _check_table(
    table: Mapping[str, Any],
    rows: Indices,
    stratum: Indices,
    error_probability: Array,
    mass: Array,
    what: str,
) -> Indices:
    """(H,) how many rows of each stratum were picked; refuses picks of another plan."""
    differ = "target, calibration or marginal differ from those of the plan"
    if not len(rows):
        raise InputError(f"{what}: no rows; wanted the rows that the plan wrote")
    if rows.max() >= len(stratum):
        raise InputError(f"{what}: row {rows.max()} is not among the target's {len(stratum)} rows; {differ}")
    mine = stratum[rows]
    counts = np.bincount(stratum)
    given = _numbers(table, "stratum", rows, what)
    if np.isnan(given).any():
        row = rows[int(np.argmax(np.isnan(given)))]
        raise InputError(
            f"{what}: row {row} has no stratum; wanted the rows that were picked only (others would bias the estimate)"
        )
    number = _numbers(table, "inclusion_probability", rows, what) * counts[mine]
    allocation = np.zeros(len(counts), dtype=np.intp)
    with np.errstate(invalid="ignore"):
        whole = np.nan_to_num(np.rint(number), nan=0.0, posinf=0.0, neginf=0.0)
    np.maximum.at(allocation, mine, whole.astype(np.intp))
    listed = np.bincount(mine, minlength=len(counts))
    lost = (listed == 0) & (np.bincount(stratum, mass) > 0.0)
    if lost.any():
        h = int(np.argmax(lost))
        raise InputError(f"{what}: no row of stratum {h} is left; wanted labelled rows of every stratum")
    fits = (
        (np.abs(number - allocation[mine]) <= ROUNDED_LABELS)
        & (allocation >= listed)[mine]
        & (allocation <= counts)[mine]
    )
    near = np.ones(len(rows), dtype=bool)
    if "error_probability" in table:
        near = ~(
            np.abs(_numbers(table, "error_probability", rows, what) - error_probability[rows])
            > ROUNDED_PROBABILITY
        )
    for good, name in (
        (given == mine, "stratum"),
        (fits, "inclusion_probability"),
        (near, "error_probability"),
    ):
        if not good.all():
            row = rows[int(np.argmin(good))]
            raise InputError(f"{what}: the {name} of row {row} does not fit the target's rows: {differ}")
    return allocation
