"""What an engineer can act on: a ceiling, a verdict of suitability, the best of several models, a grade."""

from shiftgauge.decisions.ceilings import Ceiling, ceiling
from shiftgauge.decisions.critic import Discrepancy, discrepancy
from shiftgauge.decisions.grades import grade, grade_of
from shiftgauge.decisions.ranking import Ranked, Ranking, rank
from shiftgauge.decisions.suitability import Suitability, suitable

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
