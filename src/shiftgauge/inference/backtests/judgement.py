"""What trials recommend, how sure that is, and what was not tried."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shiftgauge.inference.backtests.record import Backtest, NotTried, Trial

#: How often targets are drawn anew to see how sure the recommendation is.
DRAWS = 1000


def judged(
    trials: Sequence[Trial], names: Sequence[str], untried: Sequence[NotTried], repeats: int, seed: int
) -> Backtest:
    """The backtest of these trials: the natural ones recommend, and where there are none, nothing does."""
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
    warnings += _left_out(untried, repeats)
    return Backtest(tuple(trials), best, sure, tuple(warnings), tuple(untried))


def mean_miss(trials: Sequence[Trial], name: str) -> float:
    """The mean absolute miss of a method, kinds counting the same."""
    mine = [t for t in trials if t.method == name]
    return float(_weights(mine) @ [abs(t.miss) for t in mine])


def _weights(trials: Sequence[Trial]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Of each trial: kinds count the same, and so do the trials of a kind."""
    kinds = [t.kind for t in trials]
    return np.array([1.0 / (len(set(kinds)) * kinds.count(kind)) for kind in kinds])


def sureness_of(trials: Sequence[Trial], names: Sequence[str], best: str, seed: int) -> float | None:
    """How often the best stays so if other targets are drawn; None with one method or one target.

    A target is a group or a part of time, in all its trials. A draw moves the mean misses by what other
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
