"""`shiftgauge timeline SOURCE TARGET --time COLUMN --every week`: the error of each period of the target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shiftgauge.cli import inputs as files
from shiftgauge.cli import options
from shiftgauge.cli.records import print_json
from shiftgauge.cli.screen import console, print_table, print_warnings, show_progress
from shiftgauge.methods.range import RANGE_LEVEL

if TYPE_CHECKING:
    from shiftgauge.over_time import Timeline

Time = Annotated[
    str | None, typer.Option("--time", help="TARGET's column (or .npz key) of times: ISO dates or Unix times")
]
Every = Annotated[
    str,
    typer.Option(help="hour, day, week, month, several such as 6h, or '1000 rows', which needs no --time"),
]
Zone = Annotated[
    str | None, typer.Option(help="Time zone of the periods, such as Europe/Berlin", show_default="UTC")
]


@files.reads_files
def timeline(
    context: typer.Context,
    source: options.SourceFile,
    target: options.TargetFile,
    *,
    labelled: files.CheckOptions,
    time: Time = None,
    every: Every = "week",
    zone: Zone = None,
    method: options.Method = "auto",
    calibration: options.Calibration = "temperature",
    proportions: options.Proportions = "unknown",
    level: options.Level = RANGE_LEVEL,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    inputs: files.InputOptions,
) -> None:
    """Estimate the error of each period of TARGET, with ranges, and with the observed error where labels are."""
    from shiftgauge import over_time

    labelled.check_method(method)
    with show_progress() as progress:
        samples = inputs.read(source, target, progress, labels=labelled, in_memory=True)
        with samples.files_in_errors():
            result = over_time.timeline(
                samples.source,
                samples.target,
                time and files.read_column(target, time, samples.target),
                every,
                labels=samples.labels,
                labels_chosen=samples.labels_chosen,
                truth=samples.truth,
                zone=zone,
                method=method,
                calibration=calibration,
                proportions=proportions,
                level=level,
                seed=seed,
                progress=progress,
            )
    if as_json:
        print_json(result.to_dict(), context, samples.source, samples.target)
    else:
        _print(result)


def _print(result: Timeline) -> None:
    out = console()
    out.print(result.heading(), style="bold")
    print_table(out, *result.table_rows())
    print_warnings(out, result.warnings)
