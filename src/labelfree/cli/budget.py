"""`labelfree budget SOURCE TARGET`: which rows to label, and the error once they are labelled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelfree.cli import files
from labelfree.cli.screen import console, plain_table, working
from labelfree.errors import FileError, InputError

if TYPE_CHECKING:
    from labelfree.trust import Plan


@files.reads
def budget(
    source: files.SourceFile,
    target: files.TargetFile,
    margin: Annotated[float, typer.Option(help="The half-width wanted, a fraction")] = 0.02,
    level: files.Level = 0.95,
    count: Annotated[int | None, typer.Option(help="Buy so many labels instead of reaching a margin")] = None,
    rows: Annotated[
        Path | None, typer.Option(help="Write the rows to label to this .csv .parquet .arrow .npz")
    ] = None,
    labelled: Annotated[
        Path | None,
        typer.Option(
            help="The rows file with a column 'label' filled in: estimate the error from it (same --seed)"
        ),
    ] = None,
    weight: Annotated[str, typer.Option(help="How far to rely on the doubts: a number, or 'fitted'")] = "1.0",
    calibration: files.Calibration = "temperature",
    marginal: files.MarginalName = "source",
    seed: files.Seed = 0,
    as_json: files.AsJson = False,
    *,
    reading: files.Reading,
) -> None:
    """Plan which rows of TARGET to label so that the error is known to +- MARGIN, or use their labels."""
    from labelfree import io
    from labelfree.io.write import check_ending
    from labelfree.trust import budget as plan_labels

    if rows is not None:
        check_ending(rows)
        files.refuse_overwriting(rows, [source, target, reading.labels, labelled])
    with working() as say:
        known, unknown, _ = reading.both(source, target, say, labelled)
        say("planning")
        plan = plan_labels(
            known,
            unknown,
            margin=margin,
            level=level,
            labels=count,
            calibration=calibration,
            marginal=files.marginal_of(marginal, known),
            seed=seed,
        )
        if rows is not None:
            io.write_table(rows, plan.table())
    if labelled is not None:
        _estimate(plan, unknown, labelled, weight, reading.label_column, as_json)
    elif as_json:
        typer.echo(plan.to_json())
    else:
        _print(plan, rows)


def _print(plan: Plan, rows: Path | None) -> None:
    from labelfree.results import percent

    out = console()
    out.print(
        f"label {len(plan.rows):,} rows for +-{percent(plan.margin)} at {percent(plan.level)}; "
        f"plain sampling would need {plan.plain:,}; expected error {percent(plan.expected)}"
    )
    table = plain_table()
    for column in ("stratum", "rows", "labels", "error probability"):
        table.add_column(column, justify="right")
    for number, s in enumerate(plan.to_dict()["strata"]):
        table.add_row(str(number), f"{s['rows']:,}", f"{s['labels']:,}", percent(s["error_probability"]))
    out.print(table)
    where = "write them with --rows FILE" if rows is None else f"they are in {rows}"
    out.print(f"the rows to label: {where}; add a column 'label' and come back with --labelled FILE")


def _estimate(plan: Plan, target: Any, path: Path, weight: str, column: str, as_json: bool) -> None:
    from labelfree import io
    from labelfree.trust import with_labels
    from labelfree.trust.budget import as_mapping

    numbers = io.read_column(path, "row")
    values = io.read_column(path, column if path.suffix != ".npz" else "label")
    if target.classes is not None:
        values = [None if v is None or v == "" else str(v) for v in values]
    try:
        how: float | str = weight if weight == "fitted" else float(weight)
    except ValueError:
        raise InputError(f"--weight {weight}: wanted a number such as 1.0, or 'fitted'") from None
    try:
        bought = as_mapping(numbers, list(values))
    except (TypeError, ValueError, OverflowError) as problem:
        raise FileError(f"{path}: 'row' must hold the row numbers that --rows wrote ({problem})") from None
    found = with_labels(plan, target, bought, weight=how)
    typer.echo(found.to_json() if as_json else repr(found))
