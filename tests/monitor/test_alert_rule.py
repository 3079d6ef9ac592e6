"""When an alert about the error fires, what confirms it, and what resolves it; all over HTTP."""

import re
import shutil

import numpy as np
import pytest
from monitor_data import K, client_of, labels_json, rows_json, run_due_jobs
from test_api import post, put_source, windows

from shiftgauge.monitor.db.store import open_store
from shiftgauge.monitor.periods import HOUR, during_window, now_us, simulated_time
from shiftgauge.monitor.run.worker import Worker

NOT_CONFIRMED = "not confirmed: label some rows"


def put_limits(client, **limits):
    client.put("/v1/models/m/settings", json={"limits": limits}).raise_for_status()
    run_due_jobs(client.store)


def alerts(client):
    return client.get("/v1/models/m/alerts").json()["alerts"]


def firing(client):
    """What each alert that fires says of itself."""
    return [alert["confirmation"] for alert in alerts(client) if alert["firing"]]


def day(client, number, n=150, shift=1.7, **more):
    """A day of rows, by default far worse than the source."""
    rows, _ = rows_json(n, seed=number, day=number, prefix=f"d{number}-", shift=shift, **more)
    post(client, rows).raise_for_status()
    run_due_jobs(client.store)


def label(client, labels):
    client.post("/v1/models/m/labels", json={"labels": labels}).raise_for_status()
    run_due_jobs(client.store)


def chosen(number, n, wrong, shift=1.7):
    """Labels for the first n rows of a day, of which the first `wrong` contradict the prediction."""
    rows, _ = rows_json(n, seed=number, day=number, prefix=f"d{number}-", shift=shift)
    best = [int(np.argmax(row["logits"])) for row in rows]
    return labels_json(rows, [(b + (i < wrong)) % K for i, b in enumerate(best)])


@pytest.fixture(scope="module")
def bad_data(tmp_path_factory, empty_data):
    """The folder of a monitor whose model has one bad day."""
    folder = tmp_path_factory.mktemp("bad") / "data"
    shutil.copytree(empty_data, folder)
    store = open_store(folder)
    for client in client_of(store):
        put_source(client)
        day(client, 9)
    store.close()
    return folder


@pytest.fixture
def bad(tmp_path, bad_data):
    """A model with one bad day."""
    shutil.copytree(bad_data, tmp_path / "bad")
    store = open_store(tmp_path / "bad")
    yield from client_of(store)
    store.close()


def test_an_alert_fires_beyond_the_sampling_part_and_is_confirmed_by_the_range(bad):
    (w,) = windows(bad)
    error, sampling, low = w["error"], w["sampling"], w["range"]["low"]
    assert low < error - sampling < error
    put_limits(bad, error=error - 0.9 * sampling)
    assert firing(bad) == []
    put_limits(bad, error=(low + error - sampling) / 2)
    assert firing(bad) == [NOT_CONFIRMED]
    put_limits(bad, error=low - 0.01)
    assert firing(bad) == ["confirmed"]
    assert [a["resolution"] for a in alerts(bad)] == [None, "the limit was changed"]


def test_the_rise_over_the_source_follows_the_same_rule(bad):
    (w,) = windows(bad)
    rise = w["error"] - w["source_error"]
    put_limits(bad, rise=rise - 0.9 * w["sampling"])
    assert firing(bad) == []
    put_limits(bad, rise=rise - 1.1 * w["sampling"])
    assert firing(bad) == [NOT_CONFIRMED]
    said = f"the estimated rise over the source's error of v1 is {100 * rise:.1f} points on "
    assert alerts(bad)[0]["message"].startswith(said)


def test_a_wide_range_can_have_a_limit(bad):
    (w,) = windows(bad)
    width = w["range"]["high"] - w["range"]["low"]
    put_limits(bad, width=width + 0.01)
    assert firing(bad) == []
    put_limits(bad, width=width - 0.01)
    assert firing(bad) == [None]  # labels do not confirm a width
    when = during_window(w["window"])
    limit = f"the limit of {100 * width - 1:.1f} points"
    said = f"the width of the range of v1 is {100 * width:.1f} points {when}: above {limit}"
    assert alerts(bad)[0]["message"] == said


