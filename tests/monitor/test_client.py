"""The client: nothing that it accepted is lost, whoever is away or killed; helpers; `labelfree push`."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from monitor_data import K, free_port, source_npz

import labelfree as lf
from labelfree.cli.app import run
from labelfree.errors import InputError
from labelfree.monitor.service.models import get_model, put_source
from labelfree.monitor.service.windows import list_windows
from labelfree.monitor.spool import Spool, records

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def served(store, port=None):
    """A real server in this process, on a real port."""
    import uvicorn

    from labelfree.monitor.http.app import create_app

    port = port or free_port()
    config = uvicorn.Config(create_app(store, pages=False), port=port, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 60
    while not server.started and time.monotonic() < until:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.fixture
def ready(lite):
    put_source(lite, "m", "v1", source_npz(), "npz")
    return lite


def total(store):
    return get_model(store, "m").rows


def test_rows_and_labels_arrive(ready, tmp_path):
    rng = np.random.default_rng(0)
    with (
        served(ready) as url,
        lf.Monitor(url, model="m", version="v1", spool=tmp_path / "spool", every=0.05) as monitor,
    ):
        ids = monitor.log(logits=rng.normal(size=(40, K)), segments={"country": "DE"})
        more = monitor.log(logits=rng.normal(size=(2, K)), ids=["a", "b"], predictions=[0, 1], weights=[1, 2])
        monitor.log_labels([*ids, *more], rng.integers(0, K, 42))
        assert monitor.flush(60)
        assert (monitor.sent, monitor.waiting, monitor.refused) == (84, 0, 0)
    assert more == ["a", "b"]
    assert total(ready) == 42
    assert list(tmp_path.glob("s/*.spool")) == []


def test_a_monitor_that_is_away_gets_everything_later(ready, tmp_path):
    port = free_port()
    with lf.Monitor(
        f"http://127.0.0.1:{port}", model="m", version="v1", spool=tmp_path / "spool", every=0.05
    ) as monitor:
        for _ in range(5):
            monitor.log(logits=np.zeros((3, K)))
        assert not monitor.flush(0.5)
        assert "does not answer" in monitor.last_problem
        with served(ready, port):
            assert monitor.flush(60)
    assert total(ready) == 15


def test_what_one_process_left_the_next_one_sends(ready, tmp_path):
    with lf.Monitor(
        "http://127.0.0.1:9", model="m", version="v1", spool=tmp_path / "s", every=0.05
    ) as monitor:
        monitor.log(logits=np.zeros((3, K)))
    with served(ready) as url, lf.Monitor(url, model="m", version="v1", spool=tmp_path / "s") as monitor:
        assert monitor.flush(60)
    assert total(ready) == 3


def test_refused_rows_are_kept_with_the_reason(ready, tmp_path):
    with (
        served(ready) as url,
        lf.Monitor(url, model="m", version="v1", spool=tmp_path / "s", every=0.05) as monitor,
    ):
        monitor.log(logits=np.zeros((4, K)), ids=list("abcd"))
        assert monitor.flush(60)
        monitor.log(logits=np.ones((4, K)), ids=list("bxyz"))  # b is held with other content
        assert monitor.flush(60)
        assert (monitor.refused, monitor.sent) == (1, 7)
    (reason,) = (tmp_path / "s" / "refused").glob("*.txt")
    assert "held with other content" in reason.read_text()
    assert reason.with_suffix(".record").exists()
    assert total(ready) == 7


def test_bad_rows_are_refused_where_they_are_logged(tmp_path):
    with lf.Monitor("http://127.0.0.1:9", model="m", version="v1", spool=tmp_path, every=60) as monitor:
        with pytest.raises(InputError, match="sums to"):
            monitor.log(probs=[[0.5, 0.6]])
        with pytest.raises(InputError, match="no zone"):
            monitor.log(probs=[[0.5, 0.5]], times=datetime(2026, 1, 1))
        with pytest.raises(InputError, match="2 for 1 rows"):
            monitor.log(probs=[[0.5, 0.5]], ids=["a", "b"])
        assert monitor.waiting == 0
    with pytest.raises(InputError, match="closed"):
        monitor.log(probs=[[0.5, 0.5]])
    with pytest.raises(InputError, match="wanted an address"):
        lf.Monitor("localhost:8123", model="m", version="v1", spool=tmp_path)


def test_the_spool_forgets_only_what_was_cut_off(tmp_path):
    spool = Spool(tmp_path)
    for i in range(5):
        spool.append(bytes([i]) * 100)
    (path,) = spool.ready()
    whole = path.read_bytes()
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        assert list(records(path)) == [bytes([i]) * 100 for i in range(cut // 108)]
    damaged = bytearray(whole)
    damaged[150] ^= 1
    path.write_bytes(damaged)
    assert list(records(path)) == [bytes([0]) * 100]


def test_a_full_spool_accepts_nothing(tmp_path):
    spool = Spool(tmp_path, most=150)
    spool.append(b"x" * 100)
    with pytest.raises(InputError, match="is full"):
        spool.append(b"x" * 100)
    assert [len(list(records(path))) for path in spool.ready()] == [1]


FULL_DISK = """
import resource, sys
from labelfree.errors import FileError
from labelfree.monitor.spool import Spool, records
spool = Spool(sys.argv[1])
most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
accepted = 0
for room in (1000, most):  # the disk is full after 1,000 bytes of a file, then there is room again
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
    for i in range(5):
        try:
            spool.append(bytes([i]) * 300)
            accepted += 1
        except FileError as problem:
            assert "not accepted" in str(problem)
