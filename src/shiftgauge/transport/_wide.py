"""Problems with more classes than rows, solved the other way round.

Rows and classes are alike to the transport problem: K classes of mass q_j can as well be moved into n rows that
take mass_i each. The search works on a graph of the side that is moved *into*, in time and memory of its size
squared, so the smaller side is the one to take. Its prices v prove the same: u_j = max_i (p_ij - v_i) are prices
of the classes with the same dual value, since p_ij - u_j <= v_i for every row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shiftgauge.transport._forest import Part
from shiftgauge.transport._rows import Indices
from shiftgauge.transport._units import Units
from shiftgauge.transport.problem import Problem

Array = npt.NDArray[np.float64]


def turned(problem: Problem) -> Problem:
    """The same problem with rows and classes exchanged."""
    mass = np.full(problem.n, 1.0 / problem.n) if problem.row_mass is None else problem.row_mass
    return Problem(np.ascontiguousarray(problem.probs.T), mass, problem.class_mass)


def other_prices(problem: Problem, prices: Array) -> Array:
    """(n,) for prices (K,) of the columns of a problem, the best prices of its rows: max_j (p_ij - u_j)."""
    out = np.empty(problem.n)
    for row in range(problem.n):
        out[row] = (problem.probs[row].astype(np.float64) - prices).max()
    return np.asarray(out - out.min())


def turned_back(
    assigned: Indices, parts: dict[Part, int], units: Units, n: int
) -> tuple[Indices, dict[Part, int]]:
    """The plan of the turned problem as one of the problem: the parts of every row, which are most often several.

    Args:
        assigned: (K,) the row that takes each class.
        parts: units by (class, row) of the classes that are split among rows.
        units: (K,) of each class.
        n: the number of rows.
    """
    split = {cls for cls, _ in parts}
    out = {(row, cls): mass for (cls, row), mass in parts.items()}
    for cls in np.flatnonzero(units).tolist():
        if cls not in split:
            out[int(assigned[cls]), cls] = int(units[cls])
    return np.zeros(
        n, dtype=np.intp
    ), out  # every row with mass is among the parts; the others may sit anywhere
