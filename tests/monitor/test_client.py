"""The client: nothing that it accepted is lost, whoever is away or killed; helpers; `shiftgauge push`."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from monitor_data import K, free_port, source_npz

import shiftgauge as sg
from shiftgauge.cli.app import run
from shiftgauge.errors import FileError, InputError
from shiftgauge.monitor.db.models import put_source
from shiftgauge.monitor.db.windows import list_windows
from shiftgauge.monitor.views import get_model

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def served(store, port=None):
    """A real server in this process, on a real port."""
    import uvicorn

    from shiftgauge.monitor.run.app import create_app

    port = port or free_port()
    config = uvicorn.Config(create_app(store), port=port, log_level="warning")
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
        sg.Monitor(url, model="m", version="v1", spool=tmp_path / "spool", every=0.05) as monitor,
    ):
        ids = monitor.log(logits=rng.normal(size=(40, K)), segments={"country": "DE"})
        more = monitor.log(logits=rng.normal(size=(2, K)), ids=["a", "b"], predictions=[0, 1], weights=[1, 2])
        monitor.log_labels([*ids, *more], rng.integers(0, K, 42))
        assert monitor.flush(60)
        assert (monitor.sent, monitor.waiting, monitor.refused) == (84, 0, 0)
    assert more == ["a", "b"]
    assert total(ready) == 42


def test_numbers_of_classes_may_be_floats_as_in_a_column_with_gaps(ready, tmp_path):
    """The HTTP API takes 1.0 for class 1, and so do the client and `push`."""
    with (
        served(ready) as url,
        sg.Monitor(url, model="m", version="v1", spool=tmp_path / "spool", every=0.05) as monitor,
    ):
        monitor.log(logits=np.zeros((3, K)), ids=["a", "b", "c"], predictions=np.array([0.0, 1.0, 2.0]))
        monitor.log_labels(["a", "b"], np.array([1.0, 2.0]))
        assert monitor.flush(60)
        assert (monitor.sent, monitor.refused) == (5, 0)
        table = pa.table({"id": ["c"], "label": [0.0]})
        pa.parquet.write_table(table, tmp_path / "labels.parquet")
        assert run(["push", "labels", str(tmp_path / "labels.parquet"), "--model", "m", "--url", url]) == 0


def test_a_monitor_that_is_away_gets_everything_later(ready, tmp_path):
    port = free_port()
    with sg.Monitor(
        f"http://127.0.0.1:{port}", model="m", version="v1", spool=tmp_path / "spool", every=0.05
    ) as monitor:
        for _ in range(5):
            monitor.log(logits=np.zeros((3, K)))
        assert not monitor.flush(0.5)
        assert "does not answer" in monitor.last_problem
        with served(ready, port):
            assert monitor.flush(60)
    assert total(ready) == 15


@pytest.mark.slow
def test_what_one_process_left_the_next_one_sends(ready, tmp_path):
    with sg.Monitor(
        "http://127.0.0.1:9", model="m", version="v1", spool=tmp_path / "s", every=0.05
    ) as monitor:
        monitor.log(logits=np.zeros((3, K)))
    with served(ready) as url, sg.Monitor(url, model="m", version="v1", spool=tmp_path / "s") as monitor:
        assert monitor.flush(60)
    assert total(ready) == 3


def test_refused_rows_are_kept_with_the_reason(ready, tmp_path):
    with (
        served(ready) as url,
        sg.Monitor(url, model="m", version="v1", spool=tmp_path / "s", every=0.05) as monitor,
    ):
        monitor.log(logits=np.zeros((4, K)), ids=list("abcd"))
        assert monitor.flush(60)
        monitor.log(logits=np.ones((4, K)), ids=list("bxyz"))  # b is stored with other content
        assert monitor.flush(60)
        assert (monitor.refused, monitor.sent) == (1, 7)
    (reason,) = (tmp_path / "s" / "refused").glob("*.txt")
    assert "stored with other content" in reason.read_text()
    assert reason.with_suffix(".record").exists()
    assert total(ready) == 7


def test_bad_rows_are_refused_where_they_are_logged(tmp_path):
    with sg.Monitor("http://127.0.0.1:9", model="m", version="v1", spool=tmp_path, every=60) as monitor:
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
        sg.Monitor("localhost:8123", model="m", version="v1", spool=tmp_path)


NAN = float("nan")


@pytest.mark.parametrize(
    "words",
    [
        {"ids": 7},
        {"ids": "ab"},
        {"ids": ["a", None]},
        {"ids": ["a", NAN]},
        {"ids": ["a", b"b"]},
        {"ids": ["a", "\ud800"]},
        {"times": 3},
        {"times": ["today", "today"]},
        {"times": [datetime(2026, 1, 1, tzinfo=timezone.utc)]},
        {"predictions": 1},
        {"predictions": [0, None]},
        {"predictions": [0]},
        {"weights": 1.0},
        {"weights": "ab"},
        {"weights": [1.0, "x"]},
        {"weights": [1.0, None]},
        {"weights": [[1.0], [2.0]]},
        {"weights": [1.0]},
        {"weights": [1.0, NAN]},
        {"weights": [1.0, -0.5]},
        {"weights": [1.0, float("inf")]},
        {"segments": ["country"]},
        {"segments": {"country": ["DE"]}},
        {"segments": {"country": [b"DE", "FR"]}},
        {"segments": {"country": object()}},
        {"segments": {"a/b": "DE"}},
        {"segments": {7: "DE"}},
        {"probs": None},
        {"probs": "ab"},
        {"probs": [["a", "b"], ["c", "d"]]},
        {"probs": [[0.5, 0.5], [1.0]]},
    ],
)
def test_every_bad_argument_gets_one_clear_line(tmp_path, words):
    with sg.Monitor("http://127.0.0.1:9", model="m", version="v1", spool=tmp_path, every=60) as monitor:
        with pytest.raises(InputError) as said:
            monitor.log(**{"probs": [[0.5, 0.5], [0.4, 0.6]], **words})
        assert "\n" not in str(said.value)
        assert monitor.waiting == 0


@pytest.mark.parametrize(
    ("ids", "labels"),
    [(7, [1]), (["a"], 1), (["a"], None), (["a"], [None]), (["a"], [NAN]), ("a", "b"), (["a", "b"], [1])],
)
def test_bad_labels_get_one_clear_line(tmp_path, ids, labels):
    with sg.Monitor("http://127.0.0.1:9", model="m", version="v1", spool=tmp_path, every=60) as monitor:
        with pytest.raises(InputError, match=r"ids|labels"):
            monitor.log_labels(ids, labels)
        assert monitor.waiting == 0


@pytest.mark.parametrize(
    "words",
    [
        {"url": None},
        {"url": "http://a b"},
        {"url": "http://["},
        {"token": 7},
        {"token": "a\nb"},
        {"model": "../m"},
        {"model": None},
        {"version": ""},
        {"batch": 0},
        {"batch": 2.5},
        {"every": NAN},
        {"every": -1},
        {"max_bytes": -1},
    ],
)
def test_a_client_is_not_made_of_bad_options(tmp_path, words):
    given = {"url": "http://127.0.0.1:9", "model": "m", "version": "v1", "spool": tmp_path, **words}
    with pytest.raises(InputError):
        sg.Monitor(**given)


def test_rows_wait_in_the_users_folder_not_where_the_process_runs(tmp_path, monkeypatch):
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    for port in (9, 10):  # rows for one monitor must never go to another
        with away(port=port) as monitor:
            monitor.log(logits=np.zeros((1, K)))
    assert list(work.iterdir()) == []
    assert len({path.parent for path in home.rglob("spool.sqlite")}) == 2


@contextmanager
def away(spool=None, port=9, **more):
    """A client whose monitor does not answer."""
    monitor = sg.Monitor(f"http://127.0.0.1:{port}", model="m", version="v1", spool=spool, every=600, **more)
    try:
        yield monitor
    finally:
        monitor.close()  # without waiting


def logged(spool, names):
    with away(spool) as monitor:
        for name in names:
            monitor.log(logits=np.zeros((1, K)), ids=[name])


def sent_from(spool, store):
    with served(store) as url:
        return sent_to(url, spool)


def sent_to(url, spool):
    """Send what waits; how much was refused or damaged."""
    with sg.Monitor(url, model="m", version="v1", spool=spool) as monitor:
        assert monitor.flush(60)
        return monitor.refused


def holding(spool, name):
    """The file of the spool that holds an id, and where."""
    (path,) = [p for p in Path(spool).rglob("*") if p.is_file() and name.encode() in p.read_bytes()]
    return path, path.read_bytes().index(name.encode())


def test_a_damaged_record_is_said_and_those_behind_it_arrive(ready, tmp_path, caplog):
    spool = tmp_path / "s"
    logged(spool, ["record-0", "record-1"])
    with away(spool) as monitor:
        monitor.log(logits=np.zeros((3, K)), ids=["record-2", "a", "b"])
    logged(spool, ["record-3", "record-4"])
    path, at = holding(spool, "record-2")
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    assert sent_from(spool, ready) == 3  # all rows of the record
    assert total(ready) == 4
    assert "damaged" in caplog.text
    (reason,) = (spool / "refused").glob("*.txt")
    assert "damaged" in reason.read_text()
    assert b"ecord-2" in reason.with_suffix(".record").read_bytes()


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_file_costs_only_what_lies_in_it_at_the_damage(ready, tmp_path, seed):
    """A page overwritten, bytes cut out, the end cut off: what can be read arrives, the damaged file is kept."""
    rng, spool = np.random.default_rng(seed), tmp_path / "s"
    logged(spool, [f"record-{i}" for i in range(40)])
    path, _ = holding(spool, "record-20")
    content = path.read_bytes()
    page = int(rng.integers(4, len(content) // 4096 - 2))
    start = 4096 * page
    damage = {0: rng.bytes(4096), 1: bytes(4096), 2: b"\xff" * 4096}.get(seed % 4)
    path.write_bytes(
        content[:start] if damage is None else content[:start] + damage + content[start + 4096 :]
    )
    refused = sent_from(spool, ready)
    least = 4 * (page - 4) if damage is None else 30  # about four records lie on a page
    assert least <= total(ready) < 40
    assert refused >= 1
    assert list((spool / "refused").glob("*.txt"))


def test_a_file_that_is_not_a_spool_is_kept_and_a_new_one_begins(ready, tmp_path, caplog):
    spool = tmp_path / "s"
    logged(spool, ["one"])
    path, _ = holding(spool, "one")
    path.write_bytes(b"not a database" * 400)
    logged(spool, ["two"])
    assert sent_from(spool, ready) <= 1
    assert total(ready) == 1
    assert any(b"not a database" in file.read_bytes() for file in (spool / "refused").iterdir())


def test_a_spool_of_another_version_is_refused(tmp_path):
    logged(tmp_path, ["one"])
    path, _ = holding(tmp_path, "one")
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 7")
    with pytest.raises(FileError, match="another version of shiftgauge wrote this spool") as said:
        logged(tmp_path, ["two"])
    assert str(tmp_path) in str(said.value)
    assert "\n" not in str(said.value)


def accepts(monitor, row):
    try:
        monitor.log(**row)
        return True
    except InputError as problem:
        return "is full" not in str(problem)


def test_a_full_spool_accepts_nothing_until_somebody_has_sent(ready, tmp_path):
    """The limit holds for all who share the spool, and does not drift with what was sent."""
    row = {"logits": np.zeros((1, K))}
    with served(ready) as url:
        for _ in range(3):
            with away(tmp_path / "s", max_bytes=100_000) as other:
                accepted = 0
                while accepts(other, row):
                    accepted += 1
            assert 50 < accepted < 100
            with away(tmp_path / "s", max_bytes=100_000) as third:
                assert not accepts(third, row)
                sent_to(url, tmp_path / "s")
                assert accepts(third, row)


FULL_DISK = """
import resource, sys, numpy as np, shiftgauge as sg
from shiftgauge.errors import FileError
most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
accepted = 0
monitor = sg.Monitor("http://127.0.0.1:9", model="m", version="v1", spool=sys.argv[1], every=600)
for room in (2500, most):  # the disk is full after 2,500 bytes of a file, then there is room again
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
    for i in range(5):
        try:
            monitor.log(logits=np.zeros((1, 3)))
            accepted += 1
        except FileError as problem:
            assert "not accepted" in str(problem)
