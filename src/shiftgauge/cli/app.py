"""The command `shiftgauge`: its subcommands, its exit codes, and one line on stderr when something is wrong."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from functools import cache
from typing import Any

import typer

from shiftgauge._version import __version__
from shiftgauge.cli import (
    backtest,
    bench,
    compare,
    demo,
    doctor,
    drivers,
    estimate,
    label_plan,
    methods,
    metrics,
    monitor,
    push,
    report,
    slices,
    streams,
    timeline,
    warm_up,
)
from shiftgauge.cli.options import add_quiet
from shiftgauge.cli.screen import print_notes
from shiftgauge.errors import ShiftgaugeError, printable, shortened

app = typer.Typer(
    name="shiftgauge",
    help="How wrong is your classifier on data nobody has labelled?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, Callable[..., None]] = {
    "estimate": estimate.estimate,
    "compare": compare.compare,
    "methods": methods.methods,
    "warm-up": warm_up.warm_up,
    "demo": demo.demo,
    "report": report.report,
    "doctor": doctor.doctor,
    "metrics": metrics.metrics,
    "slices": slices.slices,
    "drivers": drivers.drivers,
    "timeline": timeline.timeline,
    "backtest": backtest.backtest,
    "label-plan": label_plan.label_plan,
    "label-progress": label_plan.label_progress,
}
#: An example of each, at the end of its help.
EXAMPLES = {
    "estimate": "val.csv new.csv --labels twenty.csv",
    "compare": "val.csv new.csv -m auto -m scot --check",
    "methods": "",
    "warm-up": "",
    "demo": "",
    "report": "val.csv new.csv --by region -o report.html",
    "doctor": "val.csv new.csv",
    "metrics": "val.csv new.csv --confusion",
    "slices": "val.csv new.csv --by region",
    "drivers": "val.csv new.csv --by age --by region",
    "timeline": "val.csv new.csv --time date --every week",
    "backtest": "val.csv --by region",
    "label-plan": "val.csv new.csv -n 20 -o rows.csv",
    "label-progress": "plan.json rows.csv",
}
for _name, _function in COMMANDS.items():
    app.command(_name, epilog=f"Example: shiftgauge {_name} {EXAMPLES[_name]}".rstrip())(_function)
app.add_typer(push.app, name="push")
app.add_typer(bench.app, name="bench")
app.add_typer(monitor.app, name="monitor")
add_quiet(app)

#: The exit code after Ctrl-C, as in a shell.
INTERRUPTED = 130
_interrupts: list[int] = []
# Newer releases of typer contain their own click, so its class comes from one that typer always exports.
_UsageError: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


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
    """Run the command and exit with 0 (fine), 1 (a stated limit was exceeded) or 2 (bad usage or data)."""
    _interrupts.clear()
    with contextlib.suppress(ValueError):  # not the main thread, which alone receives signals
        if signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None):  # a background job may ignore it
            signal.signal(signal.SIGINT, _interrupt)
    code = run(arguments)
    if _interrupts:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C
        # If the interrupt left code in `exec`, as in dataclasses, `python -m` would end by the signal, whatever the
        # exit code. The next `exec` clears that state.
        exec("")
    raise SystemExit(code)


def _interrupt(number: int, frame: Any) -> None:
    """Record the interrupt before raising it: a library may turn it into an error of its own."""
    _interrupts.append(number)
    signal.default_int_handler(number, frame)


def run(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code, which does not depend on who reads its output.

    If the output cannot be written, as on a full disk, the code is 2; but 1 if a limit was exceeded.
    """
    streams.protect()
    _clean_environment()
    code = _run(arguments)
    print_notes(answered=code in (0, 1))
    problem = streams.write_error()
    return code if problem is None else _fail(_os_error(problem), code=code or 2)


@cache
def _command() -> Any:
    command = typer.main.get_command(app)
    _set_metavars(command)
    return command


def _run(arguments: list[str] | None) -> int:
    try:
        result = _command().main(arguments, prog_name="shiftgauge", standalone_mode=False)
        if result == INTERRUPTED:  # newer releases of typer return it, older ones raise
            return _fail("interrupted", code=INTERRUPTED)
        return result if isinstance(result, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", code=INTERRUPTED)
    except Exception as problem:  # exit code 1 means that a limit was exceeded, so nothing else may return it
        if _interrupts or type(problem).__name__ == "ArrowCancelled":
            return _fail("interrupted", code=INTERRUPTED)
        return _explain(problem)


def _set_metavars(command: Any) -> None:
    """In the help, show arguments in capitals, as the texts do, and no value after a flag."""
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.metavar = parameter.metavar or parameter.name.upper()
        elif parameter.is_flag:
            parameter.metavar = ""
        elif parameter.multiple:
            parameter.metavar = "TEXT"
    for one in getattr(command, "commands", {}).values():
        _set_metavars(one)


def _explain(problem: Exception) -> int:
    if isinstance(problem, ShiftgaugeError):
        return _fail(str(problem))
    if isinstance(problem, _UsageError):
        return _usage_error(problem)
    if isinstance(problem, MemoryError):
        return _fail("not enough memory for these scores; try fewer rows, or float32 scores in a .npy file")
    if isinstance(problem, OSError):
        return _fail(_os_error(problem))
    if os.environ.get("SHIFTGAUGE_DEBUG"):
        raise problem
    return _fail(
        f"internal error, please report it: {type(problem).__name__}: {problem} (SHIFTGAUGE_DEBUG=1 shows where)"
    )


def _os_error(problem: OSError) -> str:
    return f"cannot read or write ({problem.strerror or problem})"


def _clean_environment() -> None:
    """Remove settings for other programs that would break this one."""
    os.environ["MPLBACKEND"] = "agg"  # a notebook's backend cannot be imported here; figures go to files
    if not os.environ.get("COLUMNS", "1").strip("0"):
        del os.environ["COLUMNS"]  # rich prints nothing at a width of 0
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        del os.environ["NUMBA_DISABLE_JIT"]
        _fail("NUMBA_DISABLE_JIT is ignored: the solver runs compiled only")


def _usage_error(problem: Exception) -> int:
    if type(problem).__name__ == "NoArgsIsHelpError":  # the help was printed
        return 2
    text = problem.format_message() if hasattr(problem, "format_message") else str(problem)
    context = getattr(problem, "ctx", None)
    command = "shiftgauge" if context is None else context.command_path
    return _fail(f"{text.rstrip('.')}; see {command} --help")


def _fail(text: str, code: int = 2) -> int:
    line = shortened(printable(" ".join(text.split())).rstrip("."))
    with contextlib.suppress(OSError):  # stderr is closed
        typer.echo(f"shiftgauge: {line}", err=True)
    return code
