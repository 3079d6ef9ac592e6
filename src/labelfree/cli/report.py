"""`labelfree report SOURCE TARGET -o report.html`: the answer, how far to trust it, and why, on one page."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from labelfree.cli.screen import working
from labelfree.errors import InputError, nearest

FORMATS = ("html", "md", "json")


def report(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(help="Scores with labels: .npz .npy .csv .parquet .arrow .pt")],
    target: Annotated[Path, typer.Argument(help="Scores without labels, in any of the same forms")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write: .html, .md or .json")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", help="html, md or json; by default the file's ending. md and json may go to stdout"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json")] = False,
    method: Annotated[str, typer.Option("--method", "-m", help="Whose estimate is the answer")] = "auto",
    calibration: Annotated[str, typer.Option(help="temperature, vector or none")] = "temperature",
    marginal: Annotated[
        str,
        typer.Option(
            help="The target's label shares: source, shrunk, bbse, rlls, mlls, or a file (class,mass CSV or 1-D .npy)"
        ),
    ] = "source",
    groups: Annotated[
        list[str] | None,
        typer.Option(
            "--groups", help="A column of TARGET to show the error by; may be repeated", show_default=False
        ),
    ] = None,
    second: Annotated[
        Path | None, typer.Option(help="A second model's scores or predictions on TARGET, for gde")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="TARGET has labels: show each method's miss")
    ] = False,
    level: Annotated[float, typer.Option(help="The level of the intervals")] = 0.95,
    replicates: Annotated[
        int, typer.Option(help="Bootstrap replicates behind the intervals; 0 for none")
    ] = 200,
    seed: Annotated[int, typer.Option(help="Of the bootstrap")] = 0,
    logits: Annotated[bool, typer.Option("--logits", help="The scores are logits")] = False,
    probs: Annotated[bool, typer.Option("--probs", help="The scores are probabilities")] = False,
    labels: Annotated[
        Path | None, typer.Option(help="SOURCE's labels, where they are in a file of their own")
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
    """Write one self-contained page: the estimated error on TARGET, its interval, and how far to trust it."""
    wanted = _format("json" if as_json else form, out)
    if logits and probs:
        raise InputError("--logits and --probs were both given; wanted one: what are the scores?")

    from labelfree import io
    from labelfree.report import report as build

    reading = io.Form(
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
        known = io.read_source(source, reading, labels)
        say(f"reading {target}")
        unknown, truth = io.read_target(target, reading, second)
        if check and truth is None:
            raise InputError(f"{target}: --check was asked for, but there are no labels to check against")
        made = build(
            known,
            unknown,
            method,
            calibration=calibration,
            marginal=_shares(marginal, known.classes),
            groups={name: io.read_column(target, name) for name in groups} if groups else None,
            level=level,
            replicates=replicates,
            seed=seed,
            target_labels=truth if check else None,
            about={
                "source": source.name,
                "target": target.name,
                "command": _command(context),
                "made": _now(),
            },
            progress=say,
        )
        if out is not None:
            say(f"writing {out}")
            made.save(out, wanted)
    if out is None:
        typer.echo(made.render(wanted), nl=False)
    else:
        typer.echo(
            f"{made.summary['answer']['sentence']}\n{made.summary['verdict']['headline']}\nwritten to {out}"
        )


def _format(asked: str | None, out: Path | None) -> str:
    if asked is not None and asked not in FORMATS:
        raise InputError(f"--format {asked!r} is not known; wanted html, md or json{nearest(asked, FORMATS)}")
    if out is None:
        if asked is None or asked == "html":
            raise InputError("report: where to? pass -o report.html, or --format md or json to print it")
        return asked
    from labelfree.report.report import check_path

    ending = check_path(out).suffix[1:]
    if asked is not None and asked != ending:
        raise InputError(
            f"--format {asked} and {out.name} say different things; wanted a name ending in .{asked}"
        )
    return ending


def _shares(marginal: str, classes: tuple[Any, ...] | None) -> Any:
    from labelfree.io import read_marginal
    from labelfree.labelshift import MARGINALS, check_marginal

    if marginal in MARGINALS:
        return marginal
    if not Path(marginal).exists() and not Path(marginal).suffix:
        check_marginal(marginal)
    return read_marginal(marginal, classes)


def _command(context: typer.Context) -> str:
    """The command line that gives the same report: arguments, and the options that were not left as they are."""
    words = ["labelfree", "report"]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif value is not None and value is not False and value != parameter.default:
            flag = max(parameter.opts, key=len)
            many = value if isinstance(value, list | tuple) else [value]
            for one in many:
                words += [flag] if one is True else [flag, str(one)]
    return shlex.join(words)


def _now() -> str:
    from datetime import datetime, timezone

    return datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
