"""The protocol: every method on every collected shift, as one flat table of estimates beside the truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import shiftgauge as sg
from shiftgauge.calibration import fit_calibration
from shiftgauge.errors import InputError
from shiftgauge.experiments.progress import Progress, silent
from shiftgauge.experiments.records import read_records, write_records
from shiftgauge.experiments.scores import Recorded
from shiftgauge.experiments.shards import Shard
from shiftgauge.experiments.sweep import Sweep, Unit
from shiftgauge.labelshift.marginal import total_variation
from shiftgauge.methods import METHODS
from shiftgauge.methods.registry import accepts, make
from shiftgauge.rows import Rows

SHRUNK = "+shrunk"
"""Suffix of a method with the noise-aware marginal."""
MARGINALS = ("source", "uniform")


@dataclass(frozen=True)
class Row:
    """One method on one shift. ``estimate`` is an error, or a score where ``is_score``."""

    dataset: str
    network: str
    seed: int
    shift: str
    kind: str
    n: int
    true_error: float
    pseudo_shift: float
    method: str
    estimate: float
    is_score: bool = False

    @property
    def miss(self) -> float:
        """Absolute difference to the truth."""
        return abs(self.estimate - self.true_error)


def check_shares(marginal: str, option: str = "the marginal") -> str:
    """The label shares asked for by ``option``, if they are known ones."""
    if marginal not in MARGINALS:
        raise InputError(f"{option} is {marginal!r}; it must be one of {', '.join(MARGINALS)}")
    return marginal


def label_shares(marginal: str, labels: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """The label shares (K,) called ``source`` (those of ``labels``) or ``uniform``."""
    if check_shares(marginal) == "uniform":
        return np.full(classes, 1 / classes)
    return np.asarray(np.bincount(labels, minlength=classes) / len(labels))


class Panel:
    """All methods fitted once on a source; each target is then calibrated and transported once.

    ``marginal`` is ``source`` (the source's label shares, as the paper says) or ``uniform`` (as its authors'
    code takes for CIFAR, ImageNet and BREEDS).
    """

    def __init__(
        self,
        source: Recorded,
        calibration: str = "temperature",
        methods: Sequence[str] = (),
        marginal: str = "source",
    ) -> None:
        check_shares(marginal)
        sample = sg.Source(logits=source.logits, labels=source.labels)
        self._calibration = fit_calibration(calibration, sample)
        rows = Rows.of(sample).calibrated(self._calibration)
        classes = source.logits.shape[1]
        plain: Any = "source" if marginal == "source" else label_shares(marginal, source.labels, classes)
        self._methods = []
        for name, method in METHODS.items():
            variants = {"": plain, SHRUNK: "shrunk"} if accepts(method, "marginal") else {"": None}
            for suffix, masses in variants.items():
                if methods and name + suffix not in methods:
                    continue
                options: dict[str, Any] = {} if masses is None else {"marginal": masses}
                estimator = make(name, calibration=calibration, **options).fit_rows(rows)
                self._methods.append((name + suffix, estimator))

    def estimate(
        self, logits: NDArray[Any], second: NDArray[Any] | None = None
    ) -> dict[str, tuple[float, bool]]:
        """Method -> (estimate, whether it is a score); GDE only where ``second`` predictions are given."""
        target = Rows.of(sg.Target(logits=logits, second=second)).calibrated(self._calibration)
        found = {}
        for label, estimator in self._methods:
            if estimator.needs_second and second is None:
                continue
            estimate = estimator.estimate_rows(target)
            value = estimate.score if estimate.error is None else estimate.error
            if value is not None:
                found[label] = (value, estimate.error is None)
        return found


FORMS = ("projnorm", "projnorm-short")
"""The two forms of ProjNorm: the paper's, and ours of a few steps from the initial weights."""


def sweep(calibration: str = "temperature", marginal: str = "source") -> Sweep[Row]:
    """Every method on every collected shift.

    GDE's second network is the next seed's (the last one's is the first seed's). ProjNorm joins where it
    was computed. ``marginal`` are the label shares to transport to: ``source`` or ``uniform``.
    """
    return Sweep(
        "estimates",
        Row,
        lambda source: Panel(source, calibration, marginal=marginal),
        _estimates,
        {"calibration": calibration, "marginal": marginal},
    )


def run(
    runs: Path, dataset: str, network: str, calibration: str = "temperature", marginal: str = "source",
    shard: Shard | None = None, progress: Progress = silent,
) -> list[Row]:  # fmt: skip
    """Every method on every collected shift of every seed."""
    return sweep(calibration, marginal).run(runs, dataset, network, shard, progress)


def _estimates(panel: Panel, unit: Unit) -> list[Row]:
    target = unit.target()
    found = panel.estimate(target.logits, unit.second())
    for form in FORMS:
        value = unit.scores.projnorm(unit.shift, form)
        if value is not None:
            found[form] = (value, True)
    return rows_of(unit, target, found)


def rows_of(unit: Unit, target: Recorded, found: Mapping[str, tuple[float, bool]]) -> list[Row]:
    """A row for every method's answer, beside the truth."""
    pseudo = pseudo_label_shift(target)
    return [
        Row(
            unit.dataset, unit.network, unit.seed, unit.shift, target.kind, len(target.labels), target.error,
            pseudo, name, value, is_score,
        )
        for name, (value, is_score) in found.items()
    ]  # fmt: skip


def pseudo_label_shift(target: Recorded) -> float:
    """Total variation between the predicted and the true label shares of a target."""
    k, n = target.logits.shape[1], len(target.labels)
    predicted = np.bincount(target.logits.argmax(1), minlength=k) / n
    return total_variation(predicted, np.bincount(target.labels, minlength=k) / n)


def read_rows(path: Path) -> list[Row]:
    """Read a table of estimates."""
    return read_records(path, Row)


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a table of estimates."""
    write_records(path, Row, rows)
