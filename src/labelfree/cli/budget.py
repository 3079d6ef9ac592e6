"""`labelfree budget SOURCE TARGET`: which rows to label, and the error once they are labelled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelfree.cli import files
from labelfree.cli.screen import console, plain_table, working
from labelfree.errors import FileError, InputError

if TYPE_CHECKING:
    from labelfree.io import Form
    from labelfree.trust import Plan
    from labelfree.types import Target


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
            help="The rows file with labels added: estimate the error from it; --margin, --count and --seed "
            "do not matter then"
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
    from labelfree.trust import Plan, with_labels
    from labelfree.trust import budget as plan_labels

    relied = _weight(weight)
    if rows is not None:
        check_ending(rows)
        files.refuse_overwriting(rows, [source, target, reading.labels, labelled, marginal])
        if labelled is not None:
            raise InputError("--rows writes a plan and --labelled uses one; wanted one of the two")
    with working() as say:
        known, unknown, _ = reading.both(source, target, say, labelled)
        shares = files.marginal_of(marginal, known)
        if labelled is None:
            say("planning")
            plan = plan_labels(
                known,
                unknown,
                margin=margin,
                level=level,
                labels=count,
                calibration=calibration,
                marginal=shares,
                seed=seed,
            )
            if rows is not None:
                io.write_table(rows, plan.table())
        else:
            say(f"reading {labelled}")
            form = reading.form(source, target, reading.labels, labelled)
            table, bought = _returned(labelled, form, unknown)
            plan = Plan.from_table(
                table,
                known,
                unknown,
                level=level,
                calibration=calibration,
                marginal=shares,
                what=str(labelled),
            )
            try:
                found = with_labels(plan, unknown, bought, weight=relied)
            except InputError as problem:
                raise FileError(f"{labelled}: {problem}") from None
    if labelled is not None:
        typer.echo(found.to_json() if as_json else repr(found))
    elif as_json:
        typer.echo(plan.to_json())
    else:
        _print(plan, rows, reading.label_column)


def _weight(text: str) -> float | str:
    if text == "fitted":
        return text
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"--weight {text}: wanted a number such as 1.0, or 'fitted'")
    return number


def _print(plan: Plan, rows: Path | None, column: str) -> None:
    from labelfree.results import percent

    out = console()
    out.print(repr(plan))
    table = plain_table()
    for heading in ("stratum", "rows", "labels", "error probability"):
        table.add_column(heading, justify="right")
    for number, s in enumerate(plan.to_dict()["strata"]):
        table.add_row(str(number), f"{s['rows']:,}", f"{s['labels']:,}", percent(s["error_probability"]))
    out.print(table)
    where = "write them with --rows FILE" if rows is None else f"they are in {rows}"
    what = "an array 'labels'" if rows is not None and rows.suffix == ".npz" else f"a column {column!r}"
    out.print(f"the rows to label: {where}; add {what} and come back with --labelled FILE")


def _returned(path: Path, form: Form, target: Target) -> tuple[dict[str, Any], Mapping[int, Any]]:
    """The picks that the file lists, as `Plan.table` has them, and the labels by row number."""
    import numpy as np

    from labelfree import io
    from labelfree.trust.columns import is_missing
    from labelfree.trust.labelling import as_mapping, row_numbers

    numbers = io.read_column(path, "row")
    values = _labels(path, form, target)
    if np.ndim(numbers) != 1 or np.shape(values) != np.shape(numbers):
        raise FileError(
            f"{path}: rows and labels have the shapes {np.shape(numbers)} and {np.shape(values)}; wanted one each"
        )
    # Spreadsheets leave blank lines behind.
    kept = [i for i, row in enumerate(numbers) if not is_missing(row)]
    lost = next((v for i, v in enumerate(values) if is_missing(numbers[i]) and not is_missing(v)), None)
    if lost is not None:
        raise FileError(f"{path}: a label, {lost}, stands without its row number; wanted both")
    rows = row_numbers([numbers[i] for i in kept], str(path)).tolist()
    table: dict[str, Any] = {"row": rows}
    for name in ("stratum", "inclusion_probability", "error_probability"):
        try:
            column = io.read_column(path, name)
        except FileError:  # the plan says what it cannot do without
            continue
        table[name] = [column[i] for i in kept]
    return table, as_mapping(rows, [values[i] for i in kept])


def _labels(path: Path, form: Form, target: Target) -> Any:
    """The labels of a table's column, or of an array 'labels' or 'label'; as text where classes have names."""
    from labelfree import io

    if io.is_table(path):
        return io.read_labels(path, form, target.classes)
    try:
        values = io.read_column(path, "label")
    except FileError:
        values = io.read_labels(path, form, target.classes)
    return values if target.classes is None else [None if v is None else str(v) for v in values]
