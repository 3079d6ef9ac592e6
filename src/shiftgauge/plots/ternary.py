"""The AC-COT triangle, drawn to the lengths measured for a source and a target."""

from __future__ import annotations

from typing import Any

import numpy as np

from shiftgauge.plots.style import INK, PALETTE, axes


def triangle(
    ac: float, cot: float, pseudo_shift: float, true_error: float | None = None, title: str = ""
) -> Any:
    """Draw the triangle of scores, pseudo-labels and labels in the Wasserstein space.

    Its sides are distances: scores to pseudo-labels is AC, scores to source labels is COT, pseudo-labels
    to source labels is the pseudo-label shift. By the triangle inequality it always closes; COT >= AC.
    All in fractions.
    """
    figure, grid = axes(1, width=5.0, height=4.0)
    ax = grid[0, 0]
    pseudo, labels = np.array([0.0, 0.0]), np.array([pseudo_shift, 0.0])
    scores = _apex(ac, cot, pseudo_shift)
    for a, b, colour, text in (
        (scores, pseudo, PALETTE[1], f"AC {ac:.1%}"),
        (scores, labels, PALETTE[0], f"COT {cot:.1%}"),
        (pseudo, labels, PALETTE[2], f"pseudo-label shift {pseudo_shift:.1%}"),
    ):
        ax.plot(*zip(a, b, strict=True), color=colour, linewidth=2.5, solid_capstyle="round", label=text)
    size = max(ac, cot, pseudo_shift, 1e-6)
    for point, text, offset in (
        (scores, "scores", (0, 9)),
        (pseudo, "pseudo-labels", (0, -17)),
        (labels, "source labels", (0, -17)),
    ):
        ax.plot(*point, "o", color=INK, markersize=6)
        ax.annotate(text, point, offset, textcoords="offset points", ha="center", color=INK)
    ax.set(xlim=(-0.45 * size, pseudo_shift + 0.45 * size), ylim=(-0.25 * size, scores[1] + 0.25 * size))
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.06), ncols=3, fontsize=9)
    truth = "" if true_error is None else f"true error {true_error:.1%}"
    ax.set_title(", ".join(part for part in (title, truth) if part), fontsize=11)
    return figure


def _apex(ac: float, cot: float, base: float) -> Any:
    if base <= 0:
        return np.array([0.0, ac])
    x = (ac**2 - cot**2 + base**2) / (2 * base)
    return np.array([x, np.sqrt(max(ac**2 - x**2, 0.0))])
