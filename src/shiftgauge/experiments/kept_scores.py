"""Scores kept beside results, one ``.npz`` per seed: every table can be made anew without images or networks.

<results>/<data set>/<network>/scores/seed<seed>.npz
    manifest                the manifest of the collected scores, as JSON
    <name>/<array>          the arrays of every file: source, shifts, ProjNorm (``projnorm/<shift>``) if computed
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftgauge.errors import FileError
from shiftgauge.experiments.scores import SOURCE, ScoreFolder
from shiftgauge.experiments.storage import read_arrays, write_arrays

FOLDER = "scores"


def keep(scores: ScoreFolder, path: Path) -> None:
    """Write a collected folder of scores as one file; the same scores give the same bytes."""
    arrays: dict[str, NDArray[Any]] = {"manifest": np.array(json.dumps(scores.manifest, sort_keys=True))}
    shifts = scores.shifts()
    for name in (SOURCE, *(name for shift in shifts for name in (shift, *scores.projnorms(shift)))):
        arrays |= {f"{name}/{key}": value for key, value in read_arrays(scores.path(name)).items()}
    write_arrays(path, **arrays)


def restore(path: Path, scores: ScoreFolder) -> None:
    """Write the folder of scores that ``keep`` was given."""
    arrays = read_arrays(path)
    try:
        scores.write_manifest(**json.loads(str(arrays.pop("manifest"))))
    except (KeyError, ValueError) as error:
        raise FileError(
            f"{path} is not a file of kept scores ({error}); make it with `bench run --keep-scores`"
        ) from None
    files: dict[str, dict[str, NDArray[Any]]] = {}
    for place, array in arrays.items():
        name, _, key = place.rpartition("/")
        files.setdefault(name, {})[key] = array
    for name, content in files.items():
        write_arrays(scores.path(name), **content)


def score_files(folder: Path) -> Sequence[tuple[int, Path]]:
    """(seed, file) of the scores kept in a folder of results, by seed."""
    paths = {path: re.fullmatch(r"seed(\d+)\.npz", path.name) for path in (folder / FOLDER).glob("*")}
    return sorted((int(match[1]), path) for path, match in paths.items() if match)
