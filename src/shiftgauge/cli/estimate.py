"""`shiftgauge estimate SOURCE TARGET`: the error on the target, by one method."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftgauge.cli import fail_above as limits
from shiftgauge.cli import inputs as files
from shiftgauge.cli import options
from shiftgauge.cli.answer import Commands, print_answer
from shiftgauge.cli.comparison import check_options, compare_methods, to_document
from shiftgauge.cli.records import command_line, print_json
from shiftgauge.cli.screen import StepProgress, note_after, show_progress, waiting_lines
from shiftgauge.errors import InputError
from shiftgauge.methods.range import RANGE_LEVEL

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
    method: Annotated[
        list[str] | None,
        typer.Option("--method", "-m", help=options.METHOD_HELP),
    ] = None,
    calibration: options.Calibration = "temperature",
    marginal: options.Marginal = "source",
    proportions: options.Proportions = "unknown",
    second: options.Second = None,
    fail_above: limits.FailAbove = None,
    on: limits.On = "error",
    save_rows: SaveRows = None,
    verbose: options.Verbose = False,
    as_json: options.AsJson = False,
    replicates: options.Replicates = 0,
    level: options.Level = RANGE_LEVEL,
    seed: options.Seed = 0,
    groups: options.Groups = None,
    source_groups: options.SourceGroups = None,
    *,
    labelled: files.CheckOptions,
    inputs: files.InputOptions,
) -> None:
    """Estimate the error of a classifier on new data (TARGET) from labelled validation data (SOURCE)."""
    name = _one_method(method)
    labelled.check_method(name)
    limit = limits.parse_limit(fail_above, on)
    if save_rows is not None:
        from shiftgauge.io.write import check_ending

        check_ending(save_rows)
        given = (labelled.labels, labelled.plan, labelled.truth)
        files.check_output(
            "--save-rows", save_rows, [source, target, second, inputs.source_labels, marginal, *given]
        )
    with show_progress() as progress:
        samples = inputs.read(source, target, progress, second=second, labels=labelled)
        shares = files.read_marginal(marginal, samples.source)
        check_options([name], marginal, proportions)
        if save_rows is not None and not samples.target_in_memory:
            check_folder(save_rows, samples.target.n)
        pair, answer, truth = compare_methods(
            samples,
            progress,
            [name],
            calibration=calibration,
            marginal=shares,
            proportions=proportions,
            level=level,
            seed=seed,
            replicates=replicates,
            groups=groups and files.read_column(target, groups, samples.target),
            source_groups=source_groups and files.read_column(source, source_groups, samples.source),
        )
        if save_rows is not None:
            _write_rows(save_rows, pair, name, shares, proportions, progress)
    one = answer.estimates[0]
    if as_json:
        document = to_document(answer, source, target)
        if limit is not None:
            document["limit"] = limit.to_dict(one)
        print_json(document, context, samples.source, samples.target)
    else:
        if limit is not None:
            note_after(limit.sentence(one), even_if_quiet=limit.exceeded(one))
        print_answer(answer, one, truth, _commands(context, one), verbose, waiting_lines())
    if limit is not None and limit.exceeded(one):
        raise typer.Exit(1)


def _commands(context: typer.Context, one: Estimate) -> Commands:
    """The commands that a reader of the answer may want next."""
    same, labelled = (
        [field.name for field in fields(words)] for words in (files.InputOptions, files.LabelOptions)
    )
    from shiftgauge.results import MORE_LABELS

    count = min(one.n_target, max(MORE_LABELS, 0 if one.labels is None else 2 * one.labels.n))
    plan = command_line(context, "label-plan", [*same, "proportions", "calibration"])
    return Commands(
        f"{plan} -n {count} -o rows.csv",
        command_line(context, "doctor", [*same, *labelled, "proportions", "calibration"]),
    )


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


def _write_rows(
    path: Path, pair: Pair, method: str, marginal: Any, proportions: str, progress: StepProgress
) -> None:
    from shiftgauge import io
    from shiftgauge.inference.row_tables import row_reader, row_table

    progress("rows")
    if pair.target.in_memory:
        io.write_table(path, row_table(pair, method, marginal=marginal, proportions=proportions))
    else:
        read = row_reader(pair, method, marginal=marginal, proportions=proportions)
        io.write_parts(path, pair.target.iterate(read))
