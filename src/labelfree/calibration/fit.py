"""Choose and fit a calibration on the source, and turn scores into calibrated probabilities.

Calibration changes confidence, never the prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from labelfree._door import ZERO, chunks
from labelfree.calibration.metrics import FloatArray, ece, mean_nll
from labelfree.calibration.temperature import Temperature, fit_temperature
from labelfree.calibration.vector import Vector, fit_vector
from labelfree.errors import InputError, nearest
from labelfree.types import Sample, Source


class Calibrator(Protocol):
    """A map of log-scores, fitted on the source."""

    def transform(self, logits: FloatArray) -> FloatArray:
        """(n, K) log-scores in, calibrated log-scores out."""
        ...

    def details(self) -> dict[str, Any]:
        """What to report about it."""
        ...

    def warnings(self) -> tuple[str, ...]:
        """What its user should know."""
        ...


@dataclass(frozen=True)
class Identity:
    """No calibration: the scores are taken at their word."""

    def transform(self, logits: FloatArray) -> FloatArray:
        """(n, K) log-scores, unchanged."""
        return logits

    def details(self) -> dict[str, Any]:
        """Nothing was fitted."""
        return {}

    def warnings(self) -> tuple[str, ...]:
        """Nothing to say."""
        return ()


def _fit_none(logits: FloatArray, labels: npt.NDArray[np.intp], mass: FloatArray) -> Identity:
    return Identity()


Fit: TypeAlias = Callable[[FloatArray, npt.NDArray[np.intp], npt.NDArray[np.float64]], Calibrator]
CALIBRATIONS: dict[str, Fit] = {"temperature": fit_temperature, "vector": fit_vector, "none": _fit_none}


@dataclass(frozen=True)
class Calibration:
    """A fitted calibration with what it did to the source's likelihood and calibration error."""

    name: str
    calibrator: Calibrator
    report: dict[str, float]

    def details(self) -> dict[str, Any]:
        """The calibration's name, its parameters, and NLL and ECE before and after."""
        return {"calibration": self.name, **self.calibrator.details(), **self.report}

    def warnings(self) -> tuple[str, ...]:
        """What its user should know."""
        return self.calibrator.warnings()

    def probs(self, sample: Sample) -> npt.NDArray[np.float64]:
        """(n, K) calibrated probabilities in float64."""
        out = np.empty((sample.n, sample.k))
        # As where the temperature was fitted: a zero that stayed zero would be certainty at any temperature.
        floor = 0.0 if isinstance(self.calibrator, Identity) else zero_floor(sample)
        for rows in chunks(sample.n, sample.k):
            if sample.kind == "probs" and isinstance(self.calibrator, Identity):
                part = np.asarray(sample.scores[rows], dtype=np.float64)
                out[rows] = part / part.sum(axis=1, keepdims=True)
            else:
                out[rows] = softmax(self.calibrator.transform(log_scores(sample, rows, floor)))
        return out

    def log_probs(self, sample: Sample) -> npt.NDArray[np.float64]:
        """(n, K) calibrated log-scores, finite, up to a constant per row (see `zero_floor`)."""
        out = np.empty((sample.n, sample.k))
        floor = zero_floor(sample)
        for rows in chunks(sample.n, sample.k):
            out[rows] = self.calibrator.transform(log_scores(sample, rows, floor))
        return out

    def state(self) -> dict[str, Any]:
        """Plain values from which `from_state` makes the same calibration."""
        return {"name": self.name, "report": self.report, **self.calibrator.details()}

    @staticmethod
    def from_state(state: dict[str, Any]) -> Calibration:
        """The calibration that `state` describes."""
        calibrator: Calibrator = Identity()
        if state["name"] == "temperature":
            calibrator = Temperature(float(state["temperature"]))
        elif state["name"] == "vector":
            parts = {key: np.asarray(values, dtype=np.float64) for key, values in state["vector"].items()}
            calibrator = Vector(**parts)
        return Calibration(state["name"], calibrator, dict(state["report"]))


def check_calibration(name: str) -> None:
    """Refuse a calibration that is not known, with the nearest name that is."""
    if not isinstance(name, str) or name not in CALIBRATIONS:
        raise InputError(
            f"calibration {name!r} is not known; wanted one of {', '.join(CALIBRATIONS)}"
            f"{nearest(str(name), CALIBRATIONS)}"
        )


def fit_calibration(name: str, source: Source) -> Calibration:
    """Fit the named calibration on the source.

    Args:
        name: `"temperature"`, `"vector"` or `"none"`.
        source: the labelled scores.
    """
    check_calibration(name)
    z = log_scores(source, slice(None), zero_floor(source))
    mass, labels = source.mass, source.labels
    calibrator = CALIBRATIONS[name](z, labels, mass)
    before, after = (_quality(source, c, z) for c in (Identity(), calibrator))
    report = {
        "nll_before": before[0],
        "nll_after": after[0],
        "ece_before": before[1],
        "ece_after": after[1],
    }
    return Calibration(name, calibrator, report)


def _quality(source: Source, calibrator: Calibrator, z: FloatArray) -> tuple[float, float]:
    nll, mass, confidence = 0.0, source.mass, np.empty(source.n)
    for rows in chunks(*z.shape):
        logits = calibrator.transform(z[rows])
        nll += mean_nll(logits, source.labels[rows], mass[rows])
        confidence[rows] = softmax(logits)[np.arange(len(logits)), source.predictions[rows]]
    return nll, ece(confidence, source.predictions == source.labels, mass)


def log_scores(sample: Sample, rows: slice, floor: float = 0.0) -> npt.NDArray[np.float64]:
    """(m, K) logits in float64, or the log of probabilities, raised to at least `floor` first.

    With `floor=0` a probability of exactly zero stays zero: its log is minus infinity.
    """
    part = np.asarray(sample.scores[rows], dtype=np.float64)
    if sample.kind == "logits":
        return part
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(part, floor))


def zero_floor(sample: Sample) -> float:
    """What a probability of exactly zero counts as where its logarithm is needed; 0 for logits.

    The smallest positive probability of the sample, but at most 1e-12: full-precision scores keep their
    order, and zeros that are only rounded (`0.000000` in a CSV) do not count as certainty.
    """
    if sample.kind == "logits":
        return 0.0
    return min(ZERO, sample.least_positive)


def softmax(logits: FloatArray) -> npt.NDArray[np.float64]:
    """(n, K) rows of exp(logits) normalised to sum 1, without overflow."""
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return np.asarray(p, dtype=np.float64)
