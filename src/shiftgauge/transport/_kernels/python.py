"""The exact solver's kernels as Python itself runs them: for problems that are solved before they would be compiled."""

from __future__ import annotations

import time
from types import FunctionType, SimpleNamespace
from typing import Any

from shiftgauge.transport._kernels import base, bidding, moves, passes, search

KERNELS = ("auction", "audit", "best_classes", "drive", "may_move", "patch", "start")


class LateError(Exception):
    """The search takes longer than it was given."""


def python_kernels(seconds: float) -> SimpleNamespace:
    """The kernels by name; each calls the Python form of its parts, found in a copy of its module's names.

    A search that has not ended after so many seconds of this thread raises `LateError` between two phases.
    """
    spaces = {module.__name__: dict(vars(module)) for module in (base, bidding, moves, passes, search)}
    ends = time.thread_time() + seconds

    def twin(value: Any) -> Any:
        function = getattr(value, "py_func", None)
        if function is None or function.__module__ not in spaces:
            return value
        return FunctionType(function.__code__, spaces[function.__module__], function.__name__)

    for space in spaces.values():
        space.update({name: twin(value) for name, value in space.items()})
    plan = spaces[search.__name__]["plan"]

    def watched(*args: Any) -> Any:
        if time.thread_time() > ends:
            raise LateError
        return plan(*args)

    spaces[search.__name__]["plan"] = watched
    held = {name: value for space in spaces.values() for name, value in space.items()}
    return SimpleNamespace(**{name: base.plain(held[name]) for name in KERNELS})
