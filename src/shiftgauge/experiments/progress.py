"""Progress of long work: one signature for every stage, shown as bars or lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[str, int, int, str], None]
"""Called with (stage, done, total, what is being done now); a new stage starts a new count.

The stage names the seed or the shift (``training, seed 0``); the last argument changes from call to call (an epoch
and its loss, a shift).
"""


def silent(stage: str, done: int, total: int, what: str) -> None:
    """Show nothing.

    >>> silent("training", 1, 2, "epoch 1")
    """


class Clock:
    """Rate and time left of every stage, counted from its first report.

    Work that was done before that report, by a run that was resumed, does not count as speed.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began: dict[str, tuple[float, int]] = {}
        self._last: dict[str, int] = {}

    def read(self, stage: str, done: int, total: int) -> str:
        """``3.2/s, 1:05 left``; empty until there is a rate."""
        if done < self._last.get(stage, 0):
            # The stage starts again with another part of the work.
            del self._began[stage]
        self._last[stage] = done
        began, first = self._began.setdefault(stage, (self._now(), done))
        passed = self._now() - began
        if done <= first or passed <= 0:
            return ""
        rate = (done - first) / passed
        left = round((total - done) / rate)
        hours, rest = divmod(left, 3600)
        clock = f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
        return f"{rate:.1f}/s, {clock} left" if rate >= 1 else f"{60 * rate:.1f}/min, {clock} left"


@contextmanager
def shown() -> Iterator[Progress]:
    """One bar per stage on stderr; a line per minute if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        clock, tasks = Clock(), dict[str, Any]()

        def show(stage: str, done: int, total: int, what: str) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total, text="")
            text = ", ".join(part for part in (what, clock.read(stage, done, total)) if part)
            bars.update(tasks[stage], completed=done, total=total, text=text)
            if done >= total:
                bars.remove_task(tasks.pop(stage))

        yield show


def lines(every: float = 60.0, now: Callable[[], float] = time.monotonic, out: Any = None) -> Progress:
    """Print a line on stderr (or ``out``) at most once in ``every`` seconds."""
    clock, last = Clock(now), [now()]

    def show(stage: str, done: int, total: int, what: str) -> None:
        rate = clock.read(stage, done, total)
        if now() - last[0] >= every:
            last[0] = now()
            text = ", ".join(part for part in (f"{stage}: {done}/{total}", what, rate) if part)
            print(f"shiftgauge: {text}", file=out or sys.stderr, flush=True)

    return show
