"""Nothing acknowledged is lost and nothing counts twice, whoever is killed, on SQLite and on PostgreSQL."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from monitor_data import free_port, rows_json, source_npz

from labelfree.monitor.service.windows import list_windows
from labelfree.monitor.spans import iso
from labelfree.monitor.store import open_store, queue

ROOT = Path(__file__).resolve().parents[2]
#: Kills of servers, workers and clients, in all, over both databases; LABELFREE_KILLS asks for more.
KILLS = int(os.environ.get("LABELFREE_KILLS", "12"))
BATCH, BATCHES, DAYS = 25, 48, 4


def start(*words, log):
    return subprocess.Popen(
        [sys.executable, "-c", "from labelfree.cli import main; main()", "monitor", *map(str, words)],
        stdout=log,
        stderr=log,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        start_new_session=True,
    )


def call(method, url, value=None, body=None, timeout=20):
    data = body if body is not None else None if value is None else json.dumps(value).encode()
    kind = {"content-type": "application/x-npz" if body is not None else "application/json"}
    request = urllib.request.Request(url, data=data, method=method, headers=kind)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.loads(answer.read() or b"null")


def wait_for(url, seconds=300):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            return call("GET", f"{url}/readyz", timeout=5)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise AssertionError("the server did not come back")


def batches():
    """Rows and labels of four days, in batches; the same ones every time."""
    out = []
    for number in range(BATCHES):
        rows, labels = rows_json(BATCH, seed=number, day=3 + number % DAYS, prefix=f"b{number}-")
        for i, row in enumerate(rows):
            row["time"] = iso(int(_us(row["time"]) + (number * BATCH + i) * 1000))
        out.append((rows, [{"id": r["id"], "label": int(y)} for r, y in zip(rows, labels, strict=True)]))
    return out


def _us(text):
    from labelfree.monitor.wire.rows import parse_time

    return parse_time(text, 0)


class Sender(threading.Thread):
    """A client that sends every batch until it is acknowledged, then its labels."""

    def __init__(self, url, parts):
        super().__init__(daemon=True)
        self.url, self.parts, self.acknowledged, self.retries = url, parts, 0, 0
        self.problem = None

    def run(self):
        try:
            for rows, labels in self.parts:
                self._insist("predictions", {"rows": rows})
                self.acknowledged += len(rows)
                self._insist("labels", {"labels": labels})
        except Exception as problem:
            self.problem = problem

    def _insist(self, what, value):
        until = time.monotonic() + 300
        while True:
            try:
                return call("POST", f"{self.url}/v1/models/m/{what}", value, timeout=10)
            except urllib.error.HTTPError as problem:
                if problem.code < 500:
                    raise AssertionError(problem.read()) from None
            except (urllib.error.URLError, ConnectionError, TimeoutError, OSError):
                pass
            self.retries += 1
            assert time.monotonic() < until, "no answer for five minutes"
            time.sleep(0.05)


def final(store):
    """What every window says in the end, without when it was said."""
    out = {}
    for view in list_windows(store, "m"):
        shown = view.to_dict()
        for name in ("created", "revision", "cause", "learned_band"):  # these tell of the way, not of the end
            shown.pop(name)
        out[view.name] = shown
    return out


def drained(data, database, seconds=600):
    """Wait until no window has anything left to do."""
    store, until = open_store(data, database), time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            with store.read() as connection:
                from sqlalchemy import func, select

                from labelfree.monitor.store.schema import jobs

                left = select(func.count()).where(jobs.c.kind.in_(["estimate", "labels"]))
                if connection.execute(left).scalar_one() == 0:
                    return final(store)
            time.sleep(0.2)
        raise AssertionError("the jobs did not end")
    finally:
        store.close()


def run(folder, database, kills, seed):
    """Send everything while processes are killed; what the windows say in the end."""
    url, port, rng = None, free_port(), random.Random(seed)
    log = (folder / "log").open("ab")
    data = folder / "data"
    words = ["--data", data, "--port", port, "--workers", 0] + (["--database", database] if database else [])
    helper = ["worker", "--data", data] + (["--database", database] if database else [])
    server, worker = start(*words, log=log), start(*helper, log=log)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(url)
        call("PUT", f"{url}/v1/models/m/versions/v1/source", body=source_npz())
        call("PUT", f"{url}/v1/models/m/settings", {"replicates": 20, "lateness_minutes": 0})
        parts = batches()
        senders = [Sender(url, parts[i::2]) for i in range(2)]
        for sender in senders:
            sender.start()
        for _ in range(kills):
            time.sleep(rng.uniform(0.02, 0.6))
            if rng.random() < 0.5:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()
                server = start(*words, log=log)
                wait_for(url)
            else:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
                worker = start(*helper, log=log)
        for sender in senders:
            sender.join(600)
            assert sender.problem is None, sender.problem
            assert not sender.is_alive()
        found = drained(data, database)
    finally:
        for process in (server, worker):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.close()
    return found, sum(sender.acknowledged for sender in senders)


@pytest.fixture(autouse=True)
def _short_leases(monkeypatch):
    """A killed worker's job waits for its lease: a second, not a minute, so that the test ends."""
    monkeypatch.setenv("LABELFREE_LEASE_SECONDS", "2")


def test_killed_at_random_moments(tmp_path, database):
    """Every acknowledged row is there once, and the numbers are those of a run in which nobody was killed."""
    (tmp_path / "calm").mkdir()
    (tmp_path / "wild").mkdir()
    other = None
    if database is not None:
        other, name = database.rsplit("/", 1)
        import psycopg

        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}_calm")
        other = f"{other}/{name}_calm"
    calm, _ = run(tmp_path / "calm", other, 0, 0)
    wild, acknowledged = run(tmp_path / "wild", database, KILLS // 2, seed=KILLS)
    assert acknowledged == BATCH * BATCHES
    assert sum(view["rows"] for view in wild.values()) == acknowledged
    assert {view["realised"]["labels"] for view in wild.values()} == {acknowledged // DAYS}
    assert wild == calm


def test_the_lease_of_a_dead_worker_runs_out(store, monkeypatch):
    monkeypatch.setattr(queue, "LEASE", 100_000)
    with store.write() as connection:
        queue.ask(connection, "estimate", [1], 0)
    dead = queue.take(store, "dead")
    assert queue.take(store, "other") is None
    time.sleep(0.15)
    alive = queue.take(store, "other")
    assert alive.id == dead.id
    with store.write() as connection:
        assert not queue.finish(connection, dead)  # what it did may not be kept
    assert not queue.renew(store, dead)
    with store.write() as connection:
        assert queue.finish(connection, alive)


def test_a_job_asked_for_while_under_way_is_done_again(store):
    with store.write() as connection:
        queue.ask(connection, "estimate", [1], 0)
    job = queue.take(store, "a")
    with store.write() as connection:
        queue.ask(connection, "estimate", [1], 0)
        assert queue.finish(connection, job)
    assert queue.take(store, "a") is not None


def test_many_workers_share_jobs(store):
    """Each of 40 jobs is taken by exactly one of 4 workers."""
    with store.write() as connection:
        queue.ask(connection, "estimate", range(40), 0)
    taken, lock = [], threading.Lock()

    def work(name):
        while (job := queue.take(store, name)) is not None:
            with lock:
                taken.append(job.subject)

    threads = [threading.Thread(target=work, args=(f"w{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(taken) == list(range(40))
