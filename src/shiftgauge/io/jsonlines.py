"""JSON lines: one object a line, its keys the columns."""

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
from shiftgauge.io.compressed import opened_text
from shiftgauge.io.files import FileStamp


def open_jsonl(stamp: FileStamp) -> TableFile:
    """A file of JSON lines; the first object names the columns."""
    names = tuple(next(_objects(Path(stamp.file)), {}))
    return TableFile(stamp, names, partial(read_jsonl, names))


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    with opened_text(path) as file:
        for line, text in enumerate(file):
            if not text.strip():
                continue
            try:
                held = json.loads(text, object_pairs_hook=unique_keys)
            except RepeatedKeyError as problem:
                raise FileError(f"{path}: line {line + 1}: {problem}") from None
            except (ValueError, RecursionError):
                raise FileError(f"{path}: line {line + 1} is no JSON; wanted one object a line") from None
            if not isinstance(held, dict):
                kind = type(held).__name__
                raise FileError(f"{path}: line {line + 1} is a {kind}; wanted one object a line")
            yield held


class RepeatedKeyError(ValueError):
    """A JSON object holds a key twice."""


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object from its pairs, as `object_pairs_hook`; of two equal keys the last would win silently."""
    held = dict(pairs)
    if len(held) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise RepeatedKeyError(f"the key {twice[:80]!r} stands twice in one object; wanted each once")
    return held


def read_jsonl(
    names: tuple[str, ...],
    stamp: FileStamp,
    numbers: Sequence[str],
    texts: Sequence[str],
    groups: range | None,
    batch_rows: int,
) -> Iterator[Any]:
    """Record batches of JSON lines, from the start of the file."""
    import pyarrow as pa

    objects = _objects(Path(stamp.file))
    known = set(names)
    for first in itertools.count(0, BATCH_ROWS):
        rows = list(itertools.islice(objects, BATCH_ROWS))
        if not rows:
            return
        for i, row in enumerate(rows):
            extra = next((key for key in row if key not in known), None)
            if extra is not None:  # it may be one class more
                raise FileError(
                    f"{stamp.file}: row {first + i} has a key {extra!r}, which the first row has not; "
                    "wanted the same keys in all"
                )
        columns = {name: _column([row.get(name) for row in rows]) for name in (*numbers, *texts)}
        yield pa.RecordBatch.from_pydict(columns)


def _column(values: list[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers and texts in one column
        return pa.array([v if v is None or isinstance(v, str) else json.dumps(v) for v in values])
