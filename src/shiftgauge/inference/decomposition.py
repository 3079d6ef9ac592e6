"""Where a rise in error comes from: which columns changed, and for each the mix of its slices against their errors.

With p_g and q_g the shares of slice g on the source and on the target, s_g and t_g its errors, the rise is split in
Kitagawa's symmetric form (1955):

    rise = sum_g q_g t_g - sum_g p_g s_g = mix + within,
    mix = sum_g (q_g - p_g) (s_g + t_g) / 2,    within = sum_g (p_g + q_g) / 2 (t_g - s_g).

s_g is measured on the labelled source, t_g is estimated (`shiftgauge.slices`), scaled so that sum_g q_g t_g is the
estimate. A slice that one side lacks has no change within: its share is part of the mix. Each column is split by
itself; the splits of several columns overlap and do not add up.

Reference: E. M. Kitagawa, Components of a difference between two rates, Journal of the American Statistical Association
50 (1955).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError
from shiftgauge.inference.columns import as_texts, one_per_row
from shiftgauge.inference.pairs import SourceOrPair, to_pair
from shiftgauge.inference.scenarios import LabelCounts, Scenarios, ratio, scenarios
from shiftgauge.inference.segments import (
    FEWEST_EACH,
    SEEN,
    Grouping,
    SliceSums,
    missed_on_source,
    refuse_tiny_slices,
    slice_noise,
)
from shiftgauge.methods.pair import Pair, resolve_method
from shiftgauge.methods.range import RANGE_LEVEL
from shiftgauge.results import (
    Interval,
    Range,
    Table,
    dict_or_none,
    p_value,
    percent,
    points,
    render,
    shortened,
    text_table,
)
from shiftgauge.rows import AnyTarget
from shiftgauge.validation.labels import MISSING
from shiftgauge.validation.target_labels import RANDOM

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

NUMBERS, CATEGORIES = "numbers", "categories"
#: Numbers of at most so many different values are categories.
FEW_VALUES = 10
#: Quantile bins of numbers.
BINS = 5
#: Further categories, and those of fewer rows than `FEWEST_EACH`, are one slice.
MOST_CATEGORIES, OTHER = 20, "(other)"
#: A longer name of a column is cut in tables.
LONGEST_NAME = 16
NOTE = "each column is split by itself; the splits overlap and do not add up"


@dataclass(frozen=True)
class DriverSlice:
    """One slice of a column.

    Attributes:
        name: its value or its bin.
        source_share, target_share: its shares of the rows, by weight.
        source_error: its error on the source; None if the source lacks it.
        error: its estimated error on the target; None if the target lacks it.
        mix, within: its terms of the split.
    """

    name: str
    source_share: float
    target_share: float
    source_error: float | None
    error: float | None
    mix: float
    within: float

    def to_dict(self) -> dict[str, Any]:
        """The slice as plain values."""
        return dict(vars(self))


@dataclass(frozen=True)
class Driver:
    """One column: how far it changed, and the split of the rise by its slices.

    Attributes:
        column: its name.
        kind: `"numbers"` or `"categories"`.
        distance: between source and target: Kolmogorov-Smirnov of numbers, total variation of categories; from 0 to 1.
        p_value, p_adjusted: of the two-sample test, alone and for all columns (Benjamini and Hochberg).
        mix, within: the parts of the rise from the change of the mix of slices, and from the change within slices.
        mix_range, within_range: for these target rows, had all been labelled; None with too few rows.
        slices: in order.
        missing_source, missing_target: rows without a value.
        new: target rows with a category that the source lacks.
        outside: target rows with a number outside the source's range.
    """

    column: str
    kind: str
    distance: float
    p_value: float
    p_adjusted: float
    mix: float
    within: float
    mix_range: Interval | None
    within_range: Interval | None
    slices: tuple[DriverSlice, ...]
    missing_source: int = 0
    missing_target: int = 0
    new: int = 0
    outside: int = 0

    @property
    def counts(self) -> str:
        """Missing, new and outside values in words; empty if there are none."""
        said = []
        if self.missing_source or self.missing_target:
            said.append(f"missing in {self.missing_source:,} source and {self.missing_target:,} target rows")
        said += [f"{self.new:,} target rows have new values"] if self.new else []
        said += [f"{self.outside:,} target rows are outside the source's range"] if self.outside else []
        return ", ".join(said)

    def record(self) -> dict[str, Any]:
        """The row of a table."""
        ends = {
            f"{name}_{end}": None if interval is None else getattr(interval, end)
            for name, interval in (("mix", self.mix_range), ("within", self.within_range))
            for end in ("low", "high")
        }
        left_out = ("slices", "mix_range", "within_range")
        plain = {name: value for name, value in vars(self).items() if name not in left_out}
        return {**plain, **ends}

    def to_dict(self) -> dict[str, Any]:
        """The column as plain values."""
        return {
            **vars(self),
            "mix_range": dict_or_none(self.mix_range),
            "within_range": dict_or_none(self.within_range),
            "slices": [one.to_dict() for one in self.slices],
        }


@dataclass(frozen=True, repr=False)
class Drivers(Table):
    """All columns, those that changed most first.

    Attributes:
        source_error, error: on the source, and the estimate on the target.
        range: of the estimate.
        columns: one `Driver` each.
        level: of the ranges.
        warnings: those of the estimate.
        note: what the reader must know.
    """

    source_error: float
    error: float
    range: Interval | None
    columns: tuple[Driver, ...]
    level: float
    warnings: tuple[str, ...] = ()
    note: str = NOTE

    @property
    def rise(self) -> float:
        """The estimate less the source error."""
        return self.error - self.source_error

    def __getitem__(self, column: str) -> Driver:
        for driver in self.columns:
            if driver.column == column:
                return driver
        raise KeyError(column)

    def content(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "source_error": self.source_error,
            "error": self.error,
            "range": dict_or_none(self.range),
            "rise": self.rise,
            "columns": [driver.to_dict() for driver in self.columns],
            "level": self.level,
            "note": self.note,
            "warnings": list(self.warnings),
        }

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per column."""
        return [driver.record() for driver in self.columns]

    def heading(self) -> str:
        """The estimate and the rise."""
        side = "above" if self.rise >= 0 else "below"
        return (
            f"error {percent(self.error)}, {100 * abs(self.rise):.1f} points {side} the source's "
            f"{percent(self.source_error)}"
        )

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """One row per column; both parts of the rise in percentage points."""
        rows = [
            (
                shortened(driver.column, LONGEST_NAME),
                f"{driver.distance:.2f}",
                p_value(driver.p_adjusted).removeprefix("p = ").removeprefix("p "),
                points(driver.mix, driver.mix_range),
                points(driver.within, driver.within_range),
            )
            for driver in self.columns
        ]
        return ("column", "change", "p", "mix change", "within-slice change"), rows

    def counts(self) -> list[str]:
        """Missing, new and outside values of each column that has some."""
        return [
            f"{shortened(driver.column, LONGEST_NAME)}: {driver.counts}"
            for driver in self.columns
            if driver.counts
        ]

    def __repr__(self) -> str:
        counts = [f"  {text}" for text in self.counts()]
        return render([self.heading(), *text_table(*self.table_rows()), *counts], (*self.warnings, self.note))


