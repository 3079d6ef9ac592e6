"""`shiftgauge backtest SOURCE`: how far would each method have missed on your own labelled rows?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftgauge.cli import files
from shiftgauge.cli.records import print_json
from shiftgauge.cli.screen import console, plain_table, warn, working
from shiftgauge.cli.words import now_called, spoken, unlike

if TYPE_CHECKING:
    from shiftgauge.inference import Backtest

Time = Annotated[
    str | None,
    typer.Option(help="A column of SOURCE, numbers or ISO dates: later rows are targets for earlier ones"),
]
Replicates = Annotated[
    int,
    typer.Option(help="Bootstrap replicates to check the intervals with; 0 for none, which is much faster"),
]


@files.reads
def backtest(
    context: typer.Context,
    source: files.SourceFile,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "-m",
            help="A method to try; may be repeated; see shiftgauge methods",
            show_default="ac, atc-ne, cott, scot, label-shift, auto",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="A column (or .npz key) of SOURCE: each group is a target for the others; may be repeated",
        ),
    ] = None,
    time: Time = None,
    calibration: files.Calibration = "temperature",
    repeats: Annotated[int, typer.Option(callback=files.at_least(1), help="Random splits")] = 2,
    replicates: Replicates = 0,
    seed: files.Seed = 0,
    as_json: files.AsJson = False,
    groups: Annotated[list[str] | None, typer.Option(hidden=True)] = None,
    *,
    reading: files.ReadingOptions,
) -> None:
    """Hide SOURCE's labels, by --by and --time and under made shifts, and report each method's miss."""
    from shiftgauge.inference import backtest as look_back
    from shiftgauge.inference.columns import row_times

    columns = unlike(now_called("--groups", "--by", groups, by), "--by")
    with working() as say:
        known = reading.source(source)
        times = None
        if time is not None:
            times = row_times(files.column_of(source, time, known), known.n, f"{source}: {time!r}")
        found = look_back(
            known,
            methods=method or None,
            by={name: files.column_of(source, name, known) for name in columns} or None,
            time=times,
            calibration=calibration,
            repeats=repeats,
            replicates=replicates,
            seed=seed,
            progress=say,
        )
    if as_json:
        print_json(found.to_dict(), context, known)
    else:
        _print(found)


def _print(found: Backtest) -> None:
    rows = found.table()
    methods = list(dict.fromkeys(row["method"] for row in rows))
    table = plain_table(title="mean miss (worst), in points")
    table.add_column("kind of shift")
    for method in methods:
        table.add_column(method, justify="right")
    last = None
    for kind in dict.fromkeys(row["kind"] for row in rows):
        mine = {row["method"]: row for row in rows if row["kind"] == kind}
        natural = mine[methods[0]]["natural"]
        if last and not natural:  # the user's own come first
            table.add_row()
        table.add_row(kind, *(_cell(mine[method]) for method in methods))
        last = natural
    out = console()
    if found.verdict:
        out.print(spoken(found.verdict), style="bold")
    out.print(table)
    for warning in found.warnings:
        warn(out, spoken(warning))


def _cell(row: dict[str, Any]) -> str:
    coverage = "" if row["coverage"] is None else f" {100 * row['coverage']:.0f}%"
    return f"{100 * row['mean_miss']:.1f} ({100 * row['worst_miss']:.0f}){coverage}"
