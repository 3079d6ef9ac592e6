"""The backtest: on your own labelled rows, under shifts made from them, how far would each method have missed?"""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree import _door
from labelfree.calibration import fit_calibration
from labelfree.errors import InputError
from labelfree.estimators.registry import find, make
from labelfree.estimators.view import View
from labelfree.trust.columns import row_groups, row_times
from labelfree.trust.intervals import check_resampling, interval
from labelfree.trust.shifts import LEAST_ROWS, Shift, Untried, made_shifts
from labelfree.types import Source, Target

Indices = npt.NDArray[np.intp]

#: What is tried unless other methods are named.
METHODS = ("ac", "atc-ne", "cott", "scot", "label-shift", "auto")
#: How often kinds and splits are drawn anew to see how sure the recommendation is.
DRAWS = 1000


@dataclass(frozen=True)
class Trial:
    """One method on one made target: what it said, what was true, and whether its interval held the truth.

    The split is the number of the random split that the target was made from, None for the split in time.
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

    def to_dict(self) -> dict[str, Any]:
        """The trial as plain values."""
        return {**vars(self), "miss": self.miss}


@dataclass(frozen=True)
class NotTried:
    """A target that could not be made, why, and in how many of the splits."""

    kind: str
    strength: str
    why: str
    splits: int

    def to_dict(self) -> dict[str, Any]:
        """The target as plain values."""
        return dict(vars(self))


@dataclass(frozen=True)
class Backtest:
    """All trials and what they recommend.

    Attributes:
        trials: every method on every made target.
        recommended: the method with the least mean miss, kinds of shift counting the same.
        sureness: how often it stays the best when splits and kinds of shift are drawn anew; None with one
            method, and with one split, which cannot tell.
        warnings: what the reader should know.
        not_tried: the targets that could not be made.
    """

    trials: tuple[Trial, ...]
    recommended: str
    sureness: float | None
    warnings: tuple[str, ...] = ()
    not_tried: tuple[NotTried, ...] = ()

    @property
    def verdict(self) -> str:
        """The recommendation and how sure it is, as a sentence; empty where one method stands alone."""
        if len({t.method for t in self.trials}) == 1:
            return ""
        if self.sureness is None:
            return (
                f"recommended: {self.recommended}; one split cannot tell how sure that is, more repeats can"
            )
        share = f"{100 * self.sureness:.0f}%"
        return f"recommended: {self.recommended}, the best in {share} of draws of other splits and kinds of shift"

    def table(self) -> list[dict[str, Any]]:
        """One line per kind of shift and method: mean and worst absolute miss, interval coverage."""
        out = []
        kinds = list(dict.fromkeys(t.kind for t in self.trials))
        methods = list(dict.fromkeys(t.method for t in self.trials))
        for kind in kinds:
            for method in methods:
                mine = [t for t in self.trials if t.kind == kind and t.method == method]
                covered = [t.covered for t in mine if t.covered is not None]
                out.append(
                    {
                        "kind": kind,
                        "method": method,
                        "targets": len(mine),
                        "mean_miss": float(np.mean([abs(t.miss) for t in mine])),
                        "worst_miss": float(np.max([abs(t.miss) for t in mine])),
                        "coverage": float(np.mean(covered)) if covered else None,
                    }
                )
        return out

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "recommended": self.recommended,
            "sureness": self.sureness,
            "kinds": self.table(),
            "trials": [t.to_dict() for t in self.trials],
            "warnings": list(self.warnings),
            "not_tried": [n.to_dict() for n in self.not_tried],
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Everything as JSON."""
        return json.dumps({"schema": 1, **self.to_dict()}, indent=indent, allow_nan=False)

    def __repr__(self) -> str:
        lines = [self.verdict or f"backtest of {self.recommended}"]
        for row in self.table():
            held = "" if row["coverage"] is None else f", interval held {100 * row['coverage']:.0f}%"
            lines.append(
                f"  {row['kind']:<18} {row['method']:<12} mean miss {100 * row['mean_miss']:.1f}, "
                f"worst {100 * row['worst_miss']:.1f} points{held}"
            )
        return "\n".join([*lines, *(f"  ! {w}" for w in self.warnings)])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


