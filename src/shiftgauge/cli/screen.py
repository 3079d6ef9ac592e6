"""Output of the commands: results on stdout, progress and notes on stderr."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

import typer

from shiftgauge.errors import Note, format_warning, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: Called with the name of each step of the work.
Progress = Callable[[str], None]
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
    """Print a line on stderr."""
    typer.echo(f"shiftgauge: {printable(text)}", err=True)


def note_after(text: str) -> None:
    """Print a line on stderr once the command has answered; not with --quiet, and not beside an error."""
    if not _quiet:
        _notes.append(text)


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


def wrapped(head: str, text: str, indent: str | None = None) -> list[str]:
    """The lines of a text behind a word, at the width of the terminal; elsewhere at 80 columns."""
    width = min(max(shutil.get_terminal_size((80, 24)).columns, MIN_WIDTH), MAX_WIDTH)
    below = " " * len(head) if indent is None else indent
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=below, break_on_hyphens=False)


def plain_table(**options: Any) -> Table:
    """A table without lines, with bold headings."""
    from rich.table import Table

    return Table(box=None, pad_edge=False, header_style="bold", **options)


def print_table(out: Console, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the table of a result, its lines not wrapped."""
    from shiftgauge.results import text_table

    for line in text_table(head, rows):
        out.print(line.removeprefix("  "), no_wrap=True, crop=False, overflow="ignore")


def warn(out: Console, text: str) -> None:
    """Print a warning, or a note on how the data was read."""
    out.print(format_warning(text), style="dim" if isinstance(text, Note) else "yellow")


@contextmanager
def show_progress() -> Iterator[Progress]:
    """Show the current step on stderr, if it is a terminal, once the work takes longer than a second."""
    if _quiet or not sys.stderr.isatty():
        yield lambda step: None
        return
    import threading

    from rich.console import Console
    from rich.text import Text

    status = Console(stderr=True).status("working")
    timer = threading.Timer(PROGRESS_DELAY_SECONDS, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda step: status.update(Text(printable(step)))
    finally:
        timer.cancel()
        status.stop()
