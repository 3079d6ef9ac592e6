"""Names that are still imported elsewhere."""

from shiftgauge.rows.rows import subsample_step as sample_step
from shiftgauge.transport.plan import Transport as Streamed

Sample = None
__all__ = ["Sample", "Streamed", "sample_step"]
