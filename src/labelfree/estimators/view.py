"""A calibrated look at a sample: what every formula is written in."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from labelfree._door import chunks
from labelfree.calibration import Calibration, zero_floor
from labelfree.labelshift import LabelShares, mlls
from labelfree.types import Sample, Source, Target

if TYPE_CHECKING:
    from labelfree.transport.entropic import SoftTransport

Array = npt.NDArray[np.float64]
T = TypeVar("T")


class Solver(Protocol):
    """How a view finds its plans: exactly, or from a warm start for a replicate of the bootstrap."""

    #: Whether plans are exact, so that ties and floored zeros are worth following.
    exact: bool

    def hard(self, view: View, marginal: Array) -> Any:
        """The transport of all rows to the label masses, read like `labelfree.transport.Transport`."""
        ...

    def soft(self, view: View, marginal: Array) -> SoftTransport:
        """SCOT's plan for the label masses."""
        ...


class Exact:
    """The exact solver, with its certificate."""

    exact = True

    def hard(self, view: View, marginal: Array) -> Any:
        """Solve to the last unit of mass."""
        from labelfree.transport import solve

        return solve(view.problem(marginal))

    def soft(self, view: View, marginal: Array) -> SoftTransport:
        """Solve to rounding."""
        from labelfree.transport.entropic import soft_transport

        return soft_transport(view.calibration.log_probs(view.sample), marginal, view.mass)


class View:
    """Calibrated probabilities of one sample, with what is derived from them computed once.

    Args:
        sample: the source or the target.
        calibration: fitted on the source.
        probs: (n, K) the calibrated probabilities, where somebody has them already.
        solver: how plans are found; exactly by default.
        n_effective: the rows' number that noise is judged by, where it is not the sample's own.

    Attributes:
        probs: (n, K) p, calibrated probabilities.
        predictions: (n,) y^.
        mass: (n,) row masses, summing to 1.
        n, k, n_effective: rows, classes, effective rows.
    """

    def __init__(
        self,
        sample: Sample,
        calibration: Calibration,
        *,
        probs: Array | None = None,
        solver: Solver | None = None,
        n_effective: float | None = None,
    ) -> None:
        self.sample = sample
        self.calibration = calibration
        self.probs = calibration.probs(sample) if probs is None else probs
        self.predictions = sample.predictions
        self.mass = sample.mass
        self.n, self.k = sample.n, sample.k
        self.n_effective = sample.n_effective if n_effective is None else n_effective
        self._solver: Solver = Exact() if solver is None else solver
        self._known: dict[Hashable, Any] = {}

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What `compute` returns, computed the first time that the key is asked for."""
        if key not in self._known:
            self._known[key] = compute()
        found: T = self._known[key]
        return found

    @property
    def labels(self) -> npt.NDArray[np.intp]:
        """(n,) the source's true classes."""
        assert isinstance(self.sample, Source)
        return self.sample.labels

    @property
    def label_marginal(self) -> Array:
        """(K,) the share of each of the source's labels."""
        assert isinstance(self.sample, Source)
        return self.sample.label_marginal

    @property
    def second(self) -> npt.NDArray[np.intp] | None:
        """(n,) the second model's predictions on the target, where given."""
        assert isinstance(self.sample, Target)
        return self.sample.second

    @cached_property
    def confidence(self) -> Array:
        """(n,) the probability given to the prediction."""
        return np.asarray(self.probs[np.arange(self.n), self.predictions])

    def doubt(self, posterior: Array) -> Array:
        """(n,) the probability that the prediction is wrong, 1 - r_i of it, under posteriors r (n, K)."""
        return np.clip(1.0 - posterior[np.arange(self.n), self.predictions], 0.0, 1.0)

    @cached_property
    def runner_up(self) -> npt.NDArray[np.intp]:
        """(n,) the most probable class besides the prediction; the first of several."""
        out = np.empty(self.n, dtype=np.intp)
        for rows in chunks(self.n, self.k):
            p = np.array(self.probs[rows])
            np.put_along_axis(p, self.predictions[rows, None], -1.0, axis=1)
            out[rows] = p.argmax(axis=1)
        return out

    @cached_property
    def pseudo_labels(self) -> Array:
        """(K,) the share of mass predicted as each class."""
        return np.asarray(np.bincount(self.predictions, self.mass, self.k), dtype=np.float64)

    @cached_property
    def mean_posterior(self) -> Array:
        """(K,) the mean probability of each class."""
        return np.asarray(self.mass @ self.probs)

    @cached_property
    def entropy(self) -> Array:
        """(n,) -sum_j p_j log p_j, with 0 log 0 = 0."""
        out = np.empty(self.n)
        for rows in chunks(self.n, self.k):
            p = self.probs[rows]
            out[rows] = -(p * np.log(np.where(p > 0.0, p, 1.0))).sum(axis=1)
        return np.maximum(out, 0.0)

    def problem(self, marginal: Array) -> Any:
        """The transport problem of these rows to the label masses; our own matrix is not checked again."""
        from labelfree.transport import Problem

        return Problem.trusted(self.probs, marginal, self.sample.weights)

    def transport(self, marginal: Array) -> Any:
        """The optimal transport of all rows to the label masses; solved once per marginal."""
        return self.once(("hard", marginal.tobytes()), lambda: self._solver.hard(self, marginal))

    def transport_range(self, marginal: Array) -> tuple[Array, Array]:
        """(n,) each: the least and greatest cost that another equally good plan could give a row.

        Where plans are not exact, ties are not bounded: both are zero.
        """
        if not self._solver.exact:
            return np.zeros(self.n), np.zeros(self.n)
        low, high = self.transport(marginal).cost_range(self.problem(marginal))
        return low, high

    def soft_transport(self, marginal: Array) -> SoftTransport:
        """SCOT's plan for the label masses; solved once per marginal."""
        return self.once(("soft", marginal.tobytes()), lambda: self._solver.soft(self, marginal))

    def label_shares(self, prior: Array) -> LabelShares:
        """The label shares that make these rows likeliest, if posteriors with that prior were right (MLLS)."""
        return self.once(("shares", prior.tobytes()), lambda: mlls(self.probs, prior, self.mass))

    @cached_property
    def floored(self) -> npt.NDArray[np.bool_] | None:
        """(n, K) where a given probability is exactly zero, or None if there is none (or logits were given)."""
        if not self._solver.exact or self.sample.kind == "logits" or zero_floor(self.sample) == 0.0:
            return None
        zero = np.asarray(self.sample.scores == 0.0)
        return zero if zero.any() else None
