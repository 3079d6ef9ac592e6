"""Error per slice of the target, with intervals that hold for all slices at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge._proportion import joint_rows, widened
from shiftgauge.errors import InputError
from shiftgauge.inference.answers import answer
from shiftgauge.inference.bootstrap import FEWEST, REPLICATES, Replicator, Resampling
from shiftgauge.inference.posteriors.cuts import Cut, by_slice, slice_numbers
from shiftgauge.labelshift import Marginal
from shiftgauge.methods import DEFAULT
from shiftgauge.methods.pair import Pair, meant
from shiftgauge.methods.posterior import believed, tilted
from shiftgauge.methods.view import View
from shiftgauge.results import Interval, Result, percent, told
from shiftgauge.samples import Source, Target
from shiftgauge.scans import Scan

Array = npt.NDArray[np.float64]

#: Slices of fewer rows are flagged; of fewer effective rows, resampling shows nothing.
SMALL, FEW = 50, 5.0
#: What no interval of a slice can cover, since nothing in the scores shows it.
_UNSEEN = "not what the scores themselves miss within a slice"
#: What they hold besides where the slices of the source are known.
SEEN = "and what the scores missed of each slice on the source"
#: What the intervals cover, where a method was named and where `auto` chose.
SAMPLING = f"simultaneous, sampling error only; {_UNSEEN}"
BOTH = f"simultaneous, sampling error and disagreement of methods; {_UNSEEN}"
#: More slices than the first are refused where they hold fewer rows than the second, on average.
MANY, FEWEST_EACH = 30, 10
NOTE = "the label shares constrain the whole target, not each slice"


@dataclass(frozen=True)
class Slice:
    """One slice.

    Attributes:
        name: its value, or its values by column; `(missing)` where there is none.
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
        """What is to be said of its size, if anything."""
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
        return told([self.heading(), *lines], (*self.warnings, self.note))