def drivers(
    source: SourceOrPair,
    target: AnyTarget | None = None,
    by: Any = None,
    *,
    calibration: str = "temperature",
    proportions: str = "unknown",
    labels: Any = None,
    labels_chosen: Any = RANDOM,
    level: float = RANGE_LEVEL,
    seed: int = 0,
) -> Drivers:
    """Say which columns changed, and split the estimated rise in error by each of them.

    For each column by itself: a two-sample distance with its test, corrected for the number of columns, and Kitagawa's
    split of the rise into a change of the mix of slices and a change within slices. The split describes; it does not
    say that the column is the cause. Ranges are those of `shiftgauge.slices`, of the same scenarios.

    Args:
        source: scores with labels; or a `Pair`, and no target.
        target: scores without.
        by: `{column: (source values, target values)}`, one value per row. Numbers are cut at quantiles of the source;
            those of at most 10 different values, and all else, are categories. Missing values (None, NaN, empty texts)
            are a slice of their own.
        calibration, proportions, labels, labels_chosen, level, seed: as in `shiftgauge.estimate`.

    >>> import numpy as np, shiftgauge as sg
    >>> rng = np.random.default_rng(0); hard = rng.random(4000) < np.repeat([0.2, 0.6], 2000)
    >>> y = rng.integers(2, size=4000); z = rng.normal(size=(4000, 2))
    >>> z[np.arange(4000), y] += np.where(hard, 0.5, 3.0)
    >>> source, target = sg.Source(z[:2000], y[:2000]), sg.Target(z[2000:])
    >>> found = sg.drivers(source, target, {"hard": (hard[:2000], hard[2000:])})["hard"]
    >>> found.p_adjusted < 0.001, round(found.distance, 2), found.mix > abs(found.within)
    (True, 0.4, True)
    """
    name, options = resolve_method(None, None, proportions)
    pair = to_pair("drivers", source, target, calibration, seed, labels, labels_chosen)
    columns = [_Column.of(*given, pair) for given in _pairs_of_values(by)]
    cases = scenarios(pair, name, options, level)
    answer = cases.answer
    assert answer.error is not None
    tests = [column.test(pair) for column in columns]
    found = [
        column.driver(pair, cases, float(answer.error), *test, adjusted)
        for column, test, adjusted in zip(columns, tests, _adjusted([p for _, p in tests]), strict=True)
    ]
    order = sorted(found, key=lambda driver: -driver.distance)
    return Drivers(
        pair.source_sample.error, float(answer.error), answer.range, tuple(order), level, answer.warnings
    )


