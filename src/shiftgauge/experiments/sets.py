"""Corrupted sets made once and kept: a cache for all networks and seeds of a data set.

    <cache>/<data set>/<shift>-<digest>.npy           uint8 images (n, H, W, 3)
    <cache>/<data set>/<shift>-<digest>.labels.npy    their labels

The digest is of the clean files, of how the set is made and of the code that makes it, so a stale set is never
read; published sets are read where they are. Without a cache corrupted sets are made anew for every collection.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shiftgauge.errors import FileError, InputError
from shiftgauge.experiments._store import replacing
from shiftgauge.experiments.datasets import Shift
from shiftgauge.experiments.examples import ArrayImages, Examples
from shiftgauge.experiments.loading import InOrder, batches
from shiftgauge.experiments.progress import Progress
from shiftgauge.experiments.provenance import code_digest, digest, files_digest

BATCH = 500
"""Rows made at a time, as many as are scored at a time: noise is drawn by batch."""


def cache_bytes(shifts: Sequence[Shift]) -> int:
    """How many bytes a cache of the sets that are made here would take."""
    clean = next((shift for shift in shifts if shift.kind == "clean"), None)
    made = sum(bool(shift.made) for shift in shifts)
    if clean is None or not made:
        return 0
    examples = clean.load()
    one = examples.batch(np.arange(1))
    return 0 if isinstance(one, list) else made * len(examples) * int(np.prod(one.shape[1:]))


def cached(shift: Shift, folder: Path, workers: int, progress: Progress) -> Examples:
    """The examples of a shift; one that is made here is made once and then read from ``folder``."""
    if not shift.made:
        return shift.load()
    key = digest(files_digest(shift.files), shift.made, code_digest())
    path, labels = (folder / f"{shift.name}-{key}{ending}" for ending in (".npy", ".labels.npy"))
    if not (path.exists() and labels.exists()):
        examples = shift.load()
        _write(path, shift.name, examples, workers, progress)
        with replacing(labels) as file:
            np.save(file, examples.labels)
    try:
        return ArrayImages(np.load(path, mmap_mode="r"), np.load(labels))
    except (OSError, ValueError, EOFError) as error:
        raise FileError(
            f"{path} and its labels cannot be read ({error}); delete both to make them again"
        ) from None


def _write(path: Path, name: str, examples: Examples, workers: int, progress: Progress) -> None:
    plan = InOrder(len(examples), BATCH)
    first = examples.batch(np.arange(1))
    if isinstance(first, list):
        raise InputError("texts are not corrupted, so there is nothing to keep")
    header = {"descr": "|u1", "fortran_order": False, "shape": (len(examples), *first.shape[1:])}
    with replacing(path) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for step, images, _ in batches(examples, plan, 0, plan.steps, workers):
            file.write(np.asarray(images).tobytes())
            progress(f"making {name}", min((step + 1) * BATCH, len(examples)), len(examples), "images")
