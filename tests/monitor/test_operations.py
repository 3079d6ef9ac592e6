"""Running the monitor: a clock that jumps, a full disk, the access log, tokens, reports for many readers."""

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from monitor_data import client_of, free_port, labels_json, problem, rows_json, run_due_jobs
from test_api import post, put_source

from shiftgauge.cli.app import run
from shiftgauge.monitor.api.security import Authenticator
from shiftgauge.monitor.db.tokens import create_token
from shiftgauge.monitor.periods import DAY, HOUR, now_us, simulated_time
from shiftgauge.monitor.run.worker import Worker

ROOT = Path(__file__).resolve().parents[2]


def states(client):
    return [window["state"] for window in client.get("/v1/models/m/windows").json()["windows"]]


def test_a_clock_that_jumps_back_stalls_nothing(client):
    """Five days ahead until somebody sets it right: jobs asked for then, and a lease taken then, hold up nothing."""
    put_source(client)
    client.put("/v1/models/m/settings", json={"limits": {"silence_hours": 1}}).raise_for_status()
    rows, labels = rows_json(60, day=3)
    with simulated_time(now_us() + 5 * DAY):
        post(client, rows)
        worker = Worker(client.store)
        while worker.step():  # the watch over the model now comes again in five days and a minute
            pass
    assert states(client) == ["open"]
    run_due_jobs(client.store)
    assert states(client) == ["estimated"]
    client.post("/v1/models/m/labels", json=labels_json(rows, labels)).raise_for_status()
    run_due_jobs(client.store)
    (window,) = client.get("/v1/models/m/windows").json()["windows"]
    assert window["observed"]["labels"] == 60
    with simulated_time(now_us() + 2 * HOUR):
        Worker(client.store).drain()
    assert client.get("/v1/models/m/alerts", params={"firing": True}).json()["alerts"]


def test_a_clock_that_jumps_forward_loses_nothing_and_counts_nothing_twice(client):
    """The day seems to be over: its window is estimated early, and what senders with a right clock send is late."""
    put_source(client)
    client.put("/v1/models/m/settings", json={"limits": {"silence_hours": 48}}).raise_for_status()
    rows, labels = rows_json(60, day=0)

    def firing():
        return len(client.get("/v1/models/m/alerts", params={"firing": True}).json()["alerts"])

    post(client, rows[:40]).raise_for_status()
    run_due_jobs(client.store)
    assert states(client) == ["open"]
    with simulated_time(now_us() + 5 * DAY):
        Worker(client.store).drain()
        assert states(client) == ["estimated"]
        assert firing() == 1  # nothing seems to have come for five days
        assert post(client, rows).json() == {"accepted": 20, "duplicates": 40}
        client.post("/v1/models/m/labels", json=labels_json(rows, labels)).raise_for_status()
    with simulated_time(now_us() + 5 * DAY + 2 * HOUR):
        Worker(client.store).drain()
        assert firing() == 0
    (window,) = client.get("/v1/models/m/windows").json()["windows"]
    assert (window["rows"], window["observed"]["labels"]) == (60, 60)
    assert post(client, rows).json() == {"accepted": 0, "duplicates": 60}  # the clock was set right


def test_a_clock_that_jumps_back_closes_no_window_early(lite_client):
    client = lite_client
    put_source(client)
    rows, _ = rows_json(60, day=0)
    with simulated_time(now_us() + 5 * DAY):
        post(client, rows)
    run_due_jobs(client.store)
    assert states(client) == ["open"]
    with simulated_time(now_us() // DAY * DAY + DAY + 2 * HOUR):
        Worker(client.store).drain()
    assert states(client) == ["estimated"]


FULL = """
import resource, sys
from shiftgauge.monitor.run.serve import serve
serve(sys.argv[1], port=int(sys.argv[2]), workers=0)
"""


def asked(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code
    except OSError:
        return 0


def wait_for(url, wanted):
    until = time.monotonic() + 60
    while (status := asked(url)) not in wanted and time.monotonic() < until:
        time.sleep(0.1)
    return status


@pytest.fixture
def process(tmp_path):
    """A server as a process of its own, with its output in a file."""
    port, log = free_port(), tmp_path / "log"
    with log.open("wb") as out:
        running = subprocess.Popen(
            [sys.executable, "-c", FULL, str(tmp_path / "data"), str(port)],
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        running.url, running.log = f"http://127.0.0.1:{port}", log
        try:
            assert wait_for(f"{running.url}/readyz", [200]) == 200, log.read_text()
            yield running
        finally:
            running.terminate()
            running.wait(30)


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux's")
def test_a_server_that_cannot_write_is_not_ready(process):
    """No file may grow any more: to the process this is what a full disk is."""
    import resource

    soft, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, hard))
    assert wait_for(f"{process.url}/readyz", [503, 507]) in (503, 507)
    assert asked(f"{process.url}/healthz") == 200
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (soft, hard))
    assert wait_for(f"{process.url}/readyz", [200]) == 200