def _pairs_of_values(by: Any) -> list[tuple[str, Any, Any]]:
    """Column, source values and target values of each entry."""
    wanted = "wanted {column: (source values, target values)}"
    if not isinstance(by, Mapping) or not by:
        raise InputError(f"by: arrived as {type(by).__name__}; {wanted}")
    for name, values in by.items():
        if not isinstance(values, tuple | list) or len(values) != 2:
            raise InputError(f"by {name}: arrived as {type(values).__name__}; {wanted}")
    return [(str(name), *values) for name, values in by.items()]


def _adjusted(p_values: Sequence[float]) -> list[float]:
    """p-values for all columns at once, by Benjamini and Hochberg."""
    from scipy.stats import false_discovery_control

    return [float(p) for p in false_discovery_control(p_values)]


@dataclass(frozen=True, eq=False)
class _Column:
    """A column of both sides, cut into slices.

    Attributes:
        name, kind: of the column.
        names: of its slices.
        source, target: (n,) the slice of each row.
        values: the numbers of both sides, NaN where missing; None of categories.
        counts: missing, new and outside values, by their field in `Driver`.
    """

    name: str
    kind: str
    names: list[str]
    source: Indices
    target: Indices
    values: tuple[Array, Array] | None
    counts: dict[str, int]

    @staticmethod
    def of(name: str, source: Any, target: Any, pair: Pair) -> _Column:
        """Cut the values of a column."""
        here = one_per_row(source, pair.source.n, f"by {name}, source")
        there = one_per_row(target, pair.target.n, f"by {name}, target")
        numbers = _numbers(here), _numbers(there)
        if numbers[0] is not None and numbers[1] is not None:
            finite = numbers[0][np.isfinite(numbers[0])]
            if len(np.unique(finite)) > FEW_VALUES and not np.isnan(numbers[1]).all():
                return _binned(name, numbers[0], numbers[1], finite)
        return _categories(name, as_texts(here), as_texts(there))

    def test(self, pair: Pair) -> tuple[float, float]:
        """The distance between source and target, and the p-value of its test; weights count by effective rows."""
        if self.values is not None:
            masses = pair.source_block.mass, pair.target_block.mass
            return weighted_ks(self.values[0], masses[0], self.values[1], masses[1])
        p, q = self.shares(pair)
        table = np.array([p * pair.source.n_effective, q * pair.target.n_effective])[:, p + q > 0.0]
        if table.shape[1] < 2:
            return 0.0, 1.0
        from scipy.stats import chi2_contingency

        return float(np.abs(p - q).sum() / 2.0), float(chi2_contingency(table, correction=False)[1])

    def shares(self, pair: Pair) -> tuple[Array, Array]:
        """(G,) each: the shares of the slices by weight, on source and target."""
        count = len(self.names)
        p = np.bincount(self.source, pair.source_block.mass, count)
        q = np.bincount(self.target, pair.target_block.mass, count)
        return p / p.sum(), q / q.sum()

    def driver(
        self, pair: Pair, cases: Scenarios, error: float, distance: float, p_value: float, p_adjusted: float
    ) -> Driver:
        """The column with its split."""
        grouping = Grouping(self.names, lambda block: self.target[block.numbers])
        sums = grouping.sums(pair.target, cases)
        split = _Split.of(self, pair, sums, error)
        missed, _ = missed_on_source(pair.source_block, np.array(self.names)[self.source], self.names)
        (mix, mix_range), (within, within_range) = (
            split.part(coefficients, constant, pair, cases, sums, missed)
            for coefficients, constant in ((split.a, split.mix_constant), (split.b, split.within_constant))
        )
        return Driver(
            self.name, self.kind, distance, p_value, p_adjusted,
            mix, within, mix_range, within_range, split.slices(self.names), **self.counts,
        )  # fmt: skip


