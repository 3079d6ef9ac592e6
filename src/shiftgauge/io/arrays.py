"""Scores in files of numpy and torch: `.npz`, `.npy`, `.pt`; and parts of `.npy` files."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from shiftgauge.errors import FileError, nearest, optional
from shiftgauge.io.files import FileVersion, list_files
from shiftgauge.io.layout import Layout
from shiftgauge.io.options import Content, ReadOptions, check_spelling
from shiftgauge.io.parts import FilePart, join_parts, rows_per_part
from shiftgauge.rows import Block, Part, row_location
from shiftgauge.storage import SAMPLE_KEYS, read_npy, read_npz, refusal
from shiftgauge.validation.labels import plain


def read_mapping(path: Path, keys: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """The arrays of an `.npz` or the tensors of a `.pt` file under these keys, and the names of all its keys."""
    if path.suffix.lower() == ".npz":
        return read_npz(path, keys)
    tensors = _read_torch(path)
    return {key: tensors[key] for key in tensors if key in keys}, list(tensors)


def read_keys(path: Path, keys: Sequence[str], where: object) -> dict[str, Any]:
    """The arrays under these keys, all of which the file must have."""
    arrays, names = read_mapping(path, keys)
    for key in keys:
        if key not in arrays:
            raise FileError(f"{where}: no key {key!r}{nearest(key, names)} (found {', '.join(names[:8])})")
    return arrays


def read_scores_npy(path: Path, options: ReadOptions) -> Content:
    """Scores of one or several `.npy` files; the caller says whether they are logits or probabilities."""
    kind = _npy_kind(path, options)
    files = list_files(path)
    if len(files) == 1:
        return Content(scores=read_npy(files[0]), kind=kind)
    npy_parts(path, options)  # checks that all have the same columns
    return Content(scores=np.concatenate([read_npy(file) for file in files]), kind=kind)


def _npy_kind(path: Path, options: ReadOptions) -> str:
    if options.kind is None:
        raise FileError(
            f"{path}: a .npy file does not say what it holds; pass --logits or --probs (kind='logits')"
        )
    return options.kind


def read_scores_mapping(path: Path, options: ReadOptions) -> Content:
    """Scores, labels, class names and so on, by key; no other key is read."""
    arrays, names = read_mapping(path, SAMPLE_KEYS)
    check_spelling(names, SAMPLE_KEYS, path, "key")
    kinds = [key for key in ("logits", "probs") if key in arrays]
    if not kinds:
        found = ", ".join(repr(key) for key in names[:8]) or "nothing"
        raise FileError(f"{path}: no key 'logits' or 'probs'; found {found}")
    classes = arrays.get("classes")
    if classes is not None and np.ndim(classes) != 1:
        raise FileError(f"{path}: 'classes' has shape {tuple(np.shape(classes))}; wanted one name per column")
    kind = options.choose_kind(kinds, path)
    return Content(
        scores=arrays[kind],
        kind=kind,
        labels=arrays.get("labels"),
        classes=None if classes is None else tuple(map(plain, np.asarray(classes).tolist())),
        weights=arrays.get("weights"),
        predictions=None if options.prediction is None else arrays.get("predictions"),
        second=arrays.get("second"),
        ids=arrays.get("ids"),
    )


def _read_torch(path: Path) -> dict[str, Any]:
    torch = optional("torch", extra="torch", purpose=f"{path}: reading torch files")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:  # torch raises many types
        text = (str(problem).strip().splitlines() or [type(problem).__name__])[0].split(". ")[0][:120]
        raise FileError(
            f"{path}: refused by torch's safe loader ({text}); wanted a dictionary of plain tensors"
        ) from None
    if not isinstance(content, dict):
        raise FileError(
            f"{path}: holds a {type(content).__name__}; wanted a dictionary with 'logits' or 'probs'"
        )
    return {str(key): value for key, value in content.items()}


@dataclass(frozen=True)
class NpyHeader:
    """The header of a `.npy` file of (n, k) numbers, which begin at byte `offset`."""

    n: int
    k: int
    offset: int
    dtype: np.dtype[Any]
    fortran: bool


@dataclass(frozen=True)
class NpyPart(FilePart):
    """Consecutive rows of a `.npy` file. It is read, not mapped, so that a truncated file is an error, not a signal."""

    header: NpyHeader

    def read(self, columns: Sequence[str] = ()) -> Iterator[Block]:
        """Yield its rows, block by block."""
        if columns:
            raise FileError(f"{self.name}: a .npy file has no column {columns[0]!r}; wanted a table")
        self.version.check()
        for begin in range(self.first, self.first + self.rows, self.layout.batch_rows):
            rows = min(self.layout.batch_rows, self.first + self.rows - begin)
            scores = self._scores(begin, rows).astype(self.layout.dtype, copy=False)
            with row_location(self.name, begin):
                decisions = self.layout.decide(scores)
            yield Block(scores, self.name, begin, decisions=decisions)

    def _scores(self, begin: int, rows: int) -> npt.NDArray[Any]:
        n, k = self.header.n, self.header.k
        if self.header.fortran:  # columns are contiguous
            return np.stack([self._numbers(j * n + begin, rows) for j in range(k)], axis=1)
        return self._numbers(begin * k, rows * k).reshape(rows, k)

    def _numbers(self, begin: int, count: int) -> npt.NDArray[Any]:
        dtype = self.header.dtype
        try:
            numbers = np.fromfile(self.name, dtype, count, offset=self.header.offset + begin * dtype.itemsize)
        except OSError as problem:
            raise FileError(refusal(Path(self.name), problem, "npy")) from None
        if len(numbers) != count:
            raise FileError(f"{self.name}: cannot be read as .npy (it is cut short); is it complete?")
        return numbers


def npy_parts(path: Path, options: ReadOptions) -> tuple[Layout, list[Part]]:
    """The layout and the parts of `.npy` files with the same columns; only headers are read."""
    kind = _npy_kind(path, options)
    versions = [FileVersion.of(file) for file in list_files(path)]
    headers = [_read_header(version) for version in versions]
    k = headers[0].k
    for version, header in zip(versions, headers, strict=True):
        if header.k != k:
            raise FileError(
                f"{version.file}: {header.k} columns of scores, and {versions[0].file} has {k}; "
                "wanted the same classes"
            )
    dtype = np.result_type(*(one.dtype if one.dtype.kind == "f" else np.float64 for one in headers))
    names = tuple(str(j) for j in range(k))
    layout = Layout(kind, names, None, str(dtype), (), threshold=options.threshold)
    part_rows = rows_per_part(sum(header.n for header in headers), k)
    parts = (
        NpyPart(layout, version, first, min(part_rows, header.n - first), header)
        for version, header in zip(versions, headers, strict=True)
        for first in range(0, header.n, part_rows)
    )
    return layout, join_parts(parts, part_rows)


def _read_header(version: FileVersion) -> NpyHeader:
    path = Path(version.file)
    try:
        with path.open("rb") as file:
            magic = npy.read_magic(file)
            read = npy.read_array_header_1_0 if magic == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(file)
            offset = file.tell()
    except Exception as problem:  # numpy raises many types
        raise FileError(refusal(path, problem, "npy")) from None
    if dtype.kind not in "fiub" or len(shape) != 2:
        raise FileError(f"{path}: holds {dtype.name} of shape {shape}; wanted numbers, (rows, classes)")
    if version.size - offset < math.prod(shape) * dtype.itemsize:
        raise FileError(f"{path}: cannot be read as .npy (it is cut short); is it complete?")
    return NpyHeader(*shape, offset, dtype, bool(fortran))
