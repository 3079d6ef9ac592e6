"""Frames, queries and data sets of this process, through the Arrow interface."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from shiftgauge.errors import FileError, InputError
from shiftgauge.io.batches import guarded, located, resized, unreadable
from shiftgauge.io.form import Form
from shiftgauge.io.layout import Layout, refuse_more_classes, table_layout
from shiftgauge.io.parts import join_parts, rows_per_part
from shiftgauge.io.tables import same_columns
from shiftgauge.io.values import known
from shiftgauge.rows import Block, Part

WHERE = "the frame"
#: Yields record batches, or anything that hands them out, from the first row on each time; None for all columns.
Stream = Callable[["Sequence[str] | None"], Iterable[Any]]


def as_table(frame: Any) -> Any:
    """The frame as a pyarrow table, without copying if its memory is Arrow already."""
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


def frame_parts(data: Any, form: Form, second: str | None, zone: str | None) -> tuple[Layout, list[Part]]:
    """The layout and the parts of a frame, a lazy query, a data set, or a function that returns record batches."""
    package = type(data).__module__.split(".")[0]
    if package == "pyarrow" and hasattr(data, "get_fragments"):
        return _dataset_parts(data, form, second, zone)
    if isinstance(data, Iterator) or type(data).__name__ in ("RecordBatchReader", "Scanner"):
        raise InputError(
            f"scan: a {type(data).__name__} can be read only once, and a scan reads several times; "
            "pass a function that returns a fresh one"
        )
    if hasattr(data, "collect_batches"):
        return _stream_parts(partial(_run_polars, data), form, second, zone, "the LazyFrame")
    if package in ("duckdb", "_duckdb"):
        return _stream_parts(partial(_run_duckdb, data), form, second, zone, "the relation")
    if callable(data):
        where = f"{getattr(data, '__name__', type(data).__name__)}()"
        if data() is data():
            raise InputError(f"{where}: returned the same iterator twice; wanted a fresh one each time")
        return _stream_parts(lambda columns: _iterable(data(), where), form, second, zone, where)
    table = as_table(data)
    layout = table_layout(tuple(table.column_names), [table.schema], form, WHERE, second, zone)
    share = rows_per_part(table.num_rows, layout.k)
    return layout, [
        TablePart(layout, WHERE, table.slice(first, share), first)
        for first in range(0, table.num_rows, share)
    ]


def _run_polars(frame: Any, columns: Sequence[str] | None) -> Any:
    """A polars LazyFrame, run by its streaming engine."""
    chosen = frame if columns is None else frame.select(list(columns))
    return chosen.collect_batches(maintain_order=True)


def _run_duckdb(relation: Any, columns: Sequence[str] | None) -> Any:
    names = "*" if columns is None else ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    return [relation.project(names)]


def _iterable(found: Any, where: str) -> Any:
    if hasattr(found, "__iter__"):
        return found
    if hasattr(found, "__arrow_c_stream__"):
        return [found]
    raise InputError(
        f"{where}: returned a {type(found).__name__}; wanted an iterator of Arrow record batches"
    )


@dataclass(frozen=True)
class TablePart:
    """Some rows of an Arrow table in memory; `first` is the number of the first of them."""

    layout: Layout
    name: str
    table: Any
    first: int

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return int(self.table.num_rows)

    def read(self, columns: Sequence[str] = ()) -> Iterator[Block]:
        """Yield its rows, block by block."""
        chosen = self.table.select(self.layout.columns_to_read(columns))
        return self.layout.blocks(
            located(chosen.to_batches(self.layout.batch_rows), self.name, self.first), columns
        )


@dataclass(frozen=True)
class StreamPart:
    """Rows that arrive as record batches: those of a query or a function, or a partition that an engine made.

    Attributes:
        layout: what their columns hold.
        name: for messages; rows are counted from its start.
        rows: how many.
        stream: yields the batches of the columns asked for, each time from the start.
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
        even = guarded(resized(batches, self.layout.batch_rows), self.name, "record batches")
        return self.layout.blocks(located(even, self.name), columns)


