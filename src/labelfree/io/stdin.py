"""Standard input as a file: `-`, in any form that its first bytes tell."""

from __future__ import annotations

import atexit
import bz2
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from labelfree.errors import FileError

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
_spooled: list[Path] = []


def is_stdin(path: str | Path) -> bool:
    """Whether the path is `-`."""
    return str(path) == "-"


def spooled() -> Path:
    """Standard input in a temporary file, read once and gone when the process ends."""
    if not _spooled:
        folder = Path(tempfile.mkdtemp(prefix="labelfree-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _spooled.append(_received(folder))
    return _spooled[0]


def _received(folder: Path) -> Path:
    stream = sys.stdin.buffer
    head = stream.read(1 << 16)
    if not head:
        raise FileError(
            f"{NAME}: is empty; wanted scores, e.g. cat scores.csv | labelfree estimate val.csv -"
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
    """A text in which the temporary file is called standard input."""
    return text.replace(str(_spooled[0]), NAME) if _spooled else text


@contextmanager
def said_plainly() -> Iterator[None]:
    """In messages, the temporary file is called standard input."""
    try:
        yield
    except FileError as problem:
        if not _spooled:
            raise
        raise FileError(plainly(str(problem))) from None
