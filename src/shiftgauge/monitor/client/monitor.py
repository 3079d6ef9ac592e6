"""The client: log predictions and labels from where a model runs; buffered, retried, never lost once accepted."""

from __future__ import annotations

import atexit
import logging
import os
import re
import struct
import sys
import threading
import time as clock
import uuid
import weakref
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge.errors import InputError
from shiftgauge.monitor.client.http import Reply, address, send
from shiftgauge.monitor.client.spool import DamagedBytes, Spool, records
from shiftgauge.monitor.problems import ApiProblem, check_name
from shiftgauge.samples import Target

log = logging.getLogger("shiftgauge.monitor")
#: Between two tries that failed: 0.5 s, 1 s, ... up to 30 s.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
_HEAD = struct.Struct("<c")


class Monitor:
    """Log what a model does to a shiftgauge monitor.

    `log` and `log_labels` return once the rows are in the spool, a folder on this machine's disk; a thread sends
    them in batches, and tries again until the monitor has them. A process that is killed loses nothing that
    it accepted: the next one with the same spool sends it. Several processes may share a spool, and a process may
    fork: each child sends what it logs. What the monitor refuses for good (an unknown class, say), and what cannot be
    read back from a damaged spool, is kept in the spool's folder `refused`, with the reason, and counted.

    Args:
        url: of the monitor, such as `http://127.0.0.1:8123`.
        token: with the scope `ingest`, where the monitor wants one.
        model, version: whose rows these are.
        spool: the folder; by default one for each monitor and model, in the user's folder for state
            (`~/.local/state/shiftgauge/spool` on Linux).
        batch: rows sent in one request.
        every: seconds between two sendings.
        max_bytes: how much may wait in the spool, of all processes that share it; beyond it `log` raises.
        fsync: let rows survive a power cut too; slower.

    Attributes:
        sent, refused: how many rows and labels this process delivered, and how many were refused or damaged.
        last_problem: why the last request failed; None where it did not.

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
        max_bytes: int = 1 << 30,
        fsync: bool = False,
    ) -> None:
        _check_options(token, model, version, batch, every, max_bytes)
        self._urls = {
            b"P": address(url, "models", model, "predictions"),
            b"L": address(url, "models", model, "labels"),
        }
        self._token, self.model, self.version = token, model, version
        self._batch, self._every = batch, every
        self.spool = Spool(spool or default_spool(url, model), max_bytes, fsync=fsync)
        self._closed = False
        self._start()
        self._run_thread()
        atexit.register(self.close, 5.0)
        _monitors.add(self)

    def _start(self) -> None:
        """Begin to count and to send; in a child after a fork, anew: threads and locks stay with the parent."""
        self.refused = 0
        self.sent = 0
        self.last_problem: str | None = None
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._acknowledged: dict[Path, int] = {}

    def _run_thread(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="shiftgauge-monitor", daemon=True)
                self._thread.start()

    def _restart_after_fork(self) -> None:
        self.spool.start()
        self._start()

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

        # What cannot be estimated is refused here, where somebody sees it.
        target = Target(logits, probs=probs)
        n = target.n
        names = [uuid.uuid4().hex for _ in range(n)] if ids is None else _texts(ids, n, "ids")
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
            columns["prediction"] = pa.array(_texts(predictions, n, "predictions"), pa.string())
        if weights is not None:
            columns["weight"] = pa.array(_weights(weights, n))
        for name, values in _segments(segments, n).items():
            columns[f"segment_{name}"] = pa.array(values, pa.string())
        self._accept(b"P", pa.table(columns))
        return names

    def log_labels(self, ids: Sequence[str], labels: Any) -> None:
        """Accept labels of rows, logged here or elsewhere, before or after; a second one corrects the first."""
        import pyarrow as pa

        names = _texts(ids, None, "ids")
        texts = _texts(labels, len(names), "labels")
        self._accept(
            b"L", pa.table({"id": pa.array(names, pa.string()), "label": pa.array(texts, pa.string())})
        )

    @property
    def waiting(self) -> int:
        """Rows and labels that this process accepted and the monitor does not have yet."""
        return self.spool.waiting

    def flush(self, timeout: float = 60.0) -> bool:
        """Send what waits; True once the monitor has it all (or has refused it)."""
        until = clock.monotonic() + timeout
        while True:
            self._run_thread()
            self._wake.set()
            with self._sending:
                clear = self.spool.claim() is None
            if clear or clock.monotonic() > until:
                return clear
            clock.sleep(0.02)

    def close(self, timeout: float = 0.0) -> None:
        """Try to send what waits, for so long; the rest stays in the spool for the next process."""
        if self._closed:
            return
        if timeout > 0.0 and self.waiting:
            self.flush(timeout)
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(35.0)
        self.spool.close()
        atexit.unregister(self.close)

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(0.0 if self.last_problem else 5.0)

    def _accept(self, kind: bytes, table: Any) -> None:
        if self._closed:
            raise InputError("this monitor's client was closed; nothing was accepted")
        self.spool.append(_HEAD.pack(kind) + _stream(table), table.num_rows)
        if self._thread is None:  # after a fork
            self._run_thread()
        if self.last_problem is None and self.waiting >= self._batch:
            self._wake.set()

    def _run(self) -> None:
        pause = 0.0
        while not self._closed:
            self._wake.wait(self._every + pause)
            self._wake.clear()
            try:
                good = self._send_all()
            except Exception as problem:  # nothing may end this thread: what was accepted must go out
                log.exception("sending to the monitor failed")
                self.last_problem, good = str(problem), False
            pause = 0.0 if good else min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * pause))

    def _send_all(self) -> bool:
        while not self._closed:
            with self._sending:
                path = self.spool.claim()
                if path is None:
                    return True
                if not self._send_file(path):
                    return False
                self.spool.done(path)
        return True

    def _send_file(self, path: Path) -> bool:
        parts = list(records(path))
        whole = [record for record in parts if not isinstance(record, DamagedBytes)]
        for number, (kind, tables) in enumerate(_batches(whole, self._batch)):
            if self._acknowledged.get(path, -1) >= number:
                continue
            if not self._send(kind, tables):
                return False
            self._acknowledged = {path: number}
        for part in parts:
            if isinstance(part, DamagedBytes):
                reason = f"{len(part):,} bytes of {path.name} are damaged or were cut off, and cannot be sent"
                kept = self.spool.refuse(part, reason)
                log.error("the spool is damaged: %s; kept in %s", reason, kept)
                self.refused += 1
        return True

    def _send(self, kind: bytes, tables: list[Any]) -> bool:
        """Send tables together; where that is refused, one by one, and a refused one by halves."""
        import pyarrow as pa

        whole = pa.concat_tables(tables)
        answer = send("POST", self._urls[kind], _stream(whole), self._token)
        if answer.good:
            self._delivered_rows(whole.num_rows, sent=True)
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

    def _refuse(self, kind: bytes, table: Any, answer: Reply) -> None:
        path = self.spool.refuse(_HEAD.pack(kind) + _stream(table), f"{answer.status}: {answer.detail}")
        log.warning("the monitor refused a row, kept in %s: %s", path, answer.detail)
        self.refused += 1
        self._delivered_rows(table.num_rows, sent=False)

    def _delivered_rows(self, rows: int, *, sent: bool) -> None:
        self.sent += rows if sent else 0
        self.last_problem = None


#: All clients of this process: after a fork, the child's copies begin anew.
_monitors: weakref.WeakSet[Monitor] = weakref.WeakSet()


def _after_fork() -> None:
    for monitor in list(_monitors):
        monitor._restart_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def default_spool(url: str, model: str) -> Path:
    """Where rows for this monitor and model wait: in the user's folder for state, not where the process runs."""
    try:
        user_folder = Path.home()
    except RuntimeError:
        raise InputError("this user has no home folder; pass spool=, a folder for rows that wait") from None
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or user_folder / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = user_folder / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_STATE_HOME") or user_folder / ".local" / "state")
    return (
        base / "shiftgauge" / "spool" / re.sub(r"[^\w.-]+", "_", url.partition("://")[2]).strip("_.") / model
    )


