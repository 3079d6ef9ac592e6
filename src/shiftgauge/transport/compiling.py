"""Compile the kernels ahead of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from shiftgauge.rows import Block, Rows, run
from shiftgauge.transport.exact import SMALL_ENTRIES, exact_transport
from shiftgauge.transport.warm_starts import WarmStart


def warm_up(
    dtypes: Sequence[str] = ("float64",), progress: Callable[[str], None] | None = None
) -> Path | None:
    """Compile every kernel now, so that no later process has to: for container images and first calls.

    Args:
        dtypes: of the scores, float32 or float64; calibrated probabilities are float64.
        progress: called with what was done, and how far it is.

    Returns:
        The folder that keeps the machine code; None if none can be written, or NUMBA_DISABLE_JIT is set.
    """
    from shiftgauge.transport import _kernels

    rng = np.random.default_rng(0)
    for place, dtype in enumerate(dtypes):
        for n, k in ((SMALL_ENTRIES // 4 + 1, 4), (200, 70)):  # candidates of a pass; prices by histograms
            probs = rng.dirichlet(np.full(k, 0.3), n).astype(dtype)
            for weights in (None, np.ones(n)):
                block = Block(probs, weights=weights)
                run(exact_transport(Rows.of_block(block), np.arange(1.0, k + 1.0))).cost_range(block)
        rows = Rows.of_block(Block(probs[:, :3]))
        rows.warm_start = WarmStart()
        run(exact_transport(rows, np.ones(3)))
        if progress is not None:
            progress(f"compiled the solvers for {dtype} scores, {(place + 1) / len(dtypes):.0%}")
    stats = getattr(_kernels.drive, "stats", None)
    return None if stats is None or stats.cache_path is None else Path(stats.cache_path)
