"""Finished passes kept on disk, so that a driver that was killed goes on where it was."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from shiftgauge._files import replacing
from shiftgauge._version import __version__
from shiftgauge.errors import FileError
from shiftgauge.scans import Engine, Part, Task

#: What a result may be made of beside shiftgauge's own classes: nothing else is ever made from a file.
PLAIN = {
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
    """Another engine, whose results are kept in a folder: the same pass over the same data is not made twice.

    A pass is known by its number, by what was asked and by the parts; where any of them differs it is made.

    Args:
        engine: who makes the passes.
        folder: where they are kept; made if it is not there. It may be deleted at any time.
    """

    def __init__(self, engine: Engine, folder: str | Path) -> None:
        self.engine, self.folder = engine, Path(folder)
        self.number = self.kept = 0
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise FileError(f"{folder}: cannot be written ({problem.strerror})") from None
        self._parts: bytes | None = None

    def reduce(
        self, task: Task, parts: Sequence[Part], starts: Sequence[int], done: Callable[[int], None]
    ) -> Any:
        """The kept sum of this pass, or a new one."""
        self.number += 1
        if self._parts is None:
            self._parts = _fingerprint(parts)
        asked = hashlib.sha256(self._parts + digest_of(task)).hexdigest()[:32]
        file = self.folder / f"pass-{self.number:04d}-{asked}.pickle"
        held = _loaded(file)
        if held is not None:
            self.kept += 1
            done(sum(part.rows for part in parts))
            return held[0]
        result = self.engine.reduce(task, parts, starts, done)
        with replacing(file) as part:
            part.write_bytes(pickle.dumps((result,), protocol=5))
        return result


def digest_of(task: Any) -> bytes:
    """A digest of what is asked, the same in every process that asks the same."""
    found = hashlib.sha256(__version__.encode())
    _spell(found, task, ())
    return found.digest()


def _spell(found: Any, value: Any, within: tuple[int, ...]) -> None:
    """Write a value into a digest: code and what it holds, numbers by their bits, objects by what they consist of.

    Pickles would not do: they tell equal things apart by whether they are one object or two.
    """
    found.update(f"{type(value).__qualname__}(".encode())
    if id(value) not in within:
        held = _content(value)
        if isinstance(held, bytes):
            found.update(held)
        else:
            for item in held:
                _spell(found, item, (*within, id(value)))
    found.update(b")")


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


def _fingerprint(parts: Sequence[Part]) -> bytes:
    """A digest of the parts: names, rows, and their marks; of data without a mark, its first rows."""
    found = hashlib.sha256()
    for part in parts:
        found.update(f"{part.name} {part.rows} {getattr(part, 'mark', '')}\n".encode())
    if parts and not getattr(parts[0], "mark", ""):
        first = next(iter(parts[0].read()), None)
        found.update(b"" if first is None else first.scores.tobytes())
    return found.digest()


class _Plain(pickle.Unpickler):
    """Makes plain values and shiftgauge's own classes, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """The class of that name, if it is one of those."""
        if (module, name) in PLAIN:
            return super().find_class(module, name)
        if module.split(".")[0] == "shiftgauge" and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is not for checkpoints")


def _loaded(file: Path) -> tuple[Any] | None:
    """What a file holds, in a tuple; None where there is none that can be used."""
    try:
        with file.open("rb") as opened:
            held: tuple[Any] = _Plain(opened).load()
    except FileNotFoundError:
        return None
    except Exception:  # damaged, or of another version: the pass is made again
        return None
    return held
