"""Rows: the blocks of a sample, what is known about them, and the folds that methods ask for."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Coroutine, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from shiftgauge.errors import InputError
from shiftgauge.rows.blocks import Block, Calibrates, Floats, Indices, join_blocks
from shiftgauge.rows.driver import Request, run
from shiftgauge.rows.parts import BLOCK_ENTRIES, ArrayPart, Engine, Part, Threads
from shiftgauge.rows.passes import (
    PassTask,
    RowBuffer,
    RowSummary,
    Totals,
    read_part,
    weighted_sum,
)
from shiftgauge.rows.source import source_of
from shiftgauge.rows.state import PassState
from shiftgauge.rows.subsample import draw_subsample, drawn_columns, subsample_step
from shiftgauge.rows.threads import ordered_map
from shiftgauge.samples import (
    RawScores,
    Sample,
    Source,
    Target,
    check_source,
    check_target,
    class_order,
    refuse_other_second,
    rounding_note,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Moments:
    """(K,) each: the share of rows predicted as a class, its mean probability, and the mean of its square."""

    pseudo_labels: Floats
    mean_posterior: Floats
    mean_square: Floats


class Rows:
    """All rows of a sample, in blocks: what methods, functions and solvers see, whatever the sample's size.

    `shiftgauge.scan` makes them of files, folders, frames and clusters; `Rows.of` of a `Source` or a `Target` in
    memory. Functions take them where they take a `Target`, and with labels where they take a `Source`.

    Args:
        parts: the rows, in parts; parts without rows are left out.
        kind: `"logits"` or `"probs"`.
        k: the number of classes.
        classes: their names, in the order of the columns, or None.
        engine: who applies steps to the parts; threads of this process by default.
        weighted, decisions, second, ids: whether rows have weights, deployed decisions, a second model's
            predictions, ids.
        columns: further columns that may be asked for.
        label, labelled: the name of the column of labels, and whether there is one.
        drop: whether rows without a label are left out of a source.
        tolerance, insist: as for `Target`.
        notes: what was found out about the form, a sentence each.
        name: for messages and `repr`.
        by_place: whether decisions are by a threshold on whatever class stands second.

    Attributes:
        n: the number of rows.
        in_memory: whether the blocks are held; else they are read anew in every pass.
        results: what was computed for these rows, by key (`once`).
        keeps_probs: whether rows in memory keep their calibrated probabilities between passes.
        warm_start: set by the bootstrap: where the plans of a replicate start from; None for exact plans.
        progress: called with rows done and rows in all while a pass runs; None for silence.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        kind: str,
        k: int,
        classes: tuple[Hashable, ...] | None = None,
        *,
        engine: Engine | None = None,
        weighted: bool = False,
        decisions: bool = False,
        second: bool = False,
        ids: bool = False,
        columns: tuple[str, ...] = (),
        label: str = "label",
        labelled: bool = False,
        drop: bool = False,
        tolerance: float | None = None,
        insist: bool = False,
        notes: tuple[str, ...] = (),
        name: str = "target",
        by_place: bool = False,
    ) -> None:
        self.parts = [part for part in parts if part.rows]
        if not self.parts:
            raise InputError(f"{name}: has no rows; wanted at least one")
        self.starts = [0, *accumulate(part.rows for part in self.parts[:-1])]
        self.n = sum(part.rows for part in self.parts)
        self.kind, self.k, self.classes, self.name = kind, k, classes, name
        self.engine: Engine = Threads() if engine is None else engine
        self.weighted, self.decisions, self.has_second, self.has_ids = weighted, decisions, second, ids
        self.columns, self.tolerance, self.insist = columns, tolerance, insist
        self.label, self.labelled, self.drop = label, labelled, drop
        self.in_memory = False
        self._whole: Block | None = None
        self.calibration: Calibrates | None = None
        self.results: dict[Hashable, Any] = {}
        self.warm_start: Any = None
        self.keeps_probs = True
        self.progress: Callable[[int, int], None] | None = None
        self._notes, self._who, self._by_place = notes, "target", by_place
        self._order: Indices | None = None
        self._n_effective: float | None = None
        self._state = PassState()

    # -- rows in memory --------------------------------------------------------------------------------

    @classmethod
    def of(cls, sample: Sample, block_rows: int | None = None) -> Rows:
        """The rows of a `Source` or a `Target` in memory, in blocks that share its arrays.

        Args:
            sample: the source or the target.
            block_rows: rows per block; by default as many as one thread works on for a few milliseconds.
        """
        block = Block(
            sample.scores,
            where="source" if isinstance(sample, Source) else "target",
            decisions=sample.predictions if sample.decided is not None else None,
            weights=sample.weights,
            second=sample.second if isinstance(sample, Target) else None,
            ids=sample.ids,
            labels=sample.labels if isinstance(sample, Source) else None,
            kind=sample.kind,
        )
        rows = cls.of_block(block, sample.classes, block_rows)
        rows.decisions = sample.decided is not None
        rows._notes, rows._by_place = sample.notes, sample.decides_by_place
        weights = sample.weights
        rows._state.summary = RowSummary(
            rows=sample.n,
            correction=sample.correction,
            zeros=sample.kind == "probs" and float(sample.scores.min()) == 0.0,
            changed_decisions=round((sample.decided or 0.0) * sample.n),
            mass=float(sample.n) if weights is None else float(weights.sum()),
            square=float(sample.n) if weights is None else float(weights @ weights),
        )
        return rows

    @classmethod
    def of_block(
        cls,
        block: Block,
        classes: tuple[Hashable, ...] | None = None,
        block_rows: int | None = None,
        *,
        zeros: bool = False,
    ) -> Rows:
        """Rows in memory, whose arrays were checked already."""
        size = max(1, BLOCK_ENTRIES // block.k) if block_rows is None else block_rows
        ends = range(0, len(block), size)
        blocks = [block] if len(ends) == 1 else [block.take(slice(lo, lo + size), start=lo) for lo in ends]
        rows = cls(
            [ArrayPart(each) for each in blocks],
            block.kind,
            block.k,
            classes,
            weighted=block.weights is not None,
            decisions=block.decisions is not None,
            second=block.second is not None,
            ids=block.ids is not None,
            labelled=block.labels is not None,
            name=block.where,
        )
        rows.in_memory, rows.calibration, rows._whole = True, block.calibration, block
        mass = float(rows.n) if block.weights is None else float(block.weights.sum())
        square = float(rows.n) if block.weights is None else float(block.weights @ block.weights)
        rows._state.summary = RowSummary(rows.n, zeros=zeros, mass=mass, square=square)
        return rows

    def _twin(self, **changes: Any) -> Rows:
        """These rows with other settings; results are not shared, the summary and the count of passes are."""
        twin = copy.copy(self)
        twin.results = {}
        vars(twin).update(changes)
        return twin

    def calibrated(self, calibration: Calibrates) -> Rows:
        """These rows seen through a calibration."""
        if not self.in_memory:
            return self._twin(calibration=calibration)
        parts = [
            ArrayPart(block.calibrated(calibration, self.kind, start))
            for block, start in zip(self.blocks(), self.starts, strict=True)
        ]
        return self._twin(calibration=calibration, parts=parts, _whole=None)

    def in_passes(self) -> Rows:
        """These rows in memory as if they were read anew in every pass, for tests and benchmarks."""
        twin = self._twin(in_memory=False, tolerance=0.99, insist=True, _whole=None)
        twin._state = PassState()
        return twin

    def with_n_effective(self, n_effective: float) -> Rows:
        """These rows with the noise of so many effective rows, because they stand for a larger sample."""
        return self._twin(_n_effective=n_effective)

    def as_source(self) -> Rows:
        """The same rows, called the source's in messages."""
        return self._twin(_who="source")

    @property
    def sources(self) -> dict[Hashable, Source]:
        """The sources that were read from these rows, by how they were drawn."""
        return self._state.sources

    def source(self, labels: Any = None, *, most: int | None = None, seed: int = 0) -> Source:
        """These rows with their labels as a `Source`; see `shiftgauge.rows.source.source_of`."""
        return source_of(self, labels, most=most, seed=seed)

    def aligned(self, classes: tuple[Hashable, ...] | None, k: int) -> Rows:
        """These rows with their columns in the source's order; refuses classes that cannot be matched."""
        order = class_order(self.classes, self.k, classes, k)
        if order is None:
            return self
        refuse_other_second(self._by_place, order, classes)
        if not self.in_memory:
            return self._twin(classes=classes, _order=order)
        parts = [ArrayPart(block.in_class_order(order)) for block in self.blocks()]
        return self._twin(classes=classes, parts=parts, _whole=None)

    def blocks(self) -> list[Block]:
        """The blocks of rows in memory."""
        return [part.block for part in self.parts if isinstance(part, ArrayPart)]

    # -- requests: what methods await -------------------------------------------------------------------

    def fold(self, step: Callable[..., T], *args: Any, columns: Sequence[str] = ()) -> Request[T]:
        """The sum of `step(block, *args)` over all blocks; results add up with `+` (`Totals`, `RowBuffer`)."""
        return Request(self, step, args, columns=tuple(columns))

    def mean(self, of: Callable[[Block], Any]) -> Request[Any]:
        """The mean, by weight, of the (b,) or (b, m) numbers that `of` gives for a block."""
        return Request(self, _weighted, (of,), lambda total: total[0] / total[1])

    def share(self, of: Callable[[Block], npt.NDArray[np.bool_]]) -> Request[float]:
        """The share of mass in the rows that `of` marks True."""
        return Request(self, _weighted, (of,), lambda total: float(min(1.0, total[0] / total[1])))

    def shares(self, cell: Callable[[Block], Indices], cells: int) -> Request[Floats]:
        """(cells,) the share of mass in each cell; `cell` gives the (b,) cell numbers of a block's rows."""
        return Request(self, _counted, (cell, cells), lambda total: np.asarray(total[0] / total[1]))

    def column(self, of: Callable[[Block], Any]) -> Request[Any]:
        """(n,) or (n, m) numbers, one row each, in row order; for samples whose n numbers fit memory."""
        return Request(self, _column, (of,), lambda buffer: buffer.joined()[0])

    def once(self, key: Hashable, compute: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> Request[T]:
        """What the coroutine `compute(*args)` returns, computed once per key; the key names all it depends on."""
        return Request(self, compute, args, key=key)

    def moments(self) -> Request[Moments]:
        """Shares of the predictions, mean probabilities and mean squares."""
        return self.once("moments", _moments, self)

    def subsample(self) -> Request[Rows]:
        """Some rows in memory, drawn by their numbers alone; all of them if they are few."""
        return self.once("subsample", draw_subsample, self)

    async def subsample_columns(self, *of: Callable[[Block], Any]) -> tuple[Any, ...]:
        """(m,) numbers each, one per row of the subsample; of rows in memory no copy of it is made."""
        rows, step = self, subsample_step(self.n, self.k)
        if not self.in_memory:
            rows, step = await self.subsample(), 1
        return (await rows.fold(drawn_columns, of, rows.n, step)).joined()

    def collect(self) -> Request[Block]:
        """All rows as one block; refused if they are not in memory and too many to hold."""
        return self.once("collect", _collect, self)

    # -- passes -----------------------------------------------------------------------------------------

    def make_pass(self, folds: Sequence[Request[Any]]) -> list[Any]:
        """Apply the steps of several folds to all blocks, in one pass, and return the sum of each."""
        task = PassTask(
            steps=tuple((fold.step, fold.args) for fold in folds),
            kind=self.kind,
            tolerance=self.tolerance,
            insist=self.insist,
            calibration=self.calibration,
            order=self._order,
            columns=tuple(dict.fromkeys(name for fold in folds for name in fold.columns)),
            who=self._who,
            check=self._state.summary is None,
        )
        return self._state.run(self, task)

    @property
    def passes(self) -> int:
        """How often all rows were read so far."""
        return self._state.passes

    def iterate(self, step: Callable[[Block], T]) -> Iterator[list[T]]:
        """Yield what the step gives for the blocks of each part, part by part in their order, in this process."""

        def results(at: tuple[Part, int]) -> list[T]:
            blocks = read_part(*at, self._order, self.calibration, self.kind)
            return [step(block) for _, block in blocks]

        yield from ordered_map(results, list(zip(self.parts, self.starts, strict=True)))

    # -- what is known about the rows ------------------------------------------------------------------

    @property
    def summary(self) -> RowSummary:
        """What the first pass found out; a pass is made if there was none."""
        if self._state.summary is None:
            run(self.fold(_nothing))
        assert self._state.summary is not None
        return self._state.summary

    @property
    def has_zeros(self) -> bool:
        """Whether a given probability is exactly zero."""
        return self.kind == "probs" and self.summary.zeros

    @property
    def correction(self) -> float:
        """The largest |row sum - 1| that renormalising repairs (0 for logits)."""
        return self.summary.correction

    @property
    def decided(self) -> float | None:
        """The share of rows whose deployed decision is not the largest score; None without decisions."""
        return self.summary.changed_decisions / self.n if self.decisions else None

    @property
    def mass(self) -> float:
        """The sum of all weights."""
        return self.summary.mass

    @property
    def n_effective(self) -> float:
        """Kish's effective number of rows: n, or less if weights differ."""
        if self._n_effective is not None:
            return self._n_effective
        return float(self.n) if not self.weighted else self.summary.mass**2 / self.summary.square

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the data when it was read, a sentence each."""
        decimals, correction = self.summary.decimals, self.summary.correction
        if decimals is None:
            return self._notes
        return (*self._notes, rounding_note(self._who, decimals, correction))

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the digests of all parts: the same for the same rows in the same parts."""
        head = (self.kind, self.n, self.k, self.classes)
        self.summary  # noqa: B018 (makes a pass if there was none)
        seen = list((self._state.digests or {}).items())
        return hashlib.sha256(repr((head, seen)).encode()).hexdigest()

    def class_name(self, j: int) -> Hashable:
        """The name of column j: as given, or the index itself."""
        return j if self.classes is None else self.classes[j]

    def __repr__(self) -> str:
        return f"Rows({self.kind}, {self.n:,} rows x {self.k} classes in {len(self.parts):,} parts)"


#: What functions take as a source, and as a target.
AnySource = Source | Rows | RawScores
AnyTarget = Target | Rows | RawScores


def to_source(given: Any, function: str) -> Source:
    """The source that was given, labelled rows as the source that they hold; anything else is refused."""
    return source_of(given) if isinstance(given, Rows) else check_source(given, function)


def to_target(given: Any, function: str) -> Target | Rows:
    """The target or the rows that were given; anything else is refused."""
    return given if isinstance(given, Rows) else check_target(given, function)


# -- steps ----------------------------------------------------------------------------------------------


def _nothing(block: Block) -> int:
    return 0


def _weighted(block: Block, of: Callable[[Block], Any]) -> Totals:
    return Totals((weighted_sum(block.mass, of(block)), float(block.mass.sum())))


def _counted(block: Block, cell: Callable[[Block], Indices], cells: int) -> Totals:
    return Totals((np.bincount(cell(block), block.mass, cells), float(block.mass.sum())))


def _column(block: Block, of: Callable[[Block], Any]) -> RowBuffer:
    return RowBuffer.of(np.asarray(of(block)))


def _class_sums(block: Block) -> Totals:
    w, p = block.mass, block.probs
    predicted = np.bincount(block.predictions, w, block.k)
    return Totals((predicted, weighted_sum(w, p), np.einsum("i,ij,ij->j", w, p, p), float(w.sum())))


async def _moments(rows: Rows) -> Moments:
    predicted, probs, squares, mass = await rows.fold(_class_sums)
    return Moments(np.asarray(predicted / mass), np.asarray(probs / mass), np.asarray(squares / mass))


def _all_rows(block: Block) -> list[Block]:
    return [block]


async def _collect(rows: Rows) -> Block:
    if rows._whole is not None:  # the blocks are views of it
        return rows._whole
    if rows.in_memory and len(rows.parts) == 1:
        return rows.blocks()[0]
    if not rows.in_memory and subsample_step(rows.n, rows.k) > 1:
        raise InputError(
            f"the {rows._who} has {rows.n:,} rows that are read in passes, and this needs all of them in memory; "
            "pass some of its rows (shiftgauge.Target), or another method"
        )
    return replace(join_blocks(await rows.fold(_all_rows)), start=0)
