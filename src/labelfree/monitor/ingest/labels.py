"""Labels that arrive: at any time, in any order, also before their rows; a corrected one replaces the old one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import insert

from labelfree.monitor.clock import now_us
from labelfree.monitor.ingest.spread import PAUSE, spans_of, windows_named
from labelfree.monitor.problems import conflict, invalid
from labelfree.monitor.spans import HOUR, rows_in
from labelfree.monitor.store import queue
from labelfree.monitor.store.index import Keys, keys_of
from labelfree.monitor.store.payloads import stream
from labelfree.monitor.store.schema import batches

if TYPE_CHECKING:
    from labelfree.monitor.ingest.commit import Held


@dataclass(frozen=True)
class Labels:
    """Labels as they came: an Arrow array of ids, their hashes, and the labels as texts."""

    ids: Any
    keys: Keys
    labels: list[str]

    @classmethod
    def of(cls, ids: Any, labels: list[str]) -> Labels:
        """Each id once; refuses an id that came twice with different labels."""
        keys = keys_of(ids)
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        if len(first) == len(keys):
            return cls(ids, keys, labels)
        for i, j in enumerate(first[inverse.reshape(-1)].tolist()):
            if labels[i] != labels[j]:
                raise conflict(
                    f"id {ids[i].as_py()!r} stands twice in this request, as {labels[j]!r} and {labels[i]!r}; "
                    "wanted one label"
                )
        return cls(ids, keys, labels)._take(np.sort(first))

    def _take(self, places: npt.NDArray[np.intp]) -> Labels:
        import pyarrow as pa

        return Labels(
            self.ids.take(pa.array(places)), self.keys[places], [self.labels[i] for i in places.tolist()]
        )


def take_labels(model: Held, given: Labels) -> dict[str, Any]:
    """Keep labels: how many are new, known already, corrected, and without a row so far."""
    model.labels.follow(model.store, model.connection, model.id)
    versions, slot = _places(model, given.keys)
    _check(model, given, versions)
    numbers, held = model.labels.numbers(given.labels), model.labels.find(given.keys)
    changed = np.flatnonzero(numbers != held)
    if len(changed):
        _keep(model, given._take(changed))
        _ask(model, versions[changed], slot[changed])
    return {
        "accepted": len(changed),
        "duplicates": len(given.labels) - len(changed),
        "corrected": int(((held >= 0) & (numbers != held)).sum()),
        "unmatched": int((versions < 0).sum()),
    }


def _places(model: Held, keys: Keys) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """(n,) each: the version's id, or -1 where no row has come yet; the slot."""
    versions, slot = np.full(len(keys), -1, dtype=np.int32), np.zeros(len(keys), dtype=np.int32)
    for index in (model.book.index, model.fresh):
        places = index.find(keys)
        here = places >= 0
        versions[here] = index.columns["version"][places[here]]
        slot[here] = index.columns["slot"][places[here]]
    return versions, slot


def _check(model: Held, given: Labels, versions: npt.NDArray[np.int32]) -> None:
    """Refuse labels that are no class of their row's version, or, without a row, of any version."""
    known = {name: form for name, form in model.forms.items() if form.k is not None}
    if not known:
        return
    names = {model.versions[name]: name for name in known}
    good = {name: form.index_of(given.labels) >= 0 for name, form in known.items()}
    anywhere = np.any(list(good.values()), axis=0)
    for row, (version, text) in enumerate(zip(versions.tolist(), given.labels, strict=True)):
        name = names.get(version)
        if not (good[name][row] if name is not None else anywhere[row]):
            form = known[name] if name is not None else next(iter(known.values()))
            classes = ", ".join(form.classes[:8])[:200] if form.classes else f"0 to {(form.k or 1) - 1}"
            raise invalid(
                f"row {row}: label {text[:60]!r} of id {given.ids[row].as_py()!r} is no class; wanted one of {classes}"
            )


def _keep(model: Held, given: Labels) -> None:
    import pyarrow as pa

    table = pa.table({"id": given.ids, "key": given.keys, "label": given.labels})
    model.connection.execute(
        insert(batches).values(
            model_id=model.id,
            kind="labels",
            seq=model.next_seq(),
            rows=len(given.labels),
            first=0,
            last=len(given.labels) - 1,
            received=now_us(),
            payload=stream(table),
        )
    )


def _ask(model: Held, versions: npt.NDArray[np.int32], slot: npt.NDArray[np.int32]) -> None:
    """Ask for the realised error of the windows whose rows got labels."""
    names: dict[str, None] = {}
    by_id = {number: name for name, number in model.versions.items()}
    count = rows_in(model.specs[-1][1])
    for version in np.unique(versions[versions >= 0]).tolist():
        places = np.unique(slot[versions == version]).astype(np.int64)
        places = places * (HOUR if count is None else count)
        for _, span, _ in spans_of(model.specs, places, places):
            names[f"{span.name}.{by_id[version]}"] = None
    due = now_us() + PAUSE
    queue.ask(
        model.connection, "labels", windows_named(model.connection, model.id, list(names)), due, "labels"
    )
