"""The joint bootstrap of source and target, and the intervals read off it."""

from shiftgauge.inference.bootstrap.intervals import Draws, bootstrap, bounds, with_interval
from shiftgauge.inference.bootstrap.replicates import Replicator
from shiftgauge.inference.bootstrap.settings import FEWEST, REPLICATES, Resampling

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
