"""`shiftgauge demo`: auto beside the truth on recorded predictions that ship with the package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shiftgauge.cli import options
from shiftgauge.cli.records import echo_json
from shiftgauge.cli.screen import console, plain_table, show_progress, wrapped

if TYPE_CHECKING:
    from shiftgauge.results import Estimate

#: Labels of the second answer, and the seed by which their rows are chosen.
LABELS, SEED = 20, 0


def demo(as_json: options.AsJson = False) -> None:
    """Estimate the error under shifts from mild to severe, without labels and with 20, beside the truth.

    The predictions are recorded, of a small network on photographs of clothing.
    """
    with show_progress() as progress:
        results = _run(progress)
    if as_json:
        echo_json(results)
    else:
        _print(results)


def _run(progress: Any) -> dict[str, Any]:
    import numpy as np

    from shiftgauge.inference import compare, label_plan
    from shiftgauge.io import demo_data
    from shiftgauge.methods import METHODS, Pair

    recorded = demo_data()
    source = recorded.source
    shifts: list[dict[str, Any]] = []
    for shift, target in recorded.targets.items():
        progress(shift)
        pair = Pair(source, target, function="demo")
        answer = compare(pair, truth=recorded.labels)
        plan = label_plan(pair, n=LABELS, seed=SEED)
        labels = {row: recorded.labels[row] for row in plan.rows.tolist()}
        after = Pair(source, target, labels=labels, labels_chosen=plan, function="demo").estimate("auto")
        shifts.append(
            {
                "shift": shift,
                "true_error": answer.true_error,
                "estimates": {e.method: e.error for e in answer if e.error is not None},
                "auto": _answer(answer["auto"]),
                "with_labels": _answer(after),
            }
        )
    methods = [name for name in METHODS if name in shifts[0]["estimates"]]
    misses = {m: [abs(s["estimates"][m] - s["true_error"]) for s in shifts] for m in methods}
    misses["with_labels"] = [abs(s["with_labels"]["error"] - s["true_error"]) for s in shifts]
    return {
        "source": {"n": source.n, "k": source.k, "error": source.error},
        "labels": LABELS,
        "shifts": shifts,
        "mae": {name: float(np.mean(values)) for name, values in misses.items()},
        "worst": {name: float(np.max(values)) for name, values in misses.items()},
    }


def _answer(one: Estimate) -> dict[str, Any]:
    assert one.range is not None
    return {"error": one.error, "low": one.range.low, "high": one.range.high}


def _print(results: dict[str, Any]) -> None:
    from rich.text import Text

    table = plain_table(["shift"], padding=(0, 2, 0, 0))
    table.add_column("truth", justify="right", style="bold")
    for heading in ("average\nconfidence", "auto", "90% range", f"auto with\n{LABELS} labels", "90% range"):
        table.add_column(heading, justify="right")
    for row in results["shifts"]:
        truth = row["true_error"]
        table.add_row(
            row["shift"].replace("_", " "),
            f"{100 * truth:.1f}",
            _shaded(row["estimates"]["ac"], truth),
            *_cells(row["auto"], truth),
            *_cells(row["with_labels"], truth),
        )
    table.add_row()
    mae, worst = results["mae"], results["worst"]
    for label, values in (("MAE", mae), ("worst", worst)):
        ac, auto, after = (
            Text(f"{100 * values[m]:.1f}", style="bold") for m in ("ac", "auto", "with_labels")
        )
        table.add_row(Text(label, style="bold"), "", ac, auto, "", after, "")
    out = console()
    out.print("Error of a classifier of clothing (Fashion-MNIST) in percent, and the truth\n")
    out.print(table)
    shifts = len(results["shifts"])
    text = (
        f"A small network was wrong on {100 * results['source']['error']:.1f}% of photographs like its training "
        "data, then got blurred, faded, moved or noisy ones. auto sees their scores, then also the labels of "
        f"{LABELS} rows of each. The truth is in {_covered(results, 'auto')} of {shifts} ranges without labels and in "
        f"{_covered(results, 'with_labels')} of {shifts} with; labels narrow them from {_width(results, 'auto')} to "
        f"{_width(results, 'with_labels')} points in mean. MAE: mean absolute error in percentage points."
    )
    for line in ("", *wrapped("", text), "", "On your own files (SOURCE has logits or probs and labels):"):
        out.print(line)
    out.print("  shiftgauge estimate SOURCE.csv TARGET.csv")


def _width(results: dict[str, Any], key: str) -> str:
    widths = [row[key]["high"] - row[key]["low"] for row in results["shifts"]]
    return f"{100 * sum(widths) / len(widths):.0f}"


def _covered(results: dict[str, Any], key: str) -> int:
    return sum(row[key]["low"] <= row["true_error"] <= row[key]["high"] for row in results["shifts"])


def _cells(answer: dict[str, Any], truth: float) -> tuple[Any, str]:
    return _shaded(answer["error"], truth), f"{100 * answer['low']:.0f} to {100 * answer['high']:.0f}"


def _shaded(estimate: float, truth: float) -> Any:
    from rich.text import Text

    error = abs(estimate - truth)
    style = "green" if error <= 0.02 else "red" if error > 0.1 else ""
    return Text(f"{100 * estimate:.1f}", style=style)
