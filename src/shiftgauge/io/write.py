"""Write tables as CSV, Parquet, Arrow or npz, by the file's suffix; a file is written completely or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge.errors import FileError
from shiftgauge.storage import check_writable, replacing, write_npz

ENDINGS = (".csv", ".parquet", ".arrow", ".feather", ".npz")
#: First characters of texts that a spreadsheet reads as formulas.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def check_ending(path: str | Path) -> Path:
    """Refuse, before any work is done, a path that no table can be written to."""
    file = Path(path)
    if file.suffix.lower() not in ENDINGS:
        raise FileError(
            f"{path}: cannot tell its format from {repr(file.suffix) if file.suffix else 'its name'}; "
            f"wanted a name ending in {', '.join(ENDINGS)}"
        )
    return check_writable(file)


def write_table(path: str | Path, columns: Mapping[str, Any]) -> None:
    """Write named columns of equal length; an existing file is replaced only when the new one is complete.

    In a CSV an apostrophe is put before texts that a spreadsheet would read as formulas.
    """
    suffix = check_ending(path).suffix.lower()
    if suffix == ".npz":
        write_npz(path, {name: np.asarray(values) for name, values in columns.items()}, compressed=True)
        return
    import pyarrow as pa

    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    with replacing(path, suffix) as part:
        if suffix == ".csv":
            from pyarrow import csv

            csv.write_csv(_without_formulas(table), part)
        elif suffix == ".parquet":
            from pyarrow import parquet

            parquet.write_table(table, part, write_page_checksum=True)
        else:
            from pyarrow import feather

            feather.write_feather(table, part)


def _without_formulas(table: Any) -> Any:
    import pyarrow as pa
    from pyarrow import compute

    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            column = table.column(place)
            risky = compute.is_in(compute.utf8_slice_codeunits(column, 0, 1), pa.array(FORMULA, field.type))
            marked = compute.binary_join_element_wise(
                pa.scalar("'", field.type), column, pa.scalar("", field.type)
            )
            table = table.set_column(place, field.name, compute.if_else(risky, marked, column))
    return table


def write_parts(path: str | Path, tables: Iterable[Sequence[Mapping[str, Any]]]) -> None:
    """Write tables as a folder of Parquet files, `part-00000.parquet` and so on; it appears when complete.

    Args:
        path: the folder, which must not exist.
        tables: the tables of each part, all with the same columns.
    """
    import shutil
    import tempfile

    import pyarrow as pa
    from pyarrow import parquet

    folder = Path(path)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.absolute().parent))
    try:
        for number, parts in enumerate(tables):
            table = pa.concat_tables(
                [pa.table({name: pa.array(values) for name, values in one.items()}) for one in parts]
            )
            parquet.write_table(table, temporary / f"part-{number:05d}.parquet", write_page_checksum=True)
        temporary.chmod(0o755)
        temporary.rename(folder)
    except OSError as problem:
        raise FileError(f"{path}: cannot be written ({problem.strerror or problem})") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
