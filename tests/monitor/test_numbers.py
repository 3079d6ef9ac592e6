"""What a window's numbers mean: weights, decisions and settings count, limits are met or exceeded, clocks are kept."""

import numpy as np
import pyarrow as pa
import pytest
from monitor_data import K, days_ago, labels_json, rows_json, run_due_jobs, source_npz
from scipy.stats import binomtest
from sqlalchemy import text
from test_api import post, put_source, windows

import shiftgauge as sg
from shiftgauge.monitor.alerts import evaluate as watching
from shiftgauge.monitor.client.push import row_requests
from shiftgauge.monitor.db.models import read_source_bytes
from shiftgauge.monitor.db.rows import scores_of, weights_of
from shiftgauge.monitor.db.windows import get_window
from shiftgauge.monitor.estimate import answer as answers
from shiftgauge.monitor.estimate.adaptive_range import history, miss_quantile, range_half_width
from shiftgauge.monitor.estimate.answer import estimate_rows
from shiftgauge.monitor.estimate.labels import observed_by_segment, observed_error
from shiftgauge.monitor.periods import DAY, HOUR, now_us, simulated_time
from shiftgauge.monitor.settings import Settings
from shiftgauge.monitor.tables import rows_table, score_column, to_arrow_stream
from shiftgauge.monitor.views import list_alerts


def some_rows(n, seed=0, *, weights=None, shift=0.0, segments=None, deployed=False):
    """Rows as a window has them; with `deployed`, every fifth decision is not the argmax."""
    rng = np.random.default_rng(seed)
    z = (2 - shift) * rng.normal(size=(n, K))
    predictions = np.full(n, -1, dtype=np.int32)
    if deployed:
        predictions[::5] = (z[::5].argmax(axis=1) + 1) % K
    columns = {"id": [f"r{i}" for i in range(n)], "key": np.arange(n, dtype=np.uint64), "time": np.arange(n)}
    columns |= {"scores": score_column(z), "prediction": predictions}
    columns |= {} if weights is None else {"weight": weights}
    columns |= {} if segments is None else {"segment_s": pa.array(segments)}
    return pa.table(columns)


def decided(rows):
    predictions = rows.column("prediction").to_numpy()
    return np.where(predictions >= 0, predictions, scores_of(rows).argmax(axis=1))


@pytest.fixture(scope="module")
def source():
    return read_source_bytes(source_npz(), "npz")[0]


@pytest.mark.parametrize("method", ["scot", "auto"])
def test_a_window_is_estimated_as_the_settings_say(source, method):
    rows = some_rows(150, weights=np.random.default_rng(1).uniform(0.2, 4.0, 150), shift=0.8, deployed=True)
    settings = Settings(level=0.8, replicates=60, method=method)
    found = estimate_rows(source, rows, "logits", settings, {}, {}).values
    target = sg.Target(scores_of(rows), predictions=decided(rows), weights=weights_of(rows))
    told = sg.interval(source, target, method, level=0.8, replicates=60)
    assert found["error"] == pytest.approx(told.error, abs=1e-12)
    shown = told.range if method == "auto" else told.interval
    assert (found["low"], found["high"]) == pytest.approx((shown.low, shown.high))
    assert (found["level"], found["method"]) == (0.8, method)
    if method == "auto":
        assert found["sampling"] == pytest.approx((told.sampling.high - told.sampling.low) / 2)
        assert found["status"] == sg.doctor(source, target).status


def test_a_large_window_is_estimated_from_all_its_rows(source, monkeypatch):
    monkeypatch.setattr(answers, "LARGE", 100)
    rows = some_rows(400, seed=3)
    found = estimate_rows(source, rows, "logits", Settings(method="doc", replicates=20), {}, {})
    assert found.values["error"] == sg.estimate(source, sg.Target(scores_of(rows)), "doc").error
    assert found.values["low"] < found.values["error"] < found.values["high"]
    assert any("the interval and the report rest on 100 of them" in said for said in found.warnings)


def test_why_there_is_no_interval_is_said(source):
    found = estimate_rows(source, some_rows(8), "logits", Settings(method="scot"), {}, {})
    assert found.values["low"] is None
    assert any("no interval: 8 target rows" in said for said in found.warnings)


def test_the_rarest_values_are_counted_together(source, monkeypatch):
    monkeypatch.setattr(answers, "MOST_VALUES", 2)
    values = ["a"] * 60 + ["b"] * 40 + ["c"] * 15 + [None] * 5
    settings = Settings(method="ac", replicates=20, segments=("s",))
    found = estimate_rows(source, some_rows(120, segments=values), "logits", settings, {}, {}).segments
    assert {one["value"]: one["rows"] for one in found} == {"a": 60, "b": 40, "(other: 2)": 20}


