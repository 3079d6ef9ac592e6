"""Temporary: the new interface on top of the old solvers, until the one solver is merged."""

from types import SimpleNamespace

import numpy as np

from shiftgauge.transport._steps import Pieces
from shiftgauge.transport.entropic import soft_transport as _soft
from shiftgauge.transport.problem import Problem
from shiftgauge.transport.smoothing import smoothed
from shiftgauge.transport.solution import cost_range
from shiftgauge.transport.solver import solve


class Transport:
    def __init__(self, plan, block, q):
        self.plan, self.block, self.class_mass = plan, block, q
        self.value, self.prices, self.certificate = plan.value, plan.prices, plan.certificate

    def pieces(self, block):
        row, cls, mass, cost = self.plan.pieces()
        inside = (row >= block.start) & (row < block.start + len(block))
        return Pieces(
            row[inside] - block.start, cls[inside], mass[inside] * self.block.mass.sum(), cost[inside]
        )

    def cost_range(self, block):
        return cost_range(block.probs, self.prices, self.class_mass)


class SoftTransport(SimpleNamespace):
    def posterior(self, block):
        live = np.isfinite(self.log_weights)
        z = block.log_probs[:, live] + self.log_weights[live]
        E = np.exp(z - z.max(axis=1, keepdims=True))
        out = np.zeros(block.probs.shape)
        out[:, live] = E / E.sum(axis=1, keepdims=True)
        return out


class Smooth(Transport):
    exact = False

    def cost_range(self, block):
        return np.zeros(len(block)), np.zeros(len(block))


class WarmStart:
    def __init__(self):
        self._prices = self._log_weights = None

    def hard(self, rows, block, q):
        if self._prices is None:
            self._prices = solve(Problem.trusted(block.probs, q, block.weights)).prices
        return Smooth(smoothed(block.probs, q, block.row_share, self._prices), block, q)

    def soft(self, block, q):
        if self._log_weights is None:
            plan = _soft(None, q, block.row_share, probs=block.probs, tol=1e-6)
            self._log_weights = np.maximum(plan.log_weights, -50.0)
        return _soft(None, q, block.row_share, probs=block.probs, start=self._log_weights, tol=1e-8)


async def exact_transport(rows, q):
    return await rows.once(("hard", q.tobytes()), _exact, rows, q)


async def _exact(rows, q):
    block = await rows.collect()
    if rows.warm_start is not None:
        return rows.warm_start.hard(rows, block, q)
    return Transport(solve(Problem.trusted(block.probs, q, block.weights)), block, q)


async def soft_transport(rows, q):
    return await rows.once(("soft", q.tobytes()), _soft_rows, rows, q)


async def _soft_rows(rows, q):
    block = await rows.collect()
    found = (
        _soft(block.log_probs, q, block.row_share)
        if rows.warm_start is None
        else rows.warm_start.soft(block, q)
    )
    plan = SoftTransport(
        log_weights=found.log_weights, marginal_error=found.marginal_error, passes=found.passes
    )
    plan.kept = float(block.row_share @ block.at_prediction(plan.posterior(block)))
    return plan
