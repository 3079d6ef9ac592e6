"""Choose and fit a calibration on the source, and turn scores into calibrated probabilities.

Calibration changes confidence, never the prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from shiftgauge.calibration.metrics import FloatArray, ece, mean_nll
from shiftgauge.calibration.temperature import Temperature, fit_temperature
from shiftgauge.calibration.vector import Vector, fit_vector
from shiftgauge.errors import InputError, nearest
from shiftgauge.samples import Source
from shiftgauge.validation import ZERO, argmax, chunks


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


#: How far mean confidence may lie from accuracy on the source without a word, beyond two standard errors.
LARGEST_GAP = 0.1
#: Rows of the source with the smallest probabilities, by mass, that do not decide what a zero counts as.
RARE = 0.01
#: Blocks of more entries than this are calibrated by compiled code; compiling is not worth it for fewer.
COMPILED_FROM = 1 << 16
#: Rows of probabilities whose sum is nearer to 1 than this are not divided by it.
SUMS_TO_ONE = 1e-12


@dataclass(frozen=True)
class Calibration:
    """A fitted calibration with what it did to the source's likelihood and calibration error.

    Attributes:
        name: which one.
        calibrator: its map of log-scores.
        report: NLL and ECE on the source before and after, and how far confidence lies above accuracy after it.
        zero: what a probability of exactly zero counts as (`source_zero`), but never as more than the smallest
            positive one of its row.
        rows: the source's effective rows, by which the report's noise is judged.
    """

    name: str
    calibrator: Calibrator
    report: dict[str, float]
    zero: float = ZERO
    rows: float = np.inf

    def details(self) -> dict[str, Any]:
        """The calibration's name, its parameters, and NLL and ECE before and after."""
        learned = {"zero": self.zero} if self.zero > ZERO else {}
        return {"calibration": self.name, **self.calibrator.details(), **learned, **self.report}

    def warnings(self) -> tuple[str, ...]:
        """What its user should know."""
        return (*self.calibrator.warnings(), *self._miscalibration())

    def _miscalibration(self) -> tuple[str, ...]:
        """A sentence where confidence is far from accuracy after all."""
        gap = self.report.get("overconfidence", 0.0)
        if abs(gap) <= LARGEST_GAP + 1.0 / np.sqrt(self.rows):
            return ()
        side = "above" if gap > 0.0 else "below"
        return (
            f"calibrated confidence on the source lies {100 * abs(gap):.0f} points {side} its accuracy: ac, cot, scot "
            "and label-shift, which rely on it, are off by as much; try calibration='vector', or auto",
        )

    def probs(self, scores: npt.NDArray[Any], kind: str) -> npt.NDArray[np.float64]:
        """(n, K) calibrated probabilities in float64."""
        out = np.empty(scores.shape)
        for rows in chunks(*scores.shape):
            if kind == "probs" and isinstance(self.calibrator, Identity):
                out[rows] = _renormalise(np.asarray(scores[rows], dtype=np.float64))
            else:
                out[rows] = softmax(self.calibrator.transform(self.log_scores(scores[rows], kind)))
        return out

    def calibrate(
        self, scores: npt.NDArray[Any], kind: str
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.intp]]:
        """(n, K) calibrated probabilities, and (n,) the class of the largest raw score; compiled for many rows."""
        if scores.size <= COMPILED_FROM:
            return self.probs(scores, kind), argmax(scores)
        from shiftgauge.calibration._kernels import argmax_and_deviation, softmax_and_argmax

        if kind == "probs" and isinstance(self.calibrator, Identity):
            largest = np.empty(len(scores), np.intp)
            deviation = argmax_and_deviation(_contiguous(scores), largest)
            exact = scores.dtype == np.float64 and deviation <= SUMS_TO_ONE
            return scores if exact else self.probs(scores, kind), largest

        raw = _contiguous(scores)
        logs, temperature = raw, 1.0
        if isinstance(self.calibrator, Temperature):
            temperature = self.calibrator.temperature
            if kind == "probs":
                logs = self.log_scores(scores, kind)
        elif not isinstance(self.calibrator, Identity):
            logs = _contiguous(self.log_probs(scores, kind))
        probs, largest = np.empty(scores.shape), np.empty(len(scores), np.intp)
        softmax_and_argmax(raw, logs, temperature, probs, largest)
        return probs, largest

    def log_scores(self, scores: npt.NDArray[Any], kind: str) -> npt.NDArray[np.float64]:
        """(n, K) what the calibrator maps: a zero that stayed zero would be certainty at any temperature."""
        return log_scores(scores, kind, self.zero)

    def log_probs(self, scores: npt.NDArray[Any], kind: str) -> npt.NDArray[np.float64]:
        """(n, K) calibrated log-scores, finite, up to a constant per row."""
        out = np.empty(scores.shape)
        for rows in chunks(*scores.shape):
            out[rows] = self.calibrator.transform(self.log_scores(scores[rows], kind))
        return out

    def state(self) -> dict[str, Any]:
        """Plain values from which `from_state` makes the same calibration."""
        return {
            "name": self.name,
            "report": self.report,
            **self.calibrator.details(),
            "zero": self.zero,
        }

    @staticmethod
    def from_state(state: dict[str, Any]) -> Calibration:
        """The calibration that `state` describes."""
        calibrator: Calibrator = Identity()
        if state["name"] == "temperature":
            calibrator = Temperature(float(state["temperature"]))
        elif state["name"] == "vector":
            parts = {key: np.asarray(values, dtype=np.float64) for key, values in state["vector"].items()}
            calibrator = Vector(**parts)
        return Calibration(state["name"], calibrator, dict(state["report"]), float(state.get("zero", ZERO)))


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
    zero = source_zero(source, learn=name != "none")
    z = log_scores(source.scores, source.kind, zero)
    mass, labels = source.mass, source.labels
    calibrator = CALIBRATIONS[name](z, labels, mass)
    before, after = (_quality(source, c, z) for c in (Identity(), calibrator))
    report = {
        "nll_before": before[0],
        "nll_after": after[0],
        "ece_before": before[1],
        "ece_after": after[1],
        "overconfidence": after[2],
    }
    return Calibration(name, calibrator, report, zero, source.n_effective)


