"""Optimal transport of rows into classes: exact with a certificate, soft, and smoothed for replicates.

>>> from shiftgauge.transport import Problem, solve
>>> solve(Problem([[0.9, 0.1], [0.6, 0.4]], class_mass=[1, 1])).certificate.gap
0.0
"""

from shiftgauge.transport._audit import audit
from shiftgauge.transport._prepare import warm_up
from shiftgauge.transport._shim import SoftTransport, Transport, WarmStart, exact_transport, soft_transport
from shiftgauge.transport.blocks import Block, Blocks, Pile, Threads, cut
from shiftgauge.transport.problem import Problem
from shiftgauge.transport.smoothing import Smoothed, smoothed
from shiftgauge.transport.solution import Certificate
from shiftgauge.transport.solver import solve
from shiftgauge.transport.streamed import Sample, Streamed, solve_blocks, take_sample
from shiftgauge.transport.weighed import Shares, SoftWeights, likely_shares, soft_blocks

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
    "WarmStart",
    "audit",
    "cut",
    "exact_transport",
    "likely_shares",
    "smoothed",
    "soft_blocks",
    "soft_transport",
    "solve",
    "solve_blocks",
    "take_sample",
    "warm_up",
]
