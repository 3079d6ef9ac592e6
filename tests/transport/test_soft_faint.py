"""Soft transport of rows that believe in a label without mass: read by their logarithms, not squared to nothing."""

import warnings

import numpy as np

from shiftgauge.transport import soft_transport


def test_rows_that_believe_in_a_label_without_mass():
    log_probs = np.array([[0.0, -420.0, -421.0], [-1.0, -1.0, -1.2], [-0.5, -2.0, -1.0]])
    q, mass = np.array([0.0, 0.6, 0.4]), np.full(3, 1 / 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = soft_transport(None, q, mass, probs=np.exp(log_probs))
    assert np.allclose(mass @ plan.posterior, q, atol=1e-9)
    assert np.allclose(plan.posterior, soft_transport(log_probs, q, mass).posterior, atol=1e-9)