def _quality(source: Source, calibrator: Calibrator, z: FloatArray) -> tuple[float, float, float]:
    """NLL, ECE, and by how much mean confidence lies above accuracy."""
    nll, mass, confidence = 0.0, source.mass, np.empty(source.n)
    for rows in chunks(*z.shape):
        logits = calibrator.transform(z[rows])
        nll += mean_nll(logits, source.labels[rows], mass[rows])
        confidence[rows] = softmax(logits)[np.arange(len(logits)), source.predictions[rows]]
    right = source.predictions == source.labels
    return nll, ece(confidence, right, mass), float(mass @ (confidence - right))


def _renormalise(probs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Rows that do not sum to 1 are divided by their sum; the others stay as they are."""
    total = probs.sum(axis=1)
    off = np.abs(total - 1.0) > SUMS_TO_ONE
    if not off.any():
        return probs
    return np.asarray(probs / np.where(off, total, 1.0)[:, None])


def _contiguous(scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Scores as the kernel reads them: in C order, float32 or float64, whichever holds them exactly."""
    dtype = np.float32 if scores.dtype.itemsize <= 4 else np.float64
    made: npt.NDArray[Any] = np.ascontiguousarray(scores, dtype).view()
    made.flags.writeable = False
    return made


def log_scores(scores: npt.NDArray[Any], kind: str, zero: float = ZERO) -> npt.NDArray[np.float64]:
    """(n, K) logits in float64, or the log of probabilities; finite.

    A probability of exactly zero counts as `zero`, or as the smallest positive one of its row where that is less.
    So the order within a row is kept, and no row depends on another one.
    """
    part = np.asarray(scores, dtype=np.float64)
    if kind == "logits":
        return part
    at_zero = part == 0.0
    if at_zero.any():
        least = np.min(part, axis=1, where=~at_zero, initial=np.inf)
        part = np.where(at_zero, np.minimum(zero, least)[:, None], part)
    return np.log(part)


def source_zero(source: Source, learn: bool = True) -> float:
    """What a probability of exactly zero counts as, by the source.

    At most 1e-12, and less where the source's scores are more precise than that: zeros that are only rounded
    (`0.000000` in a CSV) are no certainty. Votes of ten trees or five neighbours give zeros that are only "none of
    them": some labels stand there. If `learn`, such a zero counts as the share of zeros that hold a label, but as less
    than the positive probabilities. At 1e-12 a handful of such labels would decide the temperature alone.
    """
    if source.kind == "logits":
        return ZERO
    hit, cells, mass, least = 0.0, 0.0, source.mass, np.empty(source.n)
    for rows in chunks(source.n, source.k):
        part = source.scores[rows]
        zero = part == 0.0
        hit += float(mass[rows] @ zero[np.arange(len(zero)), source.labels[rows]])
        cells += float(mass[rows] @ zero.sum(axis=1))
        least[rows] = np.min(part, axis=1, where=~zero, initial=np.inf)
    smallest = _low_quantile(least, mass)
    if learn and hit > 0.0:
        return min(hit / cells, max(smallest / 2.0, float(np.finfo(np.float64).tiny)))
    return min(ZERO, smallest)


def _low_quantile(values: npt.NDArray[np.float64], mass: npt.NDArray[np.float64]) -> float:
    """The smallest value that at least `RARE` of the mass does not exceed: rows of next to no weight do not set it."""
    order = np.argsort(values, kind="stable")
    return float(values[order][np.searchsorted(np.cumsum(mass[order]), RARE * (1.0 - 1e-9))])


def softmax(logits: FloatArray) -> npt.NDArray[np.float64]:
    """(n, K) rows of exp(logits) normalised to sum 1, without overflow."""
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return np.asarray(p, dtype=np.float64)
