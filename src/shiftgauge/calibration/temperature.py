"""Temperature scaling: one number that calibrates confidence on the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.calibration.metrics import FloatArray
from shiftgauge.validation import chunks

#: The range in which the temperature is sought.
LOWEST, HIGHEST = 0.05, 20.0
#: Steps of Newton's method from a temperature nearby. The one that moves 1/T by less than this fraction is the last:
#: what is left is about the square of that.
NEWTON_STEPS, NEWTON_LAST = 8, 1e-3
#: The same in a fit from no temperature nearby.
LAST_STEP = 1e-8


@dataclass(frozen=True)
class Temperature:
    """Divide log-scores by one temperature T (Guo et al., 2017)."""

    temperature: float

    def transform(self, logits: FloatArray) -> FloatArray:
        """(n, K) log-scores in, calibrated log-scores out."""
        return logits / self.temperature

    def details(self) -> dict[str, Any]:
        """What to report: the temperature."""
        return {"temperature": self.temperature}

    def warnings(self) -> tuple[str, ...]:
        """A sentence where the temperature ran to an end of its range."""
        if LOWEST < self.temperature < HIGHEST:
            return ()
        why = (
            "the scores are strongly overconfident, or not those of the labels (wrong order of rows?)"
            if self.temperature >= HIGHEST
            else "the source has no errors, or its scores are strongly underconfident"
        )
        return (
            f"the temperature ran to its bound {self.temperature:g}: {why}; confidences are not calibrated",
        )


def fit_temperature(
    logits: FloatArray, labels: npt.NDArray[np.intp], mass: npt.NDArray[np.float64]
) -> Temperature:
    """Find the T in [0.05, 20] that minimises the source's negative log-likelihood, to convergence.

    In b = 1/T the loss L(b) = mean_i [log sum_j exp(b z_ij) - b z_iy] is convex, with derivative
    mean_i (E_p[z_i] - z_iy) and second derivative mean_i Var_p(z_i) >= 0, p = softmax(b z). Newton's
    method on the derivative, kept inside a shrinking bracket, converges in a few passes.

    Args:
        logits: (n, K) finite log-scores.
        labels: (n,) class indices.
        mass: (n,) row masses that sum to 1.
    """
    of_label = 0.0
    for rows in chunks(*logits.shape):
        part = logits[rows]
        of_label += float(mass[rows] @ (part[np.arange(len(part)), labels[rows]] - part.max(axis=1)))

    def slope(b: float) -> tuple[float, float]:
        found = rate = 0.0
        for rows in chunks(*logits.shape):  # so that nothing is copied whole
            z, m = logits[rows] - logits[rows].max(axis=1, keepdims=True), mass[rows]
            p = b * z
            np.exp(p, out=p)
            total = p.sum(axis=1)
            p *= z
            mean, square = p.sum(axis=1) / total, np.einsum("ij,ij->i", p, z) / total
            found += float(m @ mean)
            rate += float(m @ np.maximum(square - mean**2, 0.0))
        return found - of_label, rate

    low, high = 1.0 / HIGHEST, 1.0 / LOWEST
    at_low, at_high = slope(low)[0], slope(high)[0]
    if at_low == 0.0 == at_high:  # flat (one class, equal scores): nothing to learn, nothing to change
        return Temperature(1.0)
    if at_low >= 0.0:
        return Temperature(HIGHEST)
    if at_high <= 0.0:
        return Temperature(LOWEST)
    return Temperature(1.0 / _root(slope, low, high))


def tempered(z: npt.NDArray[np.float64], b: float) -> npt.NDArray[np.float64]:
    """(n, K) softmax(b z_i), for log-scores z whose rows have maximum 0."""
    out = z * b
    np.exp(out, out=out)
    out *= (1.0 / np.einsum("ij->i", out))[:, None]
    return np.asarray(out)


def loss_slopes(
    z: npt.NDArray[np.float64], labels: npt.NDArray[np.intp], b: float
) -> npt.NDArray[np.float64]:
    """(n, 2) the first two derivatives in b = 1/T of each row's negative log-likelihood, for rows of maximum 0."""
    p = tempered(z, b)
    mean = np.einsum("ij,ij->i", p, z)
    variance = np.einsum("ij,ij,ij->i", p, z, z) - mean**2
    return np.column_stack([mean - z[np.arange(len(z)), labels], variance])


def refit_temperature(
    z: npt.NDArray[np.float64],
    labels: npt.NDArray[np.intp],
    mass: npt.NDArray[np.float64],
    start: float,
    slopes: npt.NDArray[np.float64],
) -> Temperature:
    """`fit_temperature` under other masses, by Newton's method from a temperature nearby.

    Args:
        z: (n, K) log-scores with rows of maximum 0.
        labels: (n,) class indices.
        mass: (n,) row masses that sum to 1.
        start: the temperature nearby.
        slopes: (n, 2) `loss_slopes` there, so that the first step takes no pass over z.
    """
    b = 1.0 / start
    for _ in range(NEWTON_STEPS):
        slope, rate = np.einsum("i,ij->j", mass, slopes).tolist()  # not BLAS, whose sums depend on threads
        step = slope / rate if rate > 0.0 else np.inf
        b -= step
        if not 1.0 / HIGHEST < b < 1.0 / LOWEST:
            break
        if abs(step) <= NEWTON_LAST * b:
            return Temperature(b**-1)
        slopes = loss_slopes(z, labels, b)
    return fit_temperature(z, labels, mass)


def _root(slope: Any, low: float, high: float) -> float:
    """The zero of an increasing function given with its derivative, negative at low and positive at high."""
    b = 1.0
    for _ in range(200):
        value, rate = slope(b)
        if value < 0.0:
            low = b
        else:
            high = b
        step = b - value / rate if rate > 0.0 else low
        new = step if low <= step <= high else np.sqrt(low * high)
        if abs(new - b) <= LAST_STEP * b:
            return float(new)
        b = float(new)
    return b
