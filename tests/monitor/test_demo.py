"""The demo: made once; one that was stopped half-way is finished."""

import socket

import pytest

from shiftgauge.cli.app import run
from shiftgauge.monitor.db.windows import list_windows
from shiftgauge.monitor.run import demo


def test_an_empty_folder_is_filled_once(lite, monkeypatch):
    monkeypatch.setattr(demo, "DAYS", 2)
    assert demo.fill(lite)
    views = list_windows(lite, demo.MODEL)
    assert [view.state for view in views] == ["estimated"] * 2
    assert {segment.value for view in views for segment in view.segments} == {"north", "south"}
    assert not demo.fill(lite)


def test_a_port_that_is_taken_is_known_before_the_demo_is_made(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert run(["monitor", "--demo", "--store", str(tmp_path / "data"), "--port", port]) == 2
    said = capsys.readouterr().err
    assert f"--port {port}: cannot be listened on at 127.0.0.1 (Address already in use)" in said
    assert "try --port 0 for a free one" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_demo_that_was_stopped_is_filled_to_the_end(store, lite, monkeypatch):
    """As without the stop: the same windows, each estimated once, though the days begin at the first one again."""
    monkeypatch.setattr(demo, "DAYS", 4)

    def stop(day):
        if "(3 of 4)" in day:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demo.fill(store, stop)
    if not store.is_sqlite:
        assert not store.folder.exists()
    assert len(list_windows(store, demo.MODEL)) == 2
    assert demo.fill(store)
    assert demo.fill(lite)
    again, once = (list_windows(one, demo.MODEL) for one in (store, lite))
    assert [view.to_dict() for view in again] == [view.to_dict() for view in once]
    assert not demo.fill(store)
