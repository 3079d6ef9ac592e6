"""`shiftgauge metrics SOURCE TARGET`: confusion matrix, precision, recall, F1 and more, without labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftgauge.cli import files, options
from shiftgauge.cli.records import print_json
from shiftgauge.cli.screen import console, plain_table, warn, working
from shiftgauge.cli.words import spoken
from shiftgauge.errors import InputError

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


@files.reads
def metrics(
    context: typer.Context,
    source: files.SourceFile,
    target: files.TargetFile,
    method: options.OneMethod = None,
    calibration: files.Calibration = "temperature",
    marginal: options.GivenMarginal = None,
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
    level: files.Level = 0.95,
    replicates: Annotated[
        int, typer.Option(callback=files.at_least(20), help="Bootstrap replicates for the shares' intervals")
    ] = 100,
    seed: files.Seed = 0,
    as_json: files.AsJson = False,
    *,
    reading: files.ReadingOptions,
) -> None:
    """Estimate every metric of the classifier on TARGET from the posterior behind a method's answer."""
    from shiftgauge import io
    from shiftgauge.inference import label_shares
    from shiftgauge.inference import metrics as estimate_metrics
    from shiftgauge.inference.proportions import check_method
    from shiftgauge.methods import Pair
    from shiftgauge.validation import check_fraction

    if bias_correction and shares is None:
        raise InputError("--bias-correction is about the label shares; pass --shares mlls too")
    with working() as say:
        known, unknown, _ = reading.both(source, target, say)
        check_fraction(level, "level", 0.95)
        if shares is not None:
            check_method(shares, bias_correction)
        say("transport")
        pair = Pair(known, unknown, calibration, function="metrics")
        found = estimate_metrics(
            pair,
            method=method,
            marginal=None if marginal is None else files.marginal_of(marginal, known),
            proportions=proportions,
            cost=None if cost is None else io.read_costs(cost, known.k),
        )
        estimated = None
        if shares is not None:
            say("resampling")
            estimated = label_shares(
                pair,
                method=shares,
                bias_correction=bias_correction,
                level=level,
                replicates=replicates,
                seed=seed,
            )
    if as_json:
        beside = {} if estimated is None else {"label_shares": estimated.content()}
        print_json({**found.to_dict(), **beside}, context, known, unknown)
    else:
        _print(found, estimated, confusion)


def _print(found: Metrics, shares: Shares | None, confusion: bool) -> None:
    from shiftgauge.results import percent

    out = console()
    out.print(
        f"error {percent(found.error)} by {found.method}"
        + ("" if found.cott_error is None else f", {percent(found.cott_error)} by cott")
        + f"; kappa {found.kappa:.3f}"
        + ("" if found.roc_auc is None else f"; ROC-AUC {found.roc_auc:.3f}")
        + ("" if found.average_precision is None else f"; average precision {found.average_precision:.3f}")
        + ("" if found.cost is None else f"; mean cost {found.cost:.4g}")
    )
    table = plain_table()
    table.add_column("class")
    for column in ("share", "predicted", "precision", "recall", "f1"):
        table.add_column(column, justify="right")
    document = found.to_dict()
    for row in document["classes"]:
        table.add_row(
            str(row["class"]),
            *(percent(row[key]) for key in ("share", "predicted", "precision", "recall", "f1")),
        )
    table.add_row()
    for name in ("macro", "weighted", "micro"):
        cells = [percent(document["averages"][key][name]) for key in ("precision", "recall", "f1")]
        table.add_row(name, "", "", *cells)
    out.print(table)
    if confusion:
        out.print(_matrix(found))
    out.print(f"estimated, not counted: it rests on what {found.method} assumes")
    out.print(found.note)
    for warning in found.warnings:
        warn(out, spoken(warning))
    if shares is not None:
        out.print(spoken(repr(shares)))


def _matrix(found: Metrics) -> Any:
    table = plain_table(title="true class \\ prediction, percent of all rows")
    table.add_column("")
    for name in found.classes:
        table.add_column(str(name), justify="right")
    for name, row in zip(found.classes, found.confusion, strict=True):
        table.add_row(str(name), *(f"{100 * v:.2f}" for v in row))
    return table
