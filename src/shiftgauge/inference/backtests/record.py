"""What a backtest found: every trial, what they recommend, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftgauge.inference.backtests.natural import NATURAL
from shiftgauge.results import Result, told

#: Why nothing is recommended, and the way out.
NO_CHOICE = (
    "no method is recommended: made shifts alone are not like real ones; "
    "give groups (by=, --by COLUMN) or times (time=, --time COLUMN) of your own rows"
)


@dataclass(frozen=True)
class Trial:
    """One method on one target: what it said, what was true, and whether its interval held the truth.

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
        trials: every method on every target.
        recommended: the method with the least mean miss on groups and times, kinds counting the same; None
            where only made shifts were tried.
        sureness: how often it stays the best when other groups or times are drawn; None with one method, and
            with one target, which cannot tell.
        warnings: what the reader should know.
        not_tried: the targets that could not be made.
    """

    trials: tuple[Trial, ...]
    recommended: str | None
    sureness: float | None
    warnings: tuple[str, ...] = ()
    not_tried: tuple[NotTried, ...] = ()

    @property
    def verdict(self) -> str:
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
                        "natural": kind in NATURAL,
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
        return self.verdict or f"backtest of {self.trials[0].method}"

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
        return told(lines, self.warnings)
