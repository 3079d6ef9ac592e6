"""Labels improve a window's answer: which of them narrow its range, and what stays after an erasure; all over HTTP."""

import io

import numpy as np
import pytest
from monitor_data import labels_json, problem, rows_json, run_due_jobs, source_npz
from sqlalchemy import event
from test_api import post, put_source, windows

import shiftgauge as sg

N = 400


@pytest.fixture
def shop(client):
    """A day of rows whose error the scores underestimate."""
    put_source(client)
    client.put("/v1/models/m/settings", json={"replicates": 20}).raise_for_status()
    client.rows, client.truth = rows_json(N, shift=0.6)
    post(client, client.rows).raise_for_status()
    run_due_jobs(client.store)
    return client


def send(client, ids):
    truth = {row["id"]: int(label) for row, label in zip(client.rows, client.truth, strict=True)}
    body = [{"id": i, "label": truth[i]} for i in ids]
    client.post("/v1/models/m/labels", json=body).raise_for_status()
    run_due_jobs(client.store)


def requested(client, count):
    asked = client.post("/v1/models/m/label-requests", json={"labels": count}).json()["rows"]
    return [row["id"] for row in asked]


def width(window):
    return window["range"]["high"] - window["range"]["low"]


def library_answer(client, ids):
    """What the library says of the window's rows and these labels."""
    with np.load(io.BytesIO(source_npz())) as file:
        source = sg.Source(file["logits"], file["labels"])
    target = sg.Target(np.array([row["logits"] for row in client.rows]))
    known = {i: int(client.truth[i]) for i, row in enumerate(client.rows) if row["id"] in set(ids)}
    return sg.estimate(source, target, labels=known, labels_chosen="random")


def test_requested_labels_narrow_the_range_step_by_step(shop):
    ids = requested(shop, 120)
    shown = windows(shop)
    for part in (ids[:20], ids[20:60], ids[60:]):
        send(shop, part)
        shown += windows(shop)
    widths = [width(w) for w in shown]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.6 * widths[0]
    assert [w["labels"] and w["labels"]["n"] for w in shown] == [None, 20, 60, 120]
    assert {w["labels"]["chosen"] for w in shown[1:]} == {"random"}
    wanted, found = library_answer(shop, ids), shown[-1]
    ends = (found["error"], found["range"]["low"], found["range"]["high"])
    assert ends == pytest.approx((wanted.error, wanted.range.low, wanted.range.high), abs=1e-5)
    assert {"level", "low", "high", "kind"} == set(shown[-1]["range"])
    last = shown[-1]["labels"]
    assert last["scores_error"] == shown[0]["error"]
    assert last["scores_range"]["high"] == shown[0]["range"]["high"]
    assert last["error"] == pytest.approx(last["errors"] / last["n"])
    kept = shop.get(f"/v1/models/m/windows/{shown[0]['window']}/revisions").json()["revisions"]
    assert kept == shown  # nothing that was shown is overwritten


@pytest.mark.parametrize("random", [False, True])
def test_labels_that_nobody_requested_narrow_it_only_if_the_settings_say_that_they_are_random(shop, random):
    shop.put("/v1/models/m/settings", json={"labels_are_random": random}).raise_for_status()
    (before,) = windows(shop)
    send(shop, [row["id"] for row in shop.rows[::4]])
    (after,) = windows(shop)
    assert after["labels"]["n"] == N // 4
    assert after["labels"]["chosen"] == ("random" if random else "unknown")
    assert after["error"] != before["error"]
    assert (width(after) < 0.8 * width(before)) == random


def test_most_labels_narrow_the_range_whoever_asked_for_them(shop):
    (before,) = windows(shop)
    send(shop, [row["id"] for row in shop.rows[: int(0.9 * N)]])
    (after,) = windows(shop)
    assert after["labels"]["chosen"] == "unknown"
    assert width(after) < 0.5 * width(before)


