"""The adaptive range: its coverage is the level asked for, on any sequence, also with labels that come late."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from monitor_data import labels_json, rows_json, run_due_jobs
from test_api import post, put_source, windows

import shiftgauge as sg
from shiftgauge.cli.app import run
from shiftgauge.monitor.db.store import open_store
from shiftgauge.monitor.db.windows import list_windows
from shiftgauge.monitor.estimate.adaptive_range import (
    MEMORY,
    PRIOR_MISSES,
    STEP,
    Miss,
    adaptive_range,
    coverage,
    miss_quantile,
)


def replay_history(misses, level, delay):
    """Publish bands one after another; the truth of each window comes `delay` windows later."""
    past, out = [], []
    for t, size in enumerate(misses):
        come = max(0, t - delay)
        known = past[:come] + [Miss(m.window_id, m.time, None) for m in past[come:]]
        covered = size <= miss_quantile(known, level)
        past.append(Miss(t, t, bool(covered), float(size)))
        out.append(covered)
    return np.array(out)


@pytest.mark.parametrize("level", [0.8, 0.9])
@pytest.mark.parametrize("delay", [0, 14])
def test_coverage_after_30_windows(level, delay):
    """Regimes of other misses follow one another: coverage over 40 runs is the level; late labels cost some width."""
    shares = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        scale = np.repeat(rng.lognormal(0, 0.6, 30), rng.integers(4, 16, 30))[:150]
        misses = scale * np.abs(rng.normal(size=len(scale)))
        shares.append(replay_history(misses, level, delay)[30:].mean())
    assignment = np.std(shares) / np.sqrt(len(shares))
    assert np.mean(shares) > level - 3 * assignment - 0.01
    assert np.mean(shares) < level + 3 * assignment + (0.01 if delay == 0 else 0.04)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 50), min_size=60, max_size=200),
    st.sampled_from([0.8, 0.9]),
)
def test_the_bound_holds_on_every_sequence(misses, level):
    """|misses / T - alpha| <= (1 + g) / (g T) without delay, whatever the sequence (Gibbs and Candes 2021)."""
    covered = replay_history(misses, level, 0)
    assert abs((1 - covered.mean()) - (1 - level)) <= (1 + STEP) / (STEP * len(misses)) + 1e-9


def test_before_labels_come_the_band_rests_on_misses_from_elsewhere():
    """At levels that twenty sizes can show exactly, q is their share."""
    assert len(PRIOR_MISSES) == 20
    assert list(PRIOR_MISSES) == sorted(PRIOR_MISSES)
    assert [miss_quantile([], level) for level in (0.5, 0.8, 0.9, 0.95, 0.99)] == [
        PRIOR_MISSES[i] for i in (9, 15, 17, 18, 19)
    ]
    waiting = [Miss(i, i, None) for i in range(14)]
    assert miss_quantile(waiting, 0.9) == PRIOR_MISSES[17]


def test_what_is_known_outweighs_what_is_from_elsewhere():
    """The quantile of both together, as numpy's inverted distribution function has it."""
    rng = np.random.default_rng(3)
    sizes = rng.gamma(2.0, 2.0, 90)
    for n in (5, 30, 90):
        # As many covered as asked for, so that the level is not adapted.
        past = [Miss(i, i, i % 10 > 0, float(size)) for i, size in enumerate(sizes[: n // 10 * 10])]
        together = [*PRIOR_MISSES, *(miss.size for miss in past)]
        assert miss_quantile(past, 0.9) == pytest.approx(np.quantile(together, 0.9, method="inverted_cdf"))
    assert miss_quantile(past, 0.9, elsewhere=[]) == pytest.approx(
        np.quantile(sizes, 0.9, method="inverted_cdf")
    )


def test_late_labels_move_the_level_by_less():
    """a = alpha + g / (1 + D) (T alpha - misses): with 20 misses of none, by hand."""
    past = [Miss(i, i, True, 0.0) for i in range(40)]
    for waiting in (0, 3, 19):
        a = 0.1 + STEP / (1 + waiting) * 40 * 0.1
        sizes = sorted([*PRIOR_MISSES, *[0.0] * 40])
        wanted = sizes[int(np.ceil(60 * (1 - a) - 1e-9)) - 1]
        assert miss_quantile([*past, *(Miss(40 + i, 40 + i, None) for i in range(waiting))], 0.9) == wanted


def test_misses_that_never_come_in_do_not_count_as_late():
    judged = [Miss(i, i, i % 10 > 0, i / 7) for i in range(40)]
    holes = [miss for m in judged for miss in (m, Miss(100 + m.time, m.time, None))][:-1]
    assert miss_quantile(judged, 0.8) == miss_quantile(holes, 0.8)
    assert miss_quantile(judged, 0.8) != miss_quantile(
        [*judged, *(Miss(40 + i, 40 + i, None) for i in range(40))], 0.8
    )


def test_the_band_is_all_or_nothing_at_the_ends():
    assert miss_quantile([Miss(i, i, False, 9.0) for i in range(40)], 0.9) == np.inf
    assert adaptive_range(
        [Miss(i, i, False, 9.0) for i in range(40)],
        {"scores_error": 0.3, "scores_low": 0.2, "scores_high": 0.4},
        0.9,
    ) == (0, 1)
    assert miss_quantile([Miss(i, i, True, 9.0) for i in range(400)], 0.9) == 0.0
    old = [Miss(i, i, i % 10 > 0, 9.0) for i in range(50)] + [
        Miss(i, i, i % 10 > 0, 0.1) for i in range(MEMORY)
    ]
    sizes = sorted([*PRIOR_MISSES, *[0.1] * MEMORY])
    assert miss_quantile(old, 0.9) == sizes[int(0.9 * len(sizes)) - 1] < 9.0


def test_misses_at_another_level_count_against_that_level():
    """A range at 50% that missed every second time was right: at 90% it does not become [0, 1]."""
    past = [Miss(i, i, i % 2 > 0, i / 60, level=0.5) for i in range(60)]
    together = [*PRIOR_MISSES, *(miss.size for miss in past)]
    assert miss_quantile(past, 0.9) == pytest.approx(np.quantile(together, 0.9, method="inverted_cdf"))


def test_coverage_counts_the_windows_at_the_level_of_the_settings(lite_client):
    client = lite_client
    put_source(client)
    for number, level in ((9, 0.8), (8, 0.9), (7, 0.9)):
        client.put("/v1/models/m/settings", json={"level": level, "replicates": 20}).raise_for_status()
        rows, truth = rows_json(60, seed=number, day=number, prefix=f"d{number}-")
        post(client, rows).raise_for_status()
        run_due_jobs(client.store)
        client.post("/v1/models/m/labels", json={"labels": labels_json(rows, truth)}).raise_for_status()
        run_due_jobs(client.store)
    assert [w["adaptive_range"]["level"] for w in windows(client)] == [0.8, 0.9, 0.9]

    def counted():
        got = client.get("/v1/models/m").json()["coverage"]
        return got["windows"], got["level"]

    assert counted() == (2, 0.9)
    client.put("/v1/models/m/settings", json={"level": 0.8}).raise_for_status()
    assert counted() == (1, 0.8)


@pytest.mark.slow
def test_replay_of_recorded_predictions(tmp_path, capsys):
    """A labelled file happens again: corruptions come and go, and the band's coverage is printed and served."""
    demo = sg.demo_data()
    rng = np.random.default_rng(0)
    names = np.array(demo.source.classes)
    order = ["clean", "jpeg", "zoom_blur", "clean", "mild_noise", "gaussian_blur", "translation", "clean"]
    picks = [(shift, rng.choice(4000, 120, replace=False)) for shift in np.repeat(order, 2)]
    import pyarrow as pa
    import pyarrow.parquet

    scores = np.concatenate([demo.targets[shift].scores[i] for shift, i in picks])
    labels = np.concatenate([demo.labels[i] for _, i in picks])
    times = np.datetime64("2026-01-01") + np.repeat(np.arange(len(picks)), 120) * np.timedelta64(1, "D")
    table = pa.table(
        {
            **{f"logit_{name}": scores[:, j] for j, name in enumerate(names)},
            "label": labels,
            "when": pa.array(times.astype("datetime64[us]")).cast(pa.timestamp("us", tz="UTC")),
        }
    )
    pa.parquet.write_table(table, tmp_path / "file.parquet")
    np.savez(tmp_path / "val.npz", logits=demo.source.scores, labels=names[demo.source.labels], classes=names)
    words = [
        "monitor",
        "replay",
        str(tmp_path / "file.parquet"),
        "--time",
        "when",
        "--store",
        str(tmp_path / "data"),
    ]
    assert (
        run([*words, "--source", str(tmp_path / "val.npz"), "--delay", "5", "--level", "0.8", "--json"]) == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert (said["windows"], said["rows"], said["level"]) == (16, 16 * 120, 0.8)
    assert said["labelled"] == 16  # the labels of the last days came after the last window
    assert 0.5 <= said["covered"] / said["labelled"] <= 1.0
    store = open_store(tmp_path / "data")
    views = list_windows(store, "replay")
    held = coverage(store, "replay")
    assert (held.windows, held.covered) == (said["labelled"], said["covered"])
    inside = [v.adaptive_low <= v.observed <= v.adaptive_high for v in views if v.observed is not None]
    assert sum(inside) == held.covered
    place = {name: j for j, name in enumerate(names.tolist())}
    truth = np.mean(scores[:120].argmax(1) != np.array([place[name] for name in labels[:120].tolist()]))
    assert views[0].observed == pytest.approx(truth)
    assert views[0].created < views[1].created  # as if it were then
    store.close()
    assert (
        run(
            ["monitor", "replay", str(tmp_path / "val.npz"), "--time", "when", "--store", str(tmp_path / "x")]
        )
        == 2
    )
    assert "no key 'when'" in capsys.readouterr().err
