"""Bodies: from bytes and a media type to a JSON value or an Arrow table, within limits, trusting nothing."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from shiftgauge.io.jsonlines import unique_keys
from shiftgauge.monitor.problems import Problem, invalid
from shiftgauge.monitor.wire.arrow_messages import is_compressed
from shiftgauge.monitor.wire.parquet_pages import decoded_size

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
class Limits:
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
    out, rest = bytearray(), memoryview(body)
    for _ in range(GZIP_MEMBERS):
        packed = zlib.decompressobj(wbits=31)
        try:
            out += packed.decompress(rest, most + 1 - len(out))
        except zlib.error as problem:
            raise Problem(400, "unreadable", f"the body is not gzip ({problem})") from None
        if len(out) > most:
            raise too_large(f"more than {most:,} bytes after decompression", most)
        if not packed.eof:
            raise Problem(400, "unreadable", "the gzip body ends too early")
        if not packed.unused_data:
            return bytes(out)
        rest = rest[len(rest) - len(packed.unused_data) :]
    raise Problem(
        400, "unreadable", f"the gzip body has more than {GZIP_MEMBERS} members; compress it as one"
    )


def too_large(found: str, most: int) -> Problem:
    """413: send less at once."""
    return Problem(413, "too-large", f"{found}; wanted at most {most:,} in one request; send it in parts")


def read_json(body: bytes, limits: Limits) -> Any:
    """A JSON value; NaN and Infinity, which JSON has not, and keys that stand twice in an object are refused."""
    if len(body) > limits.json:
        raise Problem(
            413,
            "too-large",
            f"{len(body):,} bytes of JSON; wanted at most {limits.json:,} in one request; "
            "send it in parts, or as Arrow or Parquet",
        )
    try:
        return json.loads(body, parse_constant=_refuse_constant, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as problem:
        raise Problem(400, "unreadable", f"the body is not JSON ({str(problem)[:120]})") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON; wanted finite numbers")


@contextmanager
def readable(kind: str) -> Iterator[None]:
    """Turn whatever pyarrow raises on a damaged table into 400."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError, TypeError, MemoryError) as problem:
        line = " ".join(str(problem).split())[:160]
        raise Problem(400, "unreadable", f"the body is not {kind} ({line})") from None


def read_table(body: bytes, kind: str, limits: Limits) -> Any:
    """An Arrow table from an Arrow stream or a Parquet file; every buffer is validated before it is used."""
    with readable(kind):
        table = _parquet(body, limits) if kind == PARQUET else _arrow(body, limits)
        if table.num_rows > limits.rows:
            raise too_large(f"{table.num_rows:,} rows", limits.rows)
        table.validate(full=True)
        return table


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


def _check_columns(names: list[str], limits: Limits) -> None:
    most = limits.classes + limits.segments + 8
    if len(names) > most:
        raise too_large(f"{len(names):,} columns", most)
