"""How kernels are compiled, and how Python itself runs them while there is no machine code."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, TypeVar, cast

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

#: Kernels release the interpreter lock and divide as numpy does.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
#: Kernels that allocate nothing need no reference counts, and small parts of kernels are inlined: together these
#: halve the time of a search.
LEAN: dict[str, Any] = {**OPTIONS, "_nrt": False, "forceinline": True}
#: Seconds that Python may run kernels in this process before they are compiled after all: compiling takes longer.
PYTHON_SECONDS = 3.0


def compiled(function: F) -> F:
    """Compile a kernel with numba; the machine code is kept on disk if a cache folder can be written."""
    return _cached(function, OPTIONS)


def lean_kernel(function: F) -> F:
    """Compile a kernel that allocates nothing, without reference counts."""
    return _timed(function) if _Python.loading else _cached(function, LEAN)


def kernel_part(function: F) -> F:
    """Compile a part of kernels, which inline it: never called from Python, nor kept on disk by itself.

    Its arguments should always have the same types (`np.int64(...)` around what comes out of arrays of 32 bits
    and around literals): each further combination is compiled anew.
    """
    if numba.config.DISABLE_JIT or _Python.loading:
        return function
    part: F = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **LEAN)(function)
    return part


def _cached(function: F, options: dict[str, Any]) -> F:
    try:
        kernel: F = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba: "no locator available", neither beside the source nor in the user's cache
        kernel = numba.njit(**options)(function)
    return kernel


class _Python:
    """Kernels as Python runs them: whether a module is being loaded in that form, by name, the seconds they ran."""

    loading = False
    modules: ClassVar[dict[str, ModuleType]] = {}
    seconds = 0.0


def _timed(function: F) -> F:
    @wraps(function)
    def kernel(*args: Any) -> Any:
        begun = time.thread_time()
        with np.errstate(over="ignore"):  # integers wrap around as they do in compiled code
            result = function(*args)
        _Python.seconds += time.thread_time() - begun
        return result

    return cast(F, kernel)


def quickest(module: ModuleType, main: str) -> ModuleType:
    """A module's kernels, compiled; or as Python runs them if that ends sooner for a small problem.

    That is: while the kernel `main`, which takes longest to compile, has no machine code, neither here nor on disk,
    and Python has not spent `PYTHON_SECONDS` seconds on kernels.
    """
    kernel = getattr(module, main)
    jit = hasattr(kernel, "overloads")
    if not jit or kernel.overloads or _Python.seconds > PYTHON_SECONDS or _on_disk(kernel):
        return module
    name = module.__name__
    if name not in _Python.modules:
        spec = find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        copy = module_from_spec(spec)
        _Python.loading = True
        try:
            spec.loader.exec_module(copy)
        finally:
            _Python.loading = False
        _Python.modules[name] = copy
    return _Python.modules[name]


def _on_disk(kernel: Any) -> bool:
    folder = kernel.stats.cache_path
    module = kernel.py_func.__module__.rpartition(".")[2]
    return folder is not None and any(Path(folder).glob(f"{module}.{kernel.py_func.__name__}-*.nbi"))
