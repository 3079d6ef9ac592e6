"""What `estimate` and `compare` share: estimates by some methods, as JSON and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftgauge.cli import options
from shiftgauge.cli.answer import Truth
from shiftgauge.cli.inputs import read_column, read_marginal
from shiftgauge.cli.screen import StepProgress, console, print_lines, print_table, print_warnings, wrapped
from shiftgauge.errors import InputError, prefix
from shiftgauge.methods.range import RANGE_LEVEL

if TYPE_CHECKING:
    from shiftgauge.cli.inputs import Samples
    from shiftgauge.methods import Pair
    from shiftgauge.results import Comparison, Estimate


@dataclass(frozen=True)
class EstimateOptions:
    """How the error is estimated: each field is an option of `estimate`, `compare` and `report`."""

    calibration: options.Calibration = "temperature"
    marginal: options.Marginal = "source"
    proportions: options.Proportions = "unknown"
    second: options.Second = None
    replicates: options.Replicates = 0
    level: options.Level = RANGE_LEVEL
    seed: options.Seed = 0
    groups: options.Groups = None
    source_groups: options.SourceGroups = None

    def arguments(self, source: Path, target: Path, samples: Samples) -> dict[str, Any]:
        """The same for the library: label shares and groups are read from their files."""
        return {
            "calibration": self.calibration,
            "marginal": read_marginal(self.marginal, samples.source),
            "proportions": self.proportions,
            "replicates": self.replicates,
            "level": self.level,
            "seed": self.seed,
            "groups": self.groups and read_column(target, self.groups, samples.target),
            "source_groups": self.source_groups and read_column(source, self.source_groups, samples.source),
        }


def check_options(methods: Sequence[str] | None, settings: EstimateOptions) -> None:
    """Refuse options that would change nothing for any of the methods (None for all)."""
    from shiftgauge.methods.registry import accepts, find

    if methods is None:
        return
    names, marginal, proportions = ", ".join(methods), settings.marginal, settings.proportions
    if marginal != "source" and not any(accepts(find(name), "marginal") for name in methods):
        raise InputError(
            f"--marginal {marginal}: {names} does not transport to label shares; wanted cot, cott or scot"
        )
    if proportions != "unknown" and "auto" not in methods:
        raise InputError(f"--proportions {proportions}: {names} does not use it; wanted auto")


def compare_methods(
    samples: Samples,
    progress: StepProgress,
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
    """Print the table of estimates, and what the reader should know."""
    from shiftgauge.methods import METHODS

    out = console()
    print_lines(out, wrapped("", first.basis(answer.source["k"]), "  "))
    print_table(out, *_table(answer, truth))
    lines = []
    interval = next((one.interval for one in answer if one.range is None and one.interval), None)
    if interval is not None:
        lines += wrapped(
            "",
            f"range: for auto as in estimate; else the {100 * interval.level:g}% interval of the bootstrap, "
            f"{interval.kind}",
            "  ",
        )
    if truth is not None:
        lines.append(f"truth: the error by the labels of {truth.where}")
    print_lines(out, lines, "dim")
    if first.why():
        grade = "" if first.counted or first.grade is None else f"grade: {first.grade}; "
        print_lines(out, wrapped(f"{METHODS[first.method].title}  ", f"{grade}{first.why()}"))
    print_warnings(out, answer.warnings)
    for one in answer.estimates:
        own = one.further_warnings(answer.own_warnings(one))
        print_warnings(out, [prefix(METHODS[one.method].title, text) for text in own])


def _table(answer: Comparison, truth: Truth | None) -> tuple[list[str], list[list[str]]]:
    from shiftgauge.methods import METHODS
    from shiftgauge.results import percent

    rows = [
        [
            METHODS[one.method].title,
            f"score {one.score:.4g}" if one.error is None else percent(one.error),
            "" if one.shown_range is None else str(one.shown_range),
            difference,
        ]
        for one, (*_, difference) in zip(answer, answer.rows(), strict=True)
    ]
    if truth is not None:
        rows.append(["truth", percent(truth.error), "", ""])
    return ["method", "estimate", "range", "difference"], rows
