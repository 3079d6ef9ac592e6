"""`labelfree estimate SOURCE TARGET`: the error on the target, by one method or all."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelfree.cli import files, options
from labelfree.cli.screen import alarm, console, plain_table, warn, working
from labelfree.errors import InputError

if TYPE_CHECKING:
    from labelfree.results import Comparison
    from labelfree.types import Source, Target

DEFAULT_METHOD = "auto"
#: Replicates behind an interval, and how many scores are too many to resample without being asked.
REPLICATES, MANY_SCORES = 200, 5_000_000


@files.reads
def estimate(
    source: files.SourceFile,
    target: files.TargetFile,
    method: options.Methods = None,
    calibration: files.Calibration = "temperature",
    marginal: files.MarginalName = "source",
    second: files.Second = None,
    check: files.Check = False,
    fail_above: options.FailAbove = None,
    rows: options.Rows = None,
    as_json: files.AsJson = False,
    replicates: Annotated[
        int | None,
        typer.Option(
            help="Bootstrap replicates behind each interval; 0 for none", show_default="200 for named methods"
        ),
    ] = None,
    level: files.Level = 0.95,
    seed: files.Seed = 0,
    groups: options.Groups = None,
    source_groups: options.SourceGroups = None,
    *,
    reading: files.Reading,
    target_labels: Annotated[
        Path | None, typer.Option(help="TARGET's labels for --check, in a file of their own")
    ] = None,
) -> None:
    """Estimate the error of a classifier on TARGET, which has no labels, from SOURCE, which has."""
    limit = _limit(fail_above)

    from labelfree import io
    from labelfree.estimators import Pair
    from labelfree.io.write import check_ending
    from labelfree.trust.answers import compared, true_error
    from labelfree.trust.posteriors import row_table

    if rows is not None:
        check_ending(rows)
        files.refuse_overwriting(rows, [source, target, second, reading.labels, target_labels, marginal])
    with working() as say:
        known, unknown, truth = reading.both(
            source, target, say, second=second, target_labels=target_labels, check=check
        )
        shares = files.marginal_of(marginal, known)
        _refuse_idle_marginal(marginal, method)
        settings = _resampling(
            _replicates(replicates, method, known, unknown),
            level,
            seed,
            groups and files.column_of(target, groups, unknown.n),
            source_groups and files.column_of(source, source_groups, known.n),
        )
        say("calibration")
        pair = Pair(known, unknown, calibration, seed=seed, verb="estimate")
        checked = true_error(unknown, truth)
        comparison = compared(pair, _methods(method), settings, marginal=shares, truth=checked, progress=say)
        table = None
        if rows is not None:
            say("rows")
            table = row_table(pair, _first(method), marginal=shares)
    first = _first(method)
    exceeded = _exceeded(comparison, first, limit)
    if as_json:
        _print_json(comparison, source, target, first, limit, exceeded)
    else:
        _print_table(comparison)
        if exceeded:
            alarm(f"{first} is above the limit of {100 * (limit or 0):g}%")
    if rows is not None and table is not None:
        io.write_table(rows, table)
    if exceeded:
        raise typer.Exit(1)


def _resampling(replicates: int, level: float, seed: int, groups: Any, source_groups: Any) -> Any:
    """The bootstrap's settings, or None where no interval is wanted."""
    from labelfree._door import check_fraction
    from labelfree.trust.resampling import Resampling

    if replicates:
        return Resampling(replicates, level, seed, groups, source_groups)
    check_fraction(level, "level", 0.95)
    if groups is not None or source_groups is not None:
        raise InputError("--groups are for the intervals, and there are none; name a method, or --replicates")
    return None


def _replicates(asked: int | None, named: list[str] | None, source: Source, target: Target) -> int:
    """How many replicates: as asked, or 200 for methods that were named while the data is not huge."""
    if asked is not None:
        return asked
    many = source.scores.size + target.scores.size > MANY_SCORES
    return 0 if many or "all" in (named or ()) else REPLICATES


def _methods(named: list[str] | None) -> list[str] | None:
    if not named:
        return [DEFAULT_METHOD]
    return None if "all" in named else list(named)


def _refuse_idle_marginal(marginal: str, named: list[str] | None) -> None:
    """A marginal that none of the named methods takes would change nothing."""
    from labelfree.estimators.registry import accepts, find

    methods = _methods(named)
    if marginal != "source" and methods and not any(accepts(find(name), "marginal") for name in methods):
        raise InputError(
            f"--marginal {marginal}: {', '.join(methods)} does not transport to label shares; "
            "wanted cot, cott or scot beside it"
        )


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
    table = plain_table()
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
    named = next((one.interval for one in comparison if one.interval and one.interval == one.sampling), None)
    if named is not None:
        out.print(
            f"[low, high]: {100 * named.level:g}% interval for the error of the population that TARGET came from; "
            f"{named.kind}",
            style="dim",
        )
    for one in comparison:
        for note in one.notes() if one.choice() else ():
            out.print(f"{METHODS[one.method].title}: {note}")
    for warning in comparison.warnings:
        warn(out, warning)
    for one in comparison.estimates:
        for warning in comparison.own_warnings(one):
            warn(out, f"{METHODS[one.method].title}: {warning}")
