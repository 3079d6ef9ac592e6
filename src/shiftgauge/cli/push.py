"""`shiftgauge push predictions|labels|source FILE`: send a file to a monitor; for cron jobs, safe to repeat."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from shiftgauge.cli import options
from shiftgauge.cli.records import echo_json
from shiftgauge.cli.screen import show_progress
from shiftgauge.errors import ShiftgaugeError

BATCH = 10_000
app = typer.Typer(help="Send a file to a monitor: predictions, labels or a source.", no_args_is_help=True)

Url = Annotated[str, typer.Option(envvar="SHIFTGAUGE_MONITOR", help="Address of the monitor")]
URL = "http://127.0.0.1:8123"
Model = Annotated[str, typer.Option(help="The model's name in the monitor")]
ModelVersion = Annotated[str, typer.Option(help="The version of the model that made the scores")]
Token = Annotated[
    str | None,
    typer.Option(envvar="SHIFTGAUGE_TOKEN", help="A token with the scope ingest; admin for a source"),
]
Segment = Annotated[
    list[str] | None,
    typer.Option(help="A column of segments beside those named segment_NAME; may be repeated"),
]
Timeout = Annotated[float, typer.Option(help="Seconds to wait for a monitor that does not answer")]


@app.command(epilog="Example: shiftgauge push predictions new.parquet --model fraud --model-version v1")
def predictions(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Scores")],
    model: Model,
    model_version: ModelVersion,
    url: Url = URL,
    token: Token = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="The column of row ids; by default SHA256-ROW, of the file's content"),
    ] = None,
    time_column: Annotated[
        str | None, typer.Option("--time", help="The column of times; by default the file's time of change")
    ] = None,
    segment: Segment = None,
    timeout: Timeout = 60.0,
    as_json: options.AsJson = False,
) -> None:
    """Send the scores of new rows."""
    from shiftgauge.monitor.client.push import row_requests

    calls = row_requests(file, url, model, model_version, id_column, time_column, segment or [], BATCH)
    _send(file, calls, token, timeout, as_json)


@app.command(epilog="Example: shiftgauge push labels labels.csv --model fraud")
def labels(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A table with ids and labels")],
    model: Model,
    url: Url = URL,
    token: Token = None,
    id_column: Annotated[str, typer.Option("--id", help="The column of row ids")] = "id",
    timeout: Timeout = 60.0,
    as_json: options.AsJson = False,
) -> None:
    """Send labels of rows that were sent before."""
    from shiftgauge.monitor.client.push import label_requests

    _send(file, label_requests(file, url, model, id_column, BATCH), token, timeout, as_json)


@app.command(epilog="Example: shiftgauge push source val.csv --model fraud --model-version v1")
def source(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Scores with labels")],
    model: Model,
    model_version: ModelVersion,
    url: Url = URL,
    token: Token = None,
    segment: Segment = None,
    timeout: Timeout = 60.0,
    as_json: options.AsJson = False,
) -> None:
    """Send the labelled source of a version."""
    from shiftgauge.monitor.client.push import source_request

    _send(file, [source_request(file, url, model, model_version, segment or [])], token, timeout, as_json)


def _send(file: Path, calls: Iterable[Any], token: str | None, timeout: float, as_json: bool) -> None:
    """Send all calls, add up the counts in the answers, and print them."""
    total: dict[str, Any] = {}
    with show_progress() as progress:
        for number, call in enumerate(calls, 1):
            progress(f"sending {file}, part {number}")
            for name, value in _send_call(call, token, timeout).items():
                total[name] = total.get(name, 0) + value if type(value) is int else value
    if as_json:
        echo_json(total)
        return
    counts = [f"{value:,} {name}" for name, value in total.items() if type(value) is int]
    if "changed" in total:
        counts.append("stored as the source" if total["changed"] else "the same source as before")
    typer.echo(f"{file}: {', '.join(counts)}")


def _send_call(call: Any, token: str | None, timeout: float) -> dict[str, Any]:
    """Send one call; repeat it if the monitor does not answer or is busy."""
    from shiftgauge.monitor.client.http import send

    deadline, pause = time.monotonic() + timeout, 0.5
    while True:
        answer = send(call.method, call.url, call.body, token, call.kind)
        if answer.good:
            return {name: value for name, value in answer.body.items() if name in call.shown}
        if answer.status not in (0, 429, 503, 507) or time.monotonic() + pause > deadline:
            raise ShiftgaugeError(f"push: {answer.detail}" + (f" ({answer.status})" if answer.status else ""))
        time.sleep(pause)
        pause = min(10.0, 2 * pause)