def slices(
    source: Source | Scan,
    target: Target | Scan,
    by: Any,
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
    max_g |e*_g - e_g| / s_g, slice g gets e_g -+ t* s_g. By default (`auto`) they reach over what DoC, SCOT and
    label-shift say of the slice as well: sampling error shrinks with rows, the error of a posterior does not. What
    every method misses alike is not in them: where scores are off in one slice and not in another, truth lies
    outside, the more surely the more rows there are (docs/trust.md). With `source_by` that is measured: b, the
    mean of wrong - doubt over a slice's source rows, and its standard error s; the interval then reaches further by b
    on the side of its sign, and z s (Bonferroni over the slices) joins t* s_g on both as errors that have nothing to do
    with each other do: by the root of the sum of squares. A slice of fewer than 5 effective rows gets
    [0, 1]: one row resampled is the same row.

    Args:
        source: scores with labels.
        target: scores without.
        by: (n_target,) the slice of each row, or a mapping from column names to such arrays: slices are then
            the combinations that occur. Missing values (None, NaN, empty texts) are a slice too. A column of
            all but different values is refused. Of a scanned target: the name of a column, or several.
        method: whose posterior; by default `auto`'s, or SCOT's where a marginal is given.
        calibration: as for every method.
        marginal: the target's label shares, for the methods that transport to some.
        proportions: for `auto`: what is known of the target's class proportions, as in `shiftgauge.estimate`.
        level, replicates, seed: of the intervals.
        groups, source_groups: (n,) the group of each row, where rows come in correlated groups that are
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
    name, options = meant(method, marginal, proportions)
    pair = Pair(source, target, calibration, verb="slices")
    return sliced(pair, by, settings, name, source_by, **options)


def sliced(
    pair: Pair, by: Any, settings: Resampling, method: str, source_by: Any = None, **options: Any
) -> Slices:
    """The slices of a pair that has met already."""
    cut = Cut.of(pair, by)
    names, count = cut.names, len(cut.names)
    _refuse_dust(by, count, pair.target.n)
    warnings = list(answer(pair, method, **options).warnings)
    centre, said = cut.errors(pair, method, options)
    drawn = _drawn(pair, cut.number, count, settings, method, options)
    mass, rows, squares = cut.mass, cut.rows, cut.squares
    weighty = np.flatnonzero(mass > 0.0)
    if len(weighty) < count:
        without = ", ".join(names[g] for g in np.flatnonzero(mass == 0.0)[:5])
        warnings.append(f"slices whose rows all weigh 0 are left out: {without}")
    enough = weighty[mass[weighty] ** 2 >= FEW * squares[weighty] * (1.0 - 1e-9)]
    centre = np.clip(np.where(mass > 0.0, centre, 0.0), 0.0, 1.0)
    if pair.source.n < FEWEST:
        enough = enough[:0]
        warnings.append(
            f"no intervals: {pair.source.n} source rows cannot show how far chance goes; wanted at least {FEWEST}"
        )
    half = np.full(count, np.inf)
    half[enough] = _max_t(drawn[1:, enough], drawn[0, enough], settings.level)
    others = [np.where(np.isnan(one), centre, one) for one in said]
    least, most = np.min([centre, *others], axis=0), np.max([centre, *others], axis=0)
    kind = BOTH if method == DEFAULT else SAMPLING
    if source_by is not None:
        missed, reach, unknown = _missed_on_source(pair.source, source_by, names, settings.level)
        least, most = least + np.minimum(missed, 0.0), most + np.maximum(missed, 0.0)
        half = np.hypot(half, reach)
        kind = kind.replace(" only", "").replace(f"; {_UNSEEN}", f", {SEEN}")
        if unknown:
            warnings.append(f"slices without {FEWEST} source rows, {_UNSEEN}: {', '.join(unknown[:5])}")
    low, high = np.maximum(0.0, least - half), np.minimum(1.0, most + half)
    z = NormalDist().inv_cdf(1.0 - (1.0 - settings.level) / (2.0 * count))
    for g in weighty:
        in_slice = joint_rows(pair.source.n_effective, mass[g] ** 2 / squares[g])
        low[g], high[g] = widened(low[g], high[g], in_slice, z)
    parts = tuple(
        Slice(
            name=names[g],
            rows=int(rows[g]),
            share=float(mass[g]),
            error=float(centre[g]),
            interval=Interval(settings.level, float(low[g]), float(high[g]), kind),
            small=bool(rows[g] < SMALL),
            few=bool(np.isinf(half[g])),
        )
        for g in weighty
    )
    return Slices(float(mass @ centre), parts, settings.level, kind=kind, warnings=tuple(warnings))


def _missed_on_source(
    source: View, by: Any, names: Sequence[str], level: float
) -> tuple[Array, Array, list[str]]:
    """(G,) how far the scores were off within each slice of the source, and by how much that may be chance;
    and the slices not seen there.
    """
    own, number = slice_numbers(by, source.n)
    missed = (source.predictions != source.labels) - source.doubt(source.probs)
    z = NormalDist().inv_cdf(1.0 - (1.0 - level) / (2.0 * len(names)))
    off, reach, unknown = np.zeros(len(names)), np.zeros(len(names)), []
    for g, name in enumerate(names):
        rows = np.flatnonzero(number == own.index(name)) if name in own else np.empty(0, np.intp)
        if len(rows) < FEWEST:
            unknown.append(name)
            continue
        share = source.mass[rows] / source.mass[rows].sum()
        off[g] = share @ missed[rows]
        # One row more, wrong or right, so that a slice without a mistake does not promise none.
        spread = float(share @ (missed[rows] - off[g]) ** 2) + 1.0 / len(rows)
        reach[g] = z * math.sqrt(spread * float(share @ share))
    return off, reach, unknown


def _refuse_dust(by: Any, slices: int, n: int) -> None:
    """Refuse values of which almost every row has its own, such as times to the second."""
    if slices <= MANY or n >= FEWEST_EACH * slices:
        return
    what = f"by {', '.join(map(str, by))}" if isinstance(by, Mapping) else "by"
    raise InputError(
        f"{what}: {slices:,} different values in {n:,} rows; wanted {FEWEST_EACH} rows or more per slice on average; "
        "bin times (--by COLUMN:1d, or hour, week, month), or take a coarser column"
    )


def _drawn(
    pair: Pair,
    number: npt.NDArray[np.intp],
    count: int,
    settings: Resampling,
    method: str,
    options: dict[str, Any],
) -> Array:
    """(1 + B, G) the error of every slice: of the full sample, then of each replicate; NaN where it has no mass."""
    work = Replicator(pair, *settings.numbers(pair.source.sample, pair.target.sample))
    parts = [(weight, type(part), part.get_params()) for weight, part in pair.parts(method, **options)]

    def read(left: View, right: View) -> Array:
        posterior, error = np.zeros_like(right.probs), 0.0
        for weight, kind, params in parts:
            fitted = work.fitted(kind(**params), left)
            posterior += weight * believed(fitted, right)
            error += weight * float(fitted.estimate_view(right).error or 0.0)
        return by_slice(right, tilted(posterior, right, error), number, count)

    return np.array(work.run(read, settings.replicates, settings.seed))


def _max_t(drawn: Array, centre: Array, level: float) -> Array:
    """(G,) half-widths t* s_g; a slice that a replicate did not draw has no say in it."""
    if not len(centre):
        return centre
    spread = np.maximum(np.nanstd(drawn, axis=0, ddof=1), 1e-12)
    t = np.nan_to_num(np.abs(drawn - centre) / spread).max(axis=1)
    return np.asarray(np.quantile(t, level) * spread)
