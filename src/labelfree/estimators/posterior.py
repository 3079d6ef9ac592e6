"""The posterior per row behind a method's answer: what metrics, slices and row tables are read off.

A method says how much of the target is wrong; to say where, it needs a probability of every class for every row.
Each method has one that it believes (`believed`); its doubt of the predictions is then brought to the method's own
answer (`tilted`), so that the error of a slice, of a class and of the whole fit together.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from labelfree.estimators.base import Estimator
from labelfree.estimators.label_shift import LabelShift
from labelfree.estimators.marginal import MarginalEstimator
from labelfree.estimators.view import View
from labelfree.labelshift import reweighted

Array = npt.NDArray[np.float64]

#: The tilt's log-odds stay within this: beyond it every row is certainly right, or certainly wrong.
FURTHEST = 60.0


def believed(method: Estimator, target: View) -> Array:
    """(n, K) what a fitted method takes the rows' labels to be.

    Methods that transport to label shares: the soft plan to the same shares (the exact plan moves as little mass as
    it can, and must not be read row by row). label-shift: the re-weighted posteriors. All others: the calibrated
    probabilities.
    """
    if isinstance(method, MarginalEstimator):
        return target.soft_transport(method.masses(target)).posterior
    if isinstance(method, LabelShift):
        return reweighted(target.probs, target.label_shares(method.prior_).weights)
    return target.probs


def tilted(posterior: Array, target: View, error: float) -> Array:
    """(n, K) the posterior with its mean doubt of the predictions brought to `error`.

    The odds that a prediction is wrong are multiplied by one factor for all rows, and the labels other than the
    prediction keep their proportions. Rows that are certain stay so; an error that no factor reaches leaves every
    other row as wrong (or right) as can be.

    >>> from labelfree import Target
    >>> from labelfree.calibration import Calibration
    >>> from labelfree.calibration.fit import Identity
    >>> view = View(Target(probs=[[.9, .1], [.6, .4]]), Calibration("none", Identity(), {}))
    >>> view.doubt(tilted(view.probs, view, 0.4)).mean().round(6)
    np.float64(0.4)
    """
    from scipy.optimize import brentq
    from scipy.special import expit, logit

    doubt = target.doubt(posterior)
    if abs(float(target.mass @ doubt) - error) <= 1e-12:
        return posterior
    odds = logit(doubt)  # certain rows are infinite, and stay

    def excess(shift: float) -> float:
        return float(target.mass @ expit(odds + shift)) - error

    if excess(-FURTHEST) >= 0.0 or excess(FURTHEST) <= 0.0:
        shift = -FURTHEST if excess(-FURTHEST) >= 0.0 else FURTHEST
    else:
        shift = float(brentq(excess, -FURTHEST, FURTHEST, xtol=1e-13))
    new = expit(odds + shift)
    scale = np.divide(new, doubt, out=np.ones_like(new), where=doubt > 0.0)
    out = posterior * scale[:, None]
    out[np.arange(target.n), target.predictions] = 1.0 - new
    return np.asarray(out)
