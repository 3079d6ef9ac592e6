"""`shiftgauge doctor SOURCE TARGET`: every reason not to trust the estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from shiftgauge.cli import inputs as files
from shiftgauge.cli import options
from shiftgauge.cli.options import use_option_names
from shiftgauge.cli.records import print_json
from shiftgauge.cli.screen import console, plain_table, show_progress, warn

if TYPE_CHECKING:
    from shiftgauge.inference import Diagnosis

STYLES = {"ok": "green", "caution": "yellow", "stop": "bold red"}


@files.reads_files
def doctor(
    context: typer.Context,
    source: options.SourceFile,
    target: options.TargetFile,
    calibration: options.Calibration = "temperature",
    proportions: options.Proportions = "unknown",
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    *,
    labelled: files.LabelOptions,
    inputs: files.InputOptions,
) -> None:
    """Check SOURCE and TARGET for everything that makes an estimate untrustworthy; exit code 1 on stop."""
    from shiftgauge.inference import doctor as diagnose

    with show_progress() as progress:
        samples = inputs.read(source, target, progress, labels=labelled)
        pair = samples.pair(calibration, "doctor", seed)
        with samples.files_in_errors():
            diagnosis = diagnose(pair, proportions=proportions, seed=seed, progress=progress)
    if as_json:
        print_json(diagnosis.to_dict(), context, samples.source, samples.target)
    else:
        _print(diagnosis)
    if diagnosis.status == "stop":
        raise typer.Exit(1)


def _print(diagnosis: Diagnosis) -> None:
    from rich.text import Text

    out = console()
    out.print(f"verdict: {diagnosis.sentence}", style=STYLES[diagnosis.status])
    table = plain_table()
    for column in ("status", "check", "what it means, and what to do"):
        table.add_column(column)
    for check in diagnosis.ranked:
        style = STYLES[check.status]
        table.add_row(Text(check.status, style=style), check.name, Text(use_option_names(check.meaning)))
        if check.advice:
            table.add_row("", "", Text(f"-> {use_option_names(check.advice)}", style=style))
    out.print(table)
    for warning in diagnosis.warnings:
        warn(out, use_option_names(warning))
