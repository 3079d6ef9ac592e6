"""What every function begins with: a source and a target, or the `Pair` that they make."""

from __future__ import annotations

from typing import Any

from shiftgauge.errors import InputError
from shiftgauge.methods.pair import Pair
from shiftgauge.rows import AnySource, AnyTarget
from shiftgauge.validation.target_labels import RANDOM

#: What functions take first: the source, or a pair in place of source and target.
SourceOrPair = AnySource | Pair


def to_pair(
    function: str,
    source: Any,
    target: AnyTarget | None,
    calibration: str = "temperature",
    seed: int = 0,
    labels: Any = None,
    labels_chosen: Any = RANDOM,
) -> Pair:
    """The pair of a source and a target; a pair that was given is kept, with its own calibration, seed and labels."""
    if not isinstance(source, Pair):
        return Pair(
            source,
            target,  # type: ignore[arg-type]
            calibration,
            seed=seed,
            labels=labels,
            labels_chosen=labels_chosen,
            function=function,
        )
    if labels is not None or labels_chosen != RANDOM:
        raise InputError(
            f"{function}: labels arrived with a pair; wanted them where the pair is made, Pair(source, target, "
            "labels=...)"
        )
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
