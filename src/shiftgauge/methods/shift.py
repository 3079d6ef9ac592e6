"""Which shift is it? The label-shift test on a source and a target, with the paper's bounds beside it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shiftgauge.labelshift import JTest, total_variation
from shiftgauge.labelshift.cells import Array, Indices, compacted, confidence_bins
from shiftgauge.labelshift.shift_test import LEVEL, j_test_of_shares
from shiftgauge.results import Result, p_value
from shiftgauge.rows import Block, Rows, gather


@dataclass(frozen=True, repr=False)
class ShiftTestResult(Result):
    """What kind of shift the scores show.

    Attributes:
        kind: `"none"` (no difference seen), `"label"` (other class proportions explain it), `"other"`
            (more than class proportions changed; proportions may have changed too), or `"unknown"` (too few
            rows per class to tell). `auto` chooses by the same rule.
        test: the J test behind it.
        pseudo_label_shift: TV between the target's predictions and the source's labels.
        cot_bound, scot_bound: where the target's true label shares are the source's, the error is at least
            this: half the pseudo-label shift is the paper's bound on COT, all of it bounds SCOT and the truth.
        false_alarms: the share of them that the test allows (`level` in the JSON, as ever).
        warnings: what was done to the two samples on their way in.
    """

    kind: str
    test: JTest
    pseudo_label_shift: float
    cot_bound: float
    scot_bound: float
    false_alarms: float
    warnings: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The result in one line."""
        p = self.test.p_value
        if p is None:
            return "cannot tell label shift from other shift: too few rows per class for the test"
        share = self.test.explained
        part = "" if share is None else f"; re-weighting explains {100 * share:.0f}% of the difference"
        says = {
            "none": "no difference between source and target beyond sampling noise",
            "label": f"the target looks like the source with other class proportions ({p_value(p)}{part})",
            "other": f"more than class proportions changed ({p_value(p)}{part})",
        }
        return says[self.kind]

    def content(self) -> dict[str, Any]:
        """The result as plain values."""
        t = self.test
        return {
            "kind": self.kind,
            "sentence": self.sentence(),
            "statistic": t.statistic,
            "degrees_of_freedom": t.df,
            "p_value": t.p_value,
            "reference": t.reference,
            "explained_by_reweighting": t.explained,
            "difference": t.difference,
            "difference_p_value": t.difference_p,
            "cells": t.cells,
            "reweighted_shares": t.shares.tolist(),
            "pseudo_label_shift": self.pseudo_label_shift,
            "cot_bound": self.cot_bound,
            "scot_bound": self.scot_bound,
            "level": self.false_alarms,
            "false_alarms": self.false_alarms,
            "warnings": list(self.warnings),
        }

    def at(self, false_alarms: float) -> ShiftTestResult:
        """The same test with another share of false alarms."""
        return replace(self, kind=self.test.kind(false_alarms), false_alarms=false_alarms)

    def __repr__(self) -> str:
        return f"ShiftTestResult({self.kind}: {self.sentence()})"


@dataclass(frozen=True)
class SourceColumns:
    """What is kept of a source to compare targets with.

    Attributes:
        predictions, runner_up, labels: (n,) the predicted, the second most probable and the true class.
        confidence, row_share: (n,) the probability of the prediction; row masses that sum to 1.
        k: the number of classes.
        n_effective: effective rows.
    """

    predictions: Indices
    runner_up: Indices
    labels: Indices
    confidence: Array
    row_share: Array
    k: int
    n_effective: float


async def shift_test_result(source: Rows, target: Rows, *, seed: int = 0) -> ShiftTestResult:
    """The J test on cells of (predicted class, confidence quartile), and the bounds."""
    rows = await source.collect()
    assert rows.labels is not None
    (test, *_), moments = await gather(label_shift_test(rows, target, seed), target.moments())
    labels = np.bincount(rows.labels, rows.row_share, rows.k).astype(np.float64)
    shift = total_variation(moments.pseudo_labels, labels)
    return ShiftTestResult(test.kind(LEVEL), test, shift, shift / 2, shift, LEVEL)


async def label_shift_test(
    source: SourceColumns | Block, target: Rows, seed: int = 0
) -> tuple[JTest, Indices, Array]:
    """The J test, the cell of each source row, and the target's share of each cell.

    Computed once for a target and a source. The source is identified by its numbers, since a fitted `auto` that was
    saved holds nothing else of it. Cells are cut by the target's subsample and counted over all rows.
    """
    digest = hashlib.blake2b()
    for column in (source.predictions, source.confidence, source.row_share, source.labels):
        digest.update(np.ascontiguousarray(column).data)
    return await target.once(("shift", digest.digest(), seed), _label_shift_test, source, target, seed)


async def _label_shift_test(
    source: SourceColumns | Block, target: Rows, seed: int
) -> tuple[JTest, Indices, Array]:
    assert source.labels is not None
    k = target.k
    predictions, confidence, mass = await target.subsample_columns(
        lambda rows: rows.predictions, lambda rows: rows.confidence, lambda rows: rows.mass
    )
    cells = confidence_bins((source.predictions, predictions), (source.confidence, confidence), k)
    left = cells.of(source.predictions, source.confidence)
    h = await target.shares(lambda rows: cells.of(rows.predictions, rows.confidence), cells.count)
    # A cell that holds rows of no mass stays, so rows are counted here, not mass.
    inside = np.bincount(cells.of(predictions, confidence), minlength=cells.count)
    number, used = compacted(np.bincount(left, minlength=cells.count) + inside + (h > 0.0))
    left, shares = number[left], np.zeros(used)
    np.add.at(shares, number[h > 0.0], h[h > 0.0])
    # Kish's effective rows by the rows' own masses, whatever noise they are judged by
    n_target = float(mass.sum() ** 2 / np.square(mass).sum()) if len(mass) == target.n else target.n_effective
    test = j_test_of_shares(left, source.labels, source.row_share, shares, n_target, k, seed=seed)
    return test, left, shares
