"""`shiftgauge metrics SOURCE TARGET`: confusion matrix, precision, recall, F1 and more, without labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftgauge.cli import inputs as files
from shiftgauge.cli import options
from shiftgauge.cli.records import print_json
from shiftgauge.cli.screen import (
    console,
    print_lines,
    print_table,
    print_warnings,
    print_wide_table,
    show_progress,
    use_option_names,
    wrapped,
)
from shiftgauge.errors import InputError
from shiftgauge.methods.range import RANGE_LEVEL

if TYPE_CHECKING:
    from shiftgauge.inference import Metrics, Shares

Cost = Annotated[
    Path | None,
    typer.Option(help="A .npy or .csv of K x K costs, true classes in rows, predictions in columns"),
]
BiasCorrection = Annotated[
    bool,
    typer.Option("--bias-correction", help="For --shares mlls: calibrate with an offset per class (BCTS)"),
]


@files.reads_files
def metrics(
    context: typer.Context,
    source: options.SourceFile,
    target: options.TargetFile,
    *,
    labelled: files.LabelOptions,
    method: options.PosteriorMethod = None,
    calibration: options.Calibration = "temperature",
    marginal: options.OptionalMarginal = None,
    proportions: options.Proportions = "unknown",
    cost: Cost = None,
    confusion: Annotated[bool, typer.Option("--confusion", help="Also print the confusion matrix")] = False,
    shares: Annotated[
        str | None,
        typer.Option(
            help="Also estimate TARGET's label shares, with intervals, by bbse, rlls or mlls",
        ),
    ] = None,
    bias_correction: BiasCorrection = False,
    level: options.Level = RANGE_LEVEL,
    replicates: options.IntervalReplicates = 100,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    inputs: files.InputOptions,
) -> None:
    """Estimate every metric of the classifier on TARGET from the posterior of a method."""
    from shiftgauge import io
    from shiftgauge.inference import label_shares
    from shiftgauge.inference import metrics as estimate_metrics
    from shiftgauge.inference.proportions import check_method
    from shiftgauge.validation import check_fraction

    if bias_correction and shares is None:
        raise InputError("--bias-correction is about the label shares; pass --shares mlls too")
    labelled.check_method(method, marginal=marginal)
    with show_progress() as progress:
        samples = inputs.read(source, target, progress, labels=labelled)
        check_fraction(level, "level", RANGE_LEVEL)
        if shares is not None:
            check_method(shares, bias_correction)
        progress("transport")
        pair = samples.pair(calibration, "metrics")
        result = estimate_metrics(
            pair,
            method=method,
            marginal=None if marginal is None else files.read_marginal(marginal, samples.source),
            proportions=proportions,
            cost=None if cost is None else io.read_costs(cost, samples.source.k),
            level=level,
        )
        estimated = None
        if shares is not None:
            progress("resampling")
            estimated = label_shares(
                pair,
                method=shares,
                bias_correction=bias_correction,
                level=level,
                replicates=replicates,
                seed=seed,
            )
    if as_json:
        more = {} if estimated is None else {"label_shares": estimated.content()}
        print_json({**result.to_dict(), **more}, context, samples.source, samples.target)
    else:
        _print(result, estimated, confusion)


def _print(result: Metrics, shares: Shares | None, confusion: bool) -> None:
    out = console()
    print_lines(out, [text for text in (result.heading(), result.scalars()) if text])
    print_table(out, *(result.table_rows() if result.ranges else _numbers(result)))
    if confusion:
        out.print("true class \\ prediction, percent of all rows")
        names = list(map(str, result.classes))
        cells = [[f"{100 * v:.2f}" for v in row] for row in result.confusion]
        print_wide_table(out, ["", *names], [[name, *row] for name, row in zip(names, cells, strict=True)])
    out.print(f"estimated, not counted: it rests on what {result.method} assumes")
    print_lines(out, wrapped("", result.note, "  "))
    print_warnings(out, result.warnings)
    if shares is not None:
        out.print(use_option_names(repr(shares)))


def _numbers(result: Metrics) -> tuple[list[str], list[list[str]]]:
    """The table of a method without ranges."""
    from shiftgauge.results import percent

    document = result.to_dict()
    keys = ["share", "predicted", "precision", "recall", "f1"]
    rows = [[str(row["class"]), *(percent(row[key]) for key in keys)] for row in document["classes"]]
    rows.append([""] * (1 + len(keys)))
    for name in ("macro", "weighted", "micro"):
        cells = [percent(document["averages"][key][name]) for key in ("precision", "recall", "f1")]
        rows.append([name, "", "", *cells])
    return ["class", *keys], rows
