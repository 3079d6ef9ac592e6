"""The committer: one thread that gathers waiting requests and commits them together.

One durable write serves all who wait for it, so the disk sets the pace of transactions, not of requests.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from queue import Empty, Queue
from typing import Any

from shiftgauge.monitor.ingest.book import Book, LabelBook
from shiftgauge.monitor.ingest.commit import Request, commit
from shiftgauge.monitor.problems import Problem
from shiftgauge.monitor.store import Store

#: At most so many requests in one transaction, and so many waiting; beyond that callers are told to wait.
TOGETHER, WAITING = 64, 1000
Answer = Future[dict[str, Any]]


class Committer:
    """Commits requests in the order they come."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.books: dict[str, tuple[Book, LabelBook]] = {}
        self._queue: Queue[tuple[Request, Answer] | None] = Queue(WAITING)
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> Answer:
        """The response, once the request is durable."""
        answer: Answer = Future()
        if self._queue.full():
            raise Problem(503, "busy", "too many requests are waiting; try again in a second")
        self._queue.put((request, answer))
        return answer

    @property
    def alive(self) -> bool:
        """Whether requests are still being committed."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Commit what waits, then stop."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            group, last = [first], False
            while len(group) < TOGETHER:
                try:
                    more = self._queue.get_nowait()
                except Empty:
                    break
                if more is None:
                    last = True
                    break
                group.append(more)
            self._commit(group)
            if last:
                return

    def _commit(self, group: list[tuple[Request, Answer]]) -> None:
        try:
            results = commit(self.store, self.books, [request for request, _ in group])
        except Exception as problem:
            if len(group) > 1 and not isinstance(problem, Problem):
                for one in group:  # whoever cannot be committed shall not take the others along
                    self._commit([one])
                return
            results = [problem] * len(group)
        for (_, answer), result in zip(group, results, strict=True):
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)
