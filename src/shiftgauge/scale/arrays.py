"""Scores in `.npy` files: row ranges, of which nothing but the rows at hand is in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from shiftgauge._npz import refusal
from shiftgauge.errors import FileError
from shiftgauge.io.form import Form
from shiftgauge.scale.files import FilePart, Stamp, joined, rows_a_part
from shiftgauge.scale.layout import Layout
from shiftgauge.scans import Chunk, Part, rows_of


@dataclass(frozen=True)
class NpyPart(FilePart):
    """Consecutive rows of a `.npy` file. They are read, not mapped: a file cut short is an error and no signal.

    Attributes:
        head: where its numbers begin, their dtype, how many rows there are, and whether columns stand together.
    """

    head: tuple[int, str, int, bool]

    def read(self, columns: Sequence[str] = ()) -> Iterator[Chunk]:
        """Its rows, chunk by chunk."""
        if columns:
            raise FileError(f"{self.name}: a .npy file has no column {columns[0]!r}; wanted a table")
        self.stamp.check()
        for begin in range(self.first, self.first + self.rows, self.layout.batch_rows):
            rows = min(self.layout.batch_rows, self.first + self.rows - begin)
            scores = self._scores(begin, rows)
            with rows_of(self.name, begin):
                decisions = self.layout.decided(scores)
            yield Chunk(scores, self.name, begin, predictions=decisions)

    def _scores(self, begin: int, rows: int) -> Any:
        offset, dtype, n, fortran = self.head
        k, size = self.layout.k, np.dtype(dtype).itemsize
        if not fortran:
            flat = self._numbers(offset + begin * k * size, rows * k)
            return np.asarray(flat.reshape(rows, k), self.layout.dtype)
        columns = [self._numbers(offset + (j * n + begin) * size, rows) for j in range(k)]
        return np.stack(columns, axis=1).astype(self.layout.dtype, copy=False)

    def _numbers(self, offset: int, count: int) -> Any:
        try:
            found = np.fromfile(self.name, self.head[1], count, offset=offset)
        except OSError as problem:
            raise FileError(refusal(Path(self.name), problem, "npy")) from None
        if len(found) != count:
            raise FileError(f"{self.name}: cannot be read as .npy (it is cut short); is it complete?")
        return found


def npy_parts(files: Sequence[Path], form: Form) -> tuple[Layout, list[Part]]:
    """The layout and the parts of `.npy` files of the same columns; only their headers are read."""
    if form.kind is None:
        raise FileError(
            f"{files[0]}: a .npy file does not say what it holds; pass --logits or --probs (kind='logits')"
        )
    for word, name in (("weight", form.weight), ("id", form.id)):
        if name is not None:
            raise FileError(f"{files[0]}: a .npy file has no column {name!r} ({word}=); wanted a table")
    heads = [(stamp, *_head(stamp)) for stamp in map(Stamp.of, files)]
    k = heads[0][2]
    for stamp, _, here in heads:
        if here != k:
            raise FileError(
                f"{stamp.file}: {here} columns of scores, and {files[0]} has {k}; wanted the same classes"
            )
    kinds = [np.dtype(head[1]) for _, head, _ in heads]
    dtype = np.result_type(*(kind if kind.kind == "f" else np.dtype(np.float64) for kind in kinds))
    layout = Layout(
        form.kind, tuple(str(j) for j in range(k)), None, str(dtype), (), threshold=form.threshold
    )
    share = rows_a_part(sum(head[2] for _, head, _ in heads), k)
    parts: list[Part] = [
        NpyPart(layout, stamp, first, min(share, head[2] - first), head)
        for stamp, head, _ in heads
        for first in range(0, head[2], share)
    ]
    return layout, joined(parts, share)


def _head(stamp: Stamp) -> tuple[tuple[int, str, int, bool], int]:
    """Where the numbers of a file begin, their dtype, its rows and order; and its columns."""
    file = Path(stamp.file)
    try:
        with file.open("rb") as opened:
            version = npy.read_magic(opened)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(opened)
            offset = opened.tell()
    except Exception as problem:
        raise FileError(refusal(file, problem, "npy")) from None
    if dtype.kind not in "fiub" or len(shape) != 2:
        raise FileError(f"{file}: holds {dtype.name} of shape {shape}; wanted numbers, (rows, classes)")
    if stamp.size - offset < math.prod(shape) * dtype.itemsize:
        raise FileError(f"{file}: cannot be read as .npy (it is cut short); is it complete?")
    return (offset, dtype.str, shape[0], bool(fortran)), shape[1]
