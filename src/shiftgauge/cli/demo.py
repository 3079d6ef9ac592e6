"""`shiftgauge demo`: every method on recorded predictions that ship with the package."""

from __future__ import annotations

import json
import re
from typing import Any

import typer

from shiftgauge.cli import options
from shiftgauge.cli.screen import console, plain_table, show_progress
from shiftgauge.results import SCHEMA


def demo(as_json: options.AsJson = False) -> None:
    """Run all methods on real recorded predictions under shifts from mild to severe, beside the truth."""
    with show_progress() as progress:
        results = _run(progress)
    if as_json:
        typer.echo(json.dumps(results, allow_nan=False))
    else:
        _print(results)


#: Not in the table: `unchanged` is in the text below, and `cbpe` is nearly equal to AC.
LEFT_OUT = ("unchanged", "cbpe")


def _run(progress: Any) -> dict[str, Any]:
    import numpy as np

    from shiftgauge.inference import compare
    from shiftgauge.io import demo_data
    from shiftgauge.methods import METHODS

    recorded = demo_data()
    source = recorded.source
    shifts: list[dict[str, Any]] = []
    for shift, target in recorded.targets.items():
        progress(shift)
        answer = compare(source, target, truth=recorded.labels)
        errors = {e.method: e.error for e in answer if e.error is not None}
        shifts.append({"shift": shift, "true_error": answer.true_error, "estimates": errors})
    methods = [name for name in METHODS if name in shifts[0]["estimates"]]
    mae = {m: float(np.mean([abs(s["estimates"][m] - s["true_error"]) for s in shifts])) for m in methods}
    worst = {m: float(np.max([abs(s["estimates"][m] - s["true_error"]) for s in shifts])) for m in methods}
    return {
        "schema": SCHEMA,
        "source": {"n": source.n, "k": source.k, "error": source.error},
        "shifts": shifts,
        "mae": mae,
        "worst": worst,
    }


def _print(results: dict[str, Any]) -> None:
    from rich.text import Text

    from shiftgauge.methods import METHODS

    methods = [method for method in results["mae"] if method not in LEFT_OUT]
    table = plain_table(padding=(0, 1, 0, 0))
    table.add_column("shift")
    table.add_column("truth", justify="right", style="bold")
    for method in methods:  # headings of two lines where one would not leave room in 80 columns
        table.add_column(re.sub("[ -]", "\n", METHODS[method].title, count=1), justify="right")
    for row in results["shifts"]:
        truth = row["true_error"]
        cells = [_shaded(row["estimates"][m], truth) for m in methods]
        table.add_row(row["shift"].replace("_", " "), f"{100 * truth:.1f}", *cells)
    table.add_row()
    best = min(results["mae"][method] for method in methods)
    for label, key in (("MAE", "mae"), ("worst", "worst")):
        values = [results[key][m] for m in methods]
        style = ["bold green" if key == "mae" and v == best else "bold" for v in values]
        cells = [Text(f"{100 * v:.1f}", style=s) for v, s in zip(values, style, strict=True)]
        table.add_row(Text(label, style="bold"), "", *cells)
    out = console()
    out.print("Estimated error in percent, beside the true error, on 10 kinds of clothing (Fashion-MNIST):\n")
    out.print(table)
    source_error = results["source"]["error"]
    out.print(
        f"\nA small network was wrong on {100 * source_error:.1f}% of photographs like its training data, then got "
        "blurred, faded, moved or noisy ones. Without new labels the transport methods (COT, COTT, SCOT) follow the "
        "true error; average confidence (AC) is far below it. MAE: mean absolute error in percentage points."
    )
    out.print(
        "On your own files: shiftgauge compare SOURCE.npz TARGET.npz, where both hold logits or probs "
        "and SOURCE also labels (CSV, Parquet, Arrow too: shiftgauge compare --help)."
    )


def _shaded(estimate: float, truth: float) -> Any:
    from rich.text import Text

    error = abs(estimate - truth)
    style = "green" if error <= 0.02 else "red" if error > 0.1 else ""
    return Text(f"{100 * estimate:.1f}", style=style)
