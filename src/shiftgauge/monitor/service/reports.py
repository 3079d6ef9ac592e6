"""The report of a window, as it was made with one of its revisions."""

from __future__ import annotations

import json
import threading
import zlib
from functools import lru_cache

from sqlalchemy import select

from shiftgauge.monitor.problems import Problem
from shiftgauge.monitor.service.models import model_row
from shiftgauge.monitor.service.windows import get_window
from shiftgauge.monitor.store import Store
from shiftgauge.monitor.store.schema import reports, revisions, windows
from shiftgauge.reports import Report


def get_report(
    store: Store, model: str, window: str, revision: int | None = None, format: str = "html"
) -> str:
    """The report as `html`, `md` or `json`: the newest up to that revision, since labels bring none of their own."""
    view = get_window(store, model, window, revision)
    with store.read() as connection:
        which = (windows.c.model_id == model_row(connection, model).id, windows.c.name == window)
        found = connection.execute(
            select(reports.c.body)
            .join(revisions, revisions.c.id == reports.c.revision_id)
            .join(windows, windows.c.id == revisions.c.window_id)
            .where(*which, revisions.c.revision <= view.revision)
            .order_by(revisions.c.revision.desc())
        ).first()
    if found is None:
        why = view.reason or "it has not been estimated yet"
        raise Problem(404, "no-report", f"window {window!r} has no report: {why}")
    with _rendering:
        return _rendered(found.body, format)


_rendering = threading.Lock()


@lru_cache(maxsize=32)
def _rendered(body: bytes, format: str) -> str:
    """Drawn once for all who look at it: it takes a good part of a second."""
    return Report(json.loads(zlib.decompress(body))).render(format)
