"""`shiftgauge report SOURCE TARGET --out report.html`: the answer, how far to trust it, and why, on one page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftgauge.cli import inputs as files
from shiftgauge.cli import options
from shiftgauge.cli.comparison import EstimateOptions
from shiftgauge.cli.options import check_distinct
from shiftgauge.cli.outputs import check_output
from shiftgauge.cli.records import about
from shiftgauge.cli.screen import console, note, print_lines, show_progress, wrapped
from shiftgauge.errors import InputError, nearest, printable

if TYPE_CHECKING:
    from shiftgauge.reports import Report

FORMATS = ("html", "md", "json")
Format = Annotated[
    str | None,
    options.output_option(
        "--format",
        help="html, md or json; by default that of the file; without --out, md and json are printed",
    ),
]


@dataclass(frozen=True)
class ReportOptions(EstimateOptions):
    """As `EstimateOptions`; a report has intervals by default."""

    replicates: options.Replicates = 200


@files.reads_files
def report(
    context: typer.Context,
    source: options.SourceFile,
    target: options.TargetFile,
    *,
    labelled: files.CheckOptions,
    out: options.Out = None,
    document_format: Format = None,
    as_json: options.AsJson = False,
    method: options.Method = "auto",
    settings: ReportOptions,
    by: options.By = None,
    inputs: files.InputOptions,
) -> None:
    """Write one self-contained page: the estimated error on TARGET, its interval, and how far to trust it."""
    wanted = _format("json" if as_json else document_format, out)
    if out is not None:
        read = [source, target, settings.second, inputs.source_labels, settings.marginal]
        check_output("--out", out, [*read, labelled.labels, labelled.plan, labelled.truth])
    from shiftgauge.reports import report as build

    names = check_distinct(by, "--by")
    labelled.check_method(method)
    if settings.groups and not names:
        note("--groups names rows that are resampled together; --by COLUMN shows the error by a column")
    with show_progress() as progress:
        samples = inputs.read(source, target, progress, second=settings.second, labels=labelled)
        on_source, warnings = files.source_columns(source, names, samples.source)
        with samples.files_in_errors():
            document = build(
                samples.source,
                samples.target,
                method,
                by={name: files.read_column(target, name, samples.target) for name in names} or None,
                source_by=on_source,
                labels=samples.labels,
                labels_chosen=samples.labels_chosen,
                truth=samples.truth,
                about=about(context),
                progress=progress,
                **settings.arguments(source, target, samples),
            )
        if out is not None:
            progress(f"writing {out}")
            document.save(out, wanted)
    for text in warnings:
        note(text)
    _print(document, wanted, out)


def _print(document: Report, wanted: str, out: Path | None) -> None:
    """Print the report, or its answer and diagnosis and where it was written."""
    if out is None:
        typer.echo(document.render(wanted), nl=False)
        return
    summary, screen = document.summary, console()
    for text in (summary["answer"]["sentence"], summary["diagnosis"]["headline"], f"written to {out}"):
        print_lines(screen, wrapped("", printable(text), "  "))


def _format(asked: str | None, out: Path | None) -> str:
    if asked is not None and asked not in FORMATS:
        raise InputError(f"--format {asked!r} is not known; wanted html, md or json{nearest(asked, FORMATS)}")
    if out is None:
        if asked is None or asked == "html":
            raise InputError("report: pass --out report.html, or --format md or json to print it")
        return asked
    from shiftgauge.reports.document import check_path

    ending = check_path(out).suffix[1:]
    if out.is_dir():
        raise InputError(f"{out}: is a folder; wanted the name of a file")
    if asked is not None and asked != ending:
        raise InputError(
            f"--format {asked} and {out.name} say different things; wanted a name ending in .{asked}"
        )
    return ending
