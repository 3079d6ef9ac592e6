"""The tables of metadata of the WILDS data sets (Koh et al., 2021)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftgauge.errors import FileError
from shiftgauge.experiments.datasets.base import ShiftedSet
from shiftgauge.experiments.examples import Examples

Columns = dict[str, NDArray[Any]]


def read_columns(path: Path, columns: dict[str, str]) -> Columns:
    """Read the named columns of a CSV file; ``columns`` gives each one's kind: ``text``, ``int`` or ``float``."""
    import pyarrow as pa
    from pyarrow import csv

    kinds = {"text": pa.string(), "int": pa.int64(), "float": pa.float64()}
    convert = csv.ConvertOptions(
        include_columns=list(columns),
        column_types={name: kinds[kind] for name, kind in columns.items()},
        strings_can_be_null=False,
    )
    try:
        table = csv.read_csv(
            path, parse_options=csv.ParseOptions(newlines_in_values=True), convert_options=convert
        )
    except FileNotFoundError:
        raise FileError(f"{path} does not exist") from None
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise FileError(
            f"{path} is not the metadata WILDS distributes ({str(error).splitlines()[0]})"
        ) from None
    return {name: table[name].to_numpy(zero_copy_only=False) for name in columns}


def rows_where(mask: NDArray[np.bool_], what: str, path: Path) -> NDArray[np.int64]:
    """The rows of a split; an empty one is an error."""
    rows = np.flatnonzero(mask)
    if not len(rows):
        raise FileError(f"{path} has no row in the split {what!r}; is the file whole?")
    return rows.astype(np.int64)


def natural_shifts(
    root: Path, read: Callable[[Path, str], Examples], files: Sequence[str]
) -> list[ShiftedSet]:
    """The official splits of other hospitals, experiments or reviewers: val and test."""
    paths = tuple(root / file for file in files)
    return [ShiftedSet(part, "natural", partial(read, root, part), paths) for part in ("val", "test")]
