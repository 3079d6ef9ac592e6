"""JSON lines: one object per line, whose keys are the columns."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from shiftgauge.errors import FileError
from shiftgauge.io.batches import BATCH_ROWS, TableFile
from shiftgauge.io.files import FileVersion, open_text


def open_jsonl(version: FileVersion) -> TableFile:
    """A file of JSON lines; the first object names the columns."""
    names = tuple(next(_objects(Path(version.file)), {}))
    return TableFile(version, names, partial(read_jsonl, names))


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    decode = json.JSONDecoder(object_pairs_hook=_unique_keys).decode
    with open_text(path) as file:
        for line, text in enumerate(file):
            if not text.strip():
                continue
            try:
                row = decode(text)
            except _RepeatedKeyError as problem:
                raise FileError(f"{path}: line {line + 1}: {problem}") from None
            except (ValueError, RecursionError):
                raise FileError(f"{path}: line {line + 1} is not JSON; wanted one object per line") from None
            if not isinstance(row, dict):
                kind = type(row).__name__
                raise FileError(f"{path}: line {line + 1} is a {kind}; wanted one object per line")
            yield row


class _RepeatedKeyError(ValueError):
    """A JSON object has a key twice."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An `object_pairs_hook` that refuses repeated keys, of which `json` would silently keep the last."""
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise _RepeatedKeyError(f"the key {twice[:80]!r} appears twice in one object; wanted each once")
    return values


def read_jsonl(
    names: tuple[str, ...], version: FileVersion, numbers: Sequence[str], texts: Sequence[str], *_: Any
) -> Iterator[Any]:
    """Record batches of JSON lines, from the start of the file."""
    import pyarrow as pa

    objects = _objects(Path(version.file))
    known = set(names)
    for first in itertools.count(0, BATCH_ROWS):
        rows = list(itertools.islice(objects, BATCH_ROWS))
        if not rows:
            return
        for i, row in enumerate(rows):
            extra = next((key for key in row if key not in known), None)
            if extra is not None:  # it may be another class
                raise FileError(
                    f"{version.file}: row {first + i} has a key {extra!r}, which the first row lacks; "
                    "wanted the same keys in all"
                )
        columns = {
            name: _numbers([row.get(name) for row in rows], name, version.file, first) for name in numbers
        }
        columns |= {name: _texts([row.get(name) for row in rows]) for name in texts}
        yield pa.RecordBatch.from_pydict(columns)


def _numbers(values: list[Any], name: str, file: str, first: int) -> Any:
    import pyarrow as pa

    for i, value in enumerate(values):
        if not isinstance(value, int | float | None) or isinstance(value, bool):
            raise FileError(f"{file}: column {name!r}, row {first + i} is {value!r}; wanted numbers")
    return pa.array([value if value is None else float(value) for value in values], pa.float64())


def _texts(values: list[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers and texts in one column
        return pa.array([v if v is None or isinstance(v, str) else json.dumps(v) for v in values])
