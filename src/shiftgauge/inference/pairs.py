"""What every function begins with: a source and a target, or the `Pair` that they make."""

from __future__ import annotations

from typing import Any

from shiftgauge.errors import InputError
from shiftgauge.methods.pair import Pair
from shiftgauge.rows import Rows
from shiftgauge.samples import Source, Target

#: What functions take first: the source, or a pair in place of source and target.
SourceOrPair = Source | Rows | Pair


def to_pair(
    function: str, source: Any, target: Target | Rows | None, calibration: str = "temperature", seed: int = 0
) -> Pair:
    """The pair of a source and a target; a pair that was given is kept, with its own calibration and seed."""
    if not isinstance(source, Pair):
        return Pair(source, target, calibration, seed=seed, function=function)  # type: ignore[arg-type]
    if target is not None:
        raise InputError(
            f"{function}: a pair and a {type(target).__name__} arrived; wanted a source and a target, or a pair alone"
        )
    if calibration not in ("temperature", source.calibration.name):
        raise InputError(
            f"{function}: calibration {calibration!r} arrived with a pair that is calibrated by "
            f"{source.calibration.name!r}; wanted it where the pair is made, Pair(source, target, {calibration!r})"
        )
    return source
