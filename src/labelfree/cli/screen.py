"""What the verbs share when they speak: results on stdout, progress on stderr, tables for people."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: Nothing is shown for work that is done sooner than this.
PATIENCE_SECONDS = 1.0


class Say(Protocol):
    """Name the step that begins now."""

    def __call__(self, step: str) -> None:
        """Say it."""
        ...


def console() -> Console:
    """A console on stdout that never wraps or colours what goes to a file; brackets in names are no markup."""
    from rich.console import Console

    class Quiet(Console):
        """A console that leaves a broken pipe to the command, which knows what to do."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    terminal = sys.stdout.isatty()
    width = None if terminal else 200
    return Quiet(soft_wrap=not terminal, markup=False, emoji=False, highlight=False, width=width)


def plain_table(**options: Any) -> Table:
    """A table without lines, headed in bold."""
    from rich.table import Table

    return Table(box=None, pad_edge=False, header_style="bold", **options)


def warn(out: Console, text: str) -> None:
    """Print a condition on the answer."""
    out.print(f"! {text}", style="yellow")


@contextmanager
def working(quiet: bool = False) -> Iterator[Say]:
    """Show the current step on stderr once the work takes longer than a second."""
    if quiet or not sys.stderr.isatty():
        yield _plain_steps(quiet)
        return
    import threading

    from rich.console import Console
    from rich.text import Text

    status = Console(stderr=True).status("working")
    timer = threading.Timer(PATIENCE_SECONDS, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda step: status.update(Text(step))
    finally:
        timer.cancel()
        status.stop()


def _plain_steps(quiet: bool) -> Say:
    begun = time.monotonic()

    def say(step: str) -> None:
        if not quiet and time.monotonic() - begun > PATIENCE_SECONDS:
            typer.echo(f"labelfree: {step} ...", err=True)

    return say
