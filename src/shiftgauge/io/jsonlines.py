"""JSON lines: one object a line, its keys the columns."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shiftgauge.errors import FileError
from shiftgauge.io.blocks import BLOCK_ROWS, Block, Tabular, guarded
from shiftgauge.io.compressed import opened_text


def open_jsonl(path: Path) -> Tabular:
    """The table of a file of JSON lines; the first object names the columns."""
    names: dict[str, None] = {}
    for first in guarded(_objects(path), str(path), ".jsonl"):
        names = dict.fromkeys(first)
        break

    def read(numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Block]:
        return guarded(_blocks(path, names, [*numbers, *texts]), str(path), ".jsonl")

    return Tabular(str(path), tuple(names), None, read)


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


def _blocks(path: Path, names: dict[str, None], columns: Sequence[str]) -> Iterator[Block]:
    import pyarrow as pa

    objects = _objects(path)
    for first in itertools.count(0, BLOCK_ROWS):
        rows = list(itertools.islice(objects, BLOCK_ROWS))
        if not rows:
            return
        for i, row in enumerate(rows):
            extra = next((key for key in row if key not in names), None)
            if extra is not None:  # it may be one class more
                raise FileError(
                    f"{path}: row {first + i} has a key {extra!r}, which the first row has not; "
                    "wanted the same keys in all"
                )
        batch = {name: _column([row.get(name) for row in rows]) for name in columns}
        yield Block(pa.record_batch(batch), str(path), first)


def _column(values: list[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers and texts in one column
        return pa.array([v if v is None or isinstance(v, str) else json.dumps(v) for v in values])
