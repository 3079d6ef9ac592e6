"""The worker: claims jobs as they fall due, renews their leases, and retries failed ones later."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import update

from shiftgauge.monitor.alerts.delivery import deliver
from shiftgauge.monitor.alerts.evaluate import evaluate_alerts
from shiftgauge.monitor.db import queue
from shiftgauge.monitor.db.erasure import erase_by_age, finish_erasure
from shiftgauge.monitor.db.ids import LatestLabels
from shiftgauge.monitor.db.queue import LEASE, Job, LostLease
from shiftgauge.monitor.db.rows import compact
from shiftgauge.monitor.db.schema import windows
from shiftgauge.monitor.db.store import Store
from shiftgauge.monitor.estimate.windows import estimate_window, update_labels
from shiftgauge.monitor.periods import SECOND
from shiftgauge.monitor.problems import ApiProblem

log = logging.getLogger("shiftgauge.monitor")
#: How long an idle worker waits before it looks again, in seconds.
PAUSE = 0.5


class Worker:
    """One worker; several may share a database. That of a replay works in the past (see `queue.claim`)."""

    def __init__(self, store: Store, replaying: bool = False) -> None:
        self.store, self.replaying = store, replaying
        self.name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.labels: dict[int, LatestLabels] = {}
        self.stopping = threading.Event()

    def run(self) -> None:
        """Work until `stopping` is set; a lost database is waited for."""
        while not self.stopping.is_set():
            try:
                idle = not self.step()
            except ApiProblem as problem:  # the database is away, or its disk full
                log.warning("%s", problem)
                idle = True
            if idle:
                self.stopping.wait(PAUSE)

    def drain(self) -> int:
        """Work until nothing is due; how many jobs were done."""
        done = 0
        while self.step():
            done += 1
        return done

    def step(self) -> bool:
        """Do one job; False where none is due."""
        job = queue.claim(self.store, self.name, self.replaying)
        if job is None:
            return False
        with self._lease(job):
            try:
                self._do(job)
            except LostLease:
                log.warning("another worker has taken over %s %s", job.kind, job.subject)
            except ApiProblem:
                queue.retry_later(self.store, job, "the store was not available")
                raise
            except Exception as problem:
                log.exception("%s %s failed", job.kind, job.subject)
                self._failed(job, f"{type(problem).__name__}: {problem}")
        return True

    def _do(self, job: Job) -> None:
        if job.kind == "estimate":
            estimate_window(self.store, job, self.labels)
        elif job.kind == "labels":
            update_labels(self.store, job, self.labels)
        else:
            JOBS[job.kind](self.store, job)

    def _failed(self, job: Job, problem: str) -> None:
        queue.retry_later(self.store, job, problem)
        if job.kind == "estimate":
            with self.store.write() as connection:
                which = (windows.c.id == job.subject) & (windows.c.state != "estimated")
                values = {"state": "failed", "reason": f"internal error, tried again: {problem}"[:500]}
                connection.execute(update(windows).where(which).values(**values))

    @contextmanager
    def _lease(self, job: Job) -> Iterator[None]:
        """Keep the lease alive while the job is under way."""
        done = threading.Event()

        def beat() -> None:
            while not done.wait(LEASE / SECOND / 4):
                try:
                    queue.renew(self.store, job)
                except Exception:  # the job itself will meet the same database, and say so
                    log.debug("the lease of job %s could not be renewed", job.id, exc_info=True)

        thread = threading.Thread(target=beat, name=f"lease-{job.id}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


#: Kinds of jobs beside those on windows.
JOBS = {
    "alerts": evaluate_alerts,
    "deliver": deliver,
    "compact": compact,
    "erase": erase_by_age,
    "scrub": finish_erasure,
}
