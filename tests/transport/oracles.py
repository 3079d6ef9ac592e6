"""Slow, obvious ways to the numbers that the solvers find, and rows to try them on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from shiftgauge.rows import Block, Rows


def reference_value(problem):
    """The optimal cost by scipy's linear programming (HiGHS)."""
    n, k = problem.n, problem.k
    rows = np.full(n, 1.0 / n) if problem.row_mass is None else problem.row_mass
    cost = 1.0 - problem.probs.astype(np.float64).ravel()
    at = np.arange(n * k)
    equations = np.concatenate([at // k, n + at % k])
    ones = coo_matrix((np.ones(2 * n * k), (equations, np.concatenate([at, at]))), shape=(n + k, n * k))
    # One equation is implied by the others; without it rounding cannot make them contradict each other.
    masses = np.concatenate([rows, problem.class_mass])
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    answer = linprog(cost, A_eq=ones.tocsr()[:-1], b_eq=masses[:-1], method="highs", options=tight)
    assert answer.status == 0, answer.message
    return float(answer.fun)


def sinkhorn(p, q, mass, rounds=20_000):
    """Iterative scaling to machine precision."""
    w = np.ones(len(q))
    for _ in range(rounds):
        r = p * w
        held = mass @ (r / r.sum(axis=1, keepdims=True))
        w *= q / held
        if np.abs(held - q).max() < 1e-15:
            break
    r = p * w
    return r / r.sum(axis=1, keepdims=True)


def network(n, k, seed=0, dtype=np.float64, sharp=3.0):
    """Probabilities of a made-up network, class masses, row masses."""
    rng = np.random.default_rng(seed)
    z = sharp * rng.normal(size=(n, k)) + rng.normal(size=k)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return (p / p.sum(axis=1, keepdims=True)).astype(dtype), rng.dirichlet(np.full(k, 8.0)), rng.random(n)


def overconfident(n, k, seed=0, dtype=np.float64):
    """A sharp softmax whose pseudo-labels are far from even."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 6, (n, k)) + rng.normal(0, 3, k)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (p / p.sum(axis=1, keepdims=True)).astype(dtype)


@dataclass(frozen=True)
class Reread:
    """A part that is read anew in every pass, as a file is; it can be pickled."""

    block: Block
    name: str = "part"

    @property
    def rows(self):
        return len(self.block)

    def read(self, columns=()):
        yield Block(self.block.scores.copy(), weights=self.block.weights, kind="probs")


def cut_rows(p, at=(), mass=None, memory=True, engine=None):
    """Rows of an array that is cut at the given places, in memory or read anew in every pass."""
    ends = [0, *at, len(p)]
    spans = [(lo, hi) for lo, hi in pairwise(ends) if lo < hi]
    parts = [Block(p[lo:hi], weights=None if mass is None else mass[lo:hi], start=lo) for lo, hi in spans]
    if memory:
        rows = Rows.of_block(Block(p, weights=mass), block_rows=len(p))
        rows.parts = [type(rows.parts[0])(part) for part in parts]
        rows.starts = [lo for lo, _ in spans]
        return rows
    return Rows(
        [Reread(part) for part in parts], "probs", p.shape[1], weighted=mass is not None, engine=engine
    )


def blocks_of(rows):
    """The blocks of rows that `cut_rows` made, with their places."""
    return [
        Block(part.block.scores, weights=part.block.weights, start=lo)
        for part, lo in zip(rows.parts, rows.starts, strict=True)
    ]
