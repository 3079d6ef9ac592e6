"""Arrow files in the file format (Feather) and in the stream format.

They are read, not mapped, so that a file that is truncated meanwhile is an error, not a signal. Every record batch is
validated in full, because a damaged one can crash the process later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shiftgauge.io.batches import TableFile, validate_batches
from shiftgauge.io.files import FileVersion


def open_arrow(version: FileVersion) -> TableFile:
    """An Arrow file by its footer; a stream has none, so its number of rows is unknown."""
    import pyarrow as pa
    from pyarrow import ipc

    with pa.OSFile(version.file) as file:
        try:
            schema = ipc.open_file(file).schema
        except pa.ArrowInvalid:
            file.seek(0)
            schema = ipc.open_stream(file).schema
            return TableFile(version, tuple(schema.names), read_stream, schema)
        # The footer has no row counts; reading the first column gives them.
        reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=[0]))
        groups = tuple(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
    return TableFile(version, tuple(schema.names), read_file, schema, groups)


def read_file(
    version: FileVersion, numbers: Sequence[str], texts: Sequence[str], groups: range | None, batch_rows: int
) -> Iterator[Any]:
    """Record batches of a file in the file format; no other column is decoded."""
    import pyarrow as pa
    from pyarrow import ipc

    names = [*numbers, *texts]
    with pa.OSFile(version.file) as file:
        schema = ipc.open_file(file).schema
        fields = [schema.get_field_index(name) for name in names]
        reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=fields))
        for number in range(reader.num_record_batches) if groups is None else groups:
            (batch,) = validate_batches([reader.get_batch(number)])
            for begin in range(0, batch.num_rows, batch_rows):
                yield batch.slice(begin, batch_rows)


def read_stream(version: FileVersion, numbers: Sequence[str], texts: Sequence[str], *_: Any) -> Iterator[Any]:
    """Record batches of a file in the stream format, from its start."""
    import pyarrow as pa
    from pyarrow import ipc

    with pa.OSFile(version.file) as file:
        for batch in validate_batches(ipc.open_stream(file)):
            yield batch.select([*numbers, *texts])
        if file.tell() < file.size():
            raise ValueError("more bytes follow the end of its stream")
