"""One Newton method for all of entropic transport: class weights that give every class its mass.

Rows i have scores s_ij, and v are K log-weights. The dual of entropic transport is the convex problem

    minimise  F(v) = sum_i mass_i log sum_j exp(s_ij + v_j) - sum_j q_j v_j,

with the gradient (mass that each class holds) - q and the Hessian diag(held) - sum_i mass_i x_i x_i', where
x_i = softmax(s_i + v) is the row's plan. SCOT has s = log p, smoothed transport s = p / eps. The caller of
`newton` says how F is read at v, in memory or in passes over files.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: No step changes a log-weight by more than this: beyond, numbers overflow before they are judged.
LONGEST = 200.0
#: Conjugate gradients stop at this share of the gradient: a closer step costs more passes than it saves. Where the
#: system is badly conditioned they would not get there, and stop after so many products.
CLOSE_ENOUGH, MOST_PRODUCTS = 0.05, 50


@dataclass(frozen=True)
class DualValue:
    """The dual at one v.

    Attributes:
        value: F without its linear term.
        held: (K,) the mass that each class receives.
        hessian: (K, K) the Hessian; None where only products with it are cheap.
        product: returns the Hessian times a vector.
    """

    value: float
    held: Array
    hessian: Array | None = None
    product: Callable[[Array], Awaitable[Array]] | None = None


@dataclass(frozen=True)
class Optimum:
    """Where the method ended: v (K,), its reading, and the largest class mass that is missed."""

    v: Array
    reading: DualValue
    error: float


async def newton(
    read: Callable[[Array], Awaitable[DualValue]], v: Array, q: Array, *, tol: float, more: Callable[[], bool]
) -> Optimum:
    """Minimise F from v on until no class mass is missed by more than tol.

    Steps are damped (Levenberg-Marquardt): a step is taken if it lowers F as promised or halves the gradient,
    else the damping grows; where F is almost flat, as between saturated rows, the damping falls and steps
    lengthen.

    Args:
        read: F at v.
        v: (K,) where to start.
        q: (K,) class masses, all positive, summing to 1.
        tol: the largest class mass to miss.
        more: asked before each step; the best v so far is returned once it says no.
    """
    here = await read(v)
    F, g = here.value - q @ v, here.held - q
    damping = 0.0
    while np.abs(g).max() > tol and more():
        step = await _step(here, g, damping)
        trial = v + step
        trial -= trial.max()
        there = await read(trial)
        new_F, new_g = there.value - q @ trial, there.held - q
        promised = -float(g @ step) / 2
        lower = new_F <= F - 1e-4 * promised and promised > 1e-12 * (1.0 + abs(F))
        level = new_F <= F + 1e-9 * (1.0 + abs(F))  # near the optimum F is flat to rounding
        if lower or (level and np.abs(new_g).max() <= 0.5 * np.abs(g).max()):
            v, F, g, here = trial, new_F, new_g, there
            damping = 0.0 if damping < 1e-12 else damping / 16
        elif damping > 1e6:
            break  # rounding alone is left
        else:
            damping = max(16 * damping, 1e-8)
    return Optimum(v, here, float(np.abs(g).max()))


async def _step(here: DualValue, g: Array, damping: float) -> Array:
    """The damped Newton step; F is constant along (1, ..., 1), which the added term fixes."""
    k = len(g)
    ridge = damping + 1e-300
    if here.hessian is not None:
        H = here.hessian + 1.0 / k**2
        H[np.diag_indices(k)] += ridge
        step = _solved(H, -g)
    else:
        curved = here.product
        assert curved is not None

        async def product(d: Array) -> Array:
            return np.asarray(await curved(d) + ridge * d + d.mean() / k)

        step = await _conjugate_gradients(product, -g, 1.0 / (here.held + ridge + 1.0 / k**2))
    step = step - step.mean()
    return np.asarray(step * min(1.0, LONGEST / max(float(np.abs(step).max()), 1e-300)))


def _solved(H: Array, b: Array) -> Array:
    """H^-1 b; where H is singular to rounding, as for classes that no row is near, the shortest solution."""
    try:
        step = np.asarray(np.linalg.solve(H, b), np.float64)
        if np.abs(step).max() <= LONGEST:
            return step
    except np.linalg.LinAlgError:
        pass
    return np.asarray(np.linalg.lstsq(H, b, rcond=None)[0])


async def _conjugate_gradients(
    product: Callable[[Array], Awaitable[Array]], b: Array, inverse_diagonal: Array
) -> Array:
    """Solve product(x) = b roughly, preconditioned by a diagonal."""
    x = np.zeros_like(b)
    residual = b.copy()
    z = inverse_diagonal * residual
    d = z.copy()
    rho = float(residual @ z)
    enough = CLOSE_ENOUGH * np.linalg.norm(b)
    for _ in range(min(len(b), MOST_PRODUCTS)):
        image = await product(d)
        curvature = float(d @ image)
        if curvature <= 0.0:
            break
        alpha = rho / curvature
        x += alpha * d
        residual -= alpha * image
        if np.linalg.norm(residual) <= enough:
            break
        z = inverse_diagonal * residual
        new_rho = float(residual @ z)
        d = z + (new_rho / rho) * d
        rho = new_rho
    return x if x.any() else inverse_diagonal * b
