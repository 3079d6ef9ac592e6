"""Dask as an engine: workers read their parts by themselves; steps are sent to them, and sums come back.

Nothing is scattered, since scattered data is lost with its worker. A part that is lost with a worker is sent again.
Sums are made by the driver, in the order of the parts, so that no answer depends on which worker was first.
"""

from __future__ import annotations

import contextlib
import pickle
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from shiftgauge.engines.partitions import HEAD_ROWS, Partition
from shiftgauge.engines.serialization import deserialize, run_task, serialize
from shiftgauge.errors import InputError, MissingDependencyError, ShiftgaugeError, optional
from shiftgauge.io import Layout, ReadOptions, StreamPart, TablePart, table_layout
from shiftgauge.rows import Block, Part, Task, sum_in_order

#: How long a scheduler may take to answer, in seconds.
TIMEOUT_SECONDS = 8
#: How often a part is sent again after its workers died, beyond what the scheduler does by itself.
ATTEMPTS = 5
#: How many tasks of each worker thread are submitted ahead.
AHEAD = 8


@dataclass(frozen=True)
class Traffic:
    """Bytes of one pass: tasks and parts that were sent, results that were received."""

    sent: int = 0
    received: int = 0


class Dask:
    """Workers of a Dask cluster that can read the parts.

    Args:
        cluster: the scheduler's address (`"tcp://host:8786"`), a `distributed.Client`, or a cluster object.

    Attributes:
        traffic: the bytes of each pass, in order.
    """

    keeps_order = True

    def __init__(self, cluster: Any) -> None:
        self.client = connect(cluster)
        if self.client is not cluster:  # it is ours: its threads end with this engine
            weakref.finalize(self, _close, self.client)
        self.traffic: list[Traffic] = []

    def reduce(
        self, task: Task, parts: Sequence[Part], starts: Sequence[int], done: Callable[[int], None]
    ) -> Any:
        """Return the sum of the task's results in the order of the parts."""
        self.traffic.append(Traffic())
        return sum_in_order(map(deserialize, self._results(serialize(task), parts, starts)), parts, done)

    def _results(self, task: bytes, parts: Sequence[Part], starts: Sequence[int]) -> Iterator[bytes]:
        """Results in order; only as many parts are submitted ahead as keep the workers busy."""
        window = AHEAD * max(2, sum(self.client.nthreads().values()))
        waiting: deque[tuple[Any, Callable[[], Any]]] = deque()
        try:
            for part, start in zip(parts, starts, strict=True):
                submit = partial(self._submit, task, serialize(part), start)
                waiting.append((submit(), submit))
                if len(waiting) > window:
                    yield self._result(*waiting.popleft())
            while waiting:
                yield self._result(*waiting.popleft())
        finally:
            for future, _ in waiting:
                future.cancel()

    def _submit(self, task: bytes, part: bytes, start: int) -> Any:
        """Submit the part under a new key, so that a lost result is computed again."""
        self._count(sent=len(task) + len(part))
        return self.client.submit(
            run_serialized, task, part, start, key=f"shiftgauge-{uuid4().hex}", retries=2
        )

    def _result(self, future: Any, submit: Callable[[], Any]) -> bytes:
        data: bytes = result_of(self.client, future, submit)
        self._count(received=len(data))
        return data

    def _count(self, sent: int = 0, received: int = 0) -> None:
        now = self.traffic[-1]
        self.traffic[-1] = Traffic(now.sent + sent, now.received + received)


def _distributed() -> Any:
    return optional("distributed", extra="dask", purpose="scan: Dask")


def _close(client: Any) -> None:
    with contextlib.suppress(Exception):
        client.close(timeout=2)


def run_serialized(task: bytes, part: bytes, start: int) -> bytes:
    """Apply a task to a part, in the worker that reads it."""
    return run_task(task, pickle.loads(part), start)


def result_of(client: Any, future: Any, submit: Callable[[], Any]) -> Any:
    """A future's result; if it was lost with its worker, it is submitted again."""
    distributed = _distributed()
    for _ in range(ATTEMPTS):
        try:
            return future.result()
        except distributed.KilledWorker:
            future = submit()
        except (distributed.CancelledError, OSError) as problem:
            if isinstance(problem, OSError) and client.status == "running":
                raise
            raise InputError(
                "dask: the scheduler went away in the middle of a pass; start it and this again "
                "(with checkpoint= the passes that were finished are kept)"
            ) from None
        except ModuleNotFoundError as problem:
            raise MissingDependencyError(
                f"dask: a worker has no {problem.name}; install the same shiftgauge there as here"
            ) from None
    raise InputError(
        f"dask: workers died {ATTEMPTS} times over one part; do they have memory for it? try more, or smaller parts"
    )


