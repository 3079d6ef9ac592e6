"""Plain or compressed files, by their last suffix."""

from __future__ import annotations

import bz2
import gzip
import io
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast


class _Bz2(io.RawIOBase):
    """The content of a bz2 file. Unlike `bz2.open` it refuses bytes after the last stream, as gzip does."""

    def __init__(self, path: Path, mode: str) -> None:
        self._file = path.open(mode)
        self._stream = bz2.BZ2Decompressor()

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read some of the content into the buffer; 0 at its end."""
        while True:
            if self._stream.eof:
                data = self._stream.unused_data or self._file.read(io.DEFAULT_BUFFER_SIZE)
                if not data:
                    return 0
                self._stream = bz2.BZ2Decompressor()
            elif self._stream.needs_input:
                data = self._file.read(io.DEFAULT_BUFFER_SIZE)
                if not data:
                    raise EOFError("it ends before the end of its last stream")
            else:
                data = b""
            content = self._stream.decompress(data, len(buffer))
            if content:
                buffer[: len(content)] = content
                return len(content)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def _open_bz2(path: Path, mode: str) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_Bz2(path, mode)))


#: Suffixes that may follow that of CSV or JSON lines.
ENDINGS: dict[str, Any] = {".gz": gzip.open, ".bz2": _open_bz2}


def open_binary(path: Path) -> BinaryIO:
    """The decompressed content of a file; Python's readers detect truncated and damaged files."""
    opener = ENDINGS.get(path.suffix.lower())
    return cast(BinaryIO, path.open("rb") if opener is None else opener(path, "rb"))


def open_text(path: Path) -> TextIO:
    """The same as text, without a byte order mark."""
    return io.TextIOWrapper(open_binary(path), encoding="utf-8-sig", newline="")


def format_suffix(path: Path) -> str:
    """The suffix that tells the format, in lower case, without that of the compression.

    >>> format_suffix(Path("scores.CSV.gz"))
    '.csv'
    """
    if path.suffix.lower() in ENDINGS:
        return Path(path.stem).suffix.lower()
    return path.suffix.lower()
