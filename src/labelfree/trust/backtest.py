"""The backtest: on your own labelled rows, under shifts made from them, how far would each method have missed?"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree import _door
from labelfree.calibration import fit_calibration
from labelfree.errors import InputError
from labelfree.estimators.registry import find, make
from labelfree.estimators.view import View
from labelfree.trust.intervals import check_resampling, interval
from labelfree.trust.shifts import LEAST_ROWS, Shift, made_shifts
from labelfree.types import Source, Target

Indices = npt.NDArray[np.intp]

#: What is tried unless other methods are named.
METHODS = ("ac", "atc-ne", "cott", "scot", "label-shift", "auto")


@dataclass(frozen=True)
class Trial:
    """One method on one made target: what it said, what was true, and whether its interval held the truth."""

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
class Backtest:
    """All trials and what they recommend.

    Attributes:
        trials: every method on every made target.
        recommended: the method with the least mean miss, kinds of shift counting the same.
        sureness: the share of resamples of the made targets in which it stays the best.
        warnings: what the reader should know.
    """

    trials: tuple[Trial, ...]
    recommended: str
    sureness: float
    warnings: tuple[str, ...] = ()

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
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Everything as JSON."""
        return json.dumps({"schema": 1, **self.to_dict()}, indent=indent, allow_nan=False)

    def __repr__(self) -> str:
        lines = [f"recommended: {self.recommended} (best in {100 * self.sureness:.0f}% of resamples)"]
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
    methods: Sequence[str] = METHODS,
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
        groups: (n,) a group of each row: every group becomes a target of its own.
        times: (n,) when each row was seen: the later half becomes a target for the earlier one.
        calibration: as for every method.
        repeats: how many random splits.
        replicates: bootstrap replicates for the intervals' coverage; 0 for none (much faster).
        seed: of splits and shifts; the same seed gives the same report.
        progress: called with what is being done and the share of it that is done.

    Shifts are made from rows at hand: the report says how methods fare under *such* shifts, not under others.
    """
    _door.check_count(repeats, "repeats", 1)
    _door.check_count(seed, "seed", 0)
    if replicates:
        check_resampling(0.95, replicates, seed)
    names = [find(name).name for name in methods]
    if not names:
        raise InputError("backtest: no methods named; wanted at least one")
    if source.n < 4 * LEAST_ROWS:
        raise InputError(
            f"backtest: {source.n} labelled rows; wanted at least {4 * LEAST_ROWS}, half to learn from"
        )
    by_group = _column(groups, source.n, "groups")
    trials: list[Trial] = []
    say = progress or (lambda what, share: None)
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, repeat])
        order = rng.permutation(source.n)
        left, right = np.sort(order[: source.n // 2]), np.sort(order[source.n // 2 :])
        known, pool = _part(source, left), _part(source, right)
        made = list(
            made_shifts(pool, None if by_group is None else by_group[right], seed=int(rng.integers(2**31)))
        )
        for number, shift in enumerate(made):
            say(f"{shift.kind}, {shift.strength}", (repeat + number / len(made)) / repeats)
            trials += _try(known, pool, shift, names, calibration, replicates, seed)
    if times is not None:
        trials += _over_time(source, _column(times, source.n, "times"), names, calibration, replicates, seed)
    best, sure = _recommend(trials, names, seed)
    warnings = ["made shifts only: a method that does well here can still miss under a shift of another kind"]
    warnings += _left_out(by_group, trials)
    return Backtest(tuple(trials), best, sure, tuple(warnings))


def _left_out(groups: npt.NDArray[Any] | None, trials: Sequence[Trial]) -> list[str]:
    """A sentence where groups were too small to be targets of their own."""
    if groups is None:
        return []
    tried = {trial.strength for trial in trials}
    small = [str(name) for name in np.unique(groups) if f"group {name}" not in tried]
    if not small:
        return []
    more = f" and {len(small) - 3} more" if len(small) > 3 else ""
    return [
        f"{len(small)} of {len(np.unique(groups))} groups had fewer than {LEAST_ROWS} rows in a half and were not "
        f"tried: {', '.join(small[:3])}{more}"
    ]


def _try(
    known: Source, pool: Source, shift: Shift, names: list[str], calibration: str, replicates: int, seed: int
) -> list[Trial]:
    predictions = pool.predictions[shift.rows] if shift.kept else None
    weights = None if pool.weights is None else pool.weights[shift.rows]
    target = Target(logits=shift.logits, predictions=predictions, weights=weights)
    return _answers(
        known, target, shift.labels, names, calibration, replicates, seed, shift.kind, shift.strength
    )


def _answers(
    known: Source,
    target: Target,
    labels: Indices,
    names: list[str],
    calibration: str,
    replicates: int,
    seed: int,
    kind: str,
    strength: str,
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
        out.append(Trial(kind, strength, name, found.error, truth, covered))
    return out


def _over_time(
    source: Source,
    times: npt.NDArray[Any] | None,
    names: list[str],
    calibration: str,
    replicates: int,
    seed: int,
) -> list[Trial]:
    assert times is not None
    order = np.argsort(times, kind="stable")
    early, late = np.sort(order[: source.n // 2]), np.sort(order[source.n // 2 :])
    known, pool = _part(source, early), _part(source, late)
    target = object.__new__(Target)  # checked already, as part of the source
    target._set(**{k: v for k, v in vars(pool).items() if k != "labels"}, second=None)
    return _answers(known, target, pool.labels, names, calibration, replicates, seed, "time", "later half")


def _recommend(trials: list[Trial], names: list[str], seed: int) -> tuple[str, float]:
    """The least mean miss over kinds, and how often it stays so when targets are resampled within kinds."""
    kinds = list(dict.fromkeys(t.kind for t in trials))
    misses = [
        np.array([[abs(t.miss) for t in trials if t.kind == kind and t.method == name] for name in names])
        for kind in kinds
    ]
    best = int(np.argmin(np.mean([m.mean(axis=1) for m in misses], axis=0)))
    rng = np.random.default_rng(seed)
    wins = 0
    for _ in range(400):
        means = [m[:, rng.integers(m.shape[1], size=m.shape[1])].mean(axis=1) for m in misses]
        wins += int(np.argmin(np.mean(means, axis=0))) == best
    return names[best], wins / 400


def _part(source: Source, rows: Indices) -> Source:
    """Some rows of the source, without checking them again."""
    twin = object.__new__(Source)
    fields = dict(vars(source))
    for name in ("scores", "predictions", "labels", "weights"):
        fields[name] = None if fields[name] is None else fields[name][rows]
    twin._set(**fields)
    return twin


def _column(values: Any, n: int, what: str) -> npt.NDArray[Any] | None:
    if values is None:
        return None
    array = _door.as_array(values, what)
    if array.shape != (n,):
        raise InputError(f"{what}: arrived with shape {array.shape}; wanted one value per row, ({n},)")
    return np.asarray([str(v) for v in array.tolist()]) if array.dtype == object else array
