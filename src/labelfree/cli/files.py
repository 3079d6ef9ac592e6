"""The options that say how SOURCE and TARGET are to be read, shared by the verbs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from labelfree.cli.options import (
    AsJson,
    Calibration,
    Check,
    Level,
    MarginalName,
    Second,
    Seed,
    SourceFile,
    TargetFile,
    at_least,
)
from labelfree.errors import InputError

if TYPE_CHECKING:
    from labelfree.cli.screen import Say
    from labelfree.io import Form
    from labelfree.types import Source, Target

__all__ = [
    "AsJson",
    "Calibration",
    "Check",
    "Level",
    "MarginalName",
    "Reading",
    "Second",
    "Seed",
    "SourceFile",
    "TargetFile",
    "at_least",
    "column_of",
    "marginal_of",
    "reads",
    "refuse_overwriting",
]


@dataclass(frozen=True)
class Reading:
    """How the files are to be read: each field is an option of every verb that reads scores."""

    logits: Annotated[bool, typer.Option("--logits", help="The scores are logits")] = False
    probs: Annotated[bool, typer.Option("--probs", help="The scores are probabilities")] = False
    labels: Annotated[
        Path | None, typer.Option("--labels", help="SOURCE's labels, where they are in a file of their own")
    ] = None
    label_column: Annotated[str, typer.Option(help="The label column of a table")] = "label"
    logit_prefix: Annotated[str, typer.Option(help="What logit columns begin with")] = "logit_"
    prob_prefix: Annotated[str, typer.Option(help="What probability columns begin with")] = "prob_"
    positive: Annotated[str | None, typer.Option(help="Two classes, one column 'prob': its class")] = None
    negative: Annotated[
        str | None,
        typer.Option(help="Two classes, one column 'prob': the other class"),
    ] = None
    weight_column: Annotated[str | None, typer.Option(help="A table's column of row weights")] = None
    prediction_column: Annotated[
        str | None,
        typer.Option(help="A table's column of deployed decisions"),
    ] = None
    tolerance: Annotated[float | None, typer.Option(help="How far probabilities may sum from 1")] = None

    def __post_init__(self) -> None:
        if self.logits and self.probs:
            raise InputError("--logits and --probs were both given; wanted one: what are the scores?")

    def form(self, *paths: Path | None) -> Form:
        """What was said of these files; refuses options about columns where no file has any."""
        from labelfree.io import Form, is_table

        columns = [f for f in fields(self) if f.name not in ("logits", "probs", "labels", "tolerance")]
        said = [f.name for f in columns if getattr(self, f.name) != f.default]
        if said and not any(is_table(path) for path in paths if path is not None):
            raise InputError(
                f"--{said[0].replace('_', '-')} is about the columns of a table, and no file is one; "
                "an .npz has the keys labels, weights and predictions"
            )
        return Form(
            kind="logits" if self.logits else "probs" if self.probs else None,
            logit_prefix=self.logit_prefix,
            prob_prefix=self.prob_prefix,
            label=self.label_column,
            weight=self.weight_column,
            prediction=self.prediction_column,
            positive=self.positive,
            negative=self.negative,
            tolerance=self.tolerance,
        )

    def source(self, path: Path) -> Source:
        """SOURCE alone."""
        from labelfree import io

        return io.read_source(path, self.form(path, self.labels), self.labels)

    def both(
        self,
        source: Path,
        target: Path,
        say: Say,
        *others: Path | None,
        second: Path | None = None,
        target_labels: Path | None = None,
        check: bool = False,
    ) -> tuple[Source, Target, Any]:
        """SOURCE, TARGET, and TARGET's labels if they are to be checked against; `others` are read later."""
        from labelfree import io

        if target_labels is not None and not check:
            raise InputError(f"--target-labels {target_labels}: they are used by --check alone; pass it too")
        form = self.form(source, target, self.labels, second, target_labels, *others)
        say(f"reading {source}")
        known = io.read_source(source, form, self.labels)
        say(f"reading {target}")
        unknown, truth = io.read_target(target, form, second)
        if target_labels is not None:
            truth = io.read_labels(target_labels, form, unknown.classes)
        if check and truth is None:
            raise InputError(f"{target}: --check was asked for, but there are no labels to check against")
        return known, unknown, truth if check else None


def reads(verb: Callable[..., None]) -> Callable[..., None]:
    """Make the verb's parameter `reading` one option for each of its fields.

    Parameters that the verb lists behind `reading` are more files of labels: they come after --labels.
    """
    signature = inspect.signature(verb, eval_str=True)
    own = list(signature.parameters.values())
    hints = get_type_hints(Reading, include_extras=True)
    options = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(Reading)
    ]
    here = [p.name for p in own].index("reading")
    there = [p.name for p in options].index("labels") + 1
    shown = [*own[:here], *options[:there], *own[here + 1 :], *options[there:]]

    @functools.wraps(verb)
    def run(**given: Any) -> None:
        verb(reading=Reading(**{option.name: given.pop(option.name) for option in options}), **given)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in shown]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def refuse_overwriting(out: Path, inputs: Iterable[Path | None]) -> None:
    """Refuse to write to a file that was named as an input."""
    for path in inputs:
        if path is not None and out.exists() and path.exists() and out.samefile(path):
            raise InputError(f"--rows {out}: that is an input, which would be lost; wanted another file")


def column_of(path: Path, name: str, rows: int) -> Any:
    """A column or key that says something of each of the scores' rows."""
    from labelfree.io import read_column

    values = read_column(path, name)
    if values.shape != (rows,):
        raise InputError(
            f"{path}: {name!r} arrived with shape {values.shape}; wanted one value per row of scores, ({rows},)"
        )
    return values


def marginal_of(name: str, source: Source) -> Any:
    """A marginal by name, or from a file, for the classes of the source."""
    from labelfree.io import read_marginal
    from labelfree.labelshift import MARGINALS, check_marginal

    if name in MARGINALS:
        return name
    if not Path(name).exists() and not Path(name).suffix:
        check_marginal(name)
    return read_marginal(name, source.classes, source.k)
