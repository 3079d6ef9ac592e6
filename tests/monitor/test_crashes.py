"""Nothing acknowledged is lost and nothing counts twice, whoever is killed, on SQLite and on PostgreSQL."""

import os
import pickle
import random
import threading
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta

import numpy as np
import pytest
from fork_server import ForkServer
from monitor_data import client_of, free_port, labels_json, rows_json, run_due_jobs, source_npz
from sqlalchemy import func, select

from shiftgauge.monitor.db import queue
from shiftgauge.monitor.db.models import put_settings, put_source
from shiftgauge.monitor.db.schema import jobs
from shiftgauge.monitor.db.store import open_store
from shiftgauge.monitor.db.windows import list_windows
from shiftgauge.monitor.periods import now_us, simulated_time
from shiftgauge.monitor.views import get_model

#: Kills of servers, workers and clients on each database: 5 in `make test`, 20 in `make test-all`.
KILLS = int(os.environ.get("SHIFTGAUGE_KILLS", "5"))
BATCH, BATCHES, DAYS = 25, 48, 4


def answers(url):
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5):
            return True
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def wait_for(what, why, seconds=600):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, why
        time.sleep(0.02)


def parts():
    """Rows and labels of four days, in parts."""
    out = []
    for number in range(BATCHES):
        rows, labels = rows_json(BATCH, seed=number, day=3 + number % DAYS, prefix=f"b{number}-")
        start = datetime.fromisoformat(rows[0]["time"].replace("Z", "+00:00"))
        moments = [start + timedelta(milliseconds=1000 * i + BATCH * number) for i in range(BATCH)]
        logits = np.array([row["logits"] for row in rows])
        out.append({"logits": logits, "ids": [r["id"] for r in rows], "times": moments, "labels": labels})
    return out


def begin(store):
    put_source(store, "m", "v1", source_npz(), "npz")
    put_settings(store, "m", {"replicates": 20, "lateness_minutes": 0})


def undisturbed(folder, todo):
    """What the windows say where nobody is killed: everything in one process, part by part."""
    store = open_store(folder)
    begin(store)
    for client in client_of(store):
        for part in todo:
            rows = [
                {"id": name, "time": moment.isoformat(), "version": "v1", "logits": scores.tolist()}
                for name, moment, scores in zip(part["ids"], part["times"], part["logits"], strict=True)
            ]
            assert client.post("/v1/models/m/predictions", json={"rows": rows}).status_code == 202
            client.post("/v1/models/m/labels", json=labels_json(rows, part["labels"])).raise_for_status()
        run_due_jobs(store)
    found = final(store)
    store.close()
    return found


def final(store):
    """What every window says in the end, without when it was said."""
    out = {}
    for view in list_windows(store, "m"):
        shown = view.to_dict()
        for name in (
            "created",
            "revision",
            "cause",
            "adaptive_range",
        ):  # these tell of the way, not of the end
            shown.pop(name)
        out[view.name] = shown
    return out


def idle(store):
    """Whether no window has anything left to do."""
    left = select(func.count()).where(jobs.c.kind.in_(["estimate", "labels"]))
    with store.read() as connection:
        return connection.execute(left).scalar_one() == 0


