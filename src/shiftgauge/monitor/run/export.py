"""An export: rows, labels with their history, sources, windows with all revisions and reports, label plans, settings,
alerts and their messages, and the audit log. Not in it: tokens, secrets, jobs, and keys of requests.

Rows carry their id and its keyed hash (`id_hash`); labels and label plans carry the hash alone.
"""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from sqlalchemy import Connection, Table, select

from shiftgauge.errors import FileError
from shiftgauge.monitor.db.rows import from_arrow_stream, read_batch
from shiftgauge.monitor.db.schema import (
    alerts,
    audit,
    batches,
    models,
    outbox,
    plans,
    reports,
    revisions,
    sources,
    specs,
    versions,
    windows,
)
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.settings import stored_settings

#: Tables that are written whole; secrets and payloads are left out.
WHOLE: tuple[Table, ...] = (
    models,
    specs,
    versions,
    sources,
    windows,
    revisions,
    alerts,
    outbox,
    audit,
)
LEFT_OUT = {"payload"}  # sources are written as files


def export(store: Store, folder: str | Path) -> dict[str, int]:
    """Write an export into an empty folder; how many rows each file has, by its name.

    A failed export leaves nothing; one that was killed leaves a folder named `incomplete` in it.
    """
    out = Path(folder)
    part = out / "incomplete"
    made = not out.exists()

    try:
        if not made and any(out.iterdir()):
            raise FileError(f"{folder}: is not empty; wanted a new folder")
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FileError(f"{folder}: cannot be written to ({problem.strerror}); wanted a new folder") from None
    try:
        part.mkdir()
        try:
            with store.read() as connection:
                counts = _write_all(connection, part)
        except OSError as problem:
            raise FileError(
                f"{folder}: the export failed ({problem.strerror or problem}); nothing was left there"
            ) from None
        for path in part.iterdir():
            path.rename(out / path.name)
        part.rmdir()
        return counts
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        if made:
            shutil.rmtree(out, ignore_errors=True)
        raise


def _write_all(connection: Connection, out: Path) -> dict[str, int]:
    counts: dict[str, int] = {}

    def write(name: str, table: Any) -> None:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, out / name)
        counts[name] = table.num_rows

    for table in WHOLE:
        columns = [column for column in table.c if column.name not in LEFT_OUT]
        records = connection.execute(select(*columns).order_by(table.c.id)).all()
        values = {column.name: [row[i] for row in records] for i, column in enumerate(columns)}
        if table is models:
            values["settings"] = [_without_secrets(text) for text in values["settings"]]
        write(f"{table.name}.parquet", pa.table(values))
    for row in connection.execute(select(batches).order_by(batches.c.id)).yield_per(20):
        write(f"{row.kind}/model-{row.model_id}/batch-{row.id}.parquet", _public(read_batch(row)))
    for plan in connection.execute(select(plans).order_by(plans.c.id)):
        write(f"label-requests/plan-{plan.id}.parquet", _public(from_arrow_stream(plan.payload)))
    (out / "sources").mkdir()
    for source in connection.execute(select(sources)):
        (out / "sources" / f"source-{source.id}.{source.ending}").write_bytes(source.payload)
    (out / "reports").mkdir()
    for report in connection.execute(select(reports).order_by(reports.c.revision_id)).yield_per(100):
        path = out / "reports" / f"revision-{report.revision_id}.json"
        path.write_bytes(zlib.decompress(report.body))
    return counts


def _without_secrets(text: str) -> str:
    return json.dumps(stored_settings(text).to_dict())


def _public(table: Any) -> Any:
    """Without hashes of contents; the keyed hash of the id, which labels and plans have in its place, is `id_hash`."""
    table = table.select([name for name in table.column_names if name != "content"])
    return table.rename_columns(["id_hash" if name == "key" else name for name in table.column_names])
