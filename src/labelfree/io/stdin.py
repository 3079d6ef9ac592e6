"""Standard input as a file: `-`, in any form that its first bytes tell."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    packed = head[:2] == b"\x1f\x8b"
    form = next(
        (form for start, form in BEGINNINGS.items() if head.lstrip(b" \r\n").startswith(start)), ".csv"
    )
    file = folder / f"input{'.csv.gz' if packed else form}"
    with file.open("wb") as out:
        out.write(head)
        shutil.copyfileobj(stream, out)
    return file


@contextmanager
def said_plainly() -> Iterator[None]:
    """In messages, the temporary file is called standard input."""
    try:
        yield
    except FileError as problem:
        if not _spooled:
            raise
        raise FileError(str(problem).replace(str(_spooled[0]), NAME)) from None
