"""The subsample of rows: some of them in memory, drawn by their numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shiftgauge.rows.blocks import Block, Indices, join_blocks
from shiftgauge.rows.passes import RowBuffer

if TYPE_CHECKING:
    from shiftgauge.rows.rows import Rows

#: Samples of up to this many entries are their own subsample; larger ones are thinned to about `SUBSAMPLE` entries.
WHOLE_ENTRIES, SUBSAMPLE_ENTRIES = 1 << 22, 1 << 23
#: With fewer rows per class than this a subsample says too little, and up to `WIDE_ENTRIES` all rows are taken.
ROWS_PER_CLASS, WIDE_ENTRIES = 500, 1 << 26


def subsample_step(n: int, k: int) -> int:
    """One row out of how many belongs to the subsample; 1 for a sample that is small."""
    if n * k <= WHOLE_ENTRIES or (n < ROWS_PER_CLASS * k and n * k <= WIDE_ENTRIES):
        return 1
    return min(n, max(2, -(-n * k // SUBSAMPLE_ENTRIES)))


def subsampled_rows(start: int, length: int, n: int, step: int) -> Indices:
    """Which of `length` rows from row `start` on belong to the subsample of one row in every `step` of n rows.

    One irregularly placed row of each `step`: always the same rows, however they are cut.
    """
    first, last = start // step, (start + length - 1) // step
    items = np.arange(first, min(last, n // step - 1) + 1)
    rows = _row_of_item(items, step) - start
    return np.asarray(rows[(rows >= 0) & (rows < length)], dtype=np.intp)


def _row_of_item(items: Indices, step: int) -> Indices:
    if step == 1:
        return items
    with np.errstate(over="ignore"):
        mixed = (items.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(items * step + ((mixed >> np.uint64(33)) % np.uint64(step)).astype(np.intp))


def _drawn(block: Block, n: int, step: int) -> list[Block]:
    rows = subsampled_rows(block.start, len(block), n, step)
    subset = block.take(rows)
    return [replace(subset, row_numbers=block.numbers[rows])]


def drawn_columns(block: Block, of: Sequence[Callable[[Block], Any]], n: int, step: int) -> RowBuffer:
    """What each function gives for those rows of a block that belong to the subsample."""
    drawn = block if step == 1 else block.take(subsampled_rows(block.start, len(block), n, step))
    return RowBuffer.of(*(np.asarray(each(drawn)) for each in of))


async def draw_subsample(rows: Rows) -> Rows:
    """Some rows in memory; the rows themselves if they are few and in memory already."""
    step = subsample_step(rows.n, rows.k)
    if rows.in_memory and step == 1:
        return rows
    block = replace(join_blocks(await rows.fold(_drawn, rows.n, step)), start=0, columns={})
    drawn = type(rows).of_block(block, rows.classes, zeros=rows.has_zeros)
    drawn.keeps_probs = not rows.in_memory  # solvers start from it only if all rows are read in passes
    return drawn if len(block) == rows.n else drawn.with_n_effective(rows.n_effective)