@pytest.mark.parametrize(("count", "resolved"), [(29, False), (30, True)])
def test_thirty_labels_within_the_limit_resolve_it(bad, count, resolved):
    put_limits(bad, error=0.5, windows=2)
    day(bad, 8)
    assert firing(bad) == [NOT_CONFIRMED]
    label(bad, chosen(8, 150, wrong=3)[:count])
    assert (firing(bad) == []) == resolved
    if resolved:
        when = during_window(windows(bad)[-1]["window"])
        error = 100 * windows(bad)[-1]["error"]
        said = f"the error from scores and labels of v1 is {error:.1f}% {when}: back below the limit of 50.0%"
        assert alerts(bad)[0]["resolution"] == said
        run_due_jobs(bad.store)
        assert firing(bad) == []  # and it does not come back


def test_labels_of_every_row_are_the_error(lite_client):
    put_source(lite_client)
    day(lite_client, 9, n=20)
    (w,) = windows(lite_client)
    put_limits(lite_client, error=w["error"] - 1.1 * w["sampling"])
    assert firing(lite_client) == [NOT_CONFIRMED]
    label(lite_client, chosen(9, 20, wrong=0))
    (w,) = windows(lite_client)
    assert (w["error"], w["range"]["low"], w["range"]["high"]) == (0.0, 0.0, 0.0)
    assert firing(lite_client) == []
    assert alerts(lite_client)[0]["resolution"].startswith("the error by labels of v1 is 0.0%")


def random_labels(client, value=True):
    client.put("/v1/models/m/settings", json={"labels_are_random": value}).raise_for_status()


@pytest.mark.parametrize("random", [True, False])
def test_random_labels_beyond_the_limit_confirm_it_for_good(bad, random):
    """Labels that nobody requested may be complaints: they do not confirm what the scores alone do not."""
    random_labels(bad, random)
    put_limits(bad, error=0.4)
    assert firing(bad) == [NOT_CONFIRMED]
    label(bad, chosen(9, 150, wrong=120)[::2])
    expected = ["confirmed"] if random else [NOT_CONFIRMED]
    assert firing(bad) == expected
    day(bad, 8)  # no labels yet
    assert firing(bad) == expected
    assert len(alerts(bad)) == 1


@pytest.mark.parametrize("random", [True, False])
def test_labels_alone_fire(lite_client, random):
    """The scores see nothing, but the labels do: 30 of 40 are wrong."""
    put_source(lite_client)
    random_labels(lite_client, random)
    put_limits(lite_client, error=0.45)
    day(lite_client, 9, shift=0.0)
    assert firing(lite_client) == []
    label(lite_client, chosen(9, 150, wrong=30, shift=0.0)[:40])
    assert firing(lite_client) == ["confirmed" if random else NOT_CONFIRMED]
    assert alerts(lite_client)[0]["message"].startswith("the error from scores and labels of v1 is ")
    assert any("contradict" in text for text in windows(lite_client)[0]["warnings"])


def test_a_named_method_answers_from_scores_and_labels_replace_it(lite_client):
    put_source(lite_client)
    lite_client.put("/v1/models/m/settings", json={"method": "doc", "replicates": 20}).raise_for_status()
    day(lite_client, 9)
    (before,) = windows(lite_client)
    put_limits(lite_client, error=before["error"] - 1.1 * before["sampling"])
    assert firing(lite_client) == [NOT_CONFIRMED]
    label(lite_client, chosen(9, 150, wrong=3)[:40])
    (after,) = windows(lite_client)
    assert (after["error"], after["labels"]) == (before["error"], None)
    assert firing(lite_client) == []
    assert alerts(lite_client)[0]["resolution"].startswith("the error by labels of v1 is 7.5%")


def test_it_takes_as_many_windows_as_set(bad):
    put_limits(bad, error=0.5, windows=2)
    assert firing(bad) == []
    day(bad, 8)
    assert firing(bad) == [NOT_CONFIRMED]
    day(bad, 7, shift=0.0)
    assert firing(bad) == [NOT_CONFIRMED]  # one window within the limit is not enough
    day(bad, 6, shift=0.0)
    assert firing(bad) == []
    assert alerts(bad)[0]["resolution"].startswith("the estimated error of v1 is ")


@pytest.mark.parametrize(
    "limits",
    [{"error": 0.5}, {"rise": 0.05}, {"width": 0.01}, {"silence_hours": 1}, {"not_estimated_hours": 1}],
)
def test_a_limit_that_is_removed_resolves_its_alert(bad, limits):
    if "not_estimated_hours" in limits:
        day(bad, 8, version="v2")  # it has no source
    with simulated_time(now_us() + 48 * HOUR):
        put_limits(bad, **limits)
        assert len(firing(bad)) == 1
        put_limits(bad, **dict.fromkeys(limits))
        Worker(bad.store).drain()
    assert firing(bad) == []
    assert alerts(bad)[0]["resolution"] == "the limit was removed"


