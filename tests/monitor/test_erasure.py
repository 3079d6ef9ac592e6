"""Erased means gone: from every file and table, from label plans and memory, within the call."""

import errno
import logging
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from monitor_data import client_of, days_ago, labels_json, problem, rows_json, run_due_jobs
from sqlalchemy import event, inspect, text
from test_api import post, put_source, windows

from shiftgauge.cli.app import run
from shiftgauge.monitor.db.store import open_store
from shiftgauge.monitor.periods import DAY, iso, now_us, simulated_time
from shiftgauge.monitor.run.export import export


@pytest.fixture(autouse=True)
def settle_early(monkeypatch):
    """Three small batches are compacted."""
    monkeypatch.setenv("SHIFTGAUGE_COMPACT_BATCHES", "3")


def places_of(store, word):
    """Where a word stands: files of the data folder (their bytes) and tables (Arrow streams as tables)."""
    found = [
        str(file.relative_to(store.folder))
        for file in sorted(store.folder.rglob("*"))
        if file.is_file() and word.encode() in file.read_bytes()
    ]
    with store.read() as connection:
        for table in inspect(connection).get_table_names():
            rows = connection.execute(text(f'SELECT * FROM "{table}"')).all()
            if any(word.encode() in _bytes(value) for row in rows for value in row):
                found.append(f"table {table}")
    return found


def _bytes(value):
    if not isinstance(value, bytes | memoryview):
        return str(value).encode()
    held = bytes(value)
    if held.startswith(b"\xff\xff\xff\xff"):
        held += repr(pa.ipc.open_stream(held).read_all().to_pydict()).encode()
    return held


def exported(store, folder, name):
    """The tables of one kind of an export, as one list of rows."""
    export(store, folder)
    return [
        row
        for file in sorted(folder.glob(f"{name}/**/*.parquet"))
        for row in pa.parquet.read_table(file).to_pylist()
    ]


