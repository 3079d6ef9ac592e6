"""Request bodies: from bytes and a media type to a JSON value, an Arrow table or a source file, within limits."""

from __future__ import annotations

import codecs
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jiter
import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet
from pydantic import Field, ValidationError

from shiftgauge.monitor.ingest.parquet_pages import decoded_size
from shiftgauge.monitor.problems import ApiProblem, invalid
from shiftgauge.monitor.records import Record, explain

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


JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
NPZ = "application/x-npz"
ANY = "application/octet-stream"
_NAMES = {"application/x-parquet": PARQUET, "application/vnd.apache.arrow.file": ARROW, "": ANY}
_MAGIC = ((b"PAR1", PARQUET), (b"PK\x03\x04", NPZ), (b"\xff\xff\xff\xff", ARROW))
#: Members of a gzip body that are read; each costs a copy of what follows it.
GZIP_MEMBERS = 64


@dataclass(frozen=True)
class RequestLimits:
    """How much one request may bring.

    Attributes:
        body: bytes as sent; four times as many after decompression.
        json: bytes of JSON, after decompression: Python's objects take up to 30 times as many.
        rows: rows in one request.
        classes: columns of scores.
        segments: segment columns.
        text: characters of an id.
    """

    body: int = 64 << 20
    json: int = 16 << 20
    rows: int = 1_000_000
    classes: int = 20_000
    segments: int = 32
    text: int = 200


#: For rows that come from files of this machine.
NO_LIMITS = RequestLimits(rows=1 << 62, classes=1 << 31, segments=1 << 31)


def media_type(header: str | None, body: bytes) -> str:
    """What the body claims to be; where it claims nothing, what its first bytes say."""
    kind = (header or "").split(";")[0].strip().lower()
    kind = _NAMES.get(kind, kind)
    if kind in (JSON, ARROW, PARQUET, NPZ):
        return kind
    if kind == ANY:
        return next((found for magic, found in _MAGIC if body.startswith(magic)), JSON)
    raise ApiProblem(
        415, "unknown-media-type", f"Content-Type {kind[:80]!r}: wanted {JSON}, {ARROW} or {PARQUET}"
    )


def decompress(body: bytes, encoding: str | None, most: int) -> bytes:
    """The body without its Content-Encoding (gzip or none); stops where it grows beyond the limit."""
    name = (encoding or "identity").strip().lower()
    if name == "identity":
        return body
    if name != "gzip":
        raise ApiProblem(415, "unknown-encoding", f"Content-Encoding {name[:40]!r}: wanted gzip or none")
    out, rest = bytearray(), memoryview(body)
    for _ in range(GZIP_MEMBERS):
        packed = zlib.decompressobj(wbits=31)
        try:
            out += packed.decompress(rest, most + 1 - len(out))
        except zlib.error as problem:
            raise ApiProblem(400, "unreadable", f"the body is not gzip ({problem})") from None
        if len(out) > most:
            raise too_large(f"more than {most:,} bytes after decompression", most)
        if not packed.eof:
            raise ApiProblem(400, "unreadable", "the gzip body ends too early")
        if not packed.unused_data:
            return bytes(out)
        rest = rest[len(rest) - len(packed.unused_data) :]
    raise ApiProblem(
        400, "unreadable", f"the gzip body has more than {GZIP_MEMBERS} members; compress it as one"
    )


def too_large(what: str, most: int) -> ApiProblem:
    """413: send less at once."""
    return ApiProblem(413, "too-large", f"{what}; wanted at most {most:,} in one request; send it in parts")


