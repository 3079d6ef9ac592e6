"""Whether an Arrow message's buffers are compressed: read from its flatbuffer, before anything is unpacked.

Arrow's Message table has header_type as field 1 and header as field 2; a RecordBatch (type 3) has compression as
field 3, a DictionaryBatch (type 2) its RecordBatch as field 1 (Message.fbs of the Arrow format).
"""

from __future__ import annotations

import struct

DICTIONARY, RECORD = 2, 3


def is_compressed(metadata: bytes) -> bool:
    """True for a record or dictionary batch whose buffers are compressed."""
    try:
        message = _u32(metadata, 0)
        kind_at = _field(metadata, message, 1)
        kind = metadata[kind_at] if kind_at else 0
        table = _table(metadata, message, 2)
        if kind == DICTIONARY and table:
            table, kind = _table(metadata, table, 1), RECORD
        return kind == RECORD and bool(table) and bool(_field(metadata, table, 3))
    except (struct.error, IndexError):
        return True  # a message that cannot be followed is not trusted


def _u32(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Where field `number` of the table at `table` lies; 0 if it is left out."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if vtable < 0:
        raise IndexError("outside")
    size = struct.unpack_from("<H", data, vtable)[0]
    if 4 + 2 * number >= size:
        return 0
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _table(data: bytes, table: int, number: int) -> int:
    at = _field(data, table, number)
    return at + _u32(data, at) if at else 0
