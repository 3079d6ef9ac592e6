"""`--fail-above X --on error|ceiling|interval`: exit code 1 if the error of a method is above a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from shiftgauge.cli.options import output_option
from shiftgauge.errors import InputError, nearest

if TYPE_CHECKING:
    from shiftgauge.results import Estimate

ON = ("error", "ceiling", "interval")
FailAbove = Annotated[
    float | None, output_option(help="Exit with code 1 if the error is above this fraction")
]
On = Annotated[
    str,
    output_option(
        "--on",
        help="What --fail-above compares: error, ceiling (upper end of the range) or interval (of the bootstrap)",
    ),
]


@dataclass(frozen=True)
class ErrorLimit:
    """A limit for an estimate.

    Attributes:
        fail_above: the limit, a fraction.
        on: what it is compared with: `"error"`, `"ceiling"` or `"interval"`.
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
        if estimate.error is None:
            raise InputError(f"--fail-above compares an error, and {name} is a score; name another method")
        if self.on == "error":
            return estimate.error
        ends = estimate.range if self.on == "ceiling" else estimate.interval
        if ends is None:
            hint = "wanted auto, or --on interval" if self.on == "ceiling" else "pass --replicates 200"
            raise InputError(f"--on {self.on}: {name} has none here; {hint}, or --on error")
        return ends.high

    def exceeded(self, estimate: Estimate) -> bool:
        """Whether the value is above the limit."""
        return self.value(estimate) > self.fail_above

    def sentence(self, estimate: Estimate) -> str:
        """What was exceeded."""
        from shiftgauge.results import percent

        what = "" if self.on == "error" else f"'s {self.on}"
        value = percent(self.value(estimate))
        return f"{estimate.method}{what}, {value}, is above the limit of {100 * self.fail_above:g}%"

    def to_dict(self, estimate: Estimate) -> dict[str, Any]:
        """The limit and its result as plain values."""
        value = self.value(estimate)
        limit = {"method": estimate.method, "fail_above": self.fail_above, "on": self.on}
        return {**limit, "value": value, "exceeded": value > self.fail_above}


def parse_limit(fail_above: float | None, on: str) -> ErrorLimit | None:
    """The limit of these options, or None."""
    if on not in ON:
        raise InputError(f"--on {on}: wanted error, ceiling or interval{nearest(on, ON)}")
    if fail_above is None:
        if on != "error":
            raise InputError(f"--on {on} says what --fail-above compares; pass --fail-above too")
        return None
    return ErrorLimit(fail_above, on)
