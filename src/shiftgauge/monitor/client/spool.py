"""The client's spool: what was accepted is on the disk until the server has it.

A spool is a folder of files. Each process appends to files of its own, which it locks, one record per call, and
deletes a file once everything in it was acknowledged. The next process sends what a killed one left
behind. A record that reaches the server twice does no harm: the server knows rows by their ids. Every record begins
with a mark, so that a damaged one is skipped and those behind it are still read.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
import time
import uuid
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from shiftgauge.errors import FileError, InputError

#: Bytes, about: a file is read whole when it is sent.
LARGEST_FILE = 1 << 24
_MARK = b"\xf5SGREC\r\n"  # no byte of it occurs twice, and the first is never part of UTF-8 text
_FRAME = struct.Struct("<8sII")  # mark, length, crc32


class DamagedBytes(bytes):
    """Bytes of a spool file that are not a whole record."""


class Spool:
    """Records of bytes, kept in order.

    Args:
        folder: made where it is not there.
        most: bytes that all processes together may keep here; a full spool accepts nothing more, and says so.
        fsync: whether a record must survive a power cut, not only the end of the process.

    >>> import tempfile
    >>> spool = Spool(tempfile.mkdtemp())
    >>> spool.append(b"one", 1); spool.append(b"two", 1)
    >>> list(records(spool.claim()))
    [b'one', b'two']
    """

    def __init__(self, folder: str | Path, most: int = 1 << 30, *, fsync: bool = False) -> None:
        self.folder, self.most, self.fsync = Path(folder).absolute(), most, fsync
        try:
            (self.folder / "refused").mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise FileError(f"{folder}: cannot be used as a spool ({problem.strerror})") from None
        self._mine: dict[Path, BinaryIO] = {}
        self.start()

    def start(self) -> None:
        """Begin without files of our own; also in a child after a fork, whose parent goes on with its files.

        Closing a file that a parent holds too does not unlock it for the parent.
        """
        for file in self._mine.values():
            file.close()
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._current_windows = self.folder
        self._mine = {}
        self._rows: dict[Path, int] = {}
        self._size = self._measure()

    @property
    def waiting(self) -> int:
        """How many rows of this process are in files that were not acknowledged yet."""
        return sum(self._rows.copy().values())

    def append(self, record: bytes, rows: int) -> None:
        """Accept a record; it is on the disk when this returns."""
        with self._lock:
            size = _FRAME.size + len(record)
            if self._size + size > self.most:
                self._size = self._measure()  # other processes may have sent theirs
            if self._size + size > self.most:
                raise InputError(
                    f"the spool {self.folder} is full ({self._size:,} bytes wait for the monitor); "
                    "nothing was accepted: is the monitor reachable?"
                )
            try:
                if self._file is None:
                    self._file = self._new()
                _write(self._file, _FRAME.pack(_MARK, len(record), zlib.crc32(record)) + record)
                if self.fsync:
                    os.fsync(self._file.fileno())
            except OSError as problem:
                # What was half written ends its file: the next record begins a new one.
                self._file = None
                raise FileError(
                    f"{self.folder}: cannot be written ({problem.strerror}); not accepted"
                ) from None
            self._size += size
            self._rows[self._current_windows] = self._rows.get(self._current_windows, 0) + rows
            if self._file.tell() > LARGEST_FILE:
                self._file = None

    def _new(self) -> BinaryIO:
        while True:
            # Named by time, so that files are sent in the order they were written.
            path = self.folder / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.spool"
            file = path.open("wb", buffering=0)
            if _lock_file(file):
                self._mine[path], self._current_windows = file, path
                return file
            file.close()  # another process took it over before we had the lock, and deletes it: it is empty

    def claim(self) -> Path | None:
        """The oldest file to send, ours or of a process that ended; ours is then closed for appending."""
        with self._lock:
            self._size = self._measure()
            for path in sorted(self.folder.glob("*.spool")):
                if path in self._mine or self._adopt(path):
                    if path == self._current_windows:
                        self._file = None
                    return path
            return None

    def _adopt(self, path: Path) -> bool:
        with suppress(OSError):
            file = path.open("rb")
            if _lock_file(file):
                self._mine[path] = file
                return True
            file.close()
        return False

    def _measure(self) -> int:
        size = 0
        for path in self.folder.glob("*.spool"):
            with suppress(OSError):  # deleted meanwhile
                size += path.stat().st_size
        return size

    def done(self, path: Path) -> None:
        """Everything in this file is at the server."""
        with self._lock:
            path.unlink(missing_ok=True)
            self._rows.pop(path, None)
            file = self._mine.pop(path, None)
            if file is not None:
                file.close()

    def refuse(self, record: bytes, reason: str) -> Path:
        """Keep a record that cannot be delivered, beside the reason."""
        # Named by content: a record that is refused again is not kept twice.
        path = self.folder / "refused" / f"{hashlib.sha256(record).hexdigest()[:32]}.record"
        path.write_bytes(record)
        path.with_suffix(".txt").write_text(reason + "\n", encoding="utf-8")
        return path

    def close(self) -> None:
        """Let go of all files; what is in them stays."""
        with self._lock:
            for file in self._mine.values():
                file.close()
            self._mine.clear()
            self._file = None


def _write(file: BinaryIO, frame: bytes) -> None:
    """Write all of it: a disk that runs full takes a part, says how much, and fails only when asked again."""
    left = memoryview(frame)
    while left:
        left = left[file.write(left) :]


def records(path: Path) -> Iterator[bytes]:
    """The records of a file in order; what lies between whole ones comes as `Damaged`."""
    content = path.read_bytes()
    at = 0
    while at < len(content):
        record = _record_at(content, at)
        if record is not None:
            yield record
            at += _FRAME.size + len(record)
            continue
        start = at
        while record is None and at < len(content):
            position = content.find(_MARK, at + 1)
            at = len(content) if position < 0 else position
            record = _record_at(content, at)
        yield DamagedBytes(content[start:at])


def _record_at(content: bytes, at: int) -> bytes | None:
    if at + _FRAME.size > len(content):
        return None
    mark, length, crc = _FRAME.unpack_from(content, at)
    record = content[at + _FRAME.size : at + _FRAME.size + length]
    return record if mark == _MARK and len(record) == length and zlib.crc32(record) == crc else None


def _lock_file(file: BinaryIO) -> bool:
    """Whether the file is now ours, and still in the folder; the lock ends with the process."""
    try:
        import fcntl
    except ImportError:  # not on Windows: there, give every process a spool of its own
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(file.fileno()).st_nlink > 0
    except OSError:
        return False