def backtest(
    source: Source,
    *,
    methods: str | Sequence[str] = METHODS,
    groups: Any = None,
    times: Any = None,
    calibration: str = "temperature",
    repeats: int = 2,
    replicates: int = 0,
    seed: int = 0,
    progress: Callable[[str, float], None] | None = None,
) -> Backtest:
    """Split the labelled rows, make shifted targets from one half, and see how far each method misses.

    Args:
        source: scores with labels.
        methods: names from `labelfree.METHODS` that estimate an error.
        groups: (n,) a group of each row: every group becomes a target of its own. Also a mapping from names
            to such arrays, or a sequence of them. Rows without a group make up the group "missing".
        times: (n,) when each row was seen, as numbers, dates or ISO 8601 text: the later half becomes a target
            for the earlier one.
        calibration: as for every method.
        repeats: how many random splits.
        replicates: bootstrap replicates for the intervals' coverage; 0 for none (much faster).
        seed: of splits and shifts; the same seed gives the same report.
        progress: called with what is being done and the share of it that is done.

    Shifts are made from rows at hand: the report says how methods fare under *such* shifts, not under others.
    Deployed predictions stay where scores become sharper. Where scores become noisier, decisions that were the
    largest score follow the noise, and the others stay: the rule behind them is not known.
    """
    names = _check(source, methods, repeats, replicates, seed)
    columns = row_groups(groups, source.n)
    ranks = None if times is None else row_times(times, source.n)
    trials: list[Trial] = []
    untried: Counter[Untried] = Counter()
    say = progress or (lambda what, share: None)
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, repeat])
        order = rng.permutation(source.n)
        left, right = np.sort(order[: source.n // 2]), np.sort(order[source.n // 2 :])
        known, pool = _part(source, left), _part(source, right)
        made = list(made_shifts(pool, [c.of(right) for c in columns], seed=int(rng.integers(2**31))))
        for number, shift in enumerate(made):
            if isinstance(shift, Untried):
                untried[shift] += 1
                continue
            say(f"{shift.kind}, {shift.strength}", (repeat + number / len(made)) / repeats)
            trials += _try(known, pool, shift, names, calibration, replicates, seed, repeat)
    if ranks is not None:
        trials += _over_time(source, ranks, names, calibration, replicates, seed)
    best = min(names, key=lambda name: _mean_miss(trials, name))
    missed = tuple(NotTried(u.kind, u.strength, u.why, splits) for u, splits in untried.items())
    warnings = ["made shifts only: a method that does well here can still miss under a shift of another kind"]
    warnings += _left_out(missed, repeats)
    return Backtest(tuple(trials), best, _sureness(trials, names, best, seed), tuple(warnings), missed)


def _check(source: Any, methods: Any, repeats: Any, replicates: Any, seed: Any) -> list[str]:
    """The methods' names; whatever else arrived is refused before any work."""
    if not isinstance(source, Source):
        raise InputError(
            f"backtest: arrived {type(source).__name__}; wanted labelfree.Source(logits=..., labels=...)"
        )
    for value, what, least in ((repeats, "repeats", 1), (replicates, "replicates", 0), (seed, "seed", 0)):
        _door.check_count(value, what, least)
    if replicates:
        check_resampling(0.95, replicates, seed)
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


def _left_out(untried: Sequence[NotTried], repeats: int) -> list[str]:
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


def _try(
    known: Source,
    pool: Source,
    shift: Shift,
    names: list[str],
    calibration: str,
    replicates: int,
    seed: int,
    split: int,
) -> list[Trial]:
    weights = None if pool.weights is None else pool.weights[shift.rows]
    target = Target(logits=shift.logits, predictions=shift.predictions, weights=weights)
    made = (split, shift.kind, shift.strength)
    return _answers(known, target, shift.labels, names, calibration, replicates, seed, made)


def _answers(
    known: Source,
    target: Target,
    labels: Indices,
    names: list[str],
    calibration: str,
    replicates: int,
    seed: int,
    made: tuple[int | None, str, str],
) -> list[Trial]:
    truth = float(target.mass[target.predictions != labels].sum())
    fitted = fit_calibration(calibration, known)
    left, right = View(known, fitted), View(target, fitted)
    out = []
    for name in names:
        covered = None
        if replicates:
            found = interval(known, target, name, replicates=replicates, seed=seed, calibration=calibration)
            assert found.interval is not None
            assert found.error is not None
            noise = 1.96 * float(found.details["label_noise"])  # the truth here is that of just these rows
            low = found.error - np.hypot(found.error - found.interval.low, noise)
            high = found.error + np.hypot(found.interval.high - found.error, noise)
            covered = bool(low <= truth <= high)
        else:
            found = make(name, calibration=calibration).fit_view(left).estimate_view(right)
        if found.error is None:
            raise InputError(
                f"backtest: {name} is a score, not an error; wanted methods that estimate an error"
            )
        out.append(Trial(*made, name, found.error, truth, covered))
    return out


def _over_time(
    source: Source,
    ranks: Indices,
    names: list[str],
    calibration: str,
    replicates: int,
    seed: int,
) -> list[Trial]:
    order = np.argsort(ranks, kind="stable")
    early, late = np.sort(order[: source.n // 2]), np.sort(order[source.n // 2 :])
    known, pool = _part(source, early), _part(source, late)
    target = object.__new__(Target)  # checked already, as part of the source
    target._set(**{k: v for k, v in vars(pool).items() if k != "labels"}, second=None)
    return _answers(
        known, target, pool.labels, names, calibration, replicates, seed, (None, "time", "later half")
    )


def _mean_miss(trials: Sequence[Trial], name: str) -> float:
    """The mean absolute miss of a method, kinds counting the same."""
    mine = [t for t in trials if t.method == name]
    kinds = dict.fromkeys(t.kind for t in mine)
    return float(np.mean([np.mean([abs(t.miss) for t in mine if t.kind == kind]) for kind in kinds]))


def _sureness(trials: Sequence[Trial], names: Sequence[str], best: str, seed: int) -> float | None:
    """How often the best stays so when kinds and splits are drawn anew; None where nothing can tell.

    A draw takes the kinds with replacement. To their mean misses it adds what other splits would have changed:
    a combination g of the splits' deviations from the mean, with g Student's t of R - 1 degrees, because the
    spread of R splits is itself a guess.
    """
    splits = sorted({t.split for t in trials if t.split is not None})
    if len(names) < 2 or len(splits) < 2:
        return None
    kinds = list(dict.fromkeys(t.kind for t in trials))
    mean = np.zeros((len(kinds), len(names)))
    off = np.zeros((len(splits), len(kinds), len(names)))  # 0 where a split has no target of the kind
    for k, kind in enumerate(kinds):
        for m, name in enumerate(names):
            mine = [(t.split, abs(t.miss)) for t in trials if t.kind == kind and t.method == name]
            mean[k, m] = np.mean([miss for _, miss in mine])
            for s in splits:
                here = [miss for split, miss in mine if split == s]
                off[s, k, m] = np.mean(here) - mean[k, m] if here else 0.0
    rng = np.random.default_rng(seed)
    r = len(splits)
    wins = 0
    for _ in range(DRAWS):
        drawn = rng.integers(len(kinds), size=len(kinds))
        g = rng.normal(size=r) / np.sqrt(rng.chisquare(r - 1) * r)
        wins += int(np.argmin((mean + np.tensordot(g, off, 1))[drawn].mean(axis=0))) == names.index(best)
    return wins / DRAWS


def _part(source: Source, rows: Indices) -> Source:
    """Some rows of the source, without checking them again."""
    twin = object.__new__(Source)
    fields = dict(vars(source))
    for name in ("scores", "predictions", "labels", "weights"):
        fields[name] = None if fields[name] is None else fields[name][rows]
    twin._set(**fields)
    return twin
