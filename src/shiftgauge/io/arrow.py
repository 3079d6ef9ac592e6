"""Arrow files in either of their two forms, the file form (Feather) and the stream form.

They are read, not mapped: a file that is cut short meanwhile is an error and no signal. Every record batch is validated
in full, because a damaged one would end the process later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shiftgauge.io.batches import TableFile, validated
from shiftgauge.io.files import FileStamp


def open_arrow(stamp: FileStamp) -> TableFile:
    """An Arrow file by its footer; a stream has none, and its rows are counted only as they are read."""
    import pyarrow as pa
    from pyarrow import ipc

    with pa.OSFile(stamp.file) as file:
        try:
            schema = ipc.open_file(file).schema
        except pa.ArrowInvalid:
            file.seek(0)
            schema = ipc.open_stream(file).schema
            return TableFile(stamp, tuple(schema.names), read_stream, schema)
        # The footer holds no numbers of rows: the first column alone tells them.
        reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=[0]))
        groups = tuple(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
    return TableFile(stamp, tuple(schema.names), read_file, schema, groups)


def read_file(
    stamp: FileStamp, numbers: Sequence[str], texts: Sequence[str], groups: range | None, batch_rows: int
) -> Iterator[Any]:
    """Record batches of the file form; no other column is decoded."""
    import pyarrow as pa
    from pyarrow import ipc

    names = [*numbers, *texts]
    with pa.OSFile(stamp.file) as file:
        schema = ipc.open_file(file).schema
        fields = [schema.get_field_index(name) for name in names]
        reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=fields))
        for number in range(reader.num_record_batches) if groups is None else groups:
            (whole,) = validated([reader.get_batch(number)])
            for begin in range(0, whole.num_rows, batch_rows):
                yield whole.slice(begin, batch_rows)


def read_stream(
    stamp: FileStamp, numbers: Sequence[str], texts: Sequence[str], groups: range | None, batch_rows: int
) -> Iterator[Any]:
    """Record batches of the stream form, from its start."""
    import pyarrow as pa
    from pyarrow import ipc

    with pa.OSFile(stamp.file) as file:
        for batch in validated(ipc.open_stream(file)):
            yield batch.select([*numbers, *texts])
        if file.tell() < file.size():
            raise ValueError("more bytes follow the end of its stream")
