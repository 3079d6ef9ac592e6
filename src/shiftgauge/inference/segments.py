"""Error per slice of the target, with intervals that hold for all slices at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.binomial import joint_rows, widened
from shiftgauge.errors import InputError
from shiftgauge.inference.columns import as_texts
from shiftgauge.inference.estimates import estimate
from shiftgauge.inference.pairs import SourceOrPair, to_pair
from shiftgauge.inference.resampling import FEWEST, REPLICATES, Replicates, Resampling
from shiftgauge.labelshift import Marginal
from shiftgauge.methods.pair import resolve_method
from shiftgauge.methods.posterior import Posterior, mean_posterior, recalibrate_to, row_posterior
from shiftgauge.methods.registry import DEFAULT
from shiftgauge.results import Interval, Result, percent, render
from shiftgauge.rows import Block, RowBuffer, Rows, Totals, run
from shiftgauge.samples import Target
from shiftgauge.validation.labels import MISSING

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Slices of fewer rows are flagged; of fewer effective rows, resampling shows nothing.
SMALL, FEW = 50, 5.0
#: What no interval of a slice can cover, since nothing in the scores shows it.
_UNSEEN = "not what the scores themselves miss within a slice"
#: What they cover besides if the slices of the source are known.
SEEN = "and what the scores missed of each slice on the source"
#: What the intervals cover, if a method was named and if `auto` chose.
SAMPLING = f"simultaneous, sampling error only; {_UNSEEN}"
BOTH = f"simultaneous, sampling error and disagreement of methods; {_UNSEEN}"
#: More slices than the first are refused where they hold fewer rows than the second, on average.
MANY, FEWEST_EACH = 30, 10
#: More different values than this are not slices.
MOST_SLICES = 100_000
#: Other methods that `auto`'s intervals include; their posteriors fail differently.
OTHERS: tuple[tuple[str, dict[str, str]], ...] = (
    ("doc", {}),
    ("scot", {"marginal": "shrunk"}),
    ("label-shift", {}),
)
NOTE = "the label shares constrain the whole target, not each slice"


@dataclass(frozen=True)
class Slice:
    """One slice.

    Attributes:
        name: its value, or its values by column; `(missing)` if there is none.
        rows: how many target rows it has.
        share: its share of the target's mass.
        error: its estimated error.
        interval: for all slices at once.
        small: fewer than 50 rows.
        few: fewer than 5 effective rows (or 10 source rows), too few to resample: the interval is [0, 1].
    """

    name: str
    rows: int
    share: float
    error: float
    interval: Interval
    small: bool
    few: bool = False

    @property
    def low(self) -> float:
        """The interval's lower end."""
        return self.interval.low

    @property
    def high(self) -> float:
        """The interval's upper end."""
        return self.interval.high

    def to_dict(self) -> dict[str, Any]:
        """The slice as plain values."""
        return {**vars(self), "interval": self.interval.to_dict(), "low": self.low, "high": self.high}

    @property
    def note(self) -> str:
        """A remark about its size, if it needs one."""
        return "too few rows for an interval" if self.few else "small" if self.small else ""


