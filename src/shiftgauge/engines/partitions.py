"""Partitions of a cluster's DataFrame, as the driver knows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shiftgauge.io import Layout

#: Rows of a partition that are brought to the driver to look at.
HEAD_ROWS = 1 << 12


@dataclass(frozen=True)
class Partition:
    """A partition of a cluster's DataFrame; the engine that it belongs to knows how to read it.

    Attributes:
        layout: what its columns hold.
        frame: the DataFrame.
        number, rows: which partition of it, and how many rows it has.
    """

    layout: Layout
    frame: Any
    number: int
    rows: int

    @property
    def name(self) -> str:
        """Its number."""
        return f"partition {self.number}"
