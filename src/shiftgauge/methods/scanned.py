"""A calibrated look at a scan: the same formulas, folded over views of its chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from shiftgauge import validation
from shiftgauge._lockstep import Memo
from shiftgauge._threads import in_turn
from shiftgauge.calibration import Calibration, Identity, Temperature
from shiftgauge.labelshift import LabelShares
from shiftgauge.methods.view import Array, SoftPlan, View
from shiftgauge.samples import Target, check_sample
from shiftgauge.scans import Chunk, Scan, Total, scan_of
from shiftgauge.transport import Block, Pile, likely_shares, soft_blocks, solve_blocks
from shiftgauge.transport._steps import sampled_rows
from shiftgauge.transport.streamed import Sample, Streamed, sample_step

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Calibrated:
    """A step for chunks, made of one for views: calibrate the chunk and look at it.

    Attributes:
        step: a function of a view and of the number of its first row.
        calibration: fitted on the source.
        kind: what the scores are.
    """

    step: Callable[[View, int], Any]
    calibration: Calibration
    kind: str

    def __call__(self, chunk: Chunk, start: int) -> Any:
        """The step's result for one chunk; steps of one pass look at it through the same view."""
        key = id(self.calibration)
        if key not in chunk.known:
            chunk.known[key] = self._view(chunk)
        return self.step(chunk.known[key], start)

    def _view(self, chunk: Chunk) -> View:
        made = as_target(chunk, self.kind, chunk.predictions)
        probs, largest = calibrated(made, self.calibration)
        if chunk.predictions is None:
            made._set(predictions=largest)
        return View(made, self.calibration, probs=probs)


def calibrated(sample: Target, calibration: Calibration) -> tuple[Array, npt.NDArray[np.intp]]:
    """(b, K) what `calibration.probs` gives, to rounding, and (b,) the first largest score; compiled, for many rows."""
    calibrator = calibration.calibrator
    if sample.kind == "probs" and isinstance(calibrator, Identity):
        return calibration.probs(sample), validation.argmax(sample.scores)
    from shiftgauge.transport import _kernels

    raw = _compiled(sample.scores)
    logs, temperature = raw, 1.0
    if isinstance(calibrator, Temperature):
        temperature = calibrator.temperature
        if sample.kind == "probs":
            logs = calibration.log_scores(sample)
    elif not isinstance(calibrator, Identity):
        logs = _compiled(calibration.log_probs(sample))
    probs, largest = np.empty((sample.n, sample.k)), np.empty(sample.n, np.intp)
    _kernels.softmaxed(raw, logs, temperature, probs, largest)
    return probs, largest