print(accepted)
monitor.close()
"""


def script(code, *words):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


def test_a_full_disk_takes_nothing_that_it_cannot_hold(ready, tmp_path):
    """A raw write may take a part without failing: a record is accepted whole, or refused and no harm to others."""
    pytest.importorskip("resource")
    said = script(FULL_DISK, tmp_path / "s")
    assert said.returncode == 0, said.stderr
    assert 5 <= int(said.stdout) < 10
    sent_from(tmp_path / "s", ready)
    assert total(ready) == int(said.stdout)


def test_a_monitor_that_is_away_does_not_use_up_open_files(tmp_path):
    """Once a batch waited, every call to log closed a file and kept it open."""
    with away(tmp_path, batch=1) as monitor:
        monitor.log(logits=np.zeros((1, K)))
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(100):
            monitor.log(logits=np.zeros((1, K)))
            time.sleep(0.003)
        assert len(os.listdir("/proc/self/fd")) <= before + 5
        assert monitor.waiting == 101


def test_several_clients_share_a_spool(ready, tmp_path):
    """Each sends what is there; nothing is lost or counted twice, whoever comes first."""
    with served(ready) as url:
        words = {"model": "m", "version": "v1", "spool": tmp_path / "s", "every": 0.01}
        with sg.Monitor(url, **words) as one, sg.Monitor(url, **words) as other:
            for _ in range(20):
                one.log(logits=np.zeros((1, K)))
                other.log(logits=np.zeros((1, K)))
            assert one.flush(60)
            assert other.flush(60)
            assert (one.waiting, other.waiting) == (0, 0)
    assert total(ready) == 40


FORKS = """
import os, sys, numpy as np, shiftgauge as sg
monitor = sg.Monitor(sys.argv[1], model="m", version="v1", spool=sys.argv[2], every=0.05)
def log(who):
    for i in range(5):
        monitor.log(logits=np.zeros((1, 3)), ids=[f"{who}-{i}"])
