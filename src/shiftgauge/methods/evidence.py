"""What two samples of scores show of the shift between them: the evidence that `auto` chooses by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.labelshift import JTest, mlls, unexplained
from shiftgauge.labelshift.cells import TIE, RunnerUps
from shiftgauge.methods.shift import SourceColumns, label_shift_test
from shiftgauge.rows import Block, Rows, Totals, gather

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

#: A cell has excess mass in so far as the target has more than so many times the source's share in it.
TIMES = 2.0
#: Confidence is cut at the source's quartiles, class by class.
BINS = 4


@dataclass(frozen=True)
class Evidence:
    """What the samples show of the shift.

    Attributes:
        test: the J test of label shift.
        kind: of shift, by that test: `"none"`, `"label"`, `"other"` or `"unknown"`.
        excess_mass: the target's mass where the source hardly has any (`ExcessCells`).
        unexplained_mass: the mass of (class, runner-up) pairs that no label shares explain.
        ks_distance: the largest difference between the distributions of the confidences (Kolmogorov-Smirnov).
    """

    test: JTest
    kind: str
    excess_mass: float
    unexplained_mass: float
    ks_distance: float

    def details(self) -> dict[str, Any]:
        """What the estimate says of it."""
        return {
            "shift": self.kind,
            "p_value": self.test.p_value,
            "explained_by_reweighting": self.test.explained,
            "excess_mass": self.excess_mass,
            "unexplained_mass": self.unexplained_mass,
            "ks_distance": self.ks_distance,
        }


async def collect_evidence(source: SourceColumns, target: Rows, prior: Array, seed: int) -> Evidence:
    """Compare a target with the source, whose mean posterior is `prior`."""
    k, label_shares = target.k, await mlls(target, prior)
    cells, steps = ExcessCells.of(source), ConfidenceSteps.of(source)
    pairs = RunnerUps.of(source.predictions, source.runner_up, k)
    tested, counted = await gather(
        label_shift_test(source, target, seed), target.fold(_count_cells, cells, steps, pairs)
    )
    test, source_cells, target_shares = tested
    known, unknown, confident, paired, total = counted
    if k > 2:  # of two classes the runner-up says nothing new, and confidence bins are used
        source_cells = pairs.cell(source.predictions, source.runner_up)
        target_shares = paired / total
    excess = cells.excess(
        source, known / total, {cell: w / total for cell, w in unknown.items()}, target.n_effective
    )
    not_explained = unexplained(
        source_cells, source.labels, source.row_share, target_shares, label_shares.shares
    )
    return Evidence(test, test.kind(), excess, not_explained, steps.ks_distance(confident / total))


def _count_cells(rows: Block, cells: ExcessCells, steps: ConfidenceSteps, pairs: RunnerUps) -> Totals:
    w = rows.mass
    confident = np.bincount(steps.cell(rows.confidence), w, steps.count)
    paired = np.bincount(pairs.cell(rows.predictions, rows.runner_up), w, pairs.count)
    return Totals((*cells.count(rows, w), confident, paired, float(w.sum())))


class CellMass(dict[int, float]):
    """Mass by cell number; it adds up."""

    def __add__(self, other: CellMass) -> CellMass:
        for cell, mass in other.items():
            self[cell] = self.get(cell, 0.0) + mass
        return self


@dataclass(frozen=True)
class ExcessCells:
    """The cells of (predicted class, confidence quartile of the source, runner-up).

    With s and h the shares of source and target in a cell, the excess mass is

        sum over cells of max(0, h - 2 s),

    0 if the target is the source, and 1 if they have no cell in common. Sampling noise alone makes it positive: with
    h - 2 s normal, of mean -p and variance p / n_target + 4 p / n_source (p the share in both samples together), that
    expectation has a closed form, which is subtracted.

    Attributes:
        edges: (K, BINS - 1) each predicted class's confidence quartiles on the source.
        k: the number of classes.
        known: (m,) the cells with a source row, rising: of 4 K^2 cells few have one.
    """

    edges: Array
    k: int
    known: Indices

    @staticmethod
    def of(source: SourceColumns) -> ExcessCells:
        """Cut at the quartiles of the source."""
        edges = _quartiles(source)
        bare = ExcessCells(edges, source.k, np.empty(0, np.intp))
        return ExcessCells(edges, source.k, np.unique(bare.cell(source)))

    def cell(self, rows: SourceColumns | Block) -> Indices:
        """(n,) the cell of each row."""
        quartile = np.zeros(len(rows.predictions), dtype=np.intp)
        for edge in self.edges.T:
            quartile += rows.confidence > edge[rows.predictions] + TIE
        return np.asarray((rows.predictions * BINS + quartile) * self.k + rows.runner_up)

    def count(self, rows: SourceColumns | Block, mass: Array) -> tuple[Array, CellMass]:
        """(m,) the mass of rows in each cell that the source has, and in the others, cell by cell."""
        cell = self.cell(rows)
        place = np.minimum(np.searchsorted(self.known, cell), len(self.known) - 1)
        inside = self.known[place] == cell
        known = np.bincount(place[inside], mass[inside], len(self.known))
        others, number = np.unique(cell[~inside], return_inverse=True)
        beyond = np.bincount(number.reshape(-1), mass[~inside], len(others))
        return np.asarray(known, np.float64), CellMass(zip(others.tolist(), beyond.tolist(), strict=True))

    def excess(
        self, source: SourceColumns, known: Array, unknown: dict[int, float], n_target: float
    ) -> float:
        """The excess mass of a target with these shares in the source's cells and in others."""
        h = np.append(known, list(unknown.values()))
        s = np.zeros(len(h))
        s[: len(known)] = self.count(source, source.row_share)[0]
        expected = _expected_excess(s, h, source.n_effective, n_target)
        return max(0.0, float(np.maximum(h - TIMES * s, 0.0).sum()) - expected)


