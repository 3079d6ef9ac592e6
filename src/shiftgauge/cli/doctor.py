"""`shiftgauge doctor SOURCE TARGET`: every reason not to trust the estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from shiftgauge.cli import inputs as files
from shiftgauge.cli import options
from shiftgauge.cli.records import print_json
from shiftgauge.cli.screen import console, print_warnings, show_progress, use_option_names, wrapped

if TYPE_CHECKING:
    from rich.console import Console

    from shiftgauge.inference import Diagnosis

STYLES = {"ok": "green", "caution": "yellow", "stop": "bold red"}


@files.reads_files
def doctor(
    context: typer.Context,
    source: options.SourceFile,
    target: options.TargetFile,
    *,
    labelled: files.LabelOptions,
    calibration: options.Calibration = "temperature",
    proportions: options.Proportions = "unknown",
    seed: options.Seed = 0,
    verbose: options.Verbose = False,
    as_json: options.AsJson = False,
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
        _print(diagnosis, verbose)
    if diagnosis.status == "stop":
        raise typer.Exit(1)


def _print(diagnosis: Diagnosis, verbose: bool) -> None:
    """Print the status, and what is not ok with what to do about it; every check if verbose."""
    out = console()
    for line in wrapped("", diagnosis.sentence, " " * 9):
        out.print(line, style=STYLES[diagnosis.status])
    shown = diagnosis.ranked if verbose else [c for c in diagnosis.ranked if c.status != "ok"]
    for check in shown:
        meaning = f"{check.name}: {use_option_names(check.meaning)}"
        _print_lines(out, f"{check.status:<9}", meaning, STYLES[check.status])
        if check.advice:
            _print_lines(out, f"{'':<9}-> ", use_option_names(check.advice))
    fine = [check.name for check in diagnosis.ranked if check.status == "ok"]
    if fine and not verbose:
        _print_lines(out, f"{'ok':<9}", f"{', '.join(fine)} (--verbose says what was measured)")
    print_warnings(out, diagnosis.warnings)


def _print_lines(out: Console, head: str, text: str, style: str = "") -> None:
    """Print a wrapped text behind a word in a style of its own."""
    from rich.text import Text

    for number, line in enumerate(wrapped(head, text)):
        shown = Text(line)
        if number == 0 and style:
            shown.stylize(style, 0, len(head))
        out.print(shown)
