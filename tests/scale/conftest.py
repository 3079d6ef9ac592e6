import pytest


@pytest.fixture
def small_parts(monkeypatch):
    """Parts and batches of a few hundred rows, so that small data is cut often."""
    for room in ("files", "frames", "arrays"):
        monkeypatch.setattr(f"labelfree.scale.{room}.PART_SCORES", 3 * 500)
    monkeypatch.setattr("labelfree.scale.layout.BATCH_SCORES", 3 * 100)
    monkeypatch.setattr("labelfree.scale.layout.BATCH_ROWS", 100)
