"""The command `shiftgauge`: its subcommands, its exit codes, and one line on stderr when something is wrong."""

from __future__ import annotations

import contextlib
import os
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
    "demo": demo.demo,
    "estimate": estimate.estimate,
    "report": report.report,
    "compare": compare.compare,
    "metrics": metrics.metrics,
    "slices": slices.slices,
    "drivers": drivers.drivers,
    "timeline": timeline.timeline,
    "doctor": doctor.doctor,
    "label-plan": label_plan.label_plan,
    "label-progress": label_plan.label_progress,
    "warm-up": warm_up.warm_up,
    "methods": methods.methods,
    "backtest": backtest.backtest,
}
GROUPS = {"monitor": monitor.app, "push": push.app, "bench": bench.app}
#: The commands of each panel of the help, what each does in one line, and how it is called.
PANELS = {
    "Start": {
        "demo": ("See estimates beside the truth on recorded data", ""),
        "estimate": ("Estimate the error on new data", "val.csv new.csv --labels twenty.csv"),
        "report": ("Write one page to show to a colleague", "val.csv new.csv --by region -o report.html"),
    },
    "Look closer": {
        "compare": ("Estimate the error by several methods", "val.csv new.csv -m auto -m scot --check"),
        "metrics": ("Precision, recall, F1 and more", "val.csv new.csv --confusion"),
        "slices": ("The error of each slice", "val.csv new.csv --by region"),
        "drivers": ("Which columns changed, and what it did", "val.csv new.csv --by age --by region"),
        "timeline": ("The error of each day, week or month", "val.csv new.csv --time date --every week"),
        "doctor": ("Check the data for reasons not to trust it", "val.csv new.csv"),
    },
    "Labels": {
        "label-plan": ("Choose which rows to label", "val.csv new.csv -n 20 -o rows.csv"),
        "label-progress": ("Say when labelling may stop", "plan.json rows.csv"),
    },
    "Service": {
        "warm-up": ("Compile the solvers, for container images", ""),
        "monitor": ("Follow deployed models: pages, alerts, labels", ""),
        "push": ("Send a file to a monitor", ""),
    },
    "Research": {
        "methods": ("List the methods", ""),
        "backtest": ("Try the methods on shifts of your own rows", "val.csv --by region"),
        "bench": ("Reproduce the paper's experiments", ""),
    },
}
for _panel, _commands in PANELS.items():
    for _name, (_short, _example) in _commands.items():
        if _name in COMMANDS:
            _epilog = f"Example: shiftgauge {_name} {_example}".rstrip()
            app.command(_name, short_help=_short, epilog=_epilog, rich_help_panel=_panel)(COMMANDS[_name])
        else:
            app.add_typer(GROUPS[_name], name=_name, short_help=_short, rich_help_panel=_panel)
add_quiet(app)

#: The exit code after Ctrl-C, as in a shell.
INTERRUPTED = 130
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
    raise SystemExit(run(arguments))


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
    return typer.main.get_command(app)


def _run(arguments: list[str] | None) -> int:
    try:
        result = _command().main(arguments, prog_name="shiftgauge", standalone_mode=False)
        if result == INTERRUPTED:  # newer releases of typer return it, older ones raise
            return _fail("interrupted", code=INTERRUPTED)
        return result if isinstance(result, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", code=INTERRUPTED)
    except Exception as problem:  # exit code 1 means that a limit was exceeded, so nothing else may return it
        # A library may turn an interrupt into an error of its own.
        if isinstance(problem.__context__, KeyboardInterrupt) or type(problem).__name__ == "ArrowCancelled":
            return _fail("interrupted", code=INTERRUPTED)
        return _explain(problem)


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