def _check_options(token: Any, model: Any, version: Any, batch: Any, every: Any, max_bytes: Any) -> None:
    try:
        check_name(model, "model")
        check_name(version, "version")
    except ApiProblem as problem:
        raise InputError(str(problem)) from None
    if token is not None and not (isinstance(token, str) and token.isascii() and token.isprintable()):
        raise InputError(
            f"token: arrived as {type(token).__name__}; wanted a text such as 'sgm_...', or None"
        )
    for name, number in (("batch", batch), ("max_bytes", max_bytes)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise InputError(f"{name} {number!r}: wanted a whole number of 1 or more")
    if isinstance(every, bool) or not isinstance(every, int | float) or not 0 < every < 1e6:
        raise InputError(f"every {every!r}: wanted a number of seconds above 0")


def _batches(spooled: Any, most: int) -> Any:
    """Records in their order, those of one kind and form together, up to a number of rows."""
    import pyarrow as pa

    tables: list[Any] = []
    kind = b""
    for record in spooled:
        (mark,) = _HEAD.unpack_from(record)
        table = pa.ipc.open_stream(pa.py_buffer(record[_HEAD.size :])).read_all()
        same = bool(tables) and mark == kind and table.schema == tables[0].schema
        if tables and (not same or sum(t.num_rows for t in tables) + table.num_rows > most):
            yield kind, tables
            tables = []
        kind = mark
        tables.append(table)
    if tables:
        yield kind, tables


def _stream(table: Any) -> bytes:
    import pyarrow as pa

    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue().to_pybytes())


