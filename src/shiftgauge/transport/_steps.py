from shiftgauge.rows.rows import subsampled_rows as sampled_rows
