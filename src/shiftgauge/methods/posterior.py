"""The posterior per row behind a method's answer: what metrics, slices and row tables are read off.

A method says how much of the target is wrong; to say where, it needs a probability of every class for every row.
Each method has one that it believes (`believed`); its doubt of the predictions is then brought to the method's own
answer (`tilted`), so that the error of a slice, of a class and of the whole fit together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from shiftgauge.labelshift import reweighted
from shiftgauge.methods.base import Estimator
from shiftgauge.methods.label_shift import LabelShift
from shiftgauge.methods.marginal import MarginalEstimator
from shiftgauge.methods.scanned import ScanView
from shiftgauge.methods.view import View

Array = npt.NDArray[np.float64]

#: Newton steps of the tilt over all rows; from the root of a sample two or three do.
STEPS = 20
#: The tilt's log-odds stay within this: beyond it every row is certainly right, or certainly wrong.
FURTHEST = 60.0


#: (b, K) what the labels of a view's rows are taken to be.
Belief = Callable[[View], Array]


def belief(method: Estimator, target: View | ScanView) -> Belief:
    """What a fitted method takes the rows' labels to be, view by view.

    Methods that transport to label shares: the soft plan to the same shares (the exact plan moves as little mass as
    it can, and must not be read row by row). label-shift: the re-weighted posteriors. All others: the calibrated
    probabilities.
    """
    if isinstance(method, MarginalEstimator):
        return target.soft_transport(method.masses(target)).posterior
    if isinstance(method, LabelShift):
        weights = target.label_shares(method.prior_).weights
        return lambda rows: reweighted(rows.probs, weights)
    return lambda rows: rows.probs


def believed(method: Estimator, target: View) -> Array:
    """(n, K) what a fitted method takes the labels of rows in memory to be; see `belief`."""
    return belief(method, target)(target)


def blended(parts: Sequence[tuple[float, Belief]]) -> Belief:
    """The mean of several beliefs, by weights that sum to 1."""
    return lambda rows: np.asarray(sum(weight * one(rows) for weight, one in parts))


def tilted(posterior: Array, target: View, error: float) -> Array:
    """(n, K) the posterior with its mean doubt of the predictions brought to `error`.

    The odds that a prediction is wrong are multiplied by one factor for all rows, and the labels other than the
    prediction keep their proportions. Rows that are certain stay so; an error that no factor reaches leaves every
    other row as wrong (or right) as can be.

    >>> from shiftgauge import Target
    >>> from shiftgauge.calibration import Calibration
    >>> from shiftgauge.calibration.fit import Identity
    >>> view = View(Target(probs=[[.9, .1], [.6, .4]]), Calibration("none", Identity(), {}))
    >>> view.doubt(tilted(view.probs, view, 0.4)).mean().round(6)
    np.float64(0.4)
    """

    shift = _shift(target, lambda rows: posterior, error)
    return posterior if shift is None else moved(posterior, target, shift)


def tilt(of: Belief, target: View | ScanView, error: float) -> Belief:
    """The belief with its mean doubt of the predictions brought to `error`: `tilted`, view by view."""
    shift = _shift(target, of, error) if isinstance(target, View) else _shift_of_all(target, of, error)
    return of if shift is None else lambda rows: moved(of(rows), rows, shift)


def moved(posterior: Array, rows: View, shift: float) -> Array:
    """(b, K) posteriors whose doubt of the predictions has its log-odds moved by `shift`."""
    from scipy.special import expit, logit

    doubt = rows.doubt(posterior)
    new = expit(logit(doubt) + shift)  # certain rows are infinite, and stay
    scale = np.divide(new, doubt, out=np.ones_like(new), where=doubt > 0.0)
    out = posterior * scale[:, None]
    out[np.arange(rows.n), rows.predictions] = 1.0 - new
    return np.asarray(out)


def _shift(target: View, of: Belief, error: float) -> float | None:
    """By how much all log-odds of doubt move; None where they need not."""
    from scipy.optimize import brentq
    from scipy.special import expit, logit

    doubt = target.doubt(of(target))
    if abs(float(target.mass @ doubt) - error) <= 1e-12:
        return None
    odds = logit(doubt)

    def excess(shift: float) -> float:
        return float(target.mass @ expit(odds + shift)) - error

    if excess(-FURTHEST) >= 0.0 or excess(FURTHEST) <= 0.0:
        return -FURTHEST if excess(-FURTHEST) >= 0.0 else FURTHEST
    return float(brentq(excess, -FURTHEST, FURTHEST, xtol=1e-13))


def _shift_of_all(target: ScanView, of: Belief, error: float) -> float | None:
    """The same for rows that are not in memory: from the root of those at home, Newton's method, a pass a step.

    The mean doubt rises with the shift, and its slope is the mean of doubt x (1 - doubt).
    """
    from scipy.special import expit, logit

    start = _shift(target.home, of, error)
    shift = 0.0 if start is None else start
    for _ in range(STEPS):

        def read(rows: View, shift: float = shift) -> Array:
            new = expit(logit(rows.doubt(of(rows))) + shift)
            return np.column_stack([new, new * (1.0 - new)])

        mean, slope = target.mean(read)
        if abs(mean - error) <= 1e-12:
            return shift if shift else None
        if slope <= 0.0 or abs(shift) >= FURTHEST:
            return shift
        step = (error - mean) / slope
        shift = float(np.clip(shift + step, -FURTHEST, FURTHEST))
        if abs(step) <= 1e-13:
            return shift
    return shift
