"""The backtest: on your own labelled rows, with their labels hidden, how far would each method have missed?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import InputError
from shiftgauge.inference.backtests.judgement import judged
from shiftgauge.inference.backtests.natural import cuts
from shiftgauge.inference.backtests.record import Backtest, NotTried, Trial
from shiftgauge.inference.backtests.shifts import LEAST_ROWS, Untried, made_shifts
from shiftgauge.inference.bootstrap import Resampling, with_interval
from shiftgauge.inference.columns import Groups, row_groups, row_times
from shiftgauge.inference.words import renamed
from shiftgauge.methods.pair import Pair
from shiftgauge.methods.registry import DEFAULT, find
from shiftgauge.results import Estimate
from shiftgauge.samples import Source, Target
from shiftgauge.scans import Scan, as_source

Indices = npt.NDArray[np.intp]

#: What is tried unless other methods are named.
METHODS = ("ac", "atc-ne", "cott", "scot", "label-shift", "auto")
#: More than this is a slip of the hand: every split takes a second or more.
MOST_REPEATS = 10_000


@renamed(groups="by", times="time")
def backtest(
    source: Source | Scan,
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
    """Hide labels of your own rows, let each method estimate, and see how far it misses.

    Groups and times of the rows decide, where there are any: each group is a target for the rows of all other
    groups (`"new group"`) and, half of it, for a random half of all rows (`"group"`); each quarter of time, and
    the later half, is a target for all that came before it (`"time"`). Shifts made from one half of the rows
    are tried beside them, and shown. They are not like real ones (in nine trials on data outside this project
    what they recommended missed by 3.5 points later, `auto` by 2.8): without groups or times nothing is
    recommended.

    Args:
        source: scores with labels.
        methods: names from `shiftgauge.METHODS` that estimate an error; by default ac, atc-ne, cott, scot, label-shift
            and auto (without cott where deployed decisions differ from the largest score).
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
    source = as_source(source, "backtest")
    names = _check(source, methods, repeats, replicates, seed)
    settings = Resampling(replicates, seed=seed) if replicates else None
    columns = row_groups(by, source.n)
    ranks = None if time is None else row_times(time, source.n)
    untried: Counter[Untried] = Counter()
    say = progress or (lambda step: None)
    trials: list[Trial] = []
    for repeat in range(repeats):
        say(f"made shifts, split {repeat + 1} of {repeats}")
        trials += _made(source, columns, names, calibration, settings, [seed, repeat], untried, say)
    missed = [NotTried(u.kind, u.strength, u.why, splits) for u, splits in untried.items()]
    for cut in cuts(source.n, columns, ranks):
        why = cut.why if isinstance(cut, Untried) else _weightless(source, cut.known, cut.asked)
        if isinstance(cut, Untried) or why:
            missed.append(NotTried(cut.kind, cut.strength, why, repeats))
            continue
        say(f"{cut.kind}, {cut.strength}")
        asked = source.take(cut.asked)
        pair = Pair(source.take(cut.known), as_target(asked), calibration)
        trials += _answers(pair, asked.labels, names, settings, (None, cut.kind, cut.strength))
    found = judged(trials, names, missed, repeats, seed)
    return replace(found, warnings=(*source.notes, *found.warnings))


def _made(
    source: Source,
    columns: Sequence[Groups],
    names: list[str],
    calibration: str,
    settings: Resampling | None,
    seed: list[int],
    untried: Counter[Untried],
    say: Callable[[str], None],
) -> list[Trial]:
    """Every method on every target made from one random half; methods are fitted once, on the other half."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(source.n)
    left, right = np.sort(order[: source.n // 2]), np.sort(order[source.n // 2 :])
    if why := _weightless(source, left, right):
        untried[Untried("made shifts", "all", why)] += 1
        return []
    pool = source.take(right)
    pair = Pair(source.take(left), as_target(pool), calibration)
    made = list(made_shifts(pool, [c.of(right) for c in columns], seed=int(rng.integers(2**31))))
    trials: list[Trial] = []
    for number, shift in enumerate(made):
        if isinstance(shift, Untried):
            untried[shift] += 1
            continue
        say(f"{shift.kind}, {shift.strength} (target {number + 1} of {len(made)}, split {seed[1] + 1})")
        weights = None if pool.weights is None else pool.weights[shift.rows]
        target = Target(logits=shift.logits, predictions=shift.predictions, weights=weights)
        made_of = (seed[1], shift.kind, shift.strength)
        trials += _answers(pair.facing(target), shift.labels, names, settings, made_of)
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


def _answers(
    pair: Pair,
    labels: Indices,
    names: list[str],
    settings: Resampling | None,
    made: tuple[int | None, str, str],
) -> list[Trial]:
    """Every method on one target whose labels are known; `made` is the split, the kind and the strength."""
    target = pair.whole.sample
    truth = target.share(target.predictions != labels)
    out = []
    for name in names:
        error = pair.error(name)
        covered = (
            None if settings is None else _covers(with_interval(pair, pair.estimate(name), settings), truth)
        )
        out.append(Trial(*made, name, error, truth, covered))
    return out


def _covers(found: Estimate, truth: float) -> bool:
    """Whether the interval holds the truth of just these rows: the label noise is added to it."""
    assert found.interval is not None
    assert found.error is not None
    if found.method == DEFAULT:  # its range is about these rows already
        return found.interval.low <= truth <= found.interval.high
    noise = 1.96 * float(found.details["label_noise"])
    low = found.error - np.hypot(found.error - found.interval.low, noise)
    high = found.error + np.hypot(found.interval.high - found.error, noise)
    return bool(low <= truth <= high)


def as_target(source: Source) -> Target:
    """The same rows without their labels; checked already, as part of the source."""
    target = object.__new__(Target)
    target._set(**{name: value for name, value in vars(source).items() if name != "labels"}, second=None)
    return target
