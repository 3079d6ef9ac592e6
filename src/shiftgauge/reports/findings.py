"""What speaks for and against the number: the doctor's findings, the method's own warnings, the diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shiftgauge.errors import Note
from shiftgauge.inference import doctor
from shiftgauge.inference.checks import RANGE
from shiftgauge.methods import Pair
from shiftgauge.methods.range import CAUTION, OK, STOP

LEVELS = (OK, CAUTION, STOP)
HEADLINES = {
    "ok": "No check says stop.",
    "caution": "Take it with care.",
    "stop": "Do not rely on it.",
}
#: What to do with the answer, where no finding says more.
ADVICE = {
    "ok": "Act on the range, not on the number alone; labels of some rows narrow it (shiftgauge label-plan).",
    "caution": "Label some rows before you act on it (shiftgauge label-plan).",
    "stop": "Label some rows (shiftgauge label-plan), or mend what the findings name.",
}


def findings(
    pair: Pair,
    method: str,
    warnings: Sequence[str],
    progress: Callable[[str], None],
    proportions: str = "unknown",
) -> list[dict[str, Any]]:
    """One entry per check: its level, the measured value, what it means, what to do; the worst first."""
    examined = doctor(pair, proportions=proportions, progress=progress)
    rows = [(one.name, one.status, one.value, one.meaning, one.advice) for one in examined.checks]
    rows += [
        (method, OK if isinstance(text, Note) else CAUTION, None, text, "")
        for text in dict.fromkeys(warnings)
    ]
    names = ("check", "level", "value", "meaning", "action")
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return sorted(found, key=lambda one: -LEVELS.index(one["level"]))


def diagnosis(found: list[dict[str, Any]]) -> dict[str, Any]:
    """`stop` if any finding says so, else the grade of the answer's range; with what brought it there as reasons."""
    graded = [one["level"] for one in found if one["level"] == "stop" or one["check"] == RANGE]
    level = max(graded, key=LEVELS.index, default="ok")
    named = [one for one in found if one["level"] == level != "ok"]
    reasons = [f"{one['check']}: {one['meaning']}" for one in named]
    worst = next((one["action"] for one in named if level == "stop" and one["action"]), "")
    advice = f"{worst[0].upper()}{worst[1:]}." if worst else ADVICE[level]
    return {"level": level, "headline": HEADLINES[level], "reasons": reasons, "advice": advice}
