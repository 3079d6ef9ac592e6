"""The slow, obvious solver: the transport problem as a linear programme. For tests."""

from __future__ import annotations

import numpy as np

from shiftgauge.transport.problem import Problem


def reference_value(problem: Problem) -> float:
    """Return the optimal cost by scipy's linear programming (HiGHS)."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

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
    if answer.status != 0:
        raise RuntimeError(answer.message)
    return float(answer.fun)
