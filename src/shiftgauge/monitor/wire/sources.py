"""A source as it comes over the wire: a file of scores with labels, looked at before it is opened."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np

from shiftgauge.monitor.problems import Problem, invalid
from shiftgauge.monitor.wire.bodies import ARROW, JSON, NPZ, PARQUET, Limits, read_json, read_table, too_large

KNOWN = ("probs", "logits", "labels", "classes", "weights", "predictions")


def source_file(body: bytes, kind: str, limits: Limits) -> tuple[bytes, str]:
    """The bytes to keep, and the file's ending; JSON becomes npz."""
    if kind == NPZ:
        _check_npz(body, limits)
        return body, "npz"
    if kind == JSON:
        return _npz(read_json(body, limits), limits), "npz"
    _check_texts(read_table(body, kind, limits), limits)
    return body, {PARQUET: "parquet", ARROW: "arrow"}[kind]


def _check_npz(body: bytes, limits: Limits) -> None:
    """Refuse archives that would grow beyond the limit, and arrays that claim more than they hold."""
    most = 4 * limits.body
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            size = sum(info.file_size for info in archive.infolist())
            if size > most:
                raise too_large(f"{size:,} bytes after decompression", most)
            for info in archive.infolist():
                _check_array(archive, info)
    except Problem:
        raise
    except (
        Exception
    ) as problem:  # numpy, zlib and the zip reader raise many kinds; whatever it is, it is refused
        raise Problem(
            400, "unreadable", f"the body is not a readable npz file ({str(problem)[:100]})"
        ) from None


def _check_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        reader: Any = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = reader(member)
        if dtype.hasobject:
            raise invalid(f"{info.filename[:60]}: holds Python objects; wanted plain numbers or texts")
        if int(np.prod([int(n) for n in shape], dtype=object)) * dtype.itemsize > info.file_size:
            raise invalid(f"{info.filename[:60]}: claims the shape {str(shape)[:60]}, but holds less")


def _check_texts(table: Any, limits: Limits) -> None:
    """Refuse columns whose texts would grow beyond the limit once they stand in every row."""
    import pyarrow as pa
    from pyarrow import compute

    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
            chunks = [chunk for chunk in column.chunks if len(chunk.dictionary)]
            longest = max(
                (compute.max(compute.binary_length(c.dictionary)).as_py() or 0 for c in chunks), default=0
            )
            _check_array_size(name, len(column), longest, limits)


def _check_array_size(name: str, n: int, longest: int, limits: Limits) -> None:
    """Refuse n texts that an array would hold at the length of the longest."""
    size = n * longest * 4  # numpy takes four bytes per character
    if size > 4 * limits.body:
        raise too_large(
            f"source: {name[:60]} has {n:,} texts of up to {longest:,} characters, {size:,} bytes as an array",
            4 * limits.body,
        )


def _npz(value: Any, limits: Limits) -> bytes:
    """A JSON object of lists as an npz file."""
    if not isinstance(value, dict):
        raise invalid(
            "source: wanted a JSON object with probs or logits, labels, and classes if they have names"
        )
    odd = next((name for name in value if name not in KNOWN), None)
    if odd is not None:
        raise invalid(f"source: {odd[:60]!r} is not known; wanted {', '.join(KNOWN)}")
    arrays: dict[str, Any] = {}
    for name, items in value.items():
        if items is None:
            continue
        if not isinstance(items, list):
            raise invalid(f"source: {name} arrived as {type(items).__name__}; wanted a list")
        inner = [item for item in items if isinstance(item, list)]
        if inner and (
            len(inner) < len(items) or not all(type(x) in (int, float) for row in inner for x in row)
        ):
            raise invalid(f"source: {name} holds lists of other things than numbers; wanted numbers")
        longest = max((len(item) for item in items if isinstance(item, str)), default=0)
        _check_array_size(name, len(items), longest, limits)
        try:
            array = np.array(items)
        except (ValueError, OverflowError):
            raise invalid(f"source: {name} is ragged; wanted lists of equal lengths") from None
        if array.dtype == object:
            raise invalid(f"source: {name} holds values of different kinds; wanted numbers, or texts")
        arrays[name] = array
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()
