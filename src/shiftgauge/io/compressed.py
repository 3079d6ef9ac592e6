"""Plain or compressed files, by their last ending."""

from __future__ import annotations

import bz2
import gzip
import io
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast


class _Bz2(io.RawIOBase):
    """The content of a bz2 file. Unlike `bz2.open` it refuses bytes behind the last stream, as gzip does."""

    def __init__(self, path: Path, mode: str) -> None:
        self._file = path.open(mode)
        self._stream = bz2.BZ2Decompressor()

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill the buffer with some of the content; 0 at its end."""
        while True:
            if self._stream.eof:
                packed = self._stream.unused_data or self._file.read(io.DEFAULT_BUFFER_SIZE)
                if not packed:
                    return 0
                self._stream = bz2.BZ2Decompressor()
            elif self._stream.needs_input:
                packed = self._file.read(io.DEFAULT_BUFFER_SIZE)
                if not packed:
                    raise EOFError("it ends before the end of its last stream")
            else:
                packed = b""
            plain = self._stream.decompress(packed, len(buffer))
            if plain:
                buffer[: len(plain)] = plain
                return len(plain)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def _open_bz2(path: Path, mode: str) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_Bz2(path, mode)))


#: What may stand behind the ending of a CSV or of JSON lines.
ENDINGS: dict[str, Any] = {".gz": gzip.open, ".bz2": _open_bz2}


def opened_binary(path: Path) -> BinaryIO:
    """The file's content, uncompressed; Python's own readers notice a file that is cut or damaged."""
    opener = ENDINGS.get(path.suffix.lower())
    return cast(BinaryIO, path.open("rb") if opener is None else opener(path, "rb"))


def opened_text(path: Path) -> TextIO:
    """The same as text; a mark of byte order at the beginning is left out."""
    return io.TextIOWrapper(opened_binary(path), encoding="utf-8-sig", newline="")


def ending(path: Path) -> str:
    """The ending that tells the form, in small letters, without that of the compression.

    >>> ending(Path("scores.CSV.gz"))
    '.csv'
    """
    if path.suffix.lower() in ENDINGS:
        return Path(path.stem).suffix.lower()
    return path.suffix.lower()
