"""Output of the commands: results on stdout, progress and notes on stderr."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, Protocol

import typer

from shiftgauge.errors import Note, format_warning, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


class StepProgress(Protocol):
    """What reports the steps of the work."""

    def __call__(self, step: str, done: int = 0, total: int | None = None) -> None:
        """Begin or continue a step, of which so much is done, of a total if that is known."""


#: Progress is shown after this time.
PROGRESS_DELAY_SECONDS = 1.0
#: The smallest width of a terminal: rich prints nothing at a width of 0.
MIN_WIDTH = 40
#: Texts are not wider, however wide the terminal.
MAX_WIDTH = 100
#: Control characters that are printed as they are.
LINES = "\n\t"
_quiet = False
_notes: list[str] = []


@contextmanager
def quietly(quiet: bool, stdout: bool = False) -> Iterator[None]:
    """Inside, if quiet, no progress is shown, and nothing is printed unless `stdout`."""
    global _quiet
    if not quiet:
        yield
        return
    before, _quiet = _quiet, True
    try:
        if stdout:
            yield
        else:
            with open(os.devnull, "w", encoding="utf-8") as null, redirect_stdout(null):
                yield
    finally:
        _quiet = before


def note(text: str) -> None:
    """Print a note on stderr."""
    for line in _note_lines(text):
        typer.echo(line, err=True)


def _note_lines(text: str) -> list[str]:
    return wrapped("shiftgauge: ", printable(text), "  ")


def note_after(text: str, *, even_if_quiet: bool = False) -> None:
    """Print a note on stderr once the command has answered; not beside an error."""
    if even_if_quiet or not _quiet:
        _notes.append(text)


def waiting_lines() -> int:
    """How many lines wait for the answer."""
    return sum(len(_note_lines(text)) for text in _notes)


def print_notes(answered: bool) -> None:
    """Print, or forget, the lines that wait for the answer."""
    while _notes:
        text = _notes.pop(0)
        if answered:
            note(text)


def console() -> Console:
    """A console on stdout that escapes control characters, and neither wraps nor colours output to a file."""
    from rich.console import Console

    class EscapingConsole(Console):
        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(printable(text, LINES), **options)

        def render(self, renderable: Any, options: Any = None) -> Any:
            for part in super().render(renderable, options):
                yield part if part.control else part._replace(text=printable(part.text, LINES))

    terminal = sys.stdout.isatty()
    out = EscapingConsole(soft_wrap=not terminal, markup=False, emoji=False, highlight=False)
    out.width = max(out.width, MIN_WIDTH) if terminal else 200
    return out


def wrapped(head: str, text: str, indent: str | None = None, *, continued: bool = False) -> list[str]:
    """The lines of a text behind a word, at the width of the terminal; elsewhere at 80 columns.

    A command line that is `continued` keeps its meaning: all lines but the last end with a backslash.
    """
    from shiftgauge.results import wrapped as wrap

    width = min(max(shutil.get_terminal_size((80, 24)).columns, MIN_WIDTH), MAX_WIDTH)
    if not continued:
        return wrap(head, text, indent, width)
    lines = wrap(head, text, indent, width if len(head + text) <= width else width - 2)
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def print_lines(out: Console, lines: Iterable[str], style: str = "") -> None:
    """Print lines that are wrapped already."""
    for line in lines:
        out.print(line, style=style, no_wrap=True, crop=False, overflow="ignore")


def plain_table(head: Iterable[str] = (), left: int = 1, **options: Any) -> Table:
    """A table without lines, with bold headings; columns after the first `left` ones are aligned to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", **options)
    for number, heading in enumerate(head):
        table.add_column(heading, justify="left" if number < left else "right")
    return table


def column_groups(first: int, widths: Sequence[int]) -> list[list[int]]:
    """The columns of a wide table, by number, in groups whose tables fit 80 columns beside one of width `first`.

    >>> column_groups(10, [30, 30, 30])
    [[0, 1], [2]]
    """
    from shiftgauge.results import WIDTH

    groups: list[list[int]] = [[]]
    total = first
    for number, width in enumerate(widths):
        if total + 2 + width > WIDTH and groups[-1]:
            groups.append([])
            total = first
        groups[-1].append(number)
        total += 2 + width
    return groups


def print_wide_table(out: Console, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with numbers after its first column, as several below each other if it is too wide."""
    first, *widths = (max(map(len, column)) for column in zip(head, *rows, strict=True))
    for group in column_groups(first, widths):
        shown = [0, *(number + 1 for number in group)]
        table = plain_table([head[number] for number in shown])
        for row in rows:
            table.add_row(*(row[number] for number in shown))
        out.print(table)


def print_table(out: Console, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the table of a result, its lines not wrapped."""
    from shiftgauge.results import text_table

    print_lines(out, (line.removeprefix("  ") for line in text_table(head, rows)))


#: Arguments of the library with an option of the same name.
_ARGUMENTS = "marginal|calibration|groups|source_groups|second|by|time|level|replicates|labels_chosen"
_ARGUMENT = re.compile(rf"\b({_ARGUMENTS})=(?:'([^']*)')?(?!\w)")


def use_option_names(text: str) -> str:
    """A message of the library with its arguments replaced by the options of the command.

    >>> use_option_names("use marginal='shrunk', or pass groups=; gde needs one (second=, --second)")
    'use --marginal shrunk, or pass --groups; gde needs one (--second)'
    """
    text_type = type(text)
    text = re.sub(r"\b\w+=, (?=--)", "", text)
    return text_type(_ARGUMENT.sub(lambda m: f"--{m[1].replace('_', '-')} {m[2] or ''}".rstrip(), text))


def print_warnings(out: Console, warnings: Iterable[str]) -> None:
    """Print warnings, and notes on how the data was read, with the options of the command in place of arguments."""
    for text in warnings:
        lines = wrapped("", format_warning(use_option_names(text)), "  ")
        print_lines(out, lines, "dim" if isinstance(text, Note) else "yellow")


@contextmanager
def show_progress() -> Iterator[StepProgress]:
    """Show a progress bar on stderr, if it is a terminal, once the work takes longer than a second."""
    if _quiet or not sys.stderr.isatty():
        yield lambda step, done=0, total=None: None
        return
    import threading

    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}", markup=False), BarColumn(20), TimeRemainingColumn())
    bars = Bars(*columns, console=Console(stderr=True), transient=True)
    bar = bars.add_task("working", total=None)
    timer = threading.Timer(PROGRESS_DELAY_SECONDS, bars.start)
    timer.daemon = True
    timer.start()

    def show(step: str, done: int = 0, total: int | None = None) -> None:
        description = printable(step)
        if bars.tasks[0].description != description:
            bars.reset(bar, total=total, description=description)
        bars.update(bar, completed=done, total=total)

    try:
        yield show
    finally:
        timer.cancel()
        bars.stop()
