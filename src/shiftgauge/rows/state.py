"""What passes over rows leave behind: how many there were, what the first one found out, digests of the parts."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shiftgauge import validation
from shiftgauge.errors import FileError, InputError
from shiftgauge.rows.blocks import Block
from shiftgauge.rows.parts import Threads
from shiftgauge.rows.passes import PartDigests, PassTask, RowSummary, Totals
from shiftgauge.rows.threads import cores, ordered_map
from shiftgauge.samples import Source

if TYPE_CHECKING:
    from shiftgauge.rows.rows import Rows

#: Rows in memory keep their calibrated probabilities up to this many entries (8 bytes each); beyond, every pass
#: computes them anew, so that memory stays within two and a half times the input.
KEPT_ENTRIES = 1 << 24
#: Blocks in memory per thread at least: a thread takes about as long to start as a block to read.
BLOCKS_PER_THREAD = 2


class PassState:
    """What passes leave behind, shared by all twins of the same rows."""

    def __init__(self) -> None:
        self.passes = 0
        self.summary: RowSummary | None = None
        self.digests: PartDigests | None = None
        self.sources: dict[Hashable, Source] = {}

    def run(self, rows: Rows, task: PassTask) -> list[Any]:
        """Make one pass."""
        self.passes += 1
        if rows.in_memory:
            return self._run_in_memory(rows, task)
        read = 0

        def done(count: int) -> None:
            nonlocal read
            read += count
            if rows.progress is not None:
                rows.progress(read, rows.n)

        digests, summary, *results = rows.engine.reduce(task, rows.parts, rows.starts, done)
        self._compare(rows, digests)
        if task.check:
            self._admit(rows, task.who, summary)
        return list(results)

    @staticmethod
    def _run_in_memory(rows: Rows, task: PassTask) -> list[Any]:
        """The same over blocks that are held: they were checked, and nothing can change between passes."""
        keep = rows.keeps_probs and rows.n * rows.k <= KEPT_ENTRIES

        def work(block: Block) -> Totals:
            seen = block if keep or block.shares_scores else replace(block)
            totals = Totals(step(seen, *args) for step, args in task.steps)
            if seen.shares_scores:  # nothing was copied
                vars(block).update(_probs_and_largest=seen._probs_and_largest)
            return totals

        threads, blocks = rows.engine.threads if isinstance(rows.engine, Threads) else None, rows.blocks()
        total: Totals | None = None
        for here in ordered_map(
            work, blocks, min(threads or cores(), max(1, len(blocks) // BLOCKS_PER_THREAD))
        ):
            total = here if total is None else total + here
        return list(total or ())

    def _compare(self, rows: Rows, digests: PartDigests) -> None:
        if self.digests is None:
            self.digests = digests
            return
        for part, start in zip(rows.parts, rows.starts, strict=True):
            if digests.get(start) != self.digests.get(start):
                raise FileError(
                    f"{part.name}: changed between two passes; start again when nothing writes to it"
                )

    def _admit(self, rows: Rows, who: str, summary: RowSummary) -> None:
        if summary.like_probabilities and rows.k > 1:
            raise InputError(validation.LIKE_PROBABILITIES.format(what=f"{who} logits"))
        if not summary.mass > 0.0:
            raise InputError(
                f"{who} weights: they sum to zero; wanted at least one row with a positive weight"
            )
        self.summary = summary
