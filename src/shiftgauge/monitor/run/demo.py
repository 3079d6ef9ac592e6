"""The demo: 60 days of a model whose data change, made from the recorded predictions that ship with the package.

Two cameras send pictures. For three weeks all is well; then the second camera goes out of focus, a little more every
day, and is repaired; later the mix of products changes. Labels come 14 days late, for two rows of three.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.io import Demo, demo_data
from shiftgauge.monitor.db.models import put_settings, put_source
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.ingest.bodies import NO_LIMITS
from shiftgauge.monitor.ingest.rows import check_rows
from shiftgauge.monitor.periods import DAY, now_us, simulated_time
from shiftgauge.monitor.run.replay import History, replay_history
from shiftgauge.monitor.tables import rows_table, source_npz
from shiftgauge.monitor.views import ModelView, list_models

MODEL, VERSION, DAYS = "clothes", "v1", 60
METRICS = ["precision", "recall", "f1", "class_error"]
#: Rows a day, on weekdays and at weekends.
ROWS, FEWER = 360, 240
#: From when to when the second camera blurs, and which recorded shifts that is, from mild to severe.
BLUR, BLURRED = (21, 36), ("zoom_blur", "gaussian_blur", "glass_blur")
#: From when on other products sell.
SEASON = 45
LATE, LABELLED = 14, 2 / 3


def fill(store: Store, say: Callable[[str], None] | None = None) -> bool:
    """Fill an empty store; False where there is something in it already.

    A demo that was stopped half-way is replayed from its own first day: rows that are stored already are duplicates.
    """
    models = list_models(store)
    start = _unfinished(models) if models else now_us() // DAY * DAY - DAYS * DAY
    if start is None:
        return False
    demo = demo_data()
    with simulated_time(start):
        cameras = np.random.default_rng(8).choice(["north", "south"], demo.source.n)
        body = source_npz(demo.source, {"camera": cameras.tolist()})
        put_source(store, MODEL, VERSION, body, "npz")
        limits = {"error": 0.16, "rise": 0.08, "silence_hours": 72, "windows": 2, "metrics": {"f1": 0.8}}
        settings = {"segments": ["camera"], "limits": limits, "replicates": 50, "metrics": METRICS}
        put_settings(store, MODEL, settings)
    replay_history(store, MODEL, history(demo, start), say)
    return True


def _unfinished(models: list[ModelView]) -> int | None:
    """When the days of a demo begin that was stopped half-way; None where there is none.

    The demo's model is created at midnight, to the microsecond, and its last day is estimated last.
    """
    (first, *others) = models
    if others or first.name != MODEL or first.created % DAY:
        return None
    end = first.created + DAYS * DAY
    return None if first.latest is not None and first.latest.end >= end else first.created


def history(demo: Demo, start: int) -> History:
    """The 60 days, the same ones every time."""
    rng = np.random.default_rng(7)
    days = [_day(demo, day, rng) for day in range(DAYS)]
    scores = np.concatenate([scores for scores, _, _, _ in days])
    n = [len(cameras) for _, _, cameras, _ in days]
    clocks = np.concatenate([clock + day * DAY for day, (_, _, _, clock) in enumerate(days)])
    truth = np.concatenate([truth for _, truth, _, _ in days])
    known = rng.random(len(truth)) < LABELLED
    posted = rows_table(
        "logits",
        scores,
        None,
        ids=[f"d{day:02d}-{i:03d}" for day in range(DAYS) for i in range(n[day])],
        times=start + clocks,
        version=VERSION,
        segments={"camera": np.concatenate([cameras for _, _, cameras, _ in days]).tolist()},
    )
    rows = check_rows(posted, NO_LIMITS, now_us())
    return History(rows, [str(t) if k else None for t, k in zip(truth, known, strict=True)], LATE * DAY)


def _day(demo: Demo, day: int, rng: np.random.Generator) -> tuple[npt.NDArray[Any], ...]:
    """Scores, labels, cameras and times of one day, in order of time."""
    n = FEWER if day % 7 in (5, 6) else ROWS
    names = np.array(demo.source.classes)
    share = np.ones(len(names))
    if day >= SEASON:  # coats, boots and shirts instead of sandals and dresses
        share = np.where(np.isin(names, ["Coat", "Ankle boot", "Shirt", "Pullover"]), 3.0, 0.4)
    weights = share[_index(names, demo.labels)]
    picks = rng.choice(len(demo.labels), n, p=weights / weights.sum())
    cameras = rng.choice(["north", "south"], n)
    scores = demo.targets["clean"].scores[picks].copy()
    first, last = BLUR
    if first <= day < last:
        grade = BLURRED[min(len(BLURRED) - 1, (day - first) * len(BLURRED) // (last - first))]
        south = cameras == "south"
        scores[south] = demo.targets[grade].scores[picks[south]]
    clock = np.sort(rng.integers(6 * DAY // 24, 22 * DAY // 24, n))
    return scores, demo.labels[picks], cameras, clock


def _index(names: npt.NDArray[Any], labels: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    place = {name: j for j, name in enumerate(names.tolist())}
    return np.array([place[label] for label in labels.tolist()], dtype=np.intp)
