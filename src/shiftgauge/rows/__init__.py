"""Rows of a sample, in blocks: the one thing that methods, functions and solvers see, whatever its size.

`Rows` are blocks of calibrated rows: slices of an array in memory, or parts of a file, a folder or a cluster that are
read anew in every pass. A method asks for folds over the blocks (`await rows.mean(...)`), looks at the sums, and asks
again. `run` drives several such coroutines side by side and answers all their requests of one round with one pass.

>>> import numpy as np
>>> from shiftgauge.samples import Target
>>> rows = Rows.of(Target(probs=[[0.9, 0.1], [0.4, 0.6]]))
>>> float(run(rows.mean(lambda block: block.confidence)))
0.75
"""

from shiftgauge.rows.blocks import Block, Calibrates
from shiftgauge.rows.driver import Request, gather, run
from shiftgauge.rows.parts import (
    BLOCK_ENTRIES,
    LABELS,
    ArrayPart,
    Engine,
    Part,
    Task,
    Threads,
    sum_in_order,
)
from shiftgauge.rows.passes import RowBuffer, RowSummary, Totals, renumbered, row_location
from shiftgauge.rows.rows import AnySource, AnyTarget, Moments, Rows, to_source, to_target
from shiftgauge.rows.source import source_of
from shiftgauge.rows.subsample import subsample_step, subsampled_rows
from shiftgauge.rows.threads import Stopped, check_stopped, cores, ordered_map

__all__ = [
    "BLOCK_ENTRIES",
    "LABELS",
    "AnySource",
    "AnyTarget",
    "ArrayPart",
    "Block",
    "Calibrates",
    "Engine",
    "Moments",
    "Part",
    "Request",
    "RowBuffer",
    "RowSummary",
    "Rows",
    "Stopped",
    "Task",
    "Threads",
    "Totals",
    "check_stopped",
    "cores",
    "gather",
    "ordered_map",
    "renumbered",
    "row_location",
    "run",
    "source_of",
    "subsample_step",
    "subsampled_rows",
    "sum_in_order",
    "to_source",
    "to_target",
]
