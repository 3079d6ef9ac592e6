"""What a posterior per row says beyond the error: confusion and metrics, segments, class proportions, rows."""

from shiftgauge.inference.posteriors.confusion import Metrics, measured, metrics
from shiftgauge.inference.posteriors.proportions import Shares, label_shares
from shiftgauge.inference.posteriors.rows import row_reader, row_table
from shiftgauge.inference.posteriors.segments import Slice, Slices, sliced, slices

__all__ = [
    "Metrics",
    "Shares",
    "Slice",
    "Slices",
    "label_shares",
    "measured",
    "metrics",
    "row_reader",
    "row_table",
    "sliced",
    "slices",
]
