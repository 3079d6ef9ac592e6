"""The figure of a timeline: estimates with their ranges per period, and observed errors beside them."""

from __future__ import annotations

from typing import Any

import numpy as np

from shiftgauge.errors import InputError
from shiftgauge.plots.style import INK, PALETTE, legend, one_panel, percent

#: Names of periods under the axis, at most.
MOST_NAMES = 10


def timeline(result: Any, *, width: float = 7.2) -> Any:
    """The estimated error of each period with its range, the observed error where labels are, and the source error.

    Args:
        result: what `shiftgauge.timeline` returned. Periods without rows leave a gap.
        width: of the figure, in inches.
    """
    periods = result.periods
    values, low, high, observed = (  # None becomes NaN
        np.array([getattr(period, name) for period in periods], float)
        for name in ("error", "low", "high", "observed")
    )
    if np.isnan(values).all():
        raise InputError("plots.timeline: no period has an estimated error; wanted at least one")
    figure, ax = one_panel(width, 3.2)
    ax.axhline(result.source_error, color=INK, linestyle="--", linewidth=1, label="source error")
    x = np.arange(len(periods))
    if not np.isnan(low).all():
        ax.errorbar(
            x, values, yerr=[values - low, high - values], fmt="none", ecolor=PALETTE[0], elinewidth=2.2, alpha=0.45,
            label=f"{100 * result.level:g}% range",
        )  # fmt: skip
    ax.plot(x, values, "-o", color=PALETTE[0], markersize=5, linewidth=1.2, label="estimated error")
    if not np.isnan(observed).all():
        ax.plot(x, observed, "D", color=PALETTE[1], markersize=5, label="observed error")
    step = max(1, -(-len(periods) // MOST_NAMES))
    names = [period.name for period in periods]
    slant = {"rotation": 30, "ha": "right"} if len(names) > 4 else {}
    ax.set_xticks(x[::step], names[::step], **slant)
    top = np.nanmax([*values, *high, *observed, result.source_error, 0.05])
    ax.set(ylim=(0, min(1.02, 1.15 * float(top))), xlim=(-0.5, len(periods) - 0.5))
    percent(ax.yaxis)
    legend(figure, columns=4, side="center")
    return figure
