"""Error per slice of the target: with ranges by `auto`, with bootstrap intervals by a method that is named."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.binomial import joint_rows, widened
from shiftgauge.errors import InputError
from shiftgauge.inference.columns import names_in_order, slice_numbers
from shiftgauge.inference.pairs import SourceOrPair, to_pair
from shiftgauge.inference.resampling import FEWEST, REPLICATES, Replicates, Resampling
from shiftgauge.inference.scenarios import FEW as SMALL
from shiftgauge.inference.scenarios import KIND as MEASURED
from shiftgauge.inference.scenarios import TOO_FEW as FEW
from shiftgauge.inference.scenarios import LabelCounts, Scenarios, binomial_noise, ratio, scenarios
from shiftgauge.labelshift import Marginal
from shiftgauge.methods.pair import Pair, resolve_method
from shiftgauge.methods.posterior import mean_posterior, recalibrate_to
from shiftgauge.methods.range import RANGE_LEVEL
from shiftgauge.results import Interval, Range, Table, percent, render
from shiftgauge.rows import AnyTarget, Block, RowBuffer, Rows, Totals, run
from shiftgauge.validation.target_labels import RANDOM

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: What no interval of a slice can cover, since nothing in the scores shows it.
_UNSEEN = "not what the scores themselves miss within a slice"
#: What they cover besides if the slices of the source are known.
SEEN = "and what the scores missed of each slice on the source"
#: What the intervals of a method that is named cover.
SAMPLING = f"simultaneous, sampling error only; {_UNSEEN}"
#: More slices than the first are refused where they hold fewer rows than the second, on average.
MANY, FEWEST_EACH = 30, 10
#: More different values than this are not slices.
MOST_SLICES = 100_000
NOTE = (
    "the label shares constrain the whole target, not each slice; where the ranges of two slices overlap, neither is "
    "known to be worse"
)


@dataclass(frozen=True)
class Slice:
    """One slice.

    Attributes:
        name: its value, or its values by column; `(missing)` if there is none.
        rows: how many target rows it has.
        share: its share of the target's mass.
        error: its estimated error.
        range: of `auto`, for this slice alone; of a method that is named, for all slices at once and sampling error
            only. None if the slice has too few rows.
        small: fewer than 50 rows.
        few: fewer than 5 effective rows (or 10 source rows), too few for a range.
    """

    name: str
    rows: int
    share: float
    error: float
    range: Interval | None
    small: bool
    few: bool = False

    @property
    def low(self) -> float:
        """The range's lower end; 0 without a range."""
        return 0.0 if self.range is None else self.range.low

    @property
    def high(self) -> float:
        """The range's upper end; 1 without a range."""
        return 1.0 if self.range is None else self.range.high

    def to_dict(self) -> dict[str, Any]:
        """The slice as plain values."""
        ends = None if self.range is None else self.range.to_dict()
        return {**vars(self), "range": ends, "low": self.low, "high": self.high}

    @property
    def note(self) -> str:
        """A remark about its size, if it needs one."""
        return "too few rows" if self.few else "small" if self.small else ""


