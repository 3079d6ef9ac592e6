"""`shiftgauge push FILE`: send a file of predictions or labels to a monitor; for cron jobs, safe to repeat."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftgauge.cli import files
from shiftgauge.errors import InputError, ShiftgaugeError
from shiftgauge.results import SCHEMA

BATCH = 10_000


def push(
    file: Annotated[Path, typer.Argument(help="Scores, or with --labels a table with ids and labels")],
    url: Annotated[
        str, typer.Option(envvar="SHIFTGAUGE_MONITOR", help="The monitor")
    ] = "http://127.0.0.1:8123",
    model: Annotated[str, typer.Option(help="The model's name in the monitor")] = "",
    version: Annotated[str, typer.Option(help="The version that made the scores")] = "",
    token: Annotated[
        str | None, typer.Option(envvar="SHIFTGAUGE_TOKEN", help="With the scope ingest")
    ] = None,
    source: Annotated[bool, typer.Option("--source", help="FILE is the version's labelled source")] = False,
    labels: Annotated[bool, typer.Option("--labels", help="FILE holds labels, by id")] = False,
    id_column: Annotated[
        str | None, typer.Option("--id", help="The column of ids; else the file's name and row")
    ] = None,
    time_column: Annotated[
        str | None, typer.Option("--time", help="The column of times; else the file's own")
    ] = None,
    segment: Annotated[
        list[str] | None, typer.Option(help="A column that is a segment; may be repeated")
    ] = None,
    patience: Annotated[
        float, typer.Option(help="Seconds to wait for a monitor that does not answer")
    ] = 60.0,
    as_json: files.AsJson = False,
) -> None:
    """Send FILE to a monitor: predictions, labels (--labels) or the labelled source (--source)."""
    if not model or (not version and not labels):
        raise InputError("push: which one? pass --model NAME and --version NAME")
    if source and labels:
        raise InputError("push: --source and --labels say different things; wanted one of them")
    from shiftgauge.monitor.client import push as pushing

    calls: Iterable[Any]
    if source:
        calls = [pushing.source_request(file, url, model, version)]
    elif labels:
        calls = pushing.label_requests(file, url, model, id_column or "id", BATCH)
    else:
        calls = pushing.row_requests(file, url, model, version, id_column, time_column, segment or [], BATCH)
    said: dict[str, Any] = {}
    for call in calls:
        for name, value in _send_with_retries(call, token, patience).items():
            pluralize = isinstance(value, int) and not isinstance(value, bool)
            said[name] = said.get(name, 0) + value if pluralize else value
    if as_json:
        typer.echo(json.dumps({"schema": SCHEMA, **said}))
    else:
        typer.echo(f"{os.fspath(file)}: {', '.join(_shown(said))}")


def _shown(said: dict[str, Any]) -> list[str]:
    """The counts of the answer, and whether the source is another one than the monitor had."""
    counts = [
        f"{value:,} {name}"
        for name, value in said.items()
        if isinstance(value, int) and not isinstance(value, bool)
    ]
    if "changed" in said:
        counts.append("stored as the source" if said["changed"] else "the same source as before")
    return counts


def _send_with_retries(call: Any, token: str | None, patience: float) -> dict[str, Any]:
    """Send until it is there, as long as the monitor only does not answer."""
    from shiftgauge.monitor.client.http import send

    until, pause = time.monotonic() + patience, 0.5
    while True:
        answer = send(call.method, call.url, call.body, token, call.kind)
        if answer.good:
            return {name: value for name, value in answer.body.items() if name in call.shown}
        if answer.status not in (0, 429, 503, 507) or time.monotonic() + pause > until:
            raise ShiftgaugeError(f"push: {answer.detail}" + (f" ({answer.status})" if answer.status else ""))
        time.sleep(pause)
        pause = min(10.0, 2 * pause)
