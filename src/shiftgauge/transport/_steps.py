"""A name that is still imported elsewhere."""

from shiftgauge.rows.rows import subsampled_rows as sampled_rows

__all__ = ["sampled_rows"]
