"""Alembic asks for this file; `shiftgauge.monitor.store.migrate` runs the migrations itself."""