@dataclass(frozen=True, repr=False)
class Slices(Result):
    """Every slice of one target.

    Attributes:
        error: the method's error of the whole; the slices' errors average to it by their shares.
        slices: in order of their names; numbers in order of size, missing ones last.
        level: the intervals' simultaneous level.
        kind: what the intervals cover.
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
            "warnings": list(self.warnings),
        }

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
            f"  {s.name:<20} {percent(s.error):>6} {s.interval}  {s.rows} rows{s.note and f'  ({s.note})'}"
            for s in self.slices
        ]
        return render([self.heading(), *lines], (*self.warnings, self.note))


def slices(
    source: SourceOrPair,
    target: Target | Rows | None = None,
    by: Any = None,
    method: str | None = None,
    *,
    calibration: str = "temperature",
    marginal: Marginal | None = None,
    proportions: str = "unknown",
    level: float = 0.95,
    replicates: int = REPLICATES,
    seed: int = 0,
    groups: Any = None,
    source_groups: Any = None,
    source_by: Any = None,
) -> Slices:
    """Estimate the error of each slice of the target from the posterior behind a method's answer.

    The error of a slice is the mean of 1 - r_{i, y^_i} over its rows. Intervals are simultaneous (bootstrap
    max-t): with s_g the bootstrap deviation of slice g and t* the `level` quantile over replicates of
    max_g |e*_g - e_g| / s_g, slice g gets e_g -+ t* s_g. By default (`auto`) they include what DoC, SCOT and
    label-shift estimate for the slice: sampling error shrinks with rows, the error of a posterior does not. What
    every method misses alike is not in them: where scores are off in one slice and not in another, truth lies
    outside, the more surely the more rows there are (docs/trusting.md). With `source_by` that is measured: b, the
    mean of (wrong - error probability) over a slice's source rows, and its standard error s. The interval is then
    extended by b on the side of its sign, and z s (Bonferroni over the slices) is combined with t* s_g in quadrature,
    as independent errors are. A slice of fewer than 5 effective rows gets [0, 1]: one row resampled is the same row.

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
        level, replicates, seed: of the intervals.
        groups, source_groups: (n,) the group of each row, if rows come in correlated groups that are
            resampled together; see `shiftgauge.interval`.
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
    pair = to_pair("slices", source, target, calibration)
    cut = Grouping.of(pair.target, by)
    names, count = cut.names, len(cut.names)
    _refuse_tiny_slices(by, count, pair.target.n)
    asked = [(name, options), *(OTHERS if name == DEFAULT else ())]
    pair.estimate_all(asked, shift=True)
    warnings = list(estimate(pair, method=name, **options).warnings)
    replicated = Replicates(pair, settings)
    sums = cut.sums(
        pair.target, [pair.posterior(other, **own) for other, own in asked], replicated.target.block
    )
    mass, squares, errors = sums.mass, sums.squares, sums.errors
    drawn = _draw(replicated, pair.parts(name, **options), sums.drawn, count)
    with_mass = np.flatnonzero(mass > 0.0)
    if len(with_mass) < count:
        without = ", ".join(names[g] for g in np.flatnonzero(mass == 0.0)[:5])
        warnings.append(f"slices whose rows all weigh 0 are left out: {without}")
    enough = with_mass[mass[with_mass] ** 2 >= FEW * squares[with_mass] * (1.0 - 1e-9)]
    errors = np.where(mass > 0.0, errors, 0.0)
    centre = np.clip(errors[0], 0.0, 1.0)
    if pair.source.n < FEWEST:
        enough = enough[:0]
        warnings.append(
            f"no intervals: {pair.source.n} source rows cannot show how far chance goes; wanted at least {FEWEST}"
        )
    half_width = np.full(count, np.inf)
    half_width[enough] = max_t(drawn[1:, enough], drawn[0, enough], level)
    least, most = np.min([centre, *errors[1:]], axis=0), np.max([centre, *errors[1:]], axis=0)
    kind = BOTH if name == DEFAULT else SAMPLING
    if source_by is not None:
        missed, chance, unknown = _missed_on_source(pair.source_block, source_by, names, level)
        least, most = least + np.minimum(missed, 0.0), most + np.maximum(missed, 0.0)
        half_width = np.hypot(half_width, chance)
        kind = kind.replace(" only", "").replace(f"; {_UNSEEN}", f", {SEEN}")
        if unknown:
            warnings.append(f"slices without {FEWEST} source rows, {_UNSEEN}: {', '.join(unknown[:5])}")
    low, high = np.maximum(0.0, least - half_width), np.minimum(1.0, most + half_width)
    z = NormalDist().inv_cdf(1.0 - (1.0 - level) / (2.0 * count))
    for g in with_mass:
        in_slice = joint_rows(pair.source.n_effective, mass[g] ** 2 / squares[g])
        low[g], high[g] = widened(low[g], high[g], in_slice, z)
    parts = tuple(
        Slice(
            name=names[g],
            rows=int(sums.rows[g]),
            share=float(mass[g]),
            error=float(centre[g]),
            interval=Interval(settings.level, float(low[g]), float(high[g]), kind),
            small=bool(sums.rows[g] < SMALL),
            few=bool(np.isinf(half_width[g])),
        )
        for g in with_mass
    )
    return Slices(float(mass @ centre), parts, settings.level, kind=kind, warnings=tuple(warnings))


