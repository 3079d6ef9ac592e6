"""Functions of results that return matplotlib figures; matplotlib is imported where it is used.

Colours are Okabe and Ito's, distinguishable with every common form of colour blindness.
"""

from shiftgauge.plots.answers import estimates, truth
from shiftgauge.plots.experiment import against_pseudo_shift, cost_distribution, scatter
from shiftgauge.plots.over_time import timeline
from shiftgauge.plots.rise import drivers
from shiftgauge.plots.sample import confidence, costs, proportions, reliability
from shiftgauge.plots.ternary import triangle

__all__ = [
    "against_pseudo_shift",
    "confidence",
    "cost_distribution",
    "costs",
    "drivers",
    "estimates",
    "proportions",
    "reliability",
    "scatter",
    "timeline",
    "triangle",
    "truth",
]