found = [record for path in spool.ready() for record in records(path)]
assert all(len(record) == 300 for record in found)
print(accepted, len(found))
"""


def test_a_full_disk_takes_nothing_that_it_cannot_hold(tmp_path):
    """A raw write may take a part without failing: a record is accepted whole, or refused and no harm to others."""
    pytest.importorskip("resource")
    said = subprocess.run(
        [sys.executable, "-c", FULL_DISK, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert said.returncode == 0, said.stderr
    accepted, found = map(int, said.stdout.split())
    assert accepted == found >= 5


def test_two_processes_may_share_a_spool(tmp_path):
    first, second = Spool(tmp_path), Spool(tmp_path)
    first.append(b"1")
    second.append(b"2")
    assert [list(records(p)) for p in first.ready()] == [[b"1"]]
    assert [list(records(p)) for p in second.ready()] == [[b"2"]]
    first.close()
    assert len(second.ready()) == 2


LOGGER = """
import sys, numpy as np, labelfree as lf
monitor = lf.Monitor(sys.argv[1], model="m", version="v1", spool=sys.argv[2], every=0.01)
for i in range(int(sys.argv[3]), 10**6):
    monitor.log(logits=np.full((3, 3), float(i)), ids=[f"{i}-{j}" for j in range(3)])
    print(i, flush=True)
