"""`labelfree slices SOURCE TARGET --by COLUMN`: the error of each segment of the target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labelfree.cli import files, options
from labelfree.cli.screen import console, plain_table, warn, working
from labelfree.errors import InputError


@files.reads
def slices(
    source: files.SourceFile,
    target: files.TargetFile,
    by: Annotated[list[str], typer.Option("--by", help="A column (or .npz key) of slices; may be repeated")],
    groups: Annotated[
        Path | None, typer.Option(help="The file that holds these columns, where it is not TARGET itself")
    ] = None,
    method: options.OneMethod = None,
    calibration: files.Calibration = "temperature",
    marginal: options.GivenMarginal = None,
    level: files.Level = 0.95,
    replicates: Annotated[
        int, typer.Option(callback=files.at_least(20), help="Bootstrap replicates for the intervals")
    ] = 200,
    seed: files.Seed = 0,
    as_json: files.AsJson = False,
    *,
    reading: files.Reading,
) -> None:
    """Estimate the error of each slice of TARGET, with intervals that hold for all slices at once."""
    from labelfree.trust import slices as cut

    twice = next((name for name in by if by.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"--by {twice}: it was given twice; wanted different columns")
    with working() as say:
        known, unknown, _ = reading.both(source, target, say)
        columns = {name: files.column_of(groups or target, name, unknown.n) for name in by}
        say("resampling")
        found = cut(
            known,
            unknown,
            columns if len(columns) > 1 else columns[by[0]],
            method,
            calibration=calibration,
            marginal=None if marginal is None else files.marginal_of(marginal, known),
            level=level,
            replicates=replicates,
            seed=seed,
        )
    if as_json:
        typer.echo(found.to_json())
        return

    from labelfree.results import percent

    table = plain_table()
    table.add_column("slice")
    for column in ("error", "from", "to", "rows"):
        table.add_column(column, justify="right")
    table.add_column("")
    for s in found.slices:
        table.add_row(s.name, percent(s.error), percent(s.low), percent(s.high), f"{s.rows:,}", s.note)
    table.add_section()
    table.add_row("all", percent(found.error), "", "", f"{unknown.n:,}", "")
    out = console()
    out.print(table)
    out.print(f"from, to: {100 * found.level:g}% intervals, {found.kind}", style="dim")
    for warning in (*found.warnings, found.note):
        warn(out, warning)
