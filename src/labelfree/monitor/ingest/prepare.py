"""Prepared rows: checked against their version, hashed and encoded, before any lock is taken."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from labelfree.errors import InputError
from labelfree.monitor.ingest.forms import Form
from labelfree.monitor.problems import conflict, invalid
from labelfree.monitor.store.index import keys_of
from labelfree.monitor.store.payloads import Rows, stream, table_of
from labelfree.monitor.wire.rows import Raw
from labelfree.types import Target


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
    before: Form
    after: Form
    rows: Rows
    contents: npt.NDArray[np.uint32]
    payload: bytes

    def without(self, drop: npt.NDArray[np.bool_]) -> Prepared:
        """The rows that are not dropped."""
        if not drop.any():
            return self
        rows, contents = self.rows.take(~drop), self.contents[~drop]
        return replace(self, rows=rows, contents=contents, payload=stream(table_of(rows, contents)))


def prepare(raw: Raw, held: dict[str, Form]) -> list[Prepared]:
    """Check scores, predictions and classes; split by version."""
    try:
        Target(raw.scores) if raw.kind == "logits" else Target(probs=raw.scores)
    except InputError as problem:
        raise invalid(str(problem).removeprefix("target ")) from None
    names = list(dict.fromkeys(raw.versions))
    if len(names) == 1:
        return [_of_version(raw, names[0], held.get(names[0], Form()), None)]
    versions = np.array(raw.versions, dtype=object)
    return [
        _of_version(raw, name, held.get(name, Form()), np.flatnonzero(versions == name)) for name in names
    ]


def _of_version(raw: Raw, version: str, before: Form, which: npt.NDArray[np.intp] | None) -> Prepared:
    after = before.fixed_by(raw.kind, raw.scores.shape[1], raw.classes, version)
    order = after.order(raw.classes)
    rows = Rows(
        ids=raw.ids,
        keys=keys_of(raw.ids),
        times=raw.times,
        scores=np.ascontiguousarray(raw.scores if order is None else raw.scores[:, order]),
        predictions=_predictions(raw, after, version, which),
        weights=raw.weights,
        segments=raw.segments,
    )
    if which is not None:
        rows = rows.take(which)
    contents = content_of(rows, version)
    rows, contents = _once(rows, contents)
    return Prepared(version, before, after, rows, contents, stream(table_of(rows, contents)))


def _predictions(
    raw: Raw, form: Form, version: str, which: npt.NDArray[np.intp] | None
) -> npt.NDArray[np.int32]:
    if raw.predictions is None:
        return np.full(len(raw.times), -1, dtype=np.int32)
    given = np.array([text is not None for text in raw.predictions])
    found = form.index_of([text or "" for text in raw.predictions])
    wrong = given & (found < 0)
    if which is not None:
        mine = np.zeros(len(given), dtype=bool)
        mine[which] = True
        wrong &= mine
    if wrong.any():
        row = int(np.argmax(wrong))
        hint = (
            "" if form.classes else "; the classes have no names yet: send their numbers, or the source first"
        )
        raise invalid(
            f"row {row}: prediction {str(raw.predictions[row])[:60]!r} is no class of version {version!r}{hint}"
        )
    return np.where(given, found, np.int32(-1)).astype(np.int32)


def content_of(rows: Rows, version: str) -> npt.NDArray[np.uint32]:
    """(n,) hashes of everything about each row but its id; equal values hash alike in every precision."""
    import pyarrow as pa

    from labelfree.monitor.store import _kernels

    n = len(rows.times)
    out = np.full(n, keys_of(pa.array([version]))[0], dtype=np.uint64)
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
            words[:, 0] = keys_of(pa.array([name]))[0]
            words[:, 1] = np.where(values.is_null().to_numpy(False), 0, keys_of(values.fill_null("")))
            mixed = out.copy()
            _kernels.mix_words(words, mixed)
            np.copyto(out, mixed, where=words[:, 1] != 0)
    return np.asarray(out >> np.uint64(32), dtype=np.uint32)


def _once(rows: Rows, contents: npt.NDArray[np.uint32]) -> tuple[Rows, npt.NDArray[np.uint32]]:
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
