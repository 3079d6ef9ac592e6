"""The backtest: on your own labelled rows, under shifts made from them, how far would each method have missed?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree import _door
from labelfree.errors import InputError
from labelfree.estimators.pair import Pair
from labelfree.estimators.registry import find
from labelfree.results import Estimate
from labelfree.trust.backtests.record import Backtest, NotTried, Trial, mean_miss, sureness_of
from labelfree.trust.backtests.shifts import LEAST_ROWS, Untried, made_shifts
from labelfree.trust.columns import row_groups, row_times
from labelfree.trust.resampling import Resampling, with_interval
from labelfree.types import Source, Target, check_sample

Indices = npt.NDArray[np.intp]

#: What is tried unless other methods are named.
METHODS = ("ac", "atc-ne", "cott", "scot", "label-shift", "auto")


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
    settings = Resampling(replicates, seed=seed) if replicates else None
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
        pair = Pair(known, as_target(pool), calibration)
        made = list(made_shifts(pool, [c.of(right) for c in columns], seed=int(rng.integers(2**31))))
        for number, shift in enumerate(made):
            if isinstance(shift, Untried):
                untried[shift] += 1
                continue
            say(f"{shift.kind}, {shift.strength}", (repeat + number / len(made)) / repeats)
            weights = None if pool.weights is None else pool.weights[shift.rows]
            target = Target(logits=shift.logits, predictions=shift.predictions, weights=weights)
            made_of = (repeat, shift.kind, shift.strength)
            trials += _answers(pair.facing(target), shift.labels, names, settings, made_of)
    if ranks is not None:
        trials += _over_time(source, ranks, names, calibration, settings)
    best = min(names, key=lambda name: mean_miss(trials, name))
    missed = tuple(NotTried(u.kind, u.strength, u.why, splits) for u, splits in untried.items())
    warnings = ["made shifts only: a method that does well here can still miss under a shift of another kind"]
    warnings += _left_out(missed, repeats)
    return Backtest(tuple(trials), best, sureness_of(trials, names, best, seed), tuple(warnings), missed)


def _check(source: Any, methods: Any, repeats: Any, replicates: Any, seed: Any) -> list[str]:
    """The methods' names; whatever else arrived is refused before any work."""
    check_sample(source, Source, "backtest")
    for value, what, least in ((repeats, "repeats", 1), (replicates, "replicates", 0), (seed, "seed", 0)):
        _door.check_count(value, what, least)
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


def _answers(
    pair: Pair,
    labels: Indices,
    names: list[str],
    settings: Resampling | None,
    made: tuple[int | None, str, str],
) -> list[Trial]:
    """Every method on one target whose labels are known; `made` is the split, the kind and the strength."""
    target = pair.target.sample
    truth = target.share(target.predictions != labels)
    out = []
    for name in names:
        error = pair.error(name)
        covered = None if settings is None else _covers(with_interval(pair, name, settings), truth)
        out.append(Trial(*made, name, error, truth, covered))
    return out


def _covers(found: Estimate, truth: float) -> bool:
    """Whether the interval holds the truth of just these rows: the label noise is added to it."""
    assert found.interval is not None
    assert found.error is not None
    noise = 1.96 * float(found.details["label_noise"])
    low = found.error - np.hypot(found.error - found.interval.low, noise)
    high = found.error + np.hypot(found.interval.high - found.error, noise)
    return bool(low <= truth <= high)


def _over_time(
    source: Source, ranks: Indices, names: list[str], calibration: str, settings: Resampling | None
) -> list[Trial]:
    """The later half as a target for the earlier one."""
    order = np.argsort(ranks, kind="stable")
    early, late = np.sort(order[: source.n // 2]), np.sort(order[source.n // 2 :])
    pool = _part(source, late)
    pair = Pair(_part(source, early), as_target(pool), calibration)
    return _answers(pair, pool.labels, names, settings, (None, "time", "later half"))


def as_target(source: Source) -> Target:
    """The same rows without their labels; checked already, as part of the source."""
    target = object.__new__(Target)
    target._set(**{name: value for name, value in vars(source).items() if name != "labels"}, second=None)
    return target


def _part(source: Source, rows: Indices) -> Source:
    """Some rows of the source, without checking them again."""
    twin = object.__new__(Source)
    fields = dict(vars(source))
    for name in ("scores", "predictions", "labels", "weights"):
        fields[name] = None if fields[name] is None else fields[name][rows]
    twin._set(**fields)
    return twin
