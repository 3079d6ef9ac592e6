"""Points: windows as a picture shows them, one by one, or several together where there are too many to tell apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shiftgauge.monitor.service.windows import SegmentView, WindowView

#: More points than this cannot be told apart; windows are then put together.
MOST = 200
_WORST = ("stop", "caution", "ok")


@dataclass(frozen=True)
class Point:
    """One window, or a few of one version put together.

    Attributes:
        slot: which place in time it stands at; versions that ran side by side share it.
        version: whose.
        windows: the windows it stands for, in order of time.
        start, end: from the first's start to the last's end.
        rows, labels: of all of them.
        error, realised: means by rows and by labels.
        low, high, adaptive_low, adaptive_high, realised_low, realised_high: the outermost ends.
        shift: the most frequent kind; status: the gravest; None where nobody says.
    """

    slot: int
    version: str
    windows: tuple[WindowView, ...]
    start: int
    end: int
    rows: int
    labels: int
    error: float | None
    low: float | None
    high: float | None
    adaptive_low: float | None
    adaptive_high: float | None
    realised: float | None
    realised_low: float | None
    realised_high: float | None
    shift: str | None
    status: str | None


def points(windows: Sequence[WindowView], most: int = MOST) -> list[Point]:
    """The windows as at most about `most` points a version, in order of time."""
    if not windows:
        return []
    first, last = windows[0].start, max(window.start for window in windows)
    starts = len({window.start for window in windows})
    width = 1 if starts <= most else (last - first) // most + 1
    groups: dict[tuple[int, str], list[WindowView]] = {}
    for window in windows:
        groups.setdefault(((window.start - first) // width, window.version), []).append(window)
    return [_point(slot, version, held) for (slot, version), held in sorted(groups.items())]


def _point(slot: int, version: str, held: list[WindowView]) -> Point:
    shifts = Counter(window.shift for window in held if window.shift is not None)
    verdicts = {window.status for window in held}
    return Point(
        slot=slot,
        version=version,
        windows=tuple(held),
        start=min(window.start for window in held),
        end=max(window.end for window in held),
        rows=sum(window.rows for window in held),
        labels=sum(window.labels for window in held),
        error=_mean((window.error, window.rows) for window in held),
        low=_least(window.low for window in held),
        high=_most(window.high for window in held),
        adaptive_low=_least(window.adaptive_low for window in held),
        adaptive_high=_most(window.adaptive_high for window in held),
        realised=_mean((window.realised, window.labels) for window in held),
        realised_low=_least(window.realised_low for window in held),
        realised_high=_most(window.realised_high for window in held),
        shift=shifts.most_common(1)[0][0] if shifts else None,
        status=next((status for status in _WORST if status in verdicts), None),
    )


def _mean(pairs: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, max(weight, 1)) for value, weight in pairs if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if known else None


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def runs(held: Sequence[Point]) -> list[list[Point]]:
    """The estimated points of one version, cut where windows are missing in between: a line would claim them.

    A hole counts when it is longer than the points beside it.
    """
    out: list[list[Point]] = []
    for point in held:
        if point.error is None:
            continue
        last = out[-1][-1] if out else None
        longest = 0 if last is None else max(last.end - last.start, point.end - point.start)
        if last is None or point.start - last.end >= max(longest, 1):
            out.append([])
        out[-1].append(point)
    return out


def segment_windows(
    windows: Sequence[WindowView],
) -> dict[str, dict[str, list[tuple[WindowView, SegmentView]]]]:
    """What each value of each watched segment had, window by window; the largest values first."""
    out: dict[str, dict[str, list[tuple[WindowView, SegmentView]]]] = {}
    for window in windows:
        for part in window.segments:
            out.setdefault(part.segment, {}).setdefault(part.value, []).append((window, part))
    return {
        name: dict(sorted(values.items(), key=lambda pair: -sum(part.rows for _, part in pair[1])))
        for name, values in out.items()
    }
