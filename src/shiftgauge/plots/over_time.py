"""The figure of a timeline: estimates with their ranges per period, and observed errors beside them."""

from __future__ import annotations

from typing import Any

import numpy as np

from shiftgauge.errors import InputError
from shiftgauge.plots.style import INK, PALETTE, SMALL, axes, percent

#: Names of periods under the axis, at most.
MOST_NAMES = 10


def timeline(result: Any, *, width: float = 7.2) -> Any:
    """The estimated error of each period with its range, the observed error where labels are, and the source error.

    Args:
        result: what `shiftgauge.timeline` returned. Periods without rows leave a gap.
        width: of the figure, in inches.
    """
    periods = result.periods
    places = [place for place, period in enumerate(periods) if period.error is not None]
    if not places:
        raise InputError("plots.timeline: no period has an estimated error; wanted at least one")
    figure, grid = axes(1, width=width, height=3.2)
    ax = grid[0, 0]
    ax.axhline(result.source_error, color=INK, linestyle="--", linewidth=1, label="source error")
    values = np.array([np.nan if p.error is None else p.error for p in periods])
    low, high = (
        np.array([np.nan if end is None else end for end in ends])
        for ends in ([p.low for p in periods], [p.high for p in periods])
    )
    x = np.arange(len(periods))
    if not np.isnan(low).all():
        ax.errorbar(
            x, values, yerr=[values - low, high - values], fmt="none", ecolor=PALETTE[0], elinewidth=2.2, alpha=0.45,
            label=f"{100 * result.level:g}% range",
        )  # fmt: skip
    ax.plot(x, values, "-o", color=PALETTE[0], markersize=5, linewidth=1.2, label="estimated error")
    observed = np.array([np.nan if p.observed is None else p.observed for p in periods])
    if not np.isnan(observed).all():
        ax.plot(x, observed, "D", color=PALETTE[1], markersize=5, label="observed error")
    step = max(1, -(-len(periods) // MOST_NAMES))
    names = [period.name for period in periods]
    ax.set_xticks(
        x[::step],
        names[::step],
        rotation=30 if len(names) > 4 else 0,
        ha="right" if len(names) > 4 else "center",
    )
    top = max(np.nanmax(values), np.nanmax([*high, 0.0]), np.nanmax([*observed, 0.0]), result.source_error)
    ax.set(ylim=(0, min(1.02, 1.15 * max(0.05, float(top)))), xlim=(-0.5, len(periods) - 0.5))
    ax.tick_params(labelsize=SMALL)
    percent(ax.yaxis)
    figure.legend(frameon=False, fontsize=SMALL, loc="outside upper center", ncols=4, labelcolor=INK)
    return figure
