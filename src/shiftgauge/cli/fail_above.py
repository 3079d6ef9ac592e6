"""`--fail-above X --on low|error|ceiling`: exit code 1 if the error of a method is above a limit."""

from __future__ import annotations

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


def check_limit(fail_above: float | None, on: str) -> None:
    """Refuse a limit that is no fraction, and one option without the other."""
    if on not in ON:
        raise InputError(f"--on {on}: wanted low, error or ceiling{nearest(on, ON)}")
    if fail_above is None:
        if on != "error":
            raise InputError(f"--on {on} says what --fail-above looks at; pass --fail-above too")
    elif not 0 <= fail_above <= 1:
        hint = f"; did you mean {fail_above / 100:g}?" if 1 < fail_above <= 100 else ""
        raise InputError(f"--fail-above {fail_above:g}: wanted a fraction from 0 to 1{hint}")


def compare_with_limit(estimate: Estimate, fail_above: float, on: str) -> dict[str, Any]:
    """The limit, the value that is compared with it, and which numbers of the estimate are above it."""
    name, ends = estimate.method, estimate.shown_range
    if estimate.error is None:
        raise InputError(f"--fail-above compares an error, and {name} is a score; name another method")
    values = {"error": estimate.error}
    if ends is not None:
        values = {"low": ends.low, **values, "ceiling": ends.high}
    if on not in values:
        raise InputError(
            f"--on {on}: {name} has no range; wanted auto, or --replicates 200 for an interval, or --on error"
        )
    above = {number: value > fail_above for number, value in values.items()}
    return {
        "method": name,
        "fail_above": fail_above,
        "on": on,
        "value": values[on],
        "exceeded": above[on],
        "above": above,
    }


def limit_sentence(limit: dict[str, Any], estimate: Estimate) -> str:
    """What was compared, and the other numbers."""
    from shiftgauge.results import percent, percent_range

    on, above = limit["on"], "above" if limit["exceeded"] else "not above"
    own = f"{on} {percent(limit['value'])} is {above} the limit of {100 * limit['fail_above']:g}%"
    ends = estimate.shown_range
    if ends is None:
        return own
    kind = "interval" if estimate.range is None else "range"
    error = f"error {percent(estimate.error or 0.0)}, " if on != "error" else ""
    return f"{own} ({error}{kind} {percent_range(ends.low, ends.high)})"
