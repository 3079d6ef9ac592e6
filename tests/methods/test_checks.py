"""Every registered method passes every check: a new method inherits the suite."""

import numpy as np
import pytest

from shiftgauge import ShiftgaugeError
from shiftgauge.methods import AC, METHODS
from shiftgauge.methods.base import Reading
from shiftgauge.methods.checks import (
    CHECKS,
    check_answer_is_sane,
    check_blocks,
    check_edges,
    check_permuting_rows,
    check_saving,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("name", METHODS)
def test_check(name, check):
    check(METHODS[name])


class FirstRow(AC):
    """Broken on purpose: the answer depends on the order of rows."""

    async def read(self, target):
        rows = await target.collect()
        return Reading(error=float(1 - rows.confidence[0]))


class Forgetful(AC):
    """Broken on purpose: learns something that does not end in an underscore."""

    async def learn(self, source):
        self.hidden = float(await source.mean(lambda rows: rows.confidence))

    async def read(self, target):
        return Reading(error=self.hidden)


class NotANumber(AC):
    """Broken on purpose: the formula gives NaN."""

    async def read(self, target):
        return Reading(error=float("nan"))


class OneBlock(AC):
    """Broken on purpose: works only if all rows are in one block."""

    def row_error(self, rows):
        return np.full(len(rows), 1.0 - rows.confidence.max())


class AllRows(AC):
    """As AC, but over all rows at once."""

    async def read(self, target):
        rows = await target.collect()
        return Reading(error=float(rows.row_share @ (1.0 - rows.confidence)))


def test_a_method_that_collects_all_rows_sees_calibrated_ones_in_passes_too():
    check_blocks(AllRows)


@pytest.mark.parametrize(
    ("method", "check"),
    [
        (NotANumber, check_answer_is_sane),
        (NotANumber, check_edges),
        (FirstRow, check_permuting_rows),
        (Forgetful, check_saving),
        (OneBlock, check_blocks),
    ],
)
def test_the_checks_can_fail(method, check):
    with pytest.raises((AssertionError, AttributeError, ShiftgaugeError)):
        check(method)
