"""`shiftgauge warm-up`: compile the solvers now, so that no later run has to."""

from __future__ import annotations

from shiftgauge.cli import options
from shiftgauge.cli.records import echo_json
from shiftgauge.cli.screen import console, show_progress
from shiftgauge.errors import ShiftgaugeError


def warm_up(as_json: options.AsJson = False) -> None:
    """Compile the solvers and keep the machine code: for container images, and before the first call of a service."""
    from shiftgauge.transport import warm_up as compiled

    with show_progress() as progress:
        folder = compiled(progress=progress)
    if folder is None:
        raise ShiftgaugeError(
            "warm-up: no folder to keep the machine code in; set NUMBA_CACHE_DIR to one that can be written"
        )
    if as_json:
        echo_json({"cache": str(folder)})
    else:
        console().print(f"compiled; kept in {folder}")
