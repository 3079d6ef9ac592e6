"""Streams as files: standard input (`-`) and named pipes, in any form that their first bytes tell."""

from __future__ import annotations

import atexit
import bz2
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from shiftgauge.errors import FileError

NAME = "standard input"
#: How the content of a form begins; what begins with none of these is CSV.
BEGINNINGS = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\xff\xff\xff\xff": ".arrow",
    b"\x93NUMPY": ".npy",
    b"PK\x03\x04": ".npz",
    b"{": ".jsonl",
}
PACKED = {b"\x1f\x8b": ".gz", b"BZh": ".bz2"}
_spooled: dict[str, Path] = {}


def is_stdin(path: str | Path) -> bool:
    """Whether the path is `-`."""
    return str(path) == "-"


def is_stream(path: str | Path) -> bool:
    """Whether the path is `-` or a named pipe, as `<(command)` in a shell makes one: it can be read only once."""
    if is_stdin(path):
        return True
    try:
        return stat.S_ISFIFO(Path(path).stat().st_mode)
    except (OSError, ValueError):  # no such file, or no such name
        return False


def spooled(path: str | Path = "-") -> Path:
    """The stream in a temporary file, read once and gone when the process ends."""
    name = str(path)
    if name not in _spooled:
        folder = Path(tempfile.mkdtemp(prefix="shiftgauge-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        try:
            with nullcontext(sys.stdin.buffer) if is_stdin(path) else Path(path).open("rb") as stream:
                _spooled[name] = _received(stream, folder, _called(name))
        except OSError as problem:
            raise FileError(f"{_called(name)}: cannot be read ({problem.strerror or problem})") from None
    return _spooled[name]


def _called(name: str) -> str:
    return NAME if is_stdin(name) else name


def _received(stream: Any, folder: Path, name: str) -> Path:
    head = stream.read(1 << 16)
    if not head:
        raise FileError(
            f"{name}: is empty; wanted scores, e.g. cat scores.csv | shiftgauge estimate val.csv -"
        )
    file = folder / f"input{_form(head)}"
    with file.open("wb") as out:
        out.write(head)
        shutil.copyfileobj(stream, out)
    return file


def _form(head: bytes) -> str:
    """The ending that a file of such a beginning would have."""
    packing = next((end for start, end in PACKED.items() if head.startswith(start)), "")
    if packing:
        unpack: Any = zlib.decompressobj(31) if packing == ".gz" else bz2.BZ2Decompressor()
        with suppress(OSError, zlib.error):  # damaged: whoever reads it says so
            return _form(unpack.decompress(head)) + packing
        return f".csv{packing}"
    plain = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \r\n")
    form = next((form for start, form in BEGINNINGS.items() if plain.startswith(start)), ".csv")
    return ".pt" if form == ".npz" and b"/data.pkl" in head else form


def plainly(text: str) -> str:
    """A text in which temporary files are called by the names of their streams."""
    for name, file in _spooled.items():
        text = text.replace(str(file), _called(name))
    return text


@contextmanager
def said_plainly() -> Iterator[None]:
    """In messages, temporary files are called by the names of their streams."""
    try:
        yield
    except FileError as problem:
        if not _spooled:
            raise
        raise FileError(plainly(str(problem))) from None
