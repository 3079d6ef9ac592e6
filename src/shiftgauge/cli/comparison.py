"""What `estimate` and `compare` share: estimates by some methods, as JSON and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftgauge.cli.answer import Truth, headline, rows_line
from shiftgauge.cli.options import use_option_names
from shiftgauge.cli.screen import Progress, console, plain_table, warn
from shiftgauge.errors import InputError, prefix

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
) -> tuple[Pair, Comparison, Truth | None]:
    """The estimates of the methods (None for all), and the true error if there are labels to compare with."""
    from shiftgauge.inference import compare

    if replicates:
        settings |= {"replicates": replicates, "groups": groups, "source_groups": source_groups}
    elif groups is not None or source_groups is not None:
        raise InputError("--groups are for the intervals, and there are none; pass --replicates 200 too")
    progress("calibration")
    pair = samples.pair(calibration, "estimate", seed)
    interval = bool(replicates)
    with samples.files_in_errors():
        answer = compare(pair, methods=methods, seed=seed, interval=interval, progress=progress, **settings)
    known = samples.true_error()
    if known is None:
        return pair, answer, None
    truth = Truth(*known, samples.target.n)
    return pair, replace(answer, target={**answer.target, "true_error": truth.error}), truth


def to_document(answer: Comparison, source: Path, target: Path) -> dict[str, Any]:
    """The comparison as JSON values, with the paths of the files."""
    document = answer.to_dict()
    document["source"] = {"path": str(source), **document["source"]}
    document["target"] = {"path": str(target), **document["target"]}
    return document


def print_comparison(answer: Comparison, first: Estimate, truth: Truth | None) -> None:
    """Print the first method's answer, the table of estimates, and what the reader should know."""
    from shiftgauge.methods import METHODS

    out = console()
    out.print(headline(first), style="bold")
    out.print(rows_line(answer, first))
    out.print(_table(answer, truth))
    if truth is not None:
        out.print(f"truth is the error by the labels of {truth.where}", style="dim")
    interval = next((one.interval for one in answer if one.range is None and one.interval), None)
    if interval is not None:
        out.print(
            f"[low, high]: {100 * interval.level:g}% interval for the error of the population that TARGET came from; "
            f"{interval.kind}",
            style="dim",
        )
    if first.labels is not None:
        out.print(first.labels.sentence())
    for text in first.choice():
        out.print(f"{METHODS[first.method].title}: {text}")
    for warning in answer.warnings:
        warn(out, use_option_names(warning))
    for one in answer.estimates:
        for warning in answer.own_warnings(one):
            warn(out, prefix(METHODS[one.method].title, use_option_names(warning)))


def _table(answer: Comparison, known: Truth | None) -> Any:
    from rich.text import Text

    from shiftgauge.methods import METHODS
    from shiftgauge.results import percent

    truth = answer.true_error
    table = plain_table()
    table.add_column("method")
    table.add_column("estimate", justify="right")
    if truth is not None:
        table.add_column("difference", justify="right")
    for name, estimate_text, difference in answer.rows():
        cells = [METHODS[name].title, estimate_text.replace("error ", "")]
        table.add_row(*cells, *([difference] if truth is not None else []))
    if known is not None:
        bold = (Text(text, style="bold") for text in ("truth", percent(known.error)))
        table.add_row(*bold, "")
    return table
