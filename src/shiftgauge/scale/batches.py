"""Record batches of any origin: cut to one size, so that a pass sees the same chunks each time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shiftgauge.errors import FileError, InputError
from shiftgauge.io.blocks import guarded, numbered
from shiftgauge.io.values import known
from shiftgauge.scale.layout import Layout
from shiftgauge.scans import Chunk

#: Columns in; record batches out, from the first row on each time.
Fresh = Callable[[Sequence[str]], Iterable[Any]]


def recut(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """The same rows in batches of exactly so many, the last one aside.

    Engines hand over batches of whatever size suits them; sums and digests must not depend on that.
    """
    import pyarrow as pa

    held: list[Any] = []
    waiting = 0
    for batch in batches:
        begin = 0
        while batch.num_rows - begin >= rows - waiting:
            piece = batch.slice(begin, rows - waiting)
            yield piece if not held else _joined([*held, piece], pa)
            begin, held, waiting = begin + piece.num_rows, [], 0
        if begin < batch.num_rows:
            held.append(batch.slice(begin))
            waiting += batch.num_rows - begin
    if held:
        yield _joined(held, pa)


def _joined(batches: list[Any], pa: Any) -> Any:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    (whole,) = table.to_batches()
    return whole


@dataclass(frozen=True)
class BatchPart:
    """Rows that come as record batches: those of a function, a query, a frame.

    Attributes:
        layout: what their columns hold.
        name: for messages; rows are counted from its start.
        rows: how many.
        fresh: gives the batches of the columns asked for, each time from the start.
        mark: what tells this data from other data, for checkpoints.
    """

    layout: Layout
    name: str
    rows: int
    fresh: Fresh
    mark: str = ""

    def read(self, columns: Sequence[str] = ()) -> Iterator[Chunk]:
        """Its rows, chunk by chunk."""
        wanted = self.layout.reads(columns)
        batches = (_selected(batch, wanted, self.name) for batch in self.fresh(wanted))
        even = guarded(recut(batches, self.layout.batch_rows), self.name, "record batches")
        return self.layout.chunks(numbered(even, self.name), columns)


def _selected(batch: Any, wanted: Sequence[str], where: str) -> Any:
    """The columns asked for, by name: they may stand in another order, or beside others."""
    names = batch.schema.names
    if names == wanted:
        return batch
    for name in wanted:
        known(name, names, where)
    return batch.select(list(wanted))


def as_batches(found: Any, where: str) -> Iterator[Any]:
    """What a function gave as record batches; refuses anything else."""
    import pyarrow as pa

    for item in found:
        if isinstance(item, pa.Table):
            yield from item.to_batches()
        elif isinstance(item, pa.RecordBatch):
            yield item
        elif hasattr(item, "__arrow_c_stream__"):
            yield from pa.RecordBatchReader.from_stream(item)
        else:
            raise FileError(f"{where}: gave a {type(item).__name__}; wanted Arrow record batches")


def only_once(data: Any) -> InputError:
    """What is said of data that is gone once it was read."""
    return InputError(
        f"scan: a {type(data).__name__} can be read only once, and a scan reads several times; "
        "pass a function that returns a fresh one"
    )


def failed(where: str, problem: BaseException) -> InputError:
    """What an engine said of a query that it could not run, in one line."""
    text = next((line for line in str(problem).splitlines() if line.strip()), type(problem).__name__)
    return InputError(f"{where}: could not be run ({text.strip()[:200].rstrip('.')})")
