"""Fitted estimators as readable JSON files: nothing is pickled, and a damaged file is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge.calibration import Calibration
from shiftgauge.errors import FileError
from shiftgauge.storage import write_text
from shiftgauge.validation import as_array

FORMAT = "shiftgauge-estimator"
#: What `shiftgauge.load` reads.
WANTED = "a fitted estimator, as its save() wrote it"
PAIRS = "pairs"
DTYPE = "dtype"
METHOD = "fitted"


def write_document(path: str | Path, estimator: Any) -> None:
    """Write a method's parameters and learned state, whole or not at all."""
    content = _content(estimator)
    write_text(path, json.dumps({"format": FORMAT, **content, "digest": _digest(content)}))


def _content(estimator: Any) -> dict[str, Any]:
    return {
        "method": estimator.name,
        "schema": estimator.schema(),
        "params": {name: _plain(value) for name, value in estimator.get_params().items()},
        "state": {name: _plain(value) for name, value in estimator.state().items()},
    }


def read_document(path: str | Path) -> dict[str, Any]:
    """Read what `write_document` wrote; refuse anything else, and anything that was changed since."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise FileError(f"{path}: cannot be read ({problem.strerror}); wanted {WANTED}") from None
    except (ValueError, RecursionError):
        raise FileError(f"{path}: not JSON; wanted {WANTED}{_other(path)}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileError(f"{path}: not a saved estimator; wanted {WANTED}{_other(path)}")
    content: dict[str, Any] = {name: document.get(name) for name in ("method", "schema", "params", "state")}
    if document.get("digest") != _digest(content):
        raise FileError(f"{path}: was changed or damaged since save() wrote it; save it again")
    if not isinstance(content["params"], dict) or not isinstance(content["state"], dict):
        raise FileError(f"{path}: not a saved estimator; wanted {WANTED}")
    return content


def _other(path: str | Path) -> str:
    """What the file may be instead, by its ending."""
    is_sample = Path(path).suffix.lower() == ".npz"
    return "; samples are read by Source.load and Target.load" if is_sample else ""


def restore(name: str, value: Any) -> Any:
    """A learned attribute in its own type again."""
    if name == "calibration_":
        return Calibration.from_state(value)
    if name in ("classes_", "source_warnings_"):
        return None if value is None else tuple(value)
    return _typed(value)


def _typed(value: Any) -> Any:
    """Lists are arrays: of float64 unless they say otherwise."""
    if isinstance(value, list):
        return np.asarray(value, dtype=np.float64)
    if isinstance(value, dict) and DTYPE in value:
        return np.asarray(value["values"], dtype=value[DTYPE])
    if isinstance(value, dict) and METHOD in value:
        return value[METHOD]
    if isinstance(value, dict) and PAIRS in value:
        return {key: _typed(item) for key, item in value[PAIRS]}
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Calibration):
        return value.state()
    if hasattr(value, "get_params"):  # a fitted estimator inside another one
        return {METHOD: _content(value)}
    if isinstance(value, dict):  # JSON would turn every key into a text
        return {PAIRS: [[_plain(key), _plain(item)] for key, item in value.items()]}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    array = as_array(value, "parameter")
    if array.dtype == np.float64:
        return array.tolist()
    if array.dtype.kind in "iubf":  # class indices stay integers
        return {DTYPE: array.dtype.name, "values": array.tolist()}
    return str(value)


def restore_argument(value: Any) -> Any:
    """A constructor's argument: a list stays a list."""
    return value if isinstance(value, list) else _typed(value)


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
