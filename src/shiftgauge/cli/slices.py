"""`shiftgauge slices SOURCE TARGET --by COLUMN`: the error of each segment of the target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftgauge.cli import files, options
from shiftgauge.cli.records import print_json
from shiftgauge.cli.screen import console, plain_table, warn, working
from shiftgauge.cli.words import now_called, spoken, unlike

if TYPE_CHECKING:
    from shiftgauge.inference import Slices


Data = Annotated[
    Path | None, typer.Option(help="The file that holds these columns, where it is not TARGET itself")
]


@files.reads
def slices(
    context: typer.Context,
    source: files.SourceFile,
    target: files.TargetFile,
    by: Annotated[
        list[str],
        typer.Option(
            "--by",
            help="TARGET's column (or .npz key) to slice by, times in bins: day:1d, :6h, :1week; may be repeated; "
            "where SOURCE has it too, intervals cover what the scores missed there",
        ),
    ],
    data: Data = None,
    method: options.OneMethod = None,
    calibration: files.Calibration = "temperature",
    marginal: options.GivenMarginal = None,
    proportions: options.Proportions = "unknown",
    level: files.Level = 0.95,
    replicates: Annotated[
        int, typer.Option(callback=files.at_least(20), help="Bootstrap replicates for the intervals")
    ] = 200,
    seed: files.Seed = 0,
    groups: options.Groups = None,
    source_groups: options.SourceGroups = None,
    as_json: files.AsJson = False,
    *,
    reading: files.ReadingOptions,
) -> None:
    """Estimate the error of each slice of TARGET, with intervals that hold for all slices at once."""
    from shiftgauge.inference import slices as estimate_slices
    from shiftgauge.rows import Rows

    if groups is not None and Path(groups).is_file():  # what --data was called
        data, groups = now_called("--groups FILE", "--data FILE", Path(groups), data), None
    names = unlike(by, "--by")
    with working() as say:
        known, unknown, _ = reading.both(source, target, say, whole=data is not None)
        columns = {name: files.column_of(data or target, name, unknown) for name in names}
        there, unread = files.on_source(source, names, known)
        say("resampling")
        found = estimate_slices(
            known,
            unknown,
            names if isinstance(unknown, Rows) else columns if len(columns) > 1 else columns[names[0]],
            method,
            calibration=calibration,
            marginal=None if marginal is None else files.marginal_of(marginal, known),
            proportions=proportions,
            level=level,
            replicates=replicates,
            seed=seed,
            groups=groups and files.column_of(target, groups, unknown),
            source_groups=source_groups and files.column_of(source, source_groups, known),
            source_by=None if len(there) < len(names) else there if len(there) > 1 else there[names[0]],
        )
        found = replace(found, warnings=(*found.warnings, *unread))
    if as_json:
        print_json(found.to_dict(), context, known, unknown)
    else:
        _print(found, unknown.n)


def _print(found: Slices, rows: int) -> None:
    from shiftgauge.results import percent

    table = plain_table()
    table.add_column("slice")
    for column in ("error", "from", "to", "rows"):
        table.add_column(column, justify="right")
    table.add_column("")
    for s in found.slices:
        table.add_row(s.name, percent(s.error), percent(s.low), percent(s.high), f"{s.rows:,}", s.note)
    table.add_row()
    table.add_row("all", percent(found.error), "", "", f"{rows:,}", "")
    out = console()
    out.print(table)
    out.print(f"from, to: {100 * found.level:g}%, {found.kind}", style="dim")
    for warning in (*found.warnings, found.note):
        warn(out, spoken(warning))
