"""What the searches are made of: the rows that may move, guesses of prices, threads, steps of Newton's method."""

import contextlib
import time

import numpy as np
import pytest
from shiftgauge.transport._active import LEAST, _rings, active_items, rehearsal, rehearsed
from shiftgauge.transport._rows import Crew, all_rows, spans
from shiftgauge.transport._units import ONE, class_units, row_unit
from shiftgauge.transport.blocks import Block
from shiftgauge.transport.entropic import ABSORB, slab

from shiftgauge.transport import Problem, _newton
from shiftgauge.transport._steps import raised
from shiftgauge.transport.solver import _imbalance


def best(n=3000, k=5, seed=0):
    """Rows, prices, and what a pass at these prices says of the rows."""
    rng = np.random.default_rng(seed)
    problem = Problem(rng.dirichlet(np.full(k, 0.5), n), rng.dirichlet(np.full(k, 6.0)))
    rows = all_rows(problem, Crew(1))
    u = np.rint(rng.uniform(0.0, 0.1, k) * ONE).astype(np.int64)
    assigned, margin = np.full(n, -1, dtype=np.intp), np.empty(n, np.float32)
    held = rows.best_classes(u, assigned, margin)
    return problem, rows, u, assigned, margin, held


@pytest.mark.parametrize("widest", [0.02, 0.2, 0.45])
def test_active_rows_are_those_that_some_pair_of_prices_could_move(widest):
    problem, rows, u, assigned, margin, _ = best()
    T = np.rint(np.random.default_rng(1).uniform(0.0, widest, (5, 5)) * ONE).astype(np.int64)
    np.fill_diagonal(T, 0)
    found = active_items(rows, u, assigned, margin, T)
    worth = problem.probs - u / ONE
    wanted = [
        i
        for i, a in enumerate(assigned)
        if any(worth[i, a] - worth[i, b] <= T[a, b] / ONE for b in range(5) if b != a)
    ]
    assert found.tolist() == wanted
    assert 0 < len(wanted) < problem.n


def test_the_guess_of_prices_allows_for_what_a_rehearsal_did():
    """Twice the rise of a over b in the sample, or next to nothing, and twice the margins of those that went."""
    problem, rows, u, _, _, held = best()
    wanted = np.rint(problem.class_mass * held.sum()).astype(np.int64)
    excess = held - wanted
    excess[0] -= excess.sum()
    total = int(held.sum())
    T = rehearsed(rows, u, excess, total, 2.0, entries=5000)
    after, own = rehearsal(rows, u, excess, total, 5000)
    d = after - u
    assert np.ptp(d) > 0.01 * ONE
    for a in range(5):
        for b in range(5):
            rise = max(float(d[a] - d[b]), LEAST * ONE)
            assert T[a, b] == pytest.approx(2 * (rise + own[a] + own[b]), abs=2)


