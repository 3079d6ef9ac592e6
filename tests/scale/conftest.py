import pytest


@pytest.fixture
def small_parts(monkeypatch):
    """Parts and batches of a few hundred rows, so that small data is cut often."""
    monkeypatch.setattr("shiftgauge.scale.files.PART_SCORES", 3 * 500)
    monkeypatch.setattr("shiftgauge.scale.layout.BATCH_SCORES", 3 * 100)
    monkeypatch.setattr("shiftgauge.scale.layout.BATCH_ROWS", 100)