def connect(cluster: Any) -> Any:
    """A client of the cluster; if no scheduler answers, one line within seconds."""
    distributed = _distributed()
    if isinstance(cluster, distributed.Client):
        return cluster
    try:
        return distributed.Client(cluster, timeout=TIMEOUT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as problem:
        why = (str(problem).strip().splitlines() or [type(problem).__name__])[0][:100].rstrip(".")
        raise InputError(
            f"dask: no scheduler answers at {cluster} within {TIMEOUT_SECONDS} seconds ({why}); "
            "wanted an address such as tcp://127.0.0.1:8786"
        ) from None


class DaskFrame:
    """The engine of a Dask DataFrame: a task is applied to each partition where Dask makes it.

    Args:
        frame: the Dask DataFrame.
        layout: what its columns hold.
        client: who computes; None for the threads of this process.
    """

    keeps_order = True

    def __init__(self, frame: Any, layout: Layout, client: Any = None) -> None:
        self.frame, self.layout, self.client = frame, layout, client

    def reduce(
        self, task: Task, parts: Sequence[Part], starts: Sequence[int], done: Callable[[int], None]
    ) -> Any:
        """Return the sum of the task's results in the order of the partitions."""
        partitions = self.frame[self.layout.columns_to_read(getattr(task, "columns", ()))].to_delayed()
        dask = optional("dask", extra="dask", purpose="scan: Dask")
        apply = dask.delayed(run_on_frame, pure=False)
        serialized = serialize(task)
        tasks = [
            apply(serialized, self.layout, part.name, part.rows, start, partitions[part.number])
            for part, start in zip(parts, starts, strict=True)
            if isinstance(part, DaskPartition)
        ]
        return sum_in_order(map(deserialize, self._results(dask, tasks)), parts, done)

    def _results(self, dask: Any, tasks: list[Any]) -> Iterator[bytes]:
        if self.client is None:
            for begin in range(0, len(tasks), AHEAD):
                yield from dask.compute(*tasks[begin : begin + AHEAD], scheduler="threads")
            return
        futures = self.client.compute(tasks, retries=2)
        for future, task in zip(futures, tasks, strict=True):
            yield result_of(self.client, future, partial(self.client.compute, task, retries=2))


def run_on_frame(task: bytes, layout: Layout, name: str, rows: int, start: int, frame: Any) -> bytes:
    """Apply a task to a partition, a pandas frame, in the worker that made it."""
    table = _table(frame)
    return run_task(task, StreamPart(layout, name, rows, lambda columns: [table]), start)


def _table(frame: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_pandas(frame, preserve_index=False)


class DaskPartition(Partition):
    """A partition of a Dask DataFrame."""

    def read(self, columns: Sequence[str] = ()) -> Iterator[Block]:
        """Yield its first rows, and then all others, if they are asked for, brought to this process."""
        piece = self.frame[self.layout.columns_to_read(columns)].partitions[self.number]
        head = piece.head(HEAD_ROWS, npartitions=1)
        yield from TablePart(self.layout, self.name, _table(head), 0).read(columns)
        if len(head) < self.rows:
            rest = _table(piece.compute().iloc[len(head) :])
            yield from TablePart(self.layout, self.name, rest, len(head)).read(columns)


def frame_parts(
    frame: Any, options: ReadOptions, second: str | None, zone: str | None, cluster: Any = None
) -> tuple[Layout, list[Part], DaskFrame]:
    """The layout, the partitions, counted once, and the engine of a Dask DataFrame."""
    import pyarrow as pa

    client = _default_client() if cluster is None else connect(cluster)
    schema = pa.Schema.from_pandas(frame._meta, preserve_index=False)
    layout = table_layout(tuple(schema.names), [schema], options, "the Dask frame", second, zone)
    try:
        lengths = frame.map_partitions(len, meta=("rows", "int64"))
        counts = lengths.compute() if client is None else client.compute(lengths).result()
    except ShiftgaugeError:
        raise
    except Exception as problem:
        text = (str(problem).strip().splitlines() or [type(problem).__name__])[0][:160].rstrip(".")
        raise InputError(f"the Dask frame: cannot be computed ({text})") from None
    parts: list[Part] = [DaskPartition(layout, frame, i, int(rows)) for i, rows in enumerate(counts)]
    return layout, parts, DaskFrame(frame, layout, client)


def _default_client() -> Any:
    """The client that is open in this process, or None."""
    try:
        return _distributed().default_client()
    except (ImportError, ValueError):
        return None
