"""The paper's figures from collected scores and a table of estimates, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

from shiftgauge import plots
from shiftgauge.errors import InputError
from shiftgauge.experiments.protocol import label_shares
from shiftgauge.experiments.scores import ScoreFolder
from shiftgauge.experiments.storage import replacing
from shiftgauge.experiments.summaries import points, with_absolute_error
from shiftgauge.experiments.tables import title_of
from shiftgauge.labelshift.marginal import total_variation
from shiftgauge.methods import Pair
from shiftgauge.methods.threshold import threshold_at_share
from shiftgauge.rows import Block, Rows, run
from shiftgauge.transport import exact_transport

SCATTER = ("ac", "atc-mc", "atc-ne", "cot", "cott", "scot")
"""Methods of the scatter of estimates against true errors."""


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write ``<name>.png`` and ``<name>.svg``."""
    files = []
    for ending in ("png", "svg"):
        # No date and no random names in the SVG: the same results give the same file.
        with replacing(folder / f"{name}.{ending}") as file, matplotlib.rc_context({"svg.hashsalt": name}):
            options: dict[str, Any] = {"metadata": {"Date": None}} if ending == "svg" else {"dpi": 150}
            figure.savefig(file, format=ending, **options)
        files.append(folder / f"{name}.{ending}")
    return files


def make_all(
    estimates: pd.DataFrame,
    scores: ScoreFolder,
    check: Callable[[str], None],
    folder: Path,
    title: str,
    marginal: str = "source",
) -> list[Path]:
    """All figures of one (data set, network); cost distributions and triangles are of its first seed.

    check: refuses a shift whose scores are not those of the estimates. marginal: the label proportions of the
    estimates, ``source`` or ``uniform``.
    """
    files = []
    shifted = with_absolute_error(estimates[estimates.kind != "clean"])
    for name, methods in (("figure2", ("ac", "gde")), ("figure3", ("cot", "cott", "scot"))):
        pairs = _by_method(shifted, methods, "pseudo_shift", "absolute_error")
        files += save(plots.against_pseudo_shift(pairs, title=title), folder, name)
    pairs = _by_method(shifted, SCATTER, "estimate", "true_error")
    files += save(plots.scatter(pairs, title), folder, "figure4")
    for name, shift in _three(shifted).items():
        check(shift)
        files += save(triangle_of(scores, shift, marginal), folder, f"figure1_{name}")
        files += save(costs_of(scores, shift, marginal), folder, f"costs_{name}")
    return files


def _by_method(estimates: pd.DataFrame, methods: Sequence[str], x: str, y: str) -> dict[str, Any]:
    named = {title_of(method): points(estimates, method, x, y) for method in methods}
    found = {title: pair for title, pair in named.items() if pair[0]}
    if not found:
        raise InputError(f"the table has none of {', '.join(methods)}; run the protocol on two seeds for GDE")
    return found


def _three(estimates: pd.DataFrame) -> dict[str, str]:
    """Three shifts of the first seed: a quarter, half and nine tenths along the pseudo-label shift."""
    first = estimates[estimates.seed == estimates.seed.min()].drop_duplicates("shift")
    names = first.sort_values(["pseudo_shift", "shift"])["shift"].tolist()
    return {
        "mild": names[len(names) // 4],
        "middle": names[len(names) // 2],
        "severe": names[-len(names) // 10],
    }


def _pair(scores: ScoreFolder, shift: str) -> tuple[Pair, float]:
    target = scores.read(shift)
    return Pair(scores.read().source(), target.target()), target.error


def triangle_of(scores: ScoreFolder, shift: str, marginal: str = "source") -> Any:
    """Figure 1 for one shift, to measured lengths."""
    pair, truth = _pair(scores, shift)
    q = label_shares(marginal, pair.source_sample.labels, pair.k)
    ac, cot = pair.error("ac"), pair.error("cot", marginal=q)
    predicted = run(pair.target.moments()).pseudo_labels
    return plots.triangle(ac, cot, total_variation(predicted, q), truth, shift.replace("_", " "))


def costs_of(scores: ScoreFolder, shift: str, marginal: str = "source") -> Any:
    """The last figure for one shift: costs and thresholds of AC/ATC-MC and of COT/COTT."""
    pair, truth = _pair(scores, shift)
    source, target = pair.source_block, pair.target_block
    # The threshold's transport always uses the source's own label proportions.
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
    return float(threshold_at_share(costs, np.full(len(costs), 1 / len(costs)), share).value)