def test_rows_that_weigh_nothing_are_not_observed():
    """The other rows alone give Wilson's interval of scipy."""
    heavy = np.arange(90) % 3 > 0
    rows = some_rows(90, weights=heavy.astype(float), deployed=True, segments=["x", "y"] * 45)
    truth = np.random.default_rng(2).integers(K, size=90).astype(np.int32)
    wrong = decided(rows) != truth
    ends = binomtest(int(wrong[heavy].sum()), 60).proportion_ci(0.8, method="wilson")
    found = observed_error(rows, truth, 0.8)
    assert (found.error, found.low, found.high) == pytest.approx((wrong[heavy].mean(), ends.low, ends.high))
    segments = [{"segment": "s", "value": value} for value in "xy"]
    for place, one in enumerate(observed_by_segment(segments, rows, truth)):
        mine = heavy & (np.arange(90) % 2 == place)
        assert one["observed"] == pytest.approx(wrong[mine].mean())


def judge(client, rows, count):
    """Label some rows, all of them wrongly."""
    labels = [(int(np.argmax(row["logits"])) + 1) % K for row in rows[:count]]
    client.post("/v1/models/m/labels", json=labels_json(rows[:count], labels))
    run_due_jobs(client.store)


def band(client, window):
    """The adaptive range in units of the window's own doubt, above the estimate."""
    view = get_window(client.store, "m", window["window"])
    return (view.adaptive_high - view.scores_error) / range_half_width(vars(view))


def test_the_band_learns_from_enough_labels_of_windows_before(lite_client):
    client = lite_client
    put_source(client)
    held = {}
    for day, labels in ((9, 20), (8, 40), (12, 0), (7, 0)):
        held[day], _ = rows_json(60, seed=day, day=day, prefix=f"{day}-")
        post(client, held[day])
        run_due_jobs(client.store)
        judge(client, held[day], labels)
    found = {window["start"][:10]: window for window in windows(client)}
    by_day = {day: found[rows[0]["time"][:10]] for day, rows in held.items()}
    assert by_day[9]["observed"]["error"] == by_day[8]["observed"]["error"] == 1.0
    assert band(client, by_day[8]) == pytest.approx(
        miss_quantile([], 0.9)
    )  # 20 labels of the day before teach nothing
    assert band(client, by_day[12]) == pytest.approx(
        miss_quantile([], 0.9)
    )  # what came out later was not known then
    assert band(client, by_day[7]) > 2.0  # a miss of everything was
    assert by_day[8]["cause"] == "labels"


def test_the_unit_is_half_the_range_of_the_scores_and_at_least_a_point():
    combined, scores = {"low": 0.20, "high": 0.26}, {"scores_low": 0.1, "scores_high": 0.3}
    assert range_half_width({**combined, "scores_low": None}) == pytest.approx(0.03)  # a named method
    assert range_half_width({**combined, **scores}) == pytest.approx(0.1)
    assert range_half_width({"low": 0.2, "high": 0.201}) == range_half_width({"low": None}) == 0.01


@pytest.mark.parametrize(("count", "labels", "judged"), [(20, 20, True), (20, 19, False), (60, 30, True)])
def test_a_small_window_is_judged_once_all_its_labels_are_there(lite_client, count, labels, judged):
    client = lite_client
    put_source(client)
    rows, _ = rows_json(count)
    post(client, rows)
    run_due_jobs(client.store)
    judge(client, rows, labels)
    with client.store.read() as connection:
        (miss,) = history(connection, 1)
        assert history(connection, 1, before=miss.time) == []
        assert history(connection, 1, before=miss.time + 1) == [miss]
    assert (miss.covered is not None) == (miss.size is not None) == judged


def test_a_miss_is_judged_by_the_band_that_was_first_published(lite_client):
    client = lite_client
    put_source(client)
    rows, _ = rows_json(80)
    post(client, rows[:60])
    run_due_jobs(client.store)
    (first,) = windows(client)
    post(client, [{**row, "logits": [0.1, 0.0, 0.0]} for row in rows[60:]])
    run_due_jobs(client.store)
    judge(client, rows, 80)
    (last,) = windows(client)
    assert last["error"] != first["error"]
    with client.store.read() as connection:
        (miss,) = history(connection, 1)
    unit = range_half_width(vars(get_window(client.store, "m", first["window"], 1)))
    assert miss.size == pytest.approx(abs(last["observed"]["error"] - first["error"]) / unit)
    with client.store.write() as connection:  # a later band that would have held
        connection.execute(
            text("UPDATE revisions SET adaptive_low = 0, adaptive_high = 1 WHERE revision > 1")
        )
        assert history(connection, 1) == [miss]
    assert not miss.covered
    name = 'shiftgauge_observed_error_ratio{model="m",segment="",version="v1"}'
    post(client, rows_json(60, seed=5, day=2, prefix="n")[0])
    run_due_jobs(client.store)
    client.post(
        "/v1/models/m/labels", json=labels_json(rows_json(60, seed=5, day=2, prefix="n")[0], [0] * 60)
    )
    run_due_jobs(client.store)
    newest = windows(client)[-1]["observed"]["error"]
    assert f"{name} {newest}" in client.get("/metrics").text.splitlines()


def test_a_window_that_failed_is_estimated_again_because_of_a_new_source(lite_client):
    client = lite_client
    put_source(client)
    post(client, rows_json(40)[0])
    run_due_jobs(client.store)
    with client.store.write() as connection:
        connection.execute(text("UPDATE windows SET state = 'failed'"))
    put_source(client, seed=4)
    run_due_jobs(client.store)
    (window,) = windows(client)
    assert (window["revision"], window["cause"], window["state"]) == (2, "source", "estimated")


