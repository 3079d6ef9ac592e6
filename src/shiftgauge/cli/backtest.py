"""`shiftgauge backtest SOURCE`: the error of each method on shifts of your own labelled rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftgauge.cli import inputs as files
from shiftgauge.cli import options
from shiftgauge.cli.options import check_distinct
from shiftgauge.cli.records import print_json
from shiftgauge.cli.screen import (
    console,
    print_lines,
    print_warnings,
    print_wide_table,
    show_progress,
    use_option_names,
    wrapped,
)

if TYPE_CHECKING:
    from shiftgauge.inference import Backtest

Time = Annotated[
    str | None,
    typer.Option(help="A column of SOURCE, numbers or ISO dates: later rows are targets for earlier ones"),
]


@files.reads_files
def backtest(
    context: typer.Context,
    source: options.SourceFile,
    *,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "-m",
            help=f"{options.METHOD_HELP}; may be repeated",
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
    calibration: options.Calibration = "temperature",
    repeats: Annotated[int, typer.Option(callback=options.at_least(1), help="Random splits")] = 2,
    replicates: options.Replicates = 0,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    inputs: files.InputOptions,
) -> None:
    """Split SOURCE by --by, by --time and by synthetic shifts, and report each method's error without the labels."""
    from shiftgauge.inference import backtest as run_backtest
    from shiftgauge.inference.columns import row_times

    columns = check_distinct(by, "--by")
    with show_progress() as progress:
        sample = inputs.read_source(source)
        times = None
        if time is not None:
            times = row_times(files.read_column(source, time, sample), sample.n, f"{source}: {time!r}")
        result = run_backtest(
            sample,
            methods=method or None,
            by={name: files.read_column(source, name, sample) for name in columns} or None,
            time=times,
            calibration=calibration,
            repeats=repeats,
            replicates=replicates,
            seed=seed,
            progress=progress,
        )
    if as_json:
        print_json(result.to_dict(), context, sample)
    else:
        _print(result)


def _print(result: Backtest) -> None:
    rows = result.table()
    out = console()
    if result.recommendation:
        print_lines(out, wrapped("", use_option_names(result.recommendation), "  "), "bold")
    out.print("mean absolute error (largest), in percentage points")
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cells = {(row["kind"], row["method"]): _cell(row) for row in rows}
    kinds = {row["kind"]: row["natural"] for row in rows}
    own, made = (
        [[kind, *(cells[kind, method] for method in methods)] for kind in kinds if kinds[kind] == natural]
        for natural in (True, False)
    )
    between = [[""] * (1 + len(methods))] if own and made else []
    print_wide_table(out, ["kind of shift", *methods], [*own, *between, *made])
    print_warnings(out, result.warnings)


def _cell(row: dict[str, Any]) -> str:
    coverage = "" if row["coverage"] is None else f" {100 * row['coverage']:.0f}%"
    return f"{100 * row['mean_miss']:.1f} ({100 * row['worst_miss']:.0f}){coverage}"
