"""The page's figures: drawn by `shiftgauge.plots`, turned into SVG that follows the page's light and dark."""

from __future__ import annotations

import io
import re
import threading
import warnings
from dataclasses import dataclass
from typing import Any

from shiftgauge.plots.answers import estimates
from shiftgauge.plots.sample import (
    draw_confidence,
    draw_costs,
    draw_proportions,
    draw_reliability,
    most_changed,
)
from shiftgauge.plots.style import HOVER, INK, PALETTE
from shiftgauge.results import Estimate, Interval

#: Inches across the whole page, where there is room; letters then have the size of those in the narrow figures.
WIDE = 7.6
#: Colours that the page sets, so that they are seen on light and on dark.
THEMED = {INK: "currentColor", PALETTE[0]: "var(--blue)", PALETTE[1]: "var(--orange)"}


_drawing = threading.Lock()


@dataclass(frozen=True)
class Picture:
    """An SVG with the words that stand in for it: for a screen reader, and for who cannot see it."""

    svg: str
    alt: str


def pictures(summary: dict[str, Any]) -> dict[str, Picture]:
    """All figures of the page, by section."""
    comparison = summary["comparison"]
    answers = [_estimate(one) for one in comparison["estimates"] if one["error"] is not None]
    method = summary["answer"]["method"]
    calibration = summary["reliability"]["calibration"]
    words = _estimates_words(answers, method)
    drawn = {
        "estimates": (estimates(answers, highlight=method), words),
        "estimates-wide": (estimates(answers, highlight=method, width=WIDE), words),
        "confidence": (
            draw_confidence(summary["confidence"], calibration),
            _confidence_words(summary["confidence"], calibration),
        ),
        "proportions": (draw_proportions(summary["proportions"]), _proportions_words(summary["proportions"])),
        "reliability": (draw_reliability(summary["reliability"]), _reliability_words(summary["reliability"])),
    }
    if summary["costs"] is not None:
        drawn["costs"] = draw_costs(summary["costs"]), _costs_words(summary["costs"])
    return {name: Picture(svg(figure, name, alt), alt) for name, (figure, alt) in drawn.items()}


def svg(figure: Any, name: str, alt: str) -> str:
    """The figure as an inline SVG: text stays text, ink takes the page's colour, no sizes but the view box."""
    import html

    import matplotlib

    out = io.StringIO()
    figure.patch.set_alpha(0.0)
    for ax in figure.axes:
        ax.patch.set_alpha(0.0)
    # Settings of matplotlib and filters of warnings are the process's, not the thread's.
    with (
        _drawing,
        matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # a class name in a script that the measuring font lacks
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    for colour, name_of_it in THEMED.items():
        text = text.replace(colour.lower(), name_of_it)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font: \1px sans-serif", text)
    text = re.sub(rf'<g id="{HOVER}([^"]*)">', r'<g class="hover"><title>\1</title>', text)
    used = set(re.findall(r"#([\w-]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda m: m[0] if m[1] in used else "", text)
    text = re.sub(r"\n\s*", "\n", text)
    box = re.search(r'viewBox="[^"]+"', text)
    assert box is not None
    label = f'<svg {box[0]} role="img" aria-label="{html.escape(alt)}" xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    return re.sub(r"<svg[^>]*>", lambda m: label, text, count=1).strip()


def _estimate(given: dict[str, Any]) -> Estimate:
    shown = given["range"] or given.get("interval")
    interval = None if shown is None else Interval(**shown)
    return Estimate(given["method"], given["error"], given["n_source"], given["n_target"], interval=interval)


def _estimates_words(answers: list[Estimate], method: str) -> str:
    each = ", ".join(f"{e.method} {e.error:.1%}" for e in answers)
    return f"Estimated error by method, {method} highlighted: {each}."


def _confidence_words(table: dict[str, Any], calibration: str) -> str:
    return (
        f"Histograms of {'' if calibration == 'none' else 'calibrated '}confidence. "
        f"The mean is {table['source_mean']:.1%} on the source and {table['target_mean']:.1%} on the target."
    )


def _proportions_words(table: dict[str, Any]) -> str:
    shown = most_changed(table)
    most = max(shown, key=lambda j: abs(table["target_predictions"][j] - table["source_predictions"][j]))
    return (
        f"Class shares of {len(shown)} classes. Predictions changed most for {table['classes'][most]}: "
        f"{table['source_predictions'][most]:.1%} of the source, {table['target_predictions'][most]:.1%} of the target."
    )


def _costs_words(table: dict[str, Any]) -> str:
    return (
        f"Histograms of transport costs with the threshold {table['threshold']:.2f}: "
        f"{table['source_beyond']:.1%} of the source and {table['target_beyond']:.1%} of the target lie beyond it."
    )


def _reliability_words(table: dict[str, Any]) -> str:
    return (
        "Accuracy against confidence on the source. Confidence is off by "
        f"{table['before']['ece']:.1%} on average as the scores came, {table['after']['ece']:.1%} once calibrated."
    )
