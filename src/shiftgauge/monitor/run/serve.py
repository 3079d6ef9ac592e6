"""The service as processes: one that answers, and workers beside it that estimate."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn

from shiftgauge.errors import InputError
from shiftgauge.monitor.api.security import LOOPBACK, access
from shiftgauge.monitor.db.store import Store, open_store
from shiftgauge.monitor.db.tokens import any_tokens
from shiftgauge.monitor.ingest.bodies import RequestLimits
from shiftgauge.monitor.run.app import create_app
from shiftgauge.monitor.run.worker import Worker

log = logging.getLogger("shiftgauge.monitor")
#: Workers that a server starts give way to it.
WORKER_NICENESS = 10
#: Seconds that a thread of the server may keep others waiting: its loop, its committer and those who read bodies hand
#: over often. A tenth of Python's own takes a tenth more rows.
SWITCH_INTERVAL_SECONDS = 0.0005
#: More connections than this are answered with 503: each may hold a body of the largest size.
MOST_CONNECTIONS = 500


def serve(
    data: str | Path,
    database: str | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8123,
    workers: int = 1,
    limits: RequestLimits | None = None,
    started: Any = None,
) -> None:
    """Serve until stopped (SIGINT or SIGTERM); what was acknowledged is kept however it ends.

    Args:
        data: the folder of the SQLite database; with PostgreSQL nothing is kept there.
        database: `postgresql://...`, or None for SQLite in the folder.
        host, port: where to listen; port 0 takes a free one. Beyond loopback only with tokens.
        workers: processes that estimate; 0 where they run elsewhere (`shiftgauge monitor worker`).
        started: called with the address once it is served.
    """
    store = open_store(data, database)
    check_host(store, host)
    listener = listen(host, port)
    app = create_app(store, limits)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=10,
        limit_concurrency=MOST_CONNECTIONS,
    )
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    _log_to_stderr()
    try:
        with worker_processes(data, database, workers):
            if started is not None:
                name = f"[{host}]" if ":" in host else host
                started(f"http://{name}:{listener.getsockname()[1]}")
            uvicorn.Server(config).run([listener])
    finally:
        listener.close()
        store.close()


def _log_to_stderr() -> None:
    """Access and problems, a line each, unless the program around us has set up logging."""
    if not logging.getLogger().handlers:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
        access.setLevel(logging.INFO)


def check_host(store: Store, host: str) -> None:
    """Without tokens only this machine may call."""
    if f"[{host}]" not in LOOPBACK and host not in LOOPBACK and not any_tokens(store):
        raise InputError(
            f"--host {host}: without tokens the monitor is served on this machine only; "
            "make one first: shiftgauge monitor token create NAME --scope admin"
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; where it cannot, the error names the option for another port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, or asyncio leaves Nagle's algorithm on, and every answer waits 40 ms for the caller's ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as problem:
        listener.close()
        raise InputError(
            f"--port {port}: cannot be listened on at {host} ({problem.strerror}); try --port 0 for a free one"
        ) from None
    listener.listen(2048)
    return listener


@contextmanager
def worker_processes(data: str | Path, database: str | None, count: int) -> Iterator[None]:
    """Worker processes for as long as the block lasts; one that dies is replaced."""
    context = multiprocessing.get_context("spawn")
    stopping = threading.Event()

    def keep_running() -> None:
        while not stopping.is_set():
            begun = time.monotonic()
            process = context.Process(target=run_worker, args=(str(data), database, os.getpid()), daemon=True)
            process.start()
            while process.is_alive() and not stopping.is_set():
                process.join(0.2)
            if stopping.is_set():
                process.terminate()
                process.join(10)
                return
            log.warning("a worker ended with %s; starting another", process.exitcode)
            stopping.wait(max(0.0, 1.0 - (time.monotonic() - begun)))

    threads = [threading.Thread(target=keep_running, name=f"keeper-{i}", daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join(15)


def run_worker(data: str, database: str | None, parent: int | None = None) -> None:
    """Be a worker until SIGTERM or SIGINT, or until the process that started it is gone."""
    if parent is not None:
        with suppress(OSError):
            os.nice(WORKER_NICENESS)
    store = open_store(data, database)
    worker = Worker(store)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stopping.set())
    if parent is not None:
        threading.Thread(target=_stop_with_parent, args=(worker, parent), daemon=True).start()
    worker.run()
    store.close()


def run_worker_once(data: str | Path, database: str | None = None) -> int:
    """Do what is due, then stop; how many jobs that was."""
    store = open_store(data, database)
    done = Worker(store).drain()
    store.close()
    return done


def _stop_with_parent(worker: Any, parent: int) -> None:
    """A server that was killed leaves its workers behind: they stop by themselves."""
    while os.getppid() == parent:
        time.sleep(1.0)
    worker.stopping.set()
