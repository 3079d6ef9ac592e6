"""Rate and time left, right in every stage, also of a resumed one; a line a minute without a terminal."""

import io
import sys

from shiftgauge.experiments.progress import Clock, lines, shown


class Time:
    now = 100.0

    def __call__(self):
        return self.now


def test_time_left_is_counted_from_the_first_report():
    time = Time()
    clock = Clock(time)
    # A run that goes on at 600 of 1,000 did not do 600 in no time.
    assert clock.read("training, seed 0", 600, 1000) == ""
    time.now += 10
    assert clock.read("training, seed 0", 620, 1000) == "2.0/s, 3:10 left"
    # The next stage begins anew, and the old one's speed is not its own.
    assert clock.read("scoring fog_1, seed 0", 500, 10_000) == ""
    time.now += 100
    assert clock.read("scoring fog_1, seed 0", 1000, 10_000) == "5.0/s, 30:00 left"
    time.now += 3600
    assert clock.read("shifts scored", 1, 96) == ""
    time.now += 120
    assert clock.read("shifts scored", 2, 96) == "0.5/min, 3:08:00 left"


def test_a_line_a_minute():
    time, out = Time(), io.StringIO()
    show = lines(now=time, out=out)
    for done in range(1, 200):
        show("training, seed 0", done, 1000, f"epoch {done}")
        time.now += 1
    said = out.getvalue().splitlines()
    assert len(said) == 3
    assert said[0] == "shiftgauge: training, seed 0: 61/1000, epoch 61, 1.0/s, 15:39 left"


def test_a_terminal_sees_a_bar_for_every_stage(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "200")
    with shown() as show:
        show("shifts scored", 1, 96, "clean")
        show("scoring fog_1, seed 0", 500, 1000, "rows")
        show("scoring fog_1, seed 0", 1000, 1000, "rows")
        show("shifts scored", 2, 96, "fog_1")
    text = terminal.getvalue()
    assert "shifts scored" in text
    assert "2/96" in text