@dataclass(frozen=True, repr=False)
class Slices(Table):
    """Every slice of one target.

    Attributes:
        error: the method's error of the whole; the slices' errors average to it by their shares.
        slices: in order of their names; numbers in order of size, missing ones last.
        level: of the ranges.
        kind: what the ranges cover.
        note: what the reader must know.
        warnings: what the method warns of on this source and target.
    """

    error: float
    slices: tuple[Slice, ...]
    level: float
    kind: str = SAMPLING
    note: str = NOTE
    warnings: tuple[str, ...] = ()

    def content(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "error": self.error,
            "slices": [s.to_dict() for s in self.slices],
            "level": self.level,
            "kind": self.kind,
            "note": self.note,
        }

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per slice; without a range its ends are None."""
        return [
            {
                "slice": s.name,
                "rows": s.rows,
                "share": s.share,
                "error": s.error,
                "low": None if s.range is None else s.range.low,
                "high": None if s.range is None else s.range.high,
                "note": s.note,
            }
            for s in self.slices
        ]

    def heading(self) -> str:
        """The error of the whole, and how many slices there are."""
        return f"error {percent(self.error)}; {len(self.slices)} slices"

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """One row per slice."""
        rows = [
            (s.name, percent(s.error), percent(s.low), percent(s.high), f"{s.rows:,}", s.note)
            for s in self.slices
        ]
        return ("slice", "error", "from", "to", "rows", "note"), rows

    def __repr__(self) -> str:
        lines = [
            f"  {s.name:<20} {percent(s.error):>6} {s.range or '[no range]'}  {s.rows} rows{s.note and f'  ({s.note})'}"
            for s in self.slices
        ]
        return render([self.heading(), *lines], (*self.warnings, self.note))


def slices(
    source: SourceOrPair,
    target: AnyTarget | None = None,
    by: Any = None,
    method: str | None = None,
    *,
    calibration: str = "temperature",
    marginal: Marginal | None = None,
    proportions: str = "unknown",
    labels: Any = None,
    labels_chosen: Any = RANDOM,
    level: float = RANGE_LEVEL,
    replicates: int = REPLICATES,
    seed: int = 0,
    groups: Any = None,
    source_groups: Any = None,
    source_by: Any = None,
) -> Slices:
    """Estimate the error of each slice of the target from the posterior behind a method's answer.

    The error of a slice is the mean of 1 - r_{i, y^_i} over its rows. By default (`auto`) each slice has a range as the
    whole has (`shiftgauge.inference.scenarios`). A method that is named has simultaneous bootstrap intervals of the
    sampling error (max-t): with s_g the bootstrap deviation of slice g and t* the `level` quantile over replicates of
    max_g |e*_g - e_g| / s_g, slice g gets e_g -+ t* s_g. Those do not cover scores that are off in one slice and not in
    another (docs/explanation/metrics.md). With `source_by` that is measured: b, the mean of (wrong - error probability)
    over a slice's source rows, extends the range on the side of its sign, and its standard error is combined with the
    sampling error in quadrature. A slice of fewer than 5 effective rows has no range.

    Args:
        source: scores with labels; or a `Pair`, and no target.
        target: scores without.
        by: (n_target,) the slice of each row, or a mapping from column names to such arrays: slices are then
            the combinations that occur. Missing values (None, NaN, empty texts) are a slice too. A column of
            all but different values is refused. Of rows that are read in passes also the name of one of their
            columns, or several names.
        method: whose posterior; by default `auto`'s, or SCOT's if a marginal is given.
        calibration: as for every method.
        marginal: the target's label shares, for the methods that transport to some.
        proportions: for `auto`: what is known of the target's class proportions, as in `shiftgauge.estimate`.
        labels, labels_chosen: labels of some target rows, as in `shiftgauge.estimate`; those of a slice update its
            error.
        level: of the ranges.
        replicates, seed: of the bootstrap intervals of a method that is named.
        groups, source_groups: (n,) the group of each row, if rows come in correlated groups that the bootstrap of a
            method that is named draws together; see `shiftgauge.interval`.
        source_by: as `by`, of the source's rows: the same columns, so that a slice is known by its value.

    >>> import numpy as np, shiftgauge as sg
    >>> rng = np.random.default_rng(0); z = rng.normal(size=(600, 3)) * 2
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(1)
    >>> found = slices(sg.Source(logits=z[:300], labels=y[:300]), sg.Target(logits=z[300:]), ["a", "b"] * 150)
    >>> [s.name for s in found.slices]
    ['a', 'b']
    """
    settings = Resampling(replicates, level, seed, groups, source_groups)
    name, options = resolve_method(method, marginal, proportions)
    pair = to_pair("slices", source, target, calibration, labels=labels, labels_chosen=labels_chosen)
    cut = Grouping.of(pair.target, by)
    refuse_tiny_slices(by, len(cut.names), pair.target.n)
    pair.estimate_all([(name, options)], shift=True)
    cases = scenarios(pair, name, options, level)
    warnings = list(cases.answer.warnings)
    missed = None
    if source_by is not None:
        missed, unknown = missed_on_source(pair.source_block, source_by, cut.names)
        if unknown:
            warnings.append(f"slices without {FEWEST} source rows, {_UNSEEN}: {', '.join(unknown[:5])}")
    if cases.measured:
        if groups is not None or source_groups is not None:
            warnings.append(
                "groups count in the intervals of a method that is named, not in the ranges of auto"
            )
        sums, kind = cut.sums(pair.target, cases), MEASURED if missed is None else f"{MEASURED}, {SEEN}"
        errors, ranges = _ranges(pair, cases, sums, missed)
    else:
        replicated = Replicates(pair, settings)
        sums = cut.sums(pair.target, cases, replicated.target.block)
        drawn = _draw(replicated, pair.parts(name, **options), sums.drawn, len(cut.names))
        kind = SAMPLING if missed is None else f"simultaneous, sampling error, {SEEN}"
        errors, ranges = _intervals(pair, sums, drawn, missed, level, kind)
    few = ~sums.enough & (sums.label_counts.fraction < 1.0)
    if pair.source.n < FEWEST:
        few = sums.label_counts.fraction < 1.0
        warnings.append(
            f"no ranges: {pair.source.n} source rows cannot show how far chance goes; wanted at least {FEWEST}"
        )
    if (sums.mass == 0.0).any():
        without = ", ".join(cut.names[g] for g in np.flatnonzero(sums.mass == 0.0)[:5])
        warnings.append(f"slices whose rows all weigh 0 are left out: {without}")
    parts = _slices(cut.names, sums, errors, ranges, few)
    whole = float(cases.answer.error if cases.measured else sums.mass @ errors)  # type: ignore[arg-type]
    return Slices(whole, parts, level, kind=kind, warnings=tuple(warnings))


def _slices(
    names: Sequence[str],
    sums: SliceSums,
    errors: Array,
    ranges: Sequence[Interval | None],
    few: npt.NDArray[np.bool_],
) -> tuple[Slice, ...]:
    return tuple(
        Slice(
            name=names[g],
            rows=int(sums.rows[g]),
            share=float(sums.mass[g]),
            error=float(errors[g]),
            range=None if few[g] else ranges[g],
            small=bool(sums.rows[g] < SMALL),
            few=bool(few[g]),
        )
        for g in np.flatnonzero(sums.mass > 0.0).tolist()
    )


def slice_noise(pair: Pair, sums: SliceSums) -> Array:
    """(G,) the sampling error and label noise of each slice's error."""
    return binomial_noise(sums.errors[0], sums.effective, pair.source.n_effective, sums.label_counts.fraction)


