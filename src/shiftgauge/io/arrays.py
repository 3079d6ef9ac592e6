"""Scores in numpy's and torch's own files: `.npz`, `.npy`, `.pt`; and `.npy` files in parts."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from shiftgauge.errors import FileError, optional
from shiftgauge.io.files import FileStamp, files_behind
from shiftgauge.io.form import Content, Form, refuse_misspelt
from shiftgauge.io.layout import Layout
from shiftgauge.io.parts import join_parts, rows_per_part
from shiftgauge.rows import Block, Part, row_location
from shiftgauge.storage import SAMPLE_KEYS, read_npy, read_npz, refusal


def read_mapping(path: Path, keys: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """The arrays of an `.npz` or the tensors of a `.pt` file under these keys, and the names of all it holds."""
    if path.suffix.lower() == ".npz":
        return read_npz(path, keys)
    held = _read_torch(path)
    return {key: held[key] for key in held if key in keys}, list(held)


def read_scores_npy(path: Path, form: Form) -> Content:
    """Scores alone in one or several `.npy` files; whether logits or probabilities must be said."""
    kind = _npy_kind(path, form)
    files = files_behind(path)
    if len(files) == 1:
        return Content(scores=read_npy(files[0]), kind=kind)
    npy_parts(path, form)  # the same columns in all
    return Content(scores=np.concatenate([read_npy(file) for file in files]), kind=kind)


def _npy_kind(path: Path, form: Form) -> str:
    if form.kind is None:
        raise FileError(
            f"{path}: a .npy file does not say what it holds; pass --logits or --probs (kind='logits')"
        )
    return form.kind


def read_scores_mapping(path: Path, form: Form) -> Content:
    """Scores with labels, class names and the rest, by key; no other key is read."""
    held, names = read_mapping(path, SAMPLE_KEYS)
    refuse_misspelt(names, SAMPLE_KEYS, path, "key")
    kinds = [key for key in ("logits", "probs") if key in held]
    if not kinds:
        found = ", ".join(repr(key) for key in names[:8]) or "nothing"
        raise FileError(f"{path}: no key 'logits' or 'probs'; found {found}")
    classes = held.get("classes")
    if classes is not None and np.ndim(classes) != 1:
        raise FileError(f"{path}: 'classes' has shape {tuple(np.shape(classes))}; wanted one name per column")
    kind = form.choose(kinds, path)
    return Content(
        scores=held[kind],
        kind=kind,
        labels=held.get("labels"),
        classes=None if classes is None else tuple(np.asarray(classes).tolist()),
        weights=held.get("weights"),
        predictions=None if form.prediction is None else held.get("predictions"),
        second=held.get("second"),
        ids=held.get("ids"),
    )


def _read_torch(path: Path) -> dict[str, Any]:
    torch = optional("torch", extra="torch", purpose=f"{path}: reading torch files")
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:  # torch raises many kinds; whatever it is, the file is refused
        text = (str(problem).strip().splitlines() or [type(problem).__name__])[0].split(". ")[0][:120]
        raise FileError(
            f"{path}: refused by torch's safe loader ({text}); wanted a dictionary of plain tensors"
        ) from None
    if not isinstance(held, dict):
        raise FileError(
            f"{path}: holds a {type(held).__name__}; wanted a dictionary with 'logits' or 'probs'"
        )
    return {str(key): value for key, value in held.items()}


@dataclass(frozen=True)
class NpyFile:
    """A `.npy` file of (n, k) numbers as its header describes it; they begin at byte `offset`."""

    stamp: FileStamp
    n: int
    k: int
    offset: int
    dtype: np.dtype[Any]
    fortran: bool


@dataclass(frozen=True)
class NpyPart:
    """Consecutive rows of a `.npy` file. They are read, not mapped: a file cut short is an error and no signal.

    Attributes:
        layout: what they hold.
        file: the file, which must stay as it was.
        first, rows: the number of the first of them in it, and how many they are.
    """

    layout: Layout
    file: NpyFile
    first: int
    rows: int

    @property
    def name(self) -> str:
        """The file."""
        return self.file.stamp.file

    @property
    def mark(self) -> str:
        """Identifies the data in checkpoints."""
        return f"{self.file.stamp} {self.first}"

    def read(self, columns: Sequence[str] = ()) -> Iterator[Block]:
        """Yield its rows, block by block."""
        if columns:
            raise FileError(f"{self.name}: a .npy file has no column {columns[0]!r}; wanted a table")
        self.file.stamp.check()
        for begin in range(self.first, self.first + self.rows, self.layout.batch_rows):
            rows = min(self.layout.batch_rows, self.first + self.rows - begin)
            scores = self._scores(begin, rows).astype(self.layout.dtype, copy=False)
            with row_location(self.name, begin):
                decisions = self.layout.decide(scores)
            yield Block(scores, self.name, begin, decisions=decisions)

    def _scores(self, begin: int, rows: int) -> npt.NDArray[Any]:
        n, k = self.file.n, self.file.k
        if self.file.fortran:  # columns are contiguous
            return np.stack([self._numbers(j * n + begin, rows) for j in range(k)], axis=1)
        return self._numbers(begin * k, rows * k).reshape(rows, k)

    def _numbers(self, begin: int, count: int) -> npt.NDArray[Any]:
        file = self.file
        try:
            offset = file.offset + begin * file.dtype.itemsize
            numbers = np.fromfile(self.name, file.dtype, count, offset=offset)
        except OSError as problem:
            raise FileError(refusal(Path(self.name), problem, "npy")) from None
        if len(numbers) != count:
            raise FileError(f"{self.name}: cannot be read as .npy (it is cut short); is it complete?")
        return numbers


def npy_parts(path: Path, form: Form) -> tuple[Layout, list[Part]]:
    """The layout and the parts of `.npy` files of the same columns; only their headers are read."""
    kind = _npy_kind(path, form)
    files = [_open_npy(FileStamp.of(file)) for file in files_behind(path)]
    k = files[0].k
    for file in files:
        if file.k != k:
            raise FileError(
                f"{file.stamp.file}: {file.k} columns of scores, and {files[0].stamp.file} has {k}; "
                "wanted the same classes"
            )
    dtype = np.result_type(*(file.dtype if file.dtype.kind == "f" else np.float64 for file in files))
    names = tuple(str(j) for j in range(k))
    layout = Layout(kind, names, None, str(dtype), (), threshold=form.threshold)
    share = rows_per_part(sum(file.n for file in files), k)
    parts = (
        NpyPart(layout, file, first, min(share, file.n - first))
        for file in files
        for first in range(0, file.n, share)
    )
    return layout, join_parts(parts, share)


def _open_npy(stamp: FileStamp) -> NpyFile:
    path = Path(stamp.file)
    try:
        with path.open("rb") as file:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(file)
            offset = file.tell()
    except Exception as problem:  # whatever numpy makes of it, the file is refused
        raise FileError(refusal(path, problem, "npy")) from None
    if dtype.kind not in "fiub" or len(shape) != 2:
        raise FileError(f"{path}: holds {dtype.name} of shape {shape}; wanted numbers, (rows, classes)")
    if stamp.size - offset < math.prod(shape) * dtype.itemsize:
        raise FileError(f"{path}: cannot be read as .npy (it is cut short); is it complete?")
    return NpyFile(stamp, *shape, offset, dtype, bool(fortran))
