"""Rows of any number: where they come from, and who carries the work to them."""

from shiftgauge.scale.origins import scan, scan_if_large, source_if_large

__all__ = ["scan", "scan_if_large", "source_if_large"]
