"""Labels that arrive: at any time, in any order, also before their rows; a corrected one replaces the old one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlalchemy import insert, select

from shiftgauge.monitor.db import queue
from shiftgauge.monitor.db.ids import Keys, keys_of
from shiftgauge.monitor.db.models import ScoreFormat
from shiftgauge.monitor.db.rows import numbers, to_stored
from shiftgauge.monitor.db.schema import batches, windows
from shiftgauge.monitor.ingest.transaction import PAUSE, ModelTransaction, assign_periods
from shiftgauge.monitor.periods import HOUR, now_us
from shiftgauge.monitor.problems import conflict, invalid
from shiftgauge.times import group_indices, rows_per_window


def prepare_labels(table: Any, secret: bytes) -> Any:
    """A checked table of labels with `key`, the hash of each id, and each id once; refuses contradictions."""
    keys = keys_of(table.column("id").combine_chunks(), secret)
    table = table.append_column("key", pa.array(keys))
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) == len(keys):
        return table
    labels = table.column("label").to_pylist()
    for i, j in enumerate(first[inverse.reshape(-1)].tolist()):
        if labels[i] != labels[j]:
            raise conflict(
                f"id {table.column('id')[i].as_py()!r} stands twice in this request, as {labels[j]!r} and "
                f"{labels[i]!r}; wanted one label"
            )
    return table.take(pa.array(np.sort(first)))


def ingest_labels(model: ModelTransaction, given: Any) -> dict[str, Any]:
    """Keep prepared labels: how many are new, known already, corrected, and without a row so far."""
    keys, labels = numbers(given, "key"), given.column("label").to_pylist()
    versions, slot = _places(model, keys)
    _check_classes(model, given, labels, versions)
    new, known = model.labels.numbers(labels), model.labels.find(keys)
    places = model.new_labels.find(keys)
    known = np.where(places >= 0, model.new_labels.columns["label"][places], known)
    changed = np.flatnonzero(new != known)
    if len(changed):
        _insert_labels(model, given.take(pa.array(changed)), new[changed])
        _enqueue_windows(model, versions[changed], slot[changed])
    return {
        "accepted": len(changed),
        "duplicates": len(labels) - len(changed),
        "corrected": int(((known >= 0) & (new != known)).sum()),
        "unmatched": int((versions < 0).sum()),
    }


def _places(model: ModelTransaction, keys: Keys) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """(n,) each: the version's id, or -1 where no row has come yet; the slot."""
    versions, slot = np.full(len(keys), -1, dtype=np.int32), np.zeros(len(keys), dtype=np.int32)
    for index in (model.seen_ids.index, model.new_ids):
        places = index.find(keys)
        here = places >= 0
        versions[here] = index.columns["version"][places[here]]
        slot[here] = index.columns["slot"][places[here]]
    return versions, slot


def _check_classes(
    model: ModelTransaction, given: Any, labels: list[str], versions: npt.NDArray[np.int32]
) -> None:
    """Refuse labels that are no class of their row's version, or, without a row, of any version."""
    known = {model.versions[name]: form for name, form in model.version_formats.items() if form.k is not None}
    if not known:
        return
    # A label without a row may be a class of any version.
    named = {name for form in known.values() for name in form.classes or ()}
    most = max((form.k or 0 for form in known.values() if form.classes is None), default=0)
    good = np.zeros(len(versions), dtype=bool)
    for version, rows in group_indices(versions):
        texts = [labels[row] for row in rows.tolist()]
        form = known.get(version)
        if form is not None:
            good[rows] = form.index_of(texts) >= 0
        else:
            good[rows] = ScoreFormat(most).index_of(texts) >= 0
            good[rows] |= np.array([text in named for text in texts])
    if not good.all():
        row = int(np.argmin(good))
        form = known.get(int(versions[row])) or next(iter(known.values()))
        classes = ", ".join(form.classes[:8])[:200] if form.classes else f"0 to {(form.k or 1) - 1}"
        raise invalid(
            f"row {row}: label {labels[row][:60]!r} of id {given.column('id')[row].as_py()!r} is not a class; "
            f"wanted one of {classes}"
        )


def _insert_labels(model: ModelTransaction, given: Any, numbers_: npt.NDArray[np.int32]) -> None:
    now, n = now_us(), given.num_rows
    # The ids themselves are not kept: labels find their rows by the keyed hash.
    table = given.select(["key", "label"])
    table = table.append_column("received", pa.array(np.full(n, now, dtype=np.int64)))
    model.connection.execute(
        insert(batches).values(
            model_id=model.id,
            kind="labels",
            seq=model.next_seq(),
            rows=n,
            first=0,
            last=n - 1,
            low=now,
            high=now,
            **to_stored(table),
        )
    )
    model.new_labels.put(numbers(given, "key"), label=numbers_)


def _enqueue_windows(
    model: ModelTransaction, versions: npt.NDArray[np.int32], slot: npt.NDArray[np.int32]
) -> None:
    """Ask for the observed error of the windows whose rows got labels."""
    names: dict[str, None] = {}
    by_id = {number: name for name, number in model.versions.items()}
    count = rows_per_window(model.specs[-1][1])
    for version, rows in group_indices(versions):
        if version < 0:
            continue
        places = np.unique(slot[rows]).astype(np.int64) * (HOUR if count is None else count)
        for _, span, _ in assign_periods(model.specs, places, places):
            names[f"{span.name}.{by_id[version]}"] = None
    some, ids = list(names), list[int]()
    for start in range(0, len(some), 500):
        here = windows.c.name.in_(some[start : start + 500])
        query = select(windows.c.id).where(windows.c.model_id == model.id, here)
        ids += model.connection.execute(query).scalars()
    queue.enqueue(model.connection, "labels", ids, now_us() + PAUSE, "labels")
