"""What speaks for and against the number: the doctor's findings, the method's own warnings, the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from labelfree.estimators import Pair
from labelfree.trust.diagnosis import examined

LEVELS = ("ok", "caution", "stop")
HEADLINES = {
    "ok": "No check speaks against it.",
    "caution": "Take it with care.",
    "stop": "Do not rely on it.",
}


def findings(
    pair: Pair, method: str, warnings: Sequence[str], progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """One entry per check: its level, the measured value, what it means, what to do; the worst first."""
    diagnosis = examined(pair, progress)
    found: list[dict[str, Any]] = []
    for check in diagnosis.checks:
        found.append(
            {
                "check": check.name,
                "level": check.status,
                "value": check.value,
                "meaning": check.meaning,
                "action": check.advice,
            }
        )
    for text in dict.fromkeys(warnings):
        found.append({"check": method, "level": "caution", "value": None, "meaning": text, "action": ""})
    return sorted(found, key=lambda one: -LEVELS.index(one["level"]))


def verdict(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The worst level of all findings, with the findings that brought it there as reasons."""
    level = max((one["level"] for one in found), key=LEVELS.index, default="ok")
    reasons = (
        [f"{one['check']}: {one['meaning']}" for one in found if one["level"] == level]
        if level != "ok"
        else []
    )
    return {"level": level, "headline": HEADLINES[level], "reasons": reasons}
