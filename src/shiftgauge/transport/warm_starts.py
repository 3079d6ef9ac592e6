"""Where the plans of bootstrap replicates start."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shiftgauge.rows import Rows
from shiftgauge.transport.exact import plan_of
from shiftgauge.transport.soft import weights_of

Floats = npt.NDArray[np.float64]


class WarmStart:
    """Where the plans of bootstrap replicates start: the prices and weights of the full sample (`Rows.warm_start`).

    The hard plan is smoothed by a few thousandths, the soft one met to 1e-8; both are beneath what a few hundred
    replicates can resolve. The first rows that ask are taken for the full sample: ask once before threads begin.
    """

    def __init__(self) -> None:
        self._prices: Floats | None = None
        self._log_weights: Floats | None = None

    async def prices(self, rows: Rows, class_mass: Floats) -> Floats:
        """(K,) the prices of the full sample's exact plan."""
        if self._prices is None:
            self._prices = (await plan_of(rows, class_mass)).prices
        return self._prices

    async def log_weights(self, rows: Rows, class_mass: Floats) -> Floats:
        """(K,) the log-weights of the full sample's soft plan."""
        if self._log_weights is None:
            plan = await weights_of(rows, class_mass, tol=1e-6)
            self._log_weights = np.maximum(plan.log_weights, -50.0)
        return self._log_weights
