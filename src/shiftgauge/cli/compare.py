"""`shiftgauge compare SOURCE TARGET`: the error on the target by several methods."""

from __future__ import annotations

from typing import Annotated

import typer

from shiftgauge.cli import inputs as files
from shiftgauge.cli import options
from shiftgauge.cli.comparison import (
    EstimateOptions,
    check_options,
    compare_methods,
    print_comparison,
    to_document,
)
from shiftgauge.cli.records import print_json
from shiftgauge.cli.screen import show_progress


@files.reads_files
def compare(
    context: typer.Context,
    source: options.SourceFile,
    target: options.TargetFile,
    *,
    labelled: files.CheckOptions,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", "-m", help=f"{options.METHOD_HELP}; may be repeated", show_default="all"),
    ] = None,
    settings: EstimateOptions,
    as_json: options.AsJson = False,
    inputs: files.InputOptions,
) -> None:
    """Estimate the error of a classifier on TARGET by several methods, with --check beside the true error."""
    methods = None if not method or method == ["all"] else method
    labelled.check_method(*(methods or ()))
    with show_progress() as progress:
        samples = inputs.read(source, target, progress, second=settings.second, labels=labelled)
        arguments = settings.arguments(source, target, samples)
        check_options(methods, settings)
        _, answer, truth = compare_methods(samples, progress, methods, **arguments)
    if as_json:
        print_json(to_document(answer, source, target), context, samples.source, samples.target)
    else:
        first = "auto" if methods is None else methods[0]
        print_comparison(answer, next((e for e in answer if e.method == first), answer.estimates[0]), truth)
