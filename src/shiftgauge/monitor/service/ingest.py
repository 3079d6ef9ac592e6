"""Predictions and labels in: prepared in the caller's thread, committed together with others', durable on return."""

from __future__ import annotations

from typing import Any

from shiftgauge.monitor.ingest.commit import Request, Stale
from shiftgauge.monitor.ingest.committer import Answer, Committer
from shiftgauge.monitor.ingest.forms import forms
from shiftgauge.monitor.ingest.labels import Labels
from shiftgauge.monitor.ingest.prepare import prepare
from shiftgauge.monitor.service.models import model_row
from shiftgauge.monitor.wire.rows import Raw

#: How often rows are prepared anew because their version changed under way.
TRIES = 5


def submit_rows(committer: Committer, model: str, raw: Raw, key: str | None, fingerprint: str) -> Answer:
    """Check rows and put them in line; the answer may be `Stale`: then submit them again."""
    with committer.store.read() as connection:
        held = forms(connection, model_row(connection, model).id)
    return committer.submit(
        Request(model, prepare(raw, held, committer.store.secret), key=key, fingerprint=fingerprint)
    )


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
    given = Labels.of(ids, labels, committer.store.secret)
    return committer.submit(Request(model, labels=given, key=key, fingerprint=fingerprint))
