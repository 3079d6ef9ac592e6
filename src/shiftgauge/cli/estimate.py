"""`shiftgauge estimate SOURCE TARGET`: the error on the target, by one method."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftgauge.cli import fail_above as limits
from shiftgauge.cli import inputs as files
from shiftgauge.cli import options
from shiftgauge.cli.answer import Commands, print_answer
from shiftgauge.cli.comparison import EstimateOptions, check_options, compare_methods, to_document
from shiftgauge.cli.outputs import check_output, new_file
from shiftgauge.cli.records import command_line, print_json
from shiftgauge.cli.screen import note_after, show_progress, waiting_lines
from shiftgauge.errors import InputError

if TYPE_CHECKING:
    from shiftgauge.methods import Pair
    from shiftgauge.results import Estimate

SaveRows = Annotated[
    Path | None,
    options.output_option(help="Write a line per row: .csv .parquet .npz ..."),
]


@files.reads_files
def estimate(
    context: typer.Context,
    source: options.SourceFile,
    target: options.TargetFile,
    *,
    labelled: files.CheckOptions,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", "-m", help=options.METHOD_HELP),
    ] = None,
    settings: EstimateOptions,
    fail_above: limits.FailAbove = None,
    on: limits.On = "error",
    save_rows: SaveRows = None,
    verbose: options.Verbose = False,
    as_json: options.AsJson = False,
    inputs: files.InputOptions,
) -> None:
    """Estimate the error of a classifier on new data (TARGET) from labelled validation data (SOURCE)."""
    from shiftgauge.rows import Rows

    name = _one_method(method)
    labelled.check_method(name)
    limits.check_limit(fail_above, on)
    if save_rows is not None:
        from shiftgauge.io.write import check_ending

        check_ending(save_rows)
        read = [source, target, settings.second, inputs.source_labels, settings.marginal]
        check_output("--save-rows", save_rows, [*read, labelled.labels, labelled.plan, labelled.truth])
    with show_progress() as progress:
        samples = inputs.read(source, target, progress, second=settings.second, labels=labelled)
        arguments = settings.arguments(source, target, samples)
        check_options([name], settings)
        if save_rows is not None and isinstance(samples.target, Rows):
            check_folder(save_rows, samples.target.n)
        pair, answer, truth = compare_methods(samples, progress, [name], **arguments)
        if save_rows is not None:
            progress("rows")
            _write_rows(save_rows, pair, name, arguments["marginal"], settings.proportions)
    one = answer.estimates[0]
    limit = None if fail_above is None else limits.compare_with_limit(one, fail_above, on)
    if as_json:
        document = to_document(answer, source, target)
        if limit is not None:
            document["limit"] = limit
        print_json(document, context, samples.source, samples.target)
    else:
        if limit is not None:
            note_after(limits.limit_sentence(limit, one), even_if_quiet=limit["exceeded"])
        print_answer(answer, one, truth, _commands(context, one), verbose, waiting_lines())
    if limit is not None and limit["exceeded"]:
        raise typer.Exit(1)


def _commands(context: typer.Context, one: Estimate) -> Commands:
    """The commands that a reader of the answer may want next."""
    from shiftgauge.results import MORE_LABELS

    same = [*files.option_names(files.InputOptions), "proportions", "calibration"]
    known: list[str] = []
    count, left, file = MORE_LABELS, one.n_target, "rows.csv"
    if one.labels is not None:
        count, file = max(count, one.labels.n), new_file()
        if one.labels.chosen == "random":
            known, left = files.option_names(files.KnownLabels), left - one.labels.n
    plan = command_line(context, "label-plan", [*same, *known])
    doctor = command_line(context, "doctor", [*same, *files.option_names(files.LabelOptions)])
    return Commands(f"{plan} -n {min(count, left)} -o {file}", doctor)


def _one_method(methods: list[str] | None) -> str:
    if methods and (len(methods) > 1 or methods == ["all"]):
        raise InputError(
            f"--method {' --method '.join(methods)}: estimate takes one method; shiftgauge compare takes several"
        )
    return methods[0] if methods else "auto"


def check_folder(path: Path, n: int) -> None:
    """Rows of a TARGET that is read in passes are written as a folder of Parquet files; refuse anything else."""
    if path.suffix.lower() != ".parquet" or path.exists():
        why = "that name exists" if path.exists() else f"{path.suffix} is one file"
        raise InputError(
            f"--save-rows {path}: {n:,} rows are written as a folder of Parquet files, and {why}; "
            "wanted a new name that ends in .parquet"
        )


def _write_rows(path: Path, pair: Pair, method: str, marginal: Any, proportions: str) -> None:
    from shiftgauge import io
    from shiftgauge.inference.row_tables import row_reader, row_table

    if pair.target.in_memory:
        io.write_table(path, row_table(pair, method, marginal=marginal, proportions=proportions))
    else:
        read = row_reader(pair, method, marginal=marginal, proportions=proportions)
        io.write_parts(path, pair.target.iterate(read))
