"""Figures of many shifts at once: estimate against truth, miss against pseudo-label shift, cost distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shiftgauge.plots.style import INK, MARKERS, PALETTE, axes, percent


def scatter(points: Mapping[str, tuple[ArrayLike, ArrayLike]], title: str = "") -> Any:
    """Estimated error against true error, one panel a method; the dashed line is a perfect estimate.

    points: method -> (estimates, true errors), fractions.
    """
    figure, panels = _panels_against_truth(len(points))
    for number, (ax, (name, (estimates, truths))) in enumerate(zip(panels, points.items(), strict=True)):
        estimated, true = np.asarray(estimates, float), np.asarray(truths, float)
        ax.scatter(estimated, true, s=14, color=PALETTE[number % 6], marker=MARKERS[number % 6], alpha=0.7)
        ax.set_title(f"{name}: MAE {100 * np.abs(estimated - true).mean():.2f}", fontsize=10)
    top = max(float(np.max(np.asarray(v, float))) for pair in points.values() for v in pair)
    panels[0].set(xlim=(0, min(1, 1.05 * top)), ylim=(0, min(1, 1.05 * top)))
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def scatter_sets(points: Mapping[str, Mapping[str, tuple[ArrayLike, ArrayLike]]]) -> Any:
    """Estimated error against true error over many data sets: a panel a method, a colour a data set.

    points: method -> data set -> (estimates, true errors), fractions.
    """
    names = list(dict.fromkeys(name for sets in points.values() for name in sets))
    figure, panels = _panels_against_truth(len(points))
    for ax, (method, sets) in zip(panels, points.items(), strict=True):
        for name, (estimates, truths) in sets.items():
            place = names.index(name)
            colour, marker = PALETTE[place % 6], MARKERS[place % 6]
            ax.scatter(estimates, truths, s=10, color=colour, marker=marker, alpha=0.6, label=name)
        ax.set_title(method, fontsize=10)
    panels[0].set(xlim=(0, 1), ylim=(0, 1))
    panels[0].legend(frameon=False, fontsize=7, loc="lower right")
    return figure


def _panels_against_truth(count: int) -> tuple[Any, list[Any]]:
    """Up to three panels a row with the same axes and the diagonal.

    The axes are named once, at the left and at the foot; "100%" keeps away from the next "0%".
    """
    from matplotlib.ticker import MaxNLocator

    columns = min(3, count)
    figure, grid = axes(columns, -(-count // columns), width=3.0, height=3.0, sharex=True, sharey=True)
    for number, ax in enumerate(grid.flat):
        if number >= count:
            ax.set_axis_off()
            continue
        ax.plot([0, 1], [0, 1], "--", color=INK, linewidth=1, zorder=1)
        last = number + columns >= count
        ax.set(xlabel="estimated error" if last else "", ylabel="" if number % columns else "true error")
        ax.tick_params(labelsize=8, labelbottom=last)
        for axis in (ax.xaxis, ax.yaxis):
            percent(axis)
            axis.set_major_locator(MaxNLocator(5))
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.06)
    return figure, list(grid.flat)[:count]


def against_pseudo_shift(
    points: Mapping[str, tuple[ArrayLike, ArrayLike]],
    ylabel: str = "absolute error of the estimate",
    title: str = "",
) -> Any:
    """Absolute error of the estimate against pseudo-label shift, one panel a method, with their correlation.

    points: method -> (pseudo-label shifts, absolute errors), fractions.
    """
    figure, grid = axes(len(points), width=3.3, height=3.2, sharex=True, sharey=True)
    for number, (name, (shifts, errors)) in enumerate(points.items()):
        x, y = np.asarray(shifts, float), np.asarray(errors, float)
        ax = grid[0, number]
        ax.scatter(x, y, s=14, color=PALETTE[number % 6], marker=MARKERS[number % 6], alpha=0.7)
        varied = len(x) > 2 and np.ptp(x) > 0 and np.ptp(y) > 0
        if varied:
            slope, intercept = np.polyfit(x, y, 1)
            ends = np.array([x.min(), x.max()])
            ax.plot(ends, slope * ends + intercept, color=INK, linewidth=1)
        r = f", r = {np.corrcoef(x, y)[0, 1]:.2f}" if varied else ""
        ax.set_title(name + r, fontsize=10)
        ax.set_xlabel("pseudo-label shift (total variation)")
        percent(ax.xaxis)
        percent(ax.yaxis)
    grid[0, 0].set_ylabel(ylabel)
    grid[0, 0].set_ylim(bottom=0)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def cost_distribution(
    panels: Sequence[tuple[str, ArrayLike, ArrayLike, float]], true_error: float, title: str = ""
) -> Any:
    """Histograms of costs on source and target with the threshold learned on the source.

    panels: (name, source costs, target costs, threshold); e.g. AC/ATC with 1 - confidence, COT/COTT with
    transport costs. The caption gives the mean (AC, COT) and the share beyond the threshold (ATC, COTT).
    """
    figure, grid = axes(len(panels), width=4.2, height=3.2, sharex=True)
    bins = np.linspace(0, 1, 41)
    for number, (name, source, target, threshold) in enumerate(panels):
        a, b = np.asarray(source, float), np.asarray(target, float)
        ax = grid[0, number]
        for values, colour, label in ((a, PALETTE[0], "source"), (b, PALETTE[1], "target")):
            weights = np.full(len(values), 1 / max(len(values), 1))
            ax.hist(values, bins, weights=weights, color=colour, alpha=0.55, label=label)
        ax.axvline(threshold, color=INK, linestyle="--", linewidth=1, label=f"threshold {threshold:.2f}")
        ax.set_yscale("log")
        ax.set_title(
            f"{name}\nmean {b.mean():.1%}, beyond threshold {(b >= threshold).mean():.1%}", fontsize=9
        )
        ax.set_xlabel("cost of a row: distance to its label")
        ax.legend(frameon=False, fontsize=8, loc="upper right")
    grid[0, 0].set_ylabel("share of rows (log scale)")
    figure.suptitle(f"{title + ': ' if title else ''}true error {true_error:.1%}", fontsize=11)
    return figure
