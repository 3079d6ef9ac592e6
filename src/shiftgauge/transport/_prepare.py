"""Compile the kernels: say so when a solve has to, or do it ahead of time; and do without where that is quicker."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from shiftgauge.transport._rows import Rows

#: Python itself solves problems of at most so many scores and classes while no machine code is at hand: in a
#: second or two, and to the last bit alike.
FEW_SCORES, FEW_CLASSES = 1 << 16, 32
#: Seconds that a process may spend on that before it compiles after all, and all processes of a cache folder together:
#: about as long as compiling takes, so that nobody who comes often waits for more than twice the least.
PATIENCE, TOGETHER = 3.0, 8.0

T = TypeVar("T")
_ready: set[str] = set()
_spent = 0.0


def with_kernels(rows: Rows, work: Callable[[Rows], T], progress: Callable[[str], None] | None) -> T:
    """Do work on rows: by machine code, compiled where there is none, or by Python itself where that is quicker."""
    global _spent
    from shiftgauge.transport import _kernels

    n, k = rows.P.shape
    if n * k <= FEW_SCORES and min(n, k) <= FEW_CLASSES and _spent < PATIENCE and not _at_hand(rows.P):
        begun = time.thread_time()
        try:
            return work(replace(rows, python=_kernels.python_kernels(PATIENCE - _spent)))
        except _kernels.LateError:
            pass
        finally:
            taken = time.thread_time() - begun
            _spent += taken
            _kernels.note_uncompiled(taken)
    prepare(rows.P, progress)
    return work(rows)


def _at_hand(P: npt.NDArray[Any]) -> bool:
    """Whether the smallest kernel was compiled before, here or by another process, or is to be by now."""
    if _name(P) in _ready:
        return True
    from shiftgauge.transport import _kernels

    first: Any = _kernels.first_score
    if not hasattr(first, "py_func") or _kernels.uncompiled() > TOGETHER:  # NUMBA_DISABLE_JIT: Python alone
        return True
    from numba import typeof

    return first._cache.load_overload((typeof(P[:1]),), first.targetctx) is not None


def _name(P: npt.NDArray[Any]) -> str:
    return "float16" if P.dtype == np.uint16 else P.dtype.name


def prepare(P: npt.NDArray[Any], progress: Callable[[str], None] | None) -> None:
    """Compile or load the smallest kernel for this type of scores; if it was not on disk, announce the rest.

    The announcement goes to `progress` if there is one, else to the logger "shiftgauge.transport", whose
    warnings Python shows on stderr; ``logging.getLogger("shiftgauge").setLevel("ERROR")`` silences it.
    """
    name = _name(P)
    if name in _ready:
        return
    from shiftgauge.transport import _kernels

    _kernels.first_score(P[:1])
    stats = getattr(_kernels.first_score, "stats", None)
    _ready.add(name)
    if stats is None or stats.cache_hits:  # not compiled at all (NUMBA_DISABLE_JIT), or found on disk
        return
    often = "once per environment"
    if stats.cache_path is None:
        often = "each time, since no cache directory can be written: set NUMBA_CACHE_DIR to one that can"
    message = f"compiling the transport solver for {name} scores, some seconds, {often}"
    if progress is not None:
        progress(message)
    else:
        logging.getLogger("shiftgauge.transport").warning(message)


def warm_up(
    dtypes: Sequence[str] = ("float64", "float32"), progress: Callable[[str], None] | None = None
) -> Path | None:
    """Compile every kernel now, so that no later process has to: for container images and first calls.

    Args:
        dtypes: of the scores; the exact solver reads each type in place, by code of its own.
        progress: called with what was done, and how far it is.

    Returns:
        The folder that keeps the machine code; None if none can be written, or NUMBA_DISABLE_JIT is set.
    """
    from shiftgauge.transport import _kernels
    from shiftgauge.transport.problem import Problem
    from shiftgauge.transport.smoothing import smoothed
    from shiftgauge.transport.solver import SMALL, solve

    rng = np.random.default_rng(0)
    stages = len(dtypes) + 1
    for place, dtype in enumerate(dtypes):
        for n, k in ((SMALL // 2 + 1, 4), (200, 70)):  # samples and active rows; an auction
            problem = Problem(rng.dirichlet(np.full(k, 0.3), n).astype(dtype), np.arange(1.0, k + 1.0))
            solve(problem, progress=progress)
            solve(problem, tol=0.1)
        if progress is not None:
            progress(f"compiled the exact solver for {dtype} scores, {(place + 1) / stages:.0%}")
    _scanning(rng.dirichlet(np.ones(3), 50), dtypes)
    smoothed(rng.dirichlet(np.ones(3), 50), np.full(3, 1 / 3), np.full(50, 1 / 50), np.zeros(3))
    if progress is not None:
        progress("compiled the solver of replicates and the steps of scans, 100%")
    stats = getattr(_kernels.drive, "stats", None)
    return None if stats is None or stats.cache_path is None else Path(stats.cache_path)


def _scanning(probs: npt.NDArray[np.float64], dtypes: Sequence[str]) -> None:
    """Run every step of a scan's passes once; scores come as they are stored, probabilities as doubles."""
    from shiftgauge.transport import _kernels, _steps
    from shiftgauge.transport.blocks import Block

    n, k = probs.shape
    for kind in dtypes:
        raw = probs.astype(np.float32 if np.dtype(kind).itemsize <= 4 else np.float64)
        raw.flags.writeable = False
        for logs in (raw, raw.astype(np.float64)):  # logits as they came; logarithms of probabilities
            logs.flags.writeable = False
            _kernels.softmaxed(raw, logs, 1.0, np.empty((n, k)), np.empty(n, np.intp))
    u, T, none = np.zeros(k, np.int64), np.ones((k, k), np.int64), np.empty(0, np.intp)
    choice = _steps.Choice(u, none, none, none, none, np.empty(0))
    for mass in (None, np.ones(n)):
        block = Block(probs, 0, mass, probs.argmax(axis=1))
        _steps.visited(block, u, T, 1.0)
        _steps.leeways(block, u, u, 1.0)
        _steps.certified(block, choice, u / 1.0, None)
        _steps.weighed(block, np.zeros(k), np.ones(k, np.bool_))