def read_json(body: bytes, limits: RequestLimits) -> Any:
    """A JSON value; NaN and Infinity, which JSON has not, and keys that stand twice in an object are refused."""
    if len(body) > limits.json:
        raise ApiProblem(
            413,
            "too-large",
            f"{len(body):,} bytes of JSON; wanted at most {limits.json:,} in one request; "
            "send it in parts, or as Arrow or Parquet",
        )
    text = body.removeprefix(codecs.BOM_UTF8)
    try:
        return jiter.from_json(text, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as problem:
        odd = "; JSON has no NaN and no Infinity" if b"NaN" in text or b"Infinity" in text else ""
        raise ApiProblem(400, "unreadable", f"the body is not JSON ({str(problem)[:120]}{odd})") from None


@contextmanager
def unreadable_as_problem(kind: str) -> Iterator[None]:
    """Turn whatever pyarrow raises on a damaged table into 400."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError, TypeError, MemoryError) as problem:
        line = " ".join(str(problem).split())[:160]
        raise ApiProblem(400, "unreadable", f"the body is not {kind} ({line})") from None


def read_table(body: bytes, kind: str, limits: RequestLimits) -> Any:
    """An Arrow table from an Arrow stream or a Parquet file; every buffer is validated before it is used."""
    with unreadable_as_problem(kind):
        table = _parquet(body, limits) if kind == PARQUET else _arrow(body, limits)
        if table.num_rows > limits.rows:
            raise too_large(f"{table.num_rows:,} rows", limits.rows)
        table.validate(full=True)
        return table


def _arrow(body: bytes, limits: RequestLimits) -> Any:
    if body.startswith(b"ARROW1"):
        raise invalid("the body is an Arrow file; wanted an Arrow stream (pyarrow.ipc.new_stream)")
    stream, messages, rows = io.BytesIO(body), pa.ipc.MessageReader.open_stream(pa.BufferReader(body)), 0
    for message in messages:
        if is_compressed(message.metadata.to_pybytes()):
            raise invalid(
                "the Arrow buffers are compressed, and could grow without limit; "
                "wanted plain buffers, with Content-Encoding: gzip if you like, or Parquet"
            )
    with pa.ipc.open_stream(stream) as reader:
        _check_columns(reader.schema.names, limits)
        parts = []
        for batch in reader:
            rows += batch.num_rows
            if rows > limits.rows:  # an empty struct column can claim any number of rows
                raise too_large(f"more than {limits.rows:,} rows", limits.rows)
            parts.append(batch)
        return pa.Table.from_batches(parts, reader.schema)


def _parquet(body: bytes, limits: RequestLimits) -> Any:
    # Only calls that raise: see `parquet_pages` for those that end the process.
    footer = parquet.read_metadata(pa.BufferReader(body))
    _check_columns(footer.schema.names, limits)
    if footer.num_rows > limits.rows:
        raise too_large(f"{footer.num_rows:,} rows", limits.rows)
    leaves = [footer.schema.column(j) for j in range(len(footer.schema))]
    size = decoded_size(body, [max(8, leaf.length) for leaf in leaves])
    if size > 4 * limits.body:
        raise too_large(f"{size:,} bytes after decompression", 4 * limits.body)
    # Texts stay in their dictionary: one long text repeated a million times is a small file.
    texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    table = parquet.ParquetFile(pa.BufferReader(body), read_dictionary=texts).read()
    if table.num_rows != footer.num_rows:
        raise ValueError(f"its footer says {footer.num_rows} rows, its columns hold {table.num_rows}")
    return table


def _check_columns(names: list[str], limits: RequestLimits) -> None:
    most = limits.classes + limits.segments + 8
    if len(names) > most:
        raise too_large(f"{len(names):,} columns", most)


class SourceBody(Record, strict=True):
    """Labelled scores as JSON, a list of each column: `probs` or `logits`, and the labels."""

    probs: list[list[float]] | None = None
    logits: list[list[float]] | None = None
    labels: list[str | int]
    classes: list[str | int] | None = Field(default=None, description="names in the order of the scores")
    weights: list[float] | None = None
    predictions: list[str | int] | None = None


def source_file(body: bytes, kind: str, limits: RequestLimits) -> tuple[bytes, str]:
    """The bytes to keep, and the file's ending; JSON becomes npz."""
    if kind == NPZ:
        _check_npz(body, limits)
        return body, "npz"
    if kind == JSON:
        return _npz(read_json(body, limits), limits), "npz"
    _check_texts(read_table(body, kind, limits), limits)
    return body, {PARQUET: "parquet", ARROW: "arrow"}[kind]


def _check_npz(body: bytes, limits: RequestLimits) -> None:
    """Refuse archives that would grow beyond the limit; `read_source` refuses arrays that claim more than they hold."""
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            size = sum(info.file_size for info in archive.infolist())
    except Exception as problem:  # the zip reader raises many kinds; whatever it is, the body is refused
        raise ApiProblem(
            400, "unreadable", f"the body is not a readable npz file ({str(problem)[:100]})"
        ) from None
    if size > 4 * limits.body:
        raise too_large(f"{size:,} bytes after decompression", 4 * limits.body)


def _check_texts(table: Any, limits: RequestLimits) -> None:
    """Refuse columns whose texts would grow beyond the limit once they stand in every row."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
            chunks = [chunk for chunk in column.chunks if len(chunk.dictionary)]
            longest = max(
                (compute.max(compute.binary_length(c.dictionary)).as_py() or 0 for c in chunks), default=0
            )
            _check_array_size(name, len(column), longest, limits)


def _check_array_size(name: str, n: int, longest: int, limits: RequestLimits) -> None:
    """Refuse n texts that an array would hold at the length of the longest."""
    size = n * longest * 4  # numpy takes four bytes per character
    if size > 4 * limits.body:
        raise too_large(
            f"source: {name[:60]} has {n:,} texts of up to {longest:,} characters, {size:,} bytes as an array",
            4 * limits.body,
        )


def _npz(value: Any, limits: RequestLimits) -> bytes:
    """A JSON object of lists as an npz file."""
    try:
        body = SourceBody.model_validate(value)
    except ValidationError as error:
        raise explain(error, "source", {"": list(SourceBody.model_fields)}) from None
    arrays: dict[str, Any] = {}
    for name, items in body:
        if items is not None:
            longest = max((len(item) for item in items if isinstance(item, str)), default=0)
            _check_array_size(name, len(items), longest, limits)
            try:
                arrays[name] = np.array(items)
            except (ValueError, OverflowError):
                raise invalid(f"source: {name} is ragged; wanted lists of equal lengths") from None
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()
