"""`shiftgauge drivers SOURCE TARGET --by COLUMN`: which columns changed, and where the rise in error comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shiftgauge.cli import inputs as files
from shiftgauge.cli import options
from shiftgauge.cli.options import check_distinct
from shiftgauge.cli.records import print_json
from shiftgauge.cli.screen import console, print_table, print_warnings, show_progress
from shiftgauge.methods.range import RANGE_LEVEL
from shiftgauge.results import percent, points

if TYPE_CHECKING:
    from shiftgauge.inference import Driver, Drivers


@files.reads_files
def drivers(
    context: typer.Context,
    source: options.SourceFile,
    target: options.TargetFile,
    *,
    labelled: files.LabelOptions,
    by: Annotated[
        list[str],
        typer.Option("--by", help="A column (or .npz key) of both SOURCE and TARGET; may be repeated"),
    ],
    calibration: options.Calibration = "temperature",
    proportions: options.Proportions = "unknown",
    level: options.Level = RANGE_LEVEL,
    seed: options.Seed = 0,
    verbose: Annotated[
        bool, options.output_option("--verbose", "-v", help="Also print every slice of every column")
    ] = False,
    as_json: options.AsJson = False,
    inputs: files.InputOptions,
) -> None:
    """Show which columns changed, and split the rise in error into mix change and within-slice change."""
    from shiftgauge.inference import drivers as find_drivers

    names = check_distinct(by, "--by")
    with show_progress() as progress:
        samples = inputs.read(source, target, progress, labels=labelled, in_memory=True)
        columns = {
            name: (
                files.read_column(source, name, samples.source),
                files.read_column(target, name, samples.target),
            )
            for name in names
        }
        progress("slices")
        pair = samples.pair(calibration, "drivers", seed)
        result = find_drivers(pair, None, columns, proportions=proportions, level=level)
    if as_json:
        print_json(result.to_dict(), context, samples.source, samples.target)
    else:
        _print(result, verbose)


def _print(result: Drivers, verbose: bool) -> None:
    out = console()
    out.print(result.heading(), style="bold")
    print_table(out, *result.table_rows())
    for text in result.counts():
        out.print(text)
    out.print("change: Kolmogorov-Smirnov or total variation distance", style="dim")
    out.print("p: adjusted for the number of columns (Benjamini-Hochberg)", style="dim")
    out.print(f"mix, within-slice change: points of the rise, {100 * result.level:g}% ranges", style="dim")
    if verbose:
        for driver in result.columns:
            out.print()
            print_table(out, *_slices(driver))
    print_warnings(out, (*result.warnings, result.note))


def _slices(driver: Driver) -> tuple[list[str], list[list[str]]]:
    """The table of one column's slices."""
    rows = [
        [
            one.name,
            percent(one.source_share),
            percent(one.target_share),
            "" if one.source_error is None else percent(one.source_error),
            "" if one.error is None else percent(one.error),
            points(one.mix),
            points(one.within),
        ]
        for one in driver.slices
    ]
    head = [driver.column, "of source", "of target", "source error", "error", "mix", "within"]
    return head, rows
