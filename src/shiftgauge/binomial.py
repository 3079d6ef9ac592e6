"""Ranges of a proportion that keep their coverage near 0 and 1."""

from __future__ import annotations

from math import sqrt


def wilson(share: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's interval for a proportion observed as `share` among n rows, z standard errors wide.

    With no event among n rows it ends at z^2 / (n + z^2): at 95% a little above the rule of three.
    (Wilson, Probable Inference, the Law of Succession, and Statistical Inference, 1927.)

    >>> [round(end, 4) for end in wilson(0.1, 100, 1.96)]
    [0.0552, 0.1744]
    >>> [round(end, 4) for end in wilson(0.0, 10, 1.96)]
    [0.0, 0.2775]
    """
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(max(share * (1 - share), 0.0) / n + z * z / (4 * n * n))
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))


def joint_rows(n_source: float, n_target: float) -> float:
    """The number of rows whose sampling variance is that of source and target together: 1 / (1/n_s + 1/n_t).

    >>> joint_rows(100, 100)
    50.0
    """
    return 1.0 / (1.0 / n_source + 1.0 / n_target)


def widened(low: float, high: float, n: float, z: float) -> tuple[float, float]:
    """The ends of an error's interval, moved to where n rows without an error, or without a right one, leave them.

    Rows that never err never err in a resample either, so a bootstrap alone takes few such rows for certainty.

    >>> [round(end, 4) for end in widened(0.0, 0.1, 10, 1.96)]
    [0.0, 0.2775]
    """
    least = wilson(0.0, n, z)[1]
    return min(low, 1.0 - least), max(high, least)
