"""A calibrated look at a sample: what every formula is written in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from labelfree.calibration import Calibration, zero_floor
from labelfree.types import Sample, Source, Target

if TYPE_CHECKING:
    from labelfree.transport import Transport
    from labelfree.transport.entropic import SoftTransport

Array = npt.NDArray[np.float64]


class View:
    """Calibrated probabilities of one sample, with what is derived from them computed once.

    Attributes:
        probs: (n, K) p, calibrated probabilities.
        predictions: (n,) y^.
        mass: (n,) row masses, summing to 1.
        n, k, n_effective: rows, classes, effective rows.
    """

    def __init__(self, sample: Sample, calibration: Calibration) -> None:
        self.sample = sample
        self.calibration = calibration
        self.probs = calibration.probs(sample)
        self.predictions = sample.predictions
        self.mass = sample.mass
        self.n, self.k, self.n_effective = sample.n, sample.k, sample.n_effective
        self._hard: dict[bytes, Transport] = {}
        self._soft: dict[bytes, SoftTransport] = {}

    @property
    def labels(self) -> npt.NDArray[np.intp]:
        """(n,) the source's true classes."""
        assert isinstance(self.sample, Source)
        return self.sample.labels

    @property
    def second(self) -> npt.NDArray[np.intp] | None:
        """(n,) the second model's predictions on the target, where given."""
        assert isinstance(self.sample, Target)
        return self.sample.second

    @property
    def confidence(self) -> Array:
        """(n,) the probability given to the prediction."""
        return np.asarray(self.probs[np.arange(self.n), self.predictions])

    def doubt(self, posterior: Array) -> Array:
        """(n,) the probability that the prediction is wrong, 1 - r_i of it, under posteriors r (n, K)."""
        return np.clip(1.0 - posterior[np.arange(self.n), self.predictions], 0.0, 1.0)

    @property
    def runner_up(self) -> npt.NDArray[np.intp]:
        """(n,) the most probable class besides the prediction; the first of several."""
        out = np.empty(self.n, dtype=np.intp)
        step = max(1, (1 << 20) // self.k)
        for start in range(0, self.n, step):
            p = np.array(self.probs[start : start + step])
            np.put_along_axis(p, self.predictions[start : start + step, None], -1.0, axis=1)
            out[start : start + step] = p.argmax(axis=1)
        return out

    @property
    def pseudo_labels(self) -> Array:
        """(K,) the share of mass predicted as each class."""
        return np.asarray(np.bincount(self.predictions, self.mass, self.k), dtype=np.float64)

    @property
    def mean_posterior(self) -> Array:
        """(K,) the mean probability of each class."""
        return np.asarray(self.mass @ self.probs)

    def entropy(self) -> Array:
        """(n,) -sum_j p_j log p_j, with 0 log 0 = 0."""
        out = np.empty(self.n)
        step = max(1, (1 << 20) // self.k)
        for start in range(0, self.n, step):
            p = self.probs[start : start + step]
            out[start : start + step] = -(p * np.log(np.where(p > 0.0, p, 1.0))).sum(axis=1)
        return np.maximum(out, 0.0)

    def transport(self, marginal: Array) -> Transport:
        """The exact optimal transport of all rows to the label masses; solved once per marginal."""
        from labelfree.transport import Problem, solve

        key = marginal.tobytes()
        if key not in self._hard:
            self._hard[key] = solve(Problem(self.probs, marginal, self.sample.weights))
        return self._hard[key]

    def transport_range(self, marginal: Array) -> tuple[Array, Array]:
        """(n,) each: the least and greatest cost that another equally good plan could give a row."""
        from labelfree.transport import Problem

        return self.transport(marginal).cost_range(Problem(self.probs, marginal, self.sample.weights))

    def soft_transport(self, marginal: Array) -> SoftTransport:
        """SCOT's plan for the label masses; solved once per marginal."""
        from labelfree.transport.entropic import soft_transport

        key = marginal.tobytes()
        if key not in self._soft:
            self._soft[key] = soft_transport(self.calibration.log_probs(self.sample), marginal, self.mass)
        return self._soft[key]

    def floored(self) -> npt.NDArray[np.bool_] | None:
        """(n, K) where a given probability is exactly zero, or None if there is none (or logits were given)."""
        if self.sample.kind == "logits" or zero_floor(self.sample) == 0.0:
            return None
        zero = np.asarray(self.sample.scores == 0.0)
        return zero if zero.any() else None
