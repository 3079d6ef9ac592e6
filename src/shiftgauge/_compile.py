"""How kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

#: Kernels release the interpreter lock and divide as numpy does.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
#: Kernels that allocate nothing need no reference counts, and small parts of kernels are inlined.
LEAN: dict[str, Any] = {**OPTIONS, "_nrt": False, "forceinline": True}


def compiled(function: F) -> F:
    """Compile a kernel with numba; the machine code is kept on disk if a cache folder can be written."""
    return _cached(function, OPTIONS)


def lean_kernel(function: F) -> F:
    """Compile a kernel that allocates nothing: without reference counts, which take half the time of a search."""
    return _cached(function, LEAN)


def kernel_part(function: F) -> F:
    """Compile a part of kernels, which inline it: never called from Python, nor kept on disk by itself.

    Its arguments should always have the same types (`np.int64(...)` around what comes out of arrays of 32 bits
    and around literals): each further combination is compiled anew.
    """
    if numba.config.DISABLE_JIT:
        return function
    part: F = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **LEAN)(function)
    return part


def _cached(function: F, options: dict[str, Any]) -> F:
    try:
        kernel: F = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba: "no locator available", neither beside the source nor in the user's cache
        kernel = numba.njit(**options)(function)
    return kernel
