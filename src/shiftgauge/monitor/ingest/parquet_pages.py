"""How large a Parquet file becomes when it is decoded: read from its footer and page headers, before it is decoded.

pyarrow's `RowGroupMetaData.column` and `FileMetaData.to_dict` end the process on a damaged footer (a C++ exception
that nobody catches), and the footer may understate what the pages hold. So the footer and the headers of all pages
are parsed here: they are structs of Thrift's compact protocol (parquet.thrift of the Parquet format).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shiftgauge.monitor.problems import invalid

#: A footer, or the page headers of a file, with more values than this is refused.
MOST_VALUES = 5_000_000
#: Each text repeats a part of the one before: a few bytes can become gigabytes.
DELTA_BYTE_ARRAY = 7
# Field numbers of parquet.thrift.
ROW_GROUPS, COLUMNS, CHUNK = 4, 1, 3
NUM_VALUES, TOTAL_COMPRESSED, DATA_OFFSET, DICTIONARY_OFFSET = 5, 7, 9, 11
UNCOMPRESSED_SIZE, COMPRESSED_SIZE, DATA_HEADER, DATA_HEADER_V2 = 2, 3, 5, 8
# Types of the compact protocol.
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
DEEPEST = 20


def decoded_size(body: bytes, widths: list[int]) -> int:
    """The bytes that a Parquet file's columns take up when they are decoded, at most; texts count as indices.

    Args:
        widths: bytes of one value of each leaf column, in the order of the schema.

    Raises:
        ValueError: the footer or a page header cannot be parsed.
    """
    end = len(body) - 8
    length = int.from_bytes(body[end : end + 4], "little")
    if body[-4:] != b"PAR1" or not 0 < length <= end - 4:
        raise ValueError("the file has no plain Parquet footer")
    parser = _Parser(body, end - length)
    total = 0
    for group in _structs(parser.struct().get(ROW_GROUPS)):
        columns = list(_structs(group.get(COLUMNS)))
        if len(columns) != len(widths):
            raise ValueError(f"a row group has {len(columns)} columns, the schema {len(widths)}")
        for column, width in zip(columns, widths, strict=True):
            total += _chunk_size(parser, column.get(CHUNK), width)
    return total


def _chunk_size(parser: _Parser, chunk: Any, width: int) -> int:
    """The decoded bytes of one column chunk: its pages after decompression, or its values, whichever is more."""
    if not isinstance(chunk, dict):
        raise ValueError("a column has no metadata, or is encrypted")
    at, end = _number(chunk, DATA_OFFSET), _number(chunk, TOTAL_COMPRESSED)
    first = _number(chunk, DICTIONARY_OFFSET) if DICTIONARY_OFFSET in chunk else 0
    at = first if 0 < first < at else at
    end += at
    if not 0 <= at <= end <= len(parser.body):
        raise ValueError("a column lies outside the file")
    values = pages = 0
    while at < end:
        parser.at = at
        header = parser.struct()
        pages += _number(header, UNCOMPRESSED_SIZE)
        data = header.get(DATA_HEADER) or header.get(DATA_HEADER_V2)
        if isinstance(data, dict):
            values += _number(data, 1)
            if data.get(2 if DATA_HEADER in header else 4) == DELTA_BYTE_ARRAY:
                raise invalid(
                    "a text column is encoded as DELTA_BYTE_ARRAY, and could grow without limit; "
                    "wanted PLAIN or dictionary encoding"
                )
        at = parser.at + _number(header, COMPRESSED_SIZE)
    return max(pages, width * max(values, _number(chunk, NUM_VALUES)))


def _number(struct: dict[int, Any], field: int) -> int:
    value = struct.get(field)
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"a size or an offset is {value!r}")
    return value


def _structs(values: Any) -> Iterator[dict[int, Any]]:
    for value in values or ():
        if not isinstance(value, dict):
            raise ValueError("a list holds other things than structs")
        yield value


class _Parser:
    """Reads structs of the compact protocol as dictionaries by field number."""

    def __init__(self, body: bytes, at: int) -> None:
        self.body, self.at, self.left = body, at, MOST_VALUES

    def struct(self, depth: int = 0) -> dict[int, Any]:
        out: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            self._count()
            kind = head & 15
            field = field + (head >> 4) if head >> 4 else self._integer()
            out[field] = kind == TRUE if kind in (TRUE, FALSE) else self._value(kind, depth + 1)
        return out

    def _element(self, kind: int, depth: int) -> Any:
        self._count()
        return self._value(kind, depth)

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise ValueError("the metadata is too large")

    def _value(self, kind: int, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError("the metadata is nested too deeply")
        if kind in (TRUE, FALSE, BYTE):
            return self._byte()
        if kind < DOUBLE:
            return self._integer()
        if kind == DOUBLE:
            return self._skip(8)
        if kind == BINARY:
            return self._skip(self._unsigned())
        if kind in (LIST, SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._unsigned()
            return [self._element(head & 15, depth + 1) for _ in range(count)]
        if kind == STRUCT:
            return self.struct(depth)
        raise ValueError(f"the metadata holds a value of type {kind}")

    def _byte(self) -> int:
        self.at += 1
        if not 0 < self.at <= len(self.body):
            raise ValueError("the metadata ends too early")
        return self.body[self.at - 1]

    def _skip(self, count: int) -> None:
        self.at += count

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number of the metadata is too long")

    def _integer(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