class Wild:
    """A server, a worker and a client, of which one is killed and started again, many times."""

    def __init__(self, folder, database, todo, kills):
        self.kills, self.folder = kills, folder
        self.fork_server = ForkServer(folder / "log")
        self.go, self.accepted = folder / "go", folder / "accepted"
        self.go.touch()
        (folder / "parts").write_bytes(pickle.dumps(todo))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        where = {"data": str(folder / "data"), "database": database}
        paths = {name: str(folder / name) for name in ("spool", "parts", "accepted", "go")}
        self.words = {
            "server": {**where, "port": port},
            "worker": where,
            "client": {"url": self.url, "rounds": kills, **paths},
        }
        self.running = {}

    def start(self, kind):
        self.running[kind] = self.fork_server.start(kind, **self.words[kind])

    def rage(self, rng):
        """Kill at random moments, also those who have only just begun."""
        for _ in range(self.kills):
            time.sleep(rng.uniform(0.0, 0.25))
            kind = rng.choice(["server", "server", "worker", "client"])
            self.fork_server.kill(self.running[kind])
            self.start(kind)
            if rng.random() < 0.5:
                wait_for(lambda: answers(self.url), "the server did not come back")
            with self.go.open("a") as rounds:
                rounds.write(".")

    def sent(self):
        return self.accepted.exists() and "refused" in self.accepted.read_text()

    def stop(self):
        for number in self.running.values():
            self.fork_server.kill(number)
        self.fork_server.close()


@pytest.fixture(autouse=True)
def _short_leases(monkeypatch):
    """A killed worker's job waits for its lease: a second, not a minute, so that the test ends."""
    monkeypatch.setenv("SHIFTGAUGE_LEASE_SECONDS", "2")


@pytest.mark.extended
def test_killed_at_random_moments(tmp_path, database):
    """Every row that a client accepted is there once, and the numbers are those of a run in which nobody was killed."""
    todo = parts()
    store = open_store(tmp_path / "data", database)
    begin(store)
    wild = Wild(tmp_path, database, todo, KILLS)
    try:
        for kind in ("server", "worker", "client"):
            wild.start(kind)
        wild.rage(random.Random(KILLS))
        wait_for(wild.sent, "the client did not get rid of its rows")
        wait_for(lambda: idle(store), "the jobs did not end")
        found, rows = final(store), get_model(store, "m").rows
    finally:
        wild.stop()
        store.close()
    said = wild.accepted.read_text().split()
    assert [int(number) for number in said[:-1]] == list(range(BATCHES))
    assert said[-1] == "refused-0"
    assert rows == BATCH * BATCHES
    assert {view["observed"]["labels"] for view in found.values()} == {rows // DAYS}
    assert found == undisturbed(tmp_path / "calm", todo)


def test_the_lease_of_a_dead_worker_runs_out(store):
    with store.write() as connection:
        queue.enqueue(connection, "estimate", [1], 0)
    dead = queue.claim(store, "dead")
    assert queue.claim(store, "other") is None
    with simulated_time(now_us() + queue.LEASE + 1):
        alive = queue.claim(store, "other")
        assert alive.id == dead.id
        with pytest.raises(queue.LostLease), store.write() as connection:  # what it did may not be kept
            queue.finish(connection, dead)
        assert not queue.renew(store, dead)
        with store.write() as connection:
            queue.finish(connection, alive)


def test_a_job_asked_for_while_under_way_is_done_again(store):
    with store.write() as connection:
        queue.enqueue(connection, "estimate", [1], 0)
    job = queue.claim(store, "a")
    with store.write() as connection:
        queue.enqueue(connection, "estimate", [1], 0)
        queue.finish(connection, job)
    assert queue.claim(store, "a") is not None


def test_alerts_do_not_wait_behind_estimates(store):
    with store.write() as connection:
        queue.enqueue(connection, "estimate", range(3), 0)
        queue.enqueue(connection, "alerts", [1], 7)
        queue.enqueue(connection, "deliver", [1], 5)
    assert [queue.claim(store, "a").kind for _ in range(5)] == ["deliver", "alerts", *["estimate"] * 3]


def test_many_workers_share_jobs(store):
    """Each of 40 jobs is taken by exactly one of 4 workers."""
    with store.write() as connection:
        queue.enqueue(connection, "estimate", range(40), 0)
    taken, lock = [], threading.Lock()

    def work(name):
        while (job := queue.claim(store, name)) is not None:
            with lock:
                taken.append(job.subject)

    threads = [threading.Thread(target=work, args=(f"w{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(taken) == list(range(40))
