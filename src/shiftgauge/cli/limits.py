"""`--fail-above X --on error|ceiling|interval`: the limit that a nightly job is stopped by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftgauge.errors import InputError, nearest

if TYPE_CHECKING:
    from shiftgauge.results import Comparison, Estimate

ON = ("error", "ceiling", "interval")
On = Annotated[
    str,
    typer.Option(
        "--on",
        help="What --fail-above looks at: error, ceiling (the range's upper end) or interval (the bootstrap's)",
    ),
]


@dataclass(frozen=True)
class Limit:
    """A limit of what one method says.

    Attributes:
        method: whose answer.
        most: a fraction.
        on: `"error"`, `"ceiling"` or `"interval"`.
    """

    method: str
    most: float
    on: str = "error"

    @classmethod
    def of(cls, method: str, most: float | None, on: str) -> Limit | None:
        """The limit that was asked for, if any; what it cannot be is refused before any work."""
        if on not in ON:
            raise InputError(f"--on {on}: wanted error, ceiling or interval{nearest(on, ON)}")
        if most is None:
            if on != "error":
                raise InputError(f"--on {on} says what --fail-above looks at; pass --fail-above too")
            return None
        if math.isnan(most) or not 0 <= most <= 1:
            hint = f"; did you mean {most / 100:g}?" if 1 < most <= 100 else ""
            raise InputError(f"--fail-above {most:g}: wanted a fraction from 0 to 1{hint}")
        return cls(method, most, on)

    def value(self, answer: Comparison) -> float:
        """What is compared with the limit."""
        if self.method not in [one.method for one in answer]:
            raise InputError(
                f"--fail-above: {self.method} was left out, as it needs more evidence; name another method"
            )
        one = answer[self.method]
        if one.error is None:
            raise InputError(
                f"--fail-above compares an error, and {self.method} is a score; name another method first"
            )
        if self.on == "error":
            return one.error
        return _upper_end(one) if self.on == "interval" else _ceiling(one)

    def exceeded(self, answer: Comparison) -> bool:
        """Whether it is above the limit; a limit that is met is not exceeded."""
        return self.value(answer) > self.most

    def sentence(self, answer: Comparison) -> str:
        """What was exceeded."""
        from shiftgauge.results import percent

        what = "" if self.on == "error" else f"'s {self.on}"
        return (
            f"{self.method}{what}, {percent(self.value(answer))}, is above the limit of {100 * self.most:g}%"
        )

    def to_dict(self, answer: Comparison) -> dict[str, Any]:
        """The limit as plain values."""
        value = self.value(answer)
        document = {"method": self.method, "fail_above": self.most, "on": self.on, "value": value}
        return {**document, "exceeded": value > self.most}


def _upper_end(one: Estimate) -> float:
    if one.interval is None:
        raise InputError(
            f"--on interval: {one.method} has none here; pass --replicates 200, or --on error or --on ceiling"
        )
    return one.interval.high


def _ceiling(one: Estimate) -> float:
    """The upper end of the range that is printed."""
    if one.range is None:
        raise InputError(
            f"--on ceiling: {one.method} gives no ceiling; wanted auto, or --on interval or --on error"
        )
    return one.range.high
