"""`shiftgauge doctor SOURCE TARGET`: every reason not to believe the number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from shiftgauge.cli import files, options
from shiftgauge.cli.records import print_json
from shiftgauge.cli.screen import console, plain_table, warn, working
from shiftgauge.cli.words import spoken

if TYPE_CHECKING:
    from shiftgauge.inference import Diagnosis

STYLES = {"ok": "green", "caution": "yellow", "stop": "bold red"}


@files.reads
def doctor(
    context: typer.Context,
    source: files.SourceFile,
    target: files.TargetFile,
    calibration: files.Calibration = "temperature",
    proportions: options.Proportions = "unknown",
    seed: files.Seed = 0,
    as_json: files.AsJson = False,
    *,
    reading: files.ReadingOptions,
) -> None:
    """Check SOURCE and TARGET for everything that makes an estimate untrustworthy; exit code 1 on stop."""
    from shiftgauge.inference import doctor as diagnose

    with working() as say:
        known, unknown, _ = reading.both(source, target, say)
        found = diagnose(
            known, unknown, calibration=calibration, proportions=proportions, seed=seed, progress=say
        )
    if as_json:
        print_json(found.to_dict(), context, known, unknown)
    else:
        _print(found)
    if found.status == "stop":
        raise typer.Exit(1)


def _print(found: Diagnosis) -> None:
    from rich.text import Text

    out = console()
    out.print(f"verdict: {found.sentence}", style=STYLES[found.status])
    table = plain_table()
    for column in ("status", "check", "what it means, and what to do"):
        table.add_column(column)
    for check in found.ranked:
        style = STYLES[check.status]
        table.add_row(Text(check.status, style=style), check.name, Text(spoken(check.meaning)))
        if check.advice:
            table.add_row("", "", Text(f"-> {spoken(check.advice)}", style=style))
    out.print(table)
    for warning in found.warnings:
        warn(out, spoken(warning))
