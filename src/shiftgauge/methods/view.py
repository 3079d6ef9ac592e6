"""A calibrated look at a sample: what every formula is written in."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from shiftgauge.calibration import Calibration
from shiftgauge.labelshift import LabelShares, mlls
from shiftgauge.samples import Sample, Source, Target
from shiftgauge.validation import chunks

if TYPE_CHECKING:
    from shiftgauge.transport.entropic import SoftTransport

Array = npt.NDArray[np.float64]
T = TypeVar("T")

#: Probabilities that differ by no more than this fraction are equal up to rounding.
EQUAL = 1e-9


class Solver(Protocol):
    """How a view finds its plans: exactly, or from a warm start for a replicate of the bootstrap."""

    #: Whether plans are exact, so that ties and floored zeros are worth following.
    exact: bool

    def hard(self, view: View, marginal: Array) -> Any:
        """The transport of all rows to the label masses, read like `shiftgauge.transport.Transport`."""
        ...

    def soft(self, view: View, marginal: Array) -> SoftTransport:
        """SCOT's plan for the label masses."""
        ...


class Exact:
    """The exact solver, with its certificate."""

    exact = True

    def hard(self, view: View, marginal: Array) -> Any:
        """Solve to the last unit of mass."""
        from shiftgauge.transport import solve

        return solve(view.problem(marginal))

    def soft(self, view: View, marginal: Array) -> SoftTransport:
        """Solve to rounding."""
        from shiftgauge.transport.entropic import soft_transport

        return soft_transport(view.calibration.log_probs(view.sample), marginal, view.mass)


@dataclass(frozen=True)
class SoftPlan:
    """SCOT's plan, read view by view.

    Attributes:
        posterior: (b, K) r of the rows of a view, each row's distribution over labels.
        marginal_error: the largest |sum_i mass_i r_ij - q_j|.
        passes: how often all rows were read to find it.
        kept: the mass that it leaves on the predictions, where the search has read it already.
    """

    posterior: Callable[[View], Array]
    marginal_error: float
    passes: int
    kept: float | None = None


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
        self.n, self.k = sample.n, sample.k
        self._n_effective = n_effective
        self._solver: Solver = Exact() if solver is None else solver
        self._known: dict[Hashable, Any] = {}

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What `compute` returns, computed the first time that the key is asked for."""
        if key not in self._known:
            self._known[key] = compute()
        found: T = self._known[key]
        return found

    @cached_property
    def mass(self) -> Array:
        """(n,) row masses, summing to 1."""
        return self.sample.mass

    @property
    def n_effective(self) -> float:
        """The rows' number that noise is judged by."""
        return self.sample.n_effective if self._n_effective is None else self._n_effective

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """The results of several tasks."""
        return [task() for task in tasks]

    @property
    def home(self) -> View:
        """Rows that are kept in memory: all of them."""
        return self

    @cached_property
    def weights(self) -> Array:
        """(n,) row weights on any scale; ones if none were given."""
        return np.ones(self.n) if self.sample.weights is None else self.sample.weights

    def fold(self, step: Callable[[View], T]) -> T:
        """The sum of `step(view)` over all parts of the rows; in memory there is one."""
        return step(self)

    def mean(self, of: Callable[[View], Any]) -> Any:
        """The mean, by mass, of (n,) or (n, m) numbers that `of` gives for the rows of a view."""
        return self.mass @ of(self)

    def share(self, of: Callable[[View], npt.NDArray[np.bool_]]) -> float:
        """The share of mass in the rows that `of` marks."""
        return float(min(1.0, self.sample.share(of(self))))

    def shares(self, cell: Callable[[View], npt.NDArray[np.intp]], cells: int) -> Array:
        """(cells,) the share of mass in each cell; `cell` gives the rows' cells."""
        return np.asarray(np.bincount(cell(self), self.mass, cells), dtype=np.float64)

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
        """(n,) the most probable class besides the prediction; the prediction itself where several are equally so.

        So nothing depends on the order of the classes.
        """
        out = np.empty(self.n, dtype=np.intp)
        for rows in chunks(self.n, self.k):
            p, own = np.array(self.probs[rows]), self.predictions[rows, None]
            np.put_along_axis(p, own, -1.0, axis=1)
            second = p.max(axis=1, keepdims=True)
            tied = (p >= second * (1.0 - EQUAL)).sum(axis=1) > 1
            out[rows] = np.where(tied, own[:, 0], p.argmax(axis=1))
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
    def mean_square(self) -> Array:
        """(K,) the mean of each class's squared probability."""
        return np.asarray(np.einsum("i,ij,ij->j", self.mass, self.probs, self.probs))

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
        from shiftgauge.transport import Problem

        return Problem.trusted(self.probs, marginal, self.sample.weights)

    def transport(self, marginal: Array) -> Any:
        """The optimal transport of all rows to the label masses; solved once per marginal."""
        return self.once(("hard", marginal.tobytes()), lambda: self._solver.hard(self, marginal))

    def cost_range(self, prices: Array, marginal: Array) -> tuple[Array, Array]:
        """(n,) each: the least and greatest cost that an optimal plan with these prices could give a row."""
        from shiftgauge.transport.solution import cost_range

        return cost_range(self.probs, prices, marginal)

    def transport_range(self, marginal: Array) -> tuple[Array, Array]:
        """(n,) each: the least and greatest cost that another equally good plan could give a row.

        Where plans are not exact, ties are not bounded: both are zero.
        """
        if not self._solver.exact:
            return np.zeros(self.n), np.zeros(self.n)
        return self.cost_range(self.transport(marginal).prices, marginal)

    def cost_shares(self, marginal: Array, at: float, low: float, high: float) -> tuple[float, float]:
        """The share of mass whose transport cost is `at` or more; and of rows that ties could bring across.

        Those are rows that one optimal plan could bring to `low` or more, and another one below `high`.
        """
        _, _, mass, cost = self.transport(marginal).pieces()
        least, most = self.transport_range(marginal)
        tied = self.mass[(most >= low) & (least < high)].sum()
        return float(min(1.0, mass[cost >= at].sum())), float(min(1.0, tied))

    def soft_transport(self, marginal: Array) -> SoftPlan:
        """SCOT's plan for the label masses; solved once per marginal."""

        def solve() -> SoftPlan:
            found = self._solver.soft(self, marginal)
            return SoftPlan(lambda view: found.posterior, found.marginal_error, found.passes)

        return self.once(("soft", marginal.tobytes()), solve)

    def label_shares(self, prior: Array) -> LabelShares:
        """The label shares that make these rows likeliest, if posteriors with that prior were right (MLLS)."""
        return self.once(("shares", prior.tobytes()), lambda: mlls(self.probs, prior, self.mass))

    @property
    def has_zeros(self) -> bool:
        """Whether a given probability is exactly zero; not asked of replicates."""
        return self._solver.exact and self.floored is not None

    @cached_property
    def floored(self) -> npt.NDArray[np.bool_] | None:
        """(n, K) where a given probability is exactly zero, or None if there is none (or logits were given)."""
        if self.sample.kind == "logits":
            return None
        zero = np.asarray(self.sample.scores == 0.0)
        return zero if zero.any() else None
