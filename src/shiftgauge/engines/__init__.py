"""Engines that apply steps to the parts of `Rows`, with one method each, reduce: Dask, Spark, checkpoints."""

from shiftgauge.engines.checkpoint import Checkpoint, checkpointed
from shiftgauge.engines.dask import Dask
from shiftgauge.engines.scanning import scan
from shiftgauge.engines.spark import Spark

__all__ = ["Checkpoint", "Dask", "Spark", "checkpointed", "scan"]
