"""What a backtest found: every trial, what they recommend, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labelfree.results import Result

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


@dataclass(frozen=True, repr=False)
class Backtest(Result):
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

    def content(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "recommended": self.recommended,
            "sureness": self.sureness,
            "kinds": self.table(),
            "trials": [t.to_dict() for t in self.trials],
            "warnings": list(self.warnings),
            "not_tried": [n.to_dict() for n in self.not_tried],
        }

    def heading(self) -> str:
        """What it recommends."""
        return self.verdict or f"backtest of {self.recommended}"

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """One row per kind of shift and method; misses in points."""
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
        return ("kind of shift", "method", "targets", "mean miss", "worst", "interval held"), rows

    def __repr__(self) -> str:
        lines = [self.heading()]
        for row in self.table():
            held = "" if row["coverage"] is None else f", interval held {100 * row['coverage']:.0f}%"
            lines.append(
                f"  {row['kind']:<18} {row['method']:<12} mean miss {100 * row['mean_miss']:.1f}, "
                f"worst {100 * row['worst_miss']:.1f} points{held}"
            )
        return "\n".join([*lines, *(f"  ! {w}" for w in self.warnings)])


def mean_miss(trials: Sequence[Trial], name: str) -> float:
    """The mean absolute miss of a method, kinds counting the same."""
    mine = [t for t in trials if t.method == name]
    kinds = dict.fromkeys(t.kind for t in mine)
    return float(np.mean([np.mean([abs(t.miss) for t in mine if t.kind == kind]) for kind in kinds]))


def sureness_of(trials: Sequence[Trial], names: Sequence[str], best: str, seed: int) -> float | None:
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
