"""Figures of one source and one target: confidence, class proportions, transport costs, reliability.

Each is drawn from a small table of `shiftgauge.plots.evidence`; `draw_*` takes the table, the plain name
takes the samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shiftgauge.calibration import fit_calibration
from shiftgauge.labelshift import Marginal
from shiftgauge.methods import Pair
from shiftgauge.plots.evidence import (
    confidence_table,
    costs_table,
    proportions_table,
    reliability_table,
)
from shiftgauge.plots.style import INK, PALETTE, hover, legend, one_panel, percent
from shiftgauge.results import shortened
from shiftgauge.rows import Rows, to_source
from shiftgauge.samples import Source, Target

SOURCE, TARGET = PALETTE[0], PALETTE[1]
#: More classes than this are not drawn: those that changed most are.
MOST_CLASSES = 12
#: A longer name of a class is cut.
LONGEST_NAME = 22
WIDTH, HEIGHT = 4.6, 3.2


def confidence(source: Source | Rows, target: Target | Rows, *, calibration: str = "temperature") -> Any:
    """How sure the model is on source and on target: two histograms of (calibrated) confidence."""
    pair = Pair(source, target, calibration, function="plots")
    return draw_confidence(confidence_table(pair), pair.calibration.name)


def proportions(source: Source | Rows, target: Target | Rows, *, calibration: str = "temperature") -> Any:
    """Class shares: source labels and predictions, target predictions, estimated target labels."""
    return draw_proportions(proportions_table(Pair(source, target, calibration, function="plots")))


def costs(
    source: Source | Rows,
    target: Target | Rows,
    *,
    calibration: str = "temperature",
    marginal: Marginal = "source",
) -> Any:
    """Transport costs of source and target rows with the threshold that COTT learned on the source."""
    return draw_costs(costs_table(Pair(source, target, calibration, function="plots"), marginal))


def reliability(source: Source | Rows, *, calibration: str = "temperature") -> Any:
    """Accuracy against confidence on the source, before and after calibration; the diagonal is perfect."""
    sample = to_source(source, "plots.reliability")
    return draw_reliability(reliability_table(sample, fit_calibration(calibration, sample)))


def draw_confidence(table: dict[str, Any], calibration: str) -> Any:
    """Draw `evidence.confidence_table`, of scores with this calibration."""
    figure, ax = one_panel(WIDTH, HEIGHT)
    _steps(ax, table)
    for name, colour, style in (("source", SOURCE, "-"), ("target", TARGET, "--")):
        mean = table[f"{name}_mean"]
        ax.axvline(mean, color=colour, linestyle=style, linewidth=1.2, label=f"mean on {name}, {mean:.1%}")
    xlabel = (
        "confidence in the prediction" if calibration == "none" else "calibrated confidence in the prediction"
    )
    ax.set(xlabel=xlabel, ylabel="share of rows", xlim=(0, 1), ylim=(0, None))
    percent(ax.yaxis)
    percent(ax.xaxis)
    legend(figure)
    return figure


def draw_costs(table: dict[str, Any]) -> Any:
    """Draw `evidence.costs_table`; shares on a logarithmic scale, because most rows cost almost 0."""
    figure, ax = one_panel(WIDTH, HEIGHT)
    _steps(ax, table)
    cut = table["threshold"]
    ax.axvline(cut, color=INK, linestyle=":", linewidth=1.5, label=f"threshold {cut:.2f}")
    ax.axvspan(min(cut, 1.0), 1.0, color=INK, alpha=0.08, linewidth=0)
    ax.set_yscale("log")
    ax.set(xlabel="transport cost of a row", ylabel="share of rows (log scale)", xlim=(0, 1))
    legend(figure, columns=3)
    return figure


def draw_proportions(table: dict[str, Any]) -> Any:
    """Draw `evidence.proportions_table`: a line of four marks per class, the most changed classes first."""
    series = (
        ("source_labels", "source labels", PALETTE[0], "o"),
        ("source_predictions", "source predictions", PALETTE[5], "s"),
        ("target_predictions", "target predictions", PALETTE[1], "^"),
        ("estimated_target_labels", "target labels, if only proportions changed", PALETTE[2], "D"),
    )
    shares = np.array([table[key] for key, *_ in series])
    shown = most_changed(table)
    figure, ax = one_panel(WIDTH, 1.5 + 0.24 * len(shown))
    places = np.arange(len(shown))[::-1]
    ax.hlines(
        places, shares[:, shown].min(axis=0), shares[:, shown].max(axis=0), color=INK, alpha=0.35, linewidth=1
    )
    for (_, label, colour, marker), row in zip(series, shares, strict=True):
        ax.plot(row[shown], places, marker, color=colour, markersize=5.5, alpha=0.9, label=label)
    for place, j in zip(places, shown, strict=True):
        each = ", ".join(f"{label} {row[j]:.1%}" for (_, label, *_), row in zip(series, shares, strict=True))
        hover(ax.axhspan(place - 0.5, place + 0.5, alpha=0.0), f"{table['classes'][j]}: {each}")
    ax.set_yticks(places, [shortened(table["classes"][j], LONGEST_NAME) for j in shown])
    for label in ax.get_yticklabels():
        label.set_parse_math(False)
    ax.set(xlabel="share of rows", xlim=(0, None), ylim=(-0.7, len(shown) - 0.3))
    percent(ax.xaxis)
    legend(figure)
    return figure


def draw_reliability(table: dict[str, Any]) -> Any:
    """Draw `evidence.reliability_table`; larger marks hold more rows."""
    figure, ax = one_panel(WIDTH, HEIGHT)
    ax.plot([0, 1], [0, 1], color=INK, linewidth=1, alpha=0.5)
    parts = [("before", TARGET, "s", "--"), ("after", SOURCE, "o", "-")]
    for name, colour, marker, style in parts if table["calibration"] != "none" else parts[1:]:
        curve = table[name]
        text = "as the scores came" if name == "before" or table["calibration"] == "none" else "calibrated"
        ax.plot(curve["confidence"], curve["accuracy"], style, color=colour, linewidth=1, alpha=0.7)
        size = 12 + 160 * np.sqrt(curve["mass"])
        ax.scatter(
            curve["confidence"],
            curve["accuracy"],
            size,
            color=colour,
            marker=marker,
            alpha=0.75,
            linewidth=0,
            label=f"{text}: off by {curve['ece']:.1%} on average",
        )
        for x, y, mass in zip(curve["confidence"], curve["accuracy"], curve["mass"], strict=True):
            words = f"confidence {x:.1%}, accuracy {y:.1%}, {mass:.1%} of the rows, {text}"
            hover(ax.scatter([x], [y], 220, alpha=0.0), words)
    ax.set(xlabel="confidence on the source", ylabel="accuracy on the source", xlim=(0, 1.02), ylim=(0, 1.04))
    percent(ax.xaxis)
    percent(ax.yaxis)
    for handle in legend(figure, columns=1).legend_handles:
        handle.set_sizes([30])
    return figure


def most_changed(table: dict[str, Any]) -> list[int]:
    """Up to `MOST_CLASSES` classes: in their own order where all fit, else those that changed most."""
    k = len(table["classes"])
    if k <= MOST_CLASSES:
        return list(range(k))
    change = np.abs(np.subtract(table["target_predictions"], table["source_predictions"]))
    return [int(j) for j in np.argsort(-change, kind="stable")[:MOST_CLASSES]]


def _steps(ax: Any, table: dict[str, Any]) -> None:
    for name, colour, style in (("source", SOURCE, "-"), ("target", TARGET, "--")):
        ax.stairs(table[name], table["edges"], fill=True, color=colour, alpha=0.22, linewidth=0)
        ax.stairs(table[name], table["edges"], color=colour, linestyle=style, linewidth=1.6, label=name)
    edges = table["edges"]
    for low, high, source, target in zip(
        edges[:-1], edges[1:], table["source"], table["target"], strict=True
    ):
        text = f"{low:.2f} to {high:.2f}: {source:.1%} of the source, {target:.1%} of the target"
        hover(ax.axvspan(low, high, alpha=0.0), text)
