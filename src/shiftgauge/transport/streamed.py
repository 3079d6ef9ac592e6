from shiftgauge.rows.rows import subsample_step as sample_step
from shiftgauge.transport.plan import Transport as Streamed

Sample = None
