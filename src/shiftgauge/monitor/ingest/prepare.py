"""Prepared rows: checked against their version, hashed and encoded, before the transaction begins."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shiftgauge.errors import InputError
from shiftgauge.monitor.db import _kernels
from shiftgauge.monitor.db.ids import keys_of
from shiftgauge.monitor.db.models import ScoreFormat
from shiftgauge.monitor.db.rows import StoredRows, to_arrow_stream, to_table
from shiftgauge.monitor.ingest.bodies import too_large
from shiftgauge.monitor.ingest.rows import PostedRows
from shiftgauge.monitor.periods import group_indices
from shiftgauge.monitor.problems import conflict, invalid
from shiftgauge.samples import Target

#: At most so many versions in one request: each is a batch of its own.
MOST_VERSIONS = 1000


@dataclass(frozen=True)
class Prepared:
    """Rows of one version, ready to be committed.

    Attributes:
        version: its name.
        before, after: the version's form as it was when this was prepared, and as these rows leave it.
        rows: the rows.
        contents: (n,) hashes of all but the id.
        payload: the rows as bytes.
    """

    version: str
    before: ScoreFormat
    after: ScoreFormat
    rows: StoredRows
    contents: npt.NDArray[np.uint32]
    payload: bytes

    def without(self, drop: npt.NDArray[np.bool_]) -> Prepared:
        """The rows that are not dropped."""
        if not drop.any():
            return self
        rows, contents = self.rows.take(~drop), self.contents[~drop]
        return replace(self, rows=rows, contents=contents, payload=to_arrow_stream(to_table(rows, contents)))


def prepare(raw: PostedRows, formats: dict[str, ScoreFormat], secret: bytes) -> list[Prepared]:
    """Check scores, predictions and classes; split by version; hash ids with the installation's secret."""
    try:
        Target(raw.scores) if raw.kind == "logits" else Target(probs=raw.scores)
    except InputError as problem:
        raise invalid(str(problem).removeprefix("target ")) from None
    names = list(dict.fromkeys(raw.versions))
    if len(names) > MOST_VERSIONS:
        raise too_large(f"rows of {len(names):,} versions", MOST_VERSIONS)
    number = {name: i for i, name in enumerate(names)}
    # Rows of all versions at first, with predictions still to come: each version takes its own.
    rows = StoredRows(
        ids=raw.ids,
        keys=keys_of(raw.ids, secret),
        times=raw.times,
        scores=raw.scores,
        predictions=np.full(len(raw.times), -1, dtype=np.int32),
        weights=raw.weights,
        segments=raw.segments,
    )
    if len(names) == 1:
        return [
            _of_version(
                raw, names[0], formats.get(names[0], ScoreFormat()), rows, np.arange(len(raw.times)), secret
            )
        ]
    versions = np.array([number[name] for name in raw.versions])
    return [
        _of_version(raw, names[i], formats.get(names[i], ScoreFormat()), rows.take(mine), mine, secret)
        for i, mine in group_indices(versions)
    ]


def _of_version(
    raw: PostedRows,
    version: str,
    before: ScoreFormat,
    rows: StoredRows,
    places: npt.NDArray[np.intp],
    secret: bytes,
) -> Prepared:
    """Rows of one version; `places` says where they stand in the request."""
    after = before.after_rows(raw.kind, raw.scores.shape[1], raw.classes, version)
    order = after.order(raw.classes)
    rows = replace(
        rows,
        scores=np.ascontiguousarray(rows.scores if order is None else rows.scores[:, order]),
        predictions=_predictions(raw, after, version, places),
    )
    contents = content_of(rows, version, secret)
    rows, contents = _once(rows, contents)
    return Prepared(version, before, after, rows, contents, to_arrow_stream(to_table(rows, contents)))


def _predictions(
    raw: PostedRows, form: ScoreFormat, version: str, places: npt.NDArray[np.intp]
) -> npt.NDArray[np.int32]:
    if raw.predictions is None:
        return np.full(len(places), -1, dtype=np.int32)
    texts = [raw.predictions[row] for row in places.tolist()]
    given = np.array([text is not None for text in texts])
    indices = form.index_of([text or "" for text in texts])
    wrong = given & (indices < 0)
    if wrong.any():
        row = int(places[np.argmax(wrong)])
        hint = (
            "" if form.classes else "; the classes have no names yet: send their numbers, or the source first"
        )
        raise invalid(
            f"row {row}: prediction {str(raw.predictions[row])[:60]!r} is not a class of version {version!r}{hint}"
        )
    return np.where(given, indices, np.int32(-1)).astype(np.int32)


def content_of(rows: StoredRows, version: str, secret: bytes) -> npt.NDArray[np.uint32]:
    """(n,) hashes of everything about each row but its id; equal values hash alike in every precision."""
    n = len(rows.times)
    out = np.full(n, keys_of(pa.array([version]), secret)[0], dtype=np.uint64)
    weights = np.ones(n) if rows.weights is None else rows.weights
    plain = np.column_stack(
        [
            rows.times.view(np.uint64),
            rows.predictions.astype(np.int64).view(np.uint64),
            weights.view(np.uint64),
        ]
    )
    _kernels.mix_words(plain, out)
    scores = np.ascontiguousarray(rows.scores, dtype=np.float64) + 0.0  # -0 is 0
    _kernels.mix_words(scores.view(np.uint64), out)
    for name in sorted(rows.segments):
        values = rows.segments[name]
        if values.null_count < n:  # a segment that is missing everywhere was not sent
            words = np.empty((n, 2), dtype=np.uint64)
            words[:, 0] = keys_of(pa.array([name]), secret)[0]
            hashes = keys_of(values.fill_null(""), secret)
            words[:, 1] = np.where(values.is_null().to_numpy(False), 0, hashes)
            mixed = out.copy()
            _kernels.mix_words(words, mixed)
            np.copyto(out, mixed, where=words[:, 1] != 0)
    return np.asarray(out >> np.uint64(32), dtype=np.uint32)


def _once(rows: StoredRows, contents: npt.NDArray[np.uint32]) -> tuple[StoredRows, npt.NDArray[np.uint32]]:
    """The rows with each id once; refuses an id that came twice with different content."""
    _, first, inverse = np.unique(rows.keys, return_index=True, return_inverse=True)
    if len(first) == len(rows.keys):
        return rows, contents
    differ = contents[first][inverse.reshape(-1)] != contents
    if differ.any():
        name = rows.ids[int(np.argmax(differ))].as_py()
        raise conflict(f"id {name!r} stands twice in this request with different content; wanted it once")
    keep = np.sort(first)
    return rows.take(keep), contents[keep]
