"""The client: log predictions and labels from where a model runs; buffered, retried, never lost once accepted."""

from __future__ import annotations

import atexit
import logging
import struct
import threading
import time as clock
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from labelfree.errors import InputError
from labelfree.monitor.post import Answer, address, send
from labelfree.monitor.spool import Spool, records

log = logging.getLogger("labelfree.monitor")
#: Between two tries that failed: 0.5 s, 1 s, ... up to 30 s.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
_HEAD = struct.Struct("<cH")


class Monitor:
    """Log what a model does to a labelfree monitor.

    `log` and `log_labels` return once the rows are in the spool, a folder on this machine's disk; a thread sends
    them on, in batches, and tries again until the monitor has them. A process that is killed loses nothing that
    it accepted: the next one with the same spool sends it. Rows that the monitor refuses for good (an unknown
    class, say) are kept in the spool's folder `refused`, with the reason, and counted.

    Args:
        url: of the monitor, such as `http://127.0.0.1:8123`.
        token: with the scope `ingest`, where the monitor wants one.
        model, version: whose rows these are.
        spool: the folder; by default `labelfree-spool/MODEL` where the process runs.
        batch: rows sent in one request.
        every: seconds between two sendings.
        fsync: let rows survive the machine's power going too; slower.

    >>> import tempfile
    >>> with Monitor("http://127.0.0.1:9", model="m", version="v1", spool=tempfile.mkdtemp()) as monitor:
    ...     ids = monitor.log(probs=[[0.9, 0.1]], ids=["r-1"])
    ...     monitor.waiting
    1
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        model: str,
        version: str,
        spool: str | Path | None = None,
        batch: int = 5000,
        every: float = 1.0,
        fsync: bool = False,
    ) -> None:
        self._urls = {
            b"P": address(url, "models", model, "predictions"),
            b"L": address(url, "models", model, "labels"),
        }
        self._token, self.model, self.version = token, model, version
        self._batch, self._every = batch, every
        self.spool = Spool(spool or Path("labelfree-spool") / model, fsync=fsync)
        self.refused = 0
        self.sent = 0
        self.last_problem: str | None = None
        self._waiting, self._lock = 0, threading.Lock()
        self._wake, self._closing = threading.Event(), threading.Event()
        self._sending = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="labelfree-monitor", daemon=True)
        self._thread.start()
        atexit.register(self.close, 5.0)

    def log(
        self,
        *,
        probs: Any = None,
        logits: Any = None,
        ids: Sequence[str] | None = None,
        times: datetime | Sequence[datetime] | None = None,
        predictions: Any = None,
        weights: Any = None,
        segments: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Accept rows; returns their ids, which labels are given by later.

        Args:
            probs: (n, K) probabilities; or
            logits: (n, K) scores before the softmax.
            ids: n texts; made up where none are given.
            times: one per row, or one for all, with a zone; now, where none is given.
            predictions: (n,) the deployed decisions, where they are not the argmax.
            weights: (n,) row weights.
            segments: by name, a text for all rows or one per row.
        """
        import pyarrow as pa

        from labelfree.types import Target

        target = Target(
            logits, probs=probs
        )  # what cannot be estimated is refused here, where somebody sees it
        n = target.n
        names = [uuid.uuid4().hex for _ in range(n)] if ids is None else [str(i) for i in ids]
        _same_length(names, n, "ids")
        scores = np.ascontiguousarray(target.scores)
        if scores.dtype.itemsize < 4:
            scores = scores.astype(np.float32)
        columns: dict[str, Any] = {
            "id": pa.array(names, pa.string()),
            "time": pa.array(_times(times, n), pa.timestamp("us", tz="UTC")),
            "version": pa.array([self.version] * n, pa.string()),
            target.kind: pa.FixedSizeListArray.from_arrays(pa.array(scores.reshape(-1)), target.k),
        }
        if predictions is not None:
            columns["prediction"] = pa.array([str(p) for p in _listed(predictions)], pa.string())
        if weights is not None:
            columns["weight"] = pa.array(np.asarray(weights, dtype=np.float64))
        for name, value in (segments or {}).items():
            columns[f"segment_{name}"] = pa.array(
                [value] * n if isinstance(value, str) else _listed(value), pa.string()
            )
        for name, column in columns.items():
            _same_length(column, n, name)
        self._accept(b"P", pa.table(columns))
        return names

    def log_labels(self, ids: Sequence[str], labels: Any) -> None:
        """Accept labels of rows, logged here or elsewhere, before or after; a second one corrects the first."""
        import pyarrow as pa

        texts = [str(label) for label in _listed(labels)]
        _same_length(texts, len(ids), "labels")
        self._accept(b"L", pa.table({"id": [str(i) for i in ids], "label": texts}))

    @property
    def waiting(self) -> int:
        """Rows and labels that this process accepted and the monitor does not have yet."""
        return self._waiting

    def flush(self, timeout: float = 60.0) -> bool:
        """Send what waits; True once the monitor has it all (or has refused it)."""
        until = clock.monotonic() + timeout
        while True:
            self._wake.set()
            with self._sending:
                clear = not self.spool.ready()
            if clear or clock.monotonic() > until:
                return clear
            clock.sleep(0.02)

    def close(self, timeout: float = 0.0) -> None:
        """Try to send what waits, for so long; the rest stays in the spool for the next process."""
        if self._closing.is_set():
            return
        if timeout > 0.0 and self._waiting:
            self.flush(timeout)
        self._closing.set()
        self._wake.set()
        self._thread.join(35.0)
        self.spool.close()
        atexit.unregister(self.close)

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(0.0 if self.last_problem else 5.0)

    def _accept(self, kind: bytes, table: Any) -> None:
        if self._closing.is_set():
            raise InputError("this monitor's client was closed; nothing was accepted")
        self.spool.append(_HEAD.pack(kind, table.num_rows % 65_536) + _stream(table))
        with self._lock:
            self._waiting += table.num_rows
            full = self._waiting >= self._batch
        if full:
            self._wake.set()

    def _run(self) -> None:
        pause = 0.0
        while not self._closing.is_set():
            self._wake.wait(self._every + pause)
            self._wake.clear()
            try:
                good = self._send_all()
            except Exception as problem:  # nothing may end this thread: what was accepted must go out
                log.exception("sending to the monitor failed")
                self.last_problem, good = str(problem), False
            pause = 0.0 if good else min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * pause))

    def _send_all(self) -> bool:
        with self._sending:
            for path in self.spool.ready():
                for kind, tables in _batches(records(path), self._batch):
                    if not self._send(kind, tables):
                        return False
                self.spool.done(path)
        return True

    def _send(self, kind: bytes, tables: list[Any]) -> bool:
        """Send tables together; where that is refused, one by one, and a refused one by halves."""
        import pyarrow as pa

        whole = pa.concat_tables(tables)
        answer = send("POST", self._urls[kind], _stream(whole), self._token)
        if answer.good:
            self._settled(whole.num_rows, sent=True)
            return True
        if not answer.refused:
            self.last_problem = f"{answer.status}: {answer.detail}" if answer.status else answer.detail
            return False
        if len(tables) > 1:
            return all(self._send(kind, [table]) for table in tables)
        if whole.num_rows > 1:
            half = whole.num_rows // 2
            return self._send(kind, [whole.slice(0, half)]) and self._send(kind, [whole.slice(half)])
        self._refuse(kind, whole, answer)
        return True

    def _refuse(self, kind: bytes, table: Any, answer: Answer) -> None:
        path = self.spool.refuse(_HEAD.pack(kind, 1) + _stream(table), f"{answer.status}: {answer.detail}")
        log.warning("the monitor refused a row, kept in %s: %s", path, answer.detail)
        self.refused += 1
        self._settled(table.num_rows, sent=False)

    def _settled(self, rows: int, *, sent: bool) -> None:
        with self._lock:
            self._waiting = max(0, self._waiting - rows)
            self.sent += rows if sent else 0
            self.last_problem = None


