"""Spark as an engine: a part is a partition of a DataFrame, and a task is applied to it by `mapInArrow`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from shiftgauge.engines.partitions import HEAD_ROWS, Partition
from shiftgauge.engines.serialization import deserialize, run_task, serialize
from shiftgauge.errors import InputError, optional
from shiftgauge.io import Layout, ReadOptions, StreamPart, TablePart, table_layout
from shiftgauge.rows import Block, Part, Task, sum_in_order

WHERE = "the Spark frame"


class Spark:
    """The engine of a Spark DataFrame: a task is applied to each partition where Spark makes it.

    Args:
        frame: the Spark DataFrame.
        layout: what its columns hold.
    """

    keeps_order = False

    def __init__(self, frame: Any, layout: Layout) -> None:
        self.frame, self.layout = frame, layout

    def reduce(
        self, task: Task, parts: Sequence[Part], starts: Sequence[int], done: Callable[[int], None]
    ) -> Any:
        """Return the sum of the task's results in the order of the partitions."""
        layout, serialized = self.layout, serialize(task)
        known = {
            part.number: (part.name, part.rows, start)
            for part, start in zip(parts, starts, strict=True)
            if isinstance(part, SparkPartition)
        }

        def run(number: int, batches: Iterator[Any]) -> bytes | None:
            if number not in known:
                return b"" if any(batch.num_rows for batch in batches) else None
            name, rows, start = known[number]
            return run_task(serialized, StreamPart(layout, name, rows, lambda columns: batches), start)

        results = _by_partition(self.frame, layout.columns_to_read(getattr(task, "columns", ())), run)
        if set(results) != set(known):
            raise InputError(
                f"{WHERE}: was cut into other partitions than before; wanted the same rows in every pass; "
                "persist() it first"
            )
        return sum_in_order((deserialize(results[number]) for number in sorted(results)), parts, done)


def _by_partition(
    frame: Any, columns: Sequence[str], compute: Callable[[int, Iterator[Any]], bytes | None]
) -> dict[int, bytes]:
    """What `compute` returns for each partition's record batches, by its number."""

    def each(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        number = _pyspark("pyspark").TaskContext.get().partitionId()
        result = compute(number, batches)
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


def _pyspark(module: str) -> Any:
    return optional(module, extra="spark", purpose="scan: Spark")


def _cause(problem: Exception) -> str:
    """The line that says what happened: that of the worker's Python, if there is one, else the first."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    said = next((line for line in lines if re.match(r"\w+(Error|Exception): ", line)), None)
    text = said or (lines[0] if lines else type(problem).__name__)
    hint = "; the workers' Python is PYSPARK_PYTHON" if text.startswith("ModuleNotFoundError") else ""
    return text[:200].rstrip(".") + hint


class SparkPartition(Partition):
    """A partition of a Spark DataFrame."""

    def read(self, columns: Sequence[str] = ()) -> Iterator[Block]:
        """Yield its first rows; the others stay where they are."""
        import pyarrow as pa

        number, wanted = self.number, self.layout.columns_to_read(columns)

        def head(here: int, batches: Iterator[Any]) -> bytes | None:
            if here != number:
                return None
            first = next((batch.slice(0, HEAD_ROWS) for batch in batches if batch.num_rows), None)
            if first is None:
                return None
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, first.schema) as stream:
                stream.write_batch(first)
            return bytes(sink.getvalue())

        for stored in _by_partition(self.frame, wanted, head).values():
            table = pa.ipc.open_stream(stored).read_all()
            yield from TablePart(self.layout, self.name, table, 0).read(columns)


def frame_parts(
    frame: Any, options: ReadOptions, second: str | None, zone: str | None
) -> tuple[Layout, list[Part], Spark]:
    """The layout, the partitions, counted once, and the engine of a Spark DataFrame."""
    schema = _pyspark("pyspark.sql.pandas.types").to_arrow_schema(frame.schema)
    layout = table_layout(tuple(schema.names), [schema], options, WHERE, second, zone)

    def count(number: int, batches: Iterator[Any]) -> bytes | None:
        rows = sum(batch.num_rows for batch in batches)
        return str(rows).encode() if rows else None

    counts = _by_partition(frame, layout.columns_to_read(), count)
    parts: list[Part] = [SparkPartition(layout, frame, i, int(counts[i])) for i in sorted(counts)]
    return layout, parts, Spark(frame, layout)
