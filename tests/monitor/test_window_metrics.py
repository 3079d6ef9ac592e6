"""Metrics beside the error: against the library, scikit-learn, and by hand; in the API, Prometheus and alerts."""

import io

import numpy as np
import pytest
from monitor_data import labels_json, problem, rows_json, run_due_jobs
from prometheus_client.parser import text_string_to_metric_families
from sklearn.metrics import f1_score, precision_score, recall_score, roc_auc_score
from test_api import post, put_source

import shiftgauge as sg
from shiftgauge.monitor.alerts.rules import window_findings
from shiftgauge.monitor.db.windows import MetricView, WindowView, get_window, list_windows
from shiftgauge.monitor.settings import AlertLimits
from shiftgauge.monitor.views import list_alerts
from shiftgauge.results import points

ALL = ["precision", "recall", "f1", "class_error", "recall:1", "roc_auc"]


def two_classes(client, n=400, labels=True):
    """A model of two classes with every metric; its source, its rows and their labels."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(2 * n, 2)) * 2
    truth = (scores + rng.gumbel(size=scores.shape)).argmax(1)
    body = io.BytesIO()
    np.savez(body, logits=scores[:n], labels=truth[:n])
    client.put("/v1/models/m/versions/v1/source", content=body.getvalue()).raise_for_status()
    client.put("/v1/models/m/settings", json={"metrics": ALL, "replicates": 20}).raise_for_status()
    rows, _ = rows_json(n)
    rows = [{**row, "logits": scores[n + i].tolist()} for i, row in enumerate(rows)]
    post(client, rows)
    if labels:
        client.post("/v1/models/m/labels", json=labels_json(rows, truth[n:])).raise_for_status()
    run_due_jobs(client.store)
    return scores, truth


def test_without_labels_they_are_the_librarys(lite_client):
    scores, truth = two_classes(lite_client, labels=False)
    n = len(truth) // 2
    (window,) = list_windows(lite_client.store, "m")
    wanted = sg.metrics(sg.Source(logits=scores[:n], labels=truth[:n]), sg.Target(logits=scores[n:]))
    found = {metric.name: metric for metric in window.metrics}
    assert list(found) == [
        "precision",
        "recall",
        "f1",
        "class_error:0",
        "class_error:1",
        "recall:1",
        "roc_auc",
    ]
    for name in ("precision", "recall", "f1"):
        mean, ends = wanted.averages()[name]["macro"], wanted.ranges[f"macro {name}"][0]
        assert [found[name].value, found[name].low, found[name].high] == pytest.approx(
            [mean, ends.low, ends.high]
        )
    ends, own = wanted.ranges["recall"][1], found["class_error:1"]
    assert [own.value, own.low, own.high] == pytest.approx(
        [1 - wanted.recall[1], 1 - ends.high, 1 - ends.low]
    )
    assert found["roc_auc"].value == pytest.approx(wanted.roc_auc)
    assert all(one.low < one.value < one.high and one.observed is None for one in found.values())
    assert all(0 < one.sampling <= one.high - one.low for one in found.values())


def test_with_all_labels_they_are_scikit_learns(client):
    """Estimate, observed value and range are one number; that of the source is scikit-learn's too."""
    scores, truth = two_classes(client)
    n, made = len(truth) // 2, scores.argmax(1)
    window = client.get("/v1/models/m/windows").json()["windows"][0]
    assert window["labels"]["n"] == n
    for at, key in ((slice(0, n), "source"), (slice(n, None), "observed")):
        y, p, score = truth[at], made[at], scores[at, 1] - scores[at, 0]
        recalls = recall_score(y, p, average=None)
        wanted = {
            ("precision", None): precision_score(y, p, average="macro"),
            ("recall", None): recalls.mean(),
            ("f1", None): f1_score(y, p, average="macro"),
            ("class_error", "0"): 1 - recalls[0],
            ("class_error", "1"): 1 - recalls[1],
            ("recall", "1"): recalls[1],
            ("roc_auc", None): roc_auc_score(y, score),
        }
        found = {(one["metric"], one["class"]): one for one in window["metrics"]}
        assert {name: one[key] for name, one in found.items()} == pytest.approx(wanted)
    for one in found.values():
        assert [one["value"], one["low"], one["high"]] == pytest.approx([one["observed"]] * 3, abs=1e-6)
    assert found["recall", "1"]["labels"] == (truth[n:] == 1).sum()


def test_prometheus_reads_them(lite_client):
    two_classes(lite_client)
    window = list_windows(lite_client.store, "m")[0]
    families = {f.name: f for f in text_string_to_metric_families(lite_client.get("/metrics").text)}
    for field, name in (
        ("value", "estimated_metric"),
        ("low", "estimated_metric_low"),
        ("high", "estimated_metric_high"),
        ("source", "source_metric"),
        ("observed", "observed_metric"),
    ):
        found = {
            (s.labels["metric"], s.labels["class"]): s.value
            for s in families[f"shiftgauge_{name}_ratio"].samples
        }
        wanted = {(one.metric, one.of or ""): getattr(one, field) for one in window.metrics}
        assert found == pytest.approx(wanted)


