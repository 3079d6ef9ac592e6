"""Load on the monitor: rows of 10 classes, acknowledged when durable, while windows are being estimated.

    python benchmarks/monitor.py [--quick] [--rows N] [--stored N] [--database URL] [--mlflow PYTHON|none]

Beside it, in the same run, what MLflow's tracking server takes: each row is one metric there, one number instead of
ten, sent by `log-batch` in batches of 1,000, its largest. MLflow is installed into `.venvs/mlflow` the first time (its
pins do not go with ours), unless `--mlflow` names the Python of an environment that has it; `--mlflow none` leaves it
out. Prints rows per second, p50 and p99 of a request, and the ratio.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pyarrow as pa

import shiftgauge as sg
from shiftgauge.monitor.periods import DAY, iso
from shiftgauge.monitor.tables import source_npz

K, BATCH = 10, 1000
ARROW = "application/vnd.apache.arrow.stream"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Served:
    """A monitor in processes of its own, with one worker."""

    def __init__(self, folder, database, workers=1):
        self.port = free_port()
        self.log = open(Path(folder) / "log", "ab")  # noqa: SIM115 (closed in stop)
        words = [
            "monitor",
            "--store",
            str(Path(folder) / "data"),
            "--port",
            str(self.port),
            "--workers",
            str(workers),
        ]
        words += ["--database", database] if database else []
        code = "from shiftgauge.cli import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *words], stdout=self.log, stderr=self.log, start_new_session=True
        )
        wait(f"http://127.0.0.1:{self.port}/readyz")

    def cpu(self):
        """Seconds of processor time of the process that answers: a number that a busy machine does not change much."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """Megabytes of the process that answers: now, and at most."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return [int(line.split()[1]) // 1024 for line in lines if line.startswith(("VmRSS", "VmHWM"))][::-1]

    def stop(self):
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(30)
        self.log.close()


def wait(url, seconds=120):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit(f"{url} did not come up")


def arrow_body(number, probs, start):
    """1,000 rows with ids never seen before."""
    ids = pa.array([f"row-{number:08d}-{i:04d}" for i in range(BATCH)])
    times = pa.array(start + np.arange(BATCH) * 1000).cast(pa.timestamp("us", tz="UTC"))
    table = pa.table(
        {
            "id": ids,
            "time": times,
            "version": pa.array(["v1"] * BATCH).dictionary_encode(),
            "probs": pa.FixedSizeListArray.from_arrays(pa.array(probs.reshape(-1)), K),
        }
    )
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue().to_pybytes()


def json_body(number, probs, start):
    rows = [
        {"id": f"json-{number:08d}-{i:04d}", "time": iso(start + i * 1000), "version": "v1", "probs": p}
        for i, p in enumerate(probs.tolist())
    ]
    return json.dumps({"rows": rows}).encode()


