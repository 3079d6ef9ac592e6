"""The scan itself: what is known of it, its passes, and a large array as one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge._lockstep import Memo, reader, together
from shiftgauge.errors import FileError, InputError, Note
from shiftgauge.samples import Source, Target, check_sample, class_order, refuse_other_second
from shiftgauge.scans.labelled import source_of
from shiftgauge.scans.parts import ENTRIES, Chunk, Engine, Held, Part, Threads
from shiftgauge.scans.visits import Digests, Opening, Visit, whole_part

S = TypeVar("S")
T = TypeVar("T")


class Scan:
    """Rows that are read anew in every pass; every function takes them where it takes a `Target`, or a `Source`.

    Made by `shiftgauge.scan`. Answers are those of a `Target` of the same rows; memory does not grow with rows. What
    stands for a source is read once and kept (`source`).

    Args:
        parts: the rows, in parts; those without rows are passed over.
        kind: `"logits"` or `"probs"`.
        k: the number of classes.
        classes: their names, in the order of the columns, or None.
        engine: who carries the work to the parts.
        weighted: whether rows have weights.
        decisions: whether rows carry deployed predictions.
        second: whether rows carry a second model's predictions.
        ids: whether rows carry ids.
        columns: other columns that may be asked for.
        label, labelled: the column of labels, and whether there is one.
        drop: whether rows without a label are left out of a source.
        tolerance, insist: as for `Target`.
        notes: what was found out about the form, a sentence each.
        name: for messages and `repr`.
        by_place: whether decisions are by a threshold on whatever class stands second.

    Attributes:
        passes: how often all rows were read so far.
        progress: called with rows done and rows in all, while a pass runs; None for silence.
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
            raise InputError(f"{name}: no rows in any of its {len(parts)} parts; wanted at least one")
        self.starts = [0, *accumulate(part.rows for part in self.parts[:-1])]
        self.n = sum(part.rows for part in self.parts)
        self.kind, self.k, self.classes, self.name = kind, k, classes, name
        self.engine: Engine = Threads() if engine is None else engine
        self.weighted, self.decisions, self.has_second, self.has_ids = weighted, decisions, second, ids
        self.columns, self.tolerance, self.insist = columns, tolerance, insist
        self.label, self.labelled, self.drop = label, labelled, drop
        self._notes, self._who, self._by_place = notes, "target", by_place
        self._order: npt.NDArray[np.intp] | None = None
        self.progress: Callable[[int, int], None] | None = None
        self._state = _State()

    @property
    def scanned(self) -> bool:
        """Whether rows are read in passes: they are."""
        return True

    @property
    def passes(self) -> int:
        """How often all rows were read so far."""
        return self._state.passes

    def aligned(self, classes: tuple[Hashable, ...] | None, k: int) -> Scan:
        """The same scan with its columns in the source's order; refuses what cannot be matched."""
        order = class_order(self.classes, self.k, classes, k)
        if order is None:
            return self
        refuse_other_second(self._by_place, order, classes)
        twin = object.__new__(Scan)
        vars(twin).update({**vars(self), "classes": classes, "_order": order})
        return twin

    def source(self, labels: Any = None, *, most: int | None = None, seed: int = 0) -> Source:
        """These rows with their labels as a `Source`: all of them, read in one pass; of too many, some.

        Rows are held once, at the precision that they are stored in. Beyond `most` rows each is drawn with the same
        chance, by its number and the seed alone; the source's notes say so, and `kept` holds the numbers.

        Args:
            labels: (n,) the labels, where they are no column of the rows.
            most: how many rows to keep, about; by default 3,355,443 of ten classes, 66,444 of 1,000.
            seed: of the draw.
        """
        twin = object.__new__(Scan)
        vars(twin).update({**vars(self), "_who": "source"})
        if labels is not None:
            return source_of(twin, labels, most, seed)
        return self._state.memo.get(("source", most, seed), lambda: source_of(twin, None, most, seed))

    def fold(self, step: Callable[[Chunk, int], S], columns: Sequence[str] = ()) -> S:
        """The sum of `step(chunk, number of its first row)` over all chunks, in one pass.

        Where several readers go in step (`together`), one pass serves all that wait.
        """
        lockstep = reader()
        found: S = (
            self._run([(step, tuple(columns))])[0]
            if lockstep is None
            else lockstep.fold((step, tuple(columns)))
        )
        return found

    def chunk_results(self, step: Callable[[Chunk, int], S], part: Part, start: int) -> list[S]:
        """What the step gives for each chunk of one part."""
        return [step(chunk, start + seen) for _, chunk, seen in whole_part(part, self._order)]

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """The results of several readers of this scan, which share its passes."""
        return together(self._run, tasks)

    def _run(self, asked: list[tuple[Callable[[Chunk, int], Any], tuple[str, ...]]]) -> Sequence[Any]:
        columns = tuple(dict.fromkeys(name for _, names in asked for name in names))
        visit = Visit(
            steps=tuple(step for step, _ in asked),
            kind=self.kind,
            tolerance=self.tolerance,
            insist=self.insist,
            order=self._order,
            columns=columns,
            who=self._who,
            opening=self._state.opening is None,
        )
        results = self._state.run(self, visit)
        return list(results)

    @property
    def opening(self) -> Opening:
        """What the first pass found; it is made if none was."""
        if self._state.opening is None:
            self.fold(_nothing)
        assert self._state.opening is not None
        return self._state.opening

    def peek(self) -> Chunk:
        """The first rows."""
        return self._state.memo.get("peek", self._first_rows)

    def _first_rows(self) -> Chunk:
        part = self.parts[0]
        found = next((chunk for chunk in part.read() if len(chunk)), None)
        if found is None:
            raise FileError(f"{part.name}: promises {part.rows:,} rows and holds none; is it complete?")
        return found

    @property
    def correction(self) -> float:
        """The largest |row sum - 1| that renormalising repaired (0 for logits)."""
        return self.opening.correction

    @property
    def decided(self) -> float | None:
        """The share of rows whose deployed decision is not the argmax; None where no decisions came."""
        return self.opening.decided / self.n if self.decisions else None

    @property
    def mass(self) -> float:
        """The sum of all weights."""
        return self.opening.mass

    @property
    def n_effective(self) -> float:
        """Kish's effective number of rows: n, or less where weights differ."""
        return float(self.n) if not self.weighted else self.opening.mass**2 / self.opening.square

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the data on the way in, a sentence each."""
        decimals, worst = self.opening.decimals, self.opening.correction
        if decimals is None:
            return self._notes
        said = Note(
            f"the {self._who}'s probabilities are rounded to {decimals} decimals: "
            f"rows sum to 1 within {worst:.2g} and were renormalised"
        )
        return (*self._notes, said)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the digests of all parts: the same for the same rows in the same parts."""
        head = (self.kind, self.n, self.k, self.classes)
        self.opening  # noqa: B018 (a pass, if there was none)
        seen = list((self._state.digests or {}).items())  # in the order of the parts, as all sums are
        return hashlib.sha256(repr((head, seen)).encode()).hexdigest()

    def class_name(self, j: int) -> Hashable:
        """The name of column j: as given, or the index itself."""
        return j if self.classes is None else self.classes[j]

    def __repr__(self) -> str:
        return f"Scan({self.kind}, {self.n:,} rows x {self.k} classes in {len(self.parts):,} parts)"