def test_what_a_version_does_not_have_is_said(lite_client):
    put_source(lite_client)
    given = {"metrics": ["roc_auc", "recall:fraud", "class_error"], "replicates": 20}
    lite_client.put("/v1/models/m/settings", json=given).raise_for_status()
    post(lite_client, rows_json(60)[0])
    run_due_jobs(lite_client.store)
    (window,) = list_windows(lite_client.store, "m")
    assert [one.name for one in window.metrics] == ["class_error:0", "class_error:1", "class_error:2"]
    said = [text for text in window.warnings if text.startswith("metrics: ")]
    assert len(said) == 2
    assert "needs two classes, this version has 3" in said[0]
    assert "'fraud' is not a class" in said[1]


@pytest.mark.parametrize("name", ["accuracy", "recall:", "roc_auc:1", "", "F1"])
def test_unknown_metrics_are_refused(lite_client, name):
    for given in ({"metrics": [name]}, {"limits": {"metrics": {name: 0.5}}}):
        said = problem(lite_client.put("/v1/models/m/settings", json=given), 422)
        assert "wanted one of precision, recall" in said


def test_limits_on_metrics_change_one_by_one(lite_client):
    def put(**limits):
        got = lite_client.put("/v1/models/m/settings", json={"limits": limits}).raise_for_status()
        return got.json()["limits"]["metrics"]

    assert put(metrics={"f1": 0.8, "class_error": 0.3}) == {"f1": 0.8, "class_error": 0.3}
    assert put(error=0.1) == {"f1": 0.8, "class_error": 0.3}
    assert put(metrics={"f1": None, "recall:1": 0.7}) == {"class_error": 0.3, "recall:1": 0.7}


def window_of(value, *, low=None, high=None, sampling=0.02, metric="f1", of=None, name="w"):
    one = {"metric": metric, "class": of, "value": value, "sampling": sampling, "source": 0.9, "labels": 0}
    ends = {"low": value - 0.1 if low is None else low, "high": value + 0.1 if high is None else high}
    about = {"name": name, "model": "m", "version": "v1", "spec": "day", "start": 0, "end": 1, "rows": 100}
    return WindowView(
        **about,
        state="estimated",
        revision=1,
        newest=1,
        error=0.1,
        low=0.05,
        high=0.2,
        scores_low=0.05,
        metrics=(MetricView(**one, **ends, observed=None),),
    )


@pytest.mark.parametrize(
    ("metric", "of", "value", "state", "confirmed"),
    [
        ("f1", None, 0.85, "resolve", False),
        ("f1", None, 0.79, None, False),  # below, but within its sampling error
        ("f1", None, 0.75, "fire", False),
        ("f1", None, 0.65, "fire", True),  # its whole range lies below
        ("class_error", "1", 0.75, "resolve", False),
        ("class_error", "1", 0.81, None, False),
        ("class_error", "1", 0.85, "fire", False),
        ("class_error", "1", 0.95, "fire", True),
    ],
)
def test_which_side_is_bad_depends_on_the_metric(metric, of, value, state, confirmed):
    window = window_of(value, metric=metric, of=of)
    (found,) = window_findings("v1", [window], AlertLimits(metrics={metric: 0.8}))
    assert (found.state, found.confirmed, found.limit) == (state, confirmed, 0.8)
    assert found.rule == (metric if of is None else f"{metric}:{of}")


@pytest.mark.parametrize(
    ("value", "metric", "name", "message"),
    [
        (0.66, "f1", "2026-10-21.v1", "mean F1 of v1 is 66.0% on 21 Oct 2026: below the limit of 80.0%"),
        (
            0.9,
            "f1",
            "2026-W09.v1",
            "mean F1 of v1 is 90.0% in the week of 23 Feb 2026: back above the limit of 80.0%",
        ),
        (
            0.9,
            "class_error",
            "rows-0-99.v1",
            "error of class a of v1 is 90.0% in rows 0 to 99: above the limit of 80.0%",
        ),
        (
            0.7,
            "class_error",
            "2026-10-21T14Z.v1",
            "error of class a of v1 is 70.0% in the hour from 21 Oct 2026, 14:00 UTC: back below the limit of 80.0%",
        ),
    ],
)
def test_messages_say_on_which_side_of_the_limit_the_metric_lies(value, metric, name, message):
    window = window_of(value, metric=metric, of="a" if metric == "class_error" else None, name=name)
    (found,) = window_findings("v1", [window], AlertLimits(metrics={metric: 0.8}))
    assert found.message == f"the estimated {message}"