def test_a_window_waits_for_late_rows_and_is_overdue_only_then(lite_client):
    """The clock is ours: a day ended at midnight, lateness is two hours, the limit one more."""
    client = lite_client
    midnight = days_ago(-10)
    with simulated_time(midnight + HOUR):
        put_source(client)
        client.put(
            "/v1/models/w/settings", json={"lateness_minutes": 120, "limits": {"not_estimated_hours": 1}}
        )
        client.put("/v1/models/m/settings", json={"lateness_minutes": 120})
        for model in "mw":  # w has no source
            post(client, rows_json(40, day=1)[0], model=model)
    states, alerts = [], []
    for hours in (1.9, 2.9, 3.1):
        with simulated_time(midnight + int(hours * HOUR)):
            run_due_jobs(client.store)
            states.append(windows(client)[0]["state"])
            alerts.append([one.rule for one in list_alerts(client.store, firing=True)])
    assert states == ["open", "estimated", "estimated"]
    assert alerts == [[], [], ["not-estimated"]]


def test_a_window_by_rows_that_is_not_full_is_not_overdue(lite_client):
    client = lite_client
    client.put("/v1/models/m/settings", json={"window": "25 rows", "limits": {"not_estimated_hours": 1}})
    post(client, rows_json(20)[0])
    with simulated_time(now_us() + 5 * DAY):
        run_due_jobs(client.store)
        assert list_alerts(client.store) == []
        post(client, rows_json(5, prefix="s")[0])
    with simulated_time(now_us() + 6 * DAY):
        run_due_jobs(client.store)
        assert [one.rule for one in list_alerts(client.store)] == ["not-estimated"]


def test_an_idempotency_key_is_forgotten_after_a_week(lite_client):
    client, key = lite_client, {"Idempotency-Key": "k"}
    put_source(client)
    rows, more = rows_json(10)[0], rows_json(10, prefix="s")[0]
    assert post(client, rows, headers=key).status_code == 202
    for days, status in ((6, 422), (8, 202)):
        with simulated_time(now_us() + days * DAY):
            run_due_jobs(client.store)
            assert post(client, more, headers=key).status_code == status


def test_many_rows_in_few_batches_are_put_together(lite_client, monkeypatch):
    from shiftgauge.monitor.db.schema import batches

    monkeypatch.setattr(watching, "COMPACT_FROM_ROWS", 30)
    put_source(lite_client)
    rows, _ = rows_json(30)
    for i in range(0, 30, 10):
        post(lite_client, rows[i : i + 10])
    run_due_jobs(lite_client.store)
    with lite_client.store.read() as connection:
        assert [row.rows for row in connection.execute(batches.select())] == [30]


def arrow_rows(n, prefix, k=K):
    """The body of a request."""
    scores = np.random.default_rng(0).normal(size=(n, k)).astype(np.float32)
    ids = [f"{prefix}{i}" for i in range(n)]
    return to_arrow_stream(
        rows_table("logits", scores, None, ids=ids, times=np.full(n, days_ago(3)), version="v1")
    )


@pytest.mark.parametrize(
    ("sizes", "k", "expected"),
    [([100_000, 10, 10, 10], K, [100_000, 30]), ([1500, 1500, 10, 10], 6000, [3000, 20])],
)
def test_batches_behind_large_ones_are_compacted(lite_client, monkeypatch, sizes, k, expected):
    """Batches that are large by rows, or by bytes, fill a compacted one."""
    from shiftgauge.monitor.db.schema import batches

    monkeypatch.setenv("SHIFTGAUGE_COMPACT_BATCHES", "3")
    lite_client.put("/v1/models/m/settings", json={}).raise_for_status()
    header = {"content-type": "application/vnd.apache.arrow.stream"}
    for i, n in enumerate(sizes):
        body = arrow_rows(n, f"{i}-", k)
        lite_client.post("/v1/models/m/predictions", content=body, headers=header).raise_for_status()
    run_due_jobs(lite_client.store)
    with lite_client.store.read() as connection:
        kept = [(row.rows, row.compacted) for row in connection.execute(batches.select().order_by("seq"))]
    assert kept == [(rows, True) for rows in expected]


def test_a_pushed_file_sends_weights_and_decisions(tmp_path):
    """Weights to the letter: another file may have rows in the same window."""
    rows = some_rows(30, deployed=True)
    weights = np.arange(1.0, 31.0)
    file = tmp_path / "t.npz"
    np.savez(file, logits=scores_of(rows), predictions=decided(rows), weights=weights)
    calls = list(row_requests(file, "http://127.0.0.1:1", "m", "v1", None, None, [], 20))
    sent = pa.concat_tables([pa.ipc.open_stream(call.body).read_all() for call in calls])
    assert [int(name) for name in sent.column("prediction").to_pylist()] == decided(rows).tolist()
    assert sent.column("weight").to_pylist() == weights.tolist()
