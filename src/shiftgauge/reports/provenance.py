"""What is needed to compute an answer again: versions, options, and a fingerprint of the data."""

from __future__ import annotations

import hashlib
import platform
from importlib import metadata
from typing import Any

import numpy as np

from shiftgauge._version import __version__
from shiftgauge.rows import Rows
from shiftgauge.samples import Sample, Source
from shiftgauge.validation import chunks

PACKAGES = ("numpy", "scipy", "numba")


def provenance(
    source: Source, target: Sample | Rows | None, options: dict[str, Any], about: dict[str, Any]
) -> dict[str, Any]:
    """Versions, options, where the data came from, and what they were; the same in the JSON of every command."""
    return {
        "shiftgauge": __version__,
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "command": about.get("command"),
        "made": about.get("made"),
        "options": options,
        "source": {"name": about.get("source"), "fingerprint": fingerprint(source)},
        "target": {
            "name": about.get("target"),
            "fingerprint": None if target is None else fingerprint(target),
        },
    }


def fingerprint(sample: Sample | Rows) -> str:
    """SHA-256 over everything that can change the answer: scores and what they are, decisions, weights, labels.

    The same data give the same fingerprint from a CSV and from a Parquet file, if their precision is the same.

    >>> a = Source(probs=[[0.9, 0.1], [0.4, 0.6]], labels=[0, 1])
    >>> b = Source(probs=[[0.9, 0.1], [0.4, 0.6]], labels=[0, 0])
    >>> fingerprint(a) == fingerprint(a), fingerprint(a) == fingerprint(b)
    (True, False)
    """
    digest = hashlib.sha256()
    if isinstance(sample, Rows):
        return sample.fingerprint
    head = (sample.kind, sample.scores.shape, sample.scores.dtype.str, sample.classes)
    digest.update(repr(head).encode())
    for rows in chunks(*sample.scores.shape):
        digest.update(np.ascontiguousarray(sample.scores[rows]).tobytes())
    digest.update(np.ascontiguousarray(sample.predictions, dtype="<i8").tobytes())
    if sample.weights is not None:
        digest.update(np.ascontiguousarray(sample.weights, dtype="<f8").tobytes())
    if isinstance(sample, Source):
        digest.update(np.ascontiguousarray(sample.labels, dtype="<i8").tobytes())
    return digest.hexdigest()