def test_a_confirmation_names_the_window_that_confirms():
    """Newer windows may lie on the other side of the limit by then."""
    limits = AlertLimits(metrics={"f1": 0.8}, windows=2)
    newest, before = window_of(0.9, name="2026-10-22.v1"), window_of(0.6, name="2026-10-21.v1")
    (found,) = window_findings("v1", [newest, before], limits)
    assert (found.state, found.confirmed, found.window) == (None, True, "2026-10-21.v1")
    assert found.message == "the estimated mean F1 of v1 is 60.0% on 21 Oct 2026: below the limit of 80.0%"


def test_several_windows_and_windows_without_the_metric():
    limits = AlertLimits(metrics={"f1": 0.8}, windows=2)
    bad, good = window_of(0.7), window_of(0.9)
    assert window_findings("v1", [bad, bad], limits)[0].state == "fire"
    assert window_findings("v1", [bad, good], limits)[0].state is None
    without = bad.model_copy(update={"metrics": ()})
    assert window_findings("v1", [bad, without], limits) == []
    few = bad.model_copy(update={"metrics": (bad.metrics[0].model_copy(update={"low": None, "high": None}),)})
    assert window_findings("v1", [few, few], limits) == []  # too few rows behind it


@pytest.mark.slow
def test_an_alert_on_a_class_fires_and_resolves(lite_client):
    """A limit on class_error is one on each class; labels that contradict it resolve the alert."""
    client = lite_client
    put_source(client)
    given = {"limits": {"metrics": {"class_error": 0.5}}, "replicates": 20, "labels_are_random": True}
    client.put("/v1/models/m/settings", json=given).raise_for_status()
    rows, labels = rows_json(300, day=3, shift=1.7)
    post(client, rows)
    client.post("/v1/models/m/labels", json=labels_json(rows, labels)).raise_for_status()
    run_due_jobs(client.store)
    fired = list_alerts(client.store, firing=True)
    window = get_window(client.store, "m", list_windows(client.store, "m")[0].name)
    beyond = {one.name for one in window.metrics if one.value > 0.5}
    assert {alert.rule for alert in fired} == beyond != set()
    assert all("error of class" in alert.message and alert.confirmed for alert in fired)
    assert client.get("/v1/models/m").json()["state"] == "alert"
    rows, labels = rows_json(300, day=2, prefix="good")
    post(client, rows)
    run_due_jobs(client.store)
    assert list_alerts(client.store, firing=True) == []
    client.put("/v1/models/m/settings", json={"limits": None}).raise_for_status()
    assert client.get("/v1/models/m").json()["reason"] == "no limits set"


def test_labels_make_their_ranges_narrower(lite_client):
    client = lite_client
    put_source(client)
    client.put("/v1/models/m/settings", json={"metrics": ["f1", "class_error"], "replicates": 20})
    rows, labels = rows_json(300, day=3)
    post(client, rows)
    run_due_jobs(client.store)
    (before,) = list_windows(client.store, "m")
    client.post("/v1/models/m/labels", json=labels_json(rows, labels)[:280]).raise_for_status()
    run_due_jobs(client.store)
    (after,) = list_windows(client.store, "m")
    for old, new in zip(before.metrics, after.metrics, strict=True):
        assert new.high - new.low < 0.5 * (old.high - old.low)
        assert new.labels > 0
        assert new.low <= new.observed <= new.high


def test_the_page_of_a_window_says_where_the_rise_comes_from(lite_client):
    """Where the source has the segment too, the split is that of `shiftgauge.drivers`."""
    client, n = lite_client, 400
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(2 * n, 2)) * 2
    truth = (scores + rng.gumbel(size=scores.shape)).argmax(1)
    cameras = np.where(rng.random(2 * n) < np.repeat([0.2, 0.8], n), "south", "north")
    body = io.BytesIO()
    np.savez(body, logits=scores[:n], labels=truth[:n], segment_camera=cameras[:n])
    client.put("/v1/models/m/versions/v1/source", content=body.getvalue()).raise_for_status()
    client.put("/v1/models/m/settings", json={"segments": ["camera", "country"], "replicates": 20})
    rows, _ = rows_json(n)
    rows = [
        {**row, "logits": scores[n + i].tolist(), "segments": {"camera": cameras[n + i]}}
        for i, row in enumerate(rows)
    ]
    post(client, rows)
    run_due_jobs(client.store)
    (window,) = list_windows(client.store, "m")
    wanted = sg.drivers(
        sg.Source(logits=scores[:n], labels=truth[:n]),
        sg.Target(logits=scores[n:]),
        {"camera": (cameras[:n], cameras[n:])},
    )
    (found,) = window.details["drivers"]["columns"]
    assert found["column"] == "camera"
    assert window.details["drivers"]["rise"] == pytest.approx(wanted.rise)
    for name in ("distance", "mix", "within", "p_adjusted"):
        assert found[name] == pytest.approx(getattr(wanted["camera"], name))
    page = client.get(f"/models/m/windows/{window.name}").text
    camera = wanted["camera"]
    assert points(camera.mix, camera.mix_range) in page
    assert points(camera.within, camera.within_range) in page
