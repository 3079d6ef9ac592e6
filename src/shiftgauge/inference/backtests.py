"""The backtest: on your own labelled rows, with their labels hidden, how far would each method have missed?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import InputError
from shiftgauge.inference.columns import Groups, row_groups, row_times
from shiftgauge.inference.resampling import Resampling, with_interval
from shiftgauge.inference.shifts import LEAST_ROWS, NATURAL, NotTried, Shift, made_shifts, natural_splits
from shiftgauge.methods.pair import Pair
from shiftgauge.methods.registry import find
from shiftgauge.results import Estimate, Table
from shiftgauge.rows import AnySource, Rows, to_source
from shiftgauge.samples import Source, Target

Indices = npt.NDArray[np.intp]

#: The methods that are tried by default.
METHODS = ("ac", "atc-ne", "cott", "scot", "label-shift", "auto")
#: More than this is probably a typing error: every split takes a second or more.
MOST_REPEATS = 10_000
#: How often targets are drawn anew to see how sure the recommendation is.
DRAWS = 1000
#: Why nothing is recommended, and the way out.
NO_CHOICE = (
    "no method is recommended: made shifts alone are not like real ones; "
    "give groups (by=, --by COLUMN) or times (time=, --time COLUMN) of your own rows"
)


@dataclass(frozen=True)
class Trial:
    """One method on one target: its estimate, the true error, and whether its interval covers the truth.

    The split is the number of the random split that the target was made from; None for a new group or a time.
    """

    split: int | None
    kind: str
    strength: str
    method: str
    error: float
    truth: float
    covered: bool | None

    @property
    def miss(self) -> float:
        """error - truth."""
        return self.error - self.truth

    @property
    def natural(self) -> bool:
        """Whether the target is a group or a time of the user's own data, and not a made shift."""
        return self.kind in NATURAL

    def to_dict(self) -> dict[str, Any]:
        """The trial as plain values."""
        return {**vars(self), "miss": self.miss, "natural": self.natural}


@dataclass(frozen=True, repr=False)
class Backtest(Table):
    """All trials and what they recommend.

    Attributes:
        trials: every method on every target.
        recommended: the method with the least mean miss on groups and times, kinds counting the same; None
            where only made shifts were tried.
        sureness: how often it stays the best when other groups or times are drawn; None with one method or one target.
        warnings: what the reader should know.
        not_tried: the targets that could not be made.
    """

    index_columns: ClassVar[int] = 2

    trials: tuple[Trial, ...]
    recommended: str | None
    sureness: float | None
    warnings: tuple[str, ...] = ()
    not_tried: tuple[NotTried, ...] = ()

    @property
    def recommendation(self) -> str:
        """The recommendation and how sure it is, as a sentence; empty where one method stands alone."""
        if len({t.method for t in self.trials}) == 1:
            return ""
        if self.recommended is None:
            return NO_CHOICE
        if self.sureness is None:
            return (
                f"recommended: {self.recommended}; one target cannot tell how sure that is, more groups can"
            )
        share = f"{100 * self.sureness:.0f}%"
        return f"recommended: {self.recommended}, the best in {share} of draws of other groups and times"

    def table(self) -> list[dict[str, Any]]:
        """One line per kind of shift and method, natural kinds first: mean and worst miss, interval coverage."""
        out = []
        kinds = sorted(dict.fromkeys(t.kind for t in self.trials), key=lambda kind: kind not in NATURAL)
        methods = list(dict.fromkeys(t.method for t in self.trials))
        for kind in kinds:
            for method in methods:
                mine = [t for t in self.trials if t.kind == kind and t.method == method]
                covered = [t.covered for t in mine if t.covered is not None]
                out.append(
                    {
                        "kind": kind,
                        "method": method,
                        "natural": kind in NATURAL,
                        "targets": len(mine),
                        "mean_miss": float(np.mean([abs(t.miss) for t in mine])),
                        "worst_miss": float(np.max([abs(t.miss) for t in mine])),
                        "coverage": float(np.mean(covered)) if covered else None,
                    }
                )
        return out

    def records(self) -> list[dict[str, Any]]:
        """One dictionary per kind of shift and method."""
        return self.table()

    def content(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "recommended": self.recommended,
            "sureness": self.sureness,
            "kinds": self.table(),
            "trials": [t.to_dict() for t in self.trials],
            "not_tried": [n.to_dict() for n in self.not_tried],
        }

    def heading(self) -> str:
        """What it recommends."""
        return self.recommendation or f"backtest of {self.trials[0].method}"

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """One row per kind of shift and method; errors in percentage points."""
        rows = [
            (
                row["kind"],
                row["method"],
                str(row["targets"]),
                f"{100 * row['mean_miss']:.1f}",
                f"{100 * row['worst_miss']:.1f}",
                "" if row["coverage"] is None else f"{100 * row['coverage']:.0f}%",
            )
            for row in self.table()
        ]
        return ("kind of shift", "method", "targets", "mean absolute error", "largest", "coverage"), rows


