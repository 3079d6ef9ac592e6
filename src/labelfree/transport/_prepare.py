"""Say so when the kernels have to be compiled first: it takes a while, once per environment."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

_ready: set[str] = set()


def prepare(P: npt.NDArray[Any], progress: Callable[[str, float], None] | None) -> None:
    """Compile or load the smallest kernel for this type of scores; if it was not on disk, announce the rest.

    The announcement goes to `progress` if there is one, else to the logger "labelfree.transport", whose
    warnings Python shows on stderr; ``logging.getLogger("labelfree").setLevel("ERROR")`` silences it.
    """
    name = "float16" if P.dtype == np.uint16 else P.dtype.name
    if name in _ready:
        return
    from labelfree.transport import _kernels

    _kernels.first_score(P[:1])
    stats = getattr(_kernels.first_score, "stats", None)
    _ready.add(name)
    if stats is None or stats.cache_hits:  # not compiled at all (NUMBA_DISABLE_JIT), or found on disk
        return
    often = "once per environment"
    if stats.cache_path is None:
        often = "each time, since no cache directory can be written: set NUMBA_CACHE_DIR to one that can"
    message = f"compiling the transport solver for {name} scores, about 10 seconds, {often}"
    if progress is not None:
        progress(message, 0.0)
    else:
        logging.getLogger("labelfree.transport").warning(message)
