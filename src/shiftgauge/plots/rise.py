"""The figure of the drivers: for each column, both parts of the rise in error with their ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from shiftgauge.inference import Drivers
from shiftgauge.plots.style import INK, PALETTE, legend, one_panel, percent

#: Only so many columns are drawn, those that changed most.
MOST_COLUMNS = 12


def drivers(result: Drivers, *, width: float = 6.4) -> Any:
    """The two parts of the estimated rise by each column: the change of its mix of slices, and the change within them.

    Args:
        result: what `shiftgauge.drivers` returned; the 12 columns that changed most are drawn.
        width: of the figure, in inches.
    """
    shown = result.columns[:MOST_COLUMNS]
    figure, ax = one_panel(width, 1.1 + 0.42 * len(shown))
    places = np.arange(len(shown))[::-1]
    parts = (
        ("mix change", "mix", PALETTE[0], 0.18),
        ("within-slice change", "within", PALETTE[1], -0.18),
    )
    for title, name, colour, shift in parts:
        values = np.array([getattr(driver, name) for driver in shown])
        ax.barh(places + shift, values, height=0.32, color=colour, label=title)
        for place, driver in zip(places, shown, strict=True):
            ends = getattr(driver, f"{name}_range")
            if ends is not None:
                ax.plot([ends.low, ends.high], [place + shift] * 2, color=INK, linewidth=1.1)
    ax.axvline(0.0, color=INK, linewidth=1)
    ax.axvline(
        result.rise, color=INK, linewidth=1, linestyle="--", label=f"rise, {100 * result.rise:+.1f} points"
    )
    names = [f"{driver.column} (change {driver.distance:.2f})" for driver in shown]
    ax.set_yticks(places, names)
    for label in ax.get_yticklabels():
        label.set_parse_math(False)
    ax.set_xlabel("part of the estimated rise in error")
    percent(ax.xaxis)
    legend(figure, columns=3, side="center")
    return figure
