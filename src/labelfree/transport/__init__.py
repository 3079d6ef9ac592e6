"""Exact optimal transport of rows into classes, with a certificate.

>>> from labelfree.transport import Problem, solve
>>> solve(Problem([[0.9, 0.1], [0.6, 0.4]], class_mass=[1, 1])).certificate.gap
0.0
"""

from labelfree.transport.problem import Problem
from labelfree.transport.solution import Certificate, Transport
from labelfree.transport.solver import solve

__all__ = ["Certificate", "Problem", "Transport", "solve"]
