"""Dask as an engine: workers load their parts by themselves; steps go out and sums come home as plain arguments.

Nothing is scattered, since what is scattered dies with its worker. A part that was lost with one is worked on again by
another. Sums are made here, in the order of the parts, so that no answer depends on which worker was first.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

from shiftgauge.errors import InputError, MissingDependencyError, ShiftgaugeError
from shiftgauge.io.form import Form
from shiftgauge.scale.layout import Layout, table_layout
from shiftgauge.scale.travel import HEAD, Handed, Partition, carried, landed, packed
from shiftgauge.scans import Chunk, Part, Task, summed

#: How long an address may take to answer, in seconds.
PATIENCE = 8
#: How often a part is given out again after it was lost with its workers, beyond what the scheduler does by itself.
TRIES = 5


@dataclass(frozen=True)
class Traffic:
    """Bytes of one pass: steps and parts that went out, results that came home."""

    sent: int = 0
    received: int = 0


class Dask:
    """Workers of a Dask cluster that can read the parts.

    Args:
        cluster: the scheduler's address (`"tcp://host:8786"`), a `distributed.Client`, or a cluster object.

    Attributes:
        traffic: the bytes of each pass, in order.
    """

    def __init__(self, cluster: Any) -> None:
        self.client = connect(cluster)
        if self.client is not cluster:  # it is ours: no thread of it outlives this engine
            weakref.finalize(self, _close, self.client)
        self.traffic: list[Traffic] = []

    def reduce(
        self, task: Task, parts: Sequence[Part], starts: Sequence[int], done: Callable[[int], None]
    ) -> Any:
        """The sum of the task's results in the order of the parts."""
        self.traffic.append(Traffic())
        return summed(map(landed, self._results(packed(task), parts, starts)), parts, done)

    def _results(self, job: bytes, parts: Sequence[Part], starts: Sequence[int]) -> Iterator[bytes]:
        """Results in order; only so many parts are given out ahead as keep the workers busy."""
        window = 8 * max(2, sum(self.client.nthreads().values()))
        waiting: deque[tuple[Any, Callable[[], Any]]] = deque()
        try:
            for part, start in zip(parts, starts, strict=True):
                give = self._giver(job, part, start)
                waiting.append((give(), give))
                if len(waiting) > window:
                    yield self._await(*waiting.popleft())
            while waiting:
                yield self._await(*waiting.popleft())
        finally:
            for future, _ in waiting:
                future.cancel()

    def _giver(self, job: bytes, part: Part, start: int) -> Callable[[], Any]:
        """Gives the part out, under a name of its own each time."""
        cargo = packed(part)

        def give() -> Any:
            self._count(sent=len(job) + len(cargo))
            return self.client.submit(work, job, cargo, start, key=f"shiftgauge-{uuid4().hex}", retries=2)

        return give

    def _await(self, future: Any, give: Callable[[], Any]) -> bytes:
        found: bytes = awaited(self.client, future, give)
        self._count(received=len(found))
        return found

    def _count(self, sent: int = 0, received: int = 0) -> None:
        now = self.traffic[-1]
        self.traffic[-1] = Traffic(now.sent + sent, now.received + received)


def _close(client: Any) -> None:
    with contextlib.suppress(Exception):
        client.close(timeout=2)


def work(job: bytes, part: bytes, start: int) -> bytes:
    """Do a task to a part, where the part is read."""
    import pickle

    return carried(job, pickle.loads(part), start)


def awaited(client: Any, future: Any, give: Callable[[], Any]) -> Any:
    """A future's result; what was lost with its worker is given out again."""
    from distributed import CancelledError, KilledWorker

    for _ in range(TRIES):
        try:
            return future.result()
        except KilledWorker:
            future = give()
        except (CancelledError, OSError) as problem:
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
        f"dask: workers died {TRIES} times over one part; do they have memory for it? try more, or smaller parts"
    )


