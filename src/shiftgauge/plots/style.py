"""What all figures share: the palette, and axes without clutter."""

from __future__ import annotations

from typing import Any

#: Okabe and Ito's palette without black and yellow.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK = "#333333"
#: Points of the letters on axes and in legends.
SMALL = 8
#: How the ids of artists begin that have a text for the pointer.
HOVER = "hover: "


def axes(
    columns: int = 1, rows: int = 1, width: float = 3.6, height: float = 3.4, **options: Any
) -> tuple[Any, Any]:
    """A figure and its axes in an array of shape (rows, columns), frames reduced to two sides."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    for one in grid.flat:
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(colors=INK)
    return figure, grid


def one_panel(width: float, height: float) -> tuple[Any, Any]:
    """A figure of one panel, and its axes with small letters."""
    figure, grid = axes(1, width=width, height=height)
    ax = grid[0, 0]
    ax.tick_params(labelsize=SMALL)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set(size=SMALL + 1, color=INK)
    for side in ax.spines.values():
        side.set_color(INK)
    return figure, ax


def legend(figure: Any, columns: int = 2, side: str = "left") -> Any:
    """A legend above the axes, where nothing that is drawn runs through its words."""
    return figure.legend(
        frameon=False, fontsize=SMALL, ncols=columns, loc=f"outside upper {side}", labelcolor=INK
    )


def percent(axis: Any) -> None:
    """Print fractions as percent on an axis."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1, decimals=0))


def hover(artist: Any, text: str) -> None:
    """Give an artist a text that a page shows when the pointer is over it (`shiftgauge.reports`)."""
    artist.set_gid(f"{HOVER}{text}")
