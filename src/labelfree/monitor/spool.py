"""The client's spool: what was accepted is on the disk until the server has it.

A spool is a folder of files; each process appends to files of its own, one framed record per call, and deletes a
file once everything in it was acknowledged. What a killed process left behind is adopted by the next one. Records
that reach the server twice are no harm: it knows rows by their ids.
"""

from __future__ import annotations

import os
import struct
import threading
import uuid
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from labelfree.errors import FileError, InputError

_FRAME = struct.Struct("<II")  # length, crc32


class Spool:
    """Records of bytes, kept in order.

    Args:
        folder: made where it is not there.
        most: bytes; a full spool accepts nothing more, and says so.
        fsync: whether a record must survive the machine's power going, not only the process's end.

    >>> import tempfile
    >>> spool = Spool(tempfile.mkdtemp())
    >>> spool.append(b"one"); spool.append(b"two")
    >>> [list(records(file)) for file in spool.ready()]
    [[b'one', b'two']]
    """

    def __init__(self, folder: str | Path, most: int = 1 << 30, *, fsync: bool = False) -> None:
        self.folder, self.most, self.fsync = Path(folder), most, fsync
        try:
            (self.folder / "refused").mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise FileError(f"{folder}: cannot be used as a spool ({problem.strerror})") from None
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._size = sum(file.stat().st_size for file in self.folder.glob("*.spool"))
        self._mine: dict[Path, BinaryIO] = {}

    def append(self, record: bytes) -> None:
        """Accept a record; it is on the disk when this returns."""
        with self._lock:
            if self._size + len(record) > self.most:
                raise InputError(
                    f"the spool {self.folder} is full ({self._size:,} bytes wait for the monitor); "
                    "nothing was accepted: is the monitor reachable?"
                )
            if self._file is None:
                self._file = self._new()
            try:
                _write(self._file, _FRAME.pack(len(record), zlib.crc32(record)) + record)
                if self.fsync:
                    os.fsync(self._file.fileno())
            except OSError as problem:
                # What was half written ends its file: the next record begins a new one.
                self._file = None
                raise FileError(
                    f"{self.folder}: cannot be written ({problem.strerror}); not accepted"
                ) from None
            self._size += len(record)

    def _new(self) -> BinaryIO:
        # Named by time, so that files are sent in the order they were written.
        import time

        path = self.folder / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.spool"
        file = path.open("wb", buffering=0)
        _lock_file(file)
        self._mine[path] = file
        return file

    def ready(self) -> list[Path]:
        """The files to send, oldest first: ours, closed for appending now, and those of processes that ended."""
        with self._lock:
            self._file = None
            for path in self.folder.glob("*.spool"):
                if path not in self._mine:
                    self._adopt(path)
            return sorted(self._mine)

    def _adopt(self, path: Path) -> None:
        with suppress(OSError):
            file = path.open("rb")
            if _lock_file(file):
                self._mine[path] = file
            else:
                file.close()

    def done(self, path: Path) -> None:
        """Everything in this file is at the server."""
        with self._lock:
            size = path.stat().st_size if path.exists() else 0
            path.unlink(missing_ok=True)
            file = self._mine.pop(path, None)
            if file is not None:
                file.close()
            self._size = max(0, self._size - size)

    def refuse(self, record: bytes, reason: str) -> Path:
        """Keep a record that the server will never take, beside what it said."""
        path = self.folder / "refused" / f"{uuid.uuid4().hex}.record"
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
    """The whole records of a file; one that was cut off in the middle was never accepted."""
    content = path.read_bytes()
    at = 0
    while at + _FRAME.size <= len(content):
        length, crc = _FRAME.unpack_from(content, at)
        record = content[at + _FRAME.size : at + _FRAME.size + length]
        if len(record) < length or zlib.crc32(record) != crc:
            return
        yield record
        at += _FRAME.size + length


def _lock_file(file: object) -> bool:
    """Whether the file is now ours; a process that ends lets go of its files by itself."""
    try:
        import fcntl
    except ImportError:  # not on Windows: there, give every process a spool of its own
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # type: ignore[arg-type]
        return True
    except OSError:
        return False
