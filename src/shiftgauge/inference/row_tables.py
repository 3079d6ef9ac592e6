"""One line per target row: what the methods say about each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from shiftgauge.labelshift import Marginal
from shiftgauge.methods.cot import COT
from shiftgauge.methods.pair import Pair, accepted_options
from shiftgauge.methods.registry import DEFAULT
from shiftgauge.rows import Block, run
from shiftgauge.transport import Transport, exact_transport


def row_table(
    pair: Pair, method: str = DEFAULT, *, marginal: Marginal = "source", proportions: str = "unknown"
) -> dict[str, Any]:
    """Columns of equal length, one value per target row.

    Returns:
        `id` if the target's rows have one, `prediction` (name or index), `confidence` (calibrated),
        `transport_label` and `transport_cost` (the exact plan's class for the row and its cost, to the label shares
        of `marginal`; left out if deployed decisions differ from the largest score), `error_probability` (by the
        posterior behind the method's answer: its mean is that answer).
    """
    read = row_reader(pair, method, marginal=marginal, proportions=proportions)
    return read(pair.target_block)


def row_reader(
    pair: Pair, method: str = DEFAULT, *, marginal: Marginal = "source", proportions: str = "unknown"
) -> Callable[[Block], dict[str, Any]]:
    """A function of a block of target rows that gives their columns of `row_table`."""
    own = accepted_options(method, marginal=marginal, proportions=proportions)
    asked = [(method, own), *([("cot", {"marginal": marginal})] if pair.follows_argmax else [])]
    pair.estimate_all(asked)
    plan = _plan(pair, marginal) if pair.follows_argmax else None
    posterior = pair.posterior(method, **own)
    names = np.asarray(pair.classes)

    def read(block: Block) -> dict[str, Any]:
        transported: dict[str, Any] = {}
        if plan is not None:
            label = plan.assigned(block)
            transported = {"transport_label": names[label], "transport_cost": _mean_cost(plan, block, label)}
        return {
            **({} if block.ids is None else {"id": block.ids}),
            "prediction": names[block.predictions],
            "confidence": block.confidence,
            **transported,
            "error_probability": block.error_probability(posterior(block)),
        }

    return read


def _plan(pair: Pair, marginal: Marginal) -> Transport:
    cot = pair.fitted("cot", marginal=marginal)
    assert isinstance(cot, COT)

    async def plan() -> Transport:
        chosen = await cot.choose_marginal(pair.target)
        found = await exact_transport(pair.target, chosen.masses)
        assert isinstance(found, Transport)
        return found

    return run(plan())


def _mean_cost(plan: Transport, block: Block, label: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """(b,) the transport cost of each row, the mean over its parts if it is split."""
    parts = plan.pieces(block)
    mass = np.bincount(parts.row, parts.mass, len(block))
    paid = np.bincount(parts.row, parts.mass * parts.cost, len(block))
    alone = 1.0 - block.probs[np.arange(len(block)), label]
    return np.divide(paid, mass, out=np.asarray(alone, dtype=np.float64), where=mass > 0.0)
