"""`labelfree backtest SOURCE`: how far would each method have missed on your own labelled rows?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from labelfree.cli import files
from labelfree.cli.screen import console, plain_table, warn

if TYPE_CHECKING:
    from labelfree.trust import Backtest


@files.reads
def backtest(
    source: files.SourceFile,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", "-m", help="A method to try; may be repeated", show_default=False),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option(
            help="A column (or .npz key) of SOURCE: each group is a target; may be repeated",
            show_default=False,
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="A column of SOURCE, numbers or ISO dates: the later half is a target"),
    ] = None,
    calibration: files.Calibration = "temperature",
    repeats: Annotated[int, typer.Option(callback=files.at_least(1), help="Random splits")] = 2,
    replicates: Annotated[
        int,
        typer.Option(
            help="Bootstrap replicates to check the intervals with; 0 for none, which is much faster"
        ),
    ] = 0,
    seed: files.Seed = 0,
    as_json: files.AsJson = False,
    *,
    reading: files.Reading,
) -> None:
    """Split SOURCE, make shifts of several kinds from one half, and report each method's miss."""
    from labelfree.trust import backtest as look_back
    from labelfree.trust.backtests import METHODS
    from labelfree.trust.columns import row_times

    known = reading.source(source)
    columns = {name: files.column_of(source, name, known.n) for name in groups or []}
    times = None
    if time is not None:
        times = row_times(files.column_of(source, time, known.n), known.n, f"{source}: {time!r}")
    with _bar() as step:
        found = look_back(
            known,
            methods=method or METHODS,
            groups=columns or None,
            times=times,
            calibration=calibration,
            repeats=repeats,
            replicates=replicates,
            seed=seed,
            progress=step,
        )
    if as_json:
        typer.echo(found.to_json())
    else:
        _print(found)


@contextmanager
def _bar() -> Iterator[Callable[[str, float], None]]:
    """A progress bar on stderr, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda what, share: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("backtest", total=1.0)
        yield lambda what, share: bar.update(task, completed=share, description=what)


def _print(found: Backtest) -> None:
    rows = found.table()
    methods = list(dict.fromkeys(row["method"] for row in rows))
    table = plain_table(title="mean miss (worst), in points")
    table.add_column("kind of shift")
    for method in methods:
        table.add_column(method, justify="right")
    for kind in dict.fromkeys(row["kind"] for row in rows):
        cells = []
        for method in methods:
            row = next(r for r in rows if r["kind"] == kind and r["method"] == method)
            held = "" if row["coverage"] is None else f" {100 * row['coverage']:.0f}%"
            cells.append(f"{100 * row['mean_miss']:.1f} ({100 * row['worst_miss']:.0f}){held}")
        table.add_row(kind, *cells)
    out = console()
    out.print(table)
    if found.verdict:
        out.print(found.verdict, style="bold")
    for warning in found.warnings:
        warn(out, warning)
