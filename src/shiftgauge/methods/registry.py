"""All methods by name. A new method adds its file, its test and one line here."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from shiftgauge.errors import FileError, InputError, nearest
from shiftgauge.methods.ac import AC
from shiftgauge.methods.atc import ATCMC, ATCNE
from shiftgauge.methods.auto import Auto
from shiftgauge.methods.base import Estimator
from shiftgauge.methods.cbpe import CBPE
from shiftgauge.methods.cot import COT
from shiftgauge.methods.cott import COTT
from shiftgauge.methods.doc import DoC
from shiftgauge.methods.entropy import Entropy
from shiftgauge.methods.gde import GDE
from shiftgauge.methods.im import IM
from shiftgauge.methods.label_shift import LabelShift
from shiftgauge.methods.mano import MaNo
from shiftgauge.methods.nuclear_norm import NuclearNorm
from shiftgauge.methods.saved import read_document
from shiftgauge.methods.scot import SCOT
from shiftgauge.methods.unchanged import Unchanged

METHODS: dict[str, type[Estimator]] = {
    method.name: method
    for method in (
        *(Unchanged, AC, DoC, IM, CBPE, GDE, ATCMC, ATCNE, COT, COTT, SCOT, LabelShift, Auto),
        *(Entropy, NuclearNorm, MaNo),
    )
}

#: The method that answers unless another is named.
DEFAULT = "auto"


def find(name: str) -> type[Estimator]:
    """The method of that name; an unknown one is refused with the nearest known name."""
    if not isinstance(name, str) or name not in METHODS:
        known = ", ".join(METHODS)
        raise InputError(f"method {name!r} is not known{nearest(str(name), METHODS)} (known: {known})")
    return METHODS[name]


def accepts(method: type[Estimator], option: str) -> bool:
    """Whether the method's constructor takes the option."""
    return option in inspect.signature(method.__init__).parameters


def load(path: str | Path) -> Estimator:
    """Read a fitted estimator from the JSON file that its `save` wrote. Nothing is unpickled.

    Samples are read by `Source.load` and `Target.load`.
    """
    name = read_document(path)["method"]
    if not isinstance(name, str) or name not in METHODS:
        raise FileError(f"{path}: holds the unknown method {name!r}; was it saved by a newer shiftgauge?")
    return METHODS[name].load(path)


def make(name: str, **options: Any) -> Estimator:
    """A new estimator by name; an option that the method does not take is refused."""
    method = find(name)
    for option in options:
        if not accepts(method, option):
            takers = ", ".join(n for n, m in METHODS.items() if accepts(m, option)) or "no method"
            raise InputError(f"{name} takes no {option}=; {takers} would")
    return method(**options)
