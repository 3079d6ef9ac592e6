"""The doctor: every reason not to believe the number, looked for and named."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labelfree.trust.checks import CAUTION, CHECKS, OK, STOP, Case, Check
from labelfree.trust.shift_test import ShiftVerdict, check_samples
from labelfree.types import Source, Target


@dataclass(frozen=True)
class Diagnosis:
    """All findings.

    Attributes:
        checks: one per thing looked at, in a fixed order.
        shift_test: the label-shift test behind "which shift" and "pseudo-label shift", in full.
    """

    checks: tuple[Check, ...]
    shift_test: ShiftVerdict

    @property
    def status(self) -> str:
        """The worst of all: `"ok"`, `"caution"` or `"stop"`."""
        seen = {check.status for check in self.checks}
        return STOP if STOP in seen else CAUTION if CAUTION in seen else OK

    def __getitem__(self, name: str) -> Check:
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "status": self.status,
            "checks": [check.to_dict() for check in self.checks],
            "shift_test": self.shift_test.to_dict(),
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Everything as JSON."""
        return json.dumps({"schema": 1, **self.to_dict()}, indent=indent, allow_nan=False)

    def __repr__(self) -> str:
        lines = [f"diagnosis: {self.status}"]
        for check in self.checks:
            lines.append(f"  {check.status:<8} {check.name}: {check.meaning}")
            if check.advice:
                lines.append(f"           -> {check.advice}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        body = "".join(
            f"<tr><td>{c.status}</td><td>{html.escape(c.name)}</td><td>{html.escape(c.meaning)}</td>"
            f"<td>{html.escape(c.advice)}</td></tr>"
            for c in self.checks
        )
        return f"<p>diagnosis: <b>{self.status}</b></p><table>{body}</table>"


def doctor(
    source: Source,
    target: Target,
    *,
    calibration: str = "temperature",
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Look for every known reason not to believe an estimate for this source and target.

    Args:
        source: scores with labels.
        target: scores without.
        calibration: as for every method.
        seed: of the label-shift test's bootstrap, where one is needed.
        progress: called with the name of each check as it begins.

    >>> import numpy as np, labelfree as lf
    >>> rng = np.random.default_rng(0); z = rng.normal(size=(9000, 3)) * 2
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(1)
    >>> doctor(lf.Source(logits=z[:5000], labels=y[:5000]), lf.Target(logits=z[5000:])).status
    'ok'
    """
    check_samples("doctor", source, target)
    say = progress or (lambda step: None)
    case = Case.of(source, target, calibration, seed)
    found = []
    for check in CHECKS:
        say(f"checking {check.__name__.replace('_', ' ')}")
        found.append(check(case))
    return Diagnosis(tuple(found), case.shift)
