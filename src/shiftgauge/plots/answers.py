"""Figures of answers: several methods side by side, and estimates against the truth over many shifts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shiftgauge.errors import InputError
from shiftgauge.methods import METHODS
from shiftgauge.plots.style import INK, MARKERS, PALETTE, SMALL, hover, legend, one_panel, percent
from shiftgauge.results import Comparison, Estimate


def estimates(
    answers: Comparison | Sequence[Estimate], *, highlight: str | None = None, width: float = 4.6
) -> Any:
    """Each method's estimated error with its range, or its interval if it was asked for; scores are left out.

    Args:
        answers: a `Comparison` (whose true error, where known, is drawn as a line), or a list of estimates.
        highlight: the method to draw in another colour.
        width: of the figure, in inches.
    """
    truth = answers.true_error if isinstance(answers, Comparison) else None
    shown = [
        e for e in (answers.estimates if isinstance(answers, Comparison) else answers) if e.error is not None
    ]
    if not shown:
        raise InputError(
            "plots.estimates: no estimates of an error arrived; wanted at least one that is no score"
        )
    figure, ax = one_panel(width, 0.8 + 0.26 * len(shown))
    places = np.arange(len(shown))[::-1]
    for place, one in zip(places, shown, strict=True):
        chosen = one.method == highlight
        colour = PALETTE[1] if chosen else PALETTE[0]
        text = f"{_title(one.method)}: {one.error:.1%}"
        ends = one.shown_range
        if ends is not None:
            ax.plot([ends.low, ends.high], [place, place], color=colour, linewidth=2.2, alpha=0.6)
            text += f", {ends.low:.1%} to {ends.high:.1%}"
        ax.plot(one.error, place, "D" if chosen else "o", color=colour, markersize=6)
        hover(ax.axhspan(place - 0.5, place + 0.5, alpha=0.0), text)
        # Beside the axes, where no line runs through it.
        ax.annotate(
            f"{one.error:.1%}", (1.0, place), (6, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="left", va="center", fontsize=SMALL, color=INK, annotation_clip=False,
        )  # fmt: skip
    if truth is not None:
        ax.axvline(truth, color=INK, linestyle="--", linewidth=1.2, label=f"true error {truth:.1%}")
        legend(figure, side="right")
    ax.set_yticks(places, [_title(one.method) for one in shown])
    most = [e.error or 0.0 for e in shown] + [e.shown_range.high for e in shown if e.shown_range is not None]
    ax.set(xlim=(0, min(1.0, 1.12 * max(0.05, truth or 0.0, *most))), ylim=(-0.6, len(shown) - 0.2))
    ax.set_xlabel("estimated error")
    percent(ax.xaxis)
    return figure


def truth(
    errors: Mapping[str, Sequence[float]],
    true_errors: Sequence[float],
    *,
    methods: Sequence[str] = ("ac", "atc-ne", "cott", "scot"),
    title: str = "",
) -> Any:
    """Estimated against true error over many shifts, all methods in one panel; the diagonal is perfect.

    Args:
        errors: method -> its estimate for each shift, as fractions.
        true_errors: the true error of each shift.
        methods: which to draw, in this order.
        title: printed above.
    """
    figure, ax = one_panel(4.6, 4.2)
    top = 1.06 * max(max(true_errors), *(max(errors[m]) for m in methods))
    ax.plot([0, top], [0, top], color=INK, linewidth=1, alpha=0.6)
    ax.text(
        0.8 * top, 0.82 * top, "perfect", rotation=45, rotation_mode="anchor", transform_rotates_text=True,
        ha="center", va="bottom", fontsize=SMALL, color=INK,
    )  # fmt: skip
    order = np.argsort(true_errors)
    for number, method in enumerate(methods):
        found = np.asarray(errors[method], float)
        miss = float(np.abs(found - np.asarray(true_errors)).mean())
        ax.plot(
            np.asarray(true_errors)[order], found[order], MARKERS[number % 6], color=PALETTE[number % 6],
            markersize=6, alpha=0.85, label=f"{_title(method)}, off by {100 * miss:.1f} points on average",
        )  # fmt: skip
    ax.set(xlim=(0, top), ylim=(0, top), xlabel="true error", ylabel="estimated error, without labels")
    percent(ax.xaxis)
    percent(ax.yaxis)
    ax.legend(frameon=False, fontsize=SMALL, loc="upper left", labelcolor=INK)
    if title:
        ax.set_title(title, fontsize=SMALL + 2, color=INK)
    return figure


def _title(method: str) -> str:
    """The title of a method; of one that is not registered, its name."""
    return METHODS[method].title if method in METHODS else method
