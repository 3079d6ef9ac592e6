"""`--fail-above X --on low|error|ceiling`: exit code 1 if the error of a method is above a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftgauge.errors import InputError, nearest

if TYPE_CHECKING:
    from shiftgauge.results import Estimate

#: What may be compared with the limit: the lower end of the range, the estimate, or the upper end.
ON = ("low", "error", "ceiling")
FailAbove = Annotated[float | None, typer.Option(help="Exit with code 1 if the estimate is above")]
On = Annotated[
    str,
    typer.Option(
        "--on",
        help="Limit on: low, error (default) or ceiling",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class ErrorLimit:
    """A limit for an estimate.

    Attributes:
        fail_above: the limit, a fraction.
        on: what it is compared with: `"low"`, `"error"` or `"ceiling"`.
    """

    fail_above: float
    on: str = "error"

    def __post_init__(self) -> None:
        if not 0 <= self.fail_above <= 1:
            hint = f"; did you mean {self.fail_above / 100:g}?" if 1 < self.fail_above <= 100 else ""
            raise InputError(f"--fail-above {self.fail_above:g}: wanted a fraction from 0 to 1{hint}")

    def value(self, estimate: Estimate) -> float:
        """The number that is compared with the limit."""
        name = estimate.method
        values = _values(estimate)
        if "error" not in values:
            raise InputError(f"--fail-above compares an error, and {name} is a score; name another method")
        if self.on not in values:
            raise InputError(
                f"--on {self.on}: {name} has no range; wanted auto, or --replicates 200 for an interval, or --on error"
            )
        return values[self.on]

    def exceeded(self, estimate: Estimate) -> bool:
        """Whether the value is above the limit."""
        return self.value(estimate) > self.fail_above

    def sentence(self, estimate: Estimate) -> str:
        """What was compared, and the other two numbers."""
        from shiftgauge.results import percent, percent_range

        above = "above" if self.exceeded(estimate) else "not above"
        own = f"{self.on} {percent(self.value(estimate))} is {above} the limit of {100 * self.fail_above:g}%"
        ends = estimate.shown_range
        if ends is None:
            return own
        kind = "interval" if estimate.range is None else "range"
        error = f"error {percent(estimate.error or 0.0)}, " if self.on != "error" else ""
        return f"{own} ({error}{kind} {percent_range(ends.low, ends.high)})"

    def to_dict(self, estimate: Estimate) -> dict[str, Any]:
        """The limit and its result as plain values."""
        value = self.value(estimate)
        limit = {"method": estimate.method, "fail_above": self.fail_above, "on": self.on}
        above = {name: other > self.fail_above for name, other in _values(estimate).items()}
        return {**limit, "value": value, "exceeded": value > self.fail_above, "above": above}


def _values(estimate: Estimate) -> dict[str, float]:
    """What may be compared: the error, and both ends of the range, or else of the interval, if there is one."""
    if estimate.error is None:
        return {}
    ends = estimate.shown_range
    if ends is None:
        return {"error": estimate.error}
    return {"low": ends.low, "error": estimate.error, "ceiling": ends.high}


def parse_limit(fail_above: float | None, on: str) -> ErrorLimit | None:
    """The limit of these options, or None."""
    if on not in ON:
        raise InputError(f"--on {on}: wanted low, error or ceiling{nearest(on, ON)}")
    if fail_above is None:
        if on != "error":
            raise InputError(f"--on {on} says what --fail-above looks at; pass --fail-above too")
        return None
    return ErrorLimit(fail_above, on)
