"""The three grades of an answer, for whoever has the numbers and not the samples."""

from __future__ import annotations

from shiftgauge.methods.span import CAUTION, OK, STOP, Span
from shiftgauge.results import Estimate

__all__ = ["CAUTION", "OK", "STOP", "grade", "grade_of"]


def grade(error: float, low: float, high: float) -> str:
    """The grade of an answer with a range: `"ok"` below a reach of 15 points, `"stop"` from 17 on.

    >>> grade(0.2, 0.12, 0.3), grade(0.2, 0.1, 0.36), grade(0.2, 0.1, 0.45)
    ('ok', 'caution', 'stop')
    """
    return Span(error, low, high, error, error, low).grade


def grade_of(estimate: Estimate) -> str:
    """The grade of an answer of `auto`."""
    assert estimate.error is not None
    band = estimate.details["band"]
    return grade(estimate.error, band["low"], band["high"])
