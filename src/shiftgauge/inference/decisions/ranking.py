"""Which of several models is best on the unlabelled target, and how sure is that?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from shiftgauge.errors import InputError, ascribed
from shiftgauge.inference.decisions.answers import Answer
from shiftgauge.methods.pair import Pair
from shiftgauge.results import Result, percent, told
from shiftgauge.samples import Source, Target

#: Of pairs of models on natural tables whose expected errors differ by so much, this share had the order right.
MEASURED: Final = ((0.0, 0.5), (0.01, 0.6), (0.02, 0.65), (0.03, 0.8), (0.1, 0.82), (1.0, 0.85))


@dataclass(frozen=True)
class Ranked:
    """One model of a ranking.

    Attributes:
        name: the model.
        expected: the mean of the next two, which it is ranked by.
        error: `auto`'s estimate on the target.
        source_error: its error on the source.
    """

    name: str
    expected: float
    error: float
    source_error: float


@dataclass(frozen=True, repr=False)
class Ranking(Result):
    """Models, best first.

    Attributes:
        models: one entry each.
        sure: how sure it is that the first beats the second: the share of pairs with such a difference in which
            the order was right where it was measured, or less where sampling alone leaves more doubt.
        warnings: those of the models' estimates, each after the model's name.
    """

    models: tuple[Ranked, ...]
    sure: float
    warnings: tuple[str, ...] = ()

    @property
    def best(self) -> str:
        """The name of the first."""
        return self.models[0].name

    def sentence(self) -> str:
        """The ranking in one line."""
        first, second = self.models[:2]
        return (
            f"{first.name} is best ({percent(first.expected)}, {second.name} {percent(second.expected)}); "
            f"such an order was right in {100 * self.sure:.0f}%"
        )

    def content(self) -> dict[str, Any]:
        """The ranking as plain values."""
        models = [dict(vars(m)) for m in self.models]
        return {"best": self.best, "sure": self.sure, "sentence": self.sentence(), "models": models}

    def __repr__(self) -> str:
        return told([f"Ranking({self.sentence()})"])

    def heading(self) -> str:
        """The ranking in one line."""
        return self.sentence()

    def table_rows(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """One row per model."""
        rows = [(m.name, percent(m.expected), percent(m.error), percent(m.source_error)) for m in self.models]
        return ("model", "expected", "estimated", "source"), rows


def rank(
    models: Mapping[str, tuple[Source, Target]],
    *,
    calibration: str = "temperature",
    proportions: str = "unknown",
) -> Ranking:
    """Order models by what error to expect of each on the target.

    Expected is the mean of `auto`'s estimate and the source error: on natural tables the estimate alone orders
    models no better than the source error does; the two together order those that differ much better than
    either (`docs/natural.md`). How sure comes from the same tables, and is never above 85%: model choice without
    labels is a weak business, and a few hundred labels settle it.

    Args:
        models: name -> (source, target), at least two; targets of the same rows, for the sampling error of the
            difference.
        calibration, proportions: as for `auto`.
    """
    if not isinstance(models, Mapping) or len(models) < 2:
        raise InputError("rank: wanted a mapping of at least two models: name -> (source, target)")
    found = {
        name: Answer(Pair(*_pair(name, held), calibration, verb=f"rank ({name})"), proportions)
        for name, held in models.items()
    }
    if len({a.pair.target.n for a in found.values()}) > 1:
        raise InputError(
            "rank: the targets have different numbers of rows; wanted the same rows for every model"
        )
    ranked = sorted((_ranked(name, a) for name, a in found.items()), key=lambda m: m.expected)
    return Ranking(
        tuple(ranked),
        _sure(found[ranked[0].name], found[ranked[1].name], ranked[1].expected - ranked[0].expected),
        tuple(ascribed(name, text) for name, a in found.items() for text in a.estimate.warnings),
    )


def _pair(name: str, held: Any) -> tuple[Any, Any]:
    if not isinstance(held, tuple | list) or len(held) != 2:
        raise InputError(f"rank: model {name!r} holds {type(held).__name__}; wanted (source, target)")
    return held[0], held[1]


def _ranked(name: str, found: Answer) -> Ranked:
    return Ranked(name, (found.error + found.source_error) / 2, found.error, found.source_error)


def _sure(first: Answer, second: Answer, difference: float) -> float:
    """The measured share at this difference, or the normal probability of its sign under paired sampling."""
    from scipy.special import ndtr

    measured = float(np.interp(difference, *np.array(MEASURED).T))
    left, right = first.pair.target.home, second.pair.target.home
    apart = (1.0 - left.confidence) - (1.0 - right.confidence)
    mass = left.mass
    spread = float(mass @ np.square(apart - mass @ apart))
    noise = np.sqrt(
        spread / first.pair.target.n_effective
        + 2.0 * _spread(first.error, first.pair.source.n_effective) / first.pair.source.n_effective
    )
    by_chance = float(ndtr(difference / noise)) if noise > 0.0 else 1.0
    return max(0.5, min(measured, by_chance))


def _spread(error: float, n: float) -> float:
    """The variance of one row's error; one row more of each kind, so that none among few is not certainty."""
    smoothed = (error * n + 1.0) / (n + 2.0)
    return smoothed * (1.0 - smoothed)