def _ranges(
    pair: Pair, cases: Scenarios, sums: SliceSums, missed: tuple[Array, Array] | None
) -> tuple[Array, Sequence[Interval | None]]:
    """(G,) the errors of the slices by `auto`, and their ranges."""
    noise = slice_noise(pair, sums)
    if missed is not None:
        noise = np.hypot(noise, missed[1])
    errors, found = cases.ranges("slice", sums.errors, noise, sums.effective, sums.label_counts)
    if missed is None:
        return errors, found
    off = missed[0].tolist()
    ends = [
        r
        and Range(r.level, max(0.0, r.low + min(b, 0.0)), min(1.0, r.high + max(b, 0.0)), f"{r.kind}, {SEEN}")
        for r, b in zip(found, off, strict=True)
    ]
    return errors, ends


def _intervals(
    pair: Pair, sums: SliceSums, drawn: Array, missed: tuple[Array, Array] | None, level: float, kind: str
) -> tuple[Array, Sequence[Interval | None]]:
    """(G,) the errors of the slices, and simultaneous intervals of their sampling error, from (1 + B, G) replicates."""
    count = len(sums.mass)
    low = high = errors = np.clip(sums.errors[0], 0.0, 1.0)
    enough = np.flatnonzero(sums.enough)
    half_width = np.full(count, np.inf)
    half_width[enough] = max_t(drawn[1:, enough], drawn[0, enough], level)
    z = NormalDist().inv_cdf(1.0 - (1.0 - level) / (2.0 * count))
    if missed is not None:
        low, high = low + np.minimum(missed[0], 0.0), high + np.maximum(missed[0], 0.0)
        half_width = np.hypot(half_width, z * missed[1])
    low, high = np.maximum(0.0, low - half_width), np.minimum(1.0, high + half_width)
    out = []
    for g in range(count):
        in_slice = joint_rows(pair.source.n_effective, max(float(sums.effective[g]), 1e-9))
        out.append(Interval(level, *widened(float(low[g]), float(high[g]), in_slice, z), kind))
    return errors, out


