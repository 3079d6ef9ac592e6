"""Spark as an engine: a part is a partition of a DataFrame, and a task is done to it by `mapInArrow`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from shiftgauge.errors import InputError
from shiftgauge.io.form import Form
from shiftgauge.scale.layout import Layout, table_layout
from shiftgauge.scale.travel import HEAD, Handed, Partition, carried, landed, packed
from shiftgauge.scans import Chunk, Part, Task, summed

WHERE = "the Spark frame"
OTHERWISE = "wanted the same rows in every pass; persist() it first"


class Spark:
    """The partitions of a Spark DataFrame, each worked on where Spark makes it.

    Args:
        frame: the Spark DataFrame.
        layout: what its columns hold.
    """

    def __init__(self, frame: Any, layout: Layout) -> None:
        self.frame, self.layout = frame, layout

    def reduce(
        self, task: Task, parts: Sequence[Part], starts: Sequence[int], done: Callable[[int], None]
    ) -> Any:
        """The sum of the task's results in the order of the partitions."""
        layout, job = self.layout, packed(task)
        known = {
            part.number: (part.name, part.rows, start)
            for part, start in zip(parts, starts, strict=True)
            if isinstance(part, SparkPartition)
        }

        def do(number: int, batches: Iterator[Any]) -> bytes | None:
            if number not in known:
                return b"" if any(batch.num_rows for batch in batches) else None
            name, rows, start = known[number]
            return carried(job, Handed(layout, name, rows, batches), start)

        found = _by_partition(self.frame, layout.reads(getattr(task, "columns", ())), do)
        if set(found) != set(known):
            raise InputError(f"{WHERE}: was cut into other partitions than before; {OTHERWISE}")
        return summed((landed(found[number]) for number in sorted(found)), parts, done)


def _by_partition(
    frame: Any, columns: Sequence[str], do: Callable[[int, Iterator[Any]], bytes | None]
) -> dict[int, bytes]:
    """What `do` makes of each partition's record batches, by its number."""

    def each(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        number = TaskContext.get().partitionId()
        result = do(number, batches)
        if result is not None:
            yield pa.RecordBatch.from_arrays(
                [pa.array([number], pa.int32()), pa.array([result], pa.binary())], ["part", "result"]
            )

    try:
        quoted = [f"`{name.replace('`', '``')}`" for name in columns]
        rows = frame.select(*quoted).mapInArrow(each, "part int, result binary").collect()
    except Exception as problem:  # whatever Java says, in one line
        raise InputError(f"{WHERE}: Spark could not read it ({_cause(problem)})") from None
    return {int(row["part"]): bytes(row["result"]) for row in rows}


def _cause(problem: Exception) -> str:
    """The line that says what happened: that of the worker's Python, if there is one, else the first."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    said = next((line for line in lines if re.match(r"\w+(Error|Exception): ", line)), None)
    text = said or (lines[0] if lines else type(problem).__name__)
    hint = "; the workers' Python is PYSPARK_PYTHON" if text.startswith("ModuleNotFoundError") else ""
    return text[:200].rstrip(".") + hint


class SparkPartition(Partition):
    """A partition of a Spark DataFrame."""

    def read(self, columns: Sequence[str] = ()) -> Iterator[Chunk]:
        """Its first rows, to know it by; the others stay where they are."""
        number, wanted = self.number, self.layout.reads(columns)

        def head(here: int, batches: Iterator[Any]) -> bytes | None:
            if here != number:
                return None
            import pyarrow as pa

            first = next((batch.slice(0, HEAD) for batch in batches if batch.num_rows), None)
            if first is None:
                return None
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, first.schema) as stream:
                stream.write_batch(first)
            return bytes(sink.getvalue())

        import pyarrow as pa

        for stored in _by_partition(self.frame, wanted, head).values():
            batches = list(pa.ipc.open_stream(stored))
            rows = sum(batch.num_rows for batch in batches)
            yield from Handed(self.layout, self.name, rows, batches).read(columns)


def frame_parts(
    frame: Any, form: Form, second: str | None, zone: str | None
) -> tuple[Layout, list[Part], Spark]:
    """The layout, the partitions, counted once, and the engine of a Spark DataFrame."""
    from pyspark.sql.pandas.types import to_arrow_schema

    layout = table_layout([to_arrow_schema(frame.schema)], form, WHERE, second, zone)

    def count(number: int, batches: Iterator[Any]) -> bytes | None:
        rows = sum(batch.num_rows for batch in batches)
        return str(rows).encode() if rows else None

    counts = _by_partition(frame, layout.reads(), count)
    parts: list[Part] = [SparkPartition(layout, frame, i, int(counts[i])) for i in sorted(counts)]
    return layout, parts, Spark(frame, layout)
