"""Small data for the monitor's tests, and what they do again and again."""

import io
import json
import os
import pwd
import shutil
import socket
import subprocess
import uuid
from pathlib import Path

import numpy as np

from shiftgauge.monitor.periods import DAY, now_us

K = 3
#: Of a webhook, as Standard Webhooks writes them.
SECRET = "whsec_bm90IHRvIGJlIHNob3duIHRvIGFueWJvZHk="


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Cluster:
    """A PostgreSQL cluster of the tests' own, on a free port of this machine."""

    def __init__(self, folder, bin):
        self.folder, self.bin, self.port = Path(folder), Path(bin), free_port()
        self.user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(self.folder, "postgres")
        self.data = self.folder / "data"
        self._run("initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "--no-sync")
        self.start()

    def _run(self, name, *words):
        command = [str(self.bin / name), *map(str, words)]
        if os.getuid() == 0:
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
        done = subprocess.run(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            check=False,
            timeout=310,
        )
        assert done.returncode == 0, done.stderr

    def start(self):
        # Our own processes are killed here, not the machine: what the kernel has is safe enough.
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c max_connections=100 -c fsync=off"
        self._run(
            "pg_ctl", "-D", self.data, "-o", options, "-l", self.folder / "log", "-w", "-t", 300, "start"
        )

    def stop(self, mode="fast"):
        self._run("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")

    def new_database(self):
        name = f"t{uuid.uuid4().hex[:12]}"
        self._run("createdb", "-h", "127.0.0.1", "-p", self.port, "-U", "postgres", name)
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"


def postgres_bin():
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    where = shutil.which("initdb")
    return found[0] if found else Path(where).parent if where else None


def source_npz(n=300, seed=0, classes=None):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, K)) * 2
    labels = (z + rng.gumbel(size=z.shape)).argmax(1)
    out = io.BytesIO()
    named = {} if classes is None else {"classes": np.array(classes)}
    np.savez(out, logits=z, labels=labels if classes is None else np.array(classes)[labels], **named)
    return out.getvalue()


def days_ago(n):
    """The beginning of a day, in microseconds."""
    return now_us() // DAY * DAY - n * DAY


def rows_json(n, seed=1, *, day=3, prefix="r", version="v1", shift=0.0, **more):
    """Rows of one day, and their labels."""
    from shiftgauge.monitor.periods import iso

    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, K)) * (2 - shift)
    labels = (z + rng.gumbel(size=z.shape) * (1 + shift)).argmax(1)
    start = days_ago(day)
    rows = [
        {
            "id": f"{prefix}{i}",
            "time": iso(start + i * 1_000_000),
            "version": version,
            "logits": z[i].tolist(),
            **{name: value(i) if callable(value) else value for name, value in more.items()},
        }
        for i in range(n)
    ]
    return rows, labels.tolist()


def labels_json(rows, labels):
    return [{"id": row["id"], "label": int(label)} for row, label in zip(rows, labels, strict=True)]


def client_of(store, **more):
    from fastapi.testclient import TestClient

    from shiftgauge.monitor.run.app import create_app

    with TestClient(
        create_app(store, **more), base_url="http://127.0.0.1", raise_server_exceptions=False
    ) as client:
        client.store = store
        yield client


def run_due_jobs(store, limit=200):
    """Let the worker do everything, as if the pauses had passed."""
    from shiftgauge.monitor.periods import simulated_time
    from shiftgauge.monitor.run.worker import Worker

    worker, done = Worker(store), 0
    with simulated_time(now_us() + 10_000_000):
        while done < limit and worker.step():
            done += 1
    return done


def problem(response, status):
    """The problem's text, once its form was checked (RFC 9457)."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = json.loads(response.text)
    assert {"type", "title", "status", "detail"} <= set(body)
    assert body["status"] == status
    return body["detail"]