def as_source(given: Any, verb: str) -> Source:
    """A `Source` as it is, and a scan as the source that it holds; refuses anything else."""
    if isinstance(given, Scan):
        return given.source()
    check_sample(given, Source, verb)
    source: Source = given
    return source


def scan_of(target: Target) -> Scan:
    """A large target in memory as a scan of its rows, so that nothing is copied whole."""
    step = max(1, ENTRIES // target.k)
    parts = [Held(target, lo, min(step, target.n - lo)) for lo in range(0, target.n, step)]
    made = Scan(
        parts,
        target.kind,
        target.k,
        target.classes,
        weighted=target.weights is not None,
        decisions=target.decided is not None,
        second=target.second is not None,
        ids=target.ids is not None,
        insist=True,
        tolerance=0.99,
        notes=target.notes,
    )
    return made


def _nothing(chunk: Chunk, start: int) -> int:
    return 0


class _State:
    """What passes leave behind, shared by all orders of one scan's classes."""

    def __init__(self) -> None:
        self.passes = 0
        self.opening: Opening | None = None
        self.digests: Digests | None = None
        self.memo = Memo()

    def run(self, scan: Scan, visit: Visit) -> Sequence[Any]:
        """Make one pass."""
        self.passes += 1
        read = 0

        def done(rows: int) -> None:
            nonlocal read
            read += rows
            if scan.progress is not None:
                scan.progress(read, scan.n)

        results: list[Any]
        digests, opening, *results = scan.engine.reduce(visit, scan.parts, scan.starts, done)
        self._compare(scan, digests)
        if visit.opening:
            self._admit(scan, opening)
        return results

    def _compare(self, scan: Scan, digests: Digests) -> None:
        if self.digests is None:
            self.digests = digests
            return
        for part, start in zip(scan.parts, scan.starts, strict=True):
            if digests.get(start) != self.digests.get(start):
                raise FileError(
                    f"{part.name}: changed between two passes; start again when nobody writes to it"
                )

    def _admit(self, scan: Scan, opening: Opening) -> None:
        if opening.alike and scan.k > 1:
            raise InputError(validation.LIKE_PROBABILITIES.format(what=f"{scan._who} logits"))
        if not opening.mass > 0.0:
            raise InputError(
                f"{scan._who} weights: they sum to zero; wanted at least one row with a positive weight"
            )
        self.opening = opening
