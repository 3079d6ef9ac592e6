"""The report of a window, as it was made with one of its revisions."""

from __future__ import annotations

import json
import zlib

from sqlalchemy import select

from labelfree.monitor.problems import Problem
from labelfree.monitor.service.models import model_row
from labelfree.monitor.service.windows import get_window
from labelfree.monitor.store import Store
from labelfree.monitor.store.schema import reports, revisions, windows
from labelfree.reports import Report


def get_report(store: Store, model: str, window: str, revision: int | None = None) -> Report:
    """The report; labels make new revisions without a new report, so it is the newest up to that revision."""
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
    return Report(json.loads(zlib.decompress(found.body)))
