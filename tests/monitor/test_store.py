"""The store: the schema, the id index, settled and forgotten batches, a full disk, a database that goes away."""

import json
import multiprocessing
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from monitor_data import SECRET, client_of, labels_json, problem, rows_json, run_due_jobs
from sqlalchemy import event, select, text
from test_api import post, put_source, windows

from shiftgauge.cli.app import run
from shiftgauge.errors import FileError
from shiftgauge.monitor.db import queue
from shiftgauge.monitor.db.ids import IdIndex, SeenIds, keys_of
from shiftgauge.monitor.db.schema import batches
from shiftgauge.monitor.db.store import open_store
from shiftgauge.monitor.periods import now_us


def test_a_database_of_another_schema_is_refused_with_one_line(store, tmp_path, capsys):
    with store.write() as connection:
        connection.execute(text("UPDATE installation SET schema = '0-of-before'"))
    with pytest.raises(FileError, match=r"0-of-before.*monitor export"):
        open_store(tmp_path / "data", _url(store))
    if store.is_sqlite:
        assert run(["monitor", "worker", "--once", "--store", str(tmp_path / "data")]) == 2
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert str(tmp_path / "data") in said[0]


def test_a_database_from_before_schemas_had_names_is_refused(lite, tmp_path):
    with lite.write() as connection:
        connection.execute(text("DROP TABLE installation"))
    with pytest.raises(FileError, match="another version of shiftgauge wrote this database"):
        open_store(tmp_path / "lite")


