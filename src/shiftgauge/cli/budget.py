"""`shiftgauge budget SOURCE TARGET`: which rows to label, and the error once they are labelled."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftgauge.cli import files, options
from shiftgauge.cli.records import print_json
from shiftgauge.cli.screen import console, plain_table, warn, working
from shiftgauge.cli.words import spoken
from shiftgauge.errors import FileError, InputError

if TYPE_CHECKING:
    from shiftgauge.inference import Labelled, Plan
    from shiftgauge.io import ReadOptions
    from shiftgauge.samples import Source, Target


@files.reads
def budget(
    context: typer.Context,
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
    weight: Annotated[
        str, typer.Option(help="How far to rely on the error probabilities: a number, or 'fitted'")
    ] = "1.0",
    calibration: files.Calibration = "temperature",
    marginal: options.GivenMarginal = None,
    seed: files.Seed = 0,
    as_json: files.AsJson = False,
    *,
    reading: files.ReadingOptions,
) -> None:
    """Plan which rows of TARGET to label so that the error is known to +- MARGIN, or use their labels."""
    from shiftgauge import io
    from shiftgauge.inference import budget as plan_labels

    relied = _weight(weight)
    _check_rows(rows, labelled, [source, target, reading.labels, labelled, marginal])
    from shiftgauge.samples import Target

    with working() as say:
        known, unknown, _ = reading.both(source, target, say, labelled, whole=True)
        assert isinstance(unknown, Target)  # it was asked for whole
        shared: dict[str, Any] = {
            "level": level,
            "calibration": calibration,
            "marginal": None if marginal is None else files.marginal_of(marginal, known),
        }
        if labelled is not None:
            say(f"reading {labelled}")
            form = reading.form(source, target, reading.labels, labelled)
            found: Labelled | Plan = _bought(labelled, form, known, unknown, relied, shared)
        else:
            say("planning")
            found = plan_labels(known, unknown, margin=margin, count=count, seed=seed, **shared)
            if rows is not None:
                io.write_table(rows, found.table(unknown.ids))
    if as_json:
        print_json(_document(found, unknown), context, known, unknown)
    else:
        _print(found, rows, reading.label_column)


def _check_rows(rows: Path | None, labelled: Path | None, inputs: list[Any]) -> None:
    """Refuse an output that cannot be, or that would take the place of an input, before any work."""
    from shiftgauge.io.write import check_ending

    if rows is None:
        return
    check_ending(rows)
    files.refuse_overwriting(rows, inputs)
    if labelled is not None:
        raise InputError("--rows writes a plan and --labelled uses one; wanted one of the two")


def _bought(
    path: Path, form: ReadOptions, known: Source, unknown: Target, weight: float | str, shared: dict[str, Any]
) -> Labelled:
    """The error by the labels that came back in a file."""
    from shiftgauge import io
    from shiftgauge.inference import Plan, with_labels

    table, labels = io.read_plan(path, form, unknown.classes)
    plan = Plan.from_table(table, known, unknown, what=str(path), **shared)
    try:
        return with_labels(plan, unknown, labels, weight=weight)
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None


def _document(found: Labelled | Plan, target: Target) -> dict[str, Any]:
    from shiftgauge.inference import Plan

    document = found.to_dict()
    if isinstance(found, Plan) and target.ids is not None:
        document["ids"] = target.ids[found.rows].tolist()
    return document


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


def _print(found: Labelled | Plan, rows: Path | None, column: str) -> None:
    from shiftgauge.inference import Plan

    out = console()
    out.print(spoken(repr(replace(found, warnings=()))))
    for warning in found.warnings:
        warn(out, spoken(warning))
    if not isinstance(found, Plan):
        return
    head, lines = found.table_rows()
    table = plain_table()
    for heading in head:
        table.add_column(heading, justify="right")
    for line in lines:
        table.add_row(*line)
    out.print(table)
    where = "write them with --rows FILE" if rows is None else f"they are in {rows}"
    what = "an array 'labels'" if rows is not None and rows.suffix == ".npz" else f"a column {column!r}"
    out.print(f"the rows to label: {where}; add {what} and come back with --labelled FILE")