def fire(port, path, kind, bodies, rate, threads):
    """Send bodies at a rate (requests per second; None: as fast as answers come); latencies in seconds."""
    spent, lock, position, failed = [], threading.Lock(), [0], []
    begun = time.perf_counter()

    def run():
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        while True:
            with lock:
                i = position[0]
                position[0] += 1
            if i >= len(bodies):
                return connection.close()
            due = begun + i / rate if rate else 0.0
            if (pause := due - time.perf_counter()) > 0:
                time.sleep(pause)
            sent = time.perf_counter()
            connection.request("POST", path, bodies[i], {"content-type": kind})
            answer = connection.getresponse()
            said = answer.read()
            # Counted from when it was due: a server that falls behind cannot hide it (coordinated omission).
            spent.append(time.perf_counter() - (due if rate else sent))
            if answer.status >= 300:
                failed.append(said[:200])

    workers = [threading.Thread(target=run) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise SystemExit(f"{len(failed)} requests failed: {failed[0]}")
    return time.perf_counter() - begun, np.array(spent)


def report(what, rows, seconds, spent):
    p50, p99 = np.percentile(1000 * spent, [50, 99])
    print(f"{what:<34}{rows / seconds:>12,.0f} rows/s   p50 {p50:6.1f} ms   p99 {p99:7.1f} ms", flush=True)
    return rows / seconds


def mlflow_python(asked):
    """The Python of an environment with MLflow, made where there is none; None where that fails or none is wanted."""
    if asked == "none":
        return None
    folder = Path(".venvs/mlflow")
    python = asked or str((folder / "bin" / "python").absolute())
    if not asked and not Path(python).exists():
        print("installing MLflow into .venvs/mlflow, once", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "mlflow"]
        subprocess.run(install, capture_output=True, check=False)
    if subprocess.run([python, "-c", "import mlflow.server"], capture_output=True, check=False).returncode:
        print(f"no MLflow in {python}: nothing to compare with; pass --mlflow PYTHON")
        return None
    return python


def mlflow_rate(python, rows):
    """Rows per second of MLflow's server for one metric per row, in batches of 1,000."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/log", "wb") as log:
        words = [
            "--backend-store-uri",
            f"sqlite:///{folder}/mlflow.db",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        process = subprocess.Popen(
            [python, "-m", "mlflow", "server", *words, "--workers", "2"],
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=folder,
        )
        try:
            wait(f"http://127.0.0.1:{port}/health")
            base = f"http://127.0.0.1:{port}/api/2.0/mlflow"
            made = urllib.request.Request(
                f"{base}/runs/create", b'{"experiment_id": "0"}', {"content-type": "application/json"}
            )
            run = json.loads(urllib.request.urlopen(made).read())["run"]["info"]["run_id"]
            bodies = [
                json.dumps(
                    {
                        "run_id": run,
                        "metrics": [
                            {"key": "p", "value": 0.5, "timestamp": 1, "step": number * BATCH + i}
                            for i in range(BATCH)
                        ],
                    }
                ).encode()
                for number in range(rows // BATCH)
            ]
            path = "/api/2.0/mlflow/runs/log-batch"
            seconds, spent = fire(port, path, "application/json", bodies, None, 4)
            return report("MLflow server, 1 number a row", rows, seconds, spent)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=2_000_000, help="through Arrow")
    parser.add_argument("--stored", type=int, default=10_000_000, help="rows stored when the pages are timed")
    parser.add_argument("--database", default=None)
    parser.add_argument("--mlflow", default=None, help="the Python of an environment with MLflow, or none")
    asked = parser.parse_args()
    opponent = mlflow_python(asked.mlflow)
    rows = 100_000 if asked.quick else asked.rows
    stored = 200_000 if asked.quick else asked.stored
    rng = np.random.default_rng(0)
    pool = rng.dirichlet(np.ones(K) * 0.3, BATCH * 16).astype(np.float32).reshape(16, BATCH, K)
    demo = sg.demo_data().source
    now = int(time.time() * 1e6) // DAY * DAY
    with tempfile.TemporaryDirectory(dir=".") as folder:
        served = Served(folder, asked.database)
        base = f"http://127.0.0.1:{served.port}/v1/models/load"
        try:
            body = source_npz(demo)
            put = urllib.request.Request(
                f"{base}/versions/v1/source", body, {"content-type": "application/x-npz"}, method="PUT"
            )
            urllib.request.urlopen(put, timeout=60).close()
            settings = urllib.request.Request(
                f"{base}/settings",
                b'{"window": "hour", "lateness_minutes": 0}',
                {"content-type": "application/json"},
                method="PUT",
            )
            urllib.request.urlopen(settings, timeout=60).close()
            path = "/v1/models/load/predictions"
            # Every window is long past, so each is estimated while rows go on arriving.
            starts = [now - (2 + i % 240) * DAY // 24 for i in range(10**6 // BATCH + 1)]
            warm = [arrow_body(10**7 + i, pool[i % 16], starts[i]) for i in range(10)]
            fire(served.port, path, ARROW, warm, None, 2)
            print(f"{rows:,} rows of {K} classes in batches of {BATCH:,}, one worker estimating meanwhile:")
            parts, total = max(1, rows // 500_000), 0.0
            spent, number = [], 0
            busy = served.cpu()
            for _ in range(parts):  # bodies are made outside the clock, a part at a time
                bodies = [
                    arrow_body(number + i, pool[i % 16], starts[(number + i) // 20 % 240])
                    for i in range(rows // parts // BATCH)
                ]
                number += len(bodies)
                seconds, some = fire(served.port, path, ARROW, bodies, None, 4)
                total += seconds
                spent.append(some)
            ours = report("monitor, Arrow, as fast as it goes", number * BATCH, total, np.concatenate(spent))
            busy = served.cpu() - busy
            print(
                f"  {busy / (number * BATCH) * 1e6:.1f} s of processor time per million rows in the server: "
                f"{number * BATCH / busy:,.0f} rows/s a core"
            )
            bodies = [
                arrow_body(2 * 10**6 + i, pool[i % 16], starts[i]) for i in range(min(1000, rows // BATCH))
            ]
            seconds, some = fire(served.port, path, ARROW, bodies, 100.0, 8)
            report("monitor, Arrow, at 100,000 rows/s", len(bodies) * BATCH, seconds, some)
            count = 100 if asked.quick else 300
            bodies = [json_body(i, pool[i % 16], starts[i]) for i in range(count)]
            busy = served.cpu()
            seconds, some = fire(served.port, path, "application/json", bodies, None, 4)
            busy = served.cpu() - busy
            report("monitor, JSON, as fast as it goes", count * BATCH, seconds, some)
            print(
                f"  {busy / (count * BATCH) * 1e6:.1f} s of processor time per million rows in the server: "
                f"{count * BATCH / busy:,.0f} rows/s a core"
            )
            bodies = [json_body(10**6 + i, pool[i % 16], starts[i]) for i in range(count // 2)]
            seconds, some = fire(served.port, path, "application/json", bodies, 10.0, 4)
            report("monitor, JSON, at 10,000 rows/s", len(bodies) * BATCH, seconds, some)
            held = number + 10 + min(1000, rows // BATCH) + count + count // 2
            while held * BATCH < stored:
                fill = [arrow_body(3 * 10**6 + held + i, pool[i % 16], starts[i % 240]) for i in range(500)]
                fire(served.port, path, ARROW, fill, None, 4)
                held += len(fill)
            print(f"with {held * BATCH:,} rows stored:")
            now, most = served.memory()
            print(f"  {now:,} MB in the memory of the server, {most:,} at most")
            if asked.database is None:
                size = sum(file.stat().st_size for file in (Path(folder) / "data").iterdir())
                print(f"  {size / held / BATCH:.0f} bytes per row on the disk")
            for name, call in (
                ("the model's page", "/models/load"),
                ("its windows", "/v1/models/load/windows"),
            ):
                times = []
                for _ in range(20):
                    begun = time.perf_counter()
                    with urllib.request.urlopen(
                        f"http://127.0.0.1:{served.port}{call}", timeout=60
                    ) as answer:
                        answer.read()
                    times.append(time.perf_counter() - begun)
                worst = 1000 * max(times)
                print(f"  {name:<20} median {1000 * np.median(times):6.1f} ms, slowest of 20 {worst:6.1f} ms")
        finally:
            served.stop()
    if opponent:
        theirs = mlflow_rate(opponent, 20_000 if asked.quick else 100_000)
        print(f"ratio: {ours / theirs:.1f} times the rows per second of MLflow's server")


if __name__ == "__main__":
    main()
