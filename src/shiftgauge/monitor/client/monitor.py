"""The client: log predictions and labels from where a model runs; buffered, retried, never lost once accepted."""

from __future__ import annotations

import atexit
import logging
import os
import re
import sys
import threading
import time as clock
import uuid
import weakref
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge.errors import InputError
from shiftgauge.monitor.client.http import Reply, address, send
from shiftgauge.monitor.client.spool import Spool, SpoolRecord
from shiftgauge.monitor.problems import ApiProblem, check_name
from shiftgauge.monitor.tables import class_value, rows_table, to_arrow_stream
from shiftgauge.samples import Target

log = logging.getLogger("shiftgauge.monitor")
#: Between two tries that failed: 0.5 s, 1 s, ... up to 30 s.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


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
        self._urls = {kind: address(url, "models", model, kind) for kind in ("predictions", "labels")}
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
        self._unsent = 0  # rows since the thread was last woken
        self.last_problem: str | None = None
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def _run_thread(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="shiftgauge-monitor", daemon=True)
                self._thread.start()

    def _restart_after_fork(self) -> None:
        self.spool.restart()
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
        # What cannot be estimated is refused here, where somebody sees it.
        target = Target(logits, probs=probs)
        n = target.n
        names = [uuid.uuid4().hex for _ in range(n)] if ids is None else _texts(ids, n, "ids")
        table = rows_table(
            target.kind,
            target.scores,
            None,
            ids=names,
            times=_times(times, n),
            version=self.version,
            predictions=None if predictions is None else _class_texts(predictions, n, "predictions"),
            weights=None if weights is None else _weights(weights, n),
            segments=_segments(segments, n),
        )
        self._accept("predictions", table)
        return names

    def log_labels(self, ids: Sequence[str], labels: Any) -> None:
        """Accept labels of rows, logged here or elsewhere, before or after; a second one corrects the first."""
        import pyarrow as pa

        names = _texts(ids, None, "ids")
        texts = _class_texts(labels, len(names), "labels")
        self._accept(
            "labels", pa.table({"id": pa.array(names, pa.string()), "label": pa.array(texts, pa.string())})
        )

    @property
    def waiting(self) -> int:
        """Rows and labels that this process accepted and the monitor does not have yet."""
        return self.spool.waiting

    def flush(self, timeout: float = 60.0) -> bool:
        """Send what waits; True once the monitor has it all (or has refused it)."""
        until, newest = clock.monotonic() + timeout, self.spool.newest
        while True:
            self._run_thread()
            self._wake.set()
            with self._sending:
                clear = not self.spool.holds_up_to(newest)
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

    def _accept(self, kind: str, table: Any) -> None:
        if self._closed:
            raise InputError("this monitor's client was closed; nothing was accepted")
        self.spool.append(kind, to_arrow_stream(table), table.num_rows)
        if self._thread is None:  # after a fork
            self._run_thread()
        self._unsent += table.num_rows
        if self.last_problem is None and self._unsent >= self._batch:
            self._unsent = 0
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
        with self._sending, self.spool.sending() as our_turn:
            while our_turn and not self._closed:
                records = self.spool.oldest(self._batch)
                self._count_damaged_files()
                if not records:
                    return True
                if not self._send_records(records):
                    return False
        return True

    def _send_records(self, records: list[SpoolRecord]) -> bool:
        """Send records of one kind and form together, from the first one on."""
        tables: list[Any] = []
        sent: list[SpoolRecord] = []
        for record in records:
            table = _table(record)
            if table is None:
                reason = f"record {record.id} ({record.rows:,} rows) is damaged, and cannot be sent"
                kept = self.spool.refuse(record.body, reason)
                log.error("the spool is damaged: %s; kept in %s", reason, kept)
                self.refused += record.rows
            elif tables and table.schema != tables[0].schema:
                break
            else:
                tables.append(table)
            sent.append(record)
        if tables and not self._send(records[0].kind, tables):
            return False
        self.spool.done(sent)
        return True

    def _count_damaged_files(self) -> None:
        files, self.spool.set_aside = self.spool.set_aside, 0
        if files:
            log.error(
                "the spool %s is damaged; the damaged file is kept in its folder refused", self.spool.folder
            )
            self.refused += files

    def _send(self, kind: str, tables: list[Any]) -> bool:
        """Send tables together; where that is refused, one by one, and a refused one by halves."""
        import pyarrow as pa

        whole = pa.concat_tables(tables)
        answer = send("POST", self._urls[kind], to_arrow_stream(whole), self._token)
        if answer.good:
            self.sent += whole.num_rows
            self.last_problem = None
            return True
        if not answer.refused:
            self.last_problem = f"{answer.status}: {answer.detail}" if answer.status else answer.detail
            return False
        if len(tables) > 1:
            return all(self._send(kind, [table]) for table in tables)
        if whole.num_rows > 1:
            half = whole.num_rows // 2
            return self._send(kind, [whole.slice(0, half)]) and self._send(kind, [whole.slice(half)])
        self._refuse(whole, answer)
        return True

    def _refuse(self, table: Any, answer: Reply) -> None:
        path = self.spool.refuse(to_arrow_stream(table), f"{answer.status}: {answer.detail}")
        log.warning("the monitor refused a row, kept in %s: %s", path, answer.detail)
        self.refused += 1
        self.last_problem = None


#: All clients of this process, and those whose spool is closed while the process forks.
_monitors: weakref.WeakSet[Monitor] = weakref.WeakSet()
_forking: list[Monitor] = []


def _before_fork() -> None:
    _forking.extend(_monitors)
    for monitor in _forking:
        monitor.spool.before_fork()


def _after_fork_in_parent() -> None:
    while _forking:
        _forking.pop().spool.after_fork()


def _after_fork_in_child() -> None:
    while _forking:
        _forking.pop()._restart_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )


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


def _table(record: SpoolRecord) -> Any:
    """The table of a record; None if it is damaged."""
    import pyarrow as pa

    if record.damaged:
        return None
    try:
        return pa.ipc.open_stream(pa.py_buffer(record.body)).read_all()
    except (pa.ArrowException, OSError):
        return None


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


def _class_texts(values: Any, n: int, what: str) -> list[Any]:
    return _texts([class_value(value) for value in _listed(values, what)], n, what)


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


def _times(times: Any, n: int) -> Any:
    """(n,) microseconds since 1970."""
    if times is None:
        times = datetime.now(timezone.utc)
    every = [times] * n if isinstance(times, datetime) else _listed(times, "times")
    for moment in every:
        if not isinstance(moment, datetime) or moment.tzinfo is None:
            raise InputError(f"times: {moment!r} has no zone; wanted datetime.now(timezone.utc) or the like")
    if len(every) != n:
        raise InputError(f"times: {len(every)} for {n} rows; wanted one each")
    return np.array([(moment - EPOCH) // timedelta(microseconds=1) for moment in every], dtype=np.int64)
