"""Plain or compressed files, by their last ending."""

from __future__ import annotations

import bz2
import gzip
import io
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

#: What may stand behind the ending of a CSV or of JSON lines.
ENDINGS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}


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
