"""What an engineer can act on: a ceiling, a verdict of suitability, the best of several models, a grade."""

from shiftgauge.inference.decisions.ceilings import Ceiling, ceiling
from shiftgauge.inference.decisions.critic import Discrepancy, discrepancy
from shiftgauge.inference.decisions.grades import grade, grade_of
from shiftgauge.inference.decisions.ranking import Ranked, Ranking, rank
from shiftgauge.inference.decisions.suitability import Suitability, suitable

__all__ = [
    "Ceiling",
    "Discrepancy",
    "Ranked",
    "Ranking",
    "Suitability",
    "ceiling",
    "discrepancy",
    "grade",
    "grade_of",
    "rank",
    "suitable",
]