log("before")
children = []
for child in range(2):
    number = os.fork()
    if number == 0:
        log(f"child{child}")
        os._exit(0 if monitor.flush(60) and monitor.waiting == 0 else 1)
    children.append(number)
log("parent")
number = os.fork()
if number == 0:  # killed before it could send: the next process does
    log("killed")
    os.kill(os.getpid(), 9)
assert [os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) for number in [*children, number]] == [0, 0, -9]
assert monitor.flush(60)
monitor.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_after_a_fork_sends_what_it_logs(ready, tmp_path):
    """As gunicorn --preload does: the client is made before the workers are forked."""
    with served(ready) as url:
        said = script(FORKS, url, tmp_path / "s")
        assert said.returncode == 0, said.stderr
        assert sent_to(url, tmp_path / "s") == 0
    assert total(ready) == 25
    with away(tmp_path / "s") as monitor:
        assert monitor.flush(0.0)  # nothing is left


LOGGER = """
import sys, numpy as np, shiftgauge as sg
monitor = sg.Monitor(sys.argv[1], model="m", version="v1", spool=sys.argv[2], every=0.01)
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
        with sg.Monitor(url, model="m", version="v1", spool=tmp_path / "s") as monitor:
            assert monitor.flush(120)
            assert monitor.refused == 0
    assert 3 * accepted <= total(ready) <= 3 * (accepted + kills)
    assert sum(view.rows for view in list_windows(ready, "m")) == total(ready)


def test_scikit_learn(ready, tmp_path):
    from sklearn.linear_model import LogisticRegression

    from shiftgauge.monitor.client.frameworks import LoggedClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    fitted = LogisticRegression().fit(X, np.array(["x", "y", "z"])[rng.integers(0, 3, 60)])
    with served(ready) as url, sg.Monitor(url, model="m", version="v1", spool=tmp_path) as monitor:
        logged = LoggedClassifier(fitted, monitor)
        assert (logged.predict(X) == fitted.predict(X)).all()
        assert logged.predict_proba(X[:5]).shape == (5, 3)
        assert len(logged.last_ids) == 5
        assert logged.n_features_in_ == 4
        assert monitor.flush(60)
        assert monitor.refused == 0
    assert total(ready) == 65


@pytest.mark.torch
def test_torch(ready, tmp_path):
    torch = pytest.importorskip("torch")
    from shiftgauge.monitor.client.frameworks import log_torch

    module = torch.nn.Linear(4, K)
    with served(ready) as url, sg.Monitor(url, model="m", version="v1", spool=tmp_path) as monitor:
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

    from shiftgauge.monitor.client.frameworks import fastapi_logger

    app = FastAPI()
    with served(ready) as url, sg.Monitor(url, model="m", version="v1", spool=tmp_path) as monitor:

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
    format_time = datetime(2026, 3, 5, tzinfo=timezone.utc)
    table = pa.table(
        {
            **{f"logit_{j}": z[:, j] for j in range(K)},
            "id": [f"p{i}" for i in range(50)],
            "label": [str(v) for v in rng.integers(0, K, 50)],
            "when": pa.array([format_time] * 50, pa.timestamp("us", tz="UTC")),
            "country": ["DE", "FR"] * 25,
        }
    )
    file = tmp_path / "rows.parquet"
    pa.parquet.write_table(table, file)
    plain = tmp_path / "plain.npz"
    np.savez(plain, logits=z)
    with served(ready) as url:
        words = [str(file), "--url", url, "--model", "n", "--model-version", "v1"]
        assert run(["push", "source", *words]) == 0
        assert capsys.readouterr().out == f"{file}: 50 rows, stored as the source\n"
        assert run(["push", "source", *words]) == 0
        assert capsys.readouterr().out == f"{file}: 50 rows, the same source as before\n"
        assert run(["push", "source", *words, "--json"]) == 0
        rows = [
            "push",
            "predictions",
            *words,
            "--id",
            "id",
            "--time",
            "when",
            "--segment",
            "country",
            "--json",
        ]
        assert run(rows) == 0
        assert run(rows) == 0
        assert run(["push", "labels", str(file), "--url", url, "--model", "n", "--json"]) == 0
        again = [
            "push",
            "predictions",
            str(plain),
            "--url",
            url,
            "--model",
            "m",
            "--model-version",
            "v1",
            "--json",
        ]
        assert [run(again), run(again)] == [0, 0]
        printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert (
            run(
                [
                    "push",
                    "predictions",
                    str(plain),
                    "--url",
                    url,
                    "--model",
                    "nobody",
                    "--model-version",
                    "v1",
                ]
            )
            == 2
        )
        assert "model 'nobody' is not known" in capsys.readouterr().err
    assert printed[0]["rows"] == 50
    assert [one["accepted"] for one in printed[1:3]] == [50, 0]
    assert printed[3]["accepted"] == 50
    assert [one["duplicates"] for one in printed[4:]] == [0, 50]
    assert (
        run(
            [
                "push",
                "predictions",
                str(plain),
                "--url",
                url,
                "--model",
                "m",
                "--model-version",
                "v1",
                "--timeout",
                "0",
            ]
        )
        == 2
    )
    assert "does not answer" in capsys.readouterr().err
