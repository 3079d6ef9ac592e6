"""A source as it comes over the wire: a file of scores with labels, looked at before it is opened."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np

from labelfree.monitor.problems import Problem, invalid
from labelfree.monitor.wire.bodies import ARROW, JSON, NPZ, PARQUET, Limits, read_json, read_table, too_large

KNOWN = ("probs", "logits", "labels", "classes", "weights", "predictions")


def source_file(body: bytes, kind: str, limits: Limits) -> tuple[bytes, str]:
    """The bytes to keep, and the file's ending; JSON becomes npz."""
    if kind == NPZ:
        _check_npz(body, limits)
        return body, "npz"
    if kind == JSON:
        return _npz(read_json(body)), "npz"
    read_table(body, kind, limits)
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
    except (
        zipfile.BadZipFile,
        zipfile.LargeZipFile,
        NotImplementedError,
        EOFError,
        OSError,
        RuntimeError,
    ) as problem:
        raise Problem(400, "unreadable", f"the body is not an npz file ({problem})") from None
    except (ValueError, SyntaxError, KeyError, TypeError, OverflowError) as problem:
        if isinstance(problem, Problem):
            raise
        raise Problem(
            400, "unreadable", f"the npz file holds no readable array ({str(problem)[:100]})"
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


def _npz(value: Any) -> bytes:
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
