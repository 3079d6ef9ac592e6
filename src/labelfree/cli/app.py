"""The command's frame: its verbs, its exit codes, and one readable line when something is wrong."""

from __future__ import annotations

import contextlib
import os
import sys

import typer

from labelfree._version import __version__
from labelfree.cli import (
    backtest,
    bench,
    budget,
    demo,
    doctor,
    estimate,
    metrics,
    monitor,
    push,
    report,
    slices,
)
from labelfree.errors import LabelfreeError

app = typer.Typer(
    name="labelfree",
    help="How wrong is your classifier on data nobody has labelled?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("estimate")(estimate.estimate)
app.command("demo")(demo.demo)
app.command("report")(report.report)
app.command("doctor")(doctor.doctor)
app.command("metrics")(metrics.metrics)
app.command("slices")(slices.slices)
app.command("backtest")(backtest.backtest)
app.command("budget")(budget.budget)
app.add_typer(bench.app, name="bench")
app.add_typer(monitor.app, name="monitor")
app.command("push")(push.push)

#: The exit code after Ctrl-C, as in a shell.
INTERRUPTED = 130
# typer brings its own click in newer releases: the class is found through one that is always exported.
_UsageProblem: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"labelfree {__version__}")
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
    raise SystemExit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    _open_streams()
    try:
        result = typer.main.get_command(app).main(arguments, prog_name="labelfree", standalone_mode=False)
        sys.stdout.flush()
        if result == INTERRUPTED:  # newer releases of typer leave so, older ones raise
            raise KeyboardInterrupt
        return result if isinstance(result, int) else 0
    except LabelfreeError as problem:
        return _fail(str(problem))
    except _UsageProblem as problem:
        return _misused(problem)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", code=INTERRUPTED)
    except (BrokenPipeError, SystemExit):  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        return _fail("not enough memory for these scores; try fewer rows, or float32 scores in a .npy file")
    except OSError as problem:
        return _fail(f"cannot read or write ({problem.strerror or problem})")
    except Exception as problem:  # whatever it is, exit code 1 is kept for a limit that was exceeded
        if os.environ.get("LABELFREE_DEBUG"):
            raise
        return _fail(
            f"internal error, please report it: {type(problem).__name__}: {problem} "
            "(LABELFREE_DEBUG=1 shows where)"
        )


def _open_streams() -> None:
    """A closed stdout or stderr is no reason to fail, nor is a name that the terminal cannot spell."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (kept to the end)
        elif hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")


def _misused(problem: Exception) -> int:
    """Say what is wrong with the words of the command, and where the right ones are found."""
    if type(problem).__name__ == "NoArgsIsHelpError":  # the help was shown: it says it all
        return 2
    text = problem.format_message() if hasattr(problem, "format_message") else str(problem)
    context = getattr(problem, "ctx", None)
    words = "labelfree" if context is None else context.command_path
    return _fail(f"{text.rstrip('.')}; see {words} --help")


def _fail(text: str, code: int = 2) -> int:
    line = " ".join(text.split()).rstrip(".")
    with contextlib.suppress(OSError):  # nowhere to say it: the exit code must do
        typer.echo(f"labelfree: {line}", err=True)
    return code
