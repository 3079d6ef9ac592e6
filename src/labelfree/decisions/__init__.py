"""What an engineer can act on: a ceiling, a verdict of suitability, the best of several models, a grade."""

from labelfree.decisions.ceilings import Ceiling, ceiling
from labelfree.decisions.critic import Discrepancy, discrepancy
from labelfree.decisions.grades import grade, grade_of
from labelfree.decisions.ranking import Ranked, Ranking, rank
from labelfree.decisions.suitability import Suitability, suitable

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
