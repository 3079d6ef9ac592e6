"""The screen of `estimate`: the answer, why, and what to do, in at most eight lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shiftgauge.cli.options import use_option_names
from shiftgauge.cli.screen import console, warn, wrapped
from shiftgauge.errors import Note, format_warning

if TYPE_CHECKING:
    from shiftgauge.results import Comparison, Estimate, Interval

#: Lines of the screen without --verbose.
LINES = 8
#: A range narrower than this is shown with decimals.
NARROW = 0.05
#: Rows to label next.
MORE_LABELS = 20
GRADES = {"ok": "good confidence", "caution": "moderate confidence", "stop": "low confidence"}
#: What the label-shift test saw.
SHIFTS = {
    "none": "the scores look like those of SOURCE",
    "label": "other class proportions explain how the scores differ from SOURCE",
    "other": "the scores differ from SOURCE beyond class proportions",
    "unknown": "there are too few rows to tell what changed",
}


@dataclass(frozen=True)
class Truth:
    """The error by labels to compare with.

    Attributes:
        error: this error.
        labels, rows: how many of TARGET's rows have a label.
    """

    error: float
    labels: int
    rows: int

    @property
    def where(self) -> str:
        """Which rows it rests on."""
        return "all rows" if self.labels == self.rows else f"{self.labels:,} of {self.rows:,} rows"


@dataclass(frozen=True)
class Commands:
    """What to type next: the same files with another command."""

    label_plan: str
    doctor: str


def headline(one: Estimate) -> str:
    """The answer in one line: error, range, grade in words."""
    from shiftgauge.results import percent

    if one.error is None:
        return f"{one.method} {one.score:.4g}   a score, not an error: compare it between targets"
    parts = [f"error {percent(one.error)}"]
    shown = one.shown_range
    if one.labels is not None and one.labels.n == one.n_target:
        parts.append("by the labels of all rows")
    elif shown is not None:
        kind = "range" if one.range is not None else "interval"
        parts.append(f"{100 * shown.level:g}% {kind} {ends(shown)}")
        parts += [GRADES[one.details["grade"]]] if "grade" in one.details else ["sampling error alone"]
    return "   ".join(parts)


def ends(interval: Interval) -> str:
    """Both ends of an interval, as few digits as its width allows."""
    digits = 0 if interval.high - interval.low >= NARROW else 1
    return f"{100 * interval.low:.{digits}f}% to {100 * interval.high:.{digits}f}%"


def rows_line(answer: Comparison, one: Estimate) -> str:
    """The source error, the rows and the labels."""
    from shiftgauge.results import percent

    labels = 0 if one.labels is None else one.labels.n
    plural = "" if labels == 1 else "s"
    error, k = answer.source["error"], answer.source["k"]
    worse = ", worse than chance: are labels and columns in the same order?" if error > 1.0 - 1.0 / k else ""
    return f"validation error {percent(error)}{worse}; {answer.target['n']:,} rows, {labels:,} label{plural}"


def truth_line(one: Estimate, truth: Truth) -> str:
    """The truth, and how far the answer is from it."""
    from shiftgauge.results import percent

    text = f"truth {percent(truth.error)}, by the labels of {truth.where}"
    if one.error is None:
        return text
    points = 100 * (one.error - truth.error)
    side = "above" if points >= 0 else "below"
    return f"{text}; the estimate is {abs(points):.1f} points {side}"


def print_answer(
    answer: Comparison, one: Estimate, truth: Truth | None, commands: Commands, verbose: bool
) -> None:
    """Print the answer, why, what to do, and warnings; with `verbose` everything."""
    out = console()
    out.print(headline(one), style="bold")
    lines = [rows_line(answer, one)] + (
        [] if truth is None else wrapped("", truth_line(one, truth), "      ")
    )
    lines += [*wrapped("why   ", _why(one)), *_next(one, commands)]
    for line in lines:
        out.print(line, no_wrap=True, crop=False, overflow="ignore")
    warnings = [*answer.warnings, *answer.own_warnings(one)]
    if verbose:
        for text in one.notes():
            out.print(text)
        for method, error in one.details.get("answers", {}).items():
            out.print(f"  {method:<12} {100 * error:5.1f}%")
        for text in warnings:
            warn(out, use_option_names(text))
        return
    _print_warnings(out, _not_said(one, warnings), LINES - 1 - len(lines))


def _why(one: Estimate) -> str:
    """What the answer rests on."""
    from shiftgauge.methods import METHODS
    from shiftgauge.results import percent

    if one.labels is not None:
        labels = one.labels
        rows = "the labelled row is" if labels.n == 1 else "the labelled rows are"
        text = f"{labels.errors:,} of {rows} wrong; scores alone say {percent(labels.scores_error)} "
        text += f"({ends(labels.scores_range)})"
        if labels.n < one.n_target:
            text += f", labels alone {percent(labels.error)} ({ends(labels.range)})"
        if labels.chosen == "unknown":
            text += "; nobody knows why these rows have labels, so they do not narrow the range"
        return text + ("; the two contradict each other: follow the labels" if labels.contradicts else "")
    if "shift" not in one.details or "answers" not in one.details:
        return f"{METHODS[one.method].title}: {METHODS[one.method].meaning}"
    answers = [error for name, error in one.details["answers"].items() if name != "unchanged"]
    low, high = min(answers), max(answers)
    digits = 0 if high - low >= NARROW else 1
    methods = f"methods range from {100 * low:.{digits}f}% to {100 * high:.{digits}f}%"
    return f"{SHIFTS[one.details['shift']]}; {methods}"


def _next(one: Estimate, commands: Commands) -> list[str]:
    """What to do."""
    if one.range is None:
        return wrapped("next  ", "leave --method out: auto says how far to trust its answer")
    if one.labels is not None and one.labels.n == one.n_target:
        return []
    if one.labels is not None and one.labels.contradicts:
        return [
            *wrapped("next  ", "find out what changed, and label more rows:"),
            f"      {commands.doctor}",
        ]
    if one.details["grade"] == "ok":
        return [*wrapped("next  ", "look for reasons not to trust it:"), f"      {commands.doctor}"]
    if one.labels is not None:
        return [*wrapped("next  ", "label more rows:"), f"      {commands.label_plan}"]
    from shiftgauge.inference.label_plans import expected_range_of
    from shiftgauge.methods.labels import prior_of

    count = min(MORE_LABELS, one.n_target)
    after = expected_range_of(prior_of(one), count, one.n_target, one.range.level)
    width, wide = (round(100 * (i.high - i.low)) for i in (after, one.range))
    text = f"label {count} rows: the range should shrink from {wide} to {width} points"
    return [*wrapped("next  ", text), f"      {commands.label_plan}"]


def _not_said(one: Estimate, warnings: Sequence[str]) -> list[str]:
    """The warnings that the grade, and what to do next, have not said already."""
    said = "" if one.labels is None else one.labels.contradiction()
    return [text for text in warnings if text != said and "(shiftgauge label-plan)" not in text]


def _print_warnings(out: Any, warnings: Sequence[str], room: int) -> None:
    """Warnings before notes, as many as there is room for; the others are counted."""
    ordered = sorted(warnings, key=lambda text: isinstance(text, Note))
    blocks = [wrapped("", format_warning(use_option_names(text)), "  ") for text in ordered]
    shown = 0
    while shown < len(blocks):
        last = shown == len(blocks) - 1
        if len(blocks[shown]) > room - (not last):
            break
        room -= len(blocks[shown])
        style = "dim" if isinstance(ordered[shown], Note) else "yellow"
        for line in blocks[shown]:
            out.print(line, style=style)
        shown += 1
    left = ordered[shown:]
    if left:
        notes = sum(isinstance(text, Note) for text in left)
        counts = ((len(left) - notes, "warning"), (notes, "note"))
        what = " and ".join(f"{count} {word}{'s' * (count > 1)}" for count, word in counts if count)
        out.print(f"! {what} more: --verbose" if shown else f"! {what}: --verbose", style="yellow")
