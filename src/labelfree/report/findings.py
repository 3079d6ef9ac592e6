"""What speaks for and against the number: one finding per check, and the verdict over all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelfree.labelshift import Marginal
from labelfree.results import Comparison
from labelfree.types import Source, Target

LEVELS = ("ok", "caution", "stop")
HEADLINES = {
    "ok": "Nothing in the scores speaks against it.",
    "caution": "Take it with care.",
    "stop": "Do not rely on it.",
}
#: Methods that fail in different ways: where they agree, that is worth something.
WITNESSES = ("ac", "atc-ne", "cott", "scot", "label-shift")


def findings(
    source: Source,
    target: Target,
    comparison: Comparison,
    method: str,
    *,
    calibration: str,
    marginal: Marginal,
) -> list[dict[str, Any]]:
    """Checks with level, measured value, what it means and what to do."""
    return [
        _rows(source, target),
        _disagreement(comparison),
        *(
            _finding("warning", "caution", "", text, "")
            for text in dict.fromkeys((*comparison.warnings, *comparison[method].warnings))
            if not text.startswith("gde left out")
        ),
    ]


def verdict(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The worst level of all findings, with the findings that brought it there as reasons."""
    level = max((f["level"] for f in found), key=LEVELS.index, default="ok")
    reasons = [f["meaning"] for f in found if f["level"] == level] if level != "ok" else []
    return {"level": level, "headline": HEADLINES[level], "reasons": reasons}


def _finding(check: str, level: str, value: str, meaning: str, action: str) -> dict[str, Any]:
    return {"check": check, "level": level, "value": value, "meaning": meaning, "action": action}


def _rows(source: Source, target: Target) -> dict[str, Any]:
    fewest = int(min(source.n_effective, target.n_effective))
    value = f"{source.n:,} source, {target.n:,} target rows"
    if fewest >= 1000:
        return _finding("sample size", "ok", value, "Enough rows for sampling noise to be small.", "")
    return _finding(
        "sample size",
        "caution",
        value,
        "With few rows, sampling noise looks like shift: COT, COTT and SCOT read too high.",
        "Use marginal=shrunk (--marginal shrunk), or more rows.",
    )


def _disagreement(comparison: Comparison) -> dict[str, Any]:
    errors = {
        e.method: e.error for e in comparison.estimates if e.method in WITNESSES and e.error is not None
    }
    spread = float(np.ptp(list(errors.values()))) if errors else 0.0
    low, high = min(errors, key=errors.__getitem__), max(errors, key=errors.__getitem__)
    value = f"{low} {errors[low]:.1%} to {high} {errors[high]:.1%}"
    level = "ok" if spread < 0.05 else "caution"
    meaning = (
        "Methods that fail in different ways agree."
        if level == "ok"
        else f"Methods that fail in different ways differ by {100 * spread:.0f} points."
    )
    action = "" if level == "ok" else "See what each assumes; a few hundred labels would settle it."
    return _finding("agreement of methods", level, value, meaning, action)