def connect(cluster: Any) -> Any:
    """A client of the cluster; where nobody answers, one line within seconds."""
    distributed = needed()
    if isinstance(cluster, distributed.Client):
        return cluster
    try:
        return distributed.Client(cluster, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as problem:
        why = (str(problem).strip().splitlines() or [type(problem).__name__])[0][:100].rstrip(".")
        raise InputError(
            f"dask: no scheduler answers at {cluster} within {PATIENCE} seconds ({why}); "
            "wanted an address such as tcp://127.0.0.1:8786"
        ) from None


def needed() -> Any:
    """The `distributed` package, or what to install."""
    try:
        import distributed
    except ImportError:
        raise MissingDependencyError(
            "scan: Dask needs dask and distributed; pip install 'shiftgauge[dask]'"
        ) from None
    return distributed


class Partitions:
    """The partitions of a Dask DataFrame, each worked on where Dask makes it.

    Args:
        frame: the Dask DataFrame.
        layout: what its columns hold.
        client: who computes; None for the threads of this process.
    """

    def __init__(self, frame: Any, layout: Layout, client: Any = None) -> None:
        self.frame, self.layout, self.client = frame, layout, client

    def reduce(
        self, task: Task, parts: Sequence[Part], starts: Sequence[int], done: Callable[[int], None]
    ) -> Any:
        """The sum of the task's results in the order of the partitions."""
        wanted = self.layout.reads(getattr(task, "columns", ()))
        delayed = self.frame[wanted].to_delayed()
        job = packed(task)
        tasks = [
            (
                delayed[part.number],
                Handed(self.layout, part.name, part.rows),
                start,
            )
            for part, start in zip(parts, starts, strict=True)
            if isinstance(part, DaskPartition)
        ]
        return summed(map(landed, self._results(job, tasks)), parts, done)

    def _results(self, job: bytes, tasks: list[tuple[Any, Handed, int]]) -> Iterator[bytes]:
        import dask

        work = dask.delayed(on_frame, pure=False)
        asked = [work(job, part, start, piece) for piece, part, start in tasks]
        if self.client is None:
            ahead = 8
            for begin in range(0, len(asked), ahead):
                yield from dask.compute(*asked[begin : begin + ahead], scheduler="threads")
            return
        client = self.client
        futures = client.compute(asked, retries=2)
        for future, again in zip(futures, asked, strict=True):
            yield awaited(client, future, partial(client.compute, again, retries=2))


def on_frame(job: bytes, part: Handed, start: int, frame: Any) -> bytes:
    """Do a task to a partition that was made here."""
    return carried(job, replace(part, batches=_batches(frame)), start)


def _batches(frame: Any) -> list[Any]:
    import pyarrow as pa

    return list(pa.Table.from_pandas(frame, preserve_index=False).to_batches())


class DaskPartition(Partition):
    """A partition of a Dask DataFrame."""

    def read(self, columns: Sequence[str] = ()) -> Iterator[Chunk]:
        """Its first rows, and then all others, if they are asked for, brought to this process."""
        piece = self.frame[self.layout.reads(columns)].partitions[self.number]
        head = piece.head(HEAD, npartitions=1)
        yield from Handed(self.layout, self.name, len(head), _batches(head)).read(columns)
        if len(head) < self.rows:
            rest = piece.compute().iloc[len(head) :]
            yield from Handed(self.layout, self.name, len(rest), _batches(rest)).read(columns)


def frame_parts(
    frame: Any, form: Form, second: str | None, zone: str | None, cluster: Any = None
) -> tuple[Layout, list[Part], Partitions]:
    """The layout, the partitions, counted once, and the engine of a Dask DataFrame."""
    import pyarrow as pa

    client = _default_client() if cluster is None else connect(cluster)
    schema = pa.Schema.from_pandas(frame._meta, preserve_index=False)
    layout = table_layout([schema], form, "the Dask frame", second, zone)
    try:
        counts = frame.map_partitions(len, meta=("rows", "int64"))
        found = client.compute(counts).result() if client is not None else counts.compute()
    except ShiftgaugeError:
        raise
    except Exception as problem:
        text = (str(problem).strip().splitlines() or [type(problem).__name__])[0][:160].rstrip(".")
        raise InputError(f"the Dask frame: cannot be computed ({text})") from None
    parts: list[Part] = [DaskPartition(layout, frame, i, int(rows)) for i, rows in enumerate(found)]
    return layout, parts, Partitions(frame, layout, client)


def _default_client() -> Any:
    """The client that is open in this process, or None."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None
