"""How kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

#: Kernels release the interpreter lock and divide as numpy does.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def compiled(function: F) -> F:
    """Compile a kernel with numba; the machine code is kept on disk if a cache folder can be written."""
    try:
        kernel: F = numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # numba: "no locator available", neither beside the source nor in the user's cache
        kernel = numba.njit(**OPTIONS)(function)
    return kernel
