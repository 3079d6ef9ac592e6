"""Frozen records as CSV and back: one codec for every flat table."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from shiftgauge.errors import FileError
from shiftgauge.experiments._store import write_text

R = TypeVar("R")
_READ: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": lambda text: text == "True",
}


def to_csv(kind: type[R], records: Iterable[R]) -> str:
    """A header and a line a record; floats with six decimals."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(kind)], lineterminator="\n")  # type: ignore[arg-type]
    writer.writeheader()
    for record in records:
        values: dict[str, Any] = asdict(record)  # type: ignore[call-overload]
        writer.writerow({key: f"{v:.6f}" if isinstance(v, float) else v for key, v in values.items()})
    return text.getvalue()


def write_records(path: Path, kind: type[R], records: Iterable[R]) -> None:
    """Write them whole or not at all."""
    write_text(path, to_csv(kind, records))


def read_records(path: Path, kind: type[R]) -> list[R]:
    """Read what ``write_records`` wrote."""
    readers = {field.name: _READ[str(field.type)] for field in fields(kind)}  # type: ignore[arg-type]
    try:
        with path.open(newline="") as file:
            return [
                kind(**{key: read(line[key]) for key, read in readers.items()})
                for line in csv.DictReader(file)
            ]
    except FileNotFoundError:
        raise FileError(f"{path} does not exist; run `shiftgauge bench run` first") from None
    except (KeyError, ValueError, TypeError) as error:
        raise FileError(f"{path} is not a table of {kind.__name__} records ({error!r})") from None
