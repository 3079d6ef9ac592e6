"""Files that are written whole or not at all, numpy's own files without pickle, and samples as `.npz`."""

from __future__ import annotations

import contextlib
import math
import os
import uuid
import zipfile
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from shiftgauge.errors import FileError, InputError

Array = npt.NDArray[Any]
#: What a file of a sample may hold; everything else in it is left alone.
SAMPLE_KEYS = ("logits", "probs", "labels", "classes", "weights", "predictions", "second", "ids")


@contextlib.contextmanager
def replacing(path: str | Path, suffix: str = "") -> Iterator[Path]:
    """A name to write to, which becomes `path` when the block ends well and vanishes when it does not.

    The name is random, so that threads, processes and machines that share a volume never meet; it is hidden,
    so that a folder of parts that is read meanwhile does not see it. A link is followed, and the permissions
    of a file that is replaced are kept.

    Args:
        path: where the finished file is to be.
        suffix: what the temporary name ends in, for writers that go by it.
    """
    file = Path(os.path.realpath(path))
    part = file.with_name(f".{file.name[:40]}.{uuid.uuid4().hex}.part{suffix}")
    try:
        part.touch(exist_ok=False)
        yield part
        _settle(part, file)
    except OSError as problem:
        raise FileError(f"{path}: cannot be written ({problem.strerror or problem})") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _settle(part: Path, file: Path) -> None:
    """On the disk before it has its name: a machine that stops leaves the old file or the new one."""
    with contextlib.suppress(FileNotFoundError):
        part.chmod(file.stat().st_mode & 0o7777)
    with part.open("rb+") as opened:
        os.fsync(opened.fileno())
    os.replace(part, file)


def write_text(path: str | Path, text: str) -> None:
    """Write a text as UTF-8, whole or not at all; what UTF-8 cannot spell is written out."""
    with replacing(path) as part:
        part.write_bytes(text.encode("utf-8", "backslashreplace"))


def check_writable(path: str | Path) -> Path:
    """Refuse, before any work is done, a name that nothing can be written to."""
    file = Path(path)
    try:
        if file.is_dir():
            raise FileError(f"{path}: is a folder; wanted the name of a file")
        if not file.parent.is_dir():
            raise FileError(f"{path}: the folder {file.parent} does not exist")
        probe = Path(os.path.realpath(file)).parent / f".{uuid.uuid4().hex}.part"
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as problem:
        raise FileError(f"{path}: cannot be written ({problem.strerror or problem})") from None
    return file


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
                _check_header(member, info.file_size, f"{path}: {name!r}")
            with archive.open(info) as member:
                held[name] = npy.read_array(member, allow_pickle=False)
    return held, names


def _check_header(member: IO[bytes], size: int, what: str) -> None:
    """Refuse objects, and a header that promises more than the member holds, before memory is reserved for it."""
    version = npy.read_magic(member)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(member)
    if dtype.hasobject:
        raise FileError(
            f"{what} holds pickled objects, which are never loaded; save plain numbers or texts, such as "
            "labels=labels.astype(str)"
        )
    if math.prod(shape) * dtype.itemsize > size:
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


def save_sample(path: str | Path, sample: Mapping[str, Any]) -> None:
    """Write a sample's fields; labels and predictions as names where classes have names."""
    file = Path(path)
    if file.suffix.lower() != ".npz":
        raise FileError(f"{path}: wanted a name ending in .npz")
    classes = sample["classes"]
    arrays: dict[str, Any] = {sample["kind"]: sample["scores"]}
    names = None if classes is None else _plain_array(classes, "classes", path)
    if names is not None:
        arrays["classes"] = names
    for key in ("labels", "second", "predictions"):
        values = sample.get(key)
        if values is not None and (key != "predictions" or sample["decided"] is not None):
            arrays[key] = values if names is None else names[values]
    labelled = sample.get("labelled")
    if labelled is not None:  # of a target: missing where a row has no label
        column = (
            np.full(len(sample["scores"]), np.nan)
            if names is None
            else np.full(len(sample["scores"]), "", object)
        )
        column[labelled.keys] = labelled.classes if names is None else names[labelled.classes]
        arrays["labels"] = column if names is None else column.astype(str)
    for key in ("weights", "ids"):
        if sample[key] is not None:
            arrays[key] = _plain_array(sample[key], key, path)
    write_npz(path, arrays)


def _plain_array(values: Any, what: str, path: str | Path) -> npt.NDArray[Any]:
    """The values in numpy's own types, if nothing is lost by it."""
    given = list(values)
    array = np.array(given)
    if array.dtype.kind not in "fiubUM" or array.ndim != 1 or not _same(array.tolist(), given):
        raise FileError(
            f"{path}: {what} of several types, or of none that a file knows; wanted all texts or all numbers"
        )
    return array


def _same(left: list[Any], right: list[Hashable]) -> bool:
    plain = [v.item() if isinstance(v, np.generic) else v for v in right]
    return all(type(a) is type(b) and (a == b or a != a) for a, b in zip(left, plain, strict=True))


@contextlib.contextmanager
def name_file_in_errors(path: str | Path) -> Iterator[None]:
    """Put the file's name before what is wrong with its content."""
    try:
        yield
    except InputError as problem:
        raise problem if isinstance(problem, FileError) else FileError(f"{path}: {problem}") from None


def load_sample(path: str | Path, where: str) -> dict[str, Any]:
    """The arguments for the constructor of a `"source"` or a `"target"`."""
    held, names = read_npz(Path(path), SAMPLE_KEYS)
    kinds = [key for key in ("logits", "probs") if key in held]
    wrong = "no scores" if not kinds else "both logits and probs" if len(kinds) == 2 else ""
    if where == "source" and "labels" not in held:
        wrong = wrong or "no labels"
    if wrong:
        raise FileError(
            f"{path}: holds {wrong} (found {', '.join(names[:8]) or 'nothing'}); wanted a {where} that save() wrote"
        )
    if "classes" in held:
        held["classes"] = held["classes"].tolist()
    held.pop("second" if where == "source" else "labels", None)
    return dict(held)
