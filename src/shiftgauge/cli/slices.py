"""`shiftgauge slices SOURCE TARGET --by COLUMN`: the error of each segment of the target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftgauge.cli import inputs as files
from shiftgauge.cli import options
from shiftgauge.cli.options import check_distinct
from shiftgauge.cli.records import print_json
from shiftgauge.cli.screen import console, print_lines, print_table, print_warnings, show_progress, wrapped
from shiftgauge.methods.range import RANGE_LEVEL

if TYPE_CHECKING:
    from shiftgauge.inference import Slices


ByFile = Annotated[
    Path | None, options.data_option(help="The file with the columns of --by, if it is not TARGET")
]


@files.reads_files
def slices(
    context: typer.Context,
    source: options.SourceFile,
    target: options.TargetFile,
    *,
    labelled: files.LabelOptions,
    by: Annotated[
        list[str],
        typer.Option(
            "--by",
            help="TARGET's column (or .npz key) to slice by, times in bins: day:1d, :6h, :1week; may be repeated; "
            "if SOURCE has it too, intervals include the error of the scores there",
        ),
    ],
    method: options.PosteriorMethod = None,
    calibration: options.Calibration = "temperature",
    marginal: options.OptionalMarginal = None,
    proportions: options.Proportions = "unknown",
    level: options.Level = RANGE_LEVEL,
    replicates: options.IntervalReplicates = 200,
    seed: options.Seed = 0,
    groups: options.Groups = None,
    source_groups: options.SourceGroups = None,
    as_json: options.AsJson = False,
    by_file: ByFile = None,
    inputs: files.InputOptions,
) -> None:
    """Estimate the error of each slice of TARGET, with its range."""
    from shiftgauge.inference import slices as estimate_slices
    from shiftgauge.rows import Rows

    names = check_distinct(by, "--by")
    labelled.check_method(method, marginal=marginal)
    with show_progress() as progress:
        samples = inputs.read(source, target, progress, labels=labelled, in_memory=by_file is not None)
        source_sample, target_sample = samples.source, samples.target
        columns = {name: files.read_column(by_file or target, name, target_sample) for name in names}
        on_source, warnings = files.source_columns(source, names, source_sample)
        progress("resampling")
        result = estimate_slices(
            samples.pair(calibration, "slices", seed),
            None,
            names if isinstance(target_sample, Rows) else _alone_if_one(columns),
            method,
            marginal=None if marginal is None else files.read_marginal(marginal, source_sample),
            proportions=proportions,
            level=level,
            replicates=replicates,
            seed=seed,
            groups=groups and files.read_column(target, groups, target_sample),
            source_groups=source_groups and files.read_column(source, source_groups, source_sample),
            source_by=None if len(on_source) < len(names) else _alone_if_one(on_source),
        )
        result = replace(result, warnings=(*result.warnings, *warnings))
    if as_json:
        print_json(result.to_dict(), context, source_sample, target_sample)
    else:
        _print(result, target_sample.n)


def _alone_if_one(columns: dict[str, Any]) -> Any:
    """A single column by itself: its slices are named by their values alone."""
    return columns if len(columns) > 1 else next(iter(columns.values()))


def _print(result: Slices, rows: int) -> None:
    from shiftgauge.results import percent

    lines = [
        (s.name, percent(s.error), percent(s.low), percent(s.high), f"{s.rows:,}", s.note)
        for s in result.slices
    ]
    lines.append(("all", percent(result.error), "", "", f"{rows:,}", ""))
    out = console()
    print_table(out, ("slice", "error", "from", "to", "rows", ""), lines)
    print_lines(out, wrapped("", f"from, to: {100 * result.level:g}%, {result.kind}", "  "), "dim")
    print_warnings(out, (*result.warnings, result.note))