@pytest.mark.parametrize("inside", ["Settings", "AlertLimits"])
def test_a_database_with_settings_that_this_version_does_not_know_is_refused(lite, tmp_path, inside):
    """A version with one more setting: what it stores, this one could not read."""
    program = f"""
import sys
import pydantic
import shiftgauge.monitor.settings as settings
more = {{"more": (int, 0)}}
if "{inside}" == "AlertLimits":
    more = {{"limits": (pydantic.create_model("Limits", __base__=settings.AlertLimits, **more), {{}})}}
settings.Settings = pydantic.create_model("Settings", __base__=settings.Settings, **more)
from shiftgauge.monitor.db.store import open_store
open_store(sys.argv[1])
"""
    command = [sys.executable, "-c", program, str(tmp_path / "lite")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "FileError" in done.stderr
    assert "another version of shiftgauge wrote this database" in done.stderr


def _url(store):
    url = store.engine.url
    return None if store.is_sqlite else url.render_as_string(False).replace("+psycopg", "")


def _open(folder, url):
    open_store(folder, url).close()


@pytest.mark.slow
def test_many_processes_may_open_a_new_database_at_once(tmp_path, database):
    context = multiprocessing.get_context("forkserver")  # imports once, so that the four do begin together
    context.set_forkserver_preload(["shiftgauge.monitor.db.store"])
    processes = [context.Process(target=_open, args=(tmp_path / "new", database)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * 4


def test_what_is_no_database_is_refused(tmp_path):
    (tmp_path / "monitor.sqlite").write_bytes(b"not a database at all, but long enough to be read" * 50)
    with pytest.raises(FileError, match="cannot be opened"):
        open_store(tmp_path)
    with pytest.raises(FileError, match="cannot be opened"):
        open_store(tmp_path / "x", "postgresql://nobody@127.0.0.1:1/none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileError, match="cannot be used"):
        open_store(tmp_path / "file")


def test_the_index_agrees_with_a_dictionary():
    rng = np.random.default_rng(0)
    index, truth = IdIndex({"value": np.int32}), {}
    for _ in range(60):
        keys = rng.integers(2, 5000, rng.integers(1, 300)).astype(np.uint64)
        values = rng.integers(0, 10**6, len(keys)).astype(np.int32)
        index.put(keys, value=values)
        truth |= dict(zip(keys.tolist(), values.tolist(), strict=True))
        asked = rng.integers(1, 6000, 500).astype(np.uint64)
        places = index.find(asked)
        found = [int(index.columns["value"][p]) if p >= 0 else None for p in places]
        assert found == [truth.get(key) for key in asked.tolist()]
    assert index.count == len(truth)


def sip_hash(key, data):
    """SipHash-2-4 by plain integers, after the paper."""
    m64 = (1 << 64) - 1

    def turned(x, bits):
        return (x << bits | x >> (64 - bits)) & m64

    def rounds(v, count):
        for _ in range(count):
            v[0], v[2] = (v[0] + v[1]) & m64, (v[2] + v[3]) & m64
            v[1], v[3] = turned(v[1], 13) ^ v[0], turned(v[3], 16) ^ v[2]
            v[0] = turned(v[0], 32)
            v[2], v[0] = (v[2] + v[1]) & m64, (v[0] + v[3]) & m64
            v[1], v[3] = turned(v[1], 17) ^ v[2], turned(v[3], 21) ^ v[0]
            v[2] = turned(v[2], 32)

    k = [int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")] * 2
    words = [b"somepseu", b"dorandom", b"lygenera", b"tedbytes"]
    v = [a ^ int.from_bytes(word, "big") for a, word in zip(k, words, strict=True)]
    whole = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for i in range(0, len(whole), 8):
        word = int.from_bytes(whole[i : i + 8], "little")
        v[3] ^= word
        rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_hashes_of_ids_are_those_of_siphash():
    """Against the paper's own example, and against plain integers."""
    key = bytes(range(16))
    assert sip_hash(key, bytes(range(15))) == 0xA129CA6149BE45E5
    words = ["", "a", "b", "ü", "row-1", "1234567", "12345678", "123456789", "x" * 199, "y" * 300]
    slow = [sip_hash(key, word.encode()) for word in words]
    assert keys_of(pa.array(words), key).tolist() == slow
    assert keys_of(pa.array(["skipped", *words]).slice(1), key).tolist() == slow
    assert keys_of(pa.array([bytes(range(15)).decode()]), key).tolist() == [0xA129CA6149BE45E5]
    many = keys_of(pa.array([f"request-{i}" for i in range(300_000)]), key)
    assert len(np.unique(many)) == len(many)
    assert not np.isin(many, keys_of(pa.array([f"request-{i}" for i in range(300_000)]), bytes(16))).any()


def test_the_index_drops_keys():
    """What was dropped is gone, also from memory; the rest is found, also after growing."""
    rng = np.random.default_rng(1)
    index, truth = IdIndex({"value": np.int32}), {}
    for _ in range(40):
        keys = np.unique(rng.integers(2, 4000, 300).astype(np.uint64))
        index.put(keys, value=keys.astype(np.int32))
        truth |= {key: key for key in keys.tolist()}
        gone = rng.integers(2, 4000, 200).astype(np.uint64)
        index.drop(gone)
        truth = {key: value for key, value in truth.items() if key not in set(gone.tolist())}
        places = index.find(np.arange(2, 4000, dtype=np.uint64))
        assert (np.flatnonzero(places >= 0) + 2).tolist() == sorted(truth)
        assert index.columns["value"][places[places >= 0]].tolist() == sorted(truth)
        assert not np.isin(np.setdiff1d(gone, list(truth)), index.table).any()
    assert len(index.table) <= 8192  # places of dropped keys are used again


def everything(store):
    with store.read() as connection:
        held = connection.execute(select(batches)).all()
    return held


def settled(store):
    with store.write() as connection:
        queue.enqueue(connection, "compact", [1], 0)
    run_due_jobs(store)


def test_settling_changes_no_number(client):
    """Rows in one batch, or in many: the same answers, duplicates, revisions as of then, labels, forgetting."""
    put_source(client)
    rows, labels = rows_json(
        90, weight=lambda i: None if i < 30 else 2.0, segments=lambda i: {"s": str(i % 2)} if i > 50 else None
    )
    for i in range(0, 90, 10):
        post(client, rows[i : i + 10])
        client.post("/v1/models/m/labels", json=labels_json(rows[i : i + 10], labels[i : i + 10]))
    run_due_jobs(client.store)
    before = windows(client)
    settled(client.store)
    held = everything(client.store)
    assert sorted((row.kind, row.rows, row.compacted) for row in held) == [
        ("labels", 90, True),
        ("rows", 90, True),
    ]
    with client.store.write() as connection:  # estimate it all again, from the compacted batch
        connection.execute(text("UPDATE windows SET seq = seq + 1"))
        queue.enqueue(connection, "estimate", [1], 0)
    run_due_jobs(client.store)
    (after,) = windows(client)
    assert after["revision"] == before[0]["revision"] + 1
    same = ("error", "range", "sampling", "rows", "observed", "warnings")
    assert {name: after[name] for name in same} == {name: before[0][name] for name in same}
    assert post(client, rows).json() == {"accepted": 0, "duplicates": 90}
    for another in client_of(client.store):  # a process that starts anew reads it
        assert post(another, rows).json() == {"accepted": 0, "duplicates": 90}
    assert client.delete("/v1/models/m/rows", params={"id": "r7"}).json()["erased"] == 2
    assert post(client, rows[:9]).json() == {"accepted": 1, "duplicates": 8}


def test_two_servers_on_one_database_know_each_others_rows(store):
    """What one server took is a duplicate, or a contradiction, at the other."""
    rows, labels = rows_json(30)
    for first in client_of(store):
        put_source(first)
        for second in client_of(store):
            assert post(first, rows[:20]).json()["accepted"] == 20
            assert post(second, rows).json() == {"accepted": 10, "duplicates": 20}
            assert post(first, rows).json() == {"accepted": 0, "duplicates": 30}
            problem(post(first, [{**rows[25], "weight": 2.0}]), 409)
            first.post("/v1/models/m/labels", json=labels_json(rows, labels))
            said = second.post("/v1/models/m/labels", json=labels_json(rows, labels)).json()
            assert said["duplicates"] == 30
            first.delete("/v1/models/m/rows", params={"id": "r3"})
            assert post(second, rows[:5]).json() == {"accepted": 1, "duplicates": 4}
            assert post(first, rows[:5]).json() == {"accepted": 0, "duplicates": 5}


def test_a_book_reads_erasures_in_their_order(lite_client):
    client, store = lite_client, lite_client.store
    put_source(client)
    rows, _ = rows_json(3)
    post(client, rows)
    client.delete("/v1/models/m/rows", params={"id": "r1"})
    post(client, rows)
    seen_ids = SeenIds()
    with store.read() as connection:
        seen_ids.follow(connection, 1, "day")
    places = seen_ids.index.find(keys_of(pa.array(["r0", "r1", "r2", "r9"]), store.secret))
    assert (places[:3] >= 0).all()
    assert places[3] == -1
    assert (seen_ids.index.columns["version"][places[:3]] > 0).all()


def test_a_full_disk_refuses_with_507_and_goes_on_when_there_is_room(lite_client):
    client, store = lite_client, lite_client.store
    put_source(client)
    rows, _ = rows_json(400)
    assert post(client, rows[:10]).status_code == 202
    limit = [None]

    def limited(connection, *_):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages if limit[0] else 2**30}")

    event.listen(store.engine, "checkout", limited)
    limit[0] = True
    said = problem(post(client, rows), 507)
    assert "nothing was accepted" in said
    assert windows(client)[0]["rows"] == 10  # still readable
    limit[0] = None
    assert post(client, rows).json() == {"accepted": 390, "duplicates": 10}


def test_a_locked_database_answers_503(tmp_path, monkeypatch):
    monkeypatch.setattr("shiftgauge.monitor.db.store.LOCK_TIMEOUT_SECONDS", 0.2)
    store = open_store(tmp_path)
    for client in client_of(store):
        put_source(client)
        rows, _ = rows_json(5)
        other = sqlite3.connect(tmp_path / "monitor.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        answer = post(client, rows)
        assert "try again" in problem(answer, 503)
        assert answer.headers["retry-after"] == "1"
        problem(client.get("/readyz"), 503)
        assert client.get("/healthz").status_code == 200
        other.execute("ROLLBACK")
        other.close()
        assert post(client, rows).json()["accepted"] == 5
    store.close()


def test_a_database_that_goes_away_comes_back(cluster, tmp_path):
    store = open_store(tmp_path / "data", cluster.new_database())
    rows, _ = rows_json(40)
    for client in client_of(store):
        put_source(client)
        assert post(client, rows[:20]).status_code == 202
        cluster.stop("immediate")
        try:
            for _ in range(3):
                problem(post(client, rows), 503)
            problem(client.get("/readyz"), 503)
            assert client.get("/healthz").status_code == 200
        finally:
            cluster.start()
        until = time.monotonic() + 60
        while client.get("/readyz").status_code != 200 and time.monotonic() < until:
            time.sleep(0.1)
        assert post(client, rows).json() == {"accepted": 20, "duplicates": 20}
        run_due_jobs(store)
        assert windows(client)[0]["rows"] == 40
    store.close()


def test_export_holds_everything(client, tmp_path):
    put_source(client)
    client.put("/v1/models/m/settings", json={"webhook": {"url": "https://example.org", "secret": SECRET}})
    rows, labels = rows_json(60)
    post(client, rows)
    client.post("/v1/models/m/labels", json=labels_json(rows, labels))
    run_due_jobs(client.store)
    from shiftgauge.monitor.run.export import export

    counts = export(client.store, tmp_path / "out")
    assert counts["windows.parquet"] == 1
    changes = pa.parquet.read_table(tmp_path / "out" / "audit.parquet").column("action").to_pylist()
    assert sorted(set(changes)) == ["settings", "source"]
    assert counts["specs.parquet"] == 1
    (report,) = (tmp_path / "out" / "reports").iterdir()
    held = pa.parquet.read_table(tmp_path / "out" / "rows")
    assert set(held.column("id").to_pylist()) == {row["id"] for row in rows}
    place = {i: n for n, i in enumerate(held.column("id").to_pylist())}
    assert held.column("scores")[place["r5"]].as_py() == rows[5]["logits"]
    kept = pa.parquet.read_table(tmp_path / "out" / "revisions.parquet").to_pylist()[0]
    assert kept["error"] == windows(client)[0]["error"]
    assert json.loads(report.read_text())["answer"]["error"] == kept["scores_error"]
    every = b"".join(file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file())
    assert SECRET.encode() not in every
    with pytest.raises(FileError, match="not empty"):
        export(client.store, tmp_path / "out")
    assert now_us() > 0


def test_the_index_grows_without_losing_anything():
    """A larger table is made ready ahead of time by a thread; what was known stays known."""
    from shiftgauge.monitor.db.ids import LARGE, IdIndex

    index = IdIndex({"number": np.int32})
    keys = np.random.default_rng(0).permutation(np.arange(2, LARGE + 2)).astype(np.uint64) * np.uint64(
        2**40 + 7
    )
    ready = 0
    for low in range(0, len(keys), 4096):
        index.put(keys[low : low + 4096], number=np.arange(low, low + len(keys[low : low + 4096])))
        ready += index._ahead is not None
    assert ready  # it was made ready, not only when it was needed
    assert index.count == len(keys)
    assert len(index.table) == 2 * LARGE
    assert (index.columns["number"][index.find(keys)] == np.arange(len(keys))).all()
    assert (index.find(keys + np.uint64(1)) == -1).all()