def _listed(values: Any, what: str) -> list[Any]:
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise InputError(f"{what}: arrived as {type(values).__name__}; wanted a list with one value per row")
    return list(values)


def _texts(values: Any, n: int | None, what: str, *, empty: bool = False) -> list[Any]:
    """One text per row; numbers are written out. None stands for a missing value, where there may be one."""
    out: list[Any] = []
    for row, value in enumerate(_listed(values, what)):
        known = isinstance(value, str | int | np.integer) or (isinstance(value, float) and value == value)
        if not known and not (empty and value is None):
            raise InputError(f"{what}: row {row} is {str(value)[:40]!r}; wanted a text or a number")
        text = None if value is None else str(value)
        if text is not None and not _is_unicode(text):
            raise InputError(f"{what}: row {row} holds characters that are not Unicode; wanted a text")
        out.append(text)
    if n is not None and len(out) != n:
        raise InputError(f"{what}: {len(out)} for {n} rows; wanted one each")
    return out


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _weights(weights: Any, n: int) -> Any:
    try:
        out = np.asarray(_listed(weights, "weights"), dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("weights: not all are numbers; wanted one number per row") from None
    if out.shape != (n,):
        raise InputError(f"weights: arrived with shape {out.shape} for {n} rows; wanted one each")
    bad = ~(np.isfinite(out) & (out >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"weights: row {row} is {out[row]}; wanted finite numbers of 0 or more")
    return out


def _segments(segments: Any, n: int) -> dict[str, list[Any]]:
    if segments is None:
        return {}
    if not isinstance(segments, Mapping):
        raise InputError(
            f"segments: arrived as {type(segments).__name__}; wanted a mapping such as {{'country': 'DE'}}"
        )
    out = {}
    for name, value in segments.items():
        try:
            check_name(name, "segment")
        except ApiProblem as problem:
            raise InputError(str(problem)) from None
        alike = [value] * n if value is None or isinstance(value, str | int | float) else value
        out[name] = _texts(alike, n, f"segments[{name!r}]", empty=True)
    return out


def _times(times: Any, n: int) -> list[datetime]:
    if times is None:
        return [datetime.now(timezone.utc)] * n
    every = [times] * n if isinstance(times, datetime) else _listed(times, "times")
    for moment in every:
        if not isinstance(moment, datetime) or moment.tzinfo is None:
            raise InputError(f"times: {moment!r} has no zone; wanted datetime.now(timezone.utc) or the like")
    if len(every) != n:
        raise InputError(f"times: {len(every)} for {n} rows; wanted one each")
    return every
