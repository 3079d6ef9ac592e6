"""Optimal transport of rows into classes: exact with a certificate, soft, and smoothed for replicates.

>>> from shiftgauge.transport import Problem, solve
>>> solve(Problem([[0.9, 0.1], [0.6, 0.4]], class_mass=[1, 1])).certificate.gap
0.0
"""

from shiftgauge.transport.compiling import warm_up
from shiftgauge.transport.exact import exact_transport
from shiftgauge.transport.plan import Certificate, Pieces, Transport
from shiftgauge.transport.problem import Problem
from shiftgauge.transport.smoothing import SmoothedTransport, smoothed_transport
from shiftgauge.transport.soft import SoftTransport, posterior_sums, soft_transport, thinned
from shiftgauge.transport.solver import Solution, audit, solve
from shiftgauge.transport.warm_starts import WarmStart

__all__ = [
    "Certificate",
    "Pieces",
    "Problem",
    "SmoothedTransport",
    "SoftTransport",
    "Solution",
    "Transport",
    "WarmStart",
    "audit",
    "exact_transport",
    "posterior_sums",
    "smoothed_transport",
    "soft_transport",
    "solve",
    "thinned",
    "warm_up",
]
