"""A target that is read chunk by chunk and never held whole.

A `Scan` is a list of *parts* (row groups of files, partitions of a frame), each of which can be read again and again
as `Chunk`s of raw rows. An *engine* carries a function to the parts and brings the sum of its results home, in the
order of the parts: threads of this process, or somebody else's cluster (`labelfree.scale`). Everything that is known
of a scan comes from such folds; the first of them also checks every row, as the door does for arrays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from labelfree import _door
from labelfree._door import ZERO
from labelfree._lockstep import Memo, reader, together
from labelfree._threads import in_turn
from labelfree.errors import FileError, InputError
from labelfree.types import Target, class_order

S = TypeVar("S")
T = TypeVar("T")

#: Entries of a chunk, about: enough for a thread to work on for milliseconds.
ENTRIES = 1 << 19
#: No row weighs more; sums of squares of what is below it stay finite.
HEAVIEST = 1e100


@dataclass(frozen=True)
class Chunk:
    """Some consecutive rows of a part, as they were stored.

    Attributes:
        scores: (b, K) logits or probabilities, floating, C order.
        where, first: the file that they stand in, and the number of the first of them there.
        predictions: (b,) the deployed decisions as class numbers; None where the largest score decides.
        weights: (b,) row weights, or None.
        second: (b,) a second model's predictions, or None.
        ids: (b,) what rows are known by, or None.
        columns: (b,) other columns that were asked for, by name.
        known: what the steps of one pass share, by key.
    """

    scores: npt.NDArray[Any]
    where: str = "target"
    first: int = 0
    predictions: npt.NDArray[np.intp] | None = None
    weights: npt.NDArray[np.float64] | None = None
    second: npt.NDArray[np.intp] | None = None
    ids: npt.NDArray[Any] | None = None
    columns: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.scores)

    def in_order(self, order: npt.NDArray[np.intp], place: npt.NDArray[np.intp]) -> Chunk:
        """The same rows with their classes in another order."""
        return replace(
            self,
            scores=np.ascontiguousarray(self.scores[:, order]),
            predictions=None if self.predictions is None else place[self.predictions],
            second=None if self.second is None else place[self.second],
            known={},
        )


class Part(Protocol):
    """Some of the rows, wherever they are; it travels to whoever reads it."""

    @property
    def name(self) -> str:
        """What it is called in messages."""
        ...

    @property
    def rows(self) -> int:
        """How many rows it has."""
        ...

    def read(self, columns: Sequence[str] = ()) -> Iterator[Chunk]:
        """Its rows from the first to the last; `columns` are other columns to bring along."""
        ...


Task = Callable[[Part, int], Any]


class Engine(Protocol):
    """Who carries a task to the parts."""

    def reduce(
        self, task: Task, parts: Sequence[Part], starts: Sequence[int], done: Callable[[int], None]
    ) -> Any:
        """The sum of `task(part, start)` over all parts, in their order, whoever worked on them.

        `done` is told how many rows of each part have been read, as its result arrives.
        """
        ...


class Threads:
    """Threads of this process. Only as many results are waited for as there are threads, so that memory is flat."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads

    def reduce(
        self, task: Task, parts: Sequence[Part], starts: Sequence[int], done: Callable[[int], None]
    ) -> Any:
        """The sum of the task's results in the order of the parts."""
        results = in_turn(lambda pair: task(*pair), list(zip(parts, starts, strict=True)), self.threads)
        return summed(results, parts, done)


def summed(results: Iterator[Any], parts: Sequence[Part], done: Callable[[int], None]) -> Any:
    """The sum of the results, which come in the order of the parts."""
    total: Any = None
    for part, result in zip(parts, results, strict=True):
        total = result if total is None else total + result
        done(part.rows)
    return total


@dataclass(frozen=True)
class Opening:
    """What the first look at the rows finds; looks at several chunks add up.

    Attributes:
        rows: how many.
        correction: the largest |row sum - 1| (0 for logits).
        decimals: to how many the probabilities are rounded, where that alone explains the correction.
        least: the smallest positive probability (1 where there is none).
        zeros: whether a probability is exactly zero.
        decided: in how many rows the deployed decision is not the largest score.
        alike: whether every row looks like probabilities.
        mass, square: the sum of the weights, and of their squares.
    """

    rows: int
    correction: float = 0.0
    decimals: int | None = None
    least: float = 1.0
    zeros: bool = False
    decided: int = 0
    alike: bool = False
    mass: float = 0.0
    square: float = 0.0

    def __add__(self, other: Opening) -> Opening:
        rounded = [d for d in (self.decimals, other.decimals) if d is not None]
        return Opening(
            self.rows + other.rows,
            max(self.correction, other.correction),
            max(rounded, default=None),
            min(self.least, other.least),
            self.zeros or other.zeros,
            self.decided + other.decided,
            self.alike and other.alike,
            self.mass + other.mass,
            self.square + other.square,
        )