@dataclass(frozen=True)
class Sums:
    """Of each slice: its share of the mass, its rows, the sum of its rows' squared shares, its errors.

    Attributes:
        mass, rows, squares: (G,) each.
        errors: (m, G) by each of m posteriors.
        drawn: (b,) the slice of each row that is resampled.
    """

    mass: Array
    rows: Indices
    squares: Array
    errors: Array
    drawn: Indices


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
        names = [distinct[i] for i in _order(distinct)]
        place = {name: i for i, name in enumerate(names)}

        def number_of(block: Block) -> Indices:
            here, numbers = slice_numbers(_column_values(block, columns), len(block))
            return np.array([place[name] for name in here], dtype=np.intp)[numbers]

        return Grouping(names, number_of, columns)

    def sums(self, target: Rows, posteriors: Sequence[Posterior], drawn: Block) -> Sums:
        """What each slice has, in one pass; `drawn` are the rows that are resampled, in the order of the target."""
        rows_drawn, count = drawn.numbers, len(self.names)

        def step(block: Block) -> Totals:
            number, w = self.number(block), block.mass
            wrong = [w * block.error_probability(posterior(block)) for posterior in posteriors]
            sums = np.array([np.bincount(number, v, count) for v in (np.ones(len(block)), w, w**2, *wrong)])
            first, last = np.searchsorted(rows_drawn, [block.start, block.start + len(block)])
            return Totals((sums, RowBuffer.of(number[rows_drawn[first:last] - block.start])))

        (rows, mass, squares, *wrong), buffer = run(target.fold(step, columns=self.columns))
        errors = np.array([_ratio(one, mass) for one in wrong])
        total = mass.sum()
        return Sums(mass / total, rows.astype(np.intp), squares / total**2, errors, buffer.joined()[0])


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
    return _ratio(np.bincount(number, weights=block.mass * error_probability, minlength=count), share)


def _missed_on_source(
    source: Block, by: Any, names: Sequence[str], level: float
) -> tuple[Array, Array, list[str]]:
    """(G,) how far the scores were off within each slice of the source, and by how much that may be chance;
    and the slices that are not in the source.
    """
    own, number = slice_numbers(by, len(source))
    missed = (source.predictions != source.labels) - source.error_probability(source.probs)
    z = NormalDist().inv_cdf(1.0 - (1.0 - level) / (2.0 * len(names)))
    off, chance, unknown = np.zeros(len(names)), np.zeros(len(names)), []
    for g, name in enumerate(names):
        rows = np.flatnonzero(number == own.index(name)) if name in own else np.empty(0, np.intp)
        if len(rows) < FEWEST:
            unknown.append(name)
            continue
        share = source.mass[rows] / source.mass[rows].sum()
        off[g] = share @ missed[rows]
        # One row more, wrong or right, so that a slice without a mistake does not promise none.
        spread = float(share @ (missed[rows] - off[g]) ** 2) + 1.0 / len(rows)
        chance[g] = z * math.sqrt(spread * float(share @ share))
    return off, chance, unknown


def _refuse_tiny_slices(by: Any, slices: int, n: int) -> None:
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
        posteriors, error = [], 0.0
        for weight, part in parts:
            fitted = type(part)(**part.get_params()).fit_rows(source)
            posteriors.append((weight, run(row_posterior(fitted, target))))
            error += weight * float(fitted.estimate_rows(target).error or 0.0)
        posterior = run(recalibrate_to(error, mean_posterior(posteriors), target))
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


def _ratio(total: npt.NDArray[Any], share: npt.NDArray[Any]) -> Array:
    return np.asarray(np.divide(total, share, out=np.full(len(total), np.nan), where=share > 0.0))


def slice_numbers(by: Any, n: int) -> tuple[list[str], Indices]:
    """The slices' names in order, and each row's number among them."""
    columns = dict(by) if isinstance(by, Mapping) else {"": by}
    if not columns:
        raise InputError("by: no columns arrived; wanted at least one, with one value per target row")
    names, number = [""], np.zeros(n, dtype=np.intp)
    for column, values in columns.items():
        own, place = _column(values, f"by {column}".rstrip(), n)
        titles = [f"{column}={name}" for name in own] if column != "" else own
        used, number = np.unique(number * len(own) + place, return_inverse=True)
        number = np.asarray(number.reshape(-1), dtype=np.intp)
        names = [", ".join(filter(None, (names[u // len(own)], titles[u % len(own)]))) for u in used.tolist()]
    return names, number


def _column(values: Any, what: str, n: int) -> tuple[list[str], Indices]:
    """The values of one column as texts in order, and (n,) which of them each row holds."""
    array = validation.as_array(values, what)
    if array.shape != (n,):
        raise InputError(f"{what}: arrived with shape {array.shape}; wanted one value per target row, ({n},)")
    if array.dtype.kind in "mM":  # times print as they are written
        array = array.astype(str)
    names, number = np.unique(as_texts(array), return_inverse=True)
    order = _order(names.tolist())
    return names[order].tolist(), np.asarray(np.argsort(order)[number.reshape(-1)], dtype=np.intp)


def _order(names: list[str]) -> Indices:
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
