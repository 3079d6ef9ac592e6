"""The screen of `estimate`: the answer, why, and what to do, in at most eight lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shiftgauge.cli.screen import console, print_lines, print_warnings, use_option_names, wrapped
from shiftgauge.errors import Note, format_warning

if TYPE_CHECKING:
    from rich.console import Console

    from shiftgauge.results import Comparison, Estimate

#: Lines of the screen without --verbose, notes on stderr included.
LINES = 8


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

    def sentence(self, one: Estimate) -> str:
        """The truth beside an estimate."""
        from shiftgauge.results import percent

        text = f"truth {percent(self.error)} by the labels of {self.where}"
        if one.error is None:
            return text
        ends = one.range
        if ends is not None and not one.counted and not ends.low <= self.error <= ends.high:
            text += f", outside the {100 * ends.level:g}% range"
        points = 100 * (one.error - self.error)
        return f"{text}; the estimate is {abs(points):.1f} points {'above' if points >= 0 else 'below'}"


@dataclass(frozen=True)
class Commands:
    """What to type next: the same files with another command."""

    label_plan: str
    doctor: str


def print_answer(
    answer: Comparison, one: Estimate, truth: Truth | None, commands: Commands, verbose: bool, below: int
) -> None:
    """Print the answer, why, what to do, and warnings; with `verbose` everything.

    `below` is the number of lines that follow on stderr.
    """
    out = console()
    out.print(one.headline(), style="bold")
    lines = wrapped("", one.basis(answer.source["k"]), "  ")
    if truth is not None:
        lines += wrapped("", truth.sentence(one), "  ")
    lines += wrapped("why   ", _why(one))
    advice = _advice(one, commands)
    warnings = [*answer.warnings, *answer.own_warnings(one)]
    if verbose:
        print_lines(
            out, [*lines, *advice, *(line for text in one.notes() for line in wrapped("", text, "  "))]
        )
        for method, error in one.details.get("answers", {}).items():
            out.print(f"  {method:<12} {100 * error:5.1f}%")
        print_warnings(out, warnings)
        return
    left = one.further_warnings(warnings)
    room = LINES - 1 - len(lines) - below
    if len(advice) + bool(left) <= room:
        lines, room = lines + advice, room - len(advice)
    print_lines(out, lines)
    _print_warnings(out, left, room)


def _why(one: Estimate) -> str:
    """What the answer rests on; for a method that was named, what it is."""
    from shiftgauge.methods import METHODS

    return one.why() or f"{METHODS[one.method].title}: {METHODS[one.method].meaning}"


def _advice(one: Estimate, commands: Commands) -> list[str]:
    """What to do."""
    if one.range is None:
        return wrapped("next  ", "leave --method out: auto says how far to trust its answer")
    advice = one.advice()
    if advice is None:
        return []
    text, step = advice
    if step == "label_plan" and one.labels is None:
        from shiftgauge.inference.label_plans import expected_range_of
        from shiftgauge.methods.labels import prior_of
        from shiftgauge.results import MORE_LABELS

        count = min(MORE_LABELS, one.n_target)
        after = expected_range_of(prior_of(one), count, one.n_target, one.range.level)
        width, wide = (round(100 * (i.high - i.low)) for i in (after, one.range))
        text += f", and the range should shrink from {wide} to {width} points"
    command = commands.label_plan if step == "label_plan" else commands.doctor
    return [*wrapped("next  ", f"{text}:"), *wrapped("      ", command, "        ", continued=True)]


def _print_warnings(out: Console, warnings: Sequence[str], room: int) -> None:
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
        print_lines(out, blocks[shown], style)
        shown += 1
    left = ordered[shown:]
    if left:
        notes = sum(isinstance(text, Note) for text in left)
        counts = ((len(left) - notes, "warning"), (notes, "note"))
        what = " and ".join(f"{count} {word}{'s' * (count > 1)}" for count, word in counts if count)
        out.print(f"! {what} more: --verbose" if shown else f"! {what}: --verbose", style="yellow")
