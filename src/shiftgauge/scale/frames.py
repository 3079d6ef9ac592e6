"""Frames and queries of this process: Arrow tables and data sets, polars, DuckDB, functions that give batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shiftgauge.errors import InputError
from shiftgauge.io.blocks import guarded, numbered, unreadable
from shiftgauge.io.form import Form
from shiftgauge.io.parquet import same_columns
from shiftgauge.io.tables import refuse_more_classes
from shiftgauge.scale.batches import BatchPart, Fresh, as_batches, failed, only_once
from shiftgauge.scale.files import joined, rows_a_part
from shiftgauge.scale.layout import Layout, table_layout
from shiftgauge.scans import Chunk, Part

Made = tuple[Layout, list[Part]]


def table_parts(table: Any, form: Form, second: str | None, zone: str | None, where: str) -> Made:
    """An Arrow table in memory, in slices."""
    layout = table_layout([table.schema], form, where, second, zone)
    share = rows_a_part(table.num_rows, layout.k)
    return layout, [
        SlicePart(layout, where, table.slice(first, share), first)
        for first in range(0, table.num_rows, share)
    ]


@dataclass(frozen=True)
class SlicePart:
    """Some rows of a table in memory."""

    layout: Layout
    name: str
    table: Any
    first: int

    @property
    def rows(self) -> int:
        """How many."""
        return int(self.table.num_rows)

    def read(self, columns: Sequence[str] = ()) -> Iterator[Chunk]:
        """Its rows, chunk by chunk."""
        batches = self.table.select(self.layout.reads(columns)).to_batches(self.layout.batch_rows)
        return self.layout.chunks(numbered(batches, self.name, self.first), columns)


def query_parts(
    fresh: Fresh, schema: Any, rows: int, form: Form, second: str | None, zone: str | None, where: str
) -> Made:
    """A query whose rows come in one go: one part."""
    layout = table_layout([schema], form, where, second, zone)
    return layout, [BatchPart(layout, where, rows, fresh)]


def polars_parts(frame: Any, form: Form, second: str | None, zone: str | None) -> Made:
    """A polars LazyFrame, run by its streaming engine in every pass."""
    import polars

    where = "the LazyFrame"
    if not hasattr(frame, "collect_batches"):
        raise InputError(
            f"{where}: polars {polars.__version__} cannot give batches; wanted 1.34 or newer, or frame.collect()"
        )

    def fresh(columns: Sequence[str]) -> Iterator[Any]:
        for piece in frame.select(list(columns)).collect_batches(maintain_order=True):
            yield from piece.to_arrow().to_batches()

    try:
        rows = int(frame.select(polars.len()).collect(engine="streaming").item())
        schema = frame.head(0).collect().to_arrow().schema
    except Exception as problem:
        raise failed(where, problem) from None
    return query_parts(fresh, schema, rows, form, second, zone, where)


def duckdb_parts(relation: Any, form: Form, second: str | None, zone: str | None) -> Made:
    """A DuckDB relation, run in every pass."""
    import duckdb

    where = "the relation"

    def reader(chosen: Any) -> Any:
        give = getattr(chosen, "to_arrow_reader", None) or chosen.fetch_record_batch
        return give(1 << 16)

    def fresh(columns: Sequence[str]) -> Any:
        return reader(relation.select(*(duckdb.ColumnExpression(name) for name in columns)))

    try:
        rows = int(relation.aggregate("count(*)").fetchall()[0][0])
        schema = reader(relation.limit(0)).schema
    except Exception as problem:
        raise failed(where, problem) from None
    return query_parts(fresh, schema, rows, form, second, zone, where)


def function_parts(function: Callable[[], Any], form: Form, second: str | None, zone: str | None) -> Made:
    """A function that returns a fresh iterator of record batches each time; its rows are counted in a first pass."""
    where = f"{getattr(function, '__name__', type(function).__name__)}()"
    one, other = function(), function()
    if one is other:
        raise InputError(f"{where}: returned the same iterator twice; wanted a fresh one each time")
    schema, rows = None, 0
    for batch in guarded(as_batches(_iterable(one, where), where), where, "record batches"):
        schema = batch.schema if schema is None else schema
        rows += batch.num_rows
    if schema is None:
        raise InputError(f"{where}: gave no record batches; wanted at least one")

    def fresh(columns: Sequence[str]) -> Iterator[Any]:
        return as_batches(_iterable(function(), where), where)

    return query_parts(fresh, schema, rows, form, second, zone, where)


def _iterable(found: Any, where: str) -> Any:
    if hasattr(found, "__iter__"):
        return found
    if hasattr(found, "__arrow_c_stream__"):
        return [found]
    raise InputError(
        f"{where}: returned a {type(found).__name__}; wanted an iterator of Arrow record batches"
    )


def dataset_parts(dataset: Any, form: Form, second: str | None, zone: str | None) -> Made:
    """A pyarrow data set, on whatever file system it is: row groups of its Parquet files, its other files whole."""
    where = "the data set"
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # one that is filtered gives no fragments
        layout = table_layout([dataset.schema], form, where, second, zone)

        def fresh(columns: Sequence[str]) -> Iterator[Any]:
            return iter(dataset.to_batches(columns=list(columns), batch_readahead=2, fragment_readahead=1))

        return layout, [BatchPart(layout, where, int(dataset.count_rows()), fresh)]
    names = [str(getattr(fragment, "path", where)) for fragment in fragments]
    try:
        held = [tuple(fragment.physical_schema.names) for fragment in fragments]
    except Exception as problem:
        raise unreadable(where, "Arrow", problem) from None
    layout = table_layout([dataset.schema], form, where, second, zone)
    if held:  # columns of the folders' names stand in no file
        needed = [
            tuple(n for n in here if n in layout.scores or n not in dataset.schema.names) for here in held
        ]
        refuse_more_classes(same_columns(names, needed)[1], form)
    units = [unit for pair in zip(names, fragments, strict=True) for unit in _units(*pair)]
    share = rows_a_part(sum(rows for *_, rows in units), layout.k)
    parts: list[Part] = [FragmentPart(layout, *unit, dataset.schema) for unit in units]
    return layout, joined(parts, share)


def _units(name: str, fragment: Any) -> Iterator[tuple[str, Any, int, int]]:
    """The pieces of a fragment: its name, itself, the number of its first row in the file, and its rows."""
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
    """A piece of a pyarrow data set, which knows its own file system."""

    layout: Layout
    name: str
    fragment: Any
    first: int
    rows: int
    schema: Any

    def read(self, columns: Sequence[str] = ()) -> Iterator[Chunk]:
        """Its rows, chunk by chunk."""
        blocks = numbered(self._batches(self.layout.reads(columns)), self.name, self.first)
        return self.layout.chunks(guarded(blocks, self.name, "Arrow"), columns)

    def _batches(self, wanted: list[str]) -> Iterator[Any]:
        yield from self.fragment.to_batches(
            schema=self.schema,
            columns=wanted,
            batch_size=self.layout.batch_rows,
            batch_readahead=2,
            fragment_readahead=1,
            use_threads=False,
        )


__all__ = ["dataset_parts", "duckdb_parts", "function_parts", "only_once", "polars_parts", "table_parts"]