def watched(client, n=300):
    """Rows in a compacted batch and as they came, a label plan, labels of requested rows and one without a row."""
    put_source(client)
    client.put("/v1/models/m/settings", json={"replicates": 20})
    rows, labels = rows_json(n, id=lambda i: f"<person-{i}>")
    for i in range(0, n, n // 3):
        assert post(client, rows[i : i + n // 3]).status_code == 202
    run_due_jobs(client.store)
    picked = [
        row["id"] for row in client.post("/v1/models/m/label-requests", json={"labels": 40}).json()["rows"]
    ]
    truth = {row["id"]: label for row, label in zip(rows, labels, strict=True)}
    answer(client, truth, picked[:-2])
    client.post("/v1/models/m/labels", json=[{"id": "nobody@example.org", "label": 1}])
    run_due_jobs(client.store)
    with client.store.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM batches WHERE compacted")).scalar()
    return rows, truth, picked


def answer(client, truth, ids):
    assert (
        client.post("/v1/models/m/labels", json=[{"id": i, "label": truth[i]} for i in ids]).status_code
        == 202
    )


@pytest.mark.parametrize(
    ("which", "word", "newest"),
    [
        ({"id": "r3"}, "DELETE FROM batches", "source"),
        ({"id": "r3"}, "INSERT INTO erasures", "erase"),  # the row is gone from its batch by then
        ({"before": "2020-01-01T00:00:00Z"}, "UPDATE models", "source"),
    ],
)
def test_the_audit_log_has_an_erasure_that_failed_only_if_it_changed_something(
    lite_client, which, word, newest
):
    put_source(lite_client)
    post(lite_client, rows_json(20)[0])

    def fail(connection, cursor, statement, *_):
        if statement.startswith(word):
            raise RuntimeError("stopped")

    engine = lite_client.store.engine
    event.listen(engine, "before_cursor_execute", fail)
    assert lite_client.delete("/v1/models/m/rows", params=which).status_code == 500
    event.remove(engine, "before_cursor_execute", fail)
    assert lite_client.get("/v1/audit").json()["changes"][0]["action"] == newest
    lite_client.delete("/v1/models/m/rows", params=which).raise_for_status()
    assert lite_client.get("/v1/audit").json()["changes"][0]["action"] == "erase"


def test_an_erased_id_stands_nowhere(client, tmp_path):
    """A row that was settled, picked and labelled; afterwards no file and no table holds it, nor does an export."""
    store = client.store
    rows, _, picked = watched(client)
    name = picked[0]
    assert "table batches" in places_of(store, name)
    (whole,) = [row for row in exported(store, tmp_path / "before", "rows") if row["id"] == name]
    assert client.delete("/v1/models/m/rows", params={"id": name}).json()["erased"] == 2
    assert places_of(store, name) == []
    if store.is_sqlite:
        assert (store.folder / "monitor.sqlite-wal").stat().st_size == 0
    for kind in ("rows", "labels", "label-requests"):  # nor its hash
        held = exported(store, tmp_path / kind, kind)
        assert held
        assert whole["id_hash"] not in [row["id_hash"] for row in held]
    again = [{**next(row for row in rows if row["id"] == name), "logits": [1.0, 2.0, 3.0]}]
    assert post(client, again).json() == {"accepted": 1, "duplicates": 0}
    assert places_of(store, name) != []


def test_ids_stand_in_their_rows_alone(client):
    """Labels, label plans, records of erasures and of idempotent requests hold keyed hashes."""
    store = client.store
    _, _, picked = watched(client)
    client.delete("/v1/models/m/rows", params={"id": picked[0]})
    client.post(
        "/v1/models/m/labels",
        json=[{"id": "late@example.org", "label": 1}],
        headers={"idempotency-key": "late@example.org"},
    )
    assert places_of(store, "nobody@example.org") == []
    assert places_of(store, "late@example.org") == []
    assert set(places_of(store, picked[1])) <= {"table batches", "monitor.sqlite", "monitor.sqlite-wal"}


def test_erasure_by_age_leaves_nothing_behind(client, tmp_path):
    """Rows before the time, their labels, labels that came after them or never had a row, and the plan's rows."""
    store = client.store
    rows, truth, picked = watched(client)
    later, _ = rows_json(30, day=1, prefix="later-")
    early = labels_json(later[:1], [1])  # a label before its row, which is kept
    with simulated_time(days_ago(3)):
        client.post("/v1/models/m/labels", json=[*early, {"id": "unmatched", "label": 1}])
    post(client, later)
    cut = days_ago(2)
    assert client.delete("/v1/models/m/rows", params={"before": iso(cut)}).json()["erased"] == 300
    for row in rows:
        assert places_of(store, row["id"]) == []
        break
    every = exported(store, tmp_path / "rows", "rows")
    assert {row["id"] for row in every} == {row["id"] for row in later}
    hashes = {row["id"]: row["id_hash"] for row in every}
    labels = exported(store, tmp_path / "labels", "labels")
    unmatched_since = [row for row in labels if row["received"] >= cut]
    assert len(unmatched_since) == 1  # nobody@example.org came today
    assert [row["id_hash"] for row in labels if row["received"] < cut] == [hashes[later[0]["id"]]]
    assert exported(store, tmp_path / "plans", "label-requests") == []
    answer(client, truth, picked[-1:])  # later than its row
    with simulated_time(now_us() + 3 * DAY):
        client.delete("/v1/models/m/rows", params={"before": iso(now_us() - DAY)})
    assert exported(store, tmp_path / "end", "labels") == []


def test_retention_erases_labels_and_plans_too(lite_client, tmp_path):
    client, store = lite_client, lite_client.store
    _, truth, picked = watched(client)
    client.put("/v1/models/m/settings", json={"retention_days": 5})
    run_due_jobs(store)
    assert len(exported(store, tmp_path / "a", "rows")) == 300
    answer(client, truth, picked[-1:])
    with simulated_time(now_us() + 7 * DAY):
        run_due_jobs(store)
    for kind in ("rows", "labels", "label-requests"):
        assert exported(store, tmp_path / kind, kind) == []
    assert places_of(store, "person-") == []
    with store.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM batches")).scalar() == 0


def test_erased_ids_leave_the_memory_of_every_process(store):
    """An id that was erased by age may come again, with other content, at every server."""
    old, _ = rows_json(20, day=5)
    new, _ = rows_json(20, day=1, seed=7)
    for first in client_of(store):
        put_source(first)
        for second in client_of(store):
            post(first, old)
            assert post(second, old).json()["duplicates"] == 20
            first.delete("/v1/models/m/rows", params={"before": iso(days_ago(2))})
            assert post(second, new).json() == {"accepted": 20, "duplicates": 0}
            assert post(first, new).json() == {"accepted": 0, "duplicates": 20}


def test_the_hashes_of_erased_ids_are_kept_for_a_day(store):
    """A process that read nothing for longer builds its index anew, and knows what is there."""
    rows, labels = rows_json(20)
    for first in client_of(store):
        put_source(first)
        for second in client_of(store):
            post(first, rows)
            first.post("/v1/models/m/labels", json=labels_json(rows, labels))
            assert post(second, rows).json()["duplicates"] == 20
            second.post("/v1/models/m/labels", json=labels_json(rows, labels))
            first.delete("/v1/models/m/rows", params={"id": "r3"})
            with simulated_time(now_us() + 2 * DAY):
                run_due_jobs(store)
            with store.read() as connection:
                held = connection.execute(text("SELECT row_keys, label_keys FROM erasures")).all()
            assert held == [(None, None)]
            assert post(second, rows).json() == {"accepted": 1, "duplicates": 19}
            said = second.post("/v1/models/m/labels", json=labels_json(rows, labels)).json()
            assert (said["accepted"], said["duplicates"]) == (1, 19)
            assert post(first, rows).json() == {"accepted": 0, "duplicates": 20}


def test_readers_that_hold_the_log_delay_only_the_log(lite_client):
    """While somebody reads, the write-ahead log stays; a job empties it once they have finished."""
    client, store = lite_client, lite_client.store
    watched(client)
    begun, done = threading.Event(), threading.Event()

    def read():
        with store.read() as connection:
            connection.execute(text("SELECT count(*) FROM batches")).one()
            begun.set()
            done.wait(60)

    reader = threading.Thread(target=read)
    reader.start()
    begun.wait(60)
    post(client, rows_json(3, prefix="more-")[0])
    client.delete("/v1/models/m/rows", params={"id": "more-1"})
    assert places_of(store, "more-1") == ["monitor.sqlite-wal"]
    run_due_jobs(store)  # the job tries in vain, and stays
    assert places_of(store, "more-1") == ["monitor.sqlite-wal"]
    done.set()
    reader.join()
    with simulated_time(now_us() + 15_000_000):
        run_due_jobs(store)
    assert places_of(store, "more-1") == []


def test_an_erasure_that_was_cut_off_is_finished_by_the_worker(lite_client, monkeypatch):
    """The process dies after the database has committed and before its log is emptied."""
    client, store = lite_client, lite_client.store
    _, _, picked = watched(client)
    post(client, rows_json(3, prefix="more-")[0])

    def stop(_):
        raise RuntimeError("stopped here")

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "scrub", stop)
        client.delete("/v1/models/m/rows", params={"id": "more-1"})
    assert "monitor.sqlite-wal" in places_of(store, "more-1")
    with simulated_time(now_us() + 60_000_000):
        run_due_jobs(store)
    assert places_of(store, "more-1") == []
    client.delete("/v1/models/m/rows", params={"id": picked[0]})  # whoever got no answer repeats it
    assert places_of(store, picked[0]) == []


def test_what_is_settled_while_it_is_erased_is_erased_too(client):
    """Batches that are put together between two steps of an erasure are looked at again."""
    store = client.store
    watched(client)
    for label in (0, 1, 2):  # a label and its corrections, in three small batches
        client.post("/v1/models/m/labels", json=[{"id": "<person-7>", "label": label}])
    before = count_labels(store)
    seen, settled = [], []

    def look(connection, cursor, statement, *_):
        if statement.startswith("DELETE FROM batches"):  # the batch with the row is being rewritten
            seen.append(1)

    def settle_now(*_):
        if seen and not settled:
            settled.append(1)
            other = threading.Thread(target=a_minute_later, args=(store,))
            other.start()
            other.join()

    hooks = [("before_cursor_execute", look), ("checkin", settle_now)]
    for name, hook in hooks:
        event.listen(store.engine, name, hook)
    try:
        gone = client.delete("/v1/models/m/rows", params={"id": "<person-7>"}).json()["erased"]
    finally:
        for name, hook in hooks:
            event.remove(store.engine, name, hook)
    assert settled
    assert gone >= 4
    assert places_of(store, "<person-7>") == []
    assert before - count_labels(store) == gone - 1


def a_minute_later(store):
    with simulated_time(now_us() + 60_000_000):
        run_due_jobs(store)


def count_labels(store):
    with store.read() as connection:
        return connection.execute(text("SELECT sum(rows) FROM batches WHERE kind = 'labels'")).scalar()


def test_readers_go_on_while_batches_are_replaced(store):
    """A window is estimated and listed while its rows are erased one by one."""
    for client in client_of(store):
        watched(client)
        problems, stop = [], threading.Event()

        def look(client=client, problems=problems, stop=stop):
            while not stop.is_set():
                said = client.get("/v1/models/m/label-requests")
                if said.status_code != 200:
                    problems.append(said.text)

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for i in range(8):
            assert client.delete("/v1/models/m/rows", params={"id": f"<person-{i}>"}).status_code == 200
        stop.set()
        for thread in threads:
            thread.join()
        assert problems == []


def test_the_observed_error_of_a_plan_outlives_an_erased_row(client):
    """The estimate of the remaining rows by their own labels, not nothing."""
    store = client.store
    rows, truth, picked = watched(client)
    before = windows(client)[0]["observed"]
    assert before["kind"] == "requested"
    other = next(row["id"] for row in rows if row["id"] not in picked)
    for gone in (other, picked[0]):  # one that nobody asked for, one with a label
        client.delete("/v1/models/m/rows", params={"id": gone})
    answer(client, truth, picked[-2:])
    run_due_jobs(store)
    after = windows(client)[0]["observed"]
    assert (after["kind"], after["labels"]) == ("requested", 39)
    assert abs(after["error"] - before["error"]) < 0.1
    assert after["low"] <= after["error"] <= after["high"]
    asked = {row["id"] for row in client.get("/v1/models/m/label-requests").json()["rows"]}
    assert asked == set()


def test_too_few_labels_after_an_erasure_leave_what_was_published(lite_client):
    client, store = lite_client, lite_client.store
    _, truth, picked = watched(client)
    before = windows(client)[0]
    for name in picked[:-3]:
        client.delete("/v1/models/m/rows", params={"id": name})
    answer(client, truth, picked[-2:-1])
    run_due_jobs(store)
    assert windows(client)[0] == before


def test_with_every_row_labelled_a_plan_is_not_needed(client):
    """All labels are there: the observed error is their plain share, whatever was requested."""
    store = client.store
    rows, truth, _ = watched(client, n=120)
    answer(client, truth, truth)
    run_due_jobs(store)
    found = windows(client)[0]["observed"]
    wrong = [int(np.argmax(row["logits"])) != truth[row["id"]] for row in rows]
    assert (found["kind"], found["labels"]) == ("all rows", 120)
    assert found["error"] == pytest.approx(np.mean(wrong))


def test_two_label_requests_at_once_make_one_plan(client):
    put_source(client)
    rows, _ = rows_json(400)
    post(client, rows)
    run_due_jobs(client.store)
    barrier, said = threading.Barrier(2), []

    def ask(labels):
        barrier.wait()
        said.append(client.post("/v1/models/m/label-requests", json={"labels": labels}))

    threads = [threading.Thread(target=ask, args=(labels,)) for labels in (40, 60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in said) == [201, 409]
    (good,) = [answer.json()["rows"] for answer in said if answer.status_code == 201]
    assert client.get("/v1/models/m/label-requests").json()["rows"] == good
    with client.store.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM plans")).scalar() == 1


def test_no_get_writes(store):
    """The content of every table is the same after every GET that there is."""
    from fastapi.testclient import TestClient

    from shiftgauge.monitor.run.app import create_app

    app = create_app(store)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        client.store = store
        watched(client)
        more, _ = rows_json(60, day=2, prefix="more-")  # the newest window has no plan
        post(client, more)
        run_due_jobs(store)
        name = windows(client)[0]["window"]
        before = content(store)
        paths = [(route.path, route.methods) for route in _routes(app)]
        gets = [path for path, methods in paths if "GET" in methods]
        assert len(gets) > 20
        for path in gets:
            path = path.format(model="m", version="v1", window=name, digest="x", name="x")
            params = {"labels": 20, "format": "json"}
            assert client.get(path, params=params).status_code < 500, path
        assert content(store) == before


def _routes(router):
    for route in router.routes:
        if getattr(route, "methods", None):
            yield route
        else:
            yield from _routes(getattr(route, "original_router", route))


def content(store):
    with store.read() as connection:
        tables = inspect(connection).get_table_names()
        held = {
            name: sorted(map(repr, connection.execute(text(f'SELECT * FROM "{name}"')))) for name in tables
        }
    return held


def test_a_failed_export_leaves_nothing_and_says_what_failed(lite_client, tmp_path, capsys, monkeypatch):
    client, store = lite_client, lite_client.store
    watched(client)

    def no_space(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", no_space)
    out, there = tmp_path / "out", tmp_path / "there"
    there.mkdir()
    for folder in (out, there):
        assert run(["monitor", "export", str(folder), "--store", str(store.folder)]) == 2
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1
        assert "the export failed" in said
        assert "accepted" not in said
    assert not out.exists()
    assert list(there.iterdir()) == []


def test_errors_of_the_database_are_logged_without_rows(lite_client, caplog):
    client, store = lite_client, lite_client.store
    put_source(client)
    with store.write() as connection:
        connection.execute(
            text("CREATE TRIGGER broken BEFORE INSERT ON batches BEGIN SELECT raise(ABORT, 'broken'); END")
        )
    with caplog.at_level(logging.DEBUG):
        problem(post(client, rows_json(3, prefix="person-")[0]), 500)
    assert "broken" in caplog.text
    assert "person-" not in caplog.text


def test_the_key_of_the_hashes_belongs_to_the_installation(tmp_path):
    """The same id has another hash elsewhere, and the same after a restart."""
    found = []
    for folder in ("a", "b", "a"):
        store = open_store(tmp_path / folder)
        for client in client_of(store):
            put_source(client)
            post(client, rows_json(1)[0])
            found += [row["id_hash"] for row in exported(store, tmp_path / f"out-{len(found)}", "rows")]
        store.close()
    assert found[0] == found[2] != found[1]


def test_numbers_do_not_depend_on_the_installation(tmp_path):
    """Rows of one moment are sorted by their ids, not by hashes whose key is another one elsewhere."""
    found = []
    for folder in "ab":
        store = open_store(tmp_path / folder)
        for client in client_of(store):
            put_source(client)
            rows, _ = rows_json(120)
            moment = rows[0]["time"]
            post(client, [{**row, "time": moment} for row in rows[:: 1 if folder == "a" else -1]])
            run_due_jobs(store)
            (window,) = windows(client)
            asked = client.post("/v1/models/m/label-requests", json={"labels": 30}).json()
            found.append(({**window, "created": None}, asked))
        store.close()
    assert found[0] == found[1]


def test_an_erasure_on_a_full_disk_says_so_and_can_be_repeated(lite_client):
    client, store = lite_client, lite_client.store
    _, _, picked = watched(client)
    full = "CREATE TRIGGER full BEFORE INSERT ON erasures BEGIN SELECT raise(ABORT, 'database or disk is full'); END"
    with store.write() as connection:
        connection.execute(text(full))
    assert "no space left" in problem(client.delete("/v1/models/m/rows", params={"id": picked[0]}), 507)
    with store.write() as connection:
        connection.execute(text("DROP TRIGGER full"))
    client.delete("/v1/models/m/rows", params={"id": picked[0]})
    assert places_of(store, picked[0]) == []
