"""The options that say how SOURCE and TARGET are to be read, shared by the verbs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelfree.errors import InputError

if TYPE_CHECKING:
    from labelfree.io import Form

SourceFile = Annotated[Path, typer.Argument(help="Scores with labels: .npz .npy .csv .parquet .arrow .pt")]
TargetFile = Annotated[Path, typer.Argument(help="Scores without labels, in any of the same forms")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table")]
Calibration = Annotated[str, typer.Option(help="temperature, vector or none")]
MarginalName = Annotated[
    str,
    typer.Option(
        help="The target's label shares: source, shrunk, bbse, rlls, mlls, or a file (class,mass CSV or 1-D .npy)"
    ),
]
Seed = Annotated[int, typer.Option(help="Of everything drawn at random")]
Level = Annotated[float, typer.Option(help="Of the intervals, a fraction")]
Logits = Annotated[bool, typer.Option("--logits", help="The scores are logits")]
Probs = Annotated[bool, typer.Option("--probs", help="The scores are probabilities")]
LabelsFile = Annotated[
    Path | None, typer.Option("--labels", help="SOURCE's labels, where they are in a file of their own")
]
LabelColumn = Annotated[str, typer.Option(help="The label column of a table")]
LogitPrefix = Annotated[str, typer.Option(help="What logit columns begin with")]
ProbPrefix = Annotated[str, typer.Option(help="What probability columns begin with")]
Positive = Annotated[str | None, typer.Option(help="Two classes, one column 'prob': its class")]
Negative = Annotated[str | None, typer.Option(help="Two classes, one column 'prob': the other class")]
WeightColumn = Annotated[str | None, typer.Option(help="A table's column of row weights")]
PredictionColumn = Annotated[str | None, typer.Option(help="A table's column of deployed decisions")]
Tolerance = Annotated[float | None, typer.Option(help="How far probabilities may sum from 1")]


def form(
    logits: bool,
    probs: bool,
    label_column: str,
    logit_prefix: str,
    prob_prefix: str,
    positive: str | None,
    negative: str | None,
    weight_column: str | None,
    prediction_column: str | None,
    tolerance: float | None,
) -> Form:
    """What the user said about the form of the files."""
    if logits and probs:
        raise InputError("--logits and --probs were both given; wanted one: what are the scores?")
    from labelfree.io import Form

    return Form(
        kind="logits" if logits else "probs" if probs else None,
        logit_prefix=logit_prefix,
        prob_prefix=prob_prefix,
        label=label_column,
        weight=weight_column,
        prediction=prediction_column,
        positive=positive,
        negative=negative,
        tolerance=tolerance,
    )


def marginal_of(name: str, classes: tuple[Any, ...] | None) -> Any:
    """A marginal by name, or from a file."""
    from labelfree.io import read_marginal
    from labelfree.labelshift import MARGINALS, check_marginal

    if name in MARGINALS:
        return name
    if not Path(name).exists() and not Path(name).suffix:
        check_marginal(name)
    return read_marginal(name, classes)


def refuse_idle(form: Form, paths: Sequence[Path | None]) -> None:
    """Refuse options about columns where no file has any."""
    from labelfree.io import is_table

    said = {
        "label-column": None if form.label == "label" else form.label,
        "weight-column": form.weight,
        "prediction-column": form.prediction,
        "positive": form.positive,
        "negative": form.negative,
    }
    named = [name for name, value in said.items() if value is not None]
    if named and not any(is_table(path) for path in paths if path is not None):
        raise InputError(
            f"--{named[0]} is about the columns of a table, and no file is one; "
            "an .npz has the keys labels, weights and predictions"
        )