def test_a_sample_never_wants_less_than_nothing_of_a_class():
    """More has to go than the sample holds of a class: all of it goes, and mass is kept."""
    _, rows, u, _, _, held = best()
    total = int(held.sum())
    excess = np.array([total // 2, -(total // 2), 0, 0, 0])
    assert held[0] < excess[0]
    after, _ = rehearsal(rows, u, excess, total, 5000)
    sample = rows.sample(3)
    left = sample.best_classes(
        after, np.full(sample.items, -1, dtype=np.intp), np.empty(sample.items, np.float32)
    )
    assert left[0] <= sample.unit  # but for a row that ties


def test_threads_have_ended_when_a_solve_is_left():
    """What runs is waited for, for it writes into arrays; what does not run yet never does."""
    begun, ended = [], []

    def task(lo, hi):
        begun.append(lo)
        time.sleep(0.1)
        ended.append(lo)
        return lo

    with contextlib.suppress(KeyboardInterrupt), Crew(2) as crew:
        for _ in crew.map(task, spans(200, 1)):
            raise KeyboardInterrupt
    assert sorted(ended) == sorted(begun)
    assert 0 < len(begun) < 200


def test_conjugate_gradients_end_after_as_many_steps_as_there_are_curvatures():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    A, b = Q * np.tile([0.01, 0.1, 0.5, 1.0], 3) @ Q.T, rng.normal(size=12)
    steps = []

    def product(d):
        steps.append(1)
        return A @ d

    x = _newton._conjugate_gradients(product, b, np.ones(12))
    assert np.linalg.norm(A @ x - b) <= 1e-3 * np.linalg.norm(b)
    assert len(steps) == 4


@pytest.mark.parametrize(("damping", "most"), [(0.0, 5), (0.01, 4), (1.0, 3)])
def test_a_step_by_products_is_the_step_by_the_matrix(damping, most):
    """And the preconditioner knows the diagonal, so that few products do."""
    rng = np.random.default_rng(0)
    k = 60
    held = rng.dirichlet(np.full(k, 2.0))
    H = np.diag(held) - 0.5 * np.outer(held, held)
    g = rng.normal(size=k) * held
    g -= g.mean()
    direct = _newton._step(_newton.Reading(0.0, held, lambda: H.copy()), g, damping)
    steps = []

    def product(d):
        steps.append(1)
        return H @ d

    found = _newton._step(_newton.Reading(0.0, held, product=product), g, damping)
    assert np.linalg.norm(found - direct) <= 1e-3 * np.linalg.norm(direct)
    assert len(steps) <= most


def test_weights_out_of_range_are_read_by_logarithms():
    probs = np.array([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
    v = np.array([-2 * ABSORB, 2 * ABSORB, 0.0])
    live = np.array([True, True, False])
    E, top = raised(Block(probs, 0), v, live)
    assert np.isfinite(E).all()
    assert E.max() == 1.0
    with np.errstate(divide="ignore"):
        found = np.log(E) + top[:, None]
    wanted = np.log(np.maximum(probs[:, live], 1e-300)) + v[live]
    np.testing.assert_allclose(found[np.isfinite(found)], wanted[np.isfinite(found)])


def test_rows_of_a_slab_fit_the_cache():
    assert [slab(k) for k in (1, 10, 128, 1000, 10**7)] == [65536, 6553, 512, 524, 1]


@pytest.mark.parametrize("row", [[7], [1, 2, 5], [5, 1, 5, 2, 1, 5], [2, 2], [9, 3, 4, 3]])
def test_pieces_of_a_row_form_a_ring(row):
    """Going round from any piece one meets all pieces of its row, in their order, and no other."""
    ring = _rings(np.array(row))
    for place, here in enumerate(row):
        met, at = [place], ring[place]
        while at != place:
            met.append(int(at))
            at = ring[at]
        mine = [i for i, other in enumerate(row) if other == here]
        first = mine.index(place)
        assert met == mine[first:] + mine[:first]


@pytest.mark.parametrize("n", [1_000_003, 30_000_001])
def test_whole_rows_are_wanted_where_class_masses_are_counts_of_rows(n):
    """Shares of many rows are off by rounding: still no row need be split."""
    whole = int(row_unit(float(n)))
    counts = np.random.default_rng(n).multinomial(n, np.full(7, 1 / 7))
    shares = np.nextafter(counts / n, np.where(np.arange(7) % 2, 0.0, 1.0))
    assert (shares * float(n * whole) / whole != counts).any()
    units = class_units(shares, n * whole, whole)
    assert units.tolist() == [int(c) * whole for c in counts]


def test_the_imbalance_of_prices_is_the_mass_that_has_to_move():
    problem, rows, u, assigned, _, _ = best()
    held = np.bincount(assigned, minlength=5) / problem.n
    assert _imbalance(rows, u) == pytest.approx(np.abs(held - problem.class_mass).sum() / 2, abs=1e-9)
