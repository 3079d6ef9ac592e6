"""Optimal transport of rows into classes: exact with a certificate, soft, and smoothed for replicates.

>>> from labelfree.transport import Problem, solve
>>> solve(Problem([[0.9, 0.1], [0.6, 0.4]], class_mass=[1, 1])).certificate.gap
0.0
"""

from labelfree.transport._audit import audit
from labelfree.transport._prepare import warm_up
from labelfree.transport.entropic import SoftTransport, soft_transport
from labelfree.transport.problem import Problem
from labelfree.transport.smoothing import Smoothed, smoothed
from labelfree.transport.solution import Certificate, Transport
from labelfree.transport.solver import solve

__all__ = [
    "Certificate",
    "Problem",
    "Smoothed",
    "SoftTransport",
    "Transport",
    "audit",
    "smoothed",
    "soft_transport",
    "solve",
    "warm_up",
]
