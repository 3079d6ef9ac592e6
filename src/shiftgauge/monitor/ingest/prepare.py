"""Prepared rows: checked against their version, hashed and encoded, before the transaction begins."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shiftgauge.errors import InputError
from shiftgauge.monitor.db import _kernels
from shiftgauge.monitor.db.ids import Keys, keys_of
from shiftgauge.monitor.db.models import ScoreFormat
from shiftgauge.monitor.db.rows import numbers, scores_of, to_stored
from shiftgauge.monitor.ingest.bodies import too_large
from shiftgauge.monitor.problems import ApiProblem, conflict, invalid
from shiftgauge.monitor.tables import SEGMENT, score_column
from shiftgauge.times import group_indices
from shiftgauge.validation import check_scores

#: At most so many versions in one request: each is a batch of its own.
MOST_VERSIONS = 1000


@dataclass(frozen=True)
class Prepared:
    """Rows of one version, ready to be committed.

    Attributes:
        version: its name.
        before, after: the version's format when this was prepared, and with these rows.
        table: the rows as they are stored (see `db.rows`).
        stored: the table as columns of `batches`.
    """

    version: str
    before: ScoreFormat
    after: ScoreFormat
    table: Any
    stored: dict[str, Any]

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def keys(self) -> Keys:
        """(n,) hashes of the ids."""
        return numbers(self.table, "key")

    @cached_property
    def times(self) -> npt.NDArray[np.int64]:
        """(n,) microseconds since 1970."""
        return numbers(self.table, "time")

    @cached_property
    def contents(self) -> npt.NDArray[np.uint32]:
        """(n,) hashes of everything but the id."""
        return numbers(self.table, "content")

    def without(self, drop: npt.NDArray[np.bool_]) -> Prepared:
        """The rows that are not dropped."""
        if not drop.any():
            return self
        table = self.table.filter(pa.array(~drop))
        return replace(self, table=table, stored=to_stored(table))


def prepare(posted: Any, formats: dict[str, ScoreFormat], secret: bytes) -> list[Prepared]:
    """Check scores, predictions and classes of a table (see `ingest.rows`), hash the ids, and split it by version."""
    kind, scores = posted.schema.metadata[b"kind"].decode(), scores_of(posted)
    try:
        check_scores(scores, kind, "target")
    except InputError as problem:
        raise invalid(str(problem).removeprefix("target ")) from None
    versions = posted.column("version").combine_chunks()
    groups = list(group_indices(versions.indices.to_numpy()))
    if len(groups) > MOST_VERSIONS:
        raise too_large(f"rows of {len(groups):,} versions", MOST_VERSIONS)
    out = []
    for code, places in groups:
        name = versions.dictionary[code].as_py()
        mine = posted if len(groups) == 1 else posted.take(pa.array(places))
        part = scores if len(groups) == 1 else scores[places]
        out.append(_of_version(mine, part, name, formats.get(name, ScoreFormat()), places, secret))
    if len(out) > 1:  # within a version each id stands once
        rising = np.sort(np.concatenate([part.keys for part in out]))
        if (rising[1:] == rising[:-1]).any():
            _refuse_repeated(out)
    return out


def _refuse_repeated(parts: list[Prepared]) -> None:
    """Refuse an id that stands in two versions."""
    seen: set[int] = set()
    for part in parts:
        for row, key in enumerate(part.keys.tolist()):
            if key in seen:
                raise _repeated(part.table, row)
            seen.add(key)


def _repeated(table: Any, row: int) -> ApiProblem:
    name = table.column("id")[row].as_py()
    return conflict(f"id {name!r} stands twice in this request with different content; wanted it once")


def _of_version(
    rows: Any,
    scores: npt.NDArray[Any],
    version: str,
    before: ScoreFormat,
    places: npt.NDArray[np.intp],
    secret: bytes,
) -> Prepared:
    """Rows of one version with their (n, K) scores; `places` are their positions in the request."""
    kind = rows.schema.metadata[b"kind"].decode()
    names = json.loads(rows.schema.metadata[b"classes"])
    classes = None if names is None else tuple(names)
    after = before.after_rows(kind, scores.shape[1], classes, version)
    order = after.order(classes)
    scores = scores if order is None else scores[:, order]
    predictions = _predictions(rows, after, version, places)
    columns = {
        "id": rows.column("id"),
        "key": keys_of(rows.column("id").combine_chunks(), secret),
        "time": rows.column("time"),
        "scores": rows.column("scores") if order is None else score_column(scores),
        "prediction": predictions,
        "content": content_of(rows, scores, predictions, version, secret),
    }
    more = [name for name in rows.column_names if name == "weight" or name.startswith(SEGMENT)]
    table = _each_id_once(pa.table(columns | {name: rows.column(name) for name in more}))
    return Prepared(version, before, after, table, to_stored(table))


def _predictions(
    rows: Any, form: ScoreFormat, version: str, places: npt.NDArray[np.intp]
) -> npt.NDArray[np.int32]:
    if "prediction" not in rows.column_names:
        return np.full(len(places), -1, dtype=np.int32)
    column = rows.column("prediction").combine_chunks()
    names = column.dictionary.to_pylist()
    codes = column.indices.fill_null(-1).to_numpy(False)
    with_missing = np.append(form.index_of(names), np.int32(-1))  # a missing prediction has the code -1
    classes: npt.NDArray[np.int32] = with_missing[codes]
    wrong = (codes >= 0) & (classes < 0)
    if wrong.any():
        at = int(np.argmax(wrong))
        hint = (
            "" if form.classes else "; the classes have no names yet: send their numbers, or the source first"
        )
        raise invalid(
            f"row {places[at]}: prediction {names[codes[at]][:60]!r} is not a class of version {version!r}{hint}"
        )
    return classes


def content_of(
    rows: Any,
    scores: npt.NDArray[Any],
    predictions: npt.NDArray[np.int32],
    version: str,
    secret: bytes,
) -> npt.NDArray[np.uint32]:
    """(n,) hashes of everything about each row but its id; equal values hash alike in every precision."""
    n = rows.num_rows
    out = np.full(n, keys_of(pa.array([version]), secret)[0], dtype=np.uint64)
    plain = np.empty((n, 3), dtype=np.uint64)
    plain[:, 0] = numbers(rows, "time").view(np.uint64)
    plain[:, 1] = predictions.astype(np.int64).view(np.uint64)
    plain[:, 2] = (numbers(rows, "weight") if "weight" in rows.column_names else np.ones(1)).view(np.uint64)
    _kernels.mix_words(plain, out)
    precise = np.ascontiguousarray(scores, dtype=np.float64) + 0.0  # -0 is 0
    _kernels.mix_words(precise.view(np.uint64), out)
    for name in sorted(name for name in rows.column_names if name.startswith(SEGMENT)):
        values = rows.column(name).combine_chunks()
        if values.null_count < n:  # a segment that is missing everywhere was not sent
            words = np.empty((n, 2), dtype=np.uint64)
            words[:, 0] = keys_of(pa.array([name.removeprefix(SEGMENT)]), secret)[0]
            hashes = keys_of(values.fill_null(""), secret)
            words[:, 1] = np.where(values.is_null().to_numpy(False), 0, hashes)
            mixed = out.copy()
            _kernels.mix_words(words, mixed)
            np.copyto(out, mixed, where=words[:, 1] != 0)
    return np.asarray(out >> np.uint64(32), dtype=np.uint32)


def _each_id_once(table: Any) -> Any:
    """The rows with each id once; refuses an id that came twice with different content."""
    keys, contents = numbers(table, "key"), numbers(table, "content")
    rising = np.sort(keys)
    if not (rising[1:] == rising[:-1]).any():
        return table
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    differ = contents[first][inverse.reshape(-1)] != contents
    if differ.any():
        raise _repeated(table, int(np.argmax(differ)))
    return table.take(pa.array(np.sort(first)))
