"""`labelfree estimate SOURCE TARGET`: the error on the target, by one method or all."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelfree.cli.screen import console, working
from labelfree.errors import InputError

if TYPE_CHECKING:
    from labelfree.results import Comparison

DEFAULT_METHOD = "cott"


def estimate(
    source: Annotated[Path, typer.Argument(help="Scores with labels: .npz .npy .csv .parquet .arrow .pt")],
    target: Annotated[Path, typer.Argument(help="Scores without labels, in any of the same forms")],
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method", "-m", help="A method, or 'all'; may be repeated.  [default: cott]", show_default=False
        ),
    ] = None,
    calibration: Annotated[str, typer.Option(help="temperature, vector or none")] = "temperature",
    marginal: Annotated[
        str,
        typer.Option(
            help="The target's label shares: source, shrunk, bbse, rlls, mlls, or a file (class,mass CSV or 1-D .npy)"
        ),
    ] = "source",
    second: Annotated[
        Path | None, typer.Option(help="A second model's scores or predictions on TARGET, for gde")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="TARGET has labels: show each method's miss")
    ] = False,
    fail_above: Annotated[
        float | None,
        typer.Option(help="Leave with exit code 1 if the first named method's error is above this fraction"),
    ] = None,
    rows: Annotated[
        Path | None, typer.Option(help="Write one line per target row to this .csv .parquet .arrow .npz")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table")] = False,
    logits: Annotated[bool, typer.Option("--logits", help="The scores are logits")] = False,
    probs: Annotated[bool, typer.Option("--probs", help="The scores are probabilities")] = False,
    labels: Annotated[
        Path | None, typer.Option(help="SOURCE's labels, where they are in a file of their own")
    ] = None,
    target_labels: Annotated[
        Path | None, typer.Option(help="TARGET's labels for --check, in a file of their own")
    ] = None,
    label_column: Annotated[str, typer.Option(help="The label column of a table")] = "label",
    logit_prefix: Annotated[str, typer.Option(help="What logit columns begin with")] = "logit_",
    prob_prefix: Annotated[str, typer.Option(help="What probability columns begin with")] = "prob_",
    positive: Annotated[str | None, typer.Option(help="Two classes, one column 'prob': its class")] = None,
    negative: Annotated[
        str | None, typer.Option(help="Two classes, one column 'prob': the other class")
    ] = None,
    weight_column: Annotated[str | None, typer.Option(help="A table's column of row weights")] = None,
    prediction_column: Annotated[
        str | None, typer.Option(help="A table's column of deployed decisions")
    ] = None,
    tolerance: Annotated[float | None, typer.Option(help="How far probabilities may sum from 1")] = None,
) -> None:
    """Estimate the error of a classifier on TARGET, which has no labels, from SOURCE, which has."""
    limit = _limit(fail_above)
    methods = _methods(method)
    if logits and probs:
        raise InputError("--logits and --probs were both given; wanted one: what are the scores?")

    from labelfree import io
    from labelfree.estimators import compare
    from labelfree.estimators.rows import row_table
    from labelfree.io.write import check_ending
    from labelfree.labelshift import MARGINALS

    if rows is not None:
        check_ending(rows)
        _refuse_overwriting(rows, [source, target, second, labels, target_labels])
    _refuse_idle(
        {
            "label-column": None if label_column == "label" else label_column,
            "weight-column": weight_column,
            "prediction-column": prediction_column,
            "positive": positive,
            "negative": negative,
        },
        [path for path in (source, target, labels, target_labels) if path is not None],
    )
    form = io.Form(
        kind="logits" if logits else "probs" if probs else None,
        logit_prefix=logit_prefix,
        prob_prefix=prob_prefix,
        label=label_column,
        weight=weight_column,
        prediction=prediction_column,
        positive=positive,
        negative=negative,
        tolerance=tolerance,
    )
    with working() as say:
        say(f"reading {source}")
        known = io.read_source(source, form, labels)
        say(f"reading {target}")
        unknown, truth = io.read_target(target, form, second)
        if target_labels is not None:
            truth = io.read_labels(target_labels, form, unknown.classes)
        if check and truth is None:
            raise InputError(f"{target}: --check was asked for, but there are no labels to check against")
        shares: Any = marginal
        if marginal not in MARGINALS:
            shares = _marginal_file(marginal, known.classes)
        comparison = compare(
            known,
            unknown,
            methods,
            calibration=calibration,
            marginal=shares,
            target_labels=truth if check else None,
            progress=say,
        )
        table = None
        if rows is not None:
            say("rows")
            table = row_table(known, unknown, calibration=calibration, marginal=shares)
    first = _first(method)
    exceeded = _exceeded(comparison, first, limit)
    if as_json:
        _print_json(comparison, source, target, first, limit, exceeded)
    else:
        _print_table(comparison)
        if exceeded:
            console().print(f"[bold red]{first} is above the limit of {100 * (limit or 0):g}%")
    if rows is not None and table is not None:
        io.write_table(rows, table)
    if exceeded:
        raise typer.Exit(1)


def _refuse_overwriting(rows: Path, inputs: list[Path | None]) -> None:
    for path in inputs:
        if path is not None and rows.exists() and path.exists() and rows.samefile(path):
            raise InputError(f"--rows {rows}: that is an input, which would be lost; wanted another file")


def _refuse_idle(options: dict[str, Any], paths: list[Path]) -> None:
    """Refuse options about columns where no file has any."""
    from labelfree.io import is_table

    named = [name for name, value in options.items() if value is not None]
    if named and not any(is_table(path) for path in paths):
        raise InputError(
            f"--{named[0]} is about the columns of a table, and neither file is one; "
            "an .npz has the keys labels, weights and predictions"
        )


def _methods(named: list[str] | None) -> list[str] | None:
    if not named:
        return [DEFAULT_METHOD]
    return None if "all" in named else list(named)


def _first(named: list[str] | None) -> str:
    """The method that a limit is compared with: the first that was named, or the default."""
    return next((name for name in named or () if name != "all"), DEFAULT_METHOD)


def _limit(value: float | None) -> float | None:
    if value is None:
        return None
    if math.isnan(value) or value < 0:
        raise InputError(f"--fail-above {value:g}: wanted a fraction from 0 to 1")
    if value > 1:
        hint = f"; did you mean {value / 100:g}?" if value <= 100 else ""
        raise InputError(f"--fail-above {value:g}: wanted a fraction from 0 to 1{hint}")
    return value


def _marginal_file(name: str, classes: tuple[Any, ...] | None) -> Any:
    from labelfree.io import read_marginal
    from labelfree.labelshift import check_marginal

    if not Path(name).exists() and not Path(name).suffix:
        check_marginal(name)
    return read_marginal(name, classes)


def _exceeded(comparison: Comparison, method: str, limit: float | None) -> bool:
    if limit is None:
        return False
    if method not in [one.method for one in comparison]:
        raise InputError(
            f"--fail-above: {method} was left out, as it needs more evidence; name another method"
        )
    error = comparison[method].error
    if error is None:
        raise InputError(
            f"--fail-above compares an error, and {method} is a score; name another method first"
        )
    return error > limit


def _print_json(
    comparison: Comparison, source: Path, target: Path, method: str, limit: float | None, exceeded: bool
) -> None:
    document = comparison.to_dict()
    document["source"] = {"path": str(source), **document["source"]}
    document["target"] = {"path": str(target), **document["target"]}
    if limit is not None:
        document["limit"] = {"method": method, "fail_above": limit, "exceeded": exceeded}
    import json

    typer.echo(json.dumps(document, allow_nan=False))


def _print_table(comparison: Comparison) -> None:
    from rich.table import Table
    from rich.text import Text

    from labelfree.estimators import METHODS
    from labelfree.results import percent

    out = console()
    about = comparison.source
    out.print(
        f"source: {about['n']:,} rows, {about['k']} classes, error {percent(about['error'])}    "
        f"target: {comparison.target['n']:,} rows"
    )
    truth = comparison.true_error
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("method")
    table.add_column("estimate", justify="right")
    if truth is not None:
        table.add_column("miss", justify="right")
    table.add_column("what it is", style="dim")
    for name, answer, miss in comparison.rows():
        cells = [METHODS[name].title, answer.replace("error ", "")]
        table.add_row(*cells, *([miss] if truth is not None else []), METHODS[name].meaning)
    if truth is not None:
        table.add_row(
            Text("truth", style="bold"), Text(percent(truth), style="bold"), "", "by the labels in TARGET"
        )
    out.print(table)
    for warning in comparison.warnings:
        out.print(Text(f"! {warning}", style="yellow"))
    for one in comparison.estimates:
        for warning in comparison.own_warnings(one):
            out.print(Text(f"! {METHODS[one.method].title}: {warning}", style="yellow"))
