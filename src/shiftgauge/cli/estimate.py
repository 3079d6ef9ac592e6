"""`shiftgauge estimate SOURCE TARGET`: the error on the target, by one method or all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftgauge.cli import files, limits, options
from shiftgauge.cli.records import print_json
from shiftgauge.cli.screen import alarm, console, plain_table, warn, working
from shiftgauge.cli.words import spoken
from shiftgauge.errors import InputError, Note, prefix

if TYPE_CHECKING:
    from shiftgauge.methods import Pair
    from shiftgauge.results import Comparison
    from shiftgauge.rows import Rows
    from shiftgauge.samples import Target

DEFAULT_METHOD = "auto"


@files.reads
def estimate(
    context: typer.Context,
    source: files.SourceFile,
    target: files.TargetFile,
    method: options.Methods = None,
    calibration: files.Calibration = "temperature",
    marginal: files.MarginalName = "source",
    proportions: options.Proportions = "unknown",
    second: files.Second = None,
    check: files.Check = False,
    fail_above: options.FailAbove = None,
    on: limits.On = "error",
    rows: options.Rows = None,
    as_json: files.AsJson = False,
    replicates: Annotated[
        int, typer.Option(help="Bootstrap replicates for an interval of the sampling error; 0 for none")
    ] = 0,
    level: files.Level = 0.95,
    seed: files.Seed = 0,
    groups: options.Groups = None,
    source_groups: options.SourceGroups = None,
    *,
    reading: files.ReadingOptions,
    target_labels: Annotated[
        Path | None, typer.Option(help="TARGET's labels for --check, in a file of their own")
    ] = None,
) -> None:
    """Estimate the error of a classifier on TARGET, which has no labels, from SOURCE, which has."""
    limit = limits.Limit.of(_first(method), fail_above, on)
    if rows is not None:
        from shiftgauge.io.write import check_ending

        check_ending(rows)
        files.refuse_overwriting(rows, [source, target, second, reading.labels, target_labels, marginal])
    from shiftgauge.inference import compare
    from shiftgauge.inference.estimates import true_error
    from shiftgauge.methods import Pair

    with working() as say:
        known, unknown, truth = reading.both(
            source, target, say, second=second, target_labels=target_labels, check=check
        )
        shares = files.marginal_of(marginal, known)
        _refuse_before_work(marginal, proportions, method, rows, unknown)
        settings = _bootstrap(
            replicates,
            groups and files.column_of(target, groups, unknown),
            source_groups and files.column_of(source, source_groups, known),
        )
        say("calibration")
        pair = Pair(known, unknown, calibration, seed=seed, function="estimate")
        answer = compare(
            pair,
            methods=_methods(method),
            level=level,
            seed=seed,
            marginal=shares,
            proportions=proportions,
            progress=say,
            **settings,
        )
        if truth is not None:
            checked = {**answer.target, "true_error": true_error(unknown, truth)}
            answer = replace(answer, target=checked)
        if rows is not None:
            _write_rows(rows, pair, _first(method), shares, proportions, say)
    if as_json:
        print_json(_document(answer, source, target, limit), context, known, unknown)
    else:
        _print(answer, _first(method))
    _keep(limit, answer, quiet=as_json)


def _keep(limit: limits.Limit | None, answer: Comparison, quiet: bool) -> None:
    """Leave with exit code 1 where the limit is exceeded; say so, unless the JSON does."""
    if limit is None or not limit.exceeded(answer):
        return
    if not quiet:
        alarm(limit.sentence(answer))
    raise typer.Exit(1)


def _refuse_before_work(
    marginal: str, proportions: str, method: list[str] | None, rows: Path | None, unknown: Target | Rows
) -> None:
    """Refuse options that would change nothing, and output that could not be written in the end."""
    from shiftgauge.samples import Target

    _refuse_idle_marginal(marginal, method)
    _refuse_idle_proportions(proportions, method)
    if rows is not None and not isinstance(unknown, Target):
        _refuse_one_file(rows, unknown.n)


def _refuse_one_file(rows: Path, n: int) -> None:
    """Rows of a TARGET that is read in passes go into a folder of Parquet parts; anything else is refused."""
    if rows.suffix.lower() != ".parquet" or rows.exists():
        why = "there is something of that name" if rows.exists() else f"{rows.suffix} is one file"
        raise InputError(
            f"--rows {rows}: {n:,} rows are written as a folder of Parquet parts, and {why}; "
            "wanted a new name that ends in .parquet"
        )


def _write_rows(rows: Path, pair: Pair, method: str, shares: Any, proportions: str, say: Any) -> None:
    from shiftgauge import io
    from shiftgauge.inference.row_tables import row_reader, row_table

    say("rows")
    if not pair.target.in_memory:
        read = row_reader(pair, method, marginal=shares, proportions=proportions)
        io.write_parts(rows, pair.target.iterate(read))
    else:
        io.write_table(rows, row_table(pair, method, marginal=shares, proportions=proportions))


def _bootstrap(replicates: int, groups: Any, source_groups: Any) -> dict[str, Any]:
    """The options of `compare` that ask for intervals; none if no interval is wanted."""
    if replicates:
        return {"interval": True, "replicates": replicates, "groups": groups, "source_groups": source_groups}
    if groups is not None or source_groups is not None:
        raise InputError("--groups are for the intervals, and there are none; pass --replicates 200 too")
    return {}


def _methods(named: list[str] | None) -> list[str] | None:
    if not named:
        return [DEFAULT_METHOD]
    return None if "all" in named else list(named)


def _refuse_idle_marginal(marginal: str, named: list[str] | None) -> None:
    """A marginal that none of the named methods takes would change nothing."""
    from shiftgauge.methods.registry import accepts, find

    methods = _methods(named)
    if marginal != "source" and methods and not any(accepts(find(name), "marginal") for name in methods):
        raise InputError(
            f"--marginal {marginal}: {', '.join(methods)} does not transport to label shares; "
            "wanted cot, cott or scot beside it"
        )


def _refuse_idle_proportions(proportions: str, named: list[str] | None) -> None:
    """What is known of class proportions is for auto; beside other methods alone it would change nothing."""
    methods = _methods(named)
    if proportions != "unknown" and methods and DEFAULT_METHOD not in methods:
        raise InputError(
            f"--proportions {proportions}: {', '.join(methods)} does not read it; wanted auto beside it"
        )


def _first(named: list[str] | None) -> str:
    """The method that a limit is compared with: the first that was named, or the default."""
    return next((name for name in named or () if name != "all"), DEFAULT_METHOD)


def _document(answer: Comparison, source: Path, target: Path, limit: limits.Limit | None) -> dict[str, Any]:
    document = answer.to_dict()
    document["source"] = {"path": str(source), **document["source"]}
    document["target"] = {"path": str(target), **document["target"]}
    if limit is not None:
        document["limit"] = limit.to_dict(answer)
    return document


def _print(answer: Comparison, first: str) -> None:
    from shiftgauge.methods import METHODS
    from shiftgauge.results import percent

    out = console()
    about = answer.source
    out.print(
        f"source: {about['n']:,} rows, {about['k']} classes, error {percent(about['error'])}    "
        f"target: {answer.target['n']:,} rows"
    )
    out.print(_table(answer))
    named = next((one.interval for one in answer if one.range is None and one.interval), None)
    if named is not None:
        out.print(
            f"[low, high]: {100 * named.level:g}% interval for the error of the population that TARGET came from; "
            f"{named.kind}",
            style="dim",
        )
    for one in answer:
        for note in one.notes() if one.choice() else ():
            out.print(f"{METHODS[one.method].title}: {note}")
    for warning in answer.warnings:
        warn(out, spoken(warning))
    for one in answer.estimates:
        for warning in answer.own_warnings(one):
            warn(out, prefix(METHODS[one.method].title, spoken(warning)))
    out.print(_verdict(answer, first), style="bold")


def _table(answer: Comparison) -> Any:
    from rich.text import Text

    from shiftgauge.methods import METHODS
    from shiftgauge.results import percent

    truth = answer.true_error
    table = plain_table()
    table.add_column("method")
    table.add_column("estimate", justify="right")
    if truth is not None:
        table.add_column("miss", justify="right")
    table.add_column("what it is", style="dim")
    for name, estimate_text, miss in answer.rows():
        cells = [METHODS[name].title, estimate_text.replace("error ", "")]
        table.add_row(*cells, *([miss] if truth is not None else []), METHODS[name].meaning)
    if truth is not None:
        table.add_row(
            Text("truth", style="bold"), Text(percent(truth), style="bold"), "", "by the labels in TARGET"
        )
    return table


def _verdict(answer: Comparison, first: str) -> str:
    """The answer of the first named method in one sentence, with its range and whether anything speaks against it."""
    from shiftgauge.results import percent

    one = next((e for e in answer if e.method == first), answer.estimates[0])
    if one.error is None:
        return f"in short: {one.method} is a score, no error; compare it between targets"
    shown = one.shown_range
    ends = f", {percent(shown.low)} to {percent(shown.high)}," if shown else ""
    against = sum(not isinstance(text, Note) for text in (*answer.warnings, *answer.own_warnings(one)))
    doubt = f"{against} warning{'s' * (against > 1)} above" if against else "nothing seen speaks against it"
    return (
        f"in short: about {percent(one.error)}{ends} of TARGET's rows are wrong, {percent(answer.source['error'])} of "
        f"SOURCE's; {doubt}; shiftgauge doctor looks closer"
    )