def _batches(found: Any, most: int) -> Any:
    """Records in their order, those of one kind and form together, up to a number of rows."""
    import pyarrow as pa

    held: list[Any] = []
    kind = b""
    for record in found:
        mark, _ = _HEAD.unpack_from(record)
        table = pa.ipc.open_stream(pa.py_buffer(record[_HEAD.size :])).read_all()
        same = bool(held) and mark == kind and table.schema == held[0].schema
        if held and (not same or sum(t.num_rows for t in held) + table.num_rows > most):
            yield kind, held
            held = []
        kind = mark
        held.append(table)
    if held:
        yield kind, held


def _stream(table: Any) -> bytes:
    import pyarrow as pa

    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue().to_pybytes())


def _listed(values: Any) -> list[Any]:
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _times(times: Any, n: int) -> list[datetime]:
    if times is None:
        return [datetime.now(timezone.utc)] * n
    every = [times] * n if isinstance(times, datetime) else list(times)
    for moment in every:
        if not isinstance(moment, datetime) or moment.tzinfo is None:
            raise InputError(f"times: {moment!r} has no zone; wanted datetime.now(timezone.utc) or the like")
    return every


def _same_length(values: Any, n: int, what: str) -> None:
    if len(values) != n:
        raise InputError(f"{what}: {len(values)} for {n} rows; wanted one each")
