"""A cache of corrupted sets, for all networks and seeds of a data set.

    <cache>/<data set>/<shift>-<digest>.npy           uint8 images (n, H, W, 3)
    <cache>/<data set>/<shift>-<digest>.labels.npy    their labels

The digest covers the clean files, the corruption and the code, so an outdated set is never read. Published sets are
not copied. Without a cache, corrupted sets are made anew for every collection.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shiftgauge.errors import FileError, InputError
from shiftgauge.experiments.datasets import ShiftedSet
from shiftgauge.experiments.digests import digest, files_digest
from shiftgauge.experiments.examples import ArrayImages, Examples
from shiftgauge.experiments.loading import SequentialBatches, batches
from shiftgauge.experiments.progress import Progress
from shiftgauge.experiments.storage import replacing

BATCH = 500
"""Rows made at a time: as many as are scored at a time, since noise is drawn by batch."""


def cache_bytes(shifts: Sequence[ShiftedSet]) -> int:
    """Size in bytes of a cache of the sets that are made here."""
    clean = next((shift for shift in shifts if shift.kind == "clean"), None)
    made = sum(bool(shift.corruption) for shift in shifts)
    if clean is None or not made:
        return 0
    examples = clean.load()
    one = examples.batch(np.arange(1))
    return 0 if isinstance(one, list) else made * len(examples) * int(np.prod(one.shape[1:]))


def load_cached(shift: ShiftedSet, folder: Path, code: str, workers: int, progress: Progress) -> Examples:
    """The examples of a shift; a set that is made here is made once and then read from ``folder``.

    code: a digest of the code that makes it.
    """
    if not shift.corruption:
        return shift.load()
    key = digest(files_digest(shift.files), shift.corruption, code)
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
    plan = SequentialBatches(len(examples), BATCH)
    first = examples.batch(np.arange(1))
    if isinstance(first, list):
        raise InputError("texts are not corrupted, so there is nothing to cache")
    header = {"descr": "|u1", "fortran_order": False, "shape": (len(examples), *first.shape[1:])}
    with replacing(path) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for step, images, _ in batches(examples, plan, 0, plan.steps, workers):
            file.write(np.asarray(images).tobytes())
            progress(f"making {name}", min((step + 1) * BATCH, len(examples)), len(examples), "images")