def backtest(
    source: AnySource,
    *,
    methods: str | Sequence[str] | None = None,
    by: Any = None,
    time: Any = None,
    calibration: str = "temperature",
    repeats: int = 2,
    replicates: int = 0,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Backtest:
    """Hide labels of your own rows, let each method estimate, and see how far off it is.

    Groups and times of the rows decide, where there are any: each group is a target for the rows of all other
    groups (`"new group"`) and, half of it, for a random half of all rows (`"group"`); each quarter of time, and
    the later half, is a target for all that came before it (`"time"`). Shifts made from one half of the rows
    are tried beside them, and shown. They are not like real ones (in nine trials on data outside this project
    what they recommended missed by 3.5 points later, `auto` by 2.8): without groups or times nothing is
    recommended.

    Args:
        source: scores with labels.
        methods: names from `shiftgauge.methods.METHODS` that estimate an error; by default ac, atc-ne, cott, scot,
            label-shift and auto (without cott where deployed decisions differ from the largest score).
        by: (n,) a group of each row, such as a site, a customer or a device. Also a mapping from names to such
            arrays, or a sequence of them. Rows without a group make up the group "missing".
        time: (n,) when each row was seen, as numbers, dates or ISO 8601 text.
        calibration: as for every method.
        repeats: how many random splits.
        replicates: bootstrap replicates for the intervals' coverage; 0 for none (much faster).
        seed: of splits and shifts; the same seed gives the same report.
        progress: called with each step as it begins.

    Deployed predictions stay where scores become sharper. Where scores become noisier, decisions that were the
    largest score follow the noise, and the others stay: the rule behind them is not known.
    """
    source = to_source(source, "backtest")
    names = _check(source, methods, repeats, replicates, seed)
    settings = Resampling(replicates, seed=seed) if replicates else None
    columns = row_groups(by, source.n)
    ranks = None if time is None else row_times(time, source.n)
    untried: Counter[NotTried] = Counter()
    say = progress or (lambda step: None)
    trials: list[Trial] = []
    for repeat in range(repeats):
        say(f"made shifts, split {repeat + 1} of {repeats}")
        trials += _try_made(source, columns, names, calibration, settings, [seed, repeat], untried, say)
    missed = [replace(target, splits=splits) for target, splits in untried.items()]
    for split in natural_splits(source.n, columns, ranks):
        why = split.why if isinstance(split, NotTried) else _weightless(source, split.known, split.asked)
        if isinstance(split, NotTried) or why:
            missed.append(NotTried(split.kind, split.strength, why, repeats))
            continue
        say(f"{split.kind}, {split.strength}")
        asked = source.take(split.asked)
        pair = Pair(source.take(split.known), Rows.of(asked), calibration)
        trials += _try_methods(pair, asked, names, settings, (None, split.kind, split.strength))
    found = summarise(trials, names, missed, repeats, seed)
    return replace(found, warnings=(*source.notes, *found.warnings))


def _try_made(
    source: Source,
    columns: Sequence[Groups],
    names: list[str],
    calibration: str,
    settings: Resampling | None,
    seed: list[int],
    untried: Counter[NotTried],
    say: Callable[[str], None],
) -> list[Trial]:
    """Every method on every target made from one random half; methods are fitted once, on the other half."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(source.n)
    left, right = np.sort(order[: source.n // 2]), np.sort(order[source.n // 2 :])
    if why := _weightless(source, left, right):
        untried[NotTried("made shifts", "all", why)] += 1
        return []
    pool = source.take(right)
    pair = Pair(source.take(left), Rows.of(pool), calibration)
    shifts = list(made_shifts(pool, [c.of(right) for c in columns], seed=int(rng.integers(2**31))))
    trials: list[Trial] = []
    for number, shift in enumerate(shifts):
        if isinstance(shift, NotTried):
            untried[shift] += 1
            continue
        say(f"{shift.kind}, {shift.strength} (target {number + 1} of {len(shifts)}, split {seed[1] + 1})")
        weights = None if pool.weights is None else pool.weights[shift.rows]
        target = Target(logits=shift.logits, predictions=shift.predictions, weights=weights)
        made = (seed[1], shift.kind, shift.strength)
        trials += _try_methods(pair.with_target(target), shift, names, settings, made)
    return trials


def _weightless(source: Source, *parts: Indices) -> str:
    if source.weights is None or all(source.weights[rows].any() for rows in parts):
        return ""
    return "all rows weigh nothing"


def _check(source: Source, methods: Any, repeats: Any, replicates: Any, seed: Any) -> list[str]:
    """The methods' names; whatever else arrived is refused before any work."""
    validation.check_count(repeats, "repeats", 1, most=MOST_REPEATS)
    for value, what in ((replicates, "replicates"), (seed, "seed")):
        validation.check_count(value, what, 0)
    if methods is None:
        methods = [name for name in METHODS if not (source.decided and find(name).needs_argmax)]
    if not isinstance(methods, Iterable):
        raise InputError(f"backtest: methods arrived as {methods!r:.60}; wanted names such as {METHODS[:2]}")
    found = [find(name) for name in ([methods] if isinstance(methods, str) else methods)]
    if not found:
        raise InputError("backtest: no methods named; wanted at least one")
    for method in found:
        if method.needs_second:
            raise InputError(
                f"backtest: {method.name} needs a second model's predictions and cannot be backtested; leave it out"
            )
    if source.n < 4 * LEAST_ROWS:
        raise InputError(
            f"backtest: {source.n} labelled rows; wanted at least {4 * LEAST_ROWS}, half to learn from"
        )
    return list(dict.fromkeys(method.name for method in found))


def _try_methods(
    pair: Pair,
    asked: Source | Shift,
    names: list[str],
    settings: Resampling | None,
    made: tuple[int | None, str, str],
) -> list[Trial]:
    """Every method on one target whose labels are known; `made` is the split, the kind and the strength."""
    block = pair.target_block
    truth = block.share(block.predictions != asked.labels)
    out = []
    for name in names:
        error = pair.error(name)
        covered = (
            None if settings is None else covers(with_interval(pair, pair.estimate(name), settings), truth)
        )
        out.append(Trial(*made, name, error, truth, covered))
    return out


def covers(found: Estimate, truth: float) -> bool:
    """Whether the interval holds the truth of just these rows: the label noise is added to it."""
    if found.range is not None:  # it is about exactly these rows
        return found.range.low <= truth <= found.range.high
    assert found.interval is not None
    assert found.error is not None
    noise = 1.96 * float(found.details["label_noise"])
    low = found.error - np.hypot(found.error - found.interval.low, noise)
    high = found.error + np.hypot(found.interval.high - found.error, noise)
    return bool(low <= truth <= high)


def summarise(
    trials: Sequence[Trial], names: Sequence[str], untried: Sequence[NotTried], repeats: int, seed: int
) -> Backtest:
    """The backtest of these trials: natural ones decide what is recommended; without any, nothing is."""
    natural = [t for t in trials if t.natural]
    best, sure = None, None
    if natural:
        best = min(names, key=lambda name: mean_miss(natural, name))
        sure = sureness_of(natural, names, best, seed)
        warnings = [
            "your own groups and times decide; a shift of another kind can still rank methods otherwise"
        ]
    else:
        warnings = [
            "made shifts only: a method that does well here can still miss under a shift of another kind"
        ]
    warnings += _not_tried(untried, repeats)
    return Backtest(tuple(trials), best, sure, tuple(warnings), tuple(untried))


def mean_miss(trials: Sequence[Trial], name: str) -> float:
    """The mean absolute error of a method, kinds counting the same."""
    mine = [t for t in trials if t.method == name]
    return float(_weights(mine) @ [abs(t.miss) for t in mine])


def _weights(trials: Sequence[Trial]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Of each trial: kinds count the same, and so do the trials of a kind."""
    kinds = [t.kind for t in trials]
    return np.array([1.0 / (len(set(kinds)) * kinds.count(kind)) for kind in kinds])


def sureness_of(trials: Sequence[Trial], names: Sequence[str], best: str, seed: int) -> float | None:
    """How often the best stays so if other targets are drawn; None with one method or one target.

    A target is a group or a part of time, in all its trials. A draw moves the mean errors by what other
    targets would have changed: the targets' deviations from the mean, times Student's t of U - 1 degrees,
    because the spread of U targets is itself a guess.
    """
    targets = list(dict.fromkeys(t.strength for t in trials))
    if len(names) < 2 or len(targets) < 2:
        return None
    mean = np.array([mean_miss(trials, name) for name in names])
    off = np.zeros((len(targets), len(names)))
    for m, name in enumerate(names):
        mine = [t for t in trials if t.method == name]
        for weight, t in zip(_weights(mine), mine, strict=True):
            off[targets.index(t.strength), m] += weight * (abs(t.miss) - mean[m])
    rng = np.random.default_rng(seed)
    u = len(targets)
    wins = 0
    for _ in range(DRAWS):
        g = rng.normal(size=u) * np.sqrt(u / rng.chisquare(u - 1))
        wins += int(np.argmin(mean + g @ off)) == list(names).index(best)
    return wins / DRAWS


def _not_tried(untried: Sequence[NotTried], repeats: int) -> list[str]:
    """A sentence for each reason why targets were not tried."""
    out = []
    for why in dict.fromkeys(u.why for u in untried):
        kinds: dict[str, list[str]] = {}
        for u in untried:
            if u.why == why:
                part = f" in {u.splits} of {repeats} splits" if u.splits < repeats else ""
                kinds.setdefault(u.kind, []).append(u.strength + part)
        parts = []
        for kind, strengths in kinds.items():
            more = f" and {len(strengths) - 3} more" if len(strengths) > 3 else ""
            parts.append(f"{kind} ({', '.join(strengths[:3])}{more})")
        out.append(f"not tried: {', '.join(parts)}: {why}")
    return out
