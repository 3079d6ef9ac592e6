"""Any metric without labels: the confusion matrix that SCOT's posteriors expect, and what follows from it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError, Note, prefix
from shiftgauge.inference.estimates import estimate
from shiftgauge.inference.pairs import SourceOrPair, to_pair
from shiftgauge.labelshift import Marginal
from shiftgauge.methods.pair import accepted_options, resolve_method
from shiftgauge.methods.posterior import Posterior
from shiftgauge.results import Result, percent, render
from shiftgauge.rows import Block, Rows, Totals, run
from shiftgauge.samples import Target

Array = npt.NDArray[np.float64]


#: What numbers per class rest on; they carry no range.
RESTS_ON = (
    "numbers per class have no range: they rest on the posterior of each row, which no label checked; a class can be "
    "far off in either direction, so do not rank classes by them; label rows of those that matter"
)


@dataclass(frozen=True, repr=False)
class Metrics(Result):
    """Estimated metrics of the target.

    Numbers per class carry no range. They rest on the posterior of each row, which no label of the target checked: do
    not rank classes by them.

    Attributes:
        confusion: (K, K) estimated shares, true classes in rows, predictions in columns; sums to 1.
        classes: the names of rows and columns.
        error: the method's error, the mass off the diagonal.
        cott_error: COTT's, beside it; the two are different estimates and not forced to agree. None if deployed
            decisions differ from the largest score.
        cost: the mean cost under the cost matrix given, or None.
        roc_auc, average_precision: for two classes (the second is the positive one), else None; of a large target
            over a subsample of its rows.
        warnings: what the method and COTT warn of on this source and target.
        method: whose posterior it was read off.
        note: what the numbers per class rest on.
    """

    confusion: Array
    classes: tuple[Hashable, ...]
    error: float
    cott_error: float | None
    cost: float | None = None
    roc_auc: float | None = None
    average_precision: float | None = None
    warnings: tuple[str, ...] = ()
    method: str = "scot"
    note: str = RESTS_ON

    @property
    def precision(self) -> Array:
        """(K,) of the rows predicted as the class, the share that is; 0 where none is predicted."""
        return _ratio(np.diag(self.confusion), self.confusion.sum(axis=0))

    @property
    def recall(self) -> Array:
        """(K,) of the rows of the class, the share predicted as it; 0 where there are none."""
        return _ratio(np.diag(self.confusion), self.confusion.sum(axis=1))

    @property
    def f1(self) -> Array:
        """(K,) 2 true positives / (rows of the class + rows predicted as it)."""
        return _ratio(2 * np.diag(self.confusion), self.confusion.sum(axis=0) + self.confusion.sum(axis=1))

    @property
    def kappa(self) -> float:
        """Cohen's kappa: agreement beyond what the marginals give by chance."""
        by_chance = float(self.confusion.sum(axis=0) @ self.confusion.sum(axis=1))
        return 0.0 if by_chance >= 1.0 else (1.0 - self.error - by_chance) / (1.0 - by_chance)

    def averages(self) -> dict[str, dict[str, float]]:
        """Precision, recall and F1: macro (classes count the same), weighted (by class share), micro."""
        share = self.confusion.sum(axis=1)
        parts = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {
            name: {"macro": float(v.mean()), "weighted": float(share @ v), "micro": 1.0 - self.error}
            for name, v in parts.items()
        }

    def content(self) -> dict[str, Any]:
        """Everything as plain values."""
        share, predicted = self.confusion.sum(axis=1), self.confusion.sum(axis=0)
        each = zip(self.classes, share, predicted, self.precision, self.recall, self.f1, strict=True)
        keys = ("share", "predicted", "precision", "recall", "f1")
        return {
            "method": self.method,
            "error": self.error,
            "cott_error": self.cott_error,
            "kappa": self.kappa,
            "averages": self.averages(),
            "classes": [
                {"class": name, **dict(zip(keys, map(float, rest), strict=True))} for name, *rest in each
            ],
            "confusion": self.confusion.tolist(),
            "cost": self.cost,
            "roc_auc": self.roc_auc,
            "average_precision": self.average_precision,
            "note": self.note,
            "warnings": list(self.warnings),
        }

    def heading(self) -> str:
        """The error by the method and by COTT, and kappa."""
        beside = "" if self.cott_error is None else f" ({percent(self.cott_error)} by cott)"
        return f"error {percent(self.error)} by {self.method}{beside}, kappa {self.kappa:.3f}"

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """One row per class."""
        keys = ("share", "predicted", "precision", "recall", "f1")
        rows = [
            [str(row["class"]), *(percent(row[key]) for key in keys)] for row in self.content()["classes"]
        ]
        return ("class", *keys), rows

    def __repr__(self) -> str:
        lines = [self.heading()]
        for row in self.content()["classes"][:20]:
            lines.append(
                f"  {row['class']!s:<14} precision {percent(row['precision']):>6}  recall {percent(row['recall']):>6}"
                f"  f1 {percent(row['f1']):>6}  share {percent(row['share']):>6}"
            )
        return render(lines, (*self.warnings, Note(self.note)))


