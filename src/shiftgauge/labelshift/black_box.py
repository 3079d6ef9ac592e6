"""BBSE: the target's label shares from the predictions alone."""

from __future__ import annotations

import numpy as np

from shiftgauge.labelshift.confusion import Array, normalised


def bbse(confusion: Array, pseudo_labels: Array) -> Array:
    """Black-box shift estimation: solve C w = h for the class weights, then pi_c = w_c q_c.

    Under label shift P_T(prediction = j) = sum_c P_S(prediction = j, label = c) w_c with
    w_c = P_T(c) / P_S(c). Least squares of least norm where C is singular (a class never predicted, or
    without labels: such a class keeps no mass of its own); negative weights become 0 and the shares are
    renormalised.

    Args:
        confusion: (K, K) C, the source's joint shares, predictions in rows, labels in columns.
        pseudo_labels: (K,) h, the target's shares of predictions.

    Returns:
        (K,) the target's label shares.

    Reference: Lipton, Wang and Smola, Detecting and Correcting for Label Shift with Black Box
    Predictors, 2018.

    >>> C = np.array([[.4, .1], [.1, .4]])
    >>> bbse(C, C @ np.array([1.6, .4])).round(6).tolist()
    [0.8, 0.2]
    """
    q = confusion.sum(axis=0)
    weights = np.linalg.lstsq(confusion, pseudo_labels, rcond=None)[0]
    return normalised(q * np.maximum(weights, 0.0), q)
