"""Samples as files: an `.npz` with the keys that the constructors call their arguments by."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge._npz import read_npz, write_npz
from shiftgauge.errors import FileError, InputError

#: What a file of a sample may hold; everything else in it is left alone.
KEYS = ("logits", "probs", "labels", "classes", "weights", "predictions", "second", "ids")


def save(path: str | Path, sample: Mapping[str, Any]) -> None:
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
        taken = sample.get(key)
        if taken is not None and (key != "predictions" or sample["decided"] is not None):
            arrays[key] = taken if names is None else names[taken]
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


@contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Put the file's name before what is wrong with its content."""
    try:
        yield
    except InputError as problem:
        raise problem if isinstance(problem, FileError) else FileError(f"{path}: {problem}") from None


def load(path: str | Path, where: str) -> dict[str, Any]:
    """The arguments for the constructor of a `"source"` or a `"target"`."""
    held, names = read_npz(Path(path), KEYS)
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
