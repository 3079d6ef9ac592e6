"""`shiftgauge budget SOURCE TARGET`: which rows to label, and the error with their labels."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftgauge.cli import inputs as files
from shiftgauge.cli import options
from shiftgauge.cli.options import use_option_names
from shiftgauge.cli.records import print_json
from shiftgauge.cli.screen import console, plain_table, show_progress, warn
from shiftgauge.errors import FileError, InputError

if TYPE_CHECKING:
    from shiftgauge.inference import Labelled, Plan
    from shiftgauge.io import ReadOptions
    from shiftgauge.samples import Source, Target


@files.reads_files
def budget(
    context: typer.Context,
    source: options.SourceFile,
    target: options.TargetFile,
    margin: Annotated[float, typer.Option(help="The half-width of the interval, a fraction")] = 0.02,
    level: options.Level = 0.95,
    count: Annotated[int | None, typer.Option(help="The number of labels, instead of --margin")] = None,
    out: options.Out = None,
    labelled: Annotated[
        Path | None,
        options.data_option(
            help="The plan with labels added: estimate the error from it, without --margin, --count and --seed"
        ),
    ] = None,
    weight: Annotated[
        str, typer.Option(help="Weight of the error probabilities as control variate: a number, or 'fitted'")
    ] = "1.0",
    calibration: options.Calibration = "temperature",
    marginal: options.OptionalMarginal = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    *,
    inputs: files.InputOptions,
) -> None:
    """Plan which rows of TARGET to label so that the error is known to +- MARGIN, or use their labels.

    The plan is written to --out: .csv, .parquet, .arrow or .npz.
    """
    from shiftgauge import io
    from shiftgauge.inference import budget as plan_labels

    weight_value = _parse_weight(weight)
    _check_out(out, labelled, [source, target, inputs.source_labels, labelled, marginal])
    from shiftgauge.samples import Target

    with show_progress() as progress:
        samples = inputs.read(source, target, progress, labelled, in_memory=True)
        source_sample, target_sample = samples.source, samples.target
        assert isinstance(target_sample, Target)
        shared: dict[str, Any] = {
            "level": level,
            "calibration": calibration,
            "marginal": None if marginal is None else files.read_marginal(marginal, source_sample),
        }
        if labelled is not None:
            progress(f"reading {labelled}")
            read = inputs.read_options(source, target, inputs.source_labels, labelled)
            result: Labelled | Plan = _use_labels(
                labelled, read, source_sample, target_sample, weight_value, shared
            )
        else:
            progress("planning")
            result = plan_labels(
                source_sample, target_sample, margin=margin, count=count, seed=seed, **shared
            )
            if out is not None:
                io.write_table(out, result.table(target_sample.ids))
    if as_json:
        print_json(_document(result, target_sample), context, source_sample, target_sample)
    else:
        _print(result, out, inputs.label_column)


def _check_out(out: Path | None, labelled: Path | None, paths: list[Any]) -> None:
    """Refuse an output that cannot be written or is an input."""
    from shiftgauge.io.write import check_ending

    if out is None:
        return
    check_ending(out)
    files.check_output("--out", out, paths)
    if labelled is not None:
        raise InputError("--out writes a plan and --labelled uses one; wanted one of the two")


def _use_labels(
    path: Path,
    options: ReadOptions,
    source: Source,
    target: Target,
    weight: float | str,
    shared: dict[str, Any],
) -> Labelled:
    """The error by the labels in a plan."""
    from shiftgauge import io
    from shiftgauge.inference import Plan, with_labels

    table, labels = io.read_plan(path, options, target.classes)
    plan = Plan.from_table(table, source, target, what=str(path), **shared)
    try:
        return with_labels(plan, target, labels, weight=weight)
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None


def _document(result: Labelled | Plan, target: Target) -> dict[str, Any]:
    from shiftgauge.inference import Plan

    document = result.to_dict()
    if isinstance(result, Plan) and target.ids is not None:
        document["ids"] = target.ids[result.rows].tolist()
    return document


def _parse_weight(text: str) -> float | str:
    if text == "fitted":
        return text
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"--weight {text}: wanted a number such as 1.0, or 'fitted'")
    return number


def _print(result: Labelled | Plan, path: Path | None, column: str) -> None:
    from shiftgauge.inference import Plan

    out = console()
    out.print(use_option_names(repr(replace(result, warnings=()))))
    for warning in result.warnings:
        warn(out, use_option_names(warning))
    if not isinstance(result, Plan):
        return
    head, lines = result.table_rows()
    table = plain_table()
    for heading in head:
        table.add_column(heading, justify="right")
    for line in lines:
        table.add_row(*line)
    out.print(table)
    where = "write them with --out FILE" if path is None else f"they are in {path}"
    what = "an array 'labels'" if path is not None and path.suffix == ".npz" else f"a column {column!r}"
    out.print(f"the rows to label: {where}; add {what} and pass the file as --labelled FILE")
