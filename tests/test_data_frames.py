"""Results in a notebook: tables as DataFrames, texts that fit a terminal, signatures that name every option."""

import inspect

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.adapters import CollectedScores

pd = pytest.importorskip("pandas")
N, NAMES = 400, ["ant", "bee", "cat"]


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=2 * N)
    z = rng.normal(size=(2 * N, 3)) + 2.0 * np.eye(3)[y]
    z[N:] *= 0.6
    return sg.Source(z[:N], np.array(NAMES)[y[:N]], classes=NAMES), sg.Target(z[N:], classes=NAMES)


SITES = np.array(["x", "y"] * (N // 2))
#: Function -> its result, and a column of its table beside the numbers that it must hold.
TABLES = {
    "compare": (
        lambda s, t: sg.compare(s, t, ["ac", "scot"]),
        lambda found: ("error", [e.error for e in found]),
    ),
    "metrics": (lambda s, t: sg.metrics(s, t), lambda found: ("recall", found.recall)),
    "slices": (
        lambda s, t: sg.slices(s, t, SITES),
        lambda found: ("high", [one.range.high for one in found.slices]),
    ),
    "label_shares": (lambda s, t: sg.label_shares(s, t), lambda found: ("share", found.shares)),
    "rank": (
        lambda s, t: sg.rank({"a": (s, t), "b": (s, t)}),
        lambda found: ("expected", [m.expected for m in found.models]),
    ),
    "backtest": (
        lambda s, t: sg.backtest(s, methods=["ac", "scot"], by=SITES, repeats=1),
        lambda found: ("mean_miss", [row["mean_miss"] for row in found.table()]),
    ),
    "doctor": (lambda s, t: sg.doctor(s, t), lambda found: ("status", [c.status for c in found.ranked])),
    "label_plan": (
        lambda s, t: sg.label_plan(s, t, n=20),
        lambda found: ("error_probability", found.error_probability),
    ),
    "timeline": (
        lambda s, t: sg.timeline(s, t, every=200),
        lambda found: ("low", [p.low for p in found.periods]),
    ),
    "drivers": (
        lambda s, t: sg.drivers(s, t, {"site": (SITES, SITES[::-1])}),
        lambda found: ("mix", [one.mix for one in found.columns]),
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_a_data_frame(samples, name):
    make, expected = TABLES[name]
    found = make(*samples)
    frame = found.to_pandas()
    column, values = expected(found)
    assert frame[column].tolist() == list(values)
    assert len(frame) == len(found.records()) > 0
    assert frame.index.is_unique


def test_every_result_with_rows_is_a_table():
    """No result shows a table in a notebook and has no DataFrame; a plan in progress and an estimate are sentences."""
    from shiftgauge.results import Result, Table

    def below(kind):
        return {kind, *(deeper for one in kind.__subclasses__() for deeper in below(one))}

    shown = {kind for kind in below(Result) if "table_rows" in vars(kind) and kind is not Result}
    assert {kind.__name__ for kind in shown if not issubclass(kind, Table)} <= {
        "Ceiling",
        "Suitability",
        "Progress",
    }


def test_the_confusion_matrix_is_a_data_frame(samples):
    found = sg.metrics(*samples)
    frame = found.confusion_to_pandas()
    assert frame.loc["ant", "bee"] == found.confusion[0, 1]
    assert (frame.index.name, frame.columns.name) == ("true class", "predicted")


@pytest.mark.parametrize("name", [*TABLES, "estimate"])
def test_texts_fit_a_terminal(samples, name):
    found = sg.estimate(*samples) if name == "estimate" else TABLES[name][0](*samples)
    assert max(map(len, repr(found).splitlines())) <= 80


def test_without_pandas_the_message_says_what_to_install(samples, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(
        sg.MissingDependencyError,
        match=r"to_pandas needs pandas; install the extra: pip install '.\[pandas\]' in",
    ):
        sg.compare(*samples, ["ac"]).to_pandas()


def test_completion_shows_every_option():
    """No public function hides its options behind **kwargs."""
    functions = [getattr(sg, name) for name in sg.__all__ if callable(getattr(sg, name))]
    functions += [CollectedScores.source, CollectedScores.target]
    hidden = [
        f.__qualname__
        for f in functions
        for p in inspect.signature(f).parameters.values()
        if p.kind is p.VAR_KEYWORD
    ]
    assert hidden == []
