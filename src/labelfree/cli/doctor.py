"""`labelfree doctor SOURCE TARGET`: every reason not to believe the number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from labelfree.cli import files
from labelfree.cli.screen import console, plain_table, working

if TYPE_CHECKING:
    from labelfree.trust import Diagnosis

STYLES = {"ok": "green", "caution": "yellow", "stop": "bold red"}


@files.reads
def doctor(
    source: files.SourceFile,
    target: files.TargetFile,
    calibration: files.Calibration = "temperature",
    seed: files.Seed = 0,
    as_json: files.AsJson = False,
    *,
    reading: files.Reading,
) -> None:
    """Check SOURCE and TARGET for everything that makes an estimate untrustworthy; exit code 1 on stop."""
    from labelfree.trust import doctor as examine

    with working() as say:
        known, unknown, _ = reading.both(source, target, say)
        found = examine(known, unknown, calibration=calibration, seed=seed, progress=say)
    if as_json:
        typer.echo(found.to_json())
    else:
        _print(found)
    if found.status == "stop":
        raise typer.Exit(1)


def _print(found: Diagnosis) -> None:
    from rich.text import Text

    from labelfree.trust.diagnosis import shown

    table = plain_table()
    for column in ("status", "check", "measured", "what it means, and what to do"):
        table.add_column(column, justify="right" if column == "measured" else "left")
    for check in found.checks:
        style = STYLES[check.status]
        table.add_row(Text(check.status, style=style), check.name, shown(check.value), Text(check.meaning))
        if check.advice:
            table.add_row("", "", "", Text(f"-> {check.advice}", style=style))
    out = console()
    out.print(table)
    out.print(f"verdict: {found.status}", style=STYLES[found.status])
