"""What is kept: tables in SQLite or PostgreSQL, rows in batches, settled ones as Parquet files in a folder."""

from shiftgauge.monitor.store.database import Store, open_store

__all__ = ["Store", "open_store"]
