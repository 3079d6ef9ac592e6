"""What every bootstrap is told: how many replicates, the level, the seed, and which rows belong together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import InputError
from shiftgauge.inference.columns import is_missing, one_per_row
from shiftgauge.methods.scanned import ScanView
from shiftgauge.methods.view import View
from shiftgauge.samples import Sample
from shiftgauge.scans import Scan

Numbers = npt.NDArray[np.intp] | None

#: Replicates unless somebody asks for another number.
REPLICATES = 200
#: More than this is a slip of the hand: it would run for hours, and be held in memory.
MOST_REPLICATES = 100_000
#: Fewer rows (or groups) than this on either side cannot show how far chance goes.
FEWEST = 10


@dataclass(frozen=True)
class Resampling:
    """The settings of a bootstrap, checked once.

    Attributes:
        replicates: how often to resample.
        level: the nominal coverage of what is read off the replicates.
        seed: of everything drawn.
        groups: (n_target,) group of each target row, where rows come in correlated groups.
        source_groups: (n_source,) the same for the source.
    """

    replicates: int = REPLICATES
    level: float = 0.95
    seed: int = 0
    groups: Any = None
    source_groups: Any = None

    def __post_init__(self) -> None:
        validation.check_fraction(self.level, "level", 0.95)
        validation.check_count(self.replicates, "replicates", 20, ", better 200", MOST_REPLICATES)
        validation.check_count(self.seed, "seed", 0)

    def numbers(self, source: Sample, target: Sample | Scan) -> tuple[Numbers, Numbers]:
        """(n,) each: the number of every row's group, of source and of target; None where rows stand alone."""
        if isinstance(target, Scan) and self.groups is not None:
            raise InputError(
                "groups: the target is scanned, and its groups cannot be drawn together; "
                "leave them out, or pass a shiftgauge.Target of whole groups"
            )
        return (
            group_numbers(self.source_groups, source.n, "source_groups"),
            group_numbers(self.groups, target.n, "groups"),
        )


def group_numbers(values: Any, n: int, what: str) -> Numbers:
    """(n,) group numbers 0..G-1; a missing group is refused, since nobody knows what it belongs to."""
    if values is None:
        return None
    array = one_per_row(values, n, what)
    if array.dtype.kind not in "iub":  # whole numbers are never missing
        missing = next((row for row, value in enumerate(array.tolist()) if is_missing(value)), None)
        if missing is not None:
            raise InputError(
                f"{what}: row {missing} is missing; wanted a group in every row; give such rows groups of their own"
            )
    names, number = np.unique(array.astype(str) if array.dtype == object else array, return_inverse=True)
    if len(names) < 2:
        raise InputError(f"{what}: only one group; wanted at least two to draw from")
    return np.asarray(number.reshape(-1), dtype=np.intp)


def too_few(source: View, target: View | ScanView, by_source: Numbers, by_target: Numbers) -> str | None:
    """Why there can be no interval, if there can be none."""
    for side, view, number in (("source", source, by_source), ("target", target, by_target)):
        units = view.n if number is None else int(number.max()) + 1
        if units < FEWEST:
            what = "row" if number is None else "group"
            return (
                f"no interval: {units} {side} {what}{'s' * (units != 1)} cannot show how far chance goes; "
                f"wanted at least {FEWEST}"
            )
    return None
