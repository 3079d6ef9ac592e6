"""Read the pickles in which CIFAR is distributed, admitting numpy arrays and plain containers only."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from shiftgauge.errors import FileError

NUMPY_2 = not np.__version__.startswith("1.")
# Both spellings of numpy's own reconstruction functions: before and after numpy 2 moved them.
_ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Refuse every global that is not needed to rebuild an array."""
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core") if NUMPY_2 else module, name)


def read_pickle(path: Path) -> Any:
    """Read a pickle of arrays, dictionaries, lists, strings and numbers; anything else is refused."""
    try:
        with path.open("rb") as file:
            return _Plain(file, encoding="bytes").load()
    except FileNotFoundError:
        raise FileError(f"{path} does not exist") from None
    except Exception as error:
        raise FileError(f"{path} is not a plain data pickle and was refused ({error})") from None
