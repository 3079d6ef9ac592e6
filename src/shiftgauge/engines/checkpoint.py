"""Finished passes on disk, so that a driver that was killed continues where it was."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from shiftgauge._version import __version__
from shiftgauge.errors import FileError, InputError
from shiftgauge.rows import Engine, Part, Task
from shiftgauge.storage import replacing

#: What a result may consist of besides shiftgauge's own classes: nothing else is unpickled.
PLAIN_TYPES = {
    ("builtins", "complex"),
    ("builtins", "frozenset"),
    ("builtins", "set"),
    ("collections", "Counter"),
    ("collections", "OrderedDict"),
    ("datetime", "date"),
    ("datetime", "datetime"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy.core.numeric", "_frombuffer"),
}


class Checkpoint:
    """Another engine, whose results are saved in a folder: the same pass over the same data is not made twice.

    A pass is identified by its number, the task and the parts; if any of them differs, it is made anew.

    Args:
        engine: makes the passes.
        folder: where results are saved; created if it does not exist. It may be deleted at any time.

    Attributes:
        reused: how many passes were loaded instead of made.
    """

    def __init__(self, engine: Engine, folder: str | Path) -> None:
        self.engine, self.folder, self.keeps_order = engine, Path(folder), engine.keeps_order
        self.passes = self.reused = 0
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise FileError(f"{folder}: cannot be written ({problem.strerror})") from None
        self._parts: bytes | None = None

    def reduce(
        self, task: Task, parts: Sequence[Part], starts: Sequence[int], done: Callable[[int], None]
    ) -> Any:
        """Return the saved sum of this pass, or that of a new pass."""
        self.passes += 1
        if self._parts is None:
            self._parts = _digest_of_parts(parts)
        digest = hashlib.sha256(self._parts + digest_of(task)).hexdigest()[:32]
        file = self.folder / f"pass-{self.passes:04d}-{digest}.pickle"
        saved = _load(file)
        if saved is not None:
            self.reused += 1
            done(sum(part.rows for part in parts))
            return saved[0]
        result = self.engine.reduce(task, parts, starts, done)
        with replacing(file) as part:
            part.write_bytes(pickle.dumps((result,), protocol=5))
        return result


def checkpointed(engine: Engine, folder: str | Path, data: Any) -> Checkpoint:
    """The engine with checkpoints in a folder, which must not be among the data's own files."""
    if isinstance(data, str | Path) and Path(data).is_dir():
        within, place = Path(data).resolve(), Path(folder).resolve()
        # Readers of the data skip hidden folders.
        if place.is_relative_to(within) and not any(p[0] in "._" for p in place.relative_to(within).parts):
            raise InputError(
                f"checkpoint {folder}: lies in {data}, where every file is read as rows; wanted a folder elsewhere"
            )
    return Checkpoint(engine, folder)


def digest_of(task: Any) -> bytes:
    """A digest of a task, the same in every process that has the same task."""
    digest = hashlib.sha256(__version__.encode())
    _update(digest, task, ())
    return digest.digest()


def _update(digest: Any, value: Any, within: tuple[int, ...]) -> None:
    """Add a value to a digest: functions by their code, numbers by their bits, objects by their attributes.

    Pickles of equal values differ by whether these share objects, so they cannot be compared.
    """
    digest.update(f"{type(value).__qualname__}(".encode())
    if id(value) not in within:
        content = _content(value)
        if isinstance(content, bytes):
            digest.update(content)
        else:
            for item in content:
                _update(digest, item, (*within, id(value)))
    digest.update(b")")


def _content(value: Any) -> bytes | Iterable[Any]:
    """The bits of a plain value, or the values that another one consists of."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tolist() if value.dtype.hasobject else value.tobytes())
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, bytes):
        return value
    if value is None or isinstance(value, str | int | float | complex | np.generic):
        return repr(value).encode()
    if isinstance(value, CodeType):
        return (value.co_code, value.co_consts, value.co_names)
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return (value.__module__, value.__code__, value.__defaults__, value.__kwdefaults__, cells)
    if isinstance(value, MethodType):
        return (value.__func__, value.__self__)
    if isinstance(value, partial):
        return (value.func, value.args, value.keywords)
    if hasattr(value, "__qualname__"):  # classes and built-in functions
        return f"{value.__module__}.{value.__qualname__}".encode()
    return list(getattr(value, "__dict__", {}).items())


def _digest_of_parts(parts: Sequence[Part]) -> bytes:
    """A digest of the parts: names, rows and marks; of data without marks also the first rows."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{part.name} {part.rows} {getattr(part, 'mark', '')}\n".encode())
    if parts and not getattr(parts[0], "mark", ""):
        first = next(iter(parts[0].read()), None)
        digest.update(b"" if first is None else first.scores.tobytes())
    return digest.digest()


class PlainUnpickler(pickle.Unpickler):
    """Unpickles plain values and shiftgauge's own classes, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """The class of that name, if it is one of those."""
        if (module, name) in PLAIN_TYPES:
            return super().find_class(module, name)
        if module.split(".")[0] == "shiftgauge" and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is not for checkpoints")


def _load(file: Path) -> tuple[Any] | None:
    """The content of a file, in a tuple; None if there is none that can be used."""
    try:
        with file.open("rb") as opened:
            saved: tuple[Any] = PlainUnpickler(opened).load()
    except Exception:  # missing, damaged, or of another version: the pass is made again
        return None
    return saved
