"""The options that say how SOURCE and TARGET are to be read, shared by the verbs."""

from __future__ import annotations

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


def read_column(path: Path, column: str) -> Any:
    """One column of a table, or one key of an .npz: groups, timestamps, labels by row."""
    from labelfree.errors import FileError, nearest

    if not path.exists():
        raise FileError(f"{path}: no such file")
    if path.suffix in (".npz", ".pt", ".pth"):
        from labelfree.io.arrays import read_mapping

        held = read_mapping(path)
        if column not in held:
            raise FileError(
                f"{path}: no key {column!r}{nearest(column, held)} (found {', '.join(list(held)[:8])})"
            )
        return held[column]
    if path.suffix == ".npy":
        raise FileError(
            f"{path}: a .npy file has no columns; wanted a table or an .npz that holds {column!r}"
        )
    from labelfree.io.tables import read_table

    table = read_table(path)
    if column not in table.column_names:
        found = ", ".join(table.column_names[:8])
        raise FileError(f"{path}: no column {column!r}{nearest(column, table.column_names)} (found {found})")
    import numpy as np

    return np.asarray(table.column(column).to_pylist(), dtype=object)
