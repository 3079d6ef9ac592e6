"""Scores in numpy's and torch's own files: `.npz`, `.npy`, `.pt`."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labelfree.errors import FileError, MissingDependencyError
from labelfree.io.form import Content, Form, refuse_misspelt

KEYS = ("logits", "probs", "labels", "classes", "weights", "predictions", "second")


def read_npy(path: Path) -> npt.NDArray[Any]:
    """One array, memory-mapped: it is read from disk only where it is looked at."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as problem:
        raise FileError(_refusal(path, problem, "npy")) from None
    except (EOFError, OSError) as problem:
        raise FileError(f"{path}: cannot be read as .npy ({_short(problem)}); is it complete?") from None
    if not isinstance(array, np.ndarray):
        raise FileError(f"{path}: is an .npz archive; rename it to .npz")
    return array


def read_mapping(path: Path) -> dict[str, Any]:
    """The arrays of an `.npz` or the tensors of a `.pt` file, by name."""
    return _read_npz(path) if path.suffix.lower() == ".npz" else _read_torch(path)


def read_scores_npy(path: Path, form: Form) -> Content:
    """Scores alone in an `.npy`; whether logits or probabilities must be said."""
    if form.kind is None:
        raise FileError(f"{path}: a .npy file does not say what it holds; pass --logits or --probs")
    return Content(scores=read_npy(path), kind=form.kind)


def read_scores_mapping(path: Path, form: Form) -> Content:
    """Scores with labels, class names and the rest, by key."""
    held = read_mapping(path)
    refuse_misspelt(held, KEYS, path, "key")
    kinds = [key for key in ("logits", "probs") if key in held]
    if not kinds:
        found = ", ".join(repr(key) for key in list(held)[:8]) or "nothing"
        raise FileError(f"{path}: no key 'logits' or 'probs'; found {found}")
    classes = held.get("classes")
    if classes is not None and np.ndim(classes) != 1:
        raise FileError(f"{path}: 'classes' has shape {np.shape(classes)}; wanted one name per column")
    kind = form.choose(kinds, path)
    return Content(
        scores=held[kind],
        kind=kind,
        labels=held.get("labels"),
        classes=None if classes is None else tuple(np.asarray(classes).tolist()),
        weights=held.get("weights"),
        predictions=held.get("predictions"),
        second=held.get("second"),
    )


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if isinstance(archive, np.ndarray):
                raise FileError(f"{path}: is a single .npy array; rename it to .npy")
            return {key: archive[key] for key in archive.files}
    except ValueError as problem:
        raise FileError(_refusal(path, problem, "npz")) from None
    except (zipfile.BadZipFile, EOFError, OSError, KeyError, zipfile.LargeZipFile) as problem:
        raise FileError(f"{path}: cannot be read as .npz ({_short(problem)}); is it complete?") from None
    except Exception as problem:  # zlib and the zip reader raise their own on damaged data
        raise FileError(f"{path}: cannot be read as .npz ({_short(problem)}); is it complete?") from None


def _read_torch(path: Path) -> dict[str, Any]:
    try:
        import torch
    except ImportError:
        raise MissingDependencyError(
            f"{path}: reading torch files needs torch; pip install 'labelfree[torch]'"
        ) from None
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:  # torch raises many kinds; whatever it is, the file is refused
        raise FileError(
            f"{path}: refused by torch's safe loader ({_short(problem)}); wanted a dictionary of plain tensors"
        ) from None
    if not isinstance(held, dict):
        raise FileError(
            f"{path}: holds a {type(held).__name__}; wanted a dictionary with 'logits' or 'probs'"
        )
    return {str(key): value for key, value in held.items()}


def _refusal(path: Path, problem: ValueError, kind: str) -> str:
    if "allow_pickle" in str(problem):
        return (
            f"{path}: not a .{kind} file of plain numbers, or it holds pickled objects, which are never loaded; "
            "save plain arrays with numpy.savez"
        )
    return f"{path}: cannot be read as .{kind} ({_short(problem)}); is it complete?"


def _short(problem: BaseException) -> str:
    text = str(problem).strip().splitlines()
    return (text[0] if text else type(problem).__name__)[:120].rstrip(".")
