"""Which shift is it? The label-shift test on a source and a target, with the paper's bounds beside it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shiftgauge.labelshift import JTest, total_variation
from shiftgauge.labelshift.cells import Array, Cells, compacted, confidence_bins
from shiftgauge.labelshift.shift_test import LEVEL, j_test_of_shares
from shiftgauge.methods.novelty import Indices, Rows
from shiftgauge.methods.scanned import ScanView
from shiftgauge.methods.view import View
from shiftgauge.results import Result, p_value


@dataclass(frozen=True, repr=False)
class ShiftVerdict(Result):
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
        """The verdict in one line."""
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
        """The verdict as plain values."""
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

    def at(self, false_alarms: float) -> ShiftVerdict:
        """The same test with another share of false alarms."""
        return replace(self, kind=self.test.kind(false_alarms), false_alarms=false_alarms)

    def __repr__(self) -> str:
        return f"ShiftVerdict({self.kind}: {self.sentence()})"


def verdict(source: View, target: View | ScanView, *, seed: int = 0) -> ShiftVerdict:
    """The J test on cells of (predicted class, confidence quartile), and the bounds."""
    test, *_ = label_shift_test(source, source.labels, target, seed)
    shift = total_variation(target.pseudo_labels, source.label_marginal)
    return ShiftVerdict(test.kind(LEVEL), test, shift, shift / 2, shift, LEVEL)


def label_shift_test(
    source: Rows | View, labels: Indices, target: View | ScanView, seed: int = 0
) -> tuple[JTest, Indices, Array]:
    """The J test, the cell of each source row, and the target's share of each cell.

    Done once for a target and a source, whether `auto`, the doctor or a doubt asks first. The source is known
    by its numbers, since a fitted `auto` that was saved holds nothing else of it. Where the target's rows are not
    all in memory, cells are cut by those at home, and counted over all.
    """
    seen = hashlib.blake2b()
    for column in (source.predictions, source.confidence, source.mass, labels):
        seen.update(np.ascontiguousarray(column).data)

    def test() -> tuple[JTest, Indices, Array]:
        home = target.home
        cells = confidence_bins(
            (source.predictions, home.predictions), (source.confidence, home.confidence), target.k
        )
        left = cells.of(source.predictions, source.confidence)
        h = target.shares(lambda rows: cells.of(rows.predictions, rows.confidence), cells.count)
        # A cell with rows of no mass stays: its rows are counted where cells are compacted.
        number, used = compacted(np.bincount(left, minlength=cells.count) + _rows(target, cells) + (h > 0.0))
        left, shares = number[left], np.zeros(used)
        np.add.at(shares, number[h > 0.0], h[h > 0.0])
        found = j_test_of_shares(left, labels, source.mass, shares, _kish(target), target.k, seed=seed)
        return found, left, shares

    return target.once(("shift", seen.digest(), seed), test)


def _rows(target: View | ScanView, cells: Cells) -> Indices:
    """(cells,) the rows at home in each cell."""
    home = target.home
    return np.bincount(cells.of(home.predictions, home.confidence), minlength=cells.count)


def _kish(target: View | ScanView) -> float:
    """The target's effective rows by its own masses, whatever noise it is judged by."""
    if isinstance(target, ScanView):
        return target.n_effective
    return float(target.mass.sum() ** 2 / np.square(target.mass).sum())
