"""numpy's own files, read with suspicion: nothing is unpickled, nothing is reserved that is not there."""

from __future__ import annotations

import math
import zipfile
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from shiftgauge._files import replacing
from shiftgauge.errors import FileError

Array = npt.NDArray[Any]


def read_npy(path: Path) -> Array:
    """One array, memory-mapped: it is read from disk only where it is looked at."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as problem:  # whatever numpy and the zip reader make of it, the file is refused
        raise FileError(refusal(path, problem, "npy")) from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise FileError(f"{path}: is an .npz archive; rename it to .npz")
    if isinstance(array, np.memmap) and array.offset + array.nbytes < path.stat().st_size:
        raise FileError(f"{path}: more bytes follow its first array; wanted one array in an .npy file")
    return array


def read_npz(path: Path, keys: Collection[str]) -> tuple[dict[str, Array], list[str]]:
    """The arrays of an `.npz` under these keys, and the names of all that it holds; no other is read."""
    try:
        with path.open("rb") as file:
            if file.read(6) == b"\x93NUMPY":
                raise FileError(f"{path}: is a single .npy array; rename it to .npy")
            with zipfile.ZipFile(file) as archive:
                return _members(archive, keys, path)
    except FileError:
        raise
    except Exception as problem:  # zlib and the zip reader raise their own on damaged data
        raise FileError(refusal(path, problem, "npz")) from None


def _members(
    archive: zipfile.ZipFile, keys: Collection[str], path: Path
) -> tuple[dict[str, Array], list[str]]:
    names = [name.removesuffix(".npy") for name in archive.namelist()]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise FileError(f"{path}: holds the key {twice!r} twice; wanted each once; save it again")
    held = {}
    for name, info in zip(names, archive.infolist(), strict=True):
        if name in keys:
            with archive.open(info) as member:
                _check_size(member, info.file_size)
            with archive.open(info) as member:
                held[name] = npy.read_array(member, allow_pickle=False)
    return held, names


def _check_size(member: IO[bytes], size: int) -> None:
    """Refuse a header that promises more than the member holds, before memory is reserved for it."""
    version = npy.read_magic(member)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(member)
    if not dtype.hasobject and math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"its header promises {shape} values of {dtype}, more than there are")


def write_npz(path: str | Path, arrays: Mapping[str, Any], compressed: bool = False) -> None:
    """Write arrays by name, whole or not at all."""
    with replacing(path) as part, part.open("wb") as file:
        (np.savez_compressed if compressed else np.savez)(file, **arrays)


def refusal(path: Path, problem: BaseException, kind: str) -> str:
    """Why a file of that kind cannot be read, and what to try."""
    text = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
    if "allow_pickle" in text or "Object arrays" in text:
        return (
            f"{path}: not a .{kind} file of plain numbers, or it holds pickled objects, which are never loaded; "
            "save plain arrays with numpy.savez"
        )
    if isinstance(problem, OSError) and problem.strerror:
        return f"{path}: cannot be read ({problem.strerror})"
    return f"{path}: cannot be read as .{kind} ({text[:120].rstrip('.')}); is it complete?"