def _compiled(scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Scores as the kernel reads them: in C order, float32 or float64, whichever holds them exactly."""
    kind = np.float32 if scores.dtype.itemsize <= 4 else np.float64
    made: npt.NDArray[Any] = np.ascontiguousarray(scores, kind).view()
    made.flags.writeable = False
    return made


def as_target(chunk: Chunk, kind: str, predictions: npt.NDArray[np.intp] | None, **more: Any) -> Target:
    """The rows of a chunk as a target; they were checked in the first pass."""
    made = object.__new__(Target)
    made._set(
        scores=chunk.scores,
        kind=kind,
        classes=None,
        weights=chunk.weights,
        predictions=predictions,
        second=chunk.second,
        ids=chunk.ids,
        columns=chunk.columns,
        correction=0.0,
        decided=None,
        kept=None,
        notes=(),
        _by_place=False,
    )
    made._set(**more)
    return made


def columns_of(view: View) -> Mapping[str, npt.NDArray[Any]]:
    """Other columns of a chunk's rows."""
    found: Mapping[str, npt.NDArray[Any]] = vars(view.sample)["columns"]
    return found


def numbers_of(view: View) -> npt.NDArray[np.intp]:
    """(m,) the numbers that the rows of a sample have in the scan it was drawn from."""
    found: npt.NDArray[np.intp] = vars(view.sample)["rows"]
    return found


def summed(weights: Array, values: npt.NDArray[Any]) -> Any:
    """sum_i w_i v_i of (b,) or (b, m) values, always in the same order.

    A product by BLAS may be split among threads, and would then depend on how many whoever carries it has.
    """
    return np.einsum("i,i...->...", weights, values)


def block_of(view: View, start: int) -> Block:
    """A chunk's view as transport reads it."""
    return Block(
        view.probs,
        start,
        view.sample.weights,
        view.predictions,
        lambda: view.calibration.log_probs(view.sample),
    )


class _Rows:
    """The scan's rows as `shiftgauge.transport.Blocks`."""

    def __init__(self, view: ScanView) -> None:
        self._view = view
        self.n, self.k = view.n, view.k
        self.passes = 0

    def reduce(self, step: Callable[..., S], *state: Any) -> S:
        """The sum of step(block, *state) over all chunks, in one pass."""
        self.passes += 1
        return self._view.fold_numbered(lambda view, start: step(block_of(view, start), *state))


def view_of(target: Target | Scan, calibration: Calibration) -> View | ScanView:
    """A calibrated look at a target: at all of it where it is small, else as a fold over chunks."""
    if isinstance(target, Scan):
        return ScanView(target, calibration)
    if sample_step(target.n, target.k) == 1:
        return View(target, calibration)
    return ScanView(scan_of(target), calibration)


def check_target(given: Any, verb: str) -> None:
    """Refuse what is neither a `Target` nor a `Scan`."""
    if not isinstance(given, Scan):
        check_sample(given, Target, verb)


class ScanView:
    """A scan through a calibration: what `View` is to a sample that fits into memory.

    Formulas are the same: `fold`, `mean` and `shares` take a function of a `View`, here of one chunk after the
    other. `home` is a view of rows that were drawn by their numbers alone and are kept; whatever needs no more than a
    sample (bins, starting points, figures, resampling) is read off it.
    """

    def __init__(self, scan: Scan, calibration: Calibration) -> None:
        self.sample, self.calibration = scan, calibration
        self.n, self.k = scan.n, scan.k
        self._known = Memo()

    def once(self, key: Any, compute: Callable[[], T]) -> T:
        """What `compute` returns, computed the first time that the key is asked for."""
        return self._known.get(key, compute)

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """The results of several tasks that fold over this scan; they share its passes."""
        return self.sample.together(tasks)

    @property
    def n_effective(self) -> float:
        """The effective number of rows."""
        return self.sample.n_effective

    # -- folds ---------------------------------------------------------------------------------------

    def fold_numbered(self, step: Callable[[View, int], S], columns: Sequence[str] = ()) -> S:
        """The sum of `step(view of a chunk, number of its first row)`."""
        scan = self.sample
        found: S = scan.fold(Calibrated(step, self.calibration, scan.kind), columns)
        return found

    def fold(self, step: Callable[[View], S]) -> S:
        """The sum of `step(view of a chunk)` over all chunks, in one pass."""
        return self.fold_numbered(lambda view, start: step(view))

    def each(self, step: Callable[[View, int], S]) -> Iterator[list[S]]:
        """What the step gives for the chunks of every part, part by part in their order, read by this process."""
        scan = self.sample
        read = Calibrated(step, self.calibration, scan.kind)
        yield from in_turn(
            lambda at: scan.chunk_results(read, *at), list(zip(scan.parts, scan.starts, strict=True))
        )

    def mean(self, of: Callable[[View], Any]) -> Any:
        """The mean, by mass, of (b,) or (b, m) numbers that `of` gives for the rows of a view."""

        def step(view: View) -> Total:
            return Total((summed(view.weights, of(view)), float(view.weights.sum())))

        total, mass = self.fold(step)
        return total / mass

    def share(self, of: Callable[[View], npt.NDArray[np.bool_]]) -> float:
        """The share of mass in the rows that `of` marks."""
        return float(min(1.0, self.mean(of)))

    def shares(self, cell: Callable[[View], npt.NDArray[np.intp]], cells: int) -> Array:
        """(cells,) the share of mass in each cell; `cell` gives the rows' cells, (b,) or (b, m) of several kinds."""

        def step(view: View) -> Total:
            return Total((np.bincount(cell(view), view.weights, cells), float(view.weights.sum())))

        total, mass = self.fold(step)
        return np.asarray(total / mass)

    # -- what formulas ask for -----------------------------------------------------------------------

    @property
    def second(self) -> bool | None:
        """Whether a second model's predictions came along."""
        return True if self.sample.has_second else None

    @property
    def _first(self) -> tuple[Array, Array, Array, View]:
        """(K,) each: predicted shares, mean probabilities, mean squares of them; and rows to keep: one pass for all."""
        return self.once("first", self._read_first)

    @property
    def pseudo_labels(self) -> Array:
        """(K,) the share of mass predicted as each class."""
        return self._first[0]

    @property
    def mean_posterior(self) -> Array:
        """(K,) the mean probability of each class."""
        return self._first[1]

    @property
    def mean_square(self) -> Array:
        """(K,) the mean of each class's squared probability."""
        return self._first[2]

    def transport(self, marginal: Array) -> Streamed:
        """The optimal transport of all rows to the label masses; solved once per marginal."""

        def solve() -> Streamed:
            return solve_blocks(_Rows(self), marginal, sample=self.drawn)

        return self.once(("hard", marginal.tobytes()), solve)

    def cost_shares(self, marginal: Array, at: float, low: float, high: float) -> tuple[float, float]:
        """The share of mass whose transport cost is `at` or more, and of rows whose side of the cut ties leave open."""
        plan = self.transport(marginal)

        def step(view: View, start: int) -> Total:
            block = block_of(view, start)
            pieces = plan.pieces(block)
            least, most = plan.cost_range(block, marginal)
            w = view.weights
            tied = w[(most >= low) & (least < high)].sum()
            return Total((pieces.mass[pieces.cost >= at].sum(), tied, w.sum()))

        beyond, tied, mass = self.fold_numbered(step)
        return float(min(1.0, beyond / mass)), float(min(1.0, tied / mass))

    def soft_transport(self, marginal: Array) -> SoftPlan:
        """SCOT's plan for the label masses; solved once per marginal."""

        def solve() -> SoftPlan:
            found = soft_blocks(_Rows(self), marginal, sample=self.drawn)
            return SoftPlan(
                lambda view: found.posterior(block_of(view, 0)),
                found.marginal_error,
                found.passes,
                found.kept,
            )

        return self.once(("soft", marginal.tobytes()), solve)

    def label_shares(self, prior: Array) -> LabelShares:
        """The label shares that make these rows likeliest, if posteriors with that prior were right (MLLS)."""

        def solve() -> LabelShares:
            if self.home.n == self.n:  # all rows are at hand
                return self.home.label_shares(prior)
            found = likely_shares(_Rows(self), prior, sample=self.drawn)
            return LabelShares(found.shares, found.weights, found.gap, found.passes)

        return self.once(("shares", prior.tobytes()), solve)

    @property
    def has_zeros(self) -> bool:
        """Whether a given probability is exactly zero."""
        return self.sample.kind == "probs" and self.sample.opening.zeros

    # -- a sample at home ------------------------------------------------------------------------------

    @property
    def home(self) -> View:
        """A view of some rows that are kept, drawn by their numbers: all, where they are few."""
        return self._first[3]

    def _read_first(self) -> tuple[Array, Array, Array, View]:
        n, step = self.n, sample_step(self.n, self.k)

        def read(view: View, start: int) -> Total:
            rows, held = sampled_rows(start, view.n, n, step), view.sample
            second = rows if view.second is None else view.second[rows]
            ids = rows if held.ids is None else held.ids[rows]
            taken = (rows + start, held.scores[rows], view.predictions[rows], view.weights[rows], second, ids)
            return Total((*_moments(view), Pile((taken,))))

        h, p, square, mass, pile = self.fold_numbered(read)
        return h / mass, p / mass, square / mass, self._kept(*pile.joined())

    def _kept(self, rows: Any, scores: Any, predictions: Any, weights: Array, second: Any, ids: Any) -> View:
        scan = self.sample
        chunk = Chunk(
            scores,
            weights=weights if scan.weighted else None,
            second=second if scan.has_second else None,
            ids=ids if scan.has_ids else None,
        )
        made = as_target(chunk, scan.kind, predictions, classes=scan.classes, rows=rows)
        return View(
            made,
            self.calibration,
            probs=calibrated(made, self.calibration)[0],  # to the last bit what a pass sees
            n_effective=None if len(rows) == self.n else scan.n_effective,
        )

    @property
    def drawn(self) -> Sample:
        """The sample at home as transport reads it."""
        home = self.home
        return Sample(
            numbers_of(home),
            home.probs,
            home.weights,
            self.n,
            self.sample.mass,
            self.sample.weighted,
        )


def _moments(view: View) -> Total:
    w, p = view.weights, view.probs
    h = np.bincount(view.predictions, w, view.k)
    return Total((h, summed(w, p), np.einsum("i,ij,ij->j", w, p, p), float(w.sum())))