def metrics(
    source: SourceOrPair,
    target: Target | Rows | None = None,
    method: str | None = None,
    *,
    calibration: str = "temperature",
    marginal: Marginal | None = None,
    proportions: str = "unknown",
    cost: Any = None,
) -> Metrics:
    """Estimate the confusion matrix and every metric that follows from it.

    A method's answer has a posterior r_ij behind it (`shiftgauge.Pair.posterior`), so C_jk = sum over rows predicted
    k of mass_i r_ij, and its error is the answer. It rests on what the method assumes, row by row: where a class is
    hardly ever predicted, its precision can be far off.

    Args:
        source: scores with labels; or a `Pair`, and no target.
        target: scores without.
        method: whose posterior; by default `auto`'s, or SCOT's if a marginal is given.
        calibration: as for every method.
        marginal: the target's label shares, for the methods that transport to some.
        proportions: for `auto`: what is known of the target's class proportions, as in `shiftgauge.estimate`.
        cost: (K, K) what a row of class j predicted as k costs, or None.

    >>> import shiftgauge as sg
    >>> source = sg.Source(probs=[[.9, .1], [.2, .8]], labels=[0, 1])
    >>> m = metrics(source, sg.Target(probs=[[.9, .1], [.1, .9]]), "scot", calibration="none")
    >>> m.confusion.round(3).tolist()
    [[0.45, 0.05], [0.05, 0.45]]
    """
    name, options = resolve_method(method, marginal, proportions)
    pair = to_pair("metrics", source, target, calibration)
    costs = None if cost is None else _costs(cost, pair.k)
    cott = [("cott", accepted_options("cott", **options))] if pair.follows_argmax else []
    pair.estimate_all([(name, options), *cott], shift=True)
    posterior = pair.posterior(name, **options)
    C, mass = run(pair.target.fold(_confusion, posterior))
    C = C / mass
    mine = estimate(pair, method=name, **options)
    hard = pair.estimate("cott", **cott[0][1]) if cott else None
    of_cott = () if hard is None else hard.warnings
    roc_auc = average_precision = None
    if pair.k == 2:  # curves over all thresholds, on the subsample
        rows = pair.subsample.target_block
        positive = posterior(rows)[:, 1]
        roc_auc = soft_auc(rows.probs[:, 1], positive, rows.mass)
        average_precision = soft_average_precision(rows.probs[:, 1], positive, rows.mass)
    return Metrics(
        confusion=C,
        classes=pair.classes,
        error=float(1.0 - np.trace(C)),
        cott_error=None if hard is None else hard.error,
        cost=None if costs is None else float((C * costs).sum()),
        roc_auc=roc_auc,
        average_precision=average_precision,
        warnings=(*mine.warnings, *(prefix("COTT", w) for w in of_cott if w not in mine.warnings)),
        method=name,
    )


def _confusion(block: Block, posterior: Posterior) -> Totals:
    C = soft_confusion(posterior(block), block.predictions, block.mass)
    return Totals((C, float(block.mass.sum())))


def soft_confusion(posterior: Array, predictions: npt.NDArray[np.intp], mass: Array) -> Array:
    """(K, K) C_jk = sum over rows predicted k of mass_i r_ij."""
    k = posterior.shape[1]
    weighted = posterior * mass[:, None]
    columns = [np.bincount(predictions, weights=weighted[:, j], minlength=k) for j in range(k)]
    return np.array(columns, dtype=np.float64)


def soft_auc(score: Array, positive: Array, mass: Array) -> float | None:
    """P(score of a positive > score of a negative) + half the ties, where rows are positive with probability r.

    None if one of the two classes has no mass.
    """
    up, down = _by_score(score, positive * mass), _by_score(score, (1.0 - positive) * mass)
    if up.sum() <= 0.0 or down.sum() <= 0.0:
        return None
    below = np.cumsum(down) - down
    return float((up @ (below + down / 2)) / (up.sum() * down.sum()))


def soft_average_precision(score: Array, positive: Array, mass: Array) -> float | None:
    """sum over thresholds of (recall gained) x (precision), where rows are positive with probability r."""
    up, down = _by_score(-score, positive * mass), _by_score(-score, (1.0 - positive) * mass)
    if up.sum() <= 0.0:
        return None
    found = np.cumsum(up)
    return float((up / up.sum()) @ _ratio(found, found + np.cumsum(down)))


def _by_score(score: Array, mass: Array) -> Array:
    _, level = np.unique(score, return_inverse=True)
    return np.asarray(np.bincount(level.reshape(-1), weights=mass), dtype=np.float64)


def _ratio(a: Array, b: Array) -> Array:
    return np.asarray(np.divide(a, b, out=np.zeros(len(a)), where=b > 0.0))


def _costs(cost: Any, k: int) -> Array:
    try:
        array = np.asarray(cost, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"cost: not numeric; wanted a ({k}, {k}) matrix, true classes in rows") from None
    if array.shape != (k, k):
        raise InputError(
            f"cost: arrived with shape {array.shape}; wanted a ({k}, {k}) matrix, true classes in rows"
        )
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise InputError(
            f"cost: row {row}, column {column} is {array[row, column]}; wanted finite numbers, true classes in rows"
        )
    return array
