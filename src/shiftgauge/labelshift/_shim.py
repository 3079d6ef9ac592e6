"""Temporary: see transport/_shim.py."""

import numpy as np

from shiftgauge.labelshift.likelihood import mlls as _mlls
from shiftgauge.rows import Rows


def mlls(rows, prior, mass=None, **options):
    if not isinstance(rows, Rows):
        return _mlls(rows, prior, mass, **options)
    return _shared(rows, prior)


async def _shared(rows, prior):
    return await rows.once(("shares", prior.tobytes()), _solve, rows, prior)


async def _solve(rows, prior):
    block = await rows.collect()
    return _mlls(np.asarray(block.probs), prior, block.row_share)
