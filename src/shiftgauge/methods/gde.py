"""GDE: generalisation disagreement."""

from __future__ import annotations

from shiftgauge.errors import InputError
from shiftgauge.methods.base import Estimator, Reading
from shiftgauge.rows import Rows


class GDE(Estimator):
    """Disagreement: the share of target rows on which two independently trained models differ.

    Needs `Target(second=...)`: the predictions or scores of a model trained the same way from another
    seed. (Jiang et al., Assessing Generalization of SGD via Disagreement, 2022.)
    """

    name = "gde"
    title = "GDE"
    meaning = "share of rows on which a second model disagrees"
    needs_second = True

    async def read(self, target: Rows) -> Reading:
        """The share of rows on which the two models differ."""
        if not target.has_second:
            raise InputError(
                "gde needs a second model trained independently: pass Target(second=...) (--second FILE) "
                "with its scores or predictions on the same rows"
            )
        return Reading(error=await target.share(lambda rows: rows.predictions != rows.second))
