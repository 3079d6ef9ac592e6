"""What the verbs share when they speak: results on stdout, progress on stderr, tables for people."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from shiftgauge.errors import Note, format_warning, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: Nothing is shown for work that is done sooner than this.
PATIENCE_SECONDS = 1.0
#: A terminal narrower than this is written to as if it were so wide: rich prints nothing at a width of 0.
NARROWEST = 40
#: What may stand in a text that is printed beside its letters.
LINES = "\n\t"
_silent = False


class Say(Protocol):
    """Name the step that begins now."""

    def __call__(self, step: str) -> None:
        """Say it."""
        ...


@contextmanager
def quietly(silent: bool) -> Iterator[None]:
    """Within, `console()` prints nothing and `working()` shows nothing, if silent; `alarm` still speaks."""
    global _silent
    before, _silent = _silent, silent or _silent
    try:
        yield
    finally:
        _silent = before


def console() -> Console:
    """A console on stdout that never wraps or colours what goes to a file; brackets in names are no markup."""
    return _console(quiet=_silent)


def alarm(text: str, style: str = "bold red") -> None:
    """Print what must be heard even with --quiet, such as a limit that was exceeded."""
    _console(quiet=False).print(text, style=style)


def _console(quiet: bool) -> Console:
    from rich.console import Console

    class Spelled(Console):
        """A console that spells control characters out."""

        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(printable(text, LINES), **options)

        def render(self, renderable: Any, options: Any = None) -> Any:
            for part in super().render(renderable, options):
                yield part if part.control else part._replace(text=printable(part.text, LINES))

    terminal = sys.stdout.isatty()
    made = Spelled(soft_wrap=not terminal, markup=False, emoji=False, highlight=False, quiet=quiet)
    made.width = max(made.width, NARROWEST) if terminal else 200
    return made


def plain_table(**options: Any) -> Table:
    """A table without lines, headed in bold."""
    from rich.table import Table

    return Table(box=None, pad_edge=False, header_style="bold", **options)


def warn(out: Console, text: str) -> None:
    """Print a condition on the answer, or a note on how its data was read."""
    out.print(format_warning(text), style="dim" if isinstance(text, Note) else "yellow")


@contextmanager
def working(quiet: bool = False) -> Iterator[Say]:
    """Show the current step on a terminal's stderr once the work takes longer than a second."""
    if quiet or _silent or not sys.stderr.isatty():
        yield lambda step: None
        return
    import threading

    from rich.console import Console
    from rich.text import Text

    status = Console(stderr=True).status("working")
    timer = threading.Timer(PATIENCE_SECONDS, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda step: status.update(Text(printable(step)))
    finally:
        timer.cancel()
        status.stop()
