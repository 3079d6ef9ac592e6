"""Servers, workers and clients that are quick to start, because they are killed all the time.

One process imports everything once, then forks: a child is up in a moment instead of seconds. Reads
commands as lines of JSON, `["server", {...}]`, and answers each with the number of the process that now does it.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class ForkServer:
    """The parent of processes that are to be killed."""

    def __init__(self, log):
        path = os.pathsep.join([str(ROOT / "src"), str(Path(__file__).parent)])
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def start(self, kind, **words):
        self.process.stdin.write(json.dumps([kind, words]) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    @staticmethod
    def kill(number):
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            return
        while Path(f"/proc/{number}").exists():
            time.sleep(0.002)

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


def server(data, database, port):
    from shiftgauge.monitor.run.serve import serve

    serve(data, database, port=port, workers=0)


def worker(data, database):
    from shiftgauge.monitor.run.serve import run_worker

    run_worker(data, database)


def client(url, spool, parts, accepted, go, rounds):
    """Log every part that was not yet accepted, as fast as the rounds go by; then wait until all is sent."""
    import shiftgauge as sg

    todo = pickle.loads(Path(parts).read_bytes())
    done = Path(accepted)
    begin = len(done.read_text().split()) if done.exists() else 0
    with (
        sg.Monitor(url, model="m", version="v1", spool=spool, every=0.02) as monitor,
        done.open("a", buffering=1) as seen_ids,
    ):
        for i, part in list(enumerate(todo))[begin:]:
            while os.path.getsize(go) * len(todo) < i * rounds:
                time.sleep(0.01)
            monitor.log(logits=part["logits"], ids=part["ids"], times=part["times"])
            monitor.log_labels(part["ids"], part["labels"])
            seen_ids.write(f"{i}\n")
        while not monitor.flush(1.0):
            pass
        seen_ids.write(f"refused-{monitor.refused}\n")


def main(log):
    import uvicorn  # noqa: F401

    import shiftgauge.monitor.run.app
    import shiftgauge.monitor.run.serve
    import shiftgauge.monitor.run.worker  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children that end leave nothing behind
    for line in sys.stdin:
        kind, words = json.loads(line)
        number = os.fork()
        if number == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            for stream in (0, 1, 2):
                os.dup2(out, stream)
            try:
                {"server": server, "worker": worker, "client": client}[kind](**words)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