"""


def test_a_killed_client_loses_nothing_that_it_accepted(ready, tmp_path):
    """kill -9 at random moments, again and again; every call to log that returned is at the server, once."""
    rng, accepted, begin = np.random.default_rng(5), 0, 0
    kills = 3  # the long run of them is in test_crashes
    with served(ready) as url:
        for _ in range(kills):
            process = subprocess.Popen(
                [sys.executable, "-c", LOGGER, url, tmp_path / "s", str(begin)],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )
            assert process.stdout.readline().strip() == str(begin)
            time.sleep(rng.uniform(0.0, 0.3))
            process.send_signal(signal.SIGKILL)
            said = [begin, *(int(line) for line in process.communicate()[0].split())]
            accepted += len(said)
            begin = said[-1] + 2  # the one after the last may or may not have been accepted
        with lf.Monitor(url, model="m", version="v1", spool=tmp_path / "s") as monitor:
            assert monitor.flush(120)
            assert monitor.refused == 0
    assert 3 * accepted <= total(ready) <= 3 * (accepted + kills)
    assert sum(view.rows for view in list_windows(ready, "m")) == total(ready)


def test_scikit_learn(ready, tmp_path):
    from sklearn.linear_model import LogisticRegression

    from labelfree.monitor.helpers import LoggedClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    fitted = LogisticRegression().fit(X, np.array(["x", "y", "z"])[rng.integers(0, 3, 60)])
    with served(ready) as url, lf.Monitor(url, model="m", version="v1", spool=tmp_path) as monitor:
        logged = LoggedClassifier(fitted, monitor)
        assert (logged.predict(X) == fitted.predict(X)).all()
        assert logged.predict_proba(X[:5]).shape == (5, 3)
        assert len(logged.last_ids) == 5
        assert logged.n_features_in_ == 4
        assert monitor.flush(60)
        assert monitor.refused == 0
    assert total(ready) == 65


def test_torch(ready, tmp_path):
    torch = pytest.importorskip("torch")
    from labelfree.monitor.helpers import log_torch

    module = torch.nn.Linear(4, K)
    with served(ready) as url, lf.Monitor(url, model="m", version="v1", spool=tmp_path) as monitor:
        handle = log_torch(module, monitor)
        module(torch.zeros(5, 4))  # training: not logged
        module.eval()
        module(torch.zeros(6, 4))
        handle.remove()
        module(torch.zeros(7, 4))
        assert monitor.flush(60)
    assert total(ready) == 6


def test_fastapi(ready, tmp_path):
    from typing import Annotated, Any

    from fastapi import Depends, FastAPI
    from fastapi.testclient import TestClient

    from labelfree.monitor.helpers import fastapi_logger

    app = FastAPI()
    with served(ready) as url, lf.Monitor(url, model="m", version="v1", spool=tmp_path) as monitor:

        @app.get("/predict")
        def predict(log: Annotated[Any, Depends(fastapi_logger(monitor))]) -> dict:
            log(probs=[[0.2, 0.3, 0.5]], ids=["r-1"])
            return {"class": 2}

        with TestClient(app) as caller:
            assert caller.get("/predict").json() == {"class": 2}
        assert monitor.flush(60)
    assert total(ready) == 1


def test_push(ready, tmp_path, capsys):
    """A file may be pushed again and again: the same rows, once."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(50, K))
    stamp = datetime(2026, 3, 5, tzinfo=timezone.utc)
    table = pa.table(
        {
            **{f"logit_{j}": z[:, j] for j in range(K)},
            "id": [f"p{i}" for i in range(50)],
            "label": [str(v) for v in rng.integers(0, K, 50)],
            "when": pa.array([stamp] * 50, pa.timestamp("us", tz="UTC")),
            "country": ["DE", "FR"] * 25,
        }
    )
    file = tmp_path / "rows.parquet"
    pa.parquet.write_table(table, file)
    plain = tmp_path / "plain.npz"
    np.savez(plain, logits=z)
    with served(ready) as url:
        words = ["push", str(file), "--url", url, "--model", "n", "--version", "v1"]
        assert run([*words, "--source", "--json"]) == 0
        rows = [*words, "--id", "id", "--time", "when", "--segment", "country", "--json"]
        assert run(rows) == 0
        assert run(rows) == 0
        assert run(["push", str(file), "--url", url, "--model", "n", "--labels", "--json"]) == 0
        again = ["push", str(plain), "--url", url, "--model", "m", "--version", "v1", "--json"]
        assert [run(again), run(again)] == [0, 0]
        printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert run(["push", str(plain), "--url", url, "--model", "nobody", "--version", "v1"]) == 2
        assert "model 'nobody' is not known" in capsys.readouterr().err
    assert printed[0]["rows"] == 50
    assert [one["accepted"] for one in printed[1:3]] == [50, 0]
    assert printed[3]["accepted"] == 50
    assert [one["duplicates"] for one in printed[4:]] == [0, 50]
    assert run(["push", str(plain), "--url", url, "--model", "m", "--version", "v1", "--patience", "0"]) == 2
    assert "does not answer" in capsys.readouterr().err
