"""Several readers of the same rows, one pass for all of them.

Methods are written as if each had the rows to itself: it folds, looks at the sum, folds again. Run `together`, they
go in step: a fold waits until every other reader waits for one too, and then a single pass serves them all. What
two readers both need is computed by the first that asks (`Memo`), while the other waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from shiftgauge._threads import check_stopped, stopped_by, stops

T = TypeVar("T")

#: One lock for all: readers spend their time in passes, not here.
_TURN = threading.Condition(threading.Lock())
_here = threading.local()


class _Request:
    """A fold that waits for its pass: whose it is, what is to be done, and what came of it."""

    def __init__(self, place: tuple[int, ...], step: Any) -> None:
        self.place, self.step = place, step
        self.value: Any = None
        self.problem: BaseException | None = None
        self.done = False


class Lockstep:
    """Readers that share passes.

    Args:
        run: makes one pass for several steps and returns a result for each.
    """

    def __init__(self, run: Callable[[list[Any]], Sequence[Any]]) -> None:
        self._run = run
        self._live = 0
        self._asked: list[_Request] = []

    def fold(self, step: Any) -> Any:
        """Wait for the next pass, and return what it made of the step."""
        request = _Request(_here.place, step)
        with _TURN:
            self._asked.append(request)
            self._consider()
            while not request.done:
                check_stopped()
                _TURN.wait()
        if request.problem is not None:
            raise request.problem
        return request.value

    def leave(self) -> None:
        """One reader fewer: it has ended, or waits for something that another one computes."""
        self._live -= 1
        self._consider()

    def join(self, readers: int = 1) -> None:
        """So many readers more."""
        self._live += readers

    def _consider(self) -> None:
        """Make the pass if everybody waits for it; the lock is held before and after, not meanwhile."""
        if not self._asked or len(self._asked) < self._live:
            return
        asked, self._asked = sorted(self._asked, key=lambda r: r.place), []
        _TURN.release()
        try:
            values, problem = self._run([r.step for r in asked]), None
        except BaseException as failed:
            values, problem = [None] * len(asked), failed
        finally:
            _TURN.acquire()
        for request, value in zip(asked, values, strict=True):
            request.value, request.problem, request.done = value, problem, True
        _TURN.notify_all()


def reader() -> Lockstep | None:
    """The lockstep that this thread reads in, if any."""
    found: Lockstep | None = getattr(_here, "lockstep", None)
    return found


def together(run: Callable[[list[Any]], Sequence[Any]], tasks: Sequence[Callable[[], T]]) -> list[T]:
    """The results of all tasks; whatever they fold through `reader()` shares passes.

    A task may itself run others together: they join the same passes. The first error, in the order of the tasks,
    is raised when all have ended. An interrupt is raised at once, and stops the tasks at their next block of rows.
    """
    outer = reader()
    lockstep = outer or Lockstep(run)
    place: tuple[int, ...] = getattr(_here, "place", ())
    results: list[Any] = [None] * len(tasks)
    problems: list[BaseException | None] = [None] * len(tasks)

    stop = threading.Event()
    events = (*stops(), stop)

    def work(i: int) -> None:
        stopped_by(events)
        _here.lockstep, _here.place = lockstep, (*place, i)
        try:
            results[i] = tasks[i]()
        except BaseException as problem:
            problems[i] = problem
        with _TURN:
            lockstep.leave()

    with _TURN:
        lockstep.join(len(tasks))
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(tasks))]
    try:
        for thread in threads:
            thread.start()
        if outer is not None:
            with _TURN:
                outer.leave()
        for thread in threads:
            thread.join()
    except BaseException:
        stop.set()
        with _TURN:
            _TURN.notify_all()
        raise
    if outer is not None:
        with _TURN:
            outer.join()
    for problem in problems:
        if problem is not None:
            raise problem
    return results


class _Entry:
    """A value that somebody computes, and the readers that wait for it."""

    def __init__(self) -> None:
        self.value: Any = None
        self.problem: BaseException | None = None
        self.done = False
        self.asleep: list[Lockstep] = []


class Memo:
    """Values by key, each computed once, whoever asks first.

    >>> memo = Memo()
    >>> memo.get("one", lambda: 1), memo.get("one", lambda: 2)
    (1, 1)
    """

    def __init__(self) -> None:
        self._held: dict[Hashable, _Entry] = {}

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What `compute` returned the first time that the key was asked for; a failure is not kept."""
        entry = self._held.get(key)
        if entry is not None and entry.done and entry.problem is None:
            held: T = entry.value
            return held
        with _TURN:
            entry = self._held.get(key)
            mine = entry is None or (entry.done and entry.problem is not None)
            if mine:
                entry = self._held[key] = _Entry()
            else:
                assert entry is not None
                self._await(entry)
        assert entry is not None
        if mine:
            self._compute(entry, compute)
        if entry.problem is not None:
            raise entry.problem
        found: T = entry.value
        return found

    @staticmethod
    def _await(entry: _Entry) -> None:
        lockstep = reader()
        if lockstep is not None and not entry.done:
            entry.asleep.append(lockstep)
            lockstep.leave()
        while not entry.done:
            check_stopped()
            _TURN.wait()

    @staticmethod
    def _compute(entry: _Entry, compute: Callable[[], Any]) -> None:
        try:
            entry.value = compute()
        except BaseException as problem:
            entry.problem = problem
        with _TURN:
            entry.done = True
            # They are counted again before anybody goes on, so that no pass leaves without them.
            for lockstep in entry.asleep:
                lockstep.join()
            _TURN.notify_all()
