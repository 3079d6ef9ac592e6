"""What one request, one page or one label may cost: bounded work, bounded memory, bounded growth."""

import gzip
import time
import tracemalloc
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from monitor_data import client_of, labels_json, problem, rows_json, run_due_jobs
from sqlalchemy import event
from test_api import ARROW, PARQUET, arrow_bytes, put_source, windows
from test_damaged import parquet_bytes

from shiftgauge.monitor.ingest.bodies import RequestLimits
from shiftgauge.monitor.periods import HOUR, SECOND, now_us, simulated_time
from shiftgauge.monitor.run.worker import Worker

K = 2


def table(n, *, versions=1, step=HOUR, prefix="r"):
    """n rows, one every `step` microseconds, of so many versions in turn."""
    times = np.arange(n, dtype=np.int64) * step
    names = pa.array(np.arange(n) % versions).cast(pa.string())
    return pa.table(
        {
            "id": pa.array([f"{prefix}{i}" for i in range(n)]),
            "time": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
            "version": names,
            "logits": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(n * K)), K),
        }
    )


def send(client, held, model="m"):
    headers = {"content-type": ARROW}
    return client.post(f"/v1/models/{model}/predictions", content=arrow_bytes(held), headers=headers)


def seconds(client, held, model):
    """CPU seconds of a request that is accepted."""
    client.put(f"/v1/models/{model}/settings", json={"window": "hour"})
    begin = time.process_time()
    answer = send(client, held, model)
    taken = time.process_time() - begin
    assert answer.status_code == 202, answer.text
    return taken


