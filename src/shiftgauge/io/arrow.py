"""Arrow files in either of their two forms, the file form (Feather) and the stream form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shiftgauge.io.blocks import Block, Tabular, guarded, numbered, unreadable, validated


def open_arrow(path: Path) -> Tabular:
    """The table of an Arrow file; its rows are counted only as they are read."""
    try:
        with _Batches(path) as batches:
            names = tuple(batches.schema.names)
    except Exception as problem:
        raise unreadable(path, path.suffix, problem) from None

    def read(numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Block]:
        return guarded(_blocks(path, [*numbers, *texts]), str(path), path.suffix)

    return Tabular(str(path), names, None, read)


def _blocks(path: Path, columns: Sequence[str]) -> Iterator[Block]:
    with _Batches(path) as batches:
        yield from numbered((batch.select(list(columns)) for batch in batches), str(path))


class _Batches:
    """The record batches of a file, each validated in full: a damaged one would end the process later.

    The file is read, not mapped: one that is cut short meanwhile is an error and no signal.
    """

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        from pyarrow import ipc

        self._file = pa.OSFile(str(path))
        try:
            self._reader: Any = ipc.open_file(self._file)
        except pa.ArrowInvalid:
            self._file.seek(0)
            self._reader = ipc.open_stream(self._file)
        self.schema = self._reader.schema

    def __enter__(self) -> _Batches:
        return self

    def __exit__(self, *problem: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Any]:
        stored = getattr(self._reader, "num_record_batches", None)
        return validated(self._stream() if stored is None else map(self._reader.get_batch, range(stored)))

    def _stream(self) -> Iterator[Any]:
        yield from self._reader
        if self._file.tell() < self._file.size():
            raise ValueError("more bytes follow the end of its stream")
