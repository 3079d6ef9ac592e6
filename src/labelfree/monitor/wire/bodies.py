"""Bodies: from bytes and a media type to a JSON value or an Arrow table, within limits, trusting nothing."""

from __future__ import annotations

import io
import json
import zlib
from dataclasses import dataclass
from typing import Any

from labelfree.monitor.problems import Problem, invalid
from labelfree.monitor.wire.arrow_messages import is_compressed

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
NPZ = "application/x-npz"
ANY = "application/octet-stream"
_NAMES = {"application/x-parquet": PARQUET, "application/vnd.apache.arrow.file": ARROW, "": ANY}
_MAGIC = ((b"PAR1", PARQUET), (b"PK\x03\x04", NPZ), (b"\xff\xff\xff\xff", ARROW))


@dataclass(frozen=True)
class Limits:
    """How much one request may bring.

    Attributes:
        body: bytes as sent, and after decompression.
        rows: rows in one request.
        classes: columns of scores.
        segments: segment columns.
        text: characters of an id.
    """

    body: int = 64 << 20
    rows: int = 1_000_000
    classes: int = 20_000
    segments: int = 32
    text: int = 200


def media_type(header: str | None, body: bytes) -> str:
    """What the body claims to be; where it claims nothing, what its first bytes say."""
    kind = (header or "").split(";")[0].strip().lower()
    kind = _NAMES.get(kind, kind)
    if kind in (JSON, ARROW, PARQUET, NPZ):
        return kind
    if kind == ANY:
        return next((found for magic, found in _MAGIC if body.startswith(magic)), JSON)
    raise Problem(
        415, "unknown-media-type", f"Content-Type {kind[:80]!r}: wanted {JSON}, {ARROW} or {PARQUET}"
    )


def unpacked(body: bytes, encoding: str | None, most: int) -> bytes:
    """The body without its Content-Encoding (gzip or none); stops where it grows beyond the limit."""
    name = (encoding or "identity").strip().lower()
    if name == "identity":
        return body
    if name != "gzip":
        raise Problem(415, "unknown-encoding", f"Content-Encoding {name[:40]!r}: wanted gzip or none")
    packed = zlib.decompressobj(wbits=31)
    try:
        out = packed.decompress(body, most + 1)
    except zlib.error as problem:
        raise Problem(400, "unreadable", f"the body is not gzip ({problem})") from None
    if len(out) > most:
        raise too_large(f"more than {most:,} bytes after decompression", most)
    if not packed.eof:
        raise Problem(400, "unreadable", "the gzip body ends too early")
    return out


def too_large(found: str, most: int) -> Problem:
    """413: send less at once."""
    return Problem(413, "too-large", f"{found}; wanted at most {most:,} in one request; send it in parts")


def read_json(body: bytes) -> Any:
    """A JSON value; NaN and Infinity, which JSON has not, are refused."""
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as problem:
        raise Problem(400, "unreadable", f"the body is not JSON ({str(problem)[:120]})") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON; wanted finite numbers")


def read_table(body: bytes, kind: str, limits: Limits) -> Any:
    """An Arrow table from an Arrow stream or a Parquet file; every buffer is validated before it is touched."""
    import pyarrow as pa

    try:
        table = _parquet(body, limits) if kind == PARQUET else _arrow(body, limits)
        if table.num_rows > limits.rows:
            raise too_large(f"{table.num_rows:,} rows", limits.rows)
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError, ValueError, OverflowError, TypeError) as problem:
        if isinstance(problem, Problem):
            raise
        line = " ".join(str(problem).split())[:160]
        raise Problem(400, "unreadable", f"the body is not {kind} ({line})") from None


def _arrow(body: bytes, limits: Limits) -> Any:
    import pyarrow as pa

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


def _parquet(body: bytes, limits: Limits) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    held = parquet.read_metadata(pa.BufferReader(body))
    _check_columns(held.schema.names, limits)
    if held.num_rows > limits.rows:
        raise too_large(f"{held.num_rows:,} rows", limits.rows)
    groups = [held.row_group(i) for i in range(held.num_row_groups)]
    values = sum(group.column(j).num_values for group in groups for j in range(group.num_columns))
    size = max(8 * values, sum(group.total_byte_size for group in groups))
    if size > 4 * limits.body:
        raise too_large(f"{size:,} bytes after decompression", 4 * limits.body)
    # Texts stay in their dictionary: one long text repeated a million times is a small file.
    texts = [held.schema.column(j).path for j in range(len(held.schema)) if _is_text(held.schema.column(j))]
    return parquet.ParquetFile(pa.BufferReader(body), read_dictionary=texts).read()


def _is_text(column: Any) -> bool:
    return bool(column.physical_type == "BYTE_ARRAY")


def _check_columns(names: list[str], limits: Limits) -> None:
    most = limits.classes + limits.segments + 8
    if len(names) > most:
        raise too_large(f"{len(names):,} columns", most)