def test_a_replaced_version_resolves_even_where_it_has_too_few_windows(bad):
    put_limits(bad, error=0.5)
    assert firing(bad) == [NOT_CONFIRMED]
    put_source(bad, version="v2")
    day(bad, 5, shift=0.0, version="v2")
    put_limits(bad, windows=3)
    assert firing(bad) == []


def test_metrics_show_the_range_and_name_the_sampling_part(bad):
    (w,) = windows(bad)
    text = bad.get("/metrics").text

    def value(name):
        return float(re.search(rf'^shiftgauge_{name}_ratio{{.*version="v1".*}} (\S+)$', text, re.M)[1])

    assert value("estimated_error_low") == w["range"]["low"]
    assert value("estimated_error_high") == w["range"]["high"]
    assert value("estimated_error_sampling") == w["sampling"]


def test_a_named_method_has_no_measured_range_to_confirm_it(lite_client):
    put_source(lite_client)
    lite_client.put("/v1/models/m/settings", json={"method": "doc", "replicates": 20}).raise_for_status()
    day(lite_client, 9)
    (w,) = windows(lite_client)
    assert w["range"]["kind"] == "sampling error only"
    assert w["sampling"] == pytest.approx(w["error"] - w["range"]["low"])
    put_limits(lite_client, error=w["range"]["low"] - 0.01)
    assert firing(lite_client) == [NOT_CONFIRMED]


def test_five_days_of_digits(lite_client):
    """Each day shows a few of the ten digits: neither the estimate nor the labels raise an alert."""
    datasets = pytest.importorskip("sklearn.datasets")
    from sklearn.linear_model import LogisticRegression

    x, y = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = x[order] / 16, y[order]
    model = LogisticRegression(max_iter=500).fit(x[:700], y[:700])
    source = {"probs": model.predict_proba(x[700:1397]).tolist(), "labels": y[700:1397].tolist()}
    client = lite_client
    client.put("/v1/models/m/versions/v1/source", json=source).raise_for_status()
    client.put("/v1/models/m/settings", json={"limits": {"error": 0.1}, "replicates": 20}).raise_for_status()
    parts = np.array_split(1397 + np.argsort(y[1397:], kind="stable"), 5)
    labels = []
    for number, place in enumerate((0, 2, 3, 4, 1)):  # the twos and threes come last
        part = parts[place]
        probs = model.predict_proba(x[part])
        like, _ = rows_json(len(part), day=9 - number, prefix=f"{number}-")
        for row, p in zip(like, probs.tolist(), strict=True):
            del row["logits"]
            row["probs"] = p
        post(client, like).raise_for_status()
        labels += labels_json(like, y[part])
    run_due_jobs(client.store)
    assert firing(client) == []
    label(client, labels)
    held = windows(client)
    truth = sum(w["observed"]["error"] * w["rows"] for w in held) / sum(w["rows"] for w in held)
    assert truth < 0.04
    assert [w["error"] for w in held] == pytest.approx([w["observed"]["error"] for w in held])
    assert firing(client) == []


def test_a_method_that_refuses_says_why_in_the_window_and_another_one_estimates_it(lite_client):
    """COT cannot take decisions that differ from the largest score; the window says so, and the job is done."""
    client = lite_client
    put_source(client)
    client.put("/v1/models/m/settings", json={"method": "cot", "replicates": 20}).raise_for_status()
    rows, _ = rows_json(60)
    decided = [
        {**row, "prediction": (int(np.argmax(row["logits"])) + (i == 0)) % K} for i, row in enumerate(rows)
    ]
    post(client, decided).raise_for_status()
    run_due_jobs(client.store)
    (w,) = windows(client)
    assert (w["state"], w["error"]) == ("failed", None)
    assert "cot" in w["reason"]
    assert "decisions" in w["reason"]
    assert "auto" in w["reason"]  # what to take instead
    assert client.get("/v1/models/m").json()["reason"] == w["reason"]
    client.put("/v1/models/m/settings", json={"method": "auto"}).raise_for_status()
    run_due_jobs(client.store)
    (w,) = windows(client)
    assert (w["state"], w["reason"]) == ("estimated", None)
