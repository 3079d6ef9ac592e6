"""Damaged bodies, sent to a served process: every one gets an answer below 500, and the process lives."""

import gzip
import io
import json
import os
import random
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from monitor_data import K, free_port, rows_json, source_npz
from test_api import ARROW, PARQUET, arrow_bytes, to_table

#: Damaged copies of each body: 100 in `make test`, 2,000 in `make test-all`.
DAMAGED = int(os.environ.get("SHIFTGAUGE_DAMAGED", "100"))
NPZ, JSON = "application/x-npz", "application/json"
SOURCE = "versions/v1/source"


class Server:
    """`shiftgauge monitor serve` in a process of its own."""

    def __init__(self, folder):
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self.log = (folder / "log").open("w+")
        command = ["monitor", "--store", str(folder / "data"), "--port", str(port), "--workers", "0"]
        source = str(Path(__file__).resolve().parents[2] / "src")
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), source]))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "shiftgauge", *command],
            stdout=self.log,
            stderr=self.log,
            env={**os.environ, "PYTHONPATH": path},
        )
        until = time.monotonic() + 120
        while True:
            try:
                return self.send("GET", "/healthz") and None
            except OSError:
                assert self.process.poll() is None, self.said()
                assert time.monotonic() < until, self.said()
                time.sleep(0.05)

    def send(self, method, path, body=None, **headers):
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as problem:
            return problem.code, problem.read().decode()

    def said(self):
        self.log.flush()
        return Path(self.log.name).read_text()[-4000:]

    def close(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("damaged"))
    yield server
    server.close()


def parquet_bytes(table, **more):
    out = io.BytesIO()
    pa.parquet.write_table(table, out, **more)
    return out.getvalue()


def rows_table():
    table = to_table(rows_json(12)[0])
    return table.append_column("segment_country", pa.array(["DE", "FR"] * 6))


def labels_table():
    return pa.table({"id": [f"r{i}" for i in range(12)], "label": [i % K for i in range(12)]})


def source_table(n=40):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(K), n)
    return pa.table(
        {**{f"prob_{c}": probs[:, j] for j, c in enumerate("abc")}, "label": list("abca" * (n // 4))}
    )


def source_lists():
    with np.load(io.BytesIO(source_npz(n=40))) as file:
        return {"logits": file["logits"].tolist(), "labels": file["labels"].tolist()}


def packed_npz():
    held = np.load(io.BytesIO(source_npz(n=40)))
    out = io.BytesIO()
    np.savez_compressed(out, **held)
    return out.getvalue()


BODIES = {
    "predictions-parquet": ("predictions", PARQUET, lambda: parquet_bytes(rows_table())),
    "predictions-zstd": ("predictions", PARQUET, lambda: parquet_bytes(rows_table(), compression="zstd")),
    "predictions-arrow": ("predictions", ARROW, lambda: arrow_bytes(rows_table())),
    "predictions-gzip": ("predictions", "gzip", lambda: gzip.compress(json.dumps(rows_json(12)[0]).encode())),
    "predictions-json": ("predictions", JSON, lambda: json.dumps({"rows": rows_json(12)[0]}).encode()),
    "labels-json": ("labels", JSON, lambda: json.dumps({"labels": labels_table().to_pylist()}).encode()),
    "source-json": (SOURCE, JSON, lambda: json.dumps(source_lists()).encode()),
    "labels-parquet": ("labels", PARQUET, lambda: parquet_bytes(labels_table())),
    "labels-arrow": ("labels", ARROW, lambda: arrow_bytes(labels_table())),
    "source-parquet": (SOURCE, PARQUET, lambda: parquet_bytes(source_table())),
    "source-arrow": (SOURCE, ARROW, lambda: arrow_bytes(source_table())),
    "source-npz": (SOURCE, NPZ, lambda: source_npz(n=40)),
    "source-npz-packed": (SOURCE, NPZ, packed_npz),
}


@pytest.mark.extended
@pytest.mark.parametrize("name", BODIES)
def test_flipped_bits(server, name):
    """One bit of the body flipped, anywhere; a change that still makes sense may be accepted."""
    call, kind, make = BODIES[name]
    body, rng = make(), random.Random(name)
    method = "PUT" if call == SOURCE else "POST"
    headers = {"Content-Type": kind}
    if kind == "gzip":
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    model = name  # each body has its own model, made here from an intact source
    made = server.send("PUT", f"/v1/models/{model}/settings", b"{}", **{"Content-Type": "application/json"})
    assert made[0] == 200, made
    status, text = server.send(method, f"/v1/models/{model}/{call}", body, **headers)
    assert status in (200, 202), text
    refused = 0
    for _ in range(DAMAGED):
        at, bit = rng.randrange(len(body)), rng.randrange(8)
        damaged = bytearray(body)
        damaged[at] ^= 1 << bit
        try:
            status, text = server.send(method, f"/v1/models/{model}/{call}", bytes(damaged), **headers)
        except OSError as problem:
            pytest.fail(f"bit {bit} of byte {at}: {problem}; {server.process.poll()}; {server.said()}")
        assert 200 <= status < 500, (at, bit, text, server.said())
        refused += status >= 400
    assert refused
    assert server.process.poll() is None
    assert server.send("GET", "/healthz")[0] == 200


def test_a_time_zone_that_is_not_text(server):
    server.send("PUT", "/v1/models/zone/settings", b"{}", **{"Content-Type": "application/json"})
    body = arrow_bytes(rows_table())
    assert b"UTC" in body
    for damaged in (body.replace(b"UTC", b"\xbdTC"), body.replace(b"country", b"\xbdountry")):
        status, text = server.send("POST", "/v1/models/zone/predictions", damaged, **{"Content-Type": ARROW})
        assert status == 400, text


def test_too_many_connections_are_refused(server):
    """Connections that send nothing fill the server up; once they are gone it answers again."""
    host = ("127.0.0.1", int(server.url.rpartition(":")[2]))
    idle = [socket.create_connection(host, timeout=60) for _ in range(500)]
    try:
        assert server.send("GET", "/healthz")[0] == 503
    finally:
        for one in idle:
            one.close()
    until = time.monotonic() + 60
    while server.send("GET", "/healthz")[0] != 200:
        assert time.monotonic() < until
        time.sleep(0.05)