@dataclass(frozen=True)
class SliceSums:
    """Of each slice: its share of the mass, its rows, its effective rows, its errors.

    Attributes:
        mass, rows, effective: (G,) each.
        errors: (S, G) in each scenario; 0 without mass.
        label_counts: the labelled rows of each slice.
        drawn: (b,) the slice of each row that is resampled.
    """

    mass: Array
    rows: Indices
    effective: Array
    errors: Array
    label_counts: LabelCounts
    drawn: Indices

    @property
    def enough(self) -> npt.NDArray[np.bool_]:
        """(G,) whether each slice has rows enough for a range."""
        return np.asarray(self.effective >= FEW * (1.0 - 1e-9))


@dataclass(frozen=True)
class Grouping:
    """A target cut into slices.

    Attributes:
        names: of the slices, in order.
        number: gives (b,) the number of the slice of each row of a block.
        columns: the columns that it reads.
    """

    names: list[str]
    number: Callable[[Block], Indices]
    columns: tuple[str, ...] = ()

    @staticmethod
    def of(target: Rows, by: Any) -> Grouping:
        """Group a target by (n,) values, by several columns of them, or by the names of its own columns."""
        columns = _column_names(target, by)
        if not columns:
            names, number = slice_numbers(by, target.n)
            return Grouping(names, lambda block: number[block.numbers])
        distinct = list(run(target.fold(_distinct_names, columns, columns=columns)))
        names = [distinct[i] for i in names_in_order(distinct)]
        place = {name: i for i, name in enumerate(names)}

        def number_of(block: Block) -> Indices:
            here, numbers = slice_numbers(_column_values(block, columns), len(block))
            return np.array([place[name] for name in here], dtype=np.intp)[numbers]

        return Grouping(names, number_of, columns)

    def sums(self, target: Rows, cases: Scenarios, drawn: Block | None = None) -> SliceSums:
        """What each slice has, in one pass; `drawn` are the rows that are resampled, in the order of the target."""
        rows_drawn = np.empty(0, np.intp) if drawn is None else drawn.numbers
        count = len(self.names)

        def step(block: Block) -> Totals:
            number, w = self.number(block), block.mass
            wrong = [w * block.error_probability(posterior(block)) for posterior in cases.posteriors]
            sums = np.array([np.bincount(number, v, count) for v in (np.ones(len(block)), w, w**2, *wrong)])
            first, last = np.searchsorted(rows_drawn, [block.start, block.start + len(block)])
            resampled = RowBuffer.of(number[rows_drawn[first:last] - block.start])
            return Totals((sums, cases.labelled_rows(block, number), resampled))

        (rows, mass, squares, *wrong), labelled, buffer = run(target.fold(step, columns=self.columns))
        errors = np.array([ratio(one, mass) for one in wrong])
        effective = ratio(mass**2, squares)
        predictions, classes, row_mass, number = labelled.joined()
        mine, mine2, hits = (
            np.asarray(np.bincount(number, weights=w, minlength=count), dtype=np.float64)
            for w in (row_mass, row_mass**2, row_mass * (predictions != classes))
        )
        shared = mine / max(float(row_mass.sum()), 1e-300)
        label_counts = LabelCounts(mine, mine2, hits, np.minimum(1.0, ratio(mine, mass)), shared)
        return SliceSums(
            mass / mass.sum(), rows.astype(np.intp), effective, errors, label_counts, buffer.joined()[0]
        )


class _Names(dict[str, None]):
    """Different names, which add up."""

    def __add__(self, other: _Names) -> _Names:
        self.update(other)
        if len(self) > MOST_SLICES:
            raise InputError(
                f"by: more than {MOST_SLICES:,} different values; wanted slices; bin times (--by COLUMN:1d), "
                "or take a coarser column"
            )
        return self


