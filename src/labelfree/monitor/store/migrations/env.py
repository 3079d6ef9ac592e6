"""Alembic asks for this file; `labelfree.monitor.store.migrate` runs the migrations itself."""
