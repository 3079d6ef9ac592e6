"""Scores in numpy's and torch's own files: `.npz`, `.npy`, `.pt`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge._npz import read_npy, read_npz
from shiftgauge._samples import KEYS
from shiftgauge.errors import FileError, MissingDependencyError
from shiftgauge.io.form import Content, Form, refuse_misspelt


def read_mapping(path: Path, keys: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """The arrays of an `.npz` or the tensors of a `.pt` file under these keys, and the names of all it holds."""
    if path.suffix.lower() == ".npz":
        return read_npz(path, keys)
    held = _read_torch(path)
    return {key: held[key] for key in held if key in keys}, list(held)


def read_scores_npy(path: Path, form: Form) -> Content:
    """Scores alone in an `.npy`; whether logits or probabilities must be said."""
    if form.kind is None:
        raise FileError(
            f"{path}: a .npy file does not say what it holds; pass --logits or --probs (kind='logits')"
        )
    return Content(scores=read_npy(path), kind=form.kind)


def read_scores_mapping(path: Path, form: Form) -> Content:
    """Scores with labels, class names and the rest, by key; no other key is read."""
    held, names = read_mapping(path, KEYS)
    refuse_misspelt(names, KEYS, path, "key")
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
    try:
        import torch
    except ImportError:
        raise MissingDependencyError(
            f"{path}: reading torch files needs torch; pip install 'shiftgauge[torch]'"
        ) from None
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
