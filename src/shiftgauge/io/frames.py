"""Frames, queries and data sets in this process, through the Arrow interface."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from shiftgauge.errors import FileError, InputError
from shiftgauge.io.batches import name_errors, number_rows, read_error, rebatch
from shiftgauge.io.layout import Layout, check_no_new_classes, table_layout
from shiftgauge.io.options import ReadOptions
from shiftgauge.io.parts import join_parts, rows_per_part
from shiftgauge.io.tables import check_same_columns
from shiftgauge.io.values import check_column
from shiftgauge.rows import Block, Part

WHERE = "the frame"
#: Takes column names (None for all); yields record batches or Arrow streams, from the first row on each call.
Stream = Callable[["Sequence[str] | None"], Iterable[Any]]


def as_table(frame: Any) -> Any:
    """The frame as a pyarrow table, without a copy if it is in Arrow memory."""
    import pyarrow as pa

    try:
        if isinstance(frame, pa.Table):
            return frame
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(frame).read_all()
        if hasattr(frame, "with_format"):  # a Hugging Face data set
            return frame.with_format("arrow")[:]
        return pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as problem:
        text = str(problem).strip().splitlines()[0][:160].rstrip(".")
        raise InputError(
            f"{WHERE}: a {type(frame).__name__} cannot be read through the Arrow interface ({text}); "
            "wanted a pandas, polars or pyarrow frame, or a DuckDB relation"
        ) from None


def frame_parts(
    data: Any, options: ReadOptions, second: str | None, zone: str | None
) -> tuple[Layout, list[Part]]:
    """The layout and the parts of a frame, a lazy query, a data set, or a function that returns record batches."""
    package = type(data).__module__.split(".")[0]
    if package == "pyarrow" and hasattr(data, "get_fragments"):
        return _dataset_parts(data, options, second, zone)
    if isinstance(data, Iterator) or type(data).__name__ in ("RecordBatchReader", "Scanner"):
        raise InputError(
            f"scan: a {type(data).__name__} can be read only once, and a scan reads several times; "
            "pass a function that returns a fresh one"
        )
    if hasattr(data, "collect_batches"):
        return _stream_parts(partial(_run_polars, data), options, second, zone, "the LazyFrame")
    if package in ("duckdb", "_duckdb"):
        return _stream_parts(partial(_run_duckdb, data), options, second, zone, "the relation")
    if callable(data):
        where = f"{getattr(data, '__name__', type(data).__name__)}()"
        if data() is data():
            raise InputError(f"{where}: returned the same iterator twice; wanted a fresh one each time")
        return _stream_parts(lambda columns: _iterable(data(), where), options, second, zone, where)
    table = as_table(data)
    layout = table_layout(tuple(table.column_names), [table.schema], options, WHERE, second, zone)
    part_rows = rows_per_part(table.num_rows, layout.k)
    return layout, [
        TablePart(layout, WHERE, table.slice(first, part_rows), first)
        for first in range(0, table.num_rows, part_rows)
    ]


def _run_polars(frame: Any, columns: Sequence[str] | None) -> Any:
    """A polars LazyFrame, run by its streaming engine."""
    chosen = frame if columns is None else frame.select(list(columns))
    return chosen.collect_batches(maintain_order=True)


def _run_duckdb(relation: Any, columns: Sequence[str] | None) -> Any:
    names = "*" if columns is None else ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    return [relation.project(names)]


def _iterable(stream: Any, where: str) -> Any:
    if hasattr(stream, "__iter__"):
        return stream
    if hasattr(stream, "__arrow_c_stream__"):
        return [stream]
    raise InputError(
        f"{where}: returned a {type(stream).__name__}; wanted an iterator of Arrow record batches"
    )


@dataclass(frozen=True)
class TablePart:
    """Some rows of an Arrow table in memory; `first` is the number of the first row."""

    layout: Layout
    name: str
    table: Any
    first: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    def read(self, columns: Sequence[str] = ()) -> Iterator[Block]:
        """Yield its rows, block by block."""
        chosen = self.table.select(self.layout.columns_to_read(columns))
        return self.layout.blocks(
            number_rows(chosen.to_batches(self.layout.batch_rows), self.name, self.first), columns
        )


@dataclass(frozen=True)
class StreamPart:
    """Rows that arrive as record batches: of a query, a function, or a partition of an engine.

    Attributes:
        layout: the layout of the rows.
        name: the name in messages.
        rows: the number of rows.
        stream: yields batches of the requested columns, from the first row on each call.
    """

    layout: Layout
    name: str
    rows: int
    stream: Stream

    def read(self, columns: Sequence[str] = ()) -> Iterator[Block]:
        """Yield its rows, block by block, whatever the size of the batches."""
        wanted = self.layout.columns_to_read(columns)
        batches = (
            _selected(batch, wanted, self.name) for batch in record_batches(self.stream(wanted), self.name)
        )
        even = name_errors(rebatch(batches, self.layout.batch_rows), self.name, "record batches")
        return self.layout.blocks(number_rows(even, self.name), columns)


def _selected(batch: Any, wanted: list[str], where: str) -> Any:
    """The requested columns of a batch, which may have others, in another order."""
    names = batch.schema.names
    if names == wanted:
        return batch
    for name in wanted:
        check_column(name, names, where)
    return batch.select(wanted)


def record_batches(stream: Iterable[Any], where: str) -> Iterator[Any]:
    """The record batches of a stream, which may yield Arrow streams too; anything else is refused."""
    import pyarrow as pa

    for item in stream:
        if isinstance(item, pa.RecordBatch):
            yield item
        elif hasattr(item, "__arrow_c_stream__"):
            yield from pa.RecordBatchReader.from_stream(item)
        else:
            raise FileError(f"{where}: gave a {type(item).__name__}; wanted Arrow record batches")


def _stream_parts(
    stream: Stream, options: ReadOptions, second: str | None, zone: str | None, where: str
) -> tuple[Layout, list[Part]]:
    """Layout and parts of a stream that can be restarted: columns from its first batch, rows counted in one pass."""

    def batches(columns: Sequence[str] | None) -> Iterator[Any]:
        return name_errors(record_batches(stream(columns), where), where, "record batches")

    first = next(batches(None), None)
    if first is None:
        raise InputError(f"{where}: gave no record batches; wanted at least one")
    layout = table_layout(tuple(first.schema.names), [first.schema], options, where, second, zone)
    rows = sum(batch.num_rows for batch in batches(layout.scores[:1]))
    return layout, [StreamPart(layout, where, rows, stream)]


def _dataset_parts(
    dataset: Any, options: ReadOptions, second: str | None, zone: str | None
) -> tuple[Layout, list[Part]]:
    """A pyarrow data set on any file system: its Parquet files by row groups, other files as one part each."""
    where = "the data set"
    layout = table_layout(tuple(dataset.schema.names), [dataset.schema], options, where, second, zone)
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # a filtered one has no fragments
        return layout, [StreamPart(layout, where, int(dataset.count_rows()), partial(_run_dataset, dataset))]
    names = [str(getattr(fragment, "path", where)) for fragment in fragments]
    try:
        columns = [tuple(fragment.physical_schema.names) for fragment in fragments]
    except Exception as problem:  # the data set may be on any file system
        raise read_error(where, "Arrow", problem) from None
    if columns:  # columns that come from folder names are in no file
        needed = [
            tuple(n for n in here if n in layout.scores or n not in dataset.schema.names) for here in columns
        ]
        check_no_new_classes(check_same_columns(names, needed)[1], options)
    units = [unit for pair in zip(names, fragments, strict=True) for unit in _row_groups(*pair)]
    part_rows = rows_per_part(sum(rows for *_, rows in units), layout.k)
    return layout, join_parts((FragmentPart(layout, *unit, dataset.schema) for unit in units), part_rows)


def _run_dataset(dataset: Any, columns: Sequence[str] | None) -> Any:
    return dataset.to_batches(columns=columns, batch_readahead=2, fragment_readahead=1)


def _row_groups(name: str, fragment: Any) -> Iterator[tuple[str, Any, int, int]]:
    """The row groups of a fragment: its name, the group, the number of its first row in the file, and of its rows."""
    try:
        if not hasattr(fragment, "row_groups"):
            yield name, fragment, 0, int(fragment.count_rows())
            return
        first = 0
        for group in fragment.row_groups:
            yield name, fragment.subset(row_group_ids=[group.id]), first, group.num_rows
            first += group.num_rows
    except Exception as problem:
        raise read_error(name, "Arrow", problem) from None


@dataclass(frozen=True)
class FragmentPart:
    """Some row groups of a pyarrow data set."""

    layout: Layout
    name: str
    fragment: Any
    first: int
    rows: int
    schema: Any

    def read(self, columns: Sequence[str] = ()) -> Iterator[Block]:
        """Yield its rows, block by block."""
        batches = number_rows(self._batches(self.layout.columns_to_read(columns)), self.name, self.first)
        return self.layout.blocks(name_errors(batches, self.name, "Arrow"), columns)

    def _batches(self, columns: list[str]) -> Iterator[Any]:
        yield from self.fragment.to_batches(
            schema=self.schema,
            columns=columns,
            batch_size=self.layout.batch_rows,
            batch_readahead=2,
            fragment_readahead=1,
            use_threads=False,
        )
