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
from shiftgauge.methods.threshold import cut_at_share
from shiftgauge.rows import Block, Rows, run
from shiftgauge.transport import exact_transport


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


def _pair(scores: Scores, shift: str) -> tuple[sg.Pair, float]:
    recorded, target = scores.read(), scores.read(shift)
    source = sg.Source(logits=recorded.logits, labels=recorded.labels)
    return sg.Pair(source, sg.Target(logits=target.logits)), target.error


def triangle_of(scores: Scores, shift: str, marginal: str = "source") -> Any:
    """Figure 1 for one shift, to measured lengths."""
    pair, truth = _pair(scores, shift)
    q = label_shares(marginal, pair.source_sample.labels, pair.k)
    ac, cot = pair.error("ac"), pair.error("cot", marginal=q)
    predicted = run(pair.target.moments()).pseudo_labels
    return plots.triangle(ac, cot, total_variation(predicted, q), truth, shift.replace("_", " "))


def costs_of(scores: Scores, shift: str, marginal: str = "source") -> Any:
    """The last figure for one shift: costs and thresholds of AC/ATC-MC and of COT/COTT."""
    pair, truth = _pair(scores, shift)
    source, target = pair.source_block, pair.target_block
    # The threshold's transport is to the source's own labels, whatever the target's is to.
    own, q = (label_shares(m, pair.source_sample.labels, pair.k) for m in ("source", marginal))
    share = pair.source_sample.error
    panels = []
    for name, a, b in (
        ("AC and ATC-MC", 1 - source.confidence, 1 - target.confidence),
        ("COT and COTT", _costs(pair.source, source, own), _costs(pair.target, target, q)),
    ):
        panels.append((name, a, b, _cut(a, share)))
    return plots.cost_distribution(panels, truth, shift.replace("_", " "))


def _costs(rows: Rows, block: Block, masses: Any) -> Any:
    """(n,) the mean transport cost of each row."""
    pieces = run(exact_transport(rows, masses)).pieces(block)
    return np.bincount(pieces.row, pieces.mass * pieces.cost, len(block)) / block.mass


def _cut(costs: Any, share: float) -> float:
    return float(cut_at_share(costs, np.full(len(costs), 1 / len(costs)), share).value)
