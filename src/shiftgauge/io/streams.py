"""Standard input (`-`) and named pipes: copied to a temporary file, whose format the first bytes tell."""

from __future__ import annotations

import atexit
import shutil
import stat
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from shiftgauge.errors import STREAM_NAMES, FileError

#: First bytes of each format; anything else is CSV.
SIGNATURES = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\xff\xff\xff\xff": ".arrow",
    b"\x93NUMPY": ".npy",
    b"PK\x03\x04": ".npz",
    b"{": ".jsonl",
}
COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2"}
_copies: dict[str, Path] = {}


def is_stream(path: str | Path) -> bool:
    """Whether the path is `-` or a named pipe, such as `<(command)` in a shell: it can be read only once."""
    if str(path) == "-":
        return True
    try:
        return stat.S_ISFIFO(Path(path).stat().st_mode)
    except (OSError, ValueError):  # no such file, or not a valid name
        return False


def copy_stream(path: str | Path = "-") -> Path:
    """A temporary file with the content of the stream; read once, deleted when the process ends."""
    name = str(path)
    shown = "standard input" if name == "-" else name
    if name not in _copies:
        if name == "-" and sys.stdin is None:
            raise FileError("standard input: is closed; wanted scores, or the name of a file")
        folder = Path(tempfile.mkdtemp(prefix="shiftgauge-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        try:
            with nullcontext(sys.stdin.buffer) if name == "-" else Path(path).open("rb") as stream:
                head = stream.read(1 << 16)
                file = folder / f"input{_format(head, shown)}"
                with file.open("wb") as out:
                    out.write(head)
                    shutil.copyfileobj(stream, out)
        except OSError as problem:
            raise FileError(f"{shown}: cannot be read ({problem.strerror or problem})") from None
        _copies[name] = file
        STREAM_NAMES[str(file)] = shown
    return _copies[name]


def is_copy(file: Path) -> bool:
    """Whether the file is the copy of a stream."""
    return str(file) in STREAM_NAMES


def _format(head: bytes, name: str) -> str:
    """The file extension that belongs to the first bytes."""
    if not head:
        raise FileError(
            f"{name}: is empty; wanted scores, e.g. cat scores.csv | shiftgauge estimate val.csv -"
        )
    packed = next((tool for start, tool in COMPRESSED.items() if head.startswith(start)), None)
    if packed is not None:
        raise FileError(
            f"{name}: is compressed; wanted plain content, e.g. {packed} -dc FILE | shiftgauge estimate val.csv -"
        )
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \r\n")
    return next((suffix for start, suffix in SIGNATURES.items() if text.startswith(start)), ".csv")
