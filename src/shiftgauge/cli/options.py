"""Options that several commands share: one name, one meaning, one help text and one default in all of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftgauge.cli.screen import quietly
from shiftgauge.errors import InputError
from shiftgauge.validation import check_count

#: Panels of the help; the few options that matter most are in its first one.
LABELS, METHOD, BOOTSTRAP = "Labels of TARGET", "The method", "Bootstrap"
OUTPUT, DATA = "Output", "How the files are read"
_MARGINALS = "source, shrunk, bbse, rlls, mlls or a file (class,mass CSV or 1-D .npy)"


def at_least(least: int) -> Callable[[typer.CallbackParam, int], int]:
    """A check of a whole number: typer's own bounds would widen every help by a column."""

    def check(param: typer.CallbackParam, value: int) -> int:
        check_count(value, f"--{param.name}", least)
        return value

    return check


labels_option = functools.partial(typer.Option, rich_help_panel=LABELS)
method_option = functools.partial(typer.Option, rich_help_panel=METHOD)
bootstrap_option = functools.partial(typer.Option, rich_help_panel=BOOTSTRAP)
output_option = functools.partial(typer.Option, rich_help_panel=OUTPUT)
data_option = functools.partial(typer.Option, rich_help_panel=DATA)

SourceFile = Annotated[
    Path,
    typer.Argument(metavar="SOURCE", help="Scores with labels: a file, or - (stdin)"),
]
TargetFile = Annotated[Path, typer.Argument(metavar="TARGET", help="Scores without labels")]

METHOD_HELP = "auto, or a name (shiftgauge methods)"
Method = Annotated[str, typer.Option("--method", "-m", help=METHOD_HELP)]
PosteriorMethod = Annotated[
    str | None,
    typer.Option(
        "--method",
        "-m",
        help="The method whose posterior is used; see shiftgauge methods",
        show_default="auto; scot if --marginal is given",
    ),
]
Calibration = Annotated[str, method_option(help="temperature (default), vector or none", show_default=False)]
Marginal = Annotated[str, method_option(help=f"Label shares: {_MARGINALS}", show_default=False)]
OptionalMarginal = Annotated[str | None, method_option(help=f"Label shares: {_MARGINALS}")]
Proportions = Annotated[
    str,
    typer.Option(help="Class mix: same, changed, unknown (default)", show_default=False),
]
By = Annotated[
    list[str] | None,
    typer.Option("--by", help="TARGET's column (or .npz key) to slice by; may be repeated"),
]
Groups = Annotated[
    str | None,
    bootstrap_option(help="Column of dependent rows, such as users"),
]
SourceGroups = Annotated[str | None, bootstrap_option(help="The same for SOURCE")]
Replicates = Annotated[int, bootstrap_option(help="Bootstrap replicates; 0 for none")]
IntervalReplicates = Annotated[int, bootstrap_option(callback=at_least(20), help="Bootstrap replicates")]
Level = Annotated[float, typer.Option(help="Level of ranges")]
Seed = Annotated[int, bootstrap_option(callback=at_least(0), help="Seed of all random numbers")]
Second = Annotated[Path | None, method_option(help="A second model's scores on TARGET, for gde")]

Verbose = Annotated[bool, output_option("--verbose", "-v", help="Also print how it was computed, all notes")]
AsJson = Annotated[bool, output_option("--json", help="Print JSON instead of text")]
Out = Annotated[Path | None, output_option("--out", "-o", help="The file to write")]
Quiet = Annotated[
    bool,
    output_option("--quiet", "-q", help="Print only errors, and JSON if requested"),
]


def check_distinct(names: list[str] | None, option: str) -> list[str]:
    """Refuse a name that was given twice."""
    names = names or []
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{option} {twice}: it was given twice; wanted different columns")
    return names


def set_parameters(function: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> None:
    """Make typer see these parameters of a function."""
    keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    function.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in keywords}


def add_quiet(app: typer.Typer) -> None:
    """Add --quiet to every command of the app and of its groups."""
    main = app.registered_callback
    if main is not None and main.callback is not None and main.invoke_without_command is True:
        main.callback = _with_quiet(main.callback)
    for command in app.registered_commands:
        assert command.callback is not None
        command.callback = _with_quiet(command.callback)
    for group in app.registered_groups:
        assert group.typer_instance is not None
        add_quiet(group.typer_instance)


def _with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def run(*, quiet: bool = False, **values: Any) -> None:
        requested = bool(values.get("as_json") or values.get("document_format"))
        with quietly(quiet, stdout=requested):
            command(**values)

    own = inspect.signature(command, eval_str=True).parameters.values()
    option = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)
    set_parameters(run, [*own, option])
    return run