class Results(tuple[Any, ...]):
    """The results of several steps, which add up one by one."""

    def __add__(self, other: Any) -> Results:
        return Results(a + b for a, b in zip(self, other, strict=True))


@dataclass(frozen=True)
class Visit:
    """What is done to one part in a pass: every step to every chunk, and a digest of what was seen.

    Attributes:
        steps: functions of a chunk and the number of its first row; what they return adds up.
        kind, tolerance, insist: what the scores are, and how strictly they are looked at.
        order: (K,) the columns in the order of the source's classes, or None.
        columns: other columns to read.
        opening: whether rows are checked; once is enough.
    """

    steps: tuple[Callable[[Chunk, int], Any], ...]
    kind: str
    tolerance: float | None = None
    insist: bool = False
    order: npt.NDArray[np.intp] | None = None
    columns: tuple[str, ...] = ()
    opening: bool = False

    def __call__(self, part: Part, start: int) -> Results:
        """The sums of this part, the first look if it was asked for, and its digest."""
        place = None if self.order is None else np.argsort(self.order)
        total: Results | None = None
        seen, digest = 0, 0
        for raw in part.read(self.columns):
            if not len(raw):
                continue
            chunk = raw if self.order is None or place is None else raw.in_order(self.order, place)
            if seen + len(chunk) > part.rows:
                break
            look = (
                opened(chunk, self.kind, self.tolerance, self.insist) if self.opening else Opening(len(chunk))
            )
            here = Results((look, *(step(chunk, start + seen) for step in self.steps)))
            total = here if total is None else total + here
            seen, digest = seen + len(chunk), digest ^ _digest(raw, seen)
        if seen != part.rows or total is None:
            raise FileError(
                f"{part.name}: other than {part.rows:,} rows were read, which it had before; "
                "did it change? start again when it is whole"
            )
        return Results((Digests({start: digest}), *total))


class Digests(dict[int, int]):
    """Digests of parts, by the number of their first row."""

    def __add__(self, other: Digests) -> Digests:
        self.update(other)
        return self


def _digest(chunk: Chunk, seen: int) -> int:
    """A cheap digest of the chunk's scores: the sum of their bits, and where it stands."""
    flat = np.ascontiguousarray(chunk.scores).reshape(-1).view(np.uint8)
    whole = len(flat) // 8 * 8
    with np.errstate(over="ignore"):
        bits = int(flat[:whole].view(np.uint64).sum(dtype=np.uint64)) + int(flat[whole:].sum(dtype=np.uint64))
    return hash((bits & 0xFFFFFFFFFFFFFFFF, seen))


def opened(chunk: Chunk, kind: str, tolerance: float | None, insist: bool) -> Opening:
    """Check the rows of a chunk; what is wrong is said with their file and number in it."""
    with rows_of(chunk.where, chunk.first):
        checked = _door.as_scores(chunk.scores, kind, "target", tolerance, insist=True)
        weights = None if chunk.weights is None else _weights(chunk.weights)
    least, zeros = 1.0, False
    if kind == "probs":
        smallest = float(chunk.scores.min())
        zeros = smallest == 0.0
        positive = chunk.scores[chunk.scores > 0] if zeros else None
        least = smallest if positive is None else float(positive.min(initial=1.0))
    decided = 0
    if chunk.predictions is not None:
        decided = int((chunk.predictions != _door.argmax(chunk.scores)).sum())
    n = float(len(chunk))
    return Opening(
        rows=len(chunk),
        correction=checked.correction,
        decimals=checked.decimals,
        least=least,
        zeros=zeros,
        decided=decided,
        alike=kind == "logits" and not insist and _door.like_probabilities(chunk.scores),
        mass=n if weights is None else float(weights.sum()),
        square=n if weights is None else float(weights @ weights),
    )


