"""The list of models: the urgent ones first, each with its newest numbers and how it got there."""

from __future__ import annotations

from dataclasses import dataclass

from shiftgauge.monitor.pages import spark
from shiftgauge.monitor.pages.spark import Spark
from shiftgauge.monitor.service.models import ModelView
from shiftgauge.monitor.service.windows import WindowView, list_windows
from shiftgauge.monitor.store import Store

URGENT = ("alert", "waiting", "collecting", "empty", "no-limits", "ok")
#: Beyond so many models no sparklines are drawn: each asks the database once.
MOST_SPARKS = 100


@dataclass(frozen=True)
class Row:
    """A model of the list, its sparkline, and its newest window with labels."""

    model: ModelView
    spark: Spark | None
    judged: WindowView | None


def rows(store: Store, models: list[ModelView]) -> list[Row]:
    """The models in order of urgency, then by name."""
    order = sorted(models, key=lambda model: (URGENT.index(model.state), model.name))
    out = []
    for number, model in enumerate(order):
        held: list[WindowView] = []
        if model.latest is not None and number < MOST_SPARKS:
            held = list_windows(store, model.name, version=model.latest.version, limit=spark.MOST)
        judged = next((w for w in reversed(held) if w.realised is not None), None)
        out.append(Row(model, spark.of_windows(held), judged))
    return out


def sentence(models: list[ModelView]) -> str:
    """The whole list in a sentence.

    `3 models: 1 with an alert, 2 within their limits`
    """
    words = {
        "alert": "with an alert",
        "waiting": "waiting",
        "collecting": "collecting rows",
        "empty": "without rows",
        "no-limits": "without limits",
        "ok": "within limits",
    }
    counts = [(sum(model.state == state for model in models), words[state]) for state in URGENT]
    said = [f"{count} {word}" for count, word in counts if count]
    if len(models) == 1:
        return f"1 model, {said[0].partition(' ')[2]}"
    return f"{len(models):,} models: {', '.join(said)}"