def test_the_access_log_has_a_line_per_request_and_no_secrets(process):
    header = {"authorization": "Bearer sgm_0123456789ab_secret", "x-other": "hidden-header"}
    for path in ("/v1/models", "/v1/models/m/windows?id=hidden-row", "/hidden-path%0aforged"):
        asked(urllib.request.Request(process.url + path, headers=header))
    until = time.monotonic() + 30
    while len(lines := process.log.read_text().splitlines()) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    text = "\n".join(lines)
    assert re.search(r"127\.0\.0\.1 \(no token\) GET /v1/models 200 \d+ ms", text), text
    assert "GET /v1/models/m/windows 404" in text
    assert "GET (unknown path) 404" in text
    assert not re.search("hidden|sgm_|secret|forged|healthz|readyz", text)


def test_the_access_log_names_the_token(lite_client, caplog):
    put_source(lite_client)
    header = {"authorization": f"Bearer {create_token(lite_client.store, 'on-call', ['read'])}"}
    lite_client.app.state.authenticator = Authenticator(lite_client.store)  # which looks for tokens anew
    with caplog.at_level("INFO", logger="shiftgauge.monitor.access"):
        lite_client.get("/v1/models", headers=header)
        lite_client.get("/v1/models")
    lines = [record.getMessage() for record in caplog.records if record.name == "shiftgauge.monitor.access"]
    assert " on-call GET /v1/models 200 " in lines[0]
    assert " - GET /v1/models 401 " in lines[1]


def listed(data, capsys, *words):
    assert run(["monitor", "token", "list", "--store", str(data), *words]) == 0
    return capsys.readouterr().out


def test_tokens_are_listed_without_their_secrets(tmp_path, capsys):
    data = str(tmp_path / "data")
    assert listed(data, capsys).strip() == "no tokens"
    made = []
    for words in (
        ["boss", "--scope", "admin"],
        ["shop", "--scope", "ingest", "--scope", "read", "--model", "m", "--days", "2"],
    ):
        assert run(["monitor", "token", "create", *words, "--store", data]) == 0
        made.append(capsys.readouterr().out.strip())
    assert run(["monitor", "token", "revoke", made[0].split("_")[1], "--store", data]) == 0
    capsys.readouterr()
    text = listed(data, capsys)
    boss, shop = json.loads(listed(data, capsys, "--json"))["tokens"]
    assert (boss["name"], boss["scopes"], boss["model"], boss["expires"]) == ("boss", ["admin"], None, None)
    assert boss["revoked"]
    assert (shop["scopes"], shop["model"], shop["revoked"]) == (["ingest", "read"], "m", None)
    assert shop["created"] < shop["expires"]
    assert "shop" in text
    assert not any(token.split("_", 2)[2] in text for token in made)


def test_an_admin_of_all_models_lists_tokens(lite):
    from shiftgauge.monitor.db.tokens import create_token

    secrets = {
        "all": create_token(lite, "boss", ["admin"]),
        "one": create_token(lite, "deputy", ["admin"], "m"),
        "read": create_token(lite, "reader", ["read"]),
    }
    for client in client_of(lite):

        def ask(who, client=client):
            return client.get("/v1/tokens", headers={"authorization": f"Bearer {secrets[who]}"})

        found = ask("all")
        assert [token["name"] for token in found.json()["tokens"]] == ["boss", "deputy", "reader"]
        assert not any(secret.split("_", 2)[2] in found.text for secret in secrets.values())
        assert "admin" in problem(ask("one"), 403)
        problem(ask("read"), 403)
        problem(client.get("/v1/tokens"), 401)


@pytest.mark.parametrize("days", ["nan", "inf", "1e30", "0", "-5"])
def test_a_token_that_could_not_hold_is_not_made(tmp_path, capsys, days):
    words = ["monitor", "token", "create", "x", "--scope", "read", "--days", days, "--store", str(tmp_path)]
    assert run(words) == 2
    said = capsys.readouterr()
    assert "days" in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert said.out == ""
    assert listed(tmp_path, capsys).strip() == "no tokens"


@pytest.mark.slow
def test_reports_for_many_readers_are_those_for_one(lite):
    """Figures are drawn with settings of the whole process: threads must not meet in there."""
    for client in client_of(lite):
        put_source(client)
        client.put("/v1/models/m/settings", json={"replicates": 20}).raise_for_status()
        for day in (3, 4, 5):
            post(client, rows_json(60, day=day, seed=day, prefix=f"d{day}-")[0])
        run_due_jobs(lite)
        names = [window["window"] for window in client.get("/v1/models/m/windows").json()["windows"]]
        barrier = threading.Barrier(6)

        def read(name, client=client, barrier=barrier):
            barrier.wait(60)
            return client.get(f"/v1/models/m/windows/{name}/report").text

        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(read, names * 2))
        assert found[:3] == found[3:]
        again = [client.get(f"/v1/models/m/windows/{name}/report").text for name in names]
        assert found[:3] == again
        assert len(set(again)) == 3
