"""The joint bootstrap of source and target, and the intervals read off it."""

from shiftgauge.trust.resampling.intervals import Draws, bootstrap, bounds, with_interval
from shiftgauge.trust.resampling.replicates import Replicator
from shiftgauge.trust.resampling.settings import FEWEST, REPLICATES, Resampling

__all__ = [
    "FEWEST",
    "REPLICATES",
    "Draws",
    "Replicator",
    "Resampling",
    "bootstrap",
    "bounds",
    "with_interval",
]
