"""Results in MLflow: numbers as metrics, the table, the JSON and the report as artifacts of a run."""

from __future__ import annotations

import re
import time
from typing import Any

from shiftgauge._version import __version__
from shiftgauge.errors import InputError, optional
from shiftgauge.reports import Report
from shiftgauge.results import Result, Table

#: What MLflow does not take in the name of a metric.
_REFUSED = re.compile(r"[^\w\-. /]")


def log_mlflow(result: Result, *, name: str | None = None, run_id: str | None = None) -> str:
    """Log a result to MLflow: its numbers, its table, its JSON, and the page of a report.

    Numbers are metrics `NAME.error`, `NAME.range.low`, `NAME.range.high` and so on; of a comparison
    `NAME.METHOD.error`; of a timeline one step per period. Artifacts are in the folder `shiftgauge`: `NAME.json`, of a
    table `NAME-table.json`, which MLflow shows as a table, and of a report `NAME.html`.

    Args:
        result: what a function of shiftgauge returned.
        name: the first part of every name; by default the kind of result, such as `estimate`.
        run_id: the run to log to; by default the active run, or a new one.

    Returns:
        The id of the run.

    >>> import shiftgauge as sg
    >>> sg.log_mlflow(0.1)
    Traceback (most recent call last):
    shiftgauge.errors.InputError: log_mlflow: arrived float; wanted a result, such as that of shiftgauge.estimate
    """
    if not isinstance(result, Result):
        raise InputError(
            f"log_mlflow: arrived {type(result).__name__}; wanted a result, such as that of shiftgauge.estimate"
        )
    mlflow = optional("mlflow", extra="mlflow", purpose="log_mlflow")
    run = run_id or (mlflow.active_run() or mlflow.start_run()).info.run_id
    name = type(result).__name__.lower() if name is None else name
    client, now = mlflow.MlflowClient(), time.time_ns() // 1_000_000
    metrics = [
        mlflow.entities.Metric(_REFUSED.sub("_", f"{name}.{key}"), float(value), now, step)
        for key, values in result.numbers().items()
        for step, value in enumerate(values)
        if value is not None
    ]
    for first in range(0, len(metrics), 1000):  # as many as MLflow takes at once
        client.log_batch(run, metrics=metrics[first : first + 1000])
    client.set_tag(run, "shiftgauge.version", __version__)
    client.log_dict(run, result.to_dict(), f"shiftgauge/{name}.json")
    if isinstance(result, Table):
        client.log_table(run, _plain_table(result), f"shiftgauge/{name}-table.json")
    if isinstance(result, Report):
        client.log_text(run, result.to_html(), f"shiftgauge/{name}.html")
    return str(run)


def _plain_table(result: Table) -> dict[str, list[Any]]:
    """The table by columns; lists and dictionaries as texts, as MLflow shows them."""
    records = result.records()
    return {
        column: [
            one[column] if isinstance(one[column], str | int | float | None) else str(one[column])
            for one in records
        ]
        for column in records[0]
    }
