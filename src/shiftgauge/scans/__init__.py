"""The old name of `Totals`, for `transport._steps`."""

from shiftgauge.rows import Totals as Total

__all__ = ["Total"]
