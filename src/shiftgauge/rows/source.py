"""A `Source` from rows that are read in passes: one pass, with a deterministic subsample if they are too many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import FileError, InputError, Note, format_names, nearest
from shiftgauge.rows.blocks import Array, Block, Indices
from shiftgauge.rows.driver import run
from shiftgauge.rows.parts import LABELS
from shiftgauge.rows.passes import Totals
from shiftgauge.samples import Source

if TYPE_CHECKING:
    from shiftgauge.rows.rows import Rows

#: Numbers of a source that are held, and how many a row has beside its scores (label, prediction, costs, ...).
SOURCE_ENTRIES, FURTHER_COLUMNS = 1 << 26, 10
#: Buffers grow by this factor, so that memory is seldom asked for.
GROWTH = 1.125


def max_source_rows(k: int) -> int:
    """How many rows of k classes a source holds: 3,355,443 of ten, 66,444 of 1,000.

    >>> max_source_rows(10), max_source_rows(1000)
    (3355443, 66444)
    """
    return SOURCE_ENTRIES // (k + FURTHER_COLUMNS)


def source_of(rows: Rows, labels: Any = None, *, most: int | None = None, seed: int = 0) -> Source:
    """Read labelled rows as a `Source`, in one pass; subsample them if they are too many.

    Rows are held once, at the precision they are stored in. Beyond `most` rows each is drawn with the same
    probability, by its number and the seed alone; the source's notes say so, and `kept` holds the numbers.

    Args:
        rows: as `shiftgauge.scan` makes them.
        labels: (n,) the labels, if they are not a column of the rows.
        most: about how many rows to hold; by default 3,355,443 of ten classes, 66,444 of 1,000.
        seed: of the draw.
    """
    key = (most, seed)
    held = rows.sources if labels is None else {}
    if key not in held:
        held[key] = _read_source(rows.as_source(), labels, most, seed)
    return held[key]


class SourceBuffer:
    """Labelled rows that add up in place, in memory that grows, so that no row is held twice.

    Attributes:
        scores: (m, K), of which the first `count` are rows.
        others: what stands beside the scores, block by block: (b,) arrays, or None.
    """

    def __init__(self, scores: Array, *others: Array | None) -> None:
        self.scores, self.count, self.others = scores, len(scores), [others]

    def __setstate__(self, state: dict[str, Any]) -> None:
        # unpickled arrays do not own their buffer, so copy before resizing
        vars(self).update({**state, "scores": np.array(state["scores"])})

    def __add__(self, other: SourceBuffer) -> SourceBuffer:
        end, dtype = self.count + other.count, np.promote_types(self.scores.dtype, other.scores.dtype)
        if dtype != self.scores.dtype:  # a later file has a higher precision
            self.scores = self.scores.astype(dtype)
        if end > len(self.scores):
            self._resize(max(end, int(GROWTH * len(self.scores))))
        self.scores[self.count : end] = other.scores[: other.count]
        self.count = end
        self.others += other.others
        return self

    def _resize(self, rows: int) -> None:
        # Not numpy.resize: the system moves a large block page by page, so that it is never held twice.
        self.scores.resize((rows, self.scores.shape[1]), refcheck=False)

    def joined(self) -> tuple[Array | None, ...]:
        """The scores and all others, each as one array."""
        if self.count < len(self.scores):
            self._resize(self.count)
        columns = zip(*self.others, strict=True)
        return self.scores, *(None if column[0] is None else np.concatenate(column) for column in columns)


@dataclass(frozen=True)
class LabelledRows:
    """A step that returns the labelled rows of a block that are drawn.

    Attributes:
        share: the probability that a labelled row is drawn; by the row's number and the seed alone, so that the
            same rows are drawn however they are cut.
        seed: of the draw.
        k: the number of classes.
        labelled: whether the labels are a column.
        numbered: whether row numbers are returned, because rows may be left out.
    """

    share: float
    seed: int
    k: int
    labelled: bool
    numbered: bool

    def __call__(self, block: Block) -> Totals:
        """The rows; and in how many of all the label is missing, is a name, is a column number."""
        labels = block.labels if self.labelled else np.zeros(len(block), np.intp)
        assert labels is not None
        kinds = np.bincount(np.minimum(labels // self.k, 1) + 1, minlength=3)
        drawn = labels >= 0
        if self.share < 1.0:
            drawn &= uniform(block.start, len(block), self.seed) < self.share
        at = np.flatnonzero(drawn)
        classes = (
            None if v is None else (v[at] % self.k).astype(np.int32) for v in (labels, block.decisions)
        )
        others = (None if v is None else v[at] for v in (block.weights, block.ids))
        numbers = at + block.start if self.numbered else None
        return Totals((SourceBuffer(block.scores[at], numbers, *classes, *others), kinds))


def uniform(start: int, length: int, seed: int) -> npt.NDArray[np.float64]:
    """(length,) uniform numbers of the rows from `start` on: SplitMix64 (Steele, Lea and Flood, 2014) of each."""
    x = np.arange(start, start + length, dtype=np.uint64) + _mixed(np.array([seed], np.uint64))
    return np.asarray((_mixed(x) >> np.uint64(11)) * 2.0**-53)


def _mixed(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def _read_source(rows: Rows, labels: Any, most: int | None, seed: int) -> Source:
    """The rows with their labels, which are a column or are given."""
    most = max_source_rows(rows.k) if most is None else most
    validation.check_count(most, "most", 1)
    validation.check_count(seed, "seed", 0, most=2**63)
    if labels is None and not rows.labelled:
        raise FileError(_unlabelled(rows))
    if labels is not None and rows.labelled:
        raise FileError(
            f"{rows.name}: has labels of its own, in the column {rows.label!r}, and others were given (labels=, "
            "--labels); wanted one of the two"
        )
    truth = None
    if labels is not None:
        truth = validation.check_labels(labels, rows.n, rows.k, rows.classes, "source labels")
    there = rows.n
    if rows.drop and truth is None and rows.n > most:
        there -= int(run(rows.fold(_missing_labels, columns=[LABELS])))
    step = LabelledRows(
        min(1.0, most / max(there, 1)), seed, rows.k, truth is None, there > most or rows.drop
    )
    buffer, kinds = run(rows.fold(step, columns=[LABELS] if truth is None else []))
    return _make_source(rows, buffer, kinds, truth, seed)


def _missing_labels(block: Block) -> int:
    assert block.labels is not None
    return int((block.labels < 0).sum())


def _make_source(
    rows: Rows, buffer: SourceBuffer, kinds: Indices, truth: Indices | None, seed: int
) -> Source:
    if kinds[1] and kinds[2]:
        raise FileError(
            f"{rows.name}: {kinds[2]:,} labels are column numbers and {kinds[1]:,} are class names; "
            "wanted one of the two"
        )
    if not buffer.count:
        raise InputError(f"source labels: none of {rows.n:,} rows has one and was drawn; wanted some")
    scores, numbers, labels, decisions, weights, ids = buffer.joined()
    assert scores is not None
    assert labels is not None
    if truth is None:
        truth = labels.astype(np.intp)
    elif numbers is not None:
        truth = truth[numbers]
    # Labels and decisions are class numbers here, so the names come afterwards: a class may be called 1.
    source = Source(
        scores if rows.kind == "logits" else None,
        truth,
        probs=scores if rows.kind == "probs" else None,
        weights=weights,
        predictions=None if decisions is None else decisions.astype(np.intp),
        ids=ids,
        tolerance=rows.tolerance,
        insist=rows.insist,
    ).with_classes(rows.classes)
    if source.n == rows.n:
        return source
    return source.with_notes(_left_out(rows, source, int(kinds[0]), seed), kept=numbers)


def _left_out(rows: Rows, source: Source, missing: int, seed: int) -> list[str]:
    """What is said about the rows that were left out."""
    notes: list[str] = []
    labelled = rows.n - missing
    if missing:
        notes.append(Note(f"{missing:,} of {rows.n:,} source rows have no label and were dropped"))
    if source.n < labelled:
        e = source.error
        off = 100.0 * np.sqrt(e * (1.0 - e) / source.n_effective * (1.0 - source.n / labelled))
        notes.append(
            f"of {labelled:,} labelled source rows {source.n:,} were kept, drawn at random (seed {seed}), so that "
            f"memory stays small: the source's error is off by about {off:.2g} points by that, which intervals include"
        )
    return notes


def _unlabelled(rows: Rows) -> str:
    return (
        f"{rows.name}: no column {rows.label!r}{nearest(rows.label, rows.columns)} "
        f"(found {format_names(rows.columns)}); the source needs labels: label=NAME (--label-column NAME), or in a "
        "separate file (--source-labels FILE)"
    )
