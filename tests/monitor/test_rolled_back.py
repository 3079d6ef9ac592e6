"""Transactions that the database refuses: what was answered with 202 is kept, what was rolled back is not known."""

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from monitor_data import labels_json, rows_json, run_due_jobs
from test_api import post, put_source, windows

COMPACT_FROM_BATCHES = 8


class Database:
    """A second connection to the monitor's database, as an operator has one."""

    def __init__(self, store, database):
        self.lite = database is None
        if self.lite:
            self.connection = sqlite3.connect(
                store.engine.url.database, isolation_level=None, check_same_thread=False
            )
        else:
            self.connection = psycopg.connect(database, autocommit=True)

    def refuse_groups(self):
        """From now on a transaction that brings more than one commit to a model fails."""
        message = "deadlock detected"
        if self.lite:
            self.connection.execute(
                "CREATE TRIGGER refuse BEFORE UPDATE OF seq ON models WHEN NEW.seq > OLD.seq + 1 "
                f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
            )
            return
        self.connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{message}'; END $$"
        )
        self.connection.execute(
            "CREATE TRIGGER refuse BEFORE UPDATE OF seq ON models FOR EACH ROW "
            "WHEN (NEW.seq > OLD.seq + 1) EXECUTE FUNCTION refuse()"
        )

    def hold(self):
        """Make everybody who writes wait: requests gather meanwhile."""
        self.connection.execute("BEGIN IMMEDIATE" if self.lite else "BEGIN")
        if not self.lite:
            self.connection.execute("SELECT id FROM models FOR UPDATE")

    def release(self):
        self.connection.execute("COMMIT")


@pytest.fixture
def other(client, database):
    other = Database(client.store, database)
    yield other
    other.connection.close()


def at_once(other, calls):
    """Send requests while nobody can commit, so that they are committed together."""
    other.hold()
    with ThreadPoolExecutor(len(calls)) as pool:
        sent = [pool.submit(call) for call in calls]
        threading.Timer(1.0, other.release).start()
        return [one.result() for one in sent]


def test_labels_of_a_refused_group_are_kept(client, other):
    put_source(client)
    client.put("/v1/models/m/settings", json={"replicates": 20})
    rows, labels = rows_json(40)
    assert post(client, rows).status_code == 202
    given = labels_json(rows, labels)
    other.refuse_groups()

    def send(one):
        return lambda: client.post("/v1/models/m/labels", json=[one])

    answers = at_once(other, [send(one) for one in given[:COMPACT_FROM_BATCHES]])
    assert [answer.status_code for answer in answers] == [202] * COMPACT_FROM_BATCHES
    assert [answer.json()["accepted"] for answer in answers] == [1] * COMPACT_FROM_BATCHES
    run_due_jobs(client.store)
    assert windows(client)[0]["observed"]["labels"] == COMPACT_FROM_BATCHES


def test_rows_of_a_refused_group_are_kept(client, other):
    put_source(client)
    client.put("/v1/models/m/settings", json={"replicates": 20})
    rows, _ = rows_json(COMPACT_FROM_BATCHES)
    post(client, rows_json(3, prefix="first")[0])
    other.refuse_groups()
    answers = at_once(other, [lambda row=row: post(client, [row]) for row in rows])
    assert [answer.json() for answer in answers] == [{"accepted": 1, "duplicates": 0}] * COMPACT_FROM_BATCHES
    run_due_jobs(client.store)
    assert windows(client)[0]["rows"] == COMPACT_FROM_BATCHES + 3


def test_labels_are_kept_when_the_connection_is_cut(client, other, cluster, database):
    """The server loses its connection within a transaction; the label that is sent again is kept."""
    if database is None:
        pytest.skip("SQLite has no connection that could be cut")
    put_source(client)
    client.put("/v1/models/m/settings", json={"replicates": 20})
    rows, labels = rows_json(40)
    post(client, rows)
    given = labels_json(rows, labels)[:2]
    other.hold()
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(client.post, "/v1/models/m/labels", json=given)
        cut = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        until = time.monotonic() + 60
        while not sent.done() and not other.connection.execute(cut).fetchall():
            assert time.monotonic() < until
            time.sleep(0.05)
        other.release()
        first = sent.result()
    assert first.status_code in (202, 503), first.text
    again = client.post("/v1/models/m/labels", json=given)
    assert again.status_code == 202, again.text
    run_due_jobs(client.store)
    assert windows(client)[0]["observed"]["labels"] == 2


def test_first_rows_of_a_version_that_come_together_get_one_form(client, other):
    """Whichever is committed first fixes the order of the classes; the other is prepared again in that order."""
    put_source(client)
    (row,) = rows_json(1)[0]
    scores = {"a": {"cat": 0.7, "dog": 0.3}, "b": {"dog": 0.6, "cat": 0.4}, "c": {"cat": 0.2, "dog": 0.8}}
    given = [
        {"id": name, "time": row["time"], "version": "new", "probs": probs} for name, probs in scores.items()
    ]
    calls = [lambda one=one: post(client, [one]) for one in given]
    assert [answer.json() for answer in at_once(other, calls)] == [{"accepted": 1, "duplicates": 0}] * 3
    assert [call().json() for call in calls] == [{"accepted": 0, "duplicates": 1}] * 3
    assert post(client, [{**given[0], "probs": {"cat": 0.3, "dog": 0.7}}]).status_code == 409