def test_labels_that_are_there_when_the_window_closes_count_at_once(client):
    put_source(client)
    rows, labels = rows_json(60)
    post(client, rows).raise_for_status()
    client.post("/v1/models/m/labels", json=labels_json(rows, labels)).raise_for_status()
    run_due_jobs(client.store)
    (window,) = windows(client)
    assert (window["revision"], window["cause"], window["labels"]["n"]) == (1, "closed", 60)
    wrong = np.mean([np.argmax(r["logits"]) != y for r, y in zip(rows, labels, strict=True)])
    assert window["error"] == window["range"]["low"] == window["range"]["high"] == pytest.approx(wrong)


def test_a_plan_of_a_window_that_grew_does_not_narrow_its_range(shop):
    """A plan is a random sample of the rows that were there when it was made."""
    ids = requested(shop, 60)
    more, _ = rows_json(N // 2, seed=9, prefix="late", shift=0.6)
    post(shop, more).raise_for_status()
    run_due_jobs(shop.store)
    (before,) = windows(shop)
    send(shop, ids)
    (after,) = windows(shop)
    assert after["labels"]["chosen"] == "unknown"
    assert width(after) > 0.9 * width(before)
    assert any("33% of the rows came after the label request" in text for text in after["warnings"])


def test_erasure_erases_labels_and_what_was_published_stays(shop):
    ids = requested(shop, 40)
    send(shop, ids[:30])
    (before,) = windows(shop)
    for name in ids[:5]:
        assert shop.delete("/v1/models/m/rows", params={"id": name}).json()["erased"] == 2
    run_due_jobs(shop.store)
    assert windows(shop) == [before]
    send(shop, ids[30:])  # the 25 others and these: more than before
    (after,) = windows(shop)
    assert (after["labels"]["n"], after["rows"]) == (35, N - 5)
    assert shop.get("/v1/models/m/label-requests").json()["rows"] == []


def test_the_setting_is_a_flag(client):
    put_source(client)
    assert client.get("/v1/models/m/settings").json()["labels_are_random"] is False
    said = problem(client.put("/v1/models/m/settings", json={"labels_are_random": "maybe"}), 422)
    assert "labels_are_random" in said


def test_open_requests_are_listed_without_reading_all_labels_again(shop):
    path = "/v1/models/m/label-requests"
    wanted = [row["id"] for row in shop.post(path, json={"labels": 5}).json()["rows"]]
    send(shop, [row["id"] for row in shop.rows if row["id"] not in wanted])
    read = []

    def note(connection, cursor, statement, *_):
        read.append("batches.id IN" in statement)

    event.listen(shop.store.engine, "before_cursor_execute", note)
    counts = []
    for _ in range(2):
        read.clear()
        assert sorted(row["id"] for row in shop.get(path).json()["rows"]) == sorted(wanted)
        counts.append(sum(read))
    assert counts == [1, 0]
    send(shop, wanted[:2])
    assert [row["id"] for row in shop.get(path).json()["rows"]] == wanted[2:]


def test_labels_leave_the_warning_that_the_report_is_of_some_rows(lite_client, monkeypatch):
    monkeypatch.setattr("shiftgauge.monitor.estimate.answer.LARGE", 100)
    lite_client.put("/v1/models/m/versions/v1/source", content=source_npz()).raise_for_status()
    rows, labels = rows_json(150)
    lite_client.post("/v1/models/m/predictions", json={"rows": rows}).raise_for_status()
    run_due_jobs(lite_client.store)
    lite_client.post("/v1/models/m/labels", json={"labels": labels_json(rows, labels)}).raise_for_status()
    run_due_jobs(lite_client.store)
    (window,) = lite_client.get("/v1/models/m/windows").json()["windows"]
    assert window["observed"]["labels"] == 150
    assert any(text.startswith("the estimate is of all 150 rows") for text in window["warnings"])
