"""Class masses that are no multiple of a row's mass, at sizes where sampling and active rows come into play.

Found by use: with Dirichlet(0.3) rows and Dirichlet(5) class masses, 5,000 x 10 did not come back within a minute.
"""

import numpy as np
import pytest

from shiftgauge.transport import Problem, solve

ot = pytest.importorskip("ot")


@pytest.mark.parametrize("n", [500, 2_000, 5_000, 20_000])
@pytest.mark.parametrize("concentration", [0.05, 0.3, 3.0])
def test_random_rows_and_masses(n, concentration):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(10, concentration), n)
    q = rng.dirichlet(np.full(10, 5.0))
    solution = solve(Problem(p, q))
    assert abs(solution.certificate.gap) <= 1e-9
    assert solution.certificate.violation <= 1e-9
    if n <= 5_000:
        assert solution.value == pytest.approx(
            ot.emd2(np.full(n, 1 / n), q, 1 - p, numItermax=10**7), abs=1e-9
        )


def test_masses_near_the_largest_number_do_not_overflow():
    held = Problem([[0.5, 0.5], [0.4, 0.6]], class_mass=[1.5e308, 1.5e308], row_mass=[1.5e308, 0.5e308])
    assert held.class_mass.tolist() == [0.5, 0.5]
    assert held.row_mass.tolist() == pytest.approx([0.75, 0.25])