def _expected_excess(s: Array, h: Array, n_source: float, n_target: float) -> float:
    """The expectation of the excess if nothing changed: cell by cell E max(0, N(-p, sd^2))."""
    from scipy.special import ndtr

    p = (s * n_source + h * n_target) / (n_source + n_target)
    p = p[p > 0.0]
    sd = np.sqrt(p / n_target + TIMES**2 * p / n_source)
    z = (TIMES - 1.0) * p / sd
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return float((sd * (density - z * ndtr(-z))).sum())


def _quartiles(source: SourceColumns) -> Array:
    """(K, BINS - 1) each predicted class's confidence quartiles on the source; quarters of [0, 1] without rows."""
    edges = np.tile(np.linspace(0.0, 1.0, BINS + 1)[1:-1], (source.k, 1))
    order = np.lexsort((source.confidence, source.predictions))
    ends = np.cumsum(np.bincount(source.predictions, minlength=source.k))
    for j, here in enumerate(np.split(order, ends[:-1])):
        share = np.cumsum(source.row_share[here])
        if len(here) and share[-1] > 0.0:
            cut = np.searchsorted(share, share[-1] * np.arange(1, BINS) / BINS - 1e-12)
            edges[j] = source.confidence[here[np.minimum(cut, len(here) - 1)]]
    return edges


@dataclass(frozen=True)
class ConfidenceSteps:
    """The steps of the source's distribution of confidences, where a target's is compared with it.

    Between two steps the source's distribution is flat and the target's rises, so they are farthest apart at a step, or
    just before one.

    Attributes:
        values: (m,) the source's different confidences, rising.
        cumulated: (m,) the mass of the source up to each of them.
    """

    values: Array
    cumulated: Array

    @staticmethod
    def of(source: SourceColumns) -> ConfidenceSteps:
        """The steps of a sample."""
        values, number = np.unique(source.confidence, return_inverse=True)
        mass = np.bincount(number.reshape(-1), weights=source.row_share, minlength=len(values))
        return ConfidenceSteps(values, np.cumsum(mass))

    @property
    def count(self) -> int:
        """The number of cells: each value, and the ranges before, between and beyond them."""
        return 2 * len(self.values) + 1

    def cell(self, confidence: Array) -> Indices:
        """(n,) 2 i + 1 for confidences equal to value i, 2 i for those between it and the one before."""
        place = np.searchsorted(self.values, confidence)
        on = self.values[np.minimum(place, len(self.values) - 1)] == confidence
        return np.asarray(2 * place + on, dtype=np.intp)

    def ks_distance(self, shares: Array) -> float:
        """The largest difference from a distribution with these shares of the cells."""
        other = np.cumsum(shares)
        before = np.append(0.0, self.cumulated[:-1])
        return float(max(np.abs(other[:-1:2] - before).max(), np.abs(other[1::2] - self.cumulated).max()))