def _distinct_names(block: Block, columns: tuple[str, ...]) -> _Names:
    return _Names.fromkeys(slice_numbers(_column_values(block, columns), len(block))[0])  # type: ignore[return-value]


def _column_values(block: Block, columns: tuple[str, ...]) -> Any:
    values = {name: block.columns[name] for name in columns}
    return values if len(columns) > 1 else values[columns[0]]


def _column_names(target: Rows, by: Any) -> tuple[str, ...]:
    """The target's columns that `by` names; none if it holds values."""
    if by is None:
        raise InputError("by: nothing arrived; wanted one value per target row, or the name of a column")
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names):
        return ()
    if not isinstance(by, str) and (target.in_memory or len(names) == target.n):
        return ()
    if target.in_memory:
        raise InputError(
            f"by: arrived as the text {by!r}, and the target has no columns beside its scores; "
            f"wanted one value per target row, ({target.n},)"
        )
    return names


def by_slice(block: Block, error_probability: Array, number: Indices, count: int) -> Array:
    """(G,) the mean error probability of each slice's rows; NaN if it has no mass."""
    share = np.bincount(number, weights=block.mass, minlength=count)
    wrong = np.bincount(number, weights=block.mass * error_probability, minlength=count)
    return ratio(wrong, share, otherwise=np.nan)


def missed_on_source(source: Block, by: Any, names: Sequence[str]) -> tuple[tuple[Array, Array], list[str]]:
    """(G,) how far the scores were off within each slice of the source, with its standard error;
    and the slices that are not in the source.
    """
    own, number = slice_numbers(by, len(source), "source_by", "source row")
    missed = (source.predictions != source.labels) - source.error_probability(source.probs)
    off, chance, unknown = np.zeros(len(names)), np.zeros(len(names)), []
    for g, name in enumerate(names):
        rows = np.flatnonzero(number == own.index(name)) if name in own else np.empty(0, np.intp)
        mass = source.mass[rows]
        if len(rows) < FEWEST or not mass.any():
            unknown.append(name)
            continue
        share = mass / mass.sum()
        off[g] = share @ missed[rows]
        # One row more, wrong or right, so that a slice without a mistake does not promise none.
        spread = float(share @ (missed[rows] - off[g]) ** 2) + 1.0 / len(rows)
        chance[g] = math.sqrt(spread * float(share @ share))
    return (off, chance), unknown


def refuse_tiny_slices(by: Any, slices: int, n: int) -> None:
    """Refuse values of which almost every row has its own, such as times to the second."""
    if slices <= MANY or n >= FEWEST_EACH * slices:
        return
    what = f"by {', '.join(map(str, by))}" if isinstance(by, Mapping) else "by"
    raise InputError(
        f"{what}: {slices:,} different values in {n:,} rows; wanted {FEWEST_EACH} rows or more per slice on average; "
        "bin times (--by COLUMN:1d, or hour, week, month), or take a coarser column"
    )


def _draw(replicates: Replicates, parts: Sequence[tuple[float, Any]], number: Indices, count: int) -> Array:
    """(1 + B, G) the error of every slice: of the samples, then of each replicate; NaN if it has no mass."""

    def read(source: Rows, target: Rows) -> Array:
        fitted = [(weight, type(part)(**part.get_params()).fit_rows(source)) for weight, part in parts]
        error = sum(weight * float(part.estimate_rows(target).error or 0.0) for weight, part in fitted)
        posterior = run(recalibrate_to(error, run(mean_posterior(fitted, target)), target))
        block = run(target.collect())
        return by_slice(block, block.error_probability(posterior(block)), number, count)

    return np.array(replicates.map(read))


def max_t(drawn: Array, centre: Array, level: float) -> Array:
    """(G,) half-widths t* s_g; a slice that a replicate did not draw does not count in it."""
    if not len(centre):
        return centre
    spread = np.maximum(np.nanstd(drawn, axis=0, ddof=1), 1e-12)
    t = np.nan_to_num(np.abs(drawn - centre) / spread).max(axis=1)
    return np.asarray(np.quantile(t, level) * spread)
