"""The driver: runs coroutines side by side and answers all their requests of one round with one pass.

This is not asyncio. A coroutine awaits a `Request`; the driver resumes every coroutine that can go on, and when all of
them wait for folds it makes one pass over the smallest rows that anybody waits for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from shiftgauge.errors import ShiftgaugeError

if TYPE_CHECKING:
    from shiftgauge.rows.rows import Rows

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Request(Generic[T]):
    """Something to wait for: `await request` returns a T.

    A fold is `finish` of the sum of `step(block, *args)` over all blocks of the rows. With a key it is the result of
    the coroutine `step(*args)`, computed once for everybody who asks for the same key of the same rows. Without rows
    it is the list of results of several awaitables, `args`.
    """

    rows: Rows | None
    step: Callable[..., Any]
    args: tuple[Any, ...] = ()
    finish: Callable[[Any], T] | None = None
    key: Hashable = None
    columns: tuple[str, ...] = ()

    def __await__(self) -> Generator[Any, Any, T]:
        # The answer comes in a list, so that only the coroutine refers to it: it may be many rows.
        answer: list[T] = yield self
        return answer.pop()


def gather(*tasks: Awaitable[Any]) -> Request[list[Any]]:
    """Wait for several coroutines or requests, which share passes, and return their results as a list."""
    return Request(None, list, tasks)


def run(task: Awaitable[T]) -> T:
    """Return what a coroutine or a request comes to, making passes as they are needed.

    >>> async def answer():
    ...     return 42
    >>> run(answer())
    42
    """
    driver = _Driver()
    root = driver.task_for(task)
    try:
        while not root.done:
            driver.advance()
    finally:
        driver.close()
    result: T = root.result
    return result


@dataclass(eq=False)
class _Task:
    """A result to come: of a coroutine, which waits for other tasks, or of a fold, which waits for its pass."""

    coroutine: Any = None
    fold: Request[Any] | None = None
    needs: list[_Task] = field(default_factory=list)
    as_list: bool = False
    done: bool = False
    result: Any = None

    def finish(self, result: Any) -> None:
        self.done, self.result = True, result


async def _remember(request: Request[Any]) -> Any:
    """A shared computation; its result is kept with the rows, a failure is not."""
    assert request.rows is not None
    value = request.rows.results[request.key] = await request.step(*request.args)
    return value


class _Driver:
    """The tasks that are not finished, and shared computations by rows and key."""

    def __init__(self) -> None:
        self.open: list[_Task] = []
        self.shared: dict[tuple[int, Hashable], _Task] = {}

    def task_for(self, asked: Any) -> _Task:
        """The task whose result answers what was asked for."""
        if not isinstance(asked, Request):
            return self._start(_Task(coroutine=asked))
        if asked.rows is None:
            task = _Task(needs=[self.task_for(each) for each in asked.args], as_list=True)
            return self._start(task)
        if asked.key is None:
            return self._start(_Task(fold=asked))
        known = asked.rows.results
        if asked.key in known:
            return _Task(done=True, result=known[asked.key])
        place = (id(asked.rows), asked.key)
        if place not in self.shared:
            self.shared[place] = self._start(_Task(coroutine=_remember(asked)))
        return self.shared[place]

    def _start(self, task: _Task) -> _Task:
        self.open.append(task)
        return task

    def advance(self) -> None:
        """Resume every coroutine that can go on; if none can, make a pass."""
        ready = [t for t in self.open if t.fold is None and all(need.done for need in t.needs)]
        for task in ready:
            self._resume(task)
        if not ready:
            self._make_pass([t for t in self.open if t.fold is not None])
        self.open = [t for t in self.open if not t.done]

    def _resume(self, task: _Task) -> None:
        """Hand a coroutine what it waited for, and take its next request."""
        answers = [need.result for need in task.needs]
        task.needs = []
        if task.coroutine is None:
            task.finish(answers)
            return
        if not hasattr(task.coroutine, "send"):
            task.coroutine = task.coroutine.__await__()
        try:
            asked = task.coroutine.send(answers or None)
        except StopIteration as end:
            task.finish(end.value)
            return
        if not isinstance(asked, Request):
            raise ShiftgaugeError(
                f"a method awaited a {type(asked).__name__}; wanted a request of its rows (await target.mean(...))"
            )
        task.needs = [self.task_for(asked)]

    def _make_pass(self, folds: list[_Task]) -> None:
        """Read the smallest rows that anybody waits for, so that a pass over the largest serves everybody."""
        if not folds:
            raise ShiftgaugeError("the methods wait for each other; a shared request needs its own result")
        rows = min((_rows_of(task) for task in folds), key=lambda rows: (not rows.in_memory, rows.n * rows.k))
        waiting = [task for task in folds if _rows_of(task) is rows]
        totals = rows.make_pass([task.fold for task in waiting if task.fold is not None])
        for task, total in zip(waiting, totals, strict=True):
            assert task.fold is not None
            task.finish(total if task.fold.finish is None else task.fold.finish(total))

    def close(self) -> None:
        """Close coroutines that an error left unfinished, so that Python does not complain about them."""
        for task in self.open:
            if hasattr(task.coroutine, "close"):
                task.coroutine.close()


def _rows_of(task: _Task) -> Rows:
    assert task.fold is not None
    assert task.fold.rows is not None
    return task.fold.rows
