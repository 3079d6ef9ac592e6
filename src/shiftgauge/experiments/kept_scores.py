"""Scores kept beside results, one ``.npz`` per seed: every table can be made anew without images or networks.

<results>/<data set>/<network>/scores/seed<seed>.npz
    manifest                the manifest of the collected scores, as JSON
    <set>/<array>           the arrays of the source and of every shift, as they were collected
    <form>/<shift>          ProjNorm of a shift, as JSON, if it was computed
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
from shiftgauge.experiments.protocol import PROJNORM_FORMS
from shiftgauge.experiments.scores import SOURCE, ScoreFolder
from shiftgauge.experiments.storage import read_arrays, read_mapping, write_arrays, write_json

FOLDER = "scores"


def keep(scores: ScoreFolder, path: Path) -> None:
    """Write a collected folder of scores as one file; the same scores give the same bytes."""
    arrays: dict[str, NDArray[Any]] = {"manifest": _text(scores.manifest)}
    for shift in (None, *scores.shifts()):
        content = read_arrays(scores.path(shift))
        arrays |= {f"{shift or SOURCE}/{key}": value for key, value in content.items()}
        for form in PROJNORM_FORMS if shift else ():
            stored = scores.projnorm_path(str(shift), form)
            if stored.exists():
                arrays[f"{form}/{shift}"] = _text(read_mapping(stored))
    write_arrays(path, **arrays)


def restore(path: Path, scores: ScoreFolder) -> None:
    """Write the folder of scores that ``keep`` was given."""
    arrays = read_arrays(path)
    try:
        scores.write_manifest(**json.loads(str(arrays.pop("manifest"))))
        sets: dict[str, dict[str, NDArray[Any]]] = {}
        for name, array in arrays.items():
            first, _, last = name.partition("/")
            if first in PROJNORM_FORMS:
                write_json(scores.projnorm_path(last, first), json.loads(str(array)))
            else:
                sets.setdefault(first, {})[last] = array
    except (KeyError, ValueError) as error:
        raise FileError(
            f"{path} is not a file of kept scores ({error}); make it with `bench run --keep-scores`"
        ) from None
    for name, content in sets.items():
        write_arrays(scores.path(None if name == SOURCE else name), **content)


def score_files(folder: Path) -> Sequence[tuple[int, Path]]:
    """(seed, file) of the scores kept in a folder of results, by seed."""
    paths = {path: re.fullmatch(r"seed(\d+)\.npz", path.name) for path in (folder / FOLDER).glob("*")}
    return sorted((int(match[1]), path) for path, match in paths.items() if match)


def _text(value: Any) -> NDArray[Any]:
    return np.array(json.dumps(value, sort_keys=True))
