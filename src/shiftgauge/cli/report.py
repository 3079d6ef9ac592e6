"""`shiftgauge report SOURCE TARGET -o report.html`: the answer, how far to trust it, and why, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftgauge.cli import files, options
from shiftgauge.cli.records import about
from shiftgauge.cli.screen import console, working
from shiftgauge.cli.words import note, unlike
from shiftgauge.errors import InputError, nearest, printable

if TYPE_CHECKING:
    from shiftgauge.reports import Report

FORMATS = ("html", "md", "json")


Format = Annotated[
    str | None,
    typer.Option(
        "--format", help="html, md or json; by default the file's ending; md and json may go to stdout"
    ),
]


@files.reads
def report(
    context: typer.Context,
    source: files.SourceFile,
    target: files.TargetFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write: .html, .md or .json")
    ] = None,
    form: Format = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json")] = False,
    method: options.Method = "auto",
    calibration: files.Calibration = "temperature",
    marginal: files.MarginalName = "source",
    proportions: options.Proportions = "unknown",
    by: options.By = None,
    second: files.Second = None,
    check: files.Check = False,
    level: files.Level = 0.95,
    replicates: options.Replicates = 200,
    seed: files.Seed = 0,
    groups: options.Groups = None,
    source_groups: options.SourceGroups = None,
    *,
    reading: files.ReadingOptions,
) -> None:
    """Write one self-contained page: the estimated error on TARGET, its interval, and how far to trust it."""
    wanted = _format("json" if as_json else form, out)
    if out is not None:
        files.refuse_overwriting(out, [source, target, second, reading.labels, marginal], "--out")
    from shiftgauge.reports import report as build

    names = unlike(by, "--by")
    if groups and not names:
        note("--groups are rows that are resampled together; --by COLUMN shows the error by a column")
    with working() as say:
        known, unknown, truth = reading.both(source, target, say, second=second, check=check)
        there, unread = files.on_source(source, names, known)
        made = build(
            known,
            unknown,
            method,
            calibration=calibration,
            marginal=files.marginal_of(marginal, known),
            proportions=proportions,
            by={name: files.column_of(target, name, unknown) for name in names} or None,
            source_by=there,
            groups=groups and files.column_of(target, groups, unknown),
            source_groups=source_groups and files.column_of(source, source_groups, known),
            level=level,
            replicates=replicates,
            seed=seed,
            target_labels=truth,
            about=about(context),
            progress=say,
        )
        if out is not None:
            say(f"writing {out}")
            made.save(out, wanted)
    for text in unread:
        note(text)
    _print(made, wanted, out)


def _print(made: Report, wanted: str, out: Path | None) -> None:
    """The report itself, or the answer, the verdict, and where the rest is."""
    if out is None:
        typer.echo(made.render(wanted), nl=False)
        return
    held, screen = made.summary, console()
    for line in (held["answer"]["sentence"], held["verdict"]["headline"], f"written to {out}"):
        screen.print(printable(line))


def _format(asked: str | None, out: Path | None) -> str:
    if asked is not None and asked not in FORMATS:
        raise InputError(f"--format {asked!r} is not known; wanted html, md or json{nearest(asked, FORMATS)}")
    if out is None:
        if asked is None or asked == "html":
            raise InputError("report: where to? pass -o report.html, or --format md or json to print it")
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
