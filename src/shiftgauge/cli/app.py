"""The command's frame: its verbs, its exit codes, and one readable line when something is wrong."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import typer

from shiftgauge._version import __version__
from shiftgauge.cli import (
    _streams,
    backtest,
    bench,
    budget,
    demo,
    doctor,
    estimate,
    methods,
    metrics,
    monitor,
    push,
    report,
    slices,
    warm_up,
)
from shiftgauge.cli.options import Verb, quietable, worded
from shiftgauge.errors import ShiftgaugeError, printable, shortened

app = typer.Typer(
    name="shiftgauge",
    help="How wrong is your classifier on data nobody has labelled?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
VERBS: dict[str, Callable[..., None]] = {
    "estimate": estimate.estimate,
    "methods": methods.methods,
    "warm-up": warm_up.warm_up,
    "demo": demo.demo,
    "report": report.report,
    "doctor": doctor.doctor,
    "metrics": metrics.metrics,
    "slices": slices.slices,
    "backtest": backtest.backtest,
    "budget": budget.budget,
}
for _name, _verb in VERBS.items():
    app.command(_name, cls=Verb)(quietable(_verb))
app.add_typer(bench.app, name="bench")
app.add_typer(monitor.app, name="monitor")
app.command("push")(push.push)

#: The exit code after Ctrl-C, as in a shell.
INTERRUPTED = 130
#: The interrupts that arrived.
_interrupts: list[int] = []
# typer brings its own click in newer releases: the class is found through one that is always exported.
_UsageProblem: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shiftgauge {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run the command and leave with 0 (fine), 1 (a stated limit was exceeded) or 2 (bad usage or data)."""
    if signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None):  # a background job may ignore it
        _interrupts.clear()
        _on_interrupt(_interrupt)
    code = run(arguments)
    if code == INTERRUPTED:  # the impatient press twice: nothing more is to be said on the way out
        _on_interrupt(signal.SIG_IGN)
        # An interrupt that left a text being executed, as dataclasses are made by, is kept in mind by the interpreter,
        # and `python -m` would end by the signal whatever the exit code; the next text to be executed clears that.
        exec("")
    raise SystemExit(code)


def _interrupt(number: int, frame: Any) -> None:
    """Note the interrupt before it is raised: a library in between may turn it into an error of its own."""
    _interrupts.append(number)
    signal.default_int_handler(number, frame)


def _on_interrupt(do: Any) -> None:
    with contextlib.suppress(ValueError):  # called from a thread, which signals never reach
        signal.signal(signal.SIGINT, do)


def run(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code, which does not depend on who reads its output.

    An answer that did not arrive, as where the disk is full, is a failure (2); a limit that was exceeded stays one (1).
    """
    _streams.settle()
    _settle_environment()
    code = _run(arguments)
    problem = _streams.lost()
    return code if problem is None else _fail(_unwritten(problem), code=code or 2)


@cache
def _command() -> Any:
    return worded(typer.main.get_command(app))


def _run(arguments: list[str] | None) -> int:
    try:
        result = _command().main(arguments, prog_name="shiftgauge", standalone_mode=False)
        if result == INTERRUPTED:  # newer releases of typer leave so, older ones raise
            raise KeyboardInterrupt
        return result if isinstance(result, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", code=INTERRUPTED)
    except Exception as problem:  # whatever it is, exit code 1 is kept for a limit that was exceeded
        if _was_interrupt(problem):
            return _fail("interrupted", code=INTERRUPTED)
        return _explained(problem, sys.argv[1:] if arguments is None else arguments)


def _explained(problem: Exception, arguments: Sequence[str]) -> int:
    if isinstance(problem, ShiftgaugeError):
        return _fail(str(problem))
    if isinstance(problem, _UsageProblem):
        return _misused(problem, arguments)
    if isinstance(problem, MemoryError):
        return _fail("not enough memory for these scores; try fewer rows, or float32 scores in a .npy file")
    if isinstance(problem, OSError):
        return _fail(_unwritten(problem))
    return _unforeseen(problem)


def _was_interrupt(problem: BaseException | None) -> bool:
    """Whether an interrupt is behind an error: libraries turn it into their own, with or without naming it."""
    while problem is not None and not _interrupts:
        if isinstance(problem, KeyboardInterrupt) or type(problem).__name__ == "ArrowCancelled":
            return True
        problem = problem.__cause__ or problem.__context__
    return bool(_interrupts)


def _unwritten(problem: OSError) -> str:
    return f"cannot read or write ({problem.strerror or problem})"


def _settle_environment() -> None:
    """Variables that are meant for other programs, or for none, must not break this one."""
    os.environ["MPLBACKEND"] = "agg"  # a notebook's own cannot be imported elsewhere; we draw to files alone
    if not os.environ.get("COLUMNS", "1").strip("0"):
        del os.environ["COLUMNS"]  # rich would print nothing at a width of 0
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        del os.environ["NUMBA_DISABLE_JIT"]
        _fail("NUMBA_DISABLE_JIT is ignored: the solver runs compiled only")


def _unforeseen(problem: Exception) -> int:
    if os.environ.get("SHIFTGAUGE_DEBUG"):
        raise problem
    return _fail(
        f"internal error, please report it: {type(problem).__name__}: {problem} (SHIFTGAUGE_DEBUG=1 shows where)"
    )


def _misused(problem: Exception, arguments: Sequence[str]) -> int:
    """Say what is wrong with the words of the command, and where the right ones are found."""
    if type(problem).__name__ == "NoArgsIsHelpError":  # the help was shown: it says it all
        return 2
    text = problem.format_message() if hasattr(problem, "format_message") else str(problem)
    text = _with_what_arrived(text, arguments)
    context = getattr(problem, "ctx", None)
    words = "shiftgauge" if context is None else context.command_path
    return _fail(f"{text.rstrip('.')}; see {words} --help")


def _fail(text: str, code: int = 2) -> int:
    line = shortened(printable(" ".join(text.split())).rstrip("."))
    with contextlib.suppress(OSError):  # nowhere to say it: the exit code must do
        typer.echo(f"shiftgauge: {line}", err=True)
    return code


def _with_what_arrived(text: str, arguments: Sequence[str]) -> str:
    """The complaint about an option's value, with the value, which not every release of typer repeats."""
    complaint = re.match(r"Invalid value for (?:'-\w' / )?'(--[\w-]+)'", text)
    if complaint is None:
        return text
    name = complaint[1]
    apart = [value for word, value in pairwise(arguments) if word == name]
    values = [*apart, *(word.partition("=")[2] for word in arguments if word.startswith(f"{name}="))]
    if not values:
        return text
    return f"{complaint[0]} ({', '.join(map(printable, values))}){text[complaint.end() :]}"