def _selected(batch: Any, wanted: list[str], where: str) -> Any:
    """The columns asked for, by name: they may be in another order, or among others."""
    names = batch.schema.names
    if names == wanted:
        return batch
    for name in wanted:
        known(name, names, where)
    return batch.select(wanted)


def record_batches(stream: Iterable[Any], where: str) -> Iterator[Any]:
    """The record batches of whatever a stream yields; anything else is refused."""
    import pyarrow as pa

    for item in stream:
        if isinstance(item, pa.RecordBatch):
            yield item
        elif hasattr(item, "__arrow_c_stream__"):
            yield from pa.RecordBatchReader.from_stream(item)
        else:
            raise FileError(f"{where}: gave a {type(item).__name__}; wanted Arrow record batches")


def _stream_parts(
    stream: Stream, form: Form, second: str | None, zone: str | None, where: str
) -> tuple[Layout, list[Part]]:
    """A stream that can be started anew; its first batch tells the columns, and one pass counts the rows."""

    def batches(columns: Sequence[str] | None) -> Iterator[Any]:
        return guarded(record_batches(stream(columns), where), where, "record batches")

    first = next(batches(None), None)
    if first is None:
        raise InputError(f"{where}: gave no record batches; wanted at least one")
    layout = table_layout(tuple(first.schema.names), [first.schema], form, where, second, zone)
    rows = sum(batch.num_rows for batch in batches(layout.scores[:1]))
    return layout, [StreamPart(layout, where, rows, stream)]


def _dataset_parts(
    dataset: Any, form: Form, second: str | None, zone: str | None
) -> tuple[Layout, list[Part]]:
    """A pyarrow data set, on whatever file system it is: row groups of its Parquet files, its other files whole."""
    where = "the data set"
    layout = table_layout(tuple(dataset.schema.names), [dataset.schema], form, where, second, zone)
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # a filtered one has no fragments
        return layout, [StreamPart(layout, where, int(dataset.count_rows()), partial(_run_dataset, dataset))]
    names = [str(getattr(fragment, "path", where)) for fragment in fragments]
    try:
        held = [tuple(fragment.physical_schema.names) for fragment in fragments]
    except Exception as problem:  # the data set may be on any file system
        raise unreadable(where, "Arrow", problem) from None
    if held:  # columns of the folders' names are in no file
        needed = [
            tuple(n for n in here if n in layout.scores or n not in dataset.schema.names) for here in held
        ]
        refuse_more_classes(same_columns(names, needed)[1], form)
    units = [unit for pair in zip(names, fragments, strict=True) for unit in _row_groups(*pair)]
    share = rows_per_part(sum(rows for *_, rows in units), layout.k)
    return layout, join_parts((FragmentPart(layout, *unit, dataset.schema) for unit in units), share)


def _run_dataset(dataset: Any, columns: Sequence[str] | None) -> Any:
    return dataset.to_batches(columns=columns, batch_readahead=2, fragment_readahead=1)


def _row_groups(name: str, fragment: Any) -> Iterator[tuple[str, Any, int, int]]:
    """The row groups of a fragment: its name, each group, the number of its first row in the file, and its rows."""
    try:
        if not hasattr(fragment, "row_groups"):
            yield name, fragment, 0, int(fragment.count_rows())
            return
        first = 0
        for group in fragment.row_groups:
            yield name, fragment.subset(row_group_ids=[group.id]), first, group.num_rows
            first += group.num_rows
    except Exception as problem:
        raise unreadable(name, "Arrow", problem) from None


@dataclass(frozen=True)
class FragmentPart:
    """Some row groups of a pyarrow data set, which knows its own file system."""

    layout: Layout
    name: str
    fragment: Any
    first: int
    rows: int
    schema: Any

    def read(self, columns: Sequence[str] = ()) -> Iterator[Block]:
        """Yield its rows, block by block."""
        batches = located(self._batches(self.layout.columns_to_read(columns)), self.name, self.first)
        return self.layout.blocks(guarded(batches, self.name, "Arrow"), columns)

    def _batches(self, columns: list[str]) -> Iterator[Any]:
        yield from self.fragment.to_batches(
            schema=self.schema,
            columns=columns,
            batch_size=self.layout.batch_rows,
            batch_readahead=2,
            fragment_readahead=1,
            use_threads=False,
        )