def test_many_windows_do_not_each_cost_all_rows(lite_client):
    """8,000 windows in place of 10 may cost their own rows to write, but not windows times rows."""
    n = 300_000
    few, many = table(n, step=10 * HOUR // n), table(n, step=8000 * HOUR // n)
    seconds(lite_client, few.slice(0, 1000), "first")  # compiles, imports
    base = min(seconds(lite_client, few, f"few{i}") for i in range(2))
    assert seconds(lite_client, many, "many") < 30 * base  # windows times rows would be thousands


def test_many_versions_do_not_each_cost_all_rows(lite_client):
    n = 200_000
    seconds(lite_client, table(1000), "first")
    base = min(seconds(lite_client, table(n, step=SECOND // 100), f"one{i}") for i in range(2))
    assert seconds(lite_client, table(n, versions=400, step=SECOND // 100), "many") < 30 * base


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n": 10_001}, "rows of more than 10,000 windows; wanted at most 10,000"),
        ({"n": 1001, "versions": 1001, "step": SECOND}, "rows of 1,001 versions; wanted at most 1,000"),
    ],
)
def test_windows_and_versions_of_one_request_have_limits(lite_client, given, said):
    lite_client.put("/v1/models/m/settings", json={"window": "hour"})
    assert said in problem(send(lite_client, table(**given)), 413)
    assert lite_client.get("/v1/models/m").json()["rows"] == 0


def test_labels_of_many_versions(lite_client):
    """Labels are checked against the classes of their own row's version, and without a row against all."""
    lite_client.put("/v1/models/m/settings", json={})
    assert send(lite_client, table(40, versions=20, step=SECOND)).status_code == 202
    wide = [
        {
            "id": "w",
            "time": "1970-01-02T00:00:00Z",
            "version": "wide",
            "logits": {"cat": 0, "dog": 1, "owl": 2},
        }
    ]
    assert lite_client.post("/v1/models/m/predictions", json=wide).status_code == 202

    def label(*pairs):
        return lite_client.post("/v1/models/m/labels", json=[{"id": i, "label": v} for i, v in pairs])

    assert label(("r0", 0), ("r1", 1), ("w", "owl"), ("later", "cat"), ("later too", 1)).status_code == 202
    assert "row 1: label '2' of id 'r5' is not a class; wanted one of 0 to 1" in problem(
        label(("r4", 1), ("r5", 2)), 422
    )
    assert "row 0: label '1' of id 'w' is not a class; wanted one of cat, dog, owl" in problem(
        label(("w", 1)), 422
    )
    assert "'cow'" in problem(label(("later", "cow")), 422)


def peak(call):
    tracemalloc.start()
    answer = call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return answer, most


def test_json_is_limited_after_decompression(lite_client):
    lite_client.put("/v1/models/m/settings", json={})
    body = gzip.compress(b'{"rows":[' + b"[]," * 7_000_000 + b"[]]}")
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    for method, call in (("POST", "predictions"), ("POST", "labels"), ("PUT", "versions/v1/source")):
        path = f"/v1/models/m/{call}"
        answer, most = peak(partial(lite_client.request, method, path, content=body, headers=headers))
        said = problem(answer, 413)
        assert "21,000,013 bytes of JSON; wanted at most 16,777,216" in said
        assert "Arrow or Parquet" in said
        assert most < 100e6  # as Python's objects it would be 500 MB


def test_a_source_does_not_grow_by_its_longest_text(lite):
    for client in client_of(lite, limits=RequestLimits(body=100_000)):
        long = {"classes": ["x" * 2000] + ["a"] * 2000, "labels": [0]}
        path = "/v1/models/m/versions/v1/source"
        answer, most = peak(partial(client.put, path, json=long))
        assert "2,001 texts of up to 2,000 characters" in problem(answer, 413)
        assert most < 5e6  # 16 MB as an array
        nested = {"probs": [["x" * 2000, 1]] * 2, "labels": [0, 1]}
        assert "wanted a number" in problem(client.put(path, json=nested), 422)
        assert "'labels' is missing" in problem(client.put(path, json={"probs": [[0.5, 0.5]]}), 422)
        column = pa.array(["x" * 20_000] * 1000)
        held = pa.table({"prob_a": np.zeros(1000), "prob_b": np.ones(1000), "label": column})
        body = parquet_bytes(held, compression="zstd")
        assert len(body) < 100_000
        answer = client.put(path, content=body, headers={"content-type": PARQUET})
        assert "1,000 texts of up to 20,000 characters" in problem(answer, 413)


def test_a_parquet_body_is_as_large_as_its_pages_say(lite):
    """One row of ten million equal numbers is a file of a few kilobytes."""
    for client in client_of(lite, limits=RequestLimits(body=1_000_000)):
        client.put("/v1/models/m/settings", json={})
        held = table(1).set_column(3, "logits", pa.array([np.zeros(1_000_000)]))
        body = parquet_bytes(held, compression="zstd")
        assert len(body) < 100_000
        headers = {"content-type": PARQUET}
        assert "after decompression" in problem(
            client.post("/v1/models/m/predictions", content=body, headers=headers), 413
        )


def statements(client, path):
    """How many SQL statements about windows a GET takes."""
    said = []

    def count(*words):
        if "revisions" in words[2] or "windows" in words[2]:
            said.append(words[2])

    event.listen(client.store.engine, "before_cursor_execute", count)
    try:
        assert client.get(path).status_code == 200
    finally:
        event.remove(client.store.engine, "before_cursor_execute", count)
    return len(said)


@pytest.fixture
def paged(lite):
    from fastapi.testclient import TestClient

    from shiftgauge.monitor.run.app import create_app

    with TestClient(create_app(lite), base_url="http://127.0.0.1") as client:
        client.store = lite
        put_source(client)
        client.put("/v1/models/m/settings", json={"replicates": 20})
        yield client


def label_each(client, rows, labels, start, gap):
    """Labels one by one, `gap` microseconds apart; the worker looks after each."""
    worker = Worker(client.store)
    for i, one in enumerate(labels_json(rows, labels)):
        with simulated_time(start + i * gap):
            client.post("/v1/models/m/labels", json=[one]).raise_for_status()
        with simulated_time(start + i * gap + 3 * SECOND):
            worker.drain()


def test_labels_that_trickle_in_make_revisions_in_growing_steps(paged):
    """A quarter more labels, or an hour: nothing that was shown is overwritten, and the revisions stay few."""
    rows, labels = rows_json(60)
    paged.post("/v1/models/m/predictions", json=rows).raise_for_status()
    run_due_jobs(paged.store)
    start = (now_us() // HOUR + 2) * HOUR
    label_each(paged, rows[:30], labels[:30], start, 60 * SECOND)
    (window,) = windows(paged)
    path = f"/v1/models/m/windows/{window['window']}"
    shown = paged.get(f"{path}/revisions").json()["revisions"]
    counts = [one["labels"]["n"] if one["labels"] else 0 for one in shown]
    assert counts == [0, 1, 2, 3, 4, 5, 7, 9, 12, 15, 19, 24, 30]
    label_each(paged, rows[30:31], labels[30:31], start + 30 * 60 * SECOND, 0)
    assert windows(paged)[0]["labels"]["n"] == 30
    with simulated_time(start + 2 * HOUR):
        Worker(paged.store).drain()
    after = paged.get(f"{path}/revisions").json()["revisions"]
    assert after[: len(shown)] == shown
    assert [one["labels"]["n"] for one in after[len(shown) :]] == [31]


def test_pages_take_as_many_statements_for_many_revisions_as_for_few(paged):
    rows, labels = rows_json(30)
    paged.post("/v1/models/m/predictions", json=rows).raise_for_status()
    run_due_jobs(paged.store)
    name = windows(paged)[0]["window"]
    start = (now_us() // HOUR + 2) * HOUR
    paths = [
        f"/models/m/windows/{name}",
        "/models/m",
        "/v1/models/m",
        f"/v1/models/m/windows/{name}/revisions",
    ]
    label_each(paged, rows[:2], labels[:2], start, HOUR)
    few = [statements(paged, path) for path in paths]
    label_each(paged, rows[2:9], labels[2:9], start + 2 * HOUR, HOUR)
    assert windows(paged)[0]["revision"] == 10
    assert [statements(paged, path) for path in paths] == few


def test_pages_take_as_many_statements_for_many_versions_as_for_few(paged):
    few = statements(paged, "/v1/models/m")
    for i in range(2, 8):
        put_source(paged, version=f"v{i}")
    assert statements(paged, "/v1/models/m") == few


def test_the_first_commit_after_a_restart_does_not_make_others_wait(lite):
    """SQLite counts its steps while it holds the lock of writers: these do not grow with what is stored."""

    def steps(posts, model):
        for client in client_of(lite):
            client.put(f"/v1/models/{model}/settings", json={})
            for i in range(posts):
                assert send(client, table(5, step=SECOND, prefix=f"{i}-"), model).status_code == 202
        taken = [0]

        def count():
            taken[0] += 1

        def watch(connection, _, statement, *__):
            if statement.startswith("BEGIN"):
                writes = statement == "BEGIN IMMEDIATE"
                connection.connection.dbapi_connection.set_progress_handler(count if writes else None, 10)

        lite.engine.dispose()
        event.listen(lite.engine, "before_cursor_execute", watch)
        for client in client_of(lite):  # another process, as far as its memory is concerned
            assert send(client, table(1, step=SECOND, prefix="new"), model).status_code == 202
        event.remove(lite.engine, "before_cursor_execute", watch)
        lite.engine.dispose()
        return taken[0]

    assert 0 < steps(80, "large") < 1.5 * steps(5, "small")
