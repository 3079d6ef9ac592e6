"""The paper's figures from collected scores and the table of estimates, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import shiftgauge as sg
from shiftgauge import plots
from shiftgauge.errors import InputError
from shiftgauge.experiments._store import replacing
from shiftgauge.experiments.protocol import Row, label_shares
from shiftgauge.experiments.scores import Scores
from shiftgauge.experiments.tables import title_of
from shiftgauge.labelshift.marginal import total_variation
from shiftgauge.methods.view import View


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write ``<name>.png`` and ``<name>.svg``."""
    import matplotlib

    made = []
    for ending in ("png", "svg"):
        # No date and no random names in the SVG: the same results give the same file.
        with replacing(folder / f"{name}.{ending}") as file, matplotlib.rc_context({"svg.hashsalt": name}):
            options: dict[str, Any] = {"metadata": {"Date": None}} if ending == "svg" else {"dpi": 150}
            figure.savefig(file, format=ending, **options)
        made.append(folder / f"{name}.{ending}")
    return made


Find = Callable[[str], tuple[Scores, str]]
"""Where the scores of a shift are, and its name there."""


def make_all(
    rows: Sequence[Row], find: Find, folder: Path, title: str, marginal: str = "source"
) -> list[Path]:
    """All figures of one (data set, network); cost distributions and triangles are of its first seed.

    marginal: the label shares that the estimates were transported to, ``source`` or ``uniform``.
    """
    made = []
    shifted = [row for row in rows if row.kind != "clean"]
    for name, methods, figure in (
        ("figure2", ("ac", "gde"), _pseudo),
        ("figure3", ("cot", "cott", "scot"), _pseudo),
        ("figure4", ("ac", "atc-mc", "atc-ne", "cot", "cott", "scot"), _scatter),
    ):
        made += save(figure(shifted, methods, title), folder, name)
    for name, shift in _three(shifted).items():
        made += save(triangle_of(*find(shift), marginal), folder, f"figure1_{name}")
        made += save(costs_of(*find(shift), marginal), folder, f"costs_{name}")
    return made


def _points(
    rows: Sequence[Row], methods: Sequence[str], x: str, y: str
) -> dict[str, tuple[list[float], list[float]]]:
    found = {}
    for method in methods:
        here = [row for row in rows if row.method == method]
        if here:
            found[title_of(method)] = ([getattr(r, x) for r in here], [getattr(r, y) for r in here])
    if not found:
        raise InputError(f"the table has none of {', '.join(methods)}; run the protocol on two seeds for GDE")
    return found


def _pseudo(rows: Sequence[Row], methods: Sequence[str], title: str) -> Any:
    return plots.against_pseudo_shift(_points(rows, methods, "pseudo_shift", "miss"), title=title)


def _scatter(rows: Sequence[Row], methods: Sequence[str], title: str) -> Any:
    return plots.scatter(_points(rows, methods, "estimate", "true_error"), title)


def _three(rows: Sequence[Row]) -> dict[str, str]:
    # Quarter points of pseudo-label shift among the first seed's shifts.
    seed = min(row.seed for row in rows)
    order = sorted({(row.pseudo_shift, row.shift) for row in rows if row.seed == seed})
    names = [shift for _, shift in order]
    return {
        "mild": names[len(names) // 4],
        "middle": names[len(names) // 2],
        "severe": names[-len(names) // 10],
    }


def _views(scores: Scores, shift: str) -> tuple[View, View, float]:
    recorded, target = scores.read(), scores.read(shift)
    source = sg.Source(logits=recorded.logits, labels=recorded.labels)
    ac = sg.AC().fit(source)
    return View(source, ac.calibration_), View(sg.Target(logits=target.logits), ac.calibration_), target.error


def triangle_of(scores: Scores, shift: str, marginal: str = "source") -> Any:
    """Figure 1 for one shift, to measured lengths."""
    source, target, truth = _views(scores, shift)
    q = label_shares(marginal, source.labels, target.pseudo_labels.size)
    ac = float(np.mean(1 - target.confidence))
    cot = target.transport(q).value
    return plots.triangle(ac, cot, total_variation(target.pseudo_labels, q), truth, shift.replace("_", " "))


def costs_of(scores: Scores, shift: str, marginal: str = "source") -> Any:
    """The last figure for one shift: costs and thresholds of AC/ATC-MC and of COT/COTT."""
    source, target, truth = _views(scores, shift)
    # The threshold's transport is to the source's own labels, whatever the target's is to.
    own, q = (label_shares(m, source.labels, target.pseudo_labels.size) for m in ("source", marginal))
    share = float(np.mean(source.predictions != source.labels))
    panels = []
    for name, a, b in (
        ("AC and ATC-MC", 1 - source.confidence, 1 - target.confidence),
        ("COT and COTT", source.transport(own).cost, target.transport(q).cost),
    ):
        panels.append((name, a, b, _cut(a, share)))
    return plots.cost_distribution(panels, truth, shift.replace("_", " "))


def _cut(costs: Any, share: float) -> float:
    from shiftgauge.methods.threshold import cut_at_share

    return float(cut_at_share(costs, np.full(len(costs), 1 / len(costs)), share).value)
