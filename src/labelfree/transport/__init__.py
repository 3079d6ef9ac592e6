"""Optimal transport of rows into classes: exact with a certificate, soft, and smoothed for replicates.

>>> from labelfree.transport import Problem, solve
>>> solve(Problem([[0.9, 0.1], [0.6, 0.4]], class_mass=[1, 1])).certificate.gap
0.0
"""

from labelfree.transport._audit import audit
from labelfree.transport._prepare import warm_up
from labelfree.transport.blocks import Block, Blocks, Pile, Threads, cut
from labelfree.transport.entropic import SoftTransport, soft_transport
from labelfree.transport.problem import Problem
from labelfree.transport.smoothing import Smoothed, smoothed
from labelfree.transport.solution import Certificate, Transport
from labelfree.transport.solver import solve
from labelfree.transport.streamed import Sample, Streamed, solve_blocks, take_sample
from labelfree.transport.weighed import Shares, SoftWeights, likely_shares, soft_blocks

__all__ = [
    "Block",
    "Blocks",
    "Certificate",
    "Pile",
    "Problem",
    "Sample",
    "Shares",
    "Smoothed",
    "SoftTransport",
    "SoftWeights",
    "Streamed",
    "Threads",
    "Transport",
    "audit",
    "cut",
    "likely_shares",
    "smoothed",
    "soft_blocks",
    "soft_transport",
    "solve",
    "solve_blocks",
    "take_sample",
    "warm_up",
]
