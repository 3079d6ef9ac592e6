"""A source out of a scan: its labelled rows, brought home in one pass; of too many, some drawn by their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge.errors import FileError, InputError, Note, nearest
from shiftgauge.samples import Source
from shiftgauge.scans.parts import LABELS, Chunk
from shiftgauge.scans.visits import Total

if TYPE_CHECKING:
    from shiftgauge.scans.whole import Scan

Array = npt.NDArray[Any]

#: Numbers of a source that are kept, and how many a row has beside its scores (label, prediction, costs, ...).
KEPT, BESIDE = 1 << 26, 10
#: How much more memory is asked for than is needed, so that it is asked for seldom.
GROWTH = 1.125


def rows_kept(k: int) -> int:
    """How many rows of k classes a source keeps: 3,355,443 of ten, 66,444 of 1,000.

    >>> rows_kept(10), rows_kept(1000)
    (3355443, 66444)
    """
    return KEPT // (k + BESIDE)


class Rows:
    """Rows that come home. They add up in place, in memory that grows by itself, so that no row is held twice.

    Attributes:
        scores: (m, K), the first `count` of which are rows; nobody else holds them.
        others: what stands beside the scores, piece by piece: (b,) arrays, or None.
    """

    def __init__(self, scores: Array, *others: Array | None) -> None:
        self.scores, self.count, self.others = scores, len(scores), [others]

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(
            {**state, "scores": np.array(state["scores"])}
        )  # an array that came by mail cannot grow

    def __add__(self, other: Rows) -> Rows:
        end, dtype = self.count + other.count, np.promote_types(self.scores.dtype, other.scores.dtype)
        if dtype != self.scores.dtype:  # a later file of higher precision
            self.scores = self.scores.astype(dtype)
        if end > len(self.scores):
            self._resize(max(end, int(GROWTH * len(self.scores))))
        self.scores[self.count : end] = other.scores[: other.count]
        self.count = end
        self.others += other.others
        return self

    def _resize(self, rows: int) -> None:
        # Not numpy.resize: a large block is moved by the system, page by page, and is never there twice.
        self.scores.resize((rows, self.scores.shape[1]), refcheck=False)

    def joined(self) -> tuple[Array | None, ...]:
        """Scores and all others, each as a whole."""
        if self.count < len(self.scores):
            self._resize(self.count)
        columns = zip(*self.others, strict=True)
        return self.scores, *(None if column[0] is None else np.concatenate(column) for column in columns)


@dataclass(frozen=True)
class Draw:
    """Which rows come home: those with a label that the seed gives a number below the share.

    The number depends on the row's own number alone, so that the same rows are drawn however they are cut.

    Attributes:
        share: of the labelled rows that are drawn.
        seed: of the draw.
        k: the number of classes.
        labelled: whether the labels are a column.
        some: whether rows may be left out, so that their numbers must be known.
    """

    share: float
    seed: int
    k: int
    labelled: bool
    some: bool

    def __call__(self, chunk: Chunk, start: int) -> Total:
        """The rows; and in how many of all the label is missing, is a name, is a column's number."""
        labels = chunk.labels if self.labelled else np.zeros(len(chunk), np.intp)
        assert labels is not None
        kinds = np.bincount(np.minimum(labels // self.k, 1) + 1, minlength=3)
        drawn = labels >= 0
        if self.share < 1.0:
            drawn &= uniform(start, len(chunk), self.seed) < self.share
        at = np.flatnonzero(drawn)
        classes = (
            None if v is None else (v[at] % self.k).astype(np.int32) for v in (labels, chunk.predictions)
        )
        others = (None if v is None else v[at] for v in (chunk.weights, chunk.ids))
        return Total((Rows(chunk.scores[at], at + start if self.some else None, *classes, *others), kinds))


def uniform(start: int, length: int, seed: int) -> npt.NDArray[np.float64]:
    """(length,) numbers from 0 to 1 of the rows from `start` on: SplitMix64 (Steele, Lea and Flood, 2014) of each."""
    x = np.arange(start, start + length, dtype=np.uint64) + _mixed(np.array([seed], np.uint64))
    return np.asarray((_mixed(x) >> np.uint64(11)) * 2.0**-53)


def _mixed(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def source_of(scan: Scan, labels: Any, most: int | None, seed: int) -> Source:
    """The rows of a scan with their labels, which stand in a column or are given."""
    most = rows_kept(scan.k) if most is None else most
    validation.check_count(most, "most", 1)
    validation.check_count(seed, "seed", 0, most=2**63)
    if labels is None and not scan.labelled:
        raise FileError(_unlabelled(scan))
    if labels is not None and scan.labelled:
        raise FileError(
            f"{scan.name}: has labels of its own, in the column {scan.label!r}, and others were given (labels=, "
            "--labels); wanted one of the two"
        )
    truth = None
    if labels is not None:
        truth = validation.check_labels(labels, scan.n, scan.k, scan.classes, "source labels")
    there = scan.n
    if scan.drop and truth is None and scan.n > most:
        there -= int(scan.fold(_missing, [LABELS]))
    draw = Draw(min(1.0, most / max(there, 1)), seed, scan.k, truth is None, there > most or scan.drop)
    rows, kinds = scan.fold(draw, [LABELS] if truth is None else [])
    return _made(scan, rows, kinds, truth, seed)


def _missing(chunk: Chunk, start: int) -> int:
    assert chunk.labels is not None
    return int((chunk.labels < 0).sum())


def _made(
    scan: Scan, rows: Rows, kinds: npt.NDArray[np.intp], truth: npt.NDArray[np.intp] | None, seed: int
) -> Source:
    if kinds[1] and kinds[2]:
        raise FileError(
            f"{scan.name}: {kinds[2]:,} labels are column numbers and {kinds[1]:,} are class names; "
            "wanted one of the two"
        )
    if not rows.count:
        raise InputError(f"source labels: none of {scan.n:,} rows has one and was drawn; wanted some")
    scores, numbers, labels, predictions, weights, ids = rows.joined()
    assert labels is not None
    made = object.__new__(Source)
    given = {"logits": None, "probs": None, scan.kind: scores}
    made._enter(
        "source",
        classes=scan.classes,
        weights=weights,
        predictions=None,
        threshold=None,
        ids=ids,
        tolerance=scan.tolerance,
        insist=scan.insist,
        **given,
    )
    if predictions is not None:
        taken = predictions.astype(np.intp)
        made._set(decided=validation.decided_share(made.scores, taken), predictions=taken)
    if truth is None:
        truth = labels.astype(np.intp)
    elif numbers is not None:
        truth = truth[numbers]
    made._set(labels=truth)
    if made.n < scan.n:
        made._set(kept=numbers, notes=(*made.notes, *_left_out(scan, made, int(kinds[0]), seed)))
    return made


def _left_out(scan: Scan, made: Source, missing: int, seed: int) -> list[str]:
    """What is said of the rows that did not come home."""
    said: list[str] = []
    there = scan.n - missing
    if missing:
        said.append(Note(f"{missing:,} of {scan.n:,} source rows have no label and were dropped"))
    if made.n < there:
        e = made.error
        off = 100.0 * np.sqrt(e * (1.0 - e) / made.n_effective * (1.0 - made.n / there))
        said.append(
            f"of {there:,} labelled source rows {made.n:,} were kept, drawn at random (seed {seed}), so that memory "
            f"stays small: the source's error is off by about {off:.2g} points by that, which intervals include"
        )
    return said


def _unlabelled(scan: Scan) -> str:
    found = ", ".join(scan.columns[:8]) + (", ..." if len(scan.columns) > 8 else "")
    held = f"no column {scan.label!r}{nearest(scan.label, scan.columns)} (found {found or 'none'})"
    return (
        f"{scan.name}: {held}; the source needs labels: label=NAME (--label-column NAME), or in a file of their own "
        "(--labels FILE)"
    )
