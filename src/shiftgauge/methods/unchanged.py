"""unchanged: the source's own error. Baseline: assume the source error."""

from __future__ import annotations

from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.rows import Rows


class Unchanged(Estimator):
    """Nothing changed: the error on the source. The baseline that every other method has to beat.

    On natural shifts of tables that is harder than it sounds (`docs/explanation/natural.md`).

    >>> from shiftgauge import Source, Target
    >>> source = Source(probs=[[.9, .1], [.2, .8], [.6, .4], [.3, .7]], labels=[0, 1, 1, 1])
    >>> Unchanged().fit(source).estimate(Target(probs=[[.5, .5]])).error
    0.25
    """

    name = "unchanged"
    title = "Unchanged"
    meaning = "the source's own error"

    async def read(self, target: Rows) -> Reading:
        """The source error."""
        return Reading(error=self.source_error_)
