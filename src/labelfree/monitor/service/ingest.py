"""Predictions and labels in: prepared in the caller's thread, committed together with others', durable on return."""

from __future__ import annotations

from typing import Any

from labelfree.monitor.ingest.commit import Request, Stale
from labelfree.monitor.ingest.committer import Answer, Committer
from labelfree.monitor.ingest.forms import forms
from labelfree.monitor.ingest.labels import Labels
from labelfree.monitor.ingest.prepare import prepare
from labelfree.monitor.service.models import model_row
from labelfree.monitor.wire.rows import Raw

#: How often rows are prepared anew because their version changed under way.
TRIES = 5


def submit_rows(committer: Committer, model: str, raw: Raw, key: str | None, fingerprint: str) -> Answer:
    """Check rows and put them in line; the answer may be `Stale`: then submit them again."""
    with committer.store.read() as connection:
        held = forms(connection, model_row(connection, model).id)
    return committer.submit(Request(model, prepare(raw, held), key=key, fingerprint=fingerprint))


def take_rows(
    committer: Committer, model: str, raw: Raw, key: str | None = None, fingerprint: str = ""
) -> dict[str, Any]:
    """Keep rows; returns how many are new and how many were there already."""
    for _ in range(TRIES):
        try:
            return submit_rows(committer, model, raw, key, fingerprint).result()
        except Stale:
            continue
    raise RuntimeError("the version changed again and again while its rows were prepared")


def submit_labels(
    committer: Committer, model: str, ids: Any, labels: list[str], key: str | None, fingerprint: str
) -> Answer:
    """Put labels in line."""
    with committer.store.read() as connection:
        model_row(connection, model)
    return committer.submit(Request(model, labels=Labels.of(ids, labels), key=key, fingerprint=fingerprint))