def _weights(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    bad = ~((values >= 0.0) & (values <= HEAVIEST))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"target weights: row {row} is {values[row]:g}; wanted weights from 0 to {HEAVIEST:g}"
        )
    return values


class rows_of:  # noqa: N801 (reads as a word in `with rows_of(where, first)`)
    """Say of a file, and of the row in it, what is said of rows that begin at its row `first`."""

    def __init__(self, where: str, first: int) -> None:
        self.where, self.first = where, first

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, problem: Any, trace: Any) -> None:
        if isinstance(problem, InputError) and not isinstance(problem, FileError):
            raise FileError(f"{self.where}: {_moved(str(problem), self.first)}") from None


def _moved(text: str, first: int) -> str:
    """A message about a row of a chunk, with the row's number in its file."""
    import re

    return re.sub(r"\brow (\d+)", lambda found: f"row {int(found[1]) + first}", text, count=1)


class Scan:
    """A target that is read anew in every pass; every function takes it where it takes a `Target`.

    Made by `labelfree.scan`. Answers are those of a `Target` of the same rows; memory does not grow with rows.

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
        tolerance, insist: as for `Target`.
        notes: what was found out about the form, a sentence each.
        name: for messages and `repr`.

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
        tolerance: float | None = None,
        insist: bool = False,
        notes: tuple[str, ...] = (),
        name: str = "target",
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
        self._notes = notes
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
        twin = object.__new__(Scan)
        vars(twin).update({**vars(self), "classes": classes, "_order": order})
        return twin

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
        results, place = [], None if self._order is None else np.argsort(self._order)
        for raw in part.read():
            if len(raw):
                chunk = raw if self._order is None or place is None else raw.in_order(self._order, place)
                results.append(step(chunk, start))
                start += len(raw)
        return results

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
        return self._state.memo.get("peek", lambda: next(c for c in self.parts[0].read() if len(c)))

    @property
    def floor(self) -> float:
        """What a probability of exactly zero counts as where its logarithm is needed; 0 for logits.

        Before the first pass it is guessed from the first rows; the pass is made again if the guess mattered.
        """
        if self.kind == "logits":
            return 0.0
        if self._state.opening is not None:
            return min(ZERO, self._state.opening.least)
        return self._state.memo.get(
            "floor", lambda: min(ZERO, opened(self.peek(), "probs", 0.99, True).least)
        )

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
        said = (
            f"the target's probabilities are rounded to {decimals} decimals: "
            f"rows sum to 1 within {worst:.2g} and were renormalised"
        )
        return (*self._notes, said)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the digests of all parts: the same for the same rows in the same parts."""
        head = (self.kind, self.n, self.k, self.classes)
        self.opening  # noqa: B018 (a pass, if there was none)
        seen = sorted((self._state.digests or {}).items())
        return hashlib.sha256(repr((head, seen)).encode()).hexdigest()

    def class_name(self, j: int) -> Hashable:
        """The name of column j: as given, or the index itself."""
        return j if self.classes is None else self.classes[j]

    def __repr__(self) -> str:
        return f"Scan({self.kind}, {self.n:,} rows x {self.k} classes in {len(self.parts):,} parts)"


@dataclass(frozen=True)
class Held:
    """Some rows of a target that is in memory, as a part.

    Attributes:
        target: all rows.
        start, rows: where these begin, and how many they are.
        name: for messages.
    """

    target: Target
    start: int
    rows: int
    name: str = "target"

    def read(self, columns: Sequence[str] = ()) -> Iterator[Chunk]:
        """One chunk that shares the target's arrays."""
        at, held = slice(self.start, self.start + self.rows), self.target
        yield Chunk(
            held.scores[at],
            self.name,
            self.start,
            held.predictions[at],
            None if held.weights is None else held.weights[at],
            None if held.second is None else held.second[at],
            None if held.ids is None else held.ids[at],
        )


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

        guess = scan.floor
        results: list[Any]
        digests, opening, *results = scan.engine.reduce(visit, scan.parts, scan.starts, done)
        self._compare(scan, digests)
        if visit.opening:
            self._admit(scan, opening)
            if scan.kind == "probs" and guess != scan.floor and (opening.zeros or opening.least < guess):
                return self.run(scan, replace(visit, opening=False))
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
            raise InputError(_door.LIKE_PROBABILITIES.format(what="target logits"))
        if not opening.mass > 0.0:
            raise InputError(
                "target weights: they sum to zero; wanted at least one row with a positive weight"
            )
        self.opening = opening
