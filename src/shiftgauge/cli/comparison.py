"""What `estimate` and `compare` share: estimates by some methods, as JSON and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftgauge.cli.options import use_option_names
from shiftgauge.cli.screen import Progress, console, plain_table, warn
from shiftgauge.errors import InputError, Note, prefix

if TYPE_CHECKING:
    from shiftgauge.cli.inputs import Samples
    from shiftgauge.methods import Pair
    from shiftgauge.results import Comparison, Estimate


def check_options(methods: Sequence[str] | None, marginal: str, proportions: str) -> None:
    """Refuse options that would change nothing for any of the methods (None for all)."""
    from shiftgauge.methods.registry import accepts, find

    if methods is None:
        return
    names = ", ".join(methods)
    if marginal != "source" and not any(accepts(find(name), "marginal") for name in methods):
        raise InputError(
            f"--marginal {marginal}: {names} does not transport to label shares; wanted cot, cott or scot"
        )
    if proportions != "unknown" and "auto" not in methods:
        raise InputError(f"--proportions {proportions}: {names} does not use it; wanted auto")


def compare_methods(
    samples: Samples,
    progress: Progress,
    methods: Sequence[str] | None,
    *,
    calibration: str,
    replicates: int,
    groups: Any,
    source_groups: Any,
    seed: int,
    **settings: Any,
) -> tuple[Pair, Comparison]:
    """The estimates of the methods (None for all), with the true error if the samples have the truth."""
    from shiftgauge.inference import compare
    from shiftgauge.inference.estimates import true_error
    from shiftgauge.methods import Pair

    if replicates:
        settings |= {"replicates": replicates, "groups": groups, "source_groups": source_groups}
    elif groups is not None or source_groups is not None:
        raise InputError("--groups are for the intervals, and there are none; pass --replicates 200 too")
    progress("calibration")
    pair = Pair(samples.source, samples.target, calibration, seed=seed, function="estimate")
    interval = bool(replicates)
    answer = compare(pair, methods=methods, seed=seed, interval=interval, progress=progress, **settings)
    if samples.truth is not None:
        truth = true_error(samples.target, samples.truth)
        answer = replace(answer, target={**answer.target, "true_error": truth})
    return pair, answer


def to_document(answer: Comparison, source: Path, target: Path) -> dict[str, Any]:
    """The comparison as JSON values, with the paths of the files."""
    document = answer.to_dict()
    document["source"] = {"path": str(source), **document["source"]}
    document["target"] = {"path": str(target), **document["target"]}
    return document


def print_comparison(answer: Comparison, first: Estimate) -> None:
    """Print the table of estimates, notes, warnings, and the first method's answer in one sentence."""
    from shiftgauge.methods import METHODS
    from shiftgauge.results import percent

    out = console()
    source = answer.source
    out.print(
        f"source: {source['n']:,} rows, {source['k']} classes, error {percent(source['error'])}    "
        f"target: {answer.target['n']:,} rows"
    )
    out.print(_table(answer))
    interval = next((one.interval for one in answer if one.range is None and one.interval), None)
    if interval is not None:
        out.print(
            f"[low, high]: {100 * interval.level:g}% interval for the error of the population that TARGET came from; "
            f"{interval.kind}",
            style="dim",
        )
    for one in answer:
        for text in one.notes() if one.choice() else ():
            out.print(f"{METHODS[one.method].title}: {text}")
    for warning in answer.warnings:
        warn(out, use_option_names(warning))
    for one in answer.estimates:
        for warning in answer.own_warnings(one):
            warn(out, prefix(METHODS[one.method].title, use_option_names(warning)))
    out.print(_summary(answer, first), style="bold")


def _table(answer: Comparison) -> Any:
    from rich.text import Text

    from shiftgauge.methods import METHODS
    from shiftgauge.results import percent

    truth = answer.true_error
    table = plain_table()
    table.add_column("method")
    table.add_column("estimate", justify="right")
    if truth is not None:
        table.add_column("difference", justify="right")
    table.add_column("what it is", style="dim")
    for name, estimate_text, difference in answer.rows():
        cells = [METHODS[name].title, estimate_text.replace("error ", "")]
        table.add_row(*cells, *([difference] if truth is not None else []), METHODS[name].meaning)
    if truth is not None:
        table.add_row(
            Text("truth", style="bold"), Text(percent(truth), style="bold"), "", "by the labels in TARGET"
        )
    return table


def _summary(answer: Comparison, one: Estimate) -> str:
    """One estimate in a sentence, with its range and the number of warnings."""
    from shiftgauge.results import percent

    if one.error is None:
        return f"in short: {one.method} is a score, not an error; compare it between targets"
    shown = one.shown_range
    ends = f", {percent(shown.low)} to {percent(shown.high)}," if shown else ""
    count = sum(not isinstance(text, Note) for text in (*answer.warnings, *answer.own_warnings(one)))
    warnings = f"{count} warning{'s' * (count > 1)} above" if count else "no warnings"
    return (
        f"in short: about {percent(one.error)}{ends} of TARGET's rows are wrong, {percent(answer.source['error'])} of "
        f"SOURCE's; {warnings}; shiftgauge doctor checks more"
    )
