"""Blocks: consecutive rows, with everything that is derived from them computed once, when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from shiftgauge.validation import argmax

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: Probabilities that differ by no more than this fraction are equal up to rounding.
EQUAL = 1e-9
#: Fields with one entry per row.
PER_ROW = ("scores", "decisions", "weights", "second", "ids", "labels", "row_numbers")


class Calibrates(Protocol):
    """Maps scores to calibrated probabilities: `shiftgauge.calibration.Calibration`."""

    def calibrate(self, scores: Array, kind: str) -> tuple[Floats, Indices]:
        """(b, K) calibrated probabilities, and (b,) the class of the largest raw score."""
        ...

    def log_probs(self, scores: Array, kind: str) -> Floats:
        """(b, K) finite calibrated log-probabilities, up to a constant per row."""
        ...


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of a sample.

    Attributes:
        scores: (b, K) logits or probabilities as they were stored.
        where, first: the file they come from, and the number of the first of them in it; for messages.
        decisions: (b,) deployed decisions as class numbers; None if the largest score decides.
        weights: (b,) row weights on any scale, or None for equal ones.
        second: (b,) a second model's predictions, or None.
        ids: (b,) the caller's row ids, or None.
        labels: (b,) true classes, or None. While a source is read: K more where a label is a column number beside
            class names, and -1 where it is missing.
        columns: (b,) further columns that were asked for, by name.
        kind: `"logits"` or `"probs"`.
        start: how many rows of the sample stand before this block.
        row_numbers: (b,) the rows' numbers in the sample they were drawn from, if they are not consecutive.
        calibration: maps scores to probabilities; None if the scores are probabilities as they are.
    """

    scores: Array
    where: str = "target"
    first: int = 0
    decisions: Indices | None = None
    weights: Floats | None = None
    second: Indices | None = None
    ids: Array | None = None
    labels: Indices | None = None
    columns: Mapping[str, Array] = field(default_factory=dict)
    kind: str = "probs"
    start: int = 0
    row_numbers: Indices | None = None
    calibration: Calibrates | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.scores)

    @property
    def k(self) -> int:
        """The number of classes."""
        return int(self.scores.shape[1])

    def calibrated(self, calibration: Calibrates | None, kind: str, start: int) -> Block:
        """The same rows seen through a calibration."""
        return replace(self, calibration=calibration, kind=kind, start=start)

    def take(self, rows: Any, start: int | None = None) -> Block:
        """Some of the rows, by number or slice; what was computed for them is kept."""
        changes: dict[str, Any] = {
            name: None if (value := getattr(self, name)) is None else value[rows] for name in PER_ROW
        }
        changes["columns"] = {name: column[rows] for name, column in self.columns.items()}
        block = replace(self, **changes, start=self.start if start is None else start)
        if "_probs_and_largest" in vars(self):
            probs, largest = self._probs_and_largest
            vars(block)["_probs_and_largest"] = (probs[rows], largest[rows])
        return block

    def with_probs(self, probs: Floats, weights: Floats | None = None) -> Block:
        """The same rows with probabilities that were computed already, and other weights."""
        made = replace(self, weights=self.weights if weights is None else weights)
        vars(made)["_probs_and_largest"] = (probs, self.predictions)
        return made

    def in_class_order(self, order: Indices) -> Block:
        """The same rows with their classes in another order."""
        place = np.argsort(order)
        return replace(
            self,
            scores=np.ascontiguousarray(self.scores[:, order]),
            decisions=None if self.decisions is None else place[self.decisions],
            second=None if self.second is None else place[self.second],
        )

    @cached_property
    def _probs_and_largest(self) -> tuple[Array, Indices]:
        if self.calibration is None:
            return self.scores, argmax(self.scores)
        return self.calibration.calibrate(self.scores, self.kind)

    @property
    def probs(self) -> Array:
        """(b, K) p, calibrated probabilities."""
        if self.calibration is None and "_probs_and_largest" not in vars(self):
            return self.scores  # the largest was not asked for
        return self._probs_and_largest[0]

    @property
    def shares_scores(self) -> bool:
        """Whether the probabilities were asked for, and are the scores themselves, not a copy."""
        return "_probs_and_largest" in vars(self) and self._probs_and_largest[0] is self.scores

    @property
    def predictions(self) -> Indices:
        """(b,) y^: the deployed decision, or the largest raw score."""
        return self._probs_and_largest[1] if self.decisions is None else self.decisions

    @cached_property
    def mass(self) -> Floats:
        """(b,) row weights, ones if none were given; on one scale for all blocks."""
        return np.ones(len(self)) if self.weights is None else self.weights

    @cached_property
    def row_share(self) -> Floats:
        """(b,) each row's share of this block's mass; sums to 1."""
        if self.weights is None:
            return np.full(len(self), 1.0 / len(self))
        return np.asarray(self.weights / self.weights.sum())

    def share(self, marked: npt.NDArray[np.bool_]) -> float:
        """The share of this block's mass in the rows marked True."""
        if self.weights is None:
            return float(np.mean(marked))
        return min(1.0, float(self.row_share[marked].sum()))

    @property
    def numbers(self) -> Indices:
        """(b,) the rows' numbers in the sample."""
        return np.arange(self.start, self.start + len(self)) if self.row_numbers is None else self.row_numbers

    @property
    def log_probs(self) -> Floats:
        """(b, K) finite log-probabilities, up to a constant per row; computed anew each time, to save memory."""
        if self.calibration is None:
            return np.asarray(np.log(np.maximum(self.scores, np.finfo(np.float64).tiny, dtype=np.float64)))
        return self.calibration.log_probs(self.scores, self.kind)

    @property
    def without_zeros(self) -> Block:
        """The same rows with given probabilities of exactly zero counted as small positive ones (`log_probs`)."""
        # A block that held itself would be freed by the garbage collector only, long after its pass.
        return self if self.zeros is None or self.probs.min() > 0.0 else self._with_positive_probs

    @cached_property
    def _with_positive_probs(self) -> Block:
        logs = self.log_probs
        probs = np.exp(logs - logs.max(axis=1, keepdims=True))
        return self.with_probs(probs / probs.sum(axis=1, keepdims=True))

    def at_prediction(self, values: Array) -> Floats:
        """(b,) the entry of each row of (b, K) values at the row's prediction."""
        return np.asarray(values[np.arange(len(self)), self.predictions], dtype=np.float64)

    @cached_property
    def confidence(self) -> Floats:
        """(b,) the probability of the prediction."""
        return self.at_prediction(self.probs)

    def error_probability(self, posterior: Floats) -> Floats:
        """(b,) the probability that the prediction is wrong under (b, K) posteriors."""
        return np.clip(1.0 - self.at_prediction(posterior), 0.0, 1.0)

    @cached_property
    def runner_up(self) -> Indices:
        """(b,) the most probable class besides the prediction; the prediction itself if several are equally probable.

        So nothing depends on the order of the classes.
        """
        p, own = np.array(self.probs, dtype=np.float64), self.predictions[:, None]
        np.put_along_axis(p, own, -1.0, axis=1)
        largest = p.max(axis=1, keepdims=True)
        tied = (p >= largest * (1.0 - EQUAL)).sum(axis=1) > 1
        return np.where(tied, own[:, 0], p.argmax(axis=1))

    @cached_property
    def entropy(self) -> Floats:
        """(b,) -sum_j p_j log p_j, with 0 log 0 = 0."""
        p = self.probs
        terms = np.where(p > 0.0, p, 1.0)
        np.log(terms, out=terms)
        terms *= p
        return np.asarray(np.maximum(-terms.sum(axis=1), 0.0))

    @cached_property
    def zeros(self) -> npt.NDArray[np.bool_] | None:
        """(b, K) where a given probability is exactly zero; None if there is none, or if logits were given."""
        if self.kind == "logits":
            return None
        zero = np.asarray(self.scores == 0.0)
        return zero if zero.any() else None


def join_blocks(blocks: list[Block]) -> Block:
    """Several blocks as one, in their order."""
    if len(blocks) == 1:
        return blocks[0]

    def joined(values: list[Any]) -> Any:
        return None if values[0] is None else np.concatenate(values)

    changes = {name: joined([getattr(block, name) for block in blocks]) for name in PER_ROW}
    changes["columns"] = {
        name: np.concatenate([block.columns[name] for block in blocks]) for name in blocks[0].columns
    }
    return replace(blocks[0], **changes)
