"""From checked columns to durable batches: prepared without a lock, committed many at once under one."""
