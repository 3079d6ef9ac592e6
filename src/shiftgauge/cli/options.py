"""The command's words: one per meaning in every command, with one help and one default, and the panel it is shown in.

A command takes what it needs: `groups: options.Groups = None`. A word that is new here names its panel in `PANELS`;
one that is not listed there is about what to estimate.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from shiftgauge.cli.screen import quietly
from shiftgauge.methods import METHODS
from shiftgauge.validation import check_count

WHAT, DATA, OUTPUT = "What to estimate", "How the files are read", "Output"
PANELS = {
    DATA: (
        *(
            "logits",
            "probs",
            "insist",
            "tolerance",
            "labels",
            "target-labels",
            "drop-unlabelled",
            "label-column",
        ),
        *("logit-prefix", "prob-prefix", "positive", "negative", "threshold", "weight-column"),
        *("prediction-column", "id", "second", "data", "dask", "checkpoint"),
    ),
    OUTPUT: ("json", "rows", "out", "format", "fail-above", "on", "quiet", "help"),
}
_ORDER = (WHAT, DATA, OUTPUT)
_NAMES = ", ".join(METHODS)


def at_least(least: int) -> Callable[[typer.CallbackParam, int], int]:
    """A check of a whole number: typer's own bounds would widen every help by a column."""

    def check(param: typer.CallbackParam, value: int) -> int:
        check_count(value, f"--{param.name}", least)
        return value

    return check


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, **more)


SourceFile = Annotated[
    Path,
    typer.Argument(
        help="Scores with labels: .npz .npy .csv .jsonl .parquet .arrow .pt, or - for standard input"
    ),
]
TargetFile = Annotated[Path, typer.Argument(help="Scores without labels, in any of the same forms")]

# What to estimate.
Method = Annotated[str, _option("--method", "-m", help=f"Whose estimate: {_NAMES}; see shiftgauge methods")]
Methods = Annotated[
    list[str] | None,
    _option(
        "--method",
        "-m",
        help=f"{_NAMES}, or all; may be repeated; see shiftgauge methods",
        show_default="auto",
    ),
]
Calibration = Annotated[str, _option(help="temperature, vector or none")]
MarginalName = Annotated[
    str,
    _option(
        help="The target's label shares: source, shrunk, bbse, rlls, mlls, or a file (class,mass CSV or 1-D .npy)"
    ),
]
Proportions = Annotated[
    str,
    _option(help="For auto: what you know of TARGET's class proportions: same, changed or unknown"),
]
OneMethod = Annotated[
    str | None,
    _option(
        "--method",
        "-m",
        help="Whose posterior; see shiftgauge methods.  [default: auto; scot where --marginal is given]",
    ),
]
GivenMarginal = Annotated[
    str | None,
    _option(
        help="The target's label shares: source, shrunk, bbse, rlls, mlls, or a file (class,mass CSV or 1-D .npy)",
    ),
]
By = Annotated[
    list[str] | None,
    _option("--by", help="TARGET's column (or .npz key) to slice by; may be repeated"),
]
Groups = Annotated[
    str | None,
    _option(
        help="TARGET's column (or .npz key) of rows that belong together, such as a user's: resampled together"
    ),
]
SourceGroups = Annotated[str | None, _option(help="The same of SOURCE")]
Replicates = Annotated[int, _option(help="Bootstrap replicates behind each interval; 0 for none")]
Level = Annotated[float, _option(help="Of ranges and intervals, a fraction")]
Seed = Annotated[int, _option(callback=at_least(0), help="Of everything drawn at random")]
Check = Annotated[bool, _option("--check", help="TARGET has labels: show each method's miss")]

# How the files are read; most of it stands in `files.ReadingOptions`.
Second = Annotated[Path | None, _option(help="A second model's scores or predictions on TARGET, for gde")]
Id = Annotated[str | None, _option("--id", help="TARGET's column that names its rows; travels into --rows")]

# Output.
AsJson = Annotated[bool, _option("--json", help="Print JSON instead of a table")]
Rows = Annotated[Path | None, _option(help="Write one line per target row to this .csv .parquet .arrow .npz")]
FailAbove = Annotated[
    float | None,
    _option(help="Leave with exit code 1 if the first named method's error is above this fraction"),
]
Quiet = Annotated[
    bool,
    _option(
        "--quiet",
        "-q",
        help="Show no progress and no table: only JSON if asked for, alarms, and the exit code",
    ),
]


def panel(name: str) -> str:
    """The panel of the help that shows an option, by its longest name without dashes."""
    return next((title for title, names in PANELS.items() if name in names), WHAT)


class Verb(TyperCommand):
    """A command whose help shows its options in panels: what, data, output."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, panel by panel; arguments keep their places."""
        found: list[Any] = super().get_params(ctx)
        for one in found:
            if one.param_type_name == "option":
                one.rich_help_panel = panel(max(one.opts, key=len).lstrip("-"))
        return sorted(found, key=_place)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the help to the letter: what stands in brackets is text, no markup."""
        from rich.markup import escape

        spoken: list[Any] = [one for one in (self, *self.params) if getattr(one, "help", None)]
        texts = [one.help for one in spoken]
        for one in spoken:
            one.help = escape(one.help)
        super().format_help(ctx, formatter)
        for one, text in zip(spoken, texts, strict=True):
            one.help = text


def _place(parameter: Any) -> int:
    return -1 if parameter.param_type_name == "argument" else _ORDER.index(parameter.rich_help_panel)


def worded(command: Any) -> Any:
    """The command, and those within it, with what a help shows beside each word: nothing where none is taken."""
    own = command.get_params

    def get_params(ctx: Any) -> list[Any]:
        found: list[Any] = own(ctx)
        for one in found:
            if one.metavar is None:
                one.metavar = _beside(one)
        return found

    command.get_params = get_params
    for within in getattr(command, "commands", {}).values():
        worded(within)
    return command


def _beside(parameter: Any) -> str | None:
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    if parameter.is_flag:
        return ""
    return "NAME" if parameter.multiple else None


def quietable(command: Callable[..., None]) -> Callable[..., None]:
    """The command with --quiet, under which `screen.console` and `screen.working` are silent."""
    signature = inspect.signature(command, eval_str=True)
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in signature.parameters.values()]
    quiet = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)

    @functools.wraps(command)
    def run(*, quiet: bool = False, **given: Any) -> None:
        with quietly(quiet):
            command(**given)

    run.__signature__ = signature.replace(parameters=[*own, quiet])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*own, quiet)}
    return run