def _numbers(values: npt.NDArray[Any]) -> Array | None:
    """(n,) the values as numbers, NaN where missing; None if some are not numbers, or are codes such as 01."""
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    if values.dtype == bool:
        return None
    read: dict[str, float] = {MISSING: np.nan}
    texts = as_texts(values)
    for text in np.unique(texts).tolist():
        if text in ("True", "False") or re.fullmatch(r"[-+]?0\d+", text):
            return None
        try:
            read[text] = read.get(text) or float(text)
        except ValueError:
            return None
    return np.array([read[text] for text in texts.tolist()])


def _binned(name: str, source: Array, target: Array, finite: Array) -> _Column:
    """Numbers, cut at quantiles of the source; missing ones last."""
    edges = np.unique(np.quantile(finite, np.arange(1, BINS) / BINS))
    first, last = f"below {edges[0]:g}", f"{edges[-1]:g} or more"
    names = [first, *(f"{a:g} to {b:g}" for a, b in itertools.pairwise(edges.tolist())), last, MISSING]
    numbers = [
        np.where(np.isnan(one), len(names) - 1, np.searchsorted(edges, one, side="right"))
        for one in (source, target)
    ]
    counts = {
        "missing_source": int(np.isnan(source).sum()),
        "missing_target": int(np.isnan(target).sum()),
        "outside": int(((target < finite.min()) | (target > finite.max())).sum()),
    }
    return _Column(name, NUMBERS, names, numbers[0], numbers[1], (source, target), counts)


def _categories(name: str, source: npt.NDArray[np.str_], target: npt.NDArray[np.str_]) -> _Column:
    """Categories; rare ones are one slice."""
    both = np.concatenate([source, target])
    values, number, rows = np.unique(both, return_inverse=True, return_counts=True)
    refuse_tiny_slices({name: None}, len(values), len(both))
    ranked = np.argsort(-rows, kind="stable")
    rare = np.zeros(len(values), dtype=bool)
    rare[ranked[MOST_CATEGORIES:]] = True
    rare |= rows < FEWEST_EACH
    rare &= values != MISSING
    if rare.sum() < 2:
        rare[:] = False
    titles = np.where(rare, OTHER, values)
    order = sorted(set(titles.tolist()), key=lambda title: (title == MISSING, title == OTHER, title))
    place = np.array([order.index(title) for title in titles.tolist()], dtype=np.intp)[number.reshape(-1)]
    counts = {
        "missing_source": int((source == MISSING).sum()),
        "missing_target": int((target == MISSING).sum()),
        "new": int((~np.isin(target, np.append(source, MISSING))).sum()),
    }
    return _Column(name, CATEGORIES, order, place[: len(source)], place[len(source) :], None, counts)


