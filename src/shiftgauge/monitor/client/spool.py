"""The client's spool: what was accepted is on the disk until the server has it.

A spool is a folder with an SQLite file of records, one for each call of `log`. All processes with the same spool append
to it; one of them at a time sends the oldest records and deletes what was acknowledged. A record that reaches the
server twice does no harm: the server knows rows by their ids.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from shiftgauge.errors import FileError, InputError

T = TypeVar("T")
FILE, LOCK = "spool.sqlite", "sending.lock"
#: How long a process waits for another one's commit, in seconds.
WAIT_SECONDS = 30.0
#: An empty file with more free pages than this gives them back.
FREE_PAGES = 256
#: A damaged file that claims to be larger than this is not filled up.
LARGEST = 1 << 36
_TABLE = (
    "CREATE TABLE records (id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, kind TEXT NOT NULL, "
    "rows INTEGER NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL)"
)
#: Kept in the file's `user_version`: a spool of another form is refused.
SCHEMA = int(hashlib.sha256(_TABLE.encode()).hexdigest()[:7], 16)
_INSERT = "INSERT INTO records (owner, kind, rows, crc, body) VALUES (?, ?, ?, ?, ?)"
_READ = "SELECT id, owner, kind, rows, crc, body FROM records"


@dataclass(frozen=True)
class SpoolRecord:
    """What one call of `log` or `log_labels` accepted: `kind` is `predictions` or `labels`, `body` an Arrow stream."""

    id: int
    kind: str
    rows: int
    crc: int
    body: bytes

    @property
    def damaged(self) -> bool:
        """Whether the body is not what was accepted."""
        return zlib.crc32(self.body) != self.crc


class Spool:
    """Records, kept in order.

    Args:
        folder: made where it is not there.
        most: bytes that all processes together may keep here; a full spool accepts nothing more, and says so.
        fsync: whether a record must survive a power cut, not only the end of the process.

    >>> import tempfile
    >>> spool = Spool(tempfile.mkdtemp())
    >>> spool.append("labels", b"one", 1); spool.append("labels", b"two", 1)
    >>> [record.body for record in spool.oldest(100)]
    [b'one', b'two']
    """

    def __init__(self, folder: str | Path, most: int = 1 << 30, *, fsync: bool = False) -> None:
        self.folder, self.most, self.fsync = Path(folder).absolute(), most, fsync
        self._connection: sqlite3.Connection | None = None
        self._sender: sqlite3.Connection | None = None
        self.set_aside = 0
        try:
            (self.folder / "refused").mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise FileError(f"{folder}: cannot be used as a spool ({problem.strerror})") from None
        self.restart()
        self._run(_size)

    def restart(self) -> None:
        """Begin without records of our own; also in a child after a fork."""
        self._lock = threading.Lock()
        self.owner = uuid.uuid4().hex

    def before_fork(self) -> None:
        """Close the file, which must not be open across a fork, and let nobody open it until `after_fork`."""
        self._lock.acquire()
        self._disconnect()
        self._unlock()

    def after_fork(self) -> None:
        """In the parent: go on."""
        self._lock.release()

    def append(self, kind: str, body: bytes, rows: int) -> None:
        """Accept a record; it is on the disk when this returns."""
        values = (self.owner, kind, rows, zlib.crc32(body), body)

        def work(database: sqlite3.Connection) -> bool:
            size = _size(database)
            if size + len(body) > self.most:
                raise InputError(
                    f"the spool {self.folder} is full ({size:,} bytes wait for the monitor); "
                    "nothing was accepted: is the monitor reachable?"
                )
            database.execute(_INSERT, values)
            return self._is_current()

        while not self._run(work):
            pass  # another process set the file aside meanwhile: the record goes into the new one too

    def oldest(self, rows: int) -> list[SpoolRecord]:
        """The oldest records, all of one kind, up to a number of rows (but at least one record)."""
        return self._run(lambda database: _first(database.execute(f"{_READ} ORDER BY id"), rows))

    def done(self, records: Iterable[SpoolRecord]) -> None:
        """These are at the server, or refused."""
        ids = [(record.id,) for record in records]

        def work(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                database.executemany("DELETE FROM records WHERE id = ?", ids)
            (free,) = database.execute("PRAGMA freelist_count").fetchone()
            if free > FREE_PAGES and database.execute("SELECT 1 FROM records").fetchone() is None:
                database.execute("VACUUM")

        self._run(work)

    @property
    def newest(self) -> int:
        """The number of the newest record; 0 for none."""
        return self._number("SELECT max(id) FROM records")

    def holds_up_to(self, number: int) -> bool:
        """Whether a record up to this number still waits."""
        return self._number("SELECT min(id) <= ? FROM records", number) == 1

    @property
    def waiting(self) -> int:
        """How many rows that this process accepted are not at the server yet."""
        return self._number("SELECT sum(rows) FROM records WHERE owner = ?", self.owner)

    def _number(self, query: str, *values: Any) -> int:
        return self._run(lambda database: int(database.execute(query, values).fetchone()[0] or 0))

    @contextmanager
    def sending(self) -> Iterator[bool]:
        """Whether it is our turn to send; no other process sends meanwhile. The lock ends with the process."""
        try:
            self._sender = sqlite3.connect(
                self.folder / LOCK, timeout=0, isolation_level=None, check_same_thread=False
            )
            self._sender.execute("BEGIN EXCLUSIVE")
            ours = True
        except sqlite3.Error:
            ours = False
        try:
            yield ours
        finally:
            self._unlock()

    def refuse(self, body: bytes, reason: str) -> Path:
        """Keep a record that cannot be delivered, beside the reason."""
        # Named by content: a record that is refused again is not kept twice.
        path = self.folder / "refused" / f"{hashlib.sha256(body).hexdigest()[:32]}.record"
        path.write_bytes(body)
        path.with_suffix(".txt").write_text(reason + "\n", encoding="utf-8")
        return path

    def close(self) -> None:
        """Let go of the file; what is in it stays."""
        with self._lock:
            self._disconnect()

    def _unlock(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of `work` on the file; a damaged one is set aside once, what else goes wrong becomes one line."""
        with self._lock:
            for last in (False, True):
                try:
                    if self._connection is not None and not self._is_current():
                        self._disconnect()
                    if self._connection is None:
                        self._connection = self._connect()
                    return work(self._connection)
                except sqlite3.OperationalError as problem:  # a full disk, a folder that was removed
                    reason = str(problem)
                    self._disconnect()
                    break
                except sqlite3.DatabaseError as problem:
                    reason = str(problem)
                    if not last:
                        self._set_aside(reason)
        raise FileError(f"{self.folder}: cannot be written ({reason}); not accepted")

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(
            self.folder / FILE, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            # NORMAL: a power cut costs the last records, but does not damage the file. secure_delete: what was
            # delivered does not stay on this machine's disk.
            for pragma in (
                "journal_mode = WAL",
                f"synchronous = {'FULL' if self.fsync else 'NORMAL'}",
                "secure_delete = ON",
            ):
                database.execute(f"PRAGMA {pragma}")
            database.execute("BEGIN IMMEDIATE")
            (schema,) = database.execute("PRAGMA user_version").fetchone()
            if database.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
                database.execute(_TABLE)
                database.execute(f"PRAGMA user_version = {SCHEMA}")
                schema = SCHEMA
            database.execute("COMMIT")
        except BaseException:
            database.close()
            raise
        if schema != SCHEMA:
            database.close()
            raise FileError(
                f"{self.folder}: another version of shiftgauge wrote this spool (form {schema}, this version needs "
                f"{SCHEMA}); let that version send it (Monitor.flush), or pass another folder as spool="
            )
        self._inode = os.stat(self.folder / FILE).st_ino
        return database

    def _is_current(self) -> bool:
        """Whether the open file is still the one in the folder."""
        with suppress(OSError):
            return os.stat(self.folder / FILE).st_ino == self._inode
        return False

    def _set_aside(self, problem: str) -> None:
        """Move a damaged file into `refused`, and put what can still be read of it into a new one."""
        current = self._connection is None or self._is_current()
        self._disconnect()
        if not current:  # another process was faster
            return
        path = self.folder / "refused" / f"{time.time_ns()}.sqlite"
        for ending in ("", "-wal", "-shm"):
            with suppress(OSError):
                os.replace(f"{self.folder / FILE}{ending}", f"{path}{ending}")
        saved = _salvage(path)
        reason = f"the spool was damaged ({problem}); {len(saved)} of its records could be read and are sent"
        path.with_suffix(".txt").write_text(reason + "\n", encoding="utf-8")
        self.set_aside += 1
        self._connection = self._connect()
        with self._connection as database:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(_INSERT, saved)


def _size(database: sqlite3.Connection) -> int:
    """Bytes in use."""
    names = ("page_count", "freelist_count", "page_size")
    pages, free, size = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    return int((pages - free) * size)


def _first(rows: Iterable[tuple[int, str, str, int, int, bytes]], most: int) -> list[SpoolRecord]:
    out: list[SpoolRecord] = []
    count = 0
    for number, _, kind, n, crc, body in rows:
        count += n
        if out and (kind != out[0].kind or count > most):
            break
        out.append(SpoolRecord(number, kind, n, crc, body))
    return out


def _salvage(path: Path) -> list[tuple[object, ...]]:
    """The records of a damaged file that can be read: those before the damage, and those behind it."""
    with suppress(OSError), path.open("r+b") as file:  # SQLite reads nothing of a file that was cut off
        header = file.read(32)
        size = int.from_bytes(header[16:18], "big") * int.from_bytes(header[28:32], "big")
        if path.stat().st_size < size <= LARGEST:
            file.truncate(size)
    saved: dict[int, tuple[object, ...]] = {}
    for order in ("ASC", "DESC"):
        with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as database:
            for number, *record in database.execute(f"{_READ} ORDER BY id {order}"):
                if number in saved:
                    break
                saved[number] = tuple(record)
    return [saved[number] for number in sorted(saved)]
