"""The protocol: every method on every collected shift, as one flat table of estimates beside the truth."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import labelfree as lf
from labelfree.calibration import fit_calibration
from labelfree.errors import FileError
from labelfree.estimators import METHODS
from labelfree.estimators.registry import accepts, make
from labelfree.estimators.view import View
from labelfree.experiments._store import Progress, write_text
from labelfree.experiments.scores import Recorded, Scores, seeds_of
from labelfree.labelshift.marginal import total_variation

SHRUNK = "+shrunk"
"""Suffix of a method with the noise-aware marginal."""


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


class Panel:
    """All methods fitted once on a source; each target is then calibrated and transported once."""

    def __init__(
        self, source: Recorded, calibration: str = "temperature", methods: Sequence[str] = ()
    ) -> None:
        sample = lf.Source(logits=source.logits, labels=source.labels)
        self._view = View(sample, fit_calibration(calibration, sample))
        self._methods = []
        for name, method in METHODS.items():
            variants = ["source", "shrunk"] if accepts(method, "marginal") else [None]
            for marginal in variants:
                label = name + SHRUNK if marginal == "shrunk" else name
                if methods and label not in methods:
                    continue
                options: dict[str, Any] = {} if marginal is None else {"marginal": marginal}
                estimator = make(name, calibration=calibration, **options).fit_view(self._view)
                self._methods.append((label, estimator))

    def estimate(
        self, logits: NDArray[Any], second: NDArray[Any] | None = None
    ) -> dict[str, tuple[float, bool]]:
        """Method -> (estimate, whether it is a score); GDE only where ``second`` predictions are given."""
        view = View(lf.Target(logits=logits, second=second), self._view.calibration)
        found = {}
        for label, estimator in self._methods:
            if estimator.needs_second and second is None:
                continue
            estimate = estimator.estimate_view(view)
            value = estimate.score if estimate.error is None else estimate.error
            if value is not None:
                found[label] = (value, estimate.error is None)
        return found


def run(
    runs: Path, dataset: str, network: str, calibration: str = "temperature", progress: Progress | None = None
) -> list[Row]:
    """Every method on every collected shift of every seed.

    GDE's second network is the next seed's (the last one's is the first seed's). ProjNorm joins where it
    was computed.
    """
    seeds = seeds_of(runs, dataset, network)
    collected = [Scores.of(runs, dataset, network, seed) for seed in seeds]
    total = sum(len(scores.shifts()) for scores in collected)
    rows: list[Row] = []
    done = 0
    for index, (seed, scores) in enumerate(zip(seeds, collected, strict=True)):
        panel = Panel(scores.read(), calibration)
        other = collected[(index + 1) % len(seeds)] if len(seeds) > 1 else None
        for shift in scores.shifts():
            target = scores.read(shift)
            second = other.read(shift).logits.argmax(1) if other is not None and other.has(shift) else None
            found = panel.estimate(target.logits, second)
            projnorm = scores.projnorm(shift)
            if projnorm is not None:
                found["projnorm"] = (projnorm, True)
            pseudo = pseudo_label_shift(target)
            rows += [
                Row(
                    dataset,
                    network,
                    seed,
                    shift,
                    target.kind,
                    len(target.labels),
                    target.error,
                    pseudo,
                    *parts,
                )
                for parts in ((name, value, score) for name, (value, score) in found.items())
            ]
            done += 1
            if progress:
                progress(done, total, f"seed {seed}, {shift}")
    return rows


def pseudo_label_shift(target: Recorded) -> float:
    """Total variation between the predicted and the true label shares of a target."""
    k, n = target.logits.shape[1], len(target.labels)
    predicted = np.bincount(target.logits.argmax(1), minlength=k) / n
    return total_variation(predicted, np.bincount(target.labels, minlength=k) / n)


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write the table as CSV, six decimals."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: f"{v:.6f}" if isinstance(v, float) else v for key, v in asdict(row).items()})
    write_text(path, text.getvalue())


def read_rows(path: Path) -> list[Row]:
    """Read a table that ``write_rows`` wrote."""
    try:
        with path.open(newline="") as file:
            return [_row(line) for line in csv.DictReader(file)]
    except FileNotFoundError:
        raise FileError(f"{path} does not exist; run `labelfree bench run` first") from None
    except (KeyError, ValueError, TypeError) as error:
        raise FileError(f"{path} is not a table of estimates ({error})") from None


def _row(line: dict[str, str]) -> Row:
    return Row(
        line["dataset"],
        line["network"],
        int(line["seed"]),
        line["shift"],
        line["kind"],
        int(line["n"]),
        float(line["true_error"]),
        float(line["pseudo_shift"]),
        line["method"],
        float(line["estimate"]),
        line["is_score"] == "True",
    )