def weighted_ks(a: Array, a_mass: Array, b: Array, b_mass: Array) -> tuple[float, float]:
    """The Kolmogorov-Smirnov distance of two weighted samples, and its asymptotic p-value; NaN is left out.

    Weights count by effective rows, (sum w)^2 / sum w^2. Without weights it is `scipy.stats.ks_2samp`.

    >>> weighted_ks(np.array([1.0, 2.0]), np.ones(2), np.array([2.0, np.nan]), np.ones(2))[0]
    0.5
    """
    from scipy.stats import kstwo

    sides, sizes = [], []
    grid = np.unique(np.concatenate([a[~np.isnan(a)], b[~np.isnan(b)]]))
    for values, mass in ((a, a_mass), (b, b_mass)):
        here = ~np.isnan(values)
        w = mass[here]
        total = np.bincount(np.searchsorted(grid, values[here]), w, len(grid))
        sides.append(np.cumsum(total) / w.sum())
        sizes.append(float(w.sum() ** 2 / (w**2).sum()))
    distance = float(np.abs(sides[0] - sides[1]).max())
    n = sizes[0] * sizes[1] / (sizes[0] + sizes[1])
    return distance, float(np.clip(kstwo.sf(distance, max(1.0, round(n))), 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class _Split:
    """Kitagawa's split of one column: mix = mix_constant + a @ t, within = within_constant + b @ t.

    Attributes:
        p, q: (G,) shares on source and target.
        s, t: (G,) errors on the source, and on the target, scaled to the estimate; 0 where a side lacks the slice.
        a, b: (G,) the coefficients of t; they sum to q.
    """

    p: Array
    q: Array
    s: Array
    t: Array
    a: Array
    b: Array

    @staticmethod
    def of(column: _Column, pair: Pair, sums: SliceSums, error: float) -> _Split:
        """The split at the answer itself."""
        p, q = column.shares(pair)
        block = pair.source_block
        wrong = np.bincount(column.source, block.mass * (block.predictions != block.labels), len(p))
        s = ratio(wrong, p * block.mass.sum())
        whole = float(q @ sums.errors[0])
        t = sums.errors[0] * (error / whole if whole > 0.0 else 1.0)
        both = (p > 0.0) & (q > 0.0)
        a = np.where(both, (q - p) / 2.0, q)
        b = np.where(both, (p + q) / 2.0, 0.0)
        return _Split(p, q, s, t, a, b)

    @property
    def mix_constant(self) -> float:
        """The part of the mix that does not depend on the target's errors."""
        return float(
            ((self.q - self.p) / 2.0 * self.s)[self.b > 0.0].sum() - (self.p * self.s)[self.q == 0.0].sum()
        )

    @property
    def within_constant(self) -> float:
        """The part within slices that does not depend on the target's errors."""
        return float(-self.b @ self.s)

    def slices(self, names: Sequence[str]) -> tuple[DriverSlice, ...]:
        """The slices that a side has, with their terms."""
        out = []
        for g in np.flatnonzero(self.p + self.q > 0.0).tolist():
            p, q, s, t = (float(one[g]) for one in (self.p, self.q, self.s, self.t))
            here, there = p > 0.0, q > 0.0
            mix = (q - p) * (s + t) / (2.0 if here and there else 1.0)
            within = (p + q) / 2.0 * (t - s) if here and there else 0.0
            out.append(DriverSlice(names[g], p, q, s if here else None, t if there else None, mix, within))
        return tuple(out)

    def part(
        self,
        coefficients: Array,
        constant: float,
        pair: Pair,
        cases: Scenarios,
        sums: SliceSums,
        missed: tuple[Array, Array],
    ) -> tuple[float, Range | None]:
        """One part of the rise, and its range: by the scenarios of the slices, and by what the scores missed of each
        slice on the source.
        """
        centre = constant + float(coefficients @ self.t)
        low, high = (constant + float(sign(coefficients, 0.0).sum()) for sign in (np.minimum, np.maximum))
        known = float(self.q @ sums.label_counts.fraction)
        unknown = 1.0 - sums.label_counts.fraction
        off = float(coefficients @ (missed[0] * unknown))
        noise = np.where(self.q > 0.0, np.hypot(slice_noise(pair, sums), missed[1] * unknown), 0.0)
        none = np.zeros(1)
        _, (ends,) = cases.ranges(
            "slice",
            (constant + sums.errors @ coefficients)[:, None],
            np.array([float(np.linalg.norm(coefficients * noise))]),
            np.array([pair.target.n_effective]),
            LabelCounts(none, none, none, np.array([known]), none),
            bounds=(low, high),
            centre=np.array([centre]),
        )
        if ends is not None:
            wider = (max(low, ends.low + min(off, 0.0)), min(high, ends.high + max(off, 0.0)))
            ends = Range(ends.level, *wider, f"{ends.kind}, {SEEN}")
        return centre, ends
